"""What `bench again` counts: later questions cost what is not kept, and nothing is asked twice."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from arr_coc_lab.bench.again import AGAIN, ANEW, CACHED, FULL, SINGLE, TODAY, WAYS, AskedCost, numbers_of
from arr_coc_lab.bench.again_screens import CountedSession, steps_of

from arr_coc.attending.allocate import allocate
from arr_coc.core.errors import InputError
from arr_coc_lab.bench import again, again_many


def costs(way: str, monkeypatch, *seeds: int) -> list[float]:
    monkeypatch.setattr(again, "scorer_operations", lambda *_: (3.0, 1.0))
    shapes = again.SUITE["shapes"]
    config = SimpleNamespace(
        vision_config=SimpleNamespace(**shapes["vision"]), text_config=SimpleNamespace(**shapes["text"])
    )
    how, counted = WAYS[way], AskedCost(config, None, (512, 512), WAYS[way])
    found = []
    for seed in seeds:
        maps = np.random.default_rng(seed).random((16, 16)).astype(np.float32)
        allocation = allocate(maps, 256 if how.all else 32, order=how.order)
        found.append(counted.of(SimpleNamespace(allocation=allocation, text="seven"), "What is it?"))
    return found


def test_later_questions_cost_less_where_something_is_kept(monkeypatch):
    today, anew, used, single, full, cached = (
        costs(way, monkeypatch, 1, 2, 1) for way in (TODAY, ANEW, AGAIN, SINGLE, FULL, CACHED)
    )
    assert today[0] == pytest.approx(today[1], rel=0.01)
    assert anew[0] == anew[1] == used[0]
    assert used[2] < used[1] < used[0] - 3
    assert single[1] < used[1]
    assert full[0] == full[1] == cached[0]
    assert cached[1] < 0.05 * cached[0]


def test_what_answers_alike_is_asked_where_its_cost_is_told():
    questions = [None] * 20
    assert list(numbers_of(ANEW, [*WAYS], questions)) == [1, 2]
    assert list(numbers_of(ANEW, [ANEW], questions)) == list(range(1, 21))
    assert list(numbers_of(AGAIN, [*WAYS], questions)) == list(range(1, 21))


def test_runs_are_counted_and_a_folder_of_something_else_is_refused(tmp_path):
    session = CountedSession(SimpleNamespace(run=lambda names, feed: "made"), "states")
    assert session.run(None, {"states": np.zeros((5, 2)), "past0": np.zeros((1, 1, 7, 1))}) == "made"
    assert session.runs == [(5, 7)]
    with pytest.raises(InputError, match="--screens"):
        steps_of(tmp_path)


def test_memory_is_told_once_the_store_is_full_and_what_is_answered_otherwise_is_counted():
    def row(asked: int, resident: float, store: float) -> dict:
        return {"asked": asked, "resident": resident, "gpu": None, "store": store, "hits": 50.0}

    grows = [row(0, 100, 0), row(100, 150, 5), row(200, 200, 10), row(300, 210, 10), row(400, 220, 10)]
    facts = {"may be kept": "10 MB"}
    lines = again_many.report_of(grows, [(True, 0.0), (False, 0.25)], facts).lines
    assert any("200 MB after 200 questions, 220 MB after 400: +100.00 MB in 1000" in line for line in lines)
    assert any(
        "1 of 2, uncertainty within 2e-01" in line or "1 of 2, uncertainty within 3e-01" in line for line in lines
    )
    held = [np.ones(1 << 22)]
    before = again_many.resident()
    held.append(np.ones(1 << 24))
    assert 100 < again_many.resident() - before < 200
    with pytest.raises(InputError, match="--many 9"):
        again_many.check_many(9)
