"""Where a scorer's examples come from: which pictures when, rendered ahead, mixed into one batch, studied again.

Static pictures first, then frames of clips, then adversaries, which count double: of several candidates, in Needle
World's `hard` setting (tiny text at the edge, low contrast, many objects), those on which the scorer fails just now.
What was learned stays in the mixture, so that it is not forgotten.

Which pictures a step takes is plain data (`Piece`), apart from rendering them: a checkpoint keeps the data, and a
resumed training renders the same pictures again. The renderer's cost is mostly launching small operations, the same for
ten pictures as for a thousand; so few large calls, one family at a time, make it vanish beside the reading.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from arr_coc.core.errors import InputError

from ..worlds.needle.clips import render_clip
from .checkpoints import TrainingState
from .pictures import Glyphs, TrainingBatch, cut, join, render_family

Size = tuple[int, int]
SOURCES = ("static", "video", "adversarial")
SEARCHED = 3  # candidates for each adversary
HARD_WEIGHT = 2.0


@dataclass(frozen=True)
class CurriculumStage:
    """name; since: the share of the training from which on it holds; shares: of each source in a batch."""

    name: str
    since: float
    shares: Mapping[str, float]


STAGES = (
    CurriculumStage("static", 0.0, {"static": 1.0}),
    CurriculumStage("video", 0.4, {"static": 0.5, "video": 0.5}),
    CurriculumStage("adversarial", 0.7, {"static": 0.4, "video": 0.2, "adversarial": 0.4}),
)


@dataclass(frozen=True)
class Curriculum:
    """Stages by progress, and what an example of each source counts in the loss."""

    stages: tuple[CurriculumStage, ...] = STAGES
    weights: Mapping[str, float] = field(
        default_factory=lambda: {"static": 1.0, "video": 1.0, "adversarial": HARD_WEIGHT}
    )

    def __post_init__(self) -> None:
        starts = [stage.since for stage in self.stages]
        if not starts or starts[0] != 0 or starts != sorted(starts):
            raise InputError(f"the stages of a curriculum must begin at 0 and go up, got {starts}")
        unknown = {source for stage in self.stages for source in stage.shares} - set(self.weights)
        if unknown:
            raise InputError(f"no weight for the source {', '.join(sorted(unknown))}; give one in weights")

    def at(self, progress: float) -> CurriculumStage:
        """The stage at a share of the training in [0, 1]."""
        return [stage for stage in self.stages if max(0.0, progress) >= stage.since][-1]

    def counts(self, progress: float, number: int) -> dict[str, int]:
        """How many of `number` examples come from each source: the shares, rounded so that they sum to number."""
        shares = self.at(progress).shares
        total = sum(shares.values())
        exact = {name: number * share / total for name, share in shares.items()}
        result = {name: int(value) for name, value in exact.items()}
        # What rounding left over goes to the largest remainders.
        by_remainder = sorted(exact, key=lambda name: result[name] - exact[name])
        for name in by_remainder[: number - sum(result.values())]:
            result[name] += 1
        return {name: count for name, count in result.items() if count}


STATIC_ONLY = Curriculum(stages=STAGES[:1])

# ---- which pictures --------------------------------------------------------------------------------------------------

FRAMES = 4
AHEAD = 8
# Rendering ahead is worth nothing on large canvases, where painting dominates, and would only take memory.
PIXELS_AHEAD = 2048 * 256 * 256


class Block(NamedTuple):
    """Pictures of one family that are rendered in one go: all that decides what they show."""

    source: str
    family: str
    number: int
    size: Size
    seed: int
    start: int
    difficulty: str | None
    split: str

    @property
    def holds(self) -> int:
        """How many there are: clips come whole."""
        return -(-self.number // FRAMES) * FRAMES if self.source == "video" else self.number

    def render(self, device: torch.device | str) -> TrainingBatch:
        if self.source != "video":
            return render_family(
                self.family, self.number, self.size, self.seed, self.start, device, self.difficulty, self.split
            )
        # Frames of clips with one cut, as single pictures. They carry no glyphs: a reader needs those, a scorer not.
        clips = range(self.start, self.start + self.holds // FRAMES)
        frames = render_clip(self.family, clips, FRAMES, self.size, self.seed, self.split, device, cuts=1).frames
        none = torch.zeros(len(frames), 0, dtype=torch.int64, device=frames.pictures.device)
        return TrainingBatch.of(frames, Glyphs(none, none, none, none))


class Piece(NamedTuple):
    """Pictures start … stop − 1 of a block."""

    block: Block
    start: int
    stop: int


def hardest(pieces: Sequence[Piece], ease: Tensor, number: int) -> list[Piece]:
    """The `number` least easy pictures of these pieces, one by one, in the order they had."""
    each = [Piece(block, place, place + 1) for block, start, stop in pieces for place in range(start, stop)]
    return [each[place] for place in sorted(ease.argsort(stable=True)[:number].tolist())]


def follows(pieces: Sequence[Piece]) -> Tensor:
    """(B,) bool: whether each picture of these pieces is the next frame of the one before it."""
    frames = [
        block.source == "video" and place > start and place % FRAMES > 0
        for block, start, stop in pieces
        for place in range(start, stop)
    ]
    return torch.tensor(frames, dtype=torch.bool)


Search = Callable[[TrainingBatch], Tensor]  # pictures → (B,) how easy they are


class Sources:
    """The pictures of every source; `choose` mixes them as the curriculum says, `render` makes a batch of them.

    Explicit state, one for each training: how many pictures were rendered, and of every family and canvas the block
    that is used up next.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        families: Sequence[str],
        shares: Sequence[float],
        seed: int,
        device: torch.device | str,
        split: str = "train",
    ) -> None:
        self.curriculum, self.families, self.shares = curriculum, tuple(families), tuple(shares)
        self.seed, self.device, self.split = seed, device, split
        self.rendered = dict.fromkeys(SOURCES, 0)
        self.waiting: dict[tuple[str, str, Size], tuple[Block, int]] = {}
        self._pictures: dict[Block, TrainingBatch] = {}

    def choose(
        self, number: int, size: Size, progress: float, chance: random.Random, search: Search | None = None
    ) -> list[Piece]:
        """Exactly `number` fresh pictures, so that they divide among processes. search: how easy each picture is; of
        the candidates for adversaries the least easy are taken, or the first ones where nobody searches."""
        pieces: list[Piece] = []
        for source, count in self.curriculum.counts(progress, number).items():
            if source == "adversarial" and search is not None:
                candidates = self._choose(source, SEARCHED * count, size, chance)
                pieces += hardest(candidates, search(self.render(candidates)[0]), count)
            else:
                pieces += self._choose(source, count, size, chance)
        return pieces

    def _choose(self, source: str, number: int, size: Size, chance: random.Random) -> list[Piece]:
        """The families' shares hold on average: borders between families stand at the cumulated shares, all shifted by
        one random offset before rounding."""
        offset, total = chance.random(), sum(self.shares)
        borders = [int(number * share / total + offset) for share in accumulate(self.shares, initial=0.0)]
        # The last border is the number itself, whatever rounding made of the sum.
        borders[-1] = number
        pieces = []
        for family, (start, stop) in zip(self.families, pairwise(borders), strict=True):
            if stop > start:
                block, used = self.waiting.get((source, family, size), (None, 0))
                if block is None or block.holds - used < stop - start:
                    self._pictures.pop(block, None)
                    block, used = self._ahead(source, family, stop - start, size, chance), 0
                self.waiting[source, family, size] = block, used + stop - start
                pieces.append(Piece(block, used, used + stop - start))
        return pieces

    def _ahead(self, source: str, family: str, count: int, size: Size, chance: random.Random) -> Block:
        number = max(count, min(count * AHEAD, PIXELS_AHEAD // (size[0] * size[1])))
        start = self.rendered[source]
        self.rendered[source] += number
        difficulty = "hard" if source == "adversarial" else None
        if source == "static":
            difficulty = chance.choices((None, "easy"), (0.7, 0.3))[0]
        seed = self.seed + 101 * SOURCES.index(source)
        return Block(source, family, number, size, seed, start, difficulty, self.split)

    def render(self, pieces: Sequence[Piece]) -> tuple[TrainingBatch, Tensor]:
        """The pictures and what each counts in the loss (B,), mean 1."""
        waiting = {block for block, _ in self.waiting.values()}
        parts, weights, made = [], [], dict(self._pictures)
        for block, start, stop in pieces:
            if block not in made:
                made[block] = block.render(self.device)
            pictures = made[block]
            if block in waiting:
                self._pictures[block] = pictures
            parts.append(cut(pictures, start, stop))
            weights.append(torch.full((stop - start,), self.curriculum.weights[block.source]))
        weight = torch.cat(weights).to(parts[0].pictures.device)
        return join(parts), weight / weight.mean()

    def take(self, number: int, size: Size, progress: float, chance: random.Random) -> tuple[TrainingBatch, Tensor]:
        """`choose` and `render` in one."""
        return self.render(self.choose(number, size, progress, chance))

    def state(self) -> dict[str, object]:
        waiting = [(tuple(block), used) for block, used in self.waiting.values()]
        return {"rendered": dict(self.rendered), "waiting": waiting}

    def load_state(self, state: TrainingState) -> None:
        self.rendered = dict(state["rendered"])
        blocks = [(Block(*values), used) for values, used in state["waiting"]]
        self.waiting = {(block.source, block.family, block.size): (block, used) for block, used in blocks}


# ---- studied again ---------------------------------------------------------------------------------------------------

KEPT = 24


class Judged(NamedTuple):
    """A batch, where its answers hung on detail (B, rows, cols), what each picture counts (B,), and its pieces."""

    batch: TrainingBatch
    shares: Tensor
    weights: Tensor
    pieces: tuple[Piece, ...] = ()


@dataclass
class CreditReplay:
    """Credit that was paid for once is learned from several times: the latest batches with their shares.

    Reading with its derivative costs several times as much as a step of the scorer. So every freshly judged batch is
    followed by steps on some that were judged shortly before; what the reader said about them does not change, since it
    is frozen.
    """

    kept: deque[Judged] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, judged: Judged) -> None:
        self.kept.append(judged)

    def draw(self, times: int, chance: random.Random) -> list[Judged]:
        """At most `times` of those before the latest, different ones."""
        older = list(self.kept)[:-1]
        return chance.sample(older, min(times, len(older)))

    def state(self) -> list[object]:
        """The shares and weights, and the pieces instead of their pictures."""
        return [
            ([(tuple(block), start, stop) for block, start, stop in one.pieces], one.shares.cpu(), one.weights.cpu())
            for one in self.kept
        ]

    def load_state(self, state: list[Any], sources: Sources) -> None:
        self.kept.clear()
        for pieces, shares, weights in state:
            found = [Piece(Block(*values), start, stop) for values, start, stop in pieces]
            batch, _ = sources.render(found)
            device = batch.pictures.device
            self.kept.append(Judged(batch, shares.to(device), weights.to(device), tuple(found)))
