"""What a reader learns from: pictures with questions, kept on the device, read a few times, then replaced.

Rendering a picture costs about as much as reading it once. Each picture carries several questions and is read under
another allocation every time, so looking at it a few times teaches nearly as much as a new one. Everything is stored in
fixed sizes, so that taking examples out never makes the processor wait for the device.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

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


class TensorFields(Protocol):
    """A dataclass of tensors whose first dimension is the example."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Batch = TypeVar("Batch", bound=TensorFields)


@dataclass(frozen=True)
class ReaderBatch:
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

    def one_question(self, which: Tensor) -> ReaderBatch:
        """Only question `which` (P,) of each picture."""
        row = torch.arange(len(self), device=which.device)
        names = ("questions", "tails", "said", "targets", "copied")
        return replace(self, **{name: getattr(self, name)[row, which][:, None] for name in names})


@torch.no_grad()
def render_reader_batch(
    family: str,
    number: int,
    size: tuple[int, int],
    seed: int,
    start: int,
    device: torch.device | str,
    difficulty: Difficulty | str | None = None,
    questions: int = 2,
    split: str = "train",
) -> ReaderBatch:
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
        return ReaderBatch(
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


class Origin(NamedTuple):
    """All that decides what a batch for the reader shows, as plain data: a checkpoint keeps it instead of pictures."""

    family: str
    number: int
    size: tuple[int, int]
    start: int
    difficulty: str | None


class RingBuffer(Generic[Batch]):
    """Examples of one shape in a ring with room for `room`: new ones overwrite the oldest.

    origins: where each stored batch begins, and the plain data it was made from.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.filled = 0
        self.added = 0
        self._next = 0
        self._stored: Batch | None = None
        self.origins: dict[int, Any] = {}

    def add(self, batch: Batch, origin: Any = None) -> None:
        number = len(getattr(batch, fields(batch)[0].name))
        if number > self.room:
            raise InputError(f"a buffer with room for {self.room} pictures cannot take {number} at once")
        if self._next + number > self.room:
            # What does not fit at the end is left as it was; the ring stays one piece of memory.
            self._next = 0
        self._put(batch, self._next, origin)
        self._next += number
        self.filled = max(self.filled, self._next)
        self.added += 1

    def _put(self, batch: Batch, at: int, origin: Any) -> None:
        names = [item.name for item in fields(batch)]
        if self._stored is None:
            parts = (getattr(batch, name) for name in names)
            self._stored = type(batch)(*(part.new_zeros(self.room, *part.shape[1:]) for part in parts))
        for name in names:
            part = getattr(batch, name)
            getattr(self._stored, name)[at : at + len(part)] = part
        self.origins[at] = origin

    def draw(self, number: int, generator: torch.Generator) -> Batch:
        """`number` examples at random."""
        stored = self._stored
        assert stored is not None, "a buffer must be filled before it is drawn from"
        parts = [getattr(stored, item.name) for item in fields(stored)]
        index = torch.randint(self.filled, (number,), generator=generator, device=parts[0].device)
        return type(stored)(*(part.index_select(0, index) for part in parts))

    def state(self) -> dict[str, Any]:
        """Plain data; origins must be plain themselves."""
        kept = {"room": self.room, "filled": self.filled, "added": self.added, "next": self._next}
        return {**kept, "origins": dict(self.origins)}

    @classmethod
    def of_state(cls, state: dict[str, Any], make: Callable[[Any], Batch]) -> RingBuffer[Batch]:
        """The same buffer, its examples made again."""
        buffer: RingBuffer[Batch] = cls(state["room"])
        for at, origin in state["origins"].items():
            buffer._put(make(origin), at, origin)
        buffer.filled, buffer.added, buffer._next = state["filled"], state["added"], state["next"]
        return buffer


@dataclass
class ReaderSource:
    """Which pictures come next: the family whose turn it is.

    families, shares: how often each family comes. rendered: pictures so far, their numbers under the seed; a resumed
    training goes on from there, so that it never sees a picture twice.
    """

    families: Sequence[str]
    shares: Sequence[float]
    seed: int
    device: torch.device | str
    chance: random.Random
    questions: int = 2
    rendered: int = 0

    def choose(self, number: int, size: tuple[int, int], difficulty: str | None, turn: int) -> Origin:
        """turn: how many batches of this canvas came before; the first of each canvas go through all families."""
        family = (
            self.families[turn]
            if turn < len(self.families)
            else self.chance.choices(list(self.families), list(self.shares))[0]
        )
        start, self.rendered = self.rendered, self.rendered + number
        return Origin(family, number, size, start, difficulty)

    def render(self, origin: Origin) -> ReaderBatch:
        family, number, size, start, difficulty = origin
        return render_reader_batch(family, number, size, self.seed, start, self.device, difficulty, self.questions)
