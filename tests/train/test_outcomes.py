"""Learning from answers: judging by two routes, credit where the answer depends, windows of own pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_weights import ship_tiny

from arr_coc.attending.overlay import overlay
from arr_coc_lab.classic.walks import dense_vision_attention
from arr_coc_lab.train import outcomes
from arr_coc_lab.train.outcomes import (
    AskedPictures,
    credit_shares,
    detail_credit,
    judge,
    load_reader,
    proven_credit,
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


def test_the_credit_of_a_cell_is_what_fading_it_does(reader, batch):
    """The derivative against finite differences: the picture itself with one cell a little blurred."""
    model = load_reader(reader, torch.device("cpu"))
    one = one_of(batch, 0)
    found = detail_credit(model, AskedPictures.of(one))
    pixels = outcomes.normalise_pictures(one.pictures)
    blurred = torch.nn.functional.interpolate(
        torch.nn.functional.avg_pool2d(pixels, 4), scale_factor=4, mode="bilinear", align_corners=False
    )
    row, col = divmod(int(found.cells[0].abs().argmax()), 8)
    ground = slice(32 * row, 32 * row + 32), slice(32 * col, 32 * col + 32)
    logs = []
    for amount in (0.02, -0.02):
        faded = pixels.clone()
        faded[:, :, ground[0], ground[1]] += amount * (pixels - blurred)[:, :, ground[0], ground[1]]
        logs.append(float(read_log(model, one, faded)))
    assert (logs[0] - logs[1]) / 0.04 == pytest.approx(float(found.cells[0, row, col]), rel=0.05, abs=1e-3)


def read_log(model: Any, one: NeedleBatch, pixels: torch.Tensor) -> torch.Tensor:
    """The log-likelihood of the whole answer, with every cell of these pixels seen."""
    rows, cols = pixels.shape[2] // 32, pixels.shape[3] // 32
    table = torch.from_numpy(outcomes.build_tree(rows, cols, 0).nodes_table)[None]
    vision = model.config.vision_config
    pyramid = outcomes.mip_pyramid(pixels, 1, cell=32, patch_size=vision.patch_size)
    patches = outcomes.gather_leaf_patches(pyramid, table, merge=2, temporal=vision.temporal_patch_size)
    with torch.no_grad():
        _, wanted, chances = outcomes.answer_chances(
            model, one.question_ids, one.answer_ids, patches, table, (rows, cols)
        )
    return chances.gather(1, wanted[:, None]).sum()


def test_proof_weighs_what_the_reader_can_answer_from(reader, batch, monkeypatch):
    model = load_reader(reader, torch.device("cpu"))
    found = proven_credit(model, AskedPictures.of(batch))
    assert found.shares.shape == (4, 8, 8)
    assert torch.allclose(found.shares.sum((1, 2)), torch.ones(4), atol=1e-4)
    assert (found.weights == outcomes.UNPROVEN).all(), "an untrained reader proves nothing"
    right = SimpleNamespace(log_likelihood=torch.eye(4)[:, :3] - 1, right=torch.ones(4, 3, dtype=torch.bool))
    monkeypatch.setattr(outcomes, "judge", lambda *_: right)
    assert (proven_credit(model, AskedPictures.of(batch)).weights == 1).all()


def test_shares_of_the_credit_are_of_what_mattered():
    cells = torch.zeros(2, 4, 4)
    cells[0, 1, 2], cells[0, 1, 3], cells[0, 0, 0] = 10, -5, 0.1
    shares = credit_shares(cells)
    assert shares[0].sum() == pytest.approx(1)
    assert shares[0, 1, 2] == pytest.approx(4 * float(shares[0, 1, 3]), rel=1e-5), "by size, whatever the sign"
    assert shares[1].sum() == 0, "nothing mattered"


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
