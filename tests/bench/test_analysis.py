"""What a scorer has learned to do, in numbers and plots."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

from arr_coc.attending.allocate import allocate
from arr_coc.attending.quadtree import quadtree
from arr_coc.core.errors import InputError
from arr_coc_lab.bench import analysis
from arr_coc_lab.bench.run import program
from arr_coc_lab.classic.scorer import Scorer, ScorerConfig
from arr_coc_lab.train.allocations import tree_of


def test_the_level_of_every_cell_is_the_allocations():
    relevance = np.random.default_rng(0).random((16, 16)).astype(np.float32) ** 8
    allocation = allocate(relevance, 64, strategy="quadtree")
    leaves = quadtree(torch.from_numpy(relevance)[None], tree_of((512, 512)), 64).cells
    found = analysis.level_maps(leaves, 16, 16)[0]
    assert (found == allocation.level_map()).all()
    assert len(np.unique(found)) >= 3


def test_features_say_where_and_how():
    levels = np.full((2, 8, 8), 2)
    levels[0, :2, :2] = 0
    levels[1, :2, :2] = levels[1, 6:, 6:] = 0
    scores = np.full((2, 8, 8), 0.01)
    scores[0, 0, 0] = 1
    first, second = (
        dict(zip(analysis.FEATURES, row, strict=True)) for row in analysis.allocation_features(levels, scores)
    )
    assert first["fine"] == 4 / 64
    assert first["row"] == first["column"] == pytest.approx(1 / 8)
    assert (first["regions"], second["regions"]) == (1, 2)
    assert second["row"] == pytest.approx(0.5)
    assert second["reach"] > first["reach"]
    assert first["peak"] > second["peak"]
    assert first["coarsest"] == 60 / 64


def test_patterns_are_found_again_and_named():
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(5), [60, 40, 30, 20, 10])
    features = generator.normal(size=(160, len(analysis.FEATURES))) * 0.05 + 3 * np.eye(7)[groups]
    centres, owner = analysis.find_patterns(features)
    again, same = analysis.find_patterns(features)
    assert (owner == same).all()
    assert np.allclose(centres, again)
    assert [int((owner == place).sum()) for place in range(5)] == [60, 40, 30, 20, 10]
    for group in range(5):
        assert len(set(owner[groups == group])) == 1
    assert analysis.describe(np.array([2.0, 0, 0, 0, -1.0, 0, 0.1])) == "much seen in full, in one spot"
    assert analysis.describe(np.zeros(7)) == "like the average"
    for pattern, places in enumerate(analysis.nearest(features, centres, owner)):
        assert (owner[places] == pattern).all()
    with pytest.raises(InputError, match="raise --number"):
        analysis.find_patterns(features[:3])


def test_one_command_makes_every_plot(tmp_path):
    pytest.importorskip("matplotlib")
    torch.manual_seed(0)
    Scorer(ScorerConfig(width=32)).save_pretrained(tmp_path / "scorer")
    names = ("compress_particularize", "exploit_explore", "focus_diversify")
    points = [{"step": step, **dict.fromkeys(names, 0.5 + 0.01 * step)} for step in (1, 2, 3)]
    wide = [point | {f"{name} {side}": 0.4 for name in names for side in ("low", "high")} for point in points]
    bands = {"share_band": [0.9, 1.0], "entropy_band": [0.15, 0.98]}
    health = [{"step": step, "budget_share": 1.0, "map_entropy": 0.7} for step in (1, 2)]
    probes = [{"step": 0, "seconds": 0.0, "probe keep": 0.25, "probe random": 0.2, "probe right": 0.2}]
    probes.append({"step": 9, "seconds": 60.0, "probe keep": 0.25, "probe right": 0.8})
    record = {
        "phases": {
            "balance": {"tensions": {"tension": {"points": points}, "adaptive": {"points": wide}}},
            "outcomes": {"curve": probes, "monitors": {"points": health, **bands}, "pictures": 9, "seconds": 60.0},
        }
    }
    (tmp_path / "record.json").write_text(json.dumps(record))
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("before\n<!-- analysis: begin -->\nstale\n<!-- analysis: end -->\nafter\n")
    plan = ["--number", "14", "--size", "256", "--out", str(tmp_path / "out"), "--page", str(page)]
    program("analysis")(["--scorer", str(tmp_path / "scorer"), "--record", str(tmp_path / "record.json"), *plan])
    for name in ("patterns", "allocation_statistics", "tensions", "outcome_curve"):
        picture = np.asarray(Image.open(tmp_path / "out" / f"{name}.png").convert("RGB"))
        assert picture.std() > 5, f"{name}.png is blank"
    found = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert len(found["patterns"]) == 5
    assert sum(pattern["share"] for pattern in found["patterns"]) == pytest.approx(1)
    assert all(example["question"] for pattern in found["patterns"] for example in pattern["examples"])
    assert sum(found["statistics"]["cards"]["levels"].values()) == pytest.approx(1)
    text = page.read_text()
    assert "stale" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    linked = re.findall(r"\]\(([^)]+)\)", text)
    assert len(linked) == 4
    assert all((page.parent / one).is_file() for one in linked), "links are seen from the page"
    assert all(pattern["words"] in text and pattern["examples"][0]["question"] in text for pattern in found["patterns"])
    (tmp_path / "record.json").write_text("{")
    with pytest.raises(InputError, match="not a record"):
        analysis.load_record(tmp_path / "record.json")
