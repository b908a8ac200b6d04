"""Learning from answers: judging by two routes, credit through the passes, all rows of the comparison, own pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_weights import ship_tiny

from arr_coc import look
from arr_coc.attending.overlay import overlay
from arr_coc.core.alphabet import CHARACTERS
from arr_coc.core.errors import InputError
from arr_coc.options import Options
from arr_coc_lab.classic import outcomes as classic_outcomes
from arr_coc_lab.classic.walks import dense_vision_attention
from arr_coc_lab.train import outcomes, train_balancing, train_outcomes
from arr_coc_lab.train.outcomes import (
    AskedPictures,
    judge,
    load_reader,
    pass_credit,
    window_boxes,
    windows_inside,
)
from arr_coc_lab.train.reader import read
from arr_coc_lab.worlds.needle import NeedleBatch, render
from arr_coc_lab.worlds.needle.batch import concatenate


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> Path:
    """A tiny untrained reader, exported as `train mini` exports it."""
    return ship_tiny(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def batch() -> NeedleBatch:
    return concatenate([render(family, 2, (256, 256), 0) for family in ("cards", "scenes")])


def one_of(batch: NeedleBatch, place: int) -> NeedleBatch:
    return replace(batch, **{name: value[place : place + 1] for name, value in batch.tensors().items()})


def test_judging_a_group_is_reading_each_of_its_allocations(reader, batch):
    """Two routes: groups that share their pictures, and plain reading of every allocation by itself."""
    model = load_reader(reader, torch.device("cpu"))
    assert not any(parameter.requires_grad for parameter in model.parameters())
    maps = torch.rand(12, 8, 8, generator=torch.Generator().manual_seed(0)) ** 4
    leaves = overlay(maps, [16] * 12).cells.unflatten(0, (4, 3))
    with dense_vision_attention(model):
        asked = AskedPictures.of(batch)
        found = judge(model, asked, leaves)
        in_parts = judge(model, asked, leaves, most=6)
        for member in range(3):
            for picture in range(4):
                one = read(model, one_of(batch, picture), leaves[picture : picture + 1, member])
                assert float(-found.log_likelihood[picture, member]) == pytest.approx(float(one.loss), abs=1e-4)
                assert bool(found.right[picture, member]) == bool(one.right)
    assert torch.allclose(found.log_likelihood, in_parts.log_likelihood, atol=1e-5)


@pytest.mark.parametrize("places", [[(5, 6)], [(1, 2), (6, 5)]])
def test_credit_finds_what_the_passes_had_to_show(monkeypatch, places):
    """A reader that gains by every needed cell that is shown beside the coarse look: all credit lies around those."""
    seen_as_coarse = []

    def judged(reader: Any, asked: Any, leaves: torch.Tensor, most: int) -> Any:
        seen = [{(row, col) for row, col, level in one if level == 0} for one in leaves.flatten(0, 1).tolist()]
        seen_as_coarse.append((leaves[..., 2] == outcomes.OVERVIEW).sum(2).unique().tolist())
        found = torch.tensor([[4.0 * len(one & set(places)) for one in seen]]).view(leaves.shape[:2])
        return SimpleNamespace(log_likelihood=found - 8, right=found == 4.0 * len(places))

    monkeypatch.setattr(outcomes, "judge", judged)
    asked = AskedPictures(torch.zeros(1, 3, 256, 256), torch.zeros(1, 3).long(), torch.ones(1, 1).long())
    found = pass_credit(None, asked)
    shares = found.shares[0]
    assert shares.sum() == pytest.approx(1, abs=1e-5)
    assert found.weights.tolist() == [1.0]
    assert {divmod(int(one), 8) for one in shares.flatten().topk(len(places)).indices} == set(places)
    assert shares[7, 0] == pytest.approx(0, abs=1e-4)
    assert all(one == [4] for one in seen_as_coarse), "the coarse look stays in the prompt"
    if len(places) == 2:  # what the second place gained is credited to the first as well
        first, second = sorted(float(shares[place]) for place in places)[::-1]
        assert first > 1.2 * second


def test_nothing_is_credited_where_looking_closer_gains_nothing(monkeypatch):
    def same(reader: Any, asked: Any, leaves: torch.Tensor, most: int) -> Any:
        shape = leaves.shape[:2]
        return SimpleNamespace(log_likelihood=torch.zeros(shape), right=torch.ones(shape, dtype=torch.bool))

    monkeypatch.setattr(outcomes, "judge", same)
    asked = AskedPictures(torch.zeros(2, 3, 128, 128), torch.zeros(2, 3).long(), torch.ones(2, 1).long())
    found = pass_credit(None, asked)
    assert found.shares.sum() == 0
    assert found.weights.tolist() == [0, 0]


def test_rows_are_taught_judged_and_resumed_and_the_scorer_is_a_source(reader, tmp_path, monkeypatch):
    few = ["--steps", "2", "--start", "1", "--pictures", "7", "--judged", "7", "--unseen", "3", "--side", "128"]
    few += ["--batch", "2", "--device", "cpu"]
    places = ["--reader", str(reader), "--folder", str(tmp_path / "run"), "--out", str(tmp_path)]
    rows = ["start", "boxes", "answers", "boxes, aside"]
    train_outcomes.main([*few, *places, "--rows", *rows])
    results = json.loads((tmp_path / "results.json").read_text())
    assert {name: one["steps"] for name, one in results["trained"].items()} == dict.fromkeys(rows, 2) | {"start": 1}
    found = {(one["set"], one["system"], one["keep"]): one for one in results["rows"]}
    assert len(found) == 2 * (1 + 2 * (len(train_outcomes.CONTROLS) - 1 + len(rows)))
    assert found["all", "answers", 0.25]["n"] == 7
    assert found["aside", "answers", 0.125]["n"] == 3
    assert found["all", "answers", 0.25]["of boxes"].keys() == {"value", "low", "high"}
    monkeypatch.setattr(train_outcomes, "pass_credit", None)  # a second run finds the credit and the judgements
    train_outcomes.main([*few, *places, "--rows", *rows])
    assert json.loads((tmp_path / "results.json").read_text())["rows"] == results["rows"]
    pixels = np.random.default_rng(0).integers(0, 256, (128, 160, 3), np.uint8)
    monkeypatch.setattr(classic_outcomes, "FOLDER", tmp_path / "none")
    with pytest.raises(InputError, match="no scorer in"):
        look(pixels, "where?", 6, relevance="outcomes")
    monkeypatch.setattr(classic_outcomes, "FOLDER", tmp_path / "scorer")
    by_path = look(pixels, "where?", 6, relevance=str(tmp_path / "scorer"))
    assert np.array_equal(look(pixels, "where?", 6, relevance="outcomes").boxes, by_path.boxes)
    assert (tmp_path / "scorer" / "model.safetensors").stat().st_size < 14 * 2**20


def test_a_law_of_balancing_learns_where_the_map_should_lie(reader, tmp_path):
    """The loss falls, and the law that is written is one that look balances by."""
    few = ["--steps", "16", "--pictures", "7", "--judged", "7", "--side", "256", "--batch", "7", "--device", "cpu"]
    few += ["--rule", "boxes", "--kinds", "10", "--reader", str(reader)]
    train_balancing.main([*few, "--folder", str(tmp_path), "--out", str(tmp_path)])
    record = json.loads((tmp_path / "record.json").read_text())
    losses = [one["taught"] for one in record["curve"] if "taught" in one]
    assert losses[-1] < losses[0] - 0.01
    assert {one["system"] for one in record["judged"]} == {
        *("balancing, as it ships", "balancing, from boxes", "balancing, tensions of one half")
    }
    assert all(one["sd"] > 0.1 for one in record["tensions"]["balancing, from boxes"]["all"].values())
    pixels = render("signs", 1, (256, 256), 3).pictures[0].permute(1, 2, 0).contiguous().numpy()
    found, usual = (
        look(pixels, "the red sign", 16, relevance="look", options=Options(balancing=one)) for one in (tmp_path, None)
    )
    assert found.tensions != usual.tensions


def test_pictures_kept_aside_name_their_categories():
    drawn = train_outcomes.draw(6, 128, "train", 0, torch.device("cpu"), ("zoo",), only=True)
    assert drawn.named.all()
    words = ["".join(CHARACTERS[one - 1] for one in row if one).lower() for row in drawn.asked.question_ids.tolist()]
    assert all("giraffe" in one or "penguin" in one for one in words)


def test_the_window_that_is_credited_is_the_answers_own_and_no_larger(monkeypatch):
    """A reader that needs four cells, and is put off by every other: found alone, wherever it stands; and by two that
    are alike, nowhere."""
    reader: Any = torch.nn.Linear(1, 1)
    needed = {(3, 5), (3, 6), (4, 5), (4, 6)}
    twice = False

    def judged(reader: Any, batch: Any, leaves: torch.Tensor) -> Any:
        seen = [{(row, col) for row, col, _ in window} for window in leaves[0].tolist()]
        good = [max(len(one & needed), len({(r, c + 8) for r, c in one} & needed) if twice else 0) for one in seen]
        return SimpleNamespace(log_likelihood=torch.tensor([[float(one) - 4 for one in good]]))

    monkeypatch.setattr(outcomes, "judge", judged)
    pixels = np.random.default_rng(0).integers(0, 255, (8 * 32, 16 * 32, 3), np.uint8)
    boxes, log = window_boxes(reader, pixels, "where?", "12.15")
    assert boxes.tolist() == [[5 / 16, 3 / 8, 7 / 16, 5 / 8]]
    assert log == 0
    needed, twice = {(3, 9), (3, 10), (4, 9), (4, 10)}, True
    assert window_boxes(reader, pixels, "where?", "12.15")[0].shape == (0, 4)
    assert window_boxes(reader, 0 * pixels, "where?", "12.15")[0].shape == (0, 4), "blank paper"
    inside = np.concatenate(windows_inside(np.array([3, 5, 5, 8])))
    assert len(inside) == 3 * 6, "every window of two rows and three columns"
