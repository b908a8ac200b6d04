"""The benchmark runs on a CPU, and its report is consistent."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from arr_coc.answering.timing import advice_of
from arr_coc.app.cli import main

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "foveate_gpu.py"


def test_tiny_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))  # as for whoever runs the script
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


def test_doctor_times_a_device_and_says_what_to_set(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--device", "cpu", "--json"])
    assert not ended.value.code
    speed = json.loads(capsys.readouterr().out)["speed"]
    (case,) = speed["cases"]
    assert {row["way"]: row["tokens"] for row in case["rows"]} == {"full": 16, "map": 4, "scorer": 4, "glance": 4}
    assert all(row["total"] > 0 for row in case["rows"])
    assert len(speed["advice"]) == 1


def test_advice_is_by_the_fastest_rows():
    def case(**milliseconds):
        return {"side": 64, "rows": [{"way": way.replace("_", " + "), "total": ms} for way, ms in milliseconds.items()]}

    (line,) = advice_of([case(full=30, full_graph=20, map=1, scorer=15, glance=12, scorer_graph=10, glance_graph=14)])
    assert "2.0 times as fast" in line
    assert 'relevance="scorer", graphs=True' in line
    (line,) = advice_of([case(full=10, map=5, scorer=15, glance=12)])
    assert "all tokens are as fast" in line
