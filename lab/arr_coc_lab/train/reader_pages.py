"""Pages for the reader: crops of what a browser drew, with every letter, and questions that the page answers.

A pack of `arr-coc pages --pack` is laid up once on the device; a batch is then indexing and one `grid_sample`, worn in
half of the pictures as scanners and cameras wear paper.
"""

from __future__ import annotations

import math
import random
from functools import cache
from glob import glob
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.alphabet import QUESTION, text_row
from arr_coc.core.errors import InputError

from ..worlds.needle.renderer import Asked
from ..worlds.pages.neighbours import neighbour_questions
from ..worlds.pages.pack import read_pack
from ..worlds.pages.page import DrawnPage, DrawnQuestion
from . import scorer_worlds
from .pictures import Glyphs, unknown_things
from .prompts import TURN_LENGTH, reword
from .reader_examples import QUESTIONS, TAIL, ReaderBatch, reader_batch

ANSWER = 40
# A line of type is so much higher than its letters' size says.
LINE_HEIGHT = 1.2
# Pages are shown from four fifths to one and a half times the size at which they were drawn.
ZOOM = (0.8, 1.5)
WORN_SHARE = 0.5
# … and so many are turned into their negative, as screens are at night.
DARK_SHARE = 0.1
# Questions that repeat what is asked for teach pointing, which the scorer does; few of them are enough.
ECHOES = frozenset({"click", "place", "icon"})
ECHO_SHARE = 0.25


class PageQuestions(NamedTuple):
    """(Q,) page of each question; (Q, 96), (Q, 40) characters of question and answer; (Q, 8, 4), (Q, 4, 4) boxes in
    pixels, empty ones where there are fewer."""

    page: Tensor
    questions: Tensor
    answers: Tensor
    boxes: Tensor
    contexts: Tensor


