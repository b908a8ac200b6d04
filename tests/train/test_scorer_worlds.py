"""Lessons of the reading scorer: letters stand on ink, boxes where the answer is, shapes never change."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from arr_coc_lab.train.print_world import PrintWorld
from arr_coc_lab.train.scorer_worlds import (
    Stack,
    draw_lessons,
    needle_shelf,
    page_shelf,
    print_shelf,
)
from arr_coc_lab.train.train_scorer import ScorerOptions, ScorerTraining, cell_losses, coverage, letter_losses


def shelf():
    return needle_shelf(128, 14, seed=5, device="cpu")


def lessons(shelved, number=8, canvas=128, zoom=(0.9, 1.5), seed=1, worn=False):
    generator = torch.Generator().manual_seed(seed)
    return draw_lessons(
        shelved, torch.arange(len(shelved.page)), number, canvas, zoom, generator, grey=0.45 if worn else None
    )


def test_letters_stand_where_there_is_ink():
    drawn = lessons(shelf(), number=24)
    written = drawn.letters[:, 1:].any(1).float()
    grey = drawn.pictures.mean(1)
    blocks = grey.unfold(1, 8, 8).unfold(2, 8, 8)
    contrast = blocks.amax((-1, -2)) - blocks.amin((-1, -2))
    assert (contrast * written).sum() / written.sum() > 2 * contrast.mean()
    # One block further they do not.
    moved = written.roll(5, 1)
    assert (contrast * moved).sum() / moved.sum() < 0.7 * (contrast * written).sum() / written.sum()


def print_world():
    return print_shelf(PrintWorld(None, "cpu", 3, smallest=8.0, layouts=48), (256, 192), 4)


def office_pages():
    return page_shelf("train", 3, 4, "cpu")


@pytest.mark.parametrize("drawn_by", [print_world, office_pages])
def test_pages_are_laid_up_with_their_letters_and_questions(drawn_by):
    shelved = drawn_by()
    assert len(shelved.pictures.sizes) == 4
    assert set(shelved.page.tolist()) <= set(range(4))
    assert len(shelved.page) >= 6
    assert (shelved.boxes[:, 0, 2:] > shelved.boxes[:, 0, :2]).all()
    assert (shelved.boxes[:, 0, 2] <= shelved.pictures.sizes[shelved.page][:, 1]).all()
    drawn = lessons(shelved, number=16, canvas=256, zoom=(1.0, 1.0))
    written = drawn.letters[:, 1:].any(1).float()
    grey = drawn.pictures.mean(1).unfold(1, 8, 8).unfold(2, 8, 8)
    contrast = grey.amax((-1, -2)) - grey.amin((-1, -2))
    assert (contrast * written).sum() / written.sum() > 1.5 * contrast.mean()
    # The letters of an answer stand in its box.
    cells = drawn.letters[:, 1:].any(1).unfold(1, 4, 4).unfold(2, 4, 4).any(-1).any(-1)
    inside = drawn.weight > 0
    assert inside.float().mean() > 0.3
    assert (cells & (drawn.answer > 0))[inside].flatten(1).any(1).float().mean() > 0.9


def test_printed_pages_take_their_share_of_every_batch():
    training = object.__new__(ScorerTraining)
    training.pages = [None] * 3  # only counted here
    training.options = ScorerOptions(print="needle")
    assert training.counts(7) == [3, 2, 2]
    training.options = ScorerOptions(print="needle", pages=9, print_share=0.6)
    assert training.counts(10) == [4, 3, 3]
    training.pages = training.pages[:1]
    training.options = ScorerOptions(pages=9)
    assert training.counts(10) == [10]


def test_every_answer_lies_in_its_crop_and_its_letters_in_the_answer():
    shelved = shelf()
    drawn = lessons(shelved, number=32)
    assert drawn.weight.min() == 1
    assert drawn.answer.shape == (32, 4, 4)
    assert not (drawn.answer * drawn.context).any()


def test_the_same_seed_draws_the_same_lessons_and_shapes_never_change():
    shelved = shelf()
    first, again, other = lessons(shelved), lessons(shelved), lessons(shelved, seed=2)
    assert torch.equal(first.pictures, again.pictures)
    assert not torch.equal(first.pictures, other.pictures)
    assert first.pictures.shape == other.pictures.shape


class Knowing(torch.nn.Module):
    """A scorer that knows the answer, or its opposite."""

    def __init__(self, cells, sign):
        super().__init__()
        self.cells, self.sign = cells, sign

    def forward(self, pictures, questions):
        return self.sign * 9 * (2 * self.cells - 1)


def test_the_loss_and_the_coverage_have_the_right_sign():
    drawn = lessons(shelf(), number=12)
    letters = torch.where(drawn.letters, 5.0, -9.0)
    right, wrong = (cell_losses(sign * 9 * (2 * drawn.answer - 1), drawn) for sign in (1, -1))
    assert right["which"] < wrong["which"]
    assert right["each"] < wrong["each"]
    assert coverage(Knowing(drawn.answer, 1), drawn, (1 / 2,)).mean() > 0.9
    assert coverage(Knowing(drawn.answer, -1), drawn, (1 / 4,)).mean() < 0.3
    read, unread = (letter_losses(sign * letters, drawn.letters) for sign in (1, -1))
    assert read["letters"] < unread["letters"]
    assert read["blank"] < unread["blank"]


def test_pages_of_any_shape_are_laid_up_and_their_edges_go_on():
    chance = np.random.default_rng(0)
    drawn = [chance.integers(0, 255, (*size, 3), dtype=np.uint8) for size in ((40, 64), (64, 24))]
    every, corner = torch.arange(2), torch.zeros(2, dtype=torch.int64)
    stack = Stack.of(drawn, [one.shape[:2] for one in drawn], "cpu")
    assert len(stack.pixels) == 40 * 64 + 64 * 24, "no room for what is not there"
    found = stack.windows(every, corner, corner, stack.side).permute(0, 2, 3, 1).numpy()
    for one, pixels in zip(found, drawn, strict=True):
        below, beside = 64 - pixels.shape[0], 64 - pixels.shape[1]
        assert np.array_equal(one, np.pad(pixels, ((0, below), (0, beside), (0, 0)), mode="edge"))
