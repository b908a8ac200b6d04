"""Two thousand rows by Ray and by processes, a worker and the driver killed: each exactly once. `make test-ray`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from batch_runs import QUESTIONS, arguments, expected, rows_of, run_killed, still_alive, write_pictures, written

# Two thousand rows take a minute; the suite of every day is content with those of test_batch_local.
LARGE = os.environ.get("ARR_COC_RAY") == "all"
ENGINES = {"local": "spawn_main", "ray": "ray::"}


@pytest.mark.skipif(not LARGE, reason="two thousand rows: make test-ray")
@pytest.mark.parametrize("engine", ENGINES)
def test_two_thousand_rows_each_exactly_once(tmp_path: Path, engine: str) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    folder, out = write_pictures(tmp_path / "in", 999, (64, 96)), tmp_path / "out"
    wanted = expected(folder)
    assert len(wanted) == 2000
    how = ("--engine", engine, "--workers", "2", "--set", "relevance=detail")
    line = arguments(folder, out, *how)
    worker = "Looker" if engine == "ray" else ENGINES[engine]
    orphans = run_killed(line, out, worker, (8, 40))
    before = rows_of(out)
    assert 0 < len(before) < 2000
    assert max(before.values()) == 1
    assert not still_alive(orphans, 120), "workers end with their driver"
    done = subprocess.run([*line, "--json"], capture_output=True, check=True)
    summary = json.loads(done.stdout)
    assert (summary["before"], summary["rows"]) == (len(before), 2000)
    assert rows_of(out) == wanted
    assert sum(bool(row["error"]) for row in written(out)) == len(QUESTIONS)


@pytest.mark.skipif(not LARGE, reason="Ray takes half a minute to start: make test-ray")
def test_both_engines_give_the_same_rows(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    folder = write_pictures(tmp_path / "in", 5)
    found = []
    for engine in ENGINES:
        out = tmp_path / engine
        subprocess.run(arguments(folder, out, "--engine", engine), check=True)
        found.append({(row["path"], row["query"]): row | {"seconds": 0} for row in written(out)})
    assert found[0] == found[1]
    assert len(found[0]) == 12
