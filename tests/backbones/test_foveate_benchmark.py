"""The benchmark runs on a CPU, and its report is consistent."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
import torch

from arr_coc.backbones.qwen3_vl import dense_vision_attention, encode_leaves
from arr_coc.backbones.qwen3_vl_graph import TowerGraph

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "foveate_gpu.py"


def test_tiny_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(SCRIPT))["main"](["--tiny", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "foveate_gpu.json").read_text())
    assert [(case["side"], case["batch"]) for case in report["results"]] == [(128, 1), (128, 2)]
    for case in report["results"]:
        full = (case["side"] // 32) ** 2
        for row in case["rows"]:
            assert min(row[stage] for stage in ("chooser", "vision", "prefill", "total")) > 0
            assert row["tokens"] <= full * row["keep"] + (row["way"] == "resize")
            assert row["tokens"] >= full * row["keep"] - 3
        ways = {row["way"] for row in case["rows"]}
        assert ways == {"full", "before", "after", "resize"}
    assert [check["bar"].split()[0] for check in report["bars"]] == ["times", "above", "chooser,"]
    printed = capsys.readouterr().out.rstrip().splitlines()
    lines = [line for line in printed if line.startswith("|")]
    assert printed[-len(lines) :] == lines, "the table comes last"
    assert len(lines) == 2 + sum(len(case["rows"]) for case in report["results"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_graph_gives_what_the_tower_gives() -> None:
    script = runpy.run_path(str(SCRIPT))
    model = script["build"](script["TINY"]["tiny"], torch.device("cuda"), torch.bfloat16)
    with torch.inference_mode(), dense_vision_attention(model):
        case = script["Case"](model, 256, 1, torch.device("cuda"))
        graph = TowerGraph(model, *case.choose(16))
        case.relevance = 1 - case.relevance
        patches, batch = case.choose(16)
        ours, plain = graph(patches, batch), encode_leaves(model, patches, batch)
    assert torch.equal(ours.embeds, plain.embeds)
    assert all(torch.equal(a, b) for a, b in zip(ours.planes, plain.planes, strict=True))
