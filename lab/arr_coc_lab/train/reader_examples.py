"""Training examples of the reader: pictures with questions, stored on the device, read a few times, then replaced.

Rendering a picture costs about as much as reading it once. Each picture has several questions and is read with another
allocation every time, so reading it a few times teaches nearly as much as a new one. Everything is stored in fixed
sizes, so that drawing examples never makes the processor wait for the device.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from arr_coc.core.alphabet import NUMBER_OF_IDS, SPACE
from arr_coc.core.errors import InputError

from ..worlds.constants import constant
from ..worlds.needle.batch import CELL, FIRST_COLOUR
from ..worlds.needle.difficulty import Difficulty, as_difficulty
from ..worlds.needle.draws import Draws
from ..worlds.needle.renderer import Asked, asked_of, finish_batch, lay_out
from .allocations import (
    KINDS,
    LOOK_AGAIN,
    NURSERY_KINDS,
    Kind,
    budget_of,
    even_tree_of,
    target_cells,
)
from .mini_model import ADDITIONS, TURN_LENGTH, TrainingState, chat_tail, reworded
from .pictures import IGNORE, READING_LEVELS, SUB_HEIGHT, SUB_WIDTH, Glyphs, glyph_board, glyphs_of

# Longest question and answer with the turn between them; the longest of Needle World has 69 tokens, and 98 in 100
# questions about pages fit.
TAIL = 88
DO_NOT_ASK = 255
# Minimum side of a crop of a page: smaller ones would hold only a few words.
SMALLEST_PAGE = 256


class TensorFields(Protocol):
    """A dataclass of tensors whose first dimension is the example."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Batch = TypeVar("Batch", bound=TensorFields)


@dataclass(frozen=True)
class ReaderBatch:
    """P pictures of one canvas with K questions each.

    pictures: (P, 3, H, W) uint8. tails: (P, K, T) uint8 tokens of question and answer; heard: the same with the errors
    of `misheard`, the reader's input; said: (P, K, T) bool, the answer's. targets: (P, K, rows, cols) bool, cells that
    a question needs. copied: (P, K, T) int32: the sub-cell (in raster order) of the letter of an answer that the
    picture shows; −1 for all other tokens. fine, coarse: (P, h, w) uint8 glyph boards of depth 0 and 1, 255 for
    "ignore". things: (P, rows, cols, classes).
    """

    pictures: Tensor
    tails: Tensor
    heard: Tensor
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

    @property
    def grid(self) -> tuple[int, int]:
        return self.size[0] // CELL, self.size[1] // CELL

    def boards(self) -> list[Tensor]:
        """Return the glyph boards for `board_targets`."""
        return [torch.where(board == DO_NOT_ASK, IGNORE, board.long()) for board in (self.fine, self.coarse)]

    def one_question(self, which: Tensor) -> ReaderBatch:
        """Return only question `which` (P,) of each picture."""
        row = torch.arange(len(self), device=which.device)
        names = ("tails", "heard", "said", "targets", "copied")
        return replace(self, **{name: getattr(self, name)[row, which][:, None] for name in names})


@torch.no_grad()
def render_reader_batch(
    family: str,
    number: int,
    size: tuple[int, int],
    seed: int,
    start: int | Tensor,
    device: torch.device | str,
    difficulty: Difficulty | str | None = None,
    questions: int = 2,
) -> ReaderBatch:
    """Draw training pictures of one family from number `start` on, with their first `questions` questions."""
    split = "train"
    knobs = as_difficulty(difficulty, size)
    device = torch.device(device)
    with torch.autocast(device.type, enabled=False):
        index = torch.arange(number, device=device) + start
        drawn = [Draws.of(seed, split, family, index, question=each) for each in range(questions)]
        scenes = [lay_out(family, draws, size, split, knobs) for draws in drawn]
        batch = finish_batch(scenes[0], drawn[0], index, family, split, seed, size)
        glyphs = glyphs_of(scenes[0], size)
        first = Asked(*(getattr(batch, name) for name in Asked._fields))
        asked = [first, *(asked_of(scene, size) for scene in scenes[1:])]
        things = batch.cell_labels[..., FIRST_COLOUR:]
        bits = [drawn[0].bits(f"reworded/{each}", 4) for each in range(questions)]
        words = [
            reworded(each.question_ids, each.answer_ids, TAIL, (own[:, :3] >> 8) * 2.0**-24, own[:, 3] % len(ADDITIONS))
            for each, own in zip(asked, bits, strict=True)
        ]
        return reader_batch(batch.pictures, glyphs, asked, things, words)


