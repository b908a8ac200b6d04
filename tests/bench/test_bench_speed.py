"""The stopwatch, the scales, the naive forms and the table."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from rich.console import Console

from arr_coc.app.cli import main
from arr_coc.attending.quadtree import quadtree
from arr_coc.attending.tree import build_tree
from arr_coc_lab.bench import speed
from arr_coc_lab.bench.machine import Timing, machine_facts, processors, run_command, time_in_turns
from arr_coc_lab.bench.report import Quantity, Table
from arr_coc_lab.bench.speed import Step, heap_quadtree, relevance_maps, speed_row, speed_table, write_photo


def test_a_timing_is_a_median_between_its_quartiles() -> None:
    assert Timing.of([5.0, 1.0, 2.0, 100.0, 3.0]) == Timing(median=3.0, low=2.0, high=5.0, repeats=5)
    assert Timing.of([2.0]) == Timing(2.0, 2.0, 2.0, 1)


def test_warm_up_does_not_count_and_ways_take_turns() -> None:
    calls: list[str] = []

    def slow_at_first() -> None:
        calls.append("first")
        time.sleep(0.2 if len(calls) <= 4 else 0.0)

    timings = time_in_turns([slow_at_first, lambda: calls.append("second")], repeats=3, warm_up=2)
    assert calls == ["first", "second"] * 5
    assert timings[0].high < 0.1


def test_processors_are_given_back() -> None:
    before = torch.get_num_threads(), cv2.getNumThreads(), os.sched_getaffinity(0)
    with processors(1) as used:
        assert used == 1
        assert (torch.get_num_threads(), len(os.sched_getaffinity(0))) == (1, 1)
    assert (torch.get_num_threads(), cv2.getNumThreads(), os.sched_getaffinity(0)) == before


def test_a_commands_peak_is_its_own_and_not_ours() -> None:
    ours = np.ones(300_000_000, dtype=np.uint8)  # touched, so it is really held while the command runs
    small = run_command([sys.executable, "-c", "pass"])
    large = run_command([sys.executable, "-c", "held = b'x' * 150_000_000; import time; time.sleep(0.2)"])
    assert len(ours) > small.peak_bytes + 100_000_000
    assert 140_000_000 < large.peak_bytes - small.peak_bytes < 170_000_000
    assert large.seconds > 0.2


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="code 3: no such dragon"):
        run_command([sys.executable, "-c", "import sys; print('no such dragon', file=sys.stderr); sys.exit(3)"])


@pytest.mark.parametrize(("size", "budget"), [((32, 32), 256), ((24, 32), 60), ((8, 8), 1), ((16, 8), 128)])
def test_the_heap_finds_the_leaves_of_the_quadtree(size: tuple[int, int], budget: int) -> None:
    """The naive form must do the same work, or its time means nothing."""
    maps = np.random.default_rng(1).random((4, *size)).astype(np.float32) ** 4
    leaves = quadtree(torch.from_numpy(maps), build_tree(*size, 3), budget)
    for number, one in enumerate(maps):
        cells, scores = heap_quadtree(one, budget)
        np.testing.assert_array_equal(cells, leaves.cells[number, : int(leaves.lengths[number])])
        np.testing.assert_allclose(scores, leaves.scores[number, : len(cells)], rtol=1e-5)


def test_a_bar_is_kept_by_time_and_by_ratio() -> None:
    def verdict(measured: float, naive: float, least_ratio: float | None) -> object:
        most = Quantity(0.025, "s")
        return speed_row("x", Quantity(measured, "s"), most, "heap", Quantity(naive, "s"), least_ratio)["kept"]

    assert verdict(0.025, 0.01, None) is True
    assert verdict(0.026, 1.0, None) is False
    assert verdict(0.02, 0.4, 20) is True
    assert verdict(0.02, 0.39, 20) is False
    assert speed_row("x", Quantity(0.1, "s"), Quantity(0.5, "s"), "y", Quantity(1.0, "s"), 3)["bar"] == "≤ 500 ms ≥ 3×"


def test_a_bar_may_be_a_ratio_alone() -> None:
    row = speed_row("x", Quantity(9.0, "s"), None, "y", Quantity(27.0, "s"), 2.5)
    assert (row["bar"], row["kept"]) == ("≥ 2.5×", True)
    assert speed_row("x", Quantity(9.0, "s"), None, "y", Quantity(18.0, "s"), 2.5)["kept"] is False


def test_what_asks_the_bundled_model_is_left_out_without_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(repeats: int) -> list[speed.Row]:
        raise AssertionError("measured without weights")

    monkeypatch.setattr("arr_coc.core.folders.WEIGHTS", tmp_path)
    monkeypatch.setattr(speed, "STEPS", (Step("ask", refuse, weights=True), Step("one", lambda repeats: [])))
    table = speed_table(1)
    assert "bundled weights" in table.facts["not measured"]


def test_quantities_are_written_with_the_digits_that_count() -> None:
    assert str(Quantity(0.02514, "s")) == "25.1 ms"
    assert str(Quantity(1.234, "s")) == "1.23 s"
    assert str(Quantity(0.17, "GB")) == "170 MB"
    assert str(Quantity(12.34, "×")) == "12.3×"
    assert str(Quantity(0.5, "", 0.4, 0.61)) == "0.50 [0.40, 0.61]"
    assert Quantity(0.025, "s").rounded() == "25 ms"


def test_a_table_says_the_same_in_every_form() -> None:
    rows = (
        {"what": "a|b", "measured": Quantity(0.5, "", 0.4, 0.6), "kept": False, "hidden": 7},
        {"what": "c", "measured": None, "kept": True},
    )
    table = Table("title", {"what": "what", "measured": "measured", "kept": "verdict"}, rows, {"seed": "0"})
    console = Console(width=80)
    with console.capture() as captured:
        console.print(table.to_rich())
    for text in ("a|b", "0.50 [0.40, 0.60]", "missed", "kept", "–"):
        assert text in captured.get()
    assert table.to_markdown().splitlines()[2] == "| a\\|b | 0.50 [0.40, 0.60] | missed |"
    document = json.loads(json.dumps(table.to_json()))
    assert document["facts"] == {"seed": "0"}
    assert document["rows"][0]["measured"] == {"value": 0.5, "low": 0.4, "high": 0.6}
    assert document["rows"][0]["hidden"] == 7


def test_the_photo_has_twelve_megapixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    rows, cols = speed.PHOTO_TILES
    assert rows * cols * speed.PHOTO_TILE**2 == 12e6
    monkeypatch.setattr(speed, "PHOTO_TILE", 100)
    assert write_photo(tmp_path / "photo.jpg") == 0.12
    with Image.open(tmp_path / "photo.jpg") as photo:
        assert photo.size == (400, 300)


def test_the_look_step_measures_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "PHOTO_TILE", 400)
    wall, memory = speed.measure_look(1)
    assert wall["measured"].value > 0.1  # type: ignore[union-attr]
    # Were the two constants renamed, the naive form would do what ours does, and need no more.
    assert memory["ratio"].value > 1.5  # type: ignore[union-attr]


def test_the_sensing_steps_give_one_row_each() -> None:
    for measure, most in ((speed.STEPS[0].measure, 0.025), (speed.measure_pyramid, 0.045)):
        (row,) = measure(1)
        assert row["most"] == Quantity(most, "s")
        assert 1e-3 < row["measured"].value < 10  # type: ignore[union-attr]


def test_the_command_prints_and_writes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed, "STEPS", (Step("quadtree", speed.measure_quadtree), Step("help", speed.measure_help)))
    # Importing everything, as the naive form does, takes seconds each time; a second of sleep is as good to be beaten.
    monkeypatch.setattr(speed, "EAGER_HELP", "import time; time.sleep(1)")
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "speed", "--repeats", "1", "--json", "--out", str(tmp_path / "new")])
    assert stopped.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "new" / "speed.json").read_text())
    assert [row["what"] for row in printed["rows"]] == ["quadtree, single", "quadtree, batch 64", "arr-coc --help"]
    assert printed["rows"][2]["naive_measured"]["value"] > 1
    assert 0.01 < printed["rows"][2]["measured"]["value"] < 20
    monkeypatch.setattr(speed, "STEPS", speed.STEPS[:1])
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "speed", "--repeats", "1"])
    assert stopped.value.code == 0
    assert "of 2 bars kept" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "speed", "--repeats", "0"])
    assert stopped.value.code == 2


def test_progress_names_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "STEPS", (Step("one", lambda repeats: []), Step("two", lambda repeats: [])))
    seen: list[str] = []
    table = speed_table(2, seen.append)
    assert seen == ["one", "two"]
    assert table.facts["medians of"] == "2 (commands: 2)"
    assert set(machine_facts()) <= set(table.facts)


def test_relevance_maps_are_the_same_every_time() -> None:
    assert np.array_equal(relevance_maps(2), relevance_maps(2))
