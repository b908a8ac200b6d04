"""Measuring the rivals of the hypotheses: rounds join to what one round measures, and time ends between rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_weights import ship_tiny

from arr_coc_lab.bench.hypotheses import HypothesisMeasurement, hypotheses_table
from arr_coc_lab.bench.measure import Measuring, measure, steps_of
from arr_coc_lab.bench.rivals import KINDS, SCORERS, Rivals
from arr_coc_lab.classic.balancers import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from arr_coc_lab.classic.scorer import RGB, Scorer, ScorerConfig
from arr_coc_lab.train.outcomes import load_reader


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a reader and a scorer that nobody trained."""
    folder = tmp_path_factory.mktemp("hypotheses")
    ship_tiny(folder / "reader")
    Scorer(ScorerConfig(width=32)).save_pretrained(folder / "scorer")
    return folder


def test_the_steps_that_are_announced_are_those_that_come(joined):
    plan = Measuring(number=14, also=7)
    assert (plan.each, plan.each_also, len(steps_of(plan))) == (2, 1, 21)
    _, heard = joined
    assert heard == steps_of(in_rounds(1))
    assert heard[-1] == "questions about signs, round 2 of 2"


@pytest.fixture(scope="module")
def parts(made) -> tuple[Any, Any]:
    """A reader and all rivals, as they are before their training."""
    scorer = Scorer.from_pretrained(made / "scorer")
    torch.manual_seed(1)
    found: dict[str, Any] = {name: Scorer(ScorerConfig(width=32)).eval() for name in SCORERS}
    found["rgb"] = Scorer(ScorerConfig(width=32, channels=RGB)).eval()
    found["tension"] = TensionBalancer()
    found["adaptive"] = AdaptiveTensionBalancer(AdaptiveConfig(query_width=scorer.config.query_width))
    assert found.keys() == KINDS.keys()
    rivals = Rivals(scorer.eval(), found, dict.fromkeys((*found, "scorer"), 1.0))
    return load_reader(made / "reader", torch.device("cpu")), rivals


def measured(parts: tuple[Any, Any], plan: Measuring, **how: Any) -> dict[str, Any]:
    model, rivals = parts
    return measure(model, rivals, plan, **how)


def in_rounds(at_once: int, **more) -> Measuring:
    return Measuring(4, families=("cards", "signs"), size=(128, 128), large=(128, 128), at_once=at_once, **more)


@pytest.fixture(scope="module")
def joined(parts) -> tuple[dict[str, Any], list[str]]:
    """What two rounds measure, and the steps that were announced meanwhile."""
    heard: list[str] = []
    return measured(parts, in_rounds(1), advance=heard.append), heard


def test_rounds_join_to_what_one_round_measures(parts, joined):
    whole, (joined, _) = measured(parts, in_rounds(2)), joined
    assert (whole["n"], joined["n"], whole["each"]) == (4, 4, 2)
    assert whole["cells"].keys() == joined["cells"].keys()
    for name in ("full@1", "uniform@0.25", "scorer@0.125", "rgb@0.25", "top_k@0.25"):
        assert whole["cells"][name] == joined["cells"][name], name
    assert whole["best_cells"]["scorer@100"] == joined["best_cells"]["scorer@100"]
    assert whole["stakes"] == joined["stakes"]
    key = ("family", "keep", "own", "others")
    first, second = (sorted([one[k] for k in key] for one in document["questions"]) for document in (whole, joined))
    assert first == second


def test_when_time_runs_out_whole_rounds_remain(parts):
    document = measured(parts, in_rounds(1, seconds=0.0))
    assert (document["each"], document["wanted"], document["n"]) == (1, 2, 2), "one picture of every family"
    assert {len(cell["recall"]) for cell in document["cells"].values()} == {2}
    assert "2 of the 4 wanted" in hypotheses_table(HypothesisMeasurement(document)).facts["pictures"]
