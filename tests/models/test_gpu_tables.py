"""All tables of a GPU by one script: what fails is told and stops nothing, what was measured is kept."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
import torch

from arr_coc.answering.timing import write_report

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_tables.py"


def test_a_part_that_fails_leaves_one_line_and_what_was_measured_is_not_measured_again(tmp_path, capsys) -> None:
    if torch.cuda.is_available():
        pytest.skip("here the part would not fail")
    tables = runpy.run_path(str(SCRIPT))
    report = {"done": True, "tables": {"Mixed sizes": "| a |\n|--:|\n| 1 |"}, "left_out": ["the last"]}
    kept = write_report(tmp_path, "mixed", report, torch.device("cpu")).read_text()
    page = tmp_path / "page.md"
    page.write_text("# Speed\n\nbefore\n", encoding="utf-8")
    call = ["--out", str(tmp_path), "--parts", "glance,mixed", "--seconds", "60", "--page", str(page)]
    made = tables["main"](call)
    assert list(made["failures"]) == ["glance"]
    assert (tmp_path / "glance.error").read_text().count("\n") == 1
    assert "no CUDA device here" in made["failures"]["glance"]
    assert (tmp_path / "mixed_gpu.json").read_text() == kept
    printed = capsys.readouterr().out
    assert "mixed: measured before" in printed
    first = page.read_text()
    assert first.startswith("# Speed\n\nbefore\n")
    assert first.count("| 1 |") == 1
    facts = json.loads(kept)
    assert f"{facts['card']}, {facts['date']}, arr-coc" in first
    assert "Left out: the last." in first
    tables["write_page"](page, "| 2 |")
    assert page.read_text().count(tables["OPEN"]) == 1
    assert "| 1 |" not in page.read_text()
    write_report(tmp_path, "mixed", {**report, "done": False}, torch.device("cpu"))
    assert not tables["complete"](tmp_path / "mixed_gpu.json"), "a part that was cut off is measured again"
    assert "Not complete" in tables["tables_of"](tmp_path)


def test_an_unknown_part_is_refused(tmp_path, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT))["main"](["--out", str(tmp_path), "--parts", "scorer,nothing"])
    assert ended.value.code == 2
    assert "no part nothing" in capsys.readouterr().err
