"""Where an answer hung on detail: against a plain difference of two readings, and whether following it leads there."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from torch.nn import functional as F

from arr_coc.attending.overlay import overlay
from arr_coc.realizing.qwen3_vl.encode import dense_vision_attention
from arr_coc_lab.train import outcomes as module
from arr_coc_lab.train.mini_model import MiniConfig, build_mini
from arr_coc_lab.train.outcomes import (
    UNPROVEN,
    credit_loss,
    credit_marks,
    credit_shares,
    detail_credit,
    judge,
    marked_loss,
    proven_credit,
)
from arr_coc_lab.train.pictures import TrainingBatch, cut, join, render_family
from arr_coc_lab.train.policy_gradient import map_entropy
from arr_coc_lab.train.reader import normalise_pictures, read
from arr_coc_lab.train.scorer_examples import KEPT, CreditReplay, Judged


@pytest.fixture(scope="module")
def reader():
    torch.manual_seed(0)
    model = build_mini(MiniConfig(width=64, vision_layers=2, language_layers=2, heads=1, deepstack=(0,)))
    # Weights of an untrained model hardly react to anything; larger ones do.
    for parameter in model.parameters():
        parameter.data *= 3
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def batch() -> TrainingBatch:
    return join([render_family(family, 2, (128, 128), 0, 0, "cpu") for family in ("cards", "scenes")])


def test_the_derivative_is_that_of_two_readings(reader, batch, monkeypatch):
    """Second route: blur one cell a little more and a little less, and read the pictures anew each time."""
    with dense_vision_attention(reader):
        found = detail_credit(reader, batch)
        pixels = normalise_pictures(batch.pictures)
        blurred = F.interpolate(F.avg_pool2d(pixels, 4), scale_factor=4, mode="bilinear", align_corners=False)
        cell = divmod(int(found.cells.abs().sum(0).argmax()), 4)
        step, read_at = 0.02, {}
        for sign in (-1, 1):
            sharpness = torch.ones(4, 4)
            sharpness[cell] += sign * step
            seen = blurred + sharpness.repeat_interleave(32, 0).repeat_interleave(32, 1) * (pixels - blurred)
            monkeypatch.setattr(module, "normalise_pictures", lambda _, seen=seen: seen)
            read_at[sign] = detail_credit(reader, batch).log_likelihood
        characters = (batch.answer_ids > 0).sum(1) + 1  # and the end of the turn
        slope = (read_at[1] - read_at[-1]) / (2 * step) * characters
    wanted = found.cells[:, cell[0], cell[1]]
    assert float(wanted.abs().max()) > 0.1
    assert torch.allclose(slope, wanted, rtol=0.05, atol=2e-3), (slope, wanted)


def test_the_reading_itself_is_the_plain_one(reader, batch):
    leaves = torch.tensor([[row, col, 0] for row in range(4) for col in range(4)]).expand(4, -1, -1)
    with dense_vision_attention(reader):
        found = detail_credit(reader, batch)
        in_parts = detail_credit(reader, batch, most=0)
        for place in range(4):
            one = read(reader, cut(batch, place, place + 1), leaves[place : place + 1])
            assert float(found.log_likelihood[place]) == pytest.approx(-float(one.loss), abs=1e-3)
            assert bool(found.right[place]) == bool(one.right)
    assert torch.allclose(found.cells, in_parts.cells, atol=1e-4)


def test_credit_is_proven_by_the_leaves_it_would_lay(reader, batch):
    """Second route: lay the leaves of the chosen shares by hand and read them; none of the other ways reads better."""
    with dense_vision_attention(reader):
        found = proven_credit(reader, batch, keep=1 / 4)
        plain = credit_shares(detail_credit(reader, batch).cells)
        rows = F.avg_pool2d(plain[:, None], (1, 3), 1, (0, 1))[:, 0]
        leaves = torch.stack([overlay(one, [4] * 4).cells for one in (found.shares, plain, rows)], 1)
        judged = judge(reader, batch, leaves)
    assert torch.allclose(found.shares.sum((1, 2)), torch.ones(4), atol=1e-4)
    assert (judged.log_likelihood[:, :1] >= judged.log_likelihood - 1e-4).all()
    assert found.weights.tolist() == [1.0 if right else pytest.approx(UNPROVEN) for right in judged.right[:, 0]]


def test_marks_want_the_best_cell_and_the_loss_knows_it():
    shares = torch.tensor([[[0.64, 0.16], [0.2, 0.004]]])
    marks = credit_marks(shares)
    assert marks[0, 0].tolist() == pytest.approx([1.0, 0.5])
    assert marks[0, 1, 1] == 0, "what matters but slightly is not wanted"
    good, bad = torch.tensor([[[3.0, 0.0], [0.0, -5.0]]]), torch.tensor([[[-5.0, 0.0], [0.0, 3.0]]])
    one = torch.ones(1)
    assert float(marked_loss(good, marks, one)) < float(marked_loss(bad, marks, one))
    assert float(marked_loss(bad, marks, 0 * one)) == 0
    assert not credit_marks(torch.zeros(1, 2, 2)).any(), "where nothing mattered nothing is wanted"


def test_half_precision_weights_give_the_same_credit(reader, batch):
    """As on a GPU: parameters in bfloat16, buffers in float32."""
    batch = cut(batch, 1, 3)
    half = copy.deepcopy(reader)
    for parameter in half.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    with dense_vision_attention(reader):
        wanted = credit_shares(detail_credit(reader, batch).cells).flatten(1)
    with dense_vision_attention(half):
        found = credit_shares(detail_credit(half, batch).cells).flatten(1)
    assert float(F.cosine_similarity(found, wanted).min()) > 0.9


def test_shares_are_shares_and_survive_what_is_not_a_number():
    cells = torch.zeros(4, 2, 2)
    cells[0, 0, 0], cells[0, 1, 1] = 3, -4
    cells[1, 0, 1] = float("nan")
    cells[1, 1, 0] = -2
    cells[3] = 1e-15
    shares = credit_shares(cells)
    assert shares[0].flatten().tolist() == pytest.approx([9 / 25, 0, 0, 16 / 25])
    assert shares[1].flatten().tolist() == pytest.approx([0, 0, 1, 0])
    assert shares[2].sum() == 0
    assert shares[3].sum() == pytest.approx(1)


def test_following_the_credit_moves_the_mass_to_it():
    """The sign: what an answer hung on gains relevance, everything else loses."""
    generator = torch.Generator().manual_seed(0)
    shares = credit_shares(torch.randn(3, 4, 4, generator=generator) ** 3)
    logits = torch.zeros(3, 4, 4, requires_grad=True)
    first = credit_loss(logits, shares)
    for _ in range(400):
        (gradient,) = torch.autograd.grad(credit_loss(logits, shares), logits)
        logits = (logits - 8 * gradient).detach().requires_grad_()
    mass = logits.sigmoid() / logits.sigmoid().sum((1, 2), keepdim=True)
    assert float(credit_loss(logits, shares).detach()) < float(first.detach())
    assert torch.allclose(mass, shares, atol=0.02)
    assert float(map_entropy(logits.detach()).max()) < 0.99
    weighted = credit_loss(torch.zeros(3, 4, 4), shares, torch.tensor([3.0, 0.0, 0.0]))
    assert float(weighted) == pytest.approx(float(first.detach()), abs=1e-5), "flat maps all cost the same"


def test_replay_gives_earlier_batches_only_and_forgets(batch):
    replay, chance = CreditReplay(), random.Random(0)
    assert replay.draw(2, chance) == []
    for number in range(KEPT + 6):
        replay.add(Judged(batch, torch.full((4, 4, 4), float(number)), torch.ones(4)))
        drawn = [float(one.shares[0, 0, 0]) for one in replay.draw(2, chance)]
        assert len(drawn) == len(set(drawn)) == min(2, number)
        assert all(number - KEPT < one < number for one in drawn)
