"""The loop that every suite goes through: rows are kept, a run resumes, and the report says what the rows say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arr_coc.app.cli import main
from arr_coc.core.errors import InputError
from arr_coc_lab.bench.report import Quantity, Report, Score, Table, cells_of, share_name
from arr_coc_lab.bench.rows import BenchRow, Key, RowStore, complete
from arr_coc_lab.bench.run import BenchRun, Job, Plan, in_turn
from arr_coc_lab.bench.suite import SUITES, chosen_families, parse_shares
from arr_coc_lab.statistics import paired, proportion


def work(what: int, wanted: tuple[Key, ...]) -> list[BenchRow]:
    """Right where the number is even; the rival where it is divisible by four."""
    return [
        BenchRow("toy", *key, {"right": float(what % (2 if key.system == "ours" else 4) == 0)}, f"group {what % 2}", 8)
        for key in wanted
    ]


def slow_work(what: int, wanted: tuple[Key, ...]) -> list[BenchRow]:
    time.sleep(0.05)
    return work(what, wanted)


def plan_of(number: int = 12, done: Any = work) -> Plan:
    cells = [("ours", 0.25), ("rival", 0.25), ("ours", 1.0)]
    jobs = [Job(one, tuple(Key(f"question {one}", *cell) for cell in cells)) for one in range(number)]
    scores = [Score("right", "Exact match", baseline="ours")]
    return Plan(jobs, done, lambda rows: Report.of(rows, scores, {"seed": "1"}, ("group", "system")))


def filled(store: RowStore, plan: Plan, workers: int = 1, seconds: float | None = None) -> list[BenchRow]:
    BenchRun(None, seconds).fill(store, plan, workers)
    return store.found(key for job in plan.jobs for key in job.keys)


def test_a_torn_file_is_mended_and_only_what_is_missing_is_done(tmp_path: Path) -> None:
    path, asked = tmp_path / "toy.jsonl", []

    def counted(what: int, wanted: tuple[Key, ...]) -> list[BenchRow]:
        asked.extend(wanted)
        return work(what, wanted)

    whole = filled(RowStore(path, {"seed": 1}), plan_of(done=counted))
    assert len(asked) == len(whole) == 36
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:30]) + lines[30][:20])
    asked.clear()
    assert filled(RowStore(path, {"seed": 1}), plan_of(done=counted)) == whole
    assert len(asked) == 6
    assert path.read_bytes().splitlines(keepends=True)[:30] == lines[:30]
    with pytest.raises(InputError, match="seed"):
        RowStore(path, {"seed": 2})


def test_two_workers_find_what_one_does_and_in_the_same_order(tmp_path: Path) -> None:
    alone, together = filled(RowStore(), plan_of()), filled(RowStore(tmp_path / "toy.jsonl"), plan_of(), workers=2)
    assert alone == together


def test_nothing_begins_after_the_time_is_over() -> None:
    assert not filled(RowStore(), plan_of(), seconds=0.0)
    some = filled(RowStore(), plan_of(400, slow_work), seconds=0.4)
    assert 0 < len(some) < 300


KILLED = """
import sys
sys.path[:0] = [{here!r}]
from pathlib import Path
from test_bench_run import filled, plan_of, slow_work
from arr_coc_lab.bench.rows import RowStore
filled(RowStore(Path({path!r})), plan_of(100, slow_work), {workers})
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_run_resumes(tmp_path: Path, workers: int) -> None:
    path, here = tmp_path / "toy.jsonl", str(Path(__file__).parent)
    process = subprocess.Popen([sys.executable, "-c", KILLED.format(here=here, path=str(path), workers=workers)])
    until = time.monotonic() + 60
    while time.monotonic() < until and not (path.exists() and path.stat().st_size > 500):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = RowStore(path).rows
    assert 3 <= len(before) < 300
    assert filled(RowStore(path), plan_of(100)) == filled(RowStore(), plan_of(100))


