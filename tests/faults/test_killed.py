"""kill -9 while something is written: what is there afterwards is whole, and the command can be run again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from pathlib import Path

import pytest
from batch_runs import written
from fault_runs import COMMANDS, STORED, assert_whole, hidden, words
from forked import Run
from safetensors import safe_open

from arr_coc.core.errors import InputError
from arr_coc.core.folders import verify
from arr_coc.realizing.bundled import Calibration

# `make fuzz` kills more often, by another lot.
LONG = "ARR_COC_FUZZ_SECONDS" in os.environ
SEED, KILLS = int(os.environ.get("ARR_COC_FUZZ_SEED", "5")), 12 if LONG else 2


@pytest.mark.parametrize("name", list(COMMANDS))
def test_what_a_killed_command_leaves_is_whole(run: Run, things: Path, tmp_path: Path, name: str) -> None:
    chance, out, copy = random.Random(f"{SEED} {name}"), tmp_path / "out", tmp_path / "out" / "copy"
    if "{copy}" in COMMANDS[name][0]:
        for part in ("mini", "scorer"):
            shutil.copytree(things / part, copy / part)
    first, second = (words(text, things, copy) for text in COMMANDS[name])
    before = run(*first)
    assert before.code == 0, before.err
    assert_whole(out)
    assert not [path for path in out.rglob("*") if hidden(path, out)]
    assert before.events is not None
    # The last event is the rarest to be hit by chance; the others by lot, at once or a moment later.
    moments = [(before.events, 0.0)]
    moments += [(chance.randint(1, before.events), chance.choice((0.0, 0.004 * chance.random()))) for _ in range(KILLS)]
    hit = 0
    for event, delay in moments:
        ended = run(*second, event=event, delay=delay)
        hit += ended.code == -9
        assert ended.code in (-9, 0), ended.err
        assert_whole(out)
        if name == "train":
            for part in ("mini", "scorer"):
                refused_or_whole(out / "export" / part)
        if copy.exists():
            assert Calibration.beside(copy / "mini").temperature > 0
    assert hit, "the moments were badly chosen"
    again = run(*second)
    assert again.code == 0, again.err
    assert_whole(out)
    if name == "train":
        verify(out / "export" / "mini")


def test_a_killed_batch_keeps_whole_parts_and_goes_on_with_every_row_once(run: Run, tmp_path: Path) -> None:
    """Its driver, at any thing it does to files; the workers have their own test (tests/batch)."""
    how = {"call": "fault_runs:store_rows", "path": [str(Path(__file__).parent)]}
    whole = run("whole", **how)
    assert whole.code == 0, whole.err
    assert whole.events is not None
    every = range(1, whole.events + 1)
    chance = random.Random(SEED)
    for event in every if LONG else {*chance.sample(every, 3), whole.events}:
        out = tmp_path / str(event)
        assert run(out, **how, event=event).code == -9
        assert_whole(out)
        before = [row["path"] for row in written(out)]
        assert before == [f"{number}.png" for number in range(len(before))]
        again = run(out, **how)
        assert again.code == 0, again.err
        assert [row["path"] for row in written(out)] == [f"{number}.png" for number in range(STORED)]
        assert not list(out.glob(".part-*"))


def refused_or_whole(folder: Path) -> None:
    """Files of two exports side by side must not load; the stock classes would take them."""
    with contextlib.suppress(InputError):
        verify(folder)
        for path in folder.glob("*.safetensors"):
            with safe_open(path, "pt") as file:
                assert list(file.keys())


def test_leftovers_of_a_killed_command_are_not_taken_for_pictures(run: Run, things: Path, tmp_path: Path) -> None:
    shutil.copy(things / "street.png", tmp_path / "street.png")
    (tmp_path / "scans").mkdir()
    shutil.copy(things / "street.png", tmp_path / "scans" / "street.png")
    (tmp_path / "scans" / ".street.homunculus-x1y2.png").write_bytes((things / "street.png").read_bytes()[:100])
    ended = run("look", "scans", "red", "--json", "--out", "out")
    assert ended.code == 0, ended.err
    assert len(json.loads(ended.out)["looks"]) == 1
