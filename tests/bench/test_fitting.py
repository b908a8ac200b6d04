"""What is fitted on drawn pictures: the sureness of an answer, the start of rules that learn from outcomes."""

from __future__ import annotations

from pathlib import Path

import fit_sureness
import numpy as np
import pytest
from arr_coc.realizing.bundled import PlaceDoubt

from arr_coc import InputError
from arr_coc_lab.bench.credit import START, training_of
from arr_coc_lab.bench.grip_constants import pages_of
from arr_coc_lab.bench.options import CreditOptions


def test_the_law_that_drew_the_answers_is_found_again():
    draw, law = np.random.default_rng(1), PlaceDoubt(0.8, 3.0, -2.5)
    confidence, peak = draw.uniform(0.02, 0.98, 20_000), draw.uniform(0.2, 0.9, 20_000)
    chance = np.array([law.sureness(*one) for one in zip(confidence, peak, strict=True)])
    found = fit_sureness.fitted(confidence, peak, draw.random(20_000) < chance, np.ones(20_000))
    assert (found.slope, found.peak, found.offset) == pytest.approx((0.8, 3.0, -2.5), abs=0.15)


def test_only_outcomes_go_on_from_the_start_by_boxes(tmp_path):
    plan = CreditOptions(start=20, baseline="leaf", out=tmp_path)
    start, boxes, policy = (training_of(plan, rule) for rule in (START, "boxes", "policy"))
    assert (start.source, start.steps, start.start_from) == ("boxes", 20, None)
    assert (boxes.source, boxes.start_from) == ("boxes", None)
    assert (policy.source, policy.start_from, policy.settings.baseline) == ("outcomes", tmp_path / START, "leaf")
    assert training_of(CreditOptions(out=tmp_path), "policy").start_from is None


def test_constants_are_not_derived_from_pictures_that_nobody_drew(tmp_path: Path):
    (tmp_path / "records.jsonl").write_text('{"source": "funsd", "image": "a.png", "query": "What?", "answer": "x1"}\n')
    with pytest.raises(InputError, match="drawn pages only"):
        next(pages_of(tmp_path, 1, 0))
