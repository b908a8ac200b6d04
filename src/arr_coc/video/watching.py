"""`watch`: allocate one budget over a whole clip, for one question.

A stream goes over the clip once and finds relevance, motion and cuts; then all frames share the budget. For streams
without an end, use `VideoStream`, which has a budget for each frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..attending.distance import Distance, View, choose_distance, scaled_size
from ..attending.frame import Frame
from ..attending.grip import as_grip
from ..attending.overlay import overlay, token_gains
from ..attending.tree import Leaves
from ..core.errors import InputError, shown
from ..core.values import DEFAULT_CELL, Allocation
from ..knowing.scene import RelevanceSource
from ..options import DEFAULT_SHARE, Budget, Options, as_options
from ..texture.type_height import letters_of
from .stream import SeenFrame, TemporalSettings, VideoStream, cells_of

if TYPE_CHECKING:
    from torch import Tensor

    from .decode import Film


@dataclass(frozen=True, eq=False)
class Watched:
    """A watched clip. frames: the decision about each; their allocations share `budget`. full: tokens of all frames
    with level 0 everywhere. size: (height, width). seconds: the time of each frame."""

    frames: tuple[SeenFrame, ...]
    budget: int
    full: int
    query: str
    size: tuple[int, int]
    seconds: tuple[float, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def tokens(self) -> int:
        return sum(frame.tokens for frame in self.frames)

    @property
    def allocations(self) -> list[Allocation]:
        return [frame.allocation for frame in self.frames]

    @property
    def distance(self) -> Distance:
        """Return the reading scale of all frames."""
        return Distance(self.frames[0].allocation.scale)

    @property
    def cuts(self) -> list[int]:
        """Return the numbers of the first frames of scenes, without the clip's first."""
        return [frame.number for frame in self.frames if frame.cut]

    def funded(self, most: int) -> list[int]:
        """Return up to `most` frames that show ground of their own, in order of time: of each stretch of much the same
        ground the frame with most tokens, if it has at least a quarter of the largest number."""
        best: list[int] = []
        new = 1.0
        for number, frame in enumerate(self.frames):
            new += 1.0 if frame.same_ground is None else 1.0 - float(frame.same_ground.mean())
            if new >= NEW_GROUND:
                best.append(number)
                new = 0.0
            elif frame.tokens > self.frames[best[-1]].tokens:
                best[-1] = number
        least = max(self.frames[number].tokens for number in best) / 4
        order = sorted(best, key=lambda number: -self.frames[number].tokens)[:most]
        return sorted(number for number in order if self.frames[number].tokens >= least)


# Share of a frame that must be new, summed since the last such frame, for it to show ground of its own.
NEW_GROUND = 0.5


