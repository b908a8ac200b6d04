"""`VideoStream`: relevance that stays while the scene stays, and is measured again at a cut.

stream = VideoStream("What number is on the red sign?", budget=256)
for pixels in frames:
    seen = stream.see(pixels)          # SeenFrame: allocation, cut, similarity, …

Each frame gets tokens for what is new in it: the whole budget after a cut, a single token if nothing changed. For each
frame: measure motion; after a cut, look again; otherwise carry relevance along the flow, and look again once too much
of it is unreliable.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from ..attending.allocate import allocate
from ..attending.frame import Frame, to_cells
from ..core.arrays import Array, namespace
from ..core.compare import token_density
from ..core.errors import InputError
from ..core.folders import WEIGHTS, verify
from ..core.values import Allocation, JsonObject, Relevance, timed
from ..knowing.scene import RelevanceSource
from ..options import Budget, Options, as_options, check_question
from ..texture.motion import (
    FEATURES,
    Motion,
    cut_features,
    cut_score,
    measure_motion,
    next_level,
    view_of,
    warp_planes,
)
from .sources import StreamSource

# What `arr-coc train video` writes.
SETTINGS_NAME = "settings.json"
SHIPPED = WEIGHTS / "video"


@dataclass(frozen=True)
class TemporalSettings:
    """Settings of carried relevance. decay: its share in the mean with a new look, if the flow is trusted (0.7–0.9).

    boost: factor on the relevance of places that move on their own (1.2–1.8). weak: trust below which a place is looked
    at again. agree, disagree: residual of motion (0–1) up to which ground is the same, and from which it is different
    ground. fade: share of trust left after each frame. cut_weights, cut_bias: of `motion.FEATURES`; a sum above zero is
    a cut. keyframe: number of frames after which everything is looked at again.
    """

    decay: float = 0.8
    boost: float = 1.5
    weak: float = 0.5
    agree: float = 0.03
    disagree: float = 0.11
    fade: float = 0.98
    cut_weights: tuple[float, ...] = (33.0, 61.0)
    cut_bias: float = -3.2
    keyframe: int = 30

    def __post_init__(self) -> None:
        object.__setattr__(self, "cut_weights", tuple(float(value) for value in self.cut_weights))
        shares = all(0 <= value <= 1 for value in (self.decay, self.weak, self.fade))
        if not (shares and self.boost >= 1 and 0 <= self.agree < self.disagree and self.keyframe >= 1):
            raise InputError(f"{self} cannot be used; give shares in [0, 1], boost from 1 on, agree below disagree")

    def to_json(self) -> JsonObject:
        return asdict(self)


def load_settings(folder: str | Path | None = None) -> TemporalSettings:
    """Load settings: from a folder of `arr-coc train video`, else those of the package, else the defaults."""
    path = Path(SHIPPED if folder is None else folder) / SETTINGS_NAME
    if folder is None and not os.path.exists(path):
        return TemporalSettings()
    verify(path.parent, [path.name])
    try:
        return TemporalSettings(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"temporal settings could not be read from {path}: {error}") from error


# ---- carried relevance, for numpy and torch alike -------------------------------------------------------------------


def carried_trust(warped_trust: Array, same_ground: Array, fade: float | Array) -> Array:
    """Return the trust in the carried relevance of a place after one more frame.

    Takes the smaller of the two, not their product: a flow that is slightly off in every frame (drifting fine print) is
    no growing evidence of different ground.
    """
    return fade * namespace(warped_trust).minimum(warped_trust, same_ground)


def blend(warped: Array, current: Array, trust: Array, decay: float | Array) -> Array:
    """Return decay · warped + (1 − decay) · current, and only current where the warped map is not trusted."""
    weight = decay * trust
    return weight * warped + (1 - weight) * current


def boosted(relevance: Array, moving: Array, boost: float | Array) -> Array:
    """Raise the relevance of places that move on their own, up to `boost` times and at most to 1."""
    return (relevance * (1 + (boost - 1) * moving)).clip(0, 1)


# ---- ground that earlier frames showed, and the cost of a frame ------------------------------------------------------

# Ground counts as shown if it had this share of the detail wanted now: carried maps blur a little.
ENOUGH = 0.6


def detail_of(allocation: Allocation) -> np.ndarray:
    """Return the detail of each cell, (rows, cols) float32: 1 at level 0, a half at level 1, …; 0 without a token."""
    levels = allocation.level_map()
    return np.where(levels < 0, 0.0, np.exp2(-levels.astype(np.float32))).astype(np.float32)


def cells_of(maps: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Average (h, w) over cells: (rows, cols)."""
    return to_cells(maps[None], Frame(grid, 1))[0]


