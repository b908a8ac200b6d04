"""The benchmark runs on a CPU, and its report is consistent."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "foveate_gpu.py"


def test_tiny_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(SCRIPT))["main"](["--tiny", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "foveate_gpu.json").read_text())
    assert [(case["side"], case["batch"]) for case in report["results"]] == [(128, 1), (128, 2)]
    ways = {"full", "map", "scorer", "glance", "depth", "resize", "after"}
    graphs = {f"{way} + graph" for way in ("full", "map", "scorer", "glance")}
    for case in report["results"]:
        full = (case["side"] // 32) ** 2
        for row in case["rows"]:
            assert min(row[stage] for stage in ("search", "vision", "prefill", "total")) > 0
            assert abs(row["tokens"] - full * row["keep"]) <= (3 if row["way"] in ("resize", "after") else 0)
        assert {row["way"] for row in case["rows"]} == ways | (graphs if case["batch"] == 1 else set())
        assert all(row["tokens_per_second"] > 0 for row in case["decoding"])
    assert {check["case"] for check in report["bars"]} == {"tiny 128² × 1", "tiny 128² × 2"}
    assert report["left_out"] == []
    printed = capsys.readouterr().out.rstrip().splitlines()
    lines = [line for line in printed if line.startswith("|")]
    assert printed[-len(lines) :] == lines, "the table comes last"
    assert len(lines) == 2 + sum(len(case["rows"]) for case in report["results"])