class PageBook:
    """Pages of all packs that match a pattern. share: how many of all pictures are pages, about. echoes: how many of
    the questions that hold their answer are asked. neighbours: how many questions a page gets that it was not drawn
    with, about what stands beside what."""

    def __init__(
        self,
        pattern: str,
        device: torch.device | str,
        seed: int = 0,
        share: float = 0.45,
        echoes: float = ECHO_SHARE,
        neighbours: int = 0,
    ) -> None:
        paths = sorted(glob(pattern))
        if not paths:
            raise InputError(f"no pack of pages matches {pattern!r}; write some with arr-coc pages --pack")
        self.share, self.seed, self.device = share, seed, torch.device(device)
        chance = random.Random(seed)
        asked = [
            (
                page,
                [q for q in page.questions if fits(q) and (q.kind not in ECHOES or chance.random() < echoes)]
                + [q for q in neighbour_questions(page, neighbours, chance) if fits(q)],
            )
            for page in read_pack(paths)
        ]
        asked = [(page, questions) for page, questions in asked if questions]
        if not asked:
            raise InputError(f"the pages of {pattern!r} have no question that fits into {TAIL} characters")
        pages = [page for page, _ in asked]
        self.pictures = scorer_worlds.laid_up(pages, self.device)
        self.letters = torch.from_numpy(np.stack([letters_of(page) for page in pages])).to(self.device)
        every = [(number, question) for number, (_, own) in enumerate(asked) for question in own]
        boxes, contexts = (
            torch.from_numpy(np.stack([scorer_worlds.fixed_number(getattr(q, name), most) for _, q in every])).to(
                self.device
            )
            for name, most in (("boxes", scorer_worlds.MOST_BOXES), ("context", scorer_worlds.MOST_CONTEXTS))
        )
        self.asked = PageQuestions(
            self._tensor([number for number, _ in every], torch.int64),
            self._tensor([text_row(question.text, QUESTION) for _, question in every], torch.uint8),
            self._tensor([text_row(question.answer, ANSWER) for _, question in every], torch.uint8),
            boxes,
            contexts,
        )
        counts = self._tensor([len(own) for _, own in asked], torch.int64)
        self.count, self.first = counts, counts.cumsum(0) - counts

    def _tensor(self, values: list, dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)

    def __len__(self) -> int:
        return len(self.asked.page)

    def share_of(self, size: tuple[int, int]) -> float:
        """Of the pictures of a canvas, those that are pages: more of the large ones, where whole pages have room."""
        return min(0.9, self.share * (1.5 if max(size) > 512 else 0.9))

    @torch.no_grad()
    def render(
        self, number: int, size: tuple[int, int], start: int, which: Tensor | None = None, as_drawn: bool = False
    ) -> ReaderBatch:
        """Crops of `size`, each around one question, with others about the same page where the crop shows them.

        start: the number of the first picture; the same one gives the same batch. which: (number,) questions, instead
        of any. as_drawn: neither worn nor, where it fits, zoomed, and asked as it was written.
        """
        generator = torch.Generator(device=self.device).manual_seed(self.seed * 1_000_003 + start)

        def uniform(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator, device=self.device)

        first = torch.randint(len(self), (number,), generator=generator, device=self.device) if which is None else which
        page = self.asked.page[first]
        others = [self.first[page] + (uniform(number) * self.count[page]).long() for _ in range(QUESTIONS - 1)]
        extent = scorer_worlds.extent_of(self.asked.boxes[first], self.asked.contexts[first])
        low, high = (1.0, 1.0) if as_drawn else ZOOM
        scale = torch.exp(math.log(low) + uniform(number) * math.log(high / low))
        canvas = torch.tensor(size, device=self.device, dtype=torch.float32)
        span = (extent[:, [3, 2]] - extent[:, [1, 0]]).clamp_min(8)
        scale = torch.minimum(scale, (canvas * 0.97 / span).amin(1)).clamp_min(low * 0.75)
        sides = self.pictures.sizes[page] * scale[:, None]
        top, left = (
            scorer_worlds.crop_origin(
                extent[:, axis] * scale, extent[:, axis + 2] * scale, sides[:, 1 - axis], size[1 - axis], uniform
            )
            for axis in (1, 0)
        )
        shift = torch.stack([left, top], 1)
        others = [torch.where(self.shown(one, scale, shift, canvas.flip(0)), one, first) for one in others]
        pictures = scorer_worlds.crops(self.pictures, page, (left, top), scale, size, uniform, False, low)
        if not as_drawn:
            worn = (uniform(number, 1, 1, 1) < WORN_SHARE).float()
            pictures = torch.lerp(pictures, scorer_worlds.wear(pictures, uniform, 0.45), worn)
            dark = uniform(number, 1, 1, 1) < DARK_SHARE
            pictures = torch.where(dark, 1 - pictures, pictures)
        asked = [self.ask(one, scale, shift, canvas.flip(0)) for one in (first, *others)]
        things = unknown_things(number, size, self.device)
        glyphs = self.glyphs(page, scale, shift, size)
        pixels = (pictures * 255).round_().clamp_(0, 255).to(torch.uint8)
        words = [reword(each.question_ids, each.answer_ids, TAIL, generator) for each in asked]
        return reader_batch(pixels, glyphs, asked, things, None if as_drawn else words)

    def shown(self, which: Tensor, scale: Tensor, shift: Tensor, sides: Tensor) -> Tensor:
        """(B,) bool: whether the crops hold all that these questions need. shift: (B, 2), sides: (2,) x, y."""
        extent = scorer_worlds.extent_of(self.asked.boxes[which], self.asked.contexts[which])
        inside = (extent.view(-1, 2, 2) * scale[:, None, None] - shift[:, None]) / sides
        return ((inside >= 0) & (inside <= 1)).flatten(1).all(1)

    def ask(self, which: Tensor, scale: Tensor, shift: Tensor, sides: Tensor) -> Asked:
        """Questions with their boxes in 0–1 of the crop. shift: (B, 2), sides: (2,) x, y."""
        placed = []
        for boxes in (self.asked.boxes[which], self.asked.contexts[which]):
            corners = (boxes.unflatten(-1, (2, 2)) * scale[:, None, None, None] - shift[:, None, None]) / sides
            corners = corners.clamp(0, 1).flatten(-2)
            placed += [corners, (corners[..., 2:] > corners[..., :2]).all(-1)]
        return Asked(self.asked.questions[which].long(), self.asked.answers[which].long(), *placed)

    def glyphs(self, page: Tensor, scale: Tensor, shift: Tensor, size: tuple[int, int]) -> Glyphs:
        letters = self.letters[page]
        x, y = ((letters[..., axis] * scale[:, None] - shift[:, axis, None]).floor().long() for axis in (0, 1))
        inside = (x >= 0) & (x < size[1]) & (y >= 0) & (y < size[0])
        height = (letters[..., 3] * scale[:, None] / LINE_HEIGHT).round().long()
        return Glyphs(y, x, letters[..., 2].long() * inside, height)


def fits(question: DrawnQuestion) -> bool:
    """Whether question and answer can be asked for: short enough, and something is written."""
    room = len(question.text) + len(question.answer) + TURN_LENGTH + 1 <= TAIL
    return bool(room and question.answer.strip() and len(question.answer) <= ANSWER and len(question.boxes))


def letters_of(page: DrawnPage) -> np.ndarray:
    """(most, 4) float32: x and y of the middle of every character, its identifier and its height; nothing is far away.

    Of a page with too many the last ones are left out."""
    result = np.full((scorer_worlds.MOST_CHARACTERS, 4), -1e6, np.float32)
    result[:, 2:] = 0
    written = "".join(page.words)[: scorer_worlds.MOST_CHARACTERS]
    box = page.char_boxes[: len(written)].astype(np.float32)
    result[: len(written), :2] = (box[:, :2] + box[:, 2:]) / 2
    result[: len(written), 2] = [_identifier(letter) for letter in written]
    result[: len(written), 3] = box[:, 3] - box[:, 1]
    return result


@cache
def _identifier(letter: str) -> int:
    return text_row(letter, 1)[0]