def reader_batch(
    pictures: Tensor, glyphs: Glyphs, asked: Sequence[Asked], things: Tensor, words: Sequence[Tensor] | None = None
) -> ReaderBatch:
    """Store pictures (P, 3, H, W) with their texts and things, and K questions about each. words: variants of the
    questions, if they differ from the original text."""
    size = pictures.shape[2], pictures.shape[3]
    rows, cols = size[0] // CELL, size[1] // CELL
    if words is not None:
        asked = [each._replace(question_ids=ids) for each, ids in zip(asked, words, strict=True)]
    tails = [chat_tail(each.question_ids, each.answer_ids, TAIL) for each in asked]
    heard = torch.stack([tail for tail, _ in tails], 1)
    return ReaderBatch(
        pictures,
        heard,
        heard,
        torch.stack([said for _, said in tails], 1),
        torch.stack([target_cells(each, rows, cols).bool() for each in asked], 1),
        torch.stack([copied_from(glyphs, each, size) for each in asked], 1),
        *written_boards(glyphs, size),
        things,
    )


def written_boards(glyphs: Glyphs, size: tuple[int, int]) -> list[Tensor]:
    """Return `fine` and `coarse` of a `ReaderBatch`."""
    boards = [glyph_board(glyphs, size, depth) for depth in range(READING_LEVELS)]
    return [torch.where(board == IGNORE, DO_NOT_ASK, board).to(torch.uint8) for board in boards]


def misheard(batch: ReaderBatch, share: float, generator: torch.Generator) -> ReaderBatch:
    """Replace letters of the answer in the reader's input by wrong ones, `share` of them on average.

    After "22/07/1" a reader that knows many dates guesses the rest; after "22/x7/q" it has to look. The target stays
    unchanged.
    """
    tails, device = batch.tails, batch.tails.device
    chance = torch.rand(tails.shape, generator=generator, device=device)
    most = 2 * share * torch.rand(*tails.shape[:2], 1, generator=generator, device=device)
    other = torch.randint(1, NUMBER_OF_IDS, tails.shape, generator=generator, device=device, dtype=tails.dtype)
    letters = batch.said & (tails < NUMBER_OF_IDS)
    return replace(batch, heard=torch.where(letters & (chance < most), other, tails))