def watch(
    frames: Iterable[np.ndarray],
    query: str,
    budget: Budget | None = None,
    *,
    seconds: Iterable[float] | None = None,
    scorer: RelevanceSource | None = None,
    settings: TemporalSettings | None = None,
    advance: Callable[[SeenFrame], None] | None = None,
    options: Options | None = None,
) -> Watched:
    """Decide where the tokens of a clip go: one budget over time and space.

    Args:
        frames: (H, W, 3) uint8 RGB, one after the other, all of one size.
        query: The question.
        budget: Tokens of the whole clip, or a share such as "10%"; a quarter by default.
        seconds: The time of each frame.
        scorer: A scorer trained with a model.
        settings: Settings of the carried relevance.
        advance: Called with each frame as it is seen.
        options: Everything else. `relevance` is "look" by default, `scale` 1; all frames are read at one scale.

    Returns:
        A `Watched`: the allocation of every frame, and what it costs in all.

    Example:
        >>> watch(frames, "What does the sign say?", "10%").tokens  # doctest: +SKIP
        480
    """
    options = as_options(options).override(budget=budget).default(scale=1.0)
    options.check_fixed("a clip")
    cell = options.cell
    share = options.budget if isinstance(options.budget, float) else DEFAULT_SHARE
    if isinstance(frames, str) or not isinstance(frames, Iterable):
        raise InputError(f"frames must be pictures (H, W, 3), got {shown(frames)}; arr-coc video reads files")
    pixels = iter(frames)
    first = next(pixels, None)
    if first is None or getattr(first, "ndim", 0) != 3:
        raise InputError(f"this clip has no frame (H, W, 3), got {shown(first)}; give at least one")
    stream = VideoStream(query, options=replace(options, budget=share), settings=settings, scorer=scorer)
    size = (first.shape[0], first.shape[1])
    seen: list[SeenFrame] = []
    needed, known, most = first, np.ones((1, 1), np.float32), -1.0
    for frame in _of_one_size(first, pixels):
        seen.append(stream.see(frame))
        if (peak := float(seen[-1].relevance.map.max())) > most:
            needed, known, most = frame, seen[-1].relevance.map, peak
        if advance is not None:
            advance(seen[-1])
    full = len(seen) * Frame(size, cell).full
    total = options.tokens(full)
    if total < len(seen):
        raise InputError(
            f"a budget of {total} tokens does not fit {len(seen)} frames: give at least {len(seen)}, one a frame"
        )
    each = full // len(seen)
    view = View(
        size, Frame(size, cell), lambda: letters_of(needed), lambda times: Frame(size, cell), as_grip(options.grip)
    )
    distance = choose_distance(view, options.scale, known, min(each, -(-total // len(seen))))
    shared = share_budget(seen, total, size, cell, distance)
    times = tuple(seconds) if seconds is not None else ()
    notes = [stream.source.note, *options.notes(full, "the clip"), *distance.notes]
    return Watched(tuple(shared), total, full, query, size, times, tuple(notes))


def watch_film(
    film: Film,
    query: str,
    options: Options,
    *,
    scorer: RelevanceSource | None = None,
    advance: Callable[[SeenFrame], None] | None = None,
) -> tuple[Watched, list[np.ndarray]]:
    """Apply `watch` to a clip while it is read, with its times and notes; return its frames, too."""
    frames: list[np.ndarray] = []
    seconds: list[float] = []

    def kept() -> Iterator[np.ndarray]:
        for time, pixels in film:
            seconds.append(time)
            frames.append(pixels)
            yield pixels

    watched = watch(kept(), query, scorer=scorer, advance=advance, options=options)
    times = tuple(time - seconds[0] for time in seconds)
    return replace(watched, seconds=times, notes=(*watched.notes, *film.notes)), frames


def share_budget(
    frames: list[SeenFrame],
    total: int,
    size: tuple[int, int],
    cell: int = DEFAULT_CELL,
    distance: Distance | None = None,
) -> list[SeenFrame]:
    """Return the frames with allocations that share one total, all at one reading scale."""
    import torch

    distance = distance or Distance()
    frame = Frame(size, cell, None if distance.scale == 1 else scaled_size(size, distance.scale, cell))
    total = min(total, len(frames) * frame.grid[0] * frame.grid[1])
    relevance = np.stack([cells_of(one.relevance.map, frame.grid) for one in frames])
    same = [
        np.zeros(frame.grid) if one.same_ground is None else cells_of(one.same_ground, frame.grid) for one in frames
    ]
    maps = torch.from_numpy(relevance)[None]
    leaves = grow_forest(demand_of(maps, torch.from_numpy(np.stack(same)).float()[None]), total, maps)
    first = frames[0].relevance
    decided = {"ways": first.ways, "tensions": first.tensions}
    seen = {"scale": distance.scale, "full": Frame(size, cell).full, "notes": distance.notes, **decided}
    allocations = [
        replace(frame.allocation(cells[:length].numpy(), scores[:length].numpy(), int(length), "overlay"), **seen)
        for cells, scores, length in zip(leaves.cells, leaves.scores, leaves.lengths.tolist(), strict=True)
    ]
    return [replace(one, allocation=allocation) for one, allocation in zip(frames, allocations, strict=True)]


def _of_one_size(first: np.ndarray, rest: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    yield first
    for number, frame in enumerate(rest, 1):
        if frame.shape != first.shape:
            raise InputError(
                f"frame {number} is {frame.shape[1]}×{frame.shape[0]}, the first {first.shape[1]}×{first.shape[0]}; "
                "a clip has frames of one size"
            )
        yield frame


# ---- one budget for a whole clip -------------------------------------------------------------------------------------
#
# Tokens of all frames are ranked by the relevance of the new ground they show. So a cut gets a full look, a still scene
# next to nothing after its first frame, and tokens left over go to the most relevant ground once more. All clips of a
# batch at once, on any device.

# Weight of repeated ground, so that a budget that cannot be spent on new ground is not wasted.
REPEATED = 0.02


def demand_of(relevance: Tensor, same_ground: Tensor, repeated: float = REPEATED) -> Tensor:
    """Return the relevance of new ground, (N, T, rows, cols). same_ground: share of each cell that was there before."""
    return relevance * (repeated + (1 - repeated) * (1 - same_ground))


def share_tokens(demand: Tensor, total: int) -> Tensor:
    """Divide `total` tokens of each clip by demand (N, T, rows, cols): (N, T) int64 tokens of each frame.

    Every frame gets at least one. The total is met exactly.
    """
    import torch

    number, frames = demand.shape[:2]
    if total < frames:
        raise InputError(f"a total of {total} tokens is less than one for each of {frames} frames; give more")
    gains = token_gains(demand.flatten(0, 1)).unflatten(0, (number, frames))
    gains[..., 0] = math.inf
    # Among equals the frames take turns: the first token of each, then the second.
    order = gains.transpose(1, 2).flatten(1).argsort(dim=1, descending=True, stable=True)[:, :total]
    counts = torch.zeros(number, frames, dtype=torch.int64, device=demand.device)
    return counts.scatter_add(1, order % frames, torch.ones_like(order))


def grow_forest(demand: Tensor, total: int, relevance: Tensor | None = None) -> Leaves:
    """Allocate leaves to all frames by demand (N, T, rows, cols): an overlay for each, (N · T, …), clip after clip.

    total: see `share_tokens`. The leaves are scored by `relevance`, or by the demand if it is None.
    """
    counts = share_tokens(demand, total)
    scored = demand if relevance is None else relevance
    return overlay(demand.flatten(0, 1), counts.flatten().tolist(), scored=scored.flatten(0, 1))
