"""Several visitors at once, and what is left when they are gone: tried from outside, against the real application."""

from __future__ import annotations

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path

import httpx
import pytest
from microscope_visits import Visit, in_own_loop, png

from arr_coc.app.microscope.desk import Desk, PageLimits
from arr_coc.app.microscope.serving import build_app


def test_four_questions_at_once_each_get_their_own_answer(server, tmp_path):
    """Right is the answer that the same picture and question get when nobody else asks."""
    from arr_coc_lab.worlds.needle import render
    from arr_coc_lab.worlds.needle.export import picture

    batch = render("cards", 4, (128, 128), 7, "test")
    asked = []
    for number in range(4):
        path = tmp_path / f"card-{number}.png"
        picture(batch, number).save(path)
        alone = server.desk.eye("mini").set_image(str(path)).ask(batch.questions[number], 0.625)
        asked.append((path, batch.questions[number], alone))
    assert len({alone.text for *_, alone in asked}) > 2, "answers that are all alike could be swapped unseen"
    with ThreadPoolExecutor(4) as people:
        pages = list(people.map(lambda one: Visit(server.address).ask(one[0], one[1], 62.5), asked))
    for (_, _, alone), html in zip(asked, pages, strict=True):
        said = re.search(r'id="answer">(.*?)</p>', html)
        assert said is not None
        assert unescape(said[1]) == (alone.text or "(nothing)")
        assert f"{alone.tokens} of {alone.full} tokens" in html


def test_names_of_uploads_cannot_be_guessed(server):
    """A picture is reached by a name of 64 random-looking digits; without it, another visitor finds nothing."""
    mine = Visit(server.address)
    (path,) = mine.upload("private.png", png(50, 50, seed=3)).json()
    folder = Path(path).parent
    assert re.fullmatch(r"[0-9a-f]{64}", folder.name)
    other = Visit(server.address)
    assert other.http.get(f"gradio_api/file={folder}").status_code in (403, 404)
    assert other.http.get(f"gradio_api/file={folder.parent}/private.png").status_code in (403, 404)
    assert "private.png" not in other.http.get("config").text


def test_the_queue_has_a_limit():
    pytest.importorskip("gradio")
    desk = Desk()
    try:
        small = build_app(desk, limits=PageLimits(queue=2))
        blocks = small.application.routes[-1].app.get_blocks()  # type: ignore[attr-defined]
        number = next(one["id"] for one in blocks.config["dependencies"] if one["api_name"] == "ask")
        data = [None, None, "What is it?", 25, "mini", 1]

        async def crowd() -> list[int]:
            # Nobody serves this queue, so that everything put into it waits.
            async with httpx.AsyncClient(transport=httpx.ASGITransport(small), base_url="http://127.0.0.1") as client:
                found = []
                for visitor in range(4):
                    message = {"data": data, "fn_index": number, "session_hash": f"visitor{visitor}"}
                    found.append((await client.post("/gradio_api/queue/join", json=message)).status_code)
                return found

        assert in_own_loop(crowd()) == [200, 200, 503, 503]
    finally:
        desk.close()


def test_told_to_end_it_removes_what_visitors_left(zygote, tmp_path):
    pytest.importorskip("gradio")
    with zygote.going(tmp_path, "microscope", "--bind", "0", environment={"TMPDIR": str(tmp_path)}) as process:
        assert process.line.startswith("The microscope is at http://127.0.0.1:")
        assert list(tmp_path.glob("arr-coc-microscope-*"))
        # An open page holds a stream that never ends by itself.
        with httpx.stream(
            "GET",
            f"{process.line.split()[4]}gradio_api/heartbeat/somebody",
            timeout=60,
        ) as heartbeat:
            assert heartbeat.status_code == 200
            os.kill(process.pid, signal.SIGTERM)
            ended = process.ended()
    assert ended.err == ""
    assert ended.code == 0
    assert not list(tmp_path.glob("arr-coc-microscope-*"))


def test_without_gradio_it_says_so_in_one_line_and_starts_nothing(run):
    code = "import sys; sys.modules['gradio'] = None; from arr_coc.app.cli import main; main(['microscope'])"
    ended = run(code, call="zygote:execute")
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert 'pip install "arr-coc[microscope]"' in ended.err


def test_uploads_that_nobody_asks_about_do_not_pile_up(monkeypatch):
    from arr_coc.app.microscope import desk as desks

    desk = Desk()
    try:
        folders = [desk.folder / f"upload-{number}" for number in range(6)]
        for age, folder in enumerate(reversed(folders)):  # the first is the oldest
            folder.mkdir()
            (folder / "a.png").write_bytes(png(40, 40, seed=age))
            os.utime(folder / "a.png", (time.time() - 600 * age,) * 2)
        examples = Path(desk.example("form.png"))
        monkeypatch.setattr(desks, "UPLOADS", 4)
        desk.sweep_uploads()
        assert [folder.exists() for folder in folders] == [False, False, True, True, True, True]
        desk.prepared(str(folders[2] / "a.png"))  # asked about: now the youngest
        monkeypatch.setattr(desks, "UPLOAD_SECONDS", 900)
        desk.sweep_uploads()
        assert [folder.exists() for folder in folders] == [False, False, True, False, True, True]
        monkeypatch.setattr(desks, "UPLOAD_BYTES", 1)
        desk.sweep_uploads()
        assert not any(folder.exists() for folder in folders)
        assert examples.exists()
    finally:
        desk.close()
