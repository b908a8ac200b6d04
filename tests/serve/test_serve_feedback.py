"""A server that records: every answer has a name by which a client may judge it."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

from arr_coc.answering.feedback import Feedback, entries_of
from serve_client import JSON, PINK, messages

from arr_coc_lab.train.own_data import read_own


def test_an_answer_is_recorded_and_judged_by_its_name(eye: Any, serving: Callable[..., Any], tmp_path: Path) -> None:
    import httpx

    own = copy(eye)
    own.record = Feedback(tmp_path / "feedback.jsonl")
    with serving(model=own) as served:
        reply = served.client.chat.completions.create(model="mini", messages=messages(PINK), temperature=1.0)
        name = reply.model_extra["arr_coc"]["notes"][-1].removeprefix("recorded as ")
        at = f"{served.address}/v1/feedback"
        good = httpx.post(at, json={"id": name, "judged": "better", "boxes": [[0.1, 0.1, 0.4, 0.4]]})
        assert (good.status_code, good.json()) == (200, {"id": name, "judged": "better"})
        for wrong in ({"id": name, "judged": "fine"}, {"id": "none", "judged": "right"}, {"judged": "right"}, [1]):
            refused = httpx.post(at, json=wrong)
            assert refused.status_code == 400
            assert "\n" not in refused.json()["error"]["message"]
        assert httpx.post(at, content=b"{", headers=JSON).status_code == 400
    first, judged = entries_of(tmp_path / "feedback.jsonl")
    assert (first["id"], first["query"], judged["judges"]) == (name, PINK, name)
    assert any("temperature 1 was not used" in note for note in first["notes"]), "the record tells what the answer told"
    (record,) = read_own(tmp_path / "feedback.jsonl").records
    assert record.boxes.tolist() == [[0.1, 0.1, 0.4, 0.4]]
    assert record.load().size == (256, 384), "the picture of the request is kept beside the file"


def test_a_server_that_records_nothing_says_so(server: Any) -> None:
    import httpx

    assert server.engine.eye.record is None
    assert httpx.post(f"{server.address}/v1/feedback", json={"id": "x", "judged": "right"}).status_code == 404
