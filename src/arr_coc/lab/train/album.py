"""An album of rendered pictures on the device: printed once, studied a few times, then replaced.

Rendering a picture costs about as much as reading it once. Each picture carries several questions and is read under
another allocation every time, so looking at it a few times teaches nearly as much as a new one. Everything is stored in
fixed sizes, so that taking a lesson out never makes the processor wait for the device.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from ...alphabet import SPACE
from ...errors import InputError
from ..needle.batch import NeedleBatch
from ..needle.difficulty import Difficulty, as_difficulty
from ..needle.draws import Draws
from ..needle.labels import CELL, FIRST_COLOUR
from ..needle.renderer import Asked, asked_of, finish_batch, lay_out, plan_of
from .allocations import target_cells
from .pictures import IGNORE, READING_LEVELS, SUBCELLS, Glyphs, glyph_board, glyphs_of
from .prompts import TURN_LENGTH, chat_tail

# Longest question and answer with the turn between them; the longest of Needle World has 69 tokens.
TAIL = 72
DO_NOT_ASK = 255
SPOT = CELL // SUBCELLS


@dataclass(frozen=True)
class Pages:
    """P pictures of one canvas with K questions each.

    pictures: (P, 3, H, W) uint8. questions: (P, K, 72) uint8 characters. tails: (P, K, 72) uint8 tokens of question and
    answer; said: (P, K, 72) bool, the answer's. targets: (P, K, rows, cols) bool, cells that a question needs.
    copied: (P, K, 72) int16: where the letter of an answer stands that the picture shows, as the number of its 8-pixel
    sub-cell in raster order; −1 for all other tokens. fine, coarse: (P, h, w) uint8 glyph boards of depth 0 and
    1, 255 for "do not ask". things: (P, rows, cols, classes).
    """

    pictures: Tensor
    questions: Tensor
    tails: Tensor
    said: Tensor
    targets: Tensor
    copied: Tensor
    fine: Tensor
    coarse: Tensor
    things: Tensor

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def size(self) -> tuple[int, int]:
        return self.pictures.shape[2], self.pictures.shape[3]

    def boards(self) -> list[Tensor]:
        """The glyph boards as `board_targets` wants them."""
        return [torch.where(board == DO_NOT_ASK, IGNORE, board.long()) for board in (self.fine, self.coarse)]

    def select(self, index: Tensor) -> Pages:
        return Pages(*(getattr(self, item.name).index_select(0, index) for item in fields(self)))

    def one_question(self, which: Tensor) -> Pages:
        """Only question `which` (P,) of each picture."""
        row = torch.arange(len(self), device=which.device)
        names = ("questions", "tails", "said", "targets", "copied")
        return replace(self, **{name: getattr(self, name)[row, which][:, None] for name in names})


@torch.no_grad()
def print_pages(
    family: str,
    number: int,
    size: tuple[int, int],
    seed: int,
    start: int,
    device: torch.device | str,
    difficulty: Difficulty | str | None = None,
    questions: int = 2,
    split: str = "train",
) -> Pages:
    """Pictures `start` … of one family with their first `questions` questions."""
    knobs = as_difficulty(difficulty, size)
    device = torch.device(device)
    rows, cols = size[0] // CELL, size[1] // CELL
    plan = plan_of(family, (size[0], size[1]), knobs, False)
    with torch.autocast(device.type, enabled=False):
        index = torch.arange(start, start + number, device=device)
        drawn = [Draws.of(seed, split, family, index, question=each, plan=plan) for each in range(questions)]
        scenes = [lay_out(family, draws, size, split, knobs) for draws in drawn]
        batch = finish_batch(scenes[0], drawn[0], index, family, split, seed, size)
        glyphs = glyphs_of(scenes[0], size)
        asked = [batch, *(asked_of(scene, size) for scene in scenes[1:])]
        tails = [chat_tail(each.question_ids, each.answer_ids, TAIL) for each in asked]
        boards = [glyph_board(glyphs, size, depth) for depth in range(READING_LEVELS)]
        fine, coarse = (torch.where(board == IGNORE, DO_NOT_ASK, board).to(torch.uint8) for board in boards)
        return Pages(
            batch.pictures,
            torch.stack([each.question_ids.to(torch.uint8) for each in asked], 1),
            torch.stack([tail for tail, _ in tails], 1),
            torch.stack([said for _, said in tails], 1),
            torch.stack([target_cells(each, rows, cols).bool() for each in asked], 1),
            torch.stack([copied_from(glyphs, each, size) for each in asked], 1),
            fine,
            coarse,
            batch.cell_labels[..., FIRST_COLOUR:],
        )


def copied_from(glyphs: Glyphs, asked: Asked | NeedleBatch, size: tuple[int, int]) -> Tensor:
    """(P, TAIL) int16: the sub-cell of the glyph that each token of the answer is copied from, −1 where there is none.

    The glyphs inside the answer's boxes, in the order in which they were set, must be exactly the answer's letters;
    where they are not (a count, a place, a colour), nothing is copied.
    """
    height, width = size
    y, x = glyphs.y[..., None], glyphs.x[..., None]
    left, top, right, bottom = (asked.boxes * asked.boxes.new_tensor([width, height] * 2))[:, None].unbind(-1)
    covered = (x >= left) & (x < right) & (y >= top) & (y < bottom) & asked.box_mask[:, None]
    inside = covered.any(-1) & (glyphs.character > 0)
    letters = (asked.answer_ids > 0) & (asked.answer_ids != SPACE)
    number, longest = asked.answer_ids.shape
    # The glyph of every rank: spare last column for glyphs that are not inside, or beyond the longest answer.
    rank = torch.where(inside, inside.cumsum(1) - 1, longest).clamp_max(longest)
    spot = (glyphs.y // SPOT) * (width // SPOT) + glyphs.x // SPOT
    place, shown = (
        torch.full((number, longest + 1), -1, device=rank.device).scatter_(1, rank, values)[:, :-1]
        for values in (spot, glyphs.character)
    )
    which = (letters.cumsum(1) - 1).clamp_min(0)
    same = (shown.gather(1, which) == asked.answer_ids) | ~letters
    whole = same.all(1) & (inside.sum(1) == letters.sum(1))
    found = torch.where(letters & whole[:, None], place.gather(1, which), -1)
    # In the tail the answer follows the question and the four tokens of the turn.
    first = (asked.question_ids > 0).sum(1, keepdim=True) + TURN_LENGTH
    position = (first + torch.arange(longest, device=rank.device)).clamp_max(TAIL)
    result = torch.full((number, TAIL + 1), -1, device=rank.device).scatter_(1, position, found)
    return result[:, :TAIL].to(torch.int16)


class Album:
    """Pages of one canvas in a ring of `room` pictures: new ones overwrite the oldest."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.filled = 0
        self._next = 0
        self._pages: Pages | None = None

    def add(self, pages: Pages) -> None:
        if len(pages) > self.room:
            raise InputError(f"an album with room for {self.room} pictures cannot take {len(pages)} at once")
        if self._pages is None:
            parts = (getattr(pages, item.name) for item in fields(pages))
            self._pages = Pages(*(part.new_zeros(self.room, *part.shape[1:]) for part in parts))
        if self._next + len(pages) > self.room:
            # What does not fit at the end is left as it was; the ring stays one piece of memory.
            self._next = 0
        for item in fields(pages):
            getattr(self._pages, item.name)[self._next : self._next + len(pages)] = getattr(pages, item.name)
        self._next += len(pages)
        self.filled = max(self.filled, self._next)

    def draw(self, number: int, generator: torch.Generator) -> Pages:
        """`number` pictures at random, with all their questions."""
        assert self._pages is not None, "an album must be filled before it is read"
        index = torch.randint(self.filled, (number,), generator=generator, device=self._pages.pictures.device)
        return self._pages.select(index)


@dataclass
class Printer:
    """Which pages to print next: the family whose turn it is, on the canvas that is used up most.

    families, shares: how often each family is printed. printed: pictures so far, their numbers under the seed; a
    resumed training goes on from there, so that it never sees a picture twice.
    """

    families: Sequence[str]
    shares: Sequence[float]
    seed: int
    device: torch.device | str
    chance: random.Random
    questions: int = 2
    printed: int = 0

    def print(self, number: int, size: tuple[int, int], difficulty: Difficulty | str | None, turn: int) -> Pages:
        """turn: how many pages of this canvas were printed before; the first of each canvas go through all families."""
        family = (
            self.families[turn]
            if turn < len(self.families)
            else self.chance.choices(list(self.families), list(self.shares))[0]
        )
        start, self.printed = self.printed, self.printed + number
        return print_pages(family, number, size, self.seed, start, self.device, difficulty, self.questions)