def test_only_questions_that_every_system_answered_are_compared() -> None:
    rows = filled(RowStore(), plan_of(4))
    torn = [*rows[:-1], BenchRow("toy", *rows[-1].key, {}, rows[-1].group, extras={"error": "no picture"})]
    assert {row.question for row in complete(torn)} == {"question 0", "question 1", "question 2"}
    assert complete(rows) == rows


def test_cells_have_the_textbook_intervals_and_differences_are_paired() -> None:
    rows = filled(RowStore(), plan_of(40))
    cells = {(one.group, one.system, one.keep): one for one in cells_of(rows, [Score("right", "", baseline="ours")])}
    ours, rival = (np.array([float(number % every == 0) for number in range(40)]) for every in (2, 4))
    assert cells["all", "ours", 0.25].estimate == proportion(ours)
    assert cells["all", "rival", 0.25].minus == paired(ours, rival)
    assert cells["all", "ours", 0.25].minus is None
    assert cells["group 1", "ours", 0.25].estimate.value == 0
    assert (cells["all", "ours", 1.0].n, cells["all", "ours", 1.0].tokens) == (40, 8)


def test_questions_of_one_scene_count_once() -> None:
    values = {"a": (1.0, 0.0, 0.5), "b": (0.25,), "c": (0.75, 0.75)}
    rows = [
        BenchRow("toy", f"{scene} {place}", "ours", 0.25, {"coverage": value}, extras={"scene": scene})
        for scene, several in values.items()
        for place, value in enumerate(several)
    ]
    (cell,) = cells_of(rows, [Score("coverage", "")])
    assert (cell.n, cell.units, cell.estimate.value) == (6, 3, pytest.approx(0.5))


def test_tables_go_to_terminals_and_json() -> None:
    report = plan_of().report(filled(RowStore(), plan_of()))
    text = report.to_markdown()
    assert "| group | system | all tokens | 1/4 | n |" in re.sub(" +", " ", text)
    assert "- seed: 1" in text
    assert len({len(line) for line in report.tables[0].to_markdown().splitlines()}) == 1, "columns are aligned"
    document = json.loads(json.dumps(report.document()))
    assert {cell["system"] for cell in document["cells"]} == {"ours", "rival"}
    assert document["tables"][0]["title"] == "Exact match, %"


def test_quantities_and_shares_are_written_for_readers() -> None:
    assert str(Quantity(0.0123, "s")) == "12.3 ms"
    assert str(Quantity(2.5, "×")) == "2.50×"
    assert str(Quantity(95.04, "", 94.0, 96.0)) == "95.0 [94.0, 96.0]"
    assert Quantity(0.025, "s").rounded() == "25 ms"
    assert [share_name(one) for one in (0.0, 1.0, 1 / 8, 64.0)] == ["any budget", "all tokens", "1/8", "64 tokens"]
    assert Table("", {"a": "A", "b": "B"}, [{"a": True, "b": None}]).to_markdown().endswith("| kept | –   |")


def test_columns_are_taken_in_turn() -> None:
    assert list(in_turn(["abc", "", "d", "ef"])) == list("adebfc")


def test_shares_and_families_are_read_or_refused() -> None:
    assert parse_shares("1/8, 0.25") == (0.25, 0.125)
    for wrong in ("x", "", "0", "2", "1/0"):
        with pytest.raises(InputError, match="--keeps"):
            parse_shares(wrong)
    assert chosen_families(["zoo", "cards"]) == ("cards", "zoo")
    with pytest.raises(InputError, match="dragons"):
        chosen_families(["dragons"])


@pytest.mark.parametrize("one", SUITES, ids=lambda one: one.name)
def test_every_suite_has_its_help_by_both_commands(one, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", one.name, "--help"])
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in ("--out", "--json", "--device", "--workers", "--seconds"))
    assert callable(one.plan())