def spread_over(cells: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Spread (rows, cols) over (h, w): each place gets the value of its cell."""
    rows, cols = cells.shape
    at_row = np.minimum((np.arange(size[0]) + 0.5) * rows / size[0], rows - 1).astype(int)
    at_col = np.minimum((np.arange(size[1]) + 0.5) * cols / size[1], cols - 1).astype(int)
    return np.ascontiguousarray(cells[at_row[:, None], at_col[None, :]], dtype=np.float32)


def fresh_ground(standing: Allocation, shown: np.ndarray) -> float:
    """Return the share of tokens on ground not yet shown in that detail. shown: (rows, cols)."""
    density = token_density(standing)
    unmet = shown < ENOUGH * detail_of(standing)
    return float((density * unmet).sum() / density.sum())


# ---- the stream ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StreamState:
    """The state after a frame; arrays have the size of the maps unless noted otherwise.

    frame, scene: numbers of the last frame and of its scene, from 0. since_keyframe: frames since the last keyframe.
    size: (height, width) of the frames. view: (h, w, 3) uint8, the last frame, reduced. level: (2,) running level of
    the cut features of this clip. carried: (h, w) relevance, moved along the flow. trust: (h, w) trust in it. found:
    the result of the last look. relevance: (h, w) of the last frame. shown: (h, w) detail in which this ground was
    shown, 0 to 1.
    """

    frame: int
    scene: int
    since_keyframe: int
    size: tuple[int, int]
    view: np.ndarray
    level: np.ndarray
    carried: np.ndarray
    trust: np.ndarray
    found: Relevance
    relevance: np.ndarray
    shown: np.ndarray


# A frame is looked at again when this share of the relevance has little trust.
LOOK_AGAIN = 0.25


@dataclass(frozen=True, eq=False)
class SeenFrame:
    """The decision about one frame.

    number, scene: from 0. cut: whether it is the first frame of a new scene. allocation: the tokens of this frame.
    fresh: share of all tokens that the question needs in this frame whose ground is new. looked: whether the frame was
    looked at again. same_ground: (h, w) share of each place that was there before.
    """

    number: int
    scene: int
    cut: bool
    allocation: Allocation
    relevance: Relevance
    fresh: float
    looked: bool
    same_ground: np.ndarray | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.allocation.tokens


class VideoStream:
    """One stream of frames and one question. `state` holds everything it remembers, as a value.

    Args:
        query: The question.
        budget: Maximum tokens of one frame, or a share; a quarter by default.
        scorer: The scorer of the model that will answer; "auto" takes it.
        settings: Replace the settings that come with the library.
        options: `budget`, `relevance` ("look" by default; a function gets (frame (H, W, 3) uint8, question)), `photos`
            and `cell`.

    Example:
        >>> stream = VideoStream("Where is the red car?", budget=64)  # doctest: +SKIP
        >>> stream.see(frame).allocation.tokens  # doctest: +SKIP
        64
    """

    def __init__(
        self,
        query: str,
        budget: Budget | None = None,
        *,
        scorer: RelevanceSource | None = None,
        settings: TemporalSettings | None = None,
        options: Options | None = None,
    ) -> None:
        self.query = check_question(query)
        self.options = as_options(options).override(budget=budget).default(relevance="look")
        self.options.check_fixed("a clip")
        self.cell = self.options.cell
        self.settings = settings or load_settings()
        self.source = StreamSource(self.options.relevance, query, self.options.photos, scorer)
        self.state: StreamState | None = None

    def see(self, pixels: np.ndarray) -> SeenFrame:
        """Process the next frame, (H, W, 3) uint8 RGB; return where its tokens go, and why."""
        pixels = check_frame(pixels)
        seconds: dict[str, float] = {}
        state, size = self.state, (pixels.shape[0], pixels.shape[1])
        motion, features, score = None, np.zeros(len(FEATURES), dtype=np.float32), 1.0
        with timed(seconds, "motion"):
            view = view_of(pixels)
            if state is not None and state.size == size:
                motion = measure_motion(state.view, view, self.settings.agree, self.settings.disagree)
                features = cut_features(motion, state.view, view)
                score = cut_score(features, state.level, self.settings.cut_weights, self.settings.cut_bias)
        fresh_start = state is None or motion is None or score > 0
        with timed(seconds, "know"):
            after, looked = self._known(pixels, view, None if fresh_start else motion)
        with timed(seconds, "attend"):
            if motion is not None and state is not None:
                after = replace(after, level=next_level(features, state.level))
            after, seen = self._attend(after, fresh_start and state is not None)
        self.state = after
        return replace(
            seen,
            looked=looked,
            same_ground=None if fresh_start or motion is None else motion.agreement,
            seconds=seconds,
        )

    # ---- relevance ----------------------------------------------------------------------------------------------

    def _known(self, pixels: np.ndarray, view: np.ndarray, motion: Motion | None) -> tuple[StreamState, bool]:
        """Return the relevance of the next frame, and whether it was looked at. motion: None if a new scene begins."""
        state = self.state
        if motion is None or state is None:
            after, looked = self._afresh(state, pixels, view), True
        else:
            after, looked = self._carry(state, motion, pixels)
        moving = after.carried if motion is None else boosted(after.carried, motion.moving, self.settings.boost)
        return replace(after, relevance=moving, view=view, size=pixels.shape[:2]), looked

    def _afresh(self, state: StreamState | None, pixels: np.ndarray, view: np.ndarray) -> StreamState:
        """Begin a new scene: carry nothing but the counters."""
        found = self.source.look(pixels)
        return StreamState(
            frame=0 if state is None else state.frame + 1,
            scene=0 if state is None else state.scene + 1,
            since_keyframe=0,
            size=(pixels.shape[0], pixels.shape[1]),
            view=view,
            level=np.zeros(len(FEATURES), dtype=np.float32) if state is None else state.level,
            carried=found.map,
            trust=np.ones_like(found.map),
            found=found,
            relevance=found.map,
            shown=np.zeros_like(found.map),
        )

    def _carry(self, state: StreamState, motion: Motion, pixels: np.ndarray) -> tuple[StreamState, bool]:
        """Continue a scene: warp everything along the flow; look again on keyframes and if trust is low."""
        settings = self.settings
        keyframe = state.since_keyframe + 1 >= settings.keyframe
        carried, trust, shown = warp_planes([state.carried, state.trust, state.shown], motion.flow)
        trust = carried_trust(trust, motion.agreement, settings.fade)
        weak = float((carried * (trust < settings.weak)).sum() / max(float(carried.sum()), 1e-6))
        looks, found = keyframe or weak > LOOK_AGAIN, state.found
        if looks:
            found = self.source.look(pixels)
            carried, trust = blend(carried, found.map, trust, settings.decay), np.ones_like(trust)
        after = replace(
            state,
            frame=state.frame + 1,
            since_keyframe=0 if keyframe else state.since_keyframe + 1,
            carried=carried,
            trust=trust,
            found=found,
            shown=np.minimum(shown, motion.agreement),
        )
        return after, looks

    # ---- tokens -------------------------------------------------------------------------------------------------

    def _attend(self, after: StreamState, cut: bool) -> tuple[StreamState, SeenFrame]:
        """Find what the question needs in this frame, and spend tokens on the part not shown before."""
        size = after.size
        frame = Frame(size, self.cell)
        cap = self.options.tokens(frame.full)
        standing = allocate(after.relevance, cap, image_size=size, cell=self.cell)
        shown, wanted = cells_of(after.shown, frame.grid), detail_of(standing)
        fresh = fresh_ground(standing, shown)
        unmet = np.clip(1 - shown / np.maximum(wanted, 1e-6), 0, 1)
        # Ground already shown still counts a little: left-over tokens go to the most relevant of it.
        demand = cells_of(after.relevance, frame.grid) * (0.02 + 0.98 * unmet)
        tokens = 1 + round((cap - 1) * fresh)
        paid = allocate(demand.astype(np.float32), tokens, image_size=size, cell=self.cell)
        after = replace(after, shown=np.maximum(after.shown, spread_over(detail_of(paid), after.shown.shape)))
        decided = {"ways": after.found.ways, "tensions": after.found.tensions}
        seen = SeenFrame(
            number=after.frame,
            scene=after.scene,
            cut=cut,
            allocation=replace(paid, **decided),
            relevance=replace(after.found, map=after.relevance),
            fresh=fresh,
            looked=True,
        )
        return after, seen


def check_frame(pixels: object) -> np.ndarray:
    """Return a frame as (H, W, 3) uint8, or raise `InputError`."""
    array = np.asarray(pixels)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or 0 in array.shape:
        raise InputError(f"a frame must be (height, width, 3) uint8 RGB, got {array.dtype} {array.shape}")
    return np.ascontiguousarray(array)