def copied_from(glyphs: Glyphs, asked: Asked, size: tuple[int, int]) -> Tensor:
    """Return the sub-cell of the glyph from which each token of the answer is copied, (P, TAIL) int32; −1 for none.

    The glyphs inside the answer's boxes, in the order in which they were set, must be exactly the answer's letters;
    otherwise (a count, a place, a colour) nothing is copied.
    """
    height, width = size
    y, x = glyphs.y[..., None], glyphs.x[..., None]
    scale = constant([width, height] * 2, asked.boxes.device, asked.boxes.dtype)
    left, top, right, bottom = (asked.boxes * scale)[:, None].unbind(-1)
    covered = (x >= left) & (x < right) & (y >= top) & (y < bottom) & asked.box_mask[:, None]
    inside = covered.any(-1) & (glyphs.character > 0)
    letters = (asked.answer_ids > 0) & (asked.answer_ids != SPACE)
    number, longest = asked.answer_ids.shape
    # The glyph of every rank; the spare last column is for glyphs outside, or beyond the longest answer.
    rank = torch.where(inside, inside.cumsum(1) - 1, longest).clamp_max(longest)
    spot = (glyphs.y // SUB_HEIGHT) * (width // SUB_WIDTH) + glyphs.x // SUB_WIDTH
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
    return result[:, :TAIL].to(torch.int32)


class Origin(NamedTuple):
    """Everything that determines a batch for the reader, as plain data for checkpoints, instead of pictures."""

    family: str
    number: int
    size: tuple[int, int]
    start: int
    difficulty: str | None


# The family of pictures set from type.
PRINT = "print"


class RingBuffer(Generic[Batch]):
    """A ring buffer of `capacity` examples of one shape: new ones overwrite the oldest.

    origins: the begin of each stored batch, and the plain data from which it was made.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.filled = 0
        self.added = 0
        self._next = 0
        self._stored: Batch | None = None
        self.origins: dict[int, object] = {}

    def add(self, batch: Batch, origin: object = None) -> None:
        number = len(getattr(batch, fields(batch)[0].name))
        if number > self.capacity:
            raise InputError(f"a buffer of {self.capacity} pictures cannot take {number} at once")
        if self._next + number > self.capacity:
            # A batch that does not fit at the end begins at the front; batches stay contiguous.
            self._next = 0
        self._put(batch, self._next, origin)
        self._next += number
        self.filled = max(self.filled, self._next)
        self.added += 1

    def _put(self, batch: Batch, at: int, origin: object) -> None:
        names = [item.name for item in fields(batch)]
        if self._stored is None:
            parts = (getattr(batch, name) for name in names)
            self._stored = type(batch)(*(part.new_zeros(self.capacity, *part.shape[1:]) for part in parts))
        for name in names:
            part = getattr(batch, name)
            getattr(self._stored, name)[at : at + len(part)] = part
        self.origins[at] = origin

    def draw(self, number: int, generator: torch.Generator) -> Batch:
        """Draw `number` random examples."""
        stored = self._stored
        assert stored is not None, "the buffer is empty; add examples before drawing"
        parts = [getattr(stored, item.name) for item in fields(stored)]
        index = torch.randint(self.filled, (number,), generator=generator, device=parts[0].device)
        return type(stored)(*(part.index_select(0, index) for part in parts))

    def state(self) -> dict[str, object]:
        """Return plain data; origins must be plain, too."""
        kept = {"capacity": self.capacity, "filled": self.filled, "added": self.added, "next": self._next}
        return {**kept, "origins": dict(self.origins)}

    @classmethod
    def of_state(cls, state: TrainingState, make: Callable[[Any], Batch]) -> RingBuffer[Batch]:
        """Restore a buffer; its examples are made again."""
        buffer: RingBuffer[Batch] = cls(state["capacity"])
        for at, origin in state["origins"].items():
            buffer._put(make(origin), at, origin)
        buffer.filled, buffer.added, buffer._next = state["filled"], state["added"], state["next"]
        return buffer


@cache
def whose_turn(shares: tuple[float, ...], first: int, turn: int) -> int:
    """Choose the item of this turn: each once at first, then the one farthest behind its share.

    A buffer holds a few dozen batches, each of one family; drawn randomly, a family might be missing for minutes.
    """
    if turn < first:
        return turn
    had = Counter(whose_turn(shares, first, earlier) for earlier in range(turn))
    return max(range(len(shares)), key=lambda each: shares[each] * (turn + 1) / sum(shares) - had[each])


# ---- The course of the reader's training: which canvases when, which allocations, how large a step -------------------


@dataclass(frozen=True)
class CanvasStage:
    """A stage of the training. canvases: {(height, width): weight}. It ends when its largest canvas is read this well
    (share of glyphs read right), or at the latest after this share of the training."""

    canvases: dict[tuple[int, int], float]
    read_well: float = 1.1
    at_latest: float = 1.1


# Only canvases whose tree has no odd edge, see `looks`. All are square: windows in larger pictures have other shapes,
# and every further canvas needs a minute for its buffer and compiled steps.
STAGES = (
    CanvasStage({(128, 128): 1.0}, read_well=0.93, at_latest=0.08),
    CanvasStage({(128, 128): 0.12, (256, 256): 0.88}, read_well=0.93, at_latest=0.25),
    CanvasStage({(256, 256): 0.10, (512, 512): 0.60, (768, 768): 0.16, (1024, 1024): 0.14}),
)
# Approximate patches of a step, and tokens of its language model: small enough for many steps, large enough that the
# device never waits for the processor.
PATCHES_A_STEP = 152 * 1024
TOKENS_A_STEP = 120_000
# Pixels rendered at once, and stored in a buffer.
PIXELS_A_RENDERING = 256 * 512 * 512
PIXELS_A_BUFFER = 6_144 * 512 * 512
# Pixels cut into patches in one step: few tokens of large pictures are still many pixels.
PIXELS_A_STEP = 384 * 512 * 512
QUESTIONS = 3
# cards, forms, receipts, scenes, charts, signs, zoo: most for families read worst and for content missing on pages.
SHARES = (1.1, 2.2, 2.6, 1.8, 1.1, 1.0, 1.2)


def next_stage(stage: int, progress: float, glyphs_right: float) -> int:
    """Return the stages: small canvases first until they are read well; runs that left them early never caught up."""
    here = STAGES[stage]
    return stage + 1 if glyphs_right >= here.read_well or progress >= here.at_latest else stage


def draw_step(stage: int, progress: float, chance: random.Random, largest: int = 1024) -> tuple[tuple[int, int], Kind]:
    """Choose the canvas of a step, no side above `largest`, and the kind of its allocations."""
    weights = {size: weight for size, weight in STAGES[stage].canvases.items() if max(size) <= largest}
    weights = weights or {(largest, largest): 1.0}
    size = chance.choices(list(weights), list(weights.values()))[0]
    kinds = NURSERY_KINDS if min(size) <= 128 else KINDS
    if min(size) >= 256 and progress > 0.4:
        kinds = (*kinds, LOOK_AGAIN)
    return size, chance.choices(kinds, [kind.weight for kind in kinds])[0]


def pictures_a_step(size: tuple[int, int], kind: Kind) -> int:
    """Return the batch size with which a step costs about the same for every canvas and allocation."""
    leaves = budget_of(kind, even_tree_of(size))
    questions = QUESTIONS if kind.name == "full" else 1
    most = PIXELS_A_STEP // (size[0] * size[1])
    return max(1, min(most, PATCHES_A_STEP // (4 * leaves), TOKENS_A_STEP // (leaves + questions * TAIL)))


def choose_difficulty(size: tuple[int, int], chance: random.Random) -> str | None:
    """Choose a difficulty: nursery on nursery canvases; elsewhere mostly normal, some easy, some hard."""
    if min(size) <= 128:
        return None
    return chance.choices((None, "easy", "hard"), (0.6, 0.25, 0.15))[0]
