"""`VideoStream`: relevance that holds still while the scene does, and jumps when the scene does.

stream = VideoStream("What number is on the red sign?", budget=256)
for pixels in frames:
    seen = stream.see(pixels)          # SeenFrame: allocation, cut, similarity, …

Each frame pays for what is new in it: the whole budget after a cut, a single token where nothing changed. One frame:
motion; has the scene changed? If so, start afresh. If not, carry relevance along the flow, and look again only where
it is weak.
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
from .sources import everything, first_planes, map_size, planes_of, source_of

# What `arr-coc train video` writes.
SETTINGS_NAME = "settings.json"
SHIPPED = WEIGHTS / "video"


@dataclass(frozen=True)
class TemporalSettings:
    """decay: share of the carried relevance where it is looked at again, if the flow is trusted (0.7–0.9 expected).

    boost: what the relevance of a place that moves on its own is multiplied by (1.2–1.8 expected). weak: trust below
    which the carried relevance is looked at again. agree, disagree: the residual (0–1) that motion leaves unexplained
    up to which ground is the same, and from which it is other ground. fade: trust that is left after each frame.
    cut_weights, cut_bias: of `motion.FEATURES`; a sum above zero is a cut. keyframe: everything is looked at again, and
    after this many frames.
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
    """What was learned: from a folder of `arr-coc train video`, the package's own, or defaults."""
    path = Path(SHIPPED if folder is None else folder) / SETTINGS_NAME
    if folder is None and not os.path.exists(path):
        return TemporalSettings()
    verify(path.parent, [path.name])
    try:
        return TemporalSettings(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"no temporal settings could be read from {path}: {error}") from error


# ---- carried relevance, for numpy and torch alike -------------------------------------------------------------------


def carried_trust(warped_trust: Array, same_ground: Array, fade: float | Array) -> Array:
    """How far the carried relevance of a place may be believed after one more frame.

    The smaller of the two and not their product: a flow that is a little off in every frame (fine print that drifts) is
    no growing evidence of other ground.
    """
    return fade * namespace(warped_trust).minimum(warped_trust, same_ground)


def blend(warped: Array, current: Array, trust: Array, decay: float | Array) -> Array:
    """decay · warped + (1 − decay) · current, and only current where the warped is not to be trusted."""
    weight = decay * trust
    return weight * warped + (1 - weight) * current


def boosted(relevance: Array, moving: Array, boost: float | Array) -> Array:
    """Relevance with places that move on their own raised, up to `boost` times; never above 1."""
    return (relevance * (1 + (boost - 1) * moving)).clip(0, 1)


# Bands into which a frame is cut across its shorter side. The weakest is looked at again, the others wait a frame, so
# that no frame costs much more than another.
BANDS = 8
# A band is looked at again if this share of it is weak.
SHARE = 0.02


def weak_bands(trust: np.ndarray, weak: float) -> list[tuple[slice, slice]]:
    """(h, w) trust → the window (rows, cols) of its weakest band, along the longer side; none where all is sure."""
    height, width = trust.shape
    across_rows = height <= width
    shares = (trust < weak).mean(axis=1 if across_rows else 0)
    edges = np.linspace(0, len(shares), min(BANDS, len(shares)) + 1).astype(int)
    weakness = np.add.reduceat(shares, edges[:-1]) / np.diff(edges)
    band = int(weakness.argmax())
    if weakness[band] <= SHARE:
        return []
    span = slice(int(edges[band]), int(edges[band + 1]))
    return [(span, slice(0, width)) if across_rows else (slice(0, height), span)]


# ---- what of this ground was shown before, and what a frame may therefore cost ---------------------------------------

# Ground counts as shown where it was shown in this share of the detail that is wanted now: carried maps blur a little.
ENOUGH = 0.6


def detail_of(allocation: Allocation) -> np.ndarray:
    """(rows, cols) float32: 1 at level 0, a half at level 1, …; 0 where nothing looks."""
    levels = allocation.level_map()
    return np.where(levels < 0, 0.0, np.exp2(-levels.astype(np.float32))).astype(np.float32)


def cells_of(maps: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """(h, w) → (rows, cols) mean of each cell."""
    return to_cells(maps[None], Frame(grid, 1))[0]


def spread_over(cells: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """(rows, cols) → (h, w), each place with the value of the cell it lies in."""
    rows, cols = cells.shape
    at_row = np.minimum((np.arange(size[0]) + 0.5) * rows / size[0], rows - 1).astype(int)
    at_col = np.minimum((np.arange(size[1]) + 0.5) * cols / size[1], cols - 1).astype(int)
    return np.ascontiguousarray(cells[at_row[:, None], at_col[None, :]], dtype=np.float32)


def fresh_ground(standing: Allocation, shown: np.ndarray) -> float:
    """Share of the standing tokens that stand on ground not yet shown in that detail. shown: (rows, cols)."""
    density = token_density(standing)
    unmet = shown < ENOUGH * detail_of(standing)
    return float((density * unmet).sum() / density.sum())


# ---- the stream ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StreamState:
    """What is known after a frame; every array is at the maps' size unless said otherwise.

    frame, scene: numbers of the last frame and of its scene, from 0. since_keyframe: frames since everything was
    looked at. size: (height, width) of the frames. view: (h, w, 3) uint8, the last frame small. level:
    (2,) the clip's own level of the cut features.
    planes: (planes, h, w) carried maps. trust: (h, w) how far they may be believed. whole_trust: (h, w) that of maps
    that are known of whole frames only. relevance: (h, w) of the last frame. shown: (h, w) detail in which this ground
    was shown, 0 to 1.
    """

    frame: int
    scene: int
    since_keyframe: int
    size: tuple[int, int]
    view: np.ndarray
    level: np.ndarray
    planes: np.ndarray
    trust: np.ndarray
    whole_trust: np.ndarray
    relevance: np.ndarray
    shown: np.ndarray


# A source that can only be asked for the whole frame is asked again when this share of the relevance is weak.
LOOK_AGAIN = 0.25
# Costly maps of whole frames are found anew when so much of what they show is no longer sure: about every eighth frame
# where all is still, sooner where the flow loses things.
DOUBT = 0.15


@dataclass(frozen=True, eq=False)
class SeenFrame:
    """What was decided about one frame.

    number, scene: from 0. cut: the first frame of a new scene. allocation:
    what is paid for in this frame. fresh: share of the tokens for all that the question needs here whose ground is new.
    looked: share of the frame that was looked at again. same_ground: (h, w) share of each place that was there before.
    """

    number: int
    scene: int
    cut: bool
    allocation: Allocation
    relevance: Relevance
    fresh: float
    looked: float
    same_ground: np.ndarray | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.allocation.tokens


class VideoStream:
    """One stream of frames and one question. All that it remembers is in `state`, a value.

    Args:
        query: The question.
        budget: Tokens that one frame may cost, or a share of them; a quarter by default.
        scorer: Of the model that will answer; "auto" takes it.
        settings: Instead of those that come with the library.
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
        self.cell, self.photos = self.options.cell, self.options.photos
        self.settings = settings or load_settings()
        self.source = source_of(self.options.relevance, query, self.photos, scorer)
        self.state: StreamState | None = None

    def see(self, pixels: np.ndarray) -> SeenFrame:
        """See the next frame, (H, W, 3) uint8 RGB; returns where its tokens go, and why."""
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

    def _known(self, pixels: np.ndarray, view: np.ndarray, motion: Motion | None) -> tuple[StreamState, float]:
        """What is relevant in the next frame, and how much of it was looked at again. motion: None where a new scene
        begins."""
        state = self.state
        if motion is None or state is None:
            after, looked = self._afresh(state, pixels, view)
        else:
            after, looked = self._carry(state, motion, pixels, view)
        relevance = self.source.combine(after.planes)
        if motion is not None:
            relevance = boosted(relevance, motion.moving, self.settings.boost)
        return replace(after, relevance=relevance, view=view, size=pixels.shape[:2]), looked

    def _afresh(self, state: StreamState | None, pixels: np.ndarray, view: np.ndarray) -> tuple[StreamState, float]:
        """A new scene: nothing is carried but the counters."""
        size = map_size((pixels.shape[0], pixels.shape[1]))
        planes = first_planes(self.source, pixels, view)
        blank = np.zeros(size, dtype=np.float32)
        after = StreamState(
            frame=0 if state is None else state.frame + 1,
            scene=0 if state is None else state.scene + 1,
            since_keyframe=0,
            size=(pixels.shape[0], pixels.shape[1]),
            view=view,
            level=np.zeros(len(FEATURES), dtype=np.float32) if state is None else state.level,
            planes=planes,
            trust=np.ones(size, dtype=np.float32),
            whole_trust=np.ones(size, dtype=np.float32),
            relevance=blank,
            shown=blank,
        )
        return after, 1.0

    def _carry(
        self, state: StreamState, motion: Motion, pixels: np.ndarray, view: np.ndarray
    ) -> tuple[StreamState, float]:
        """The same scene: everything is warped along the flow, and what is weak is looked at again."""
        settings, size = self.settings, motion.agreement.shape
        keyframe = state.since_keyframe + 1 >= settings.keyframe
        carried = [*state.planes, state.trust, state.whole_trust, state.shown]
        warped = warp_planes(carried, motion.flow)
        planes, (trust, whole_trust, shown) = warped[:-3], warped[-3:]
        trust = carried_trust(trust, motion.agreement, settings.fade)
        whole_trust = carried_trust(whole_trust, motion.agreement, settings.fade)
        windows = self._windows(trust, planes, keyframe)
        whole = keyframe or self._in_doubt(whole_trust, planes)
        current = planes_of(self.source, pixels, view, windows, planes, whole)
        again = np.zeros(size, dtype=bool)
        for window in windows:
            again[window] = True
        cheap = self.source.everywhere_planes
        for number in range(len(planes)):
            costly = number in self.source.whole_planes
            mixed = blend(planes[number], current[number], whole_trust if costly else trust, settings.decay)
            # A costly map that was not found anew is what was carried, and so is the mixture.
            planes[number] = mixed if costly or number in cheap else np.where(again, mixed, planes[number])
        after = replace(
            state,
            frame=state.frame + 1,
            since_keyframe=0 if keyframe else state.since_keyframe + 1,
            planes=planes,
            trust=np.where(again, np.float32(1), trust),
            whole_trust=np.ones_like(whole_trust) if whole else whole_trust,
            shown=np.minimum(shown, motion.agreement),
        )
        return after, float(again.mean())

    def _windows(self, trust: np.ndarray, planes: np.ndarray, keyframe: bool) -> list[tuple[slice, slice]]:
        size = (trust.shape[0], trust.shape[1])
        if keyframe:
            return [everything(size)]
        if self.source.windowed:
            return weak_bands(trust, self.settings.weak)
        weight = planes.sum(0)
        weak = float((weight * (trust < self.settings.weak)).sum() / max(float(weight.sum()), 1e-6))
        return [everything(size)] if weak > LOOK_AGAIN else []

    def _in_doubt(self, trust: np.ndarray, planes: np.ndarray) -> bool:
        """Whether the costly maps should be found anew: trust in the places that they show is lost."""
        if not self.source.whole_planes:
            return False
        weight = planes[list(self.source.whole_planes)].sum(0)
        return float((weight * (1 - trust)).sum()) > DOUBT * max(float(weight.sum()), 1e-6)

    # ---- tokens -------------------------------------------------------------------------------------------------

    def _attend(self, after: StreamState, cut: bool) -> tuple[StreamState, SeenFrame]:
        """Find what the question needs in this frame, and pay for what of it was not shown before."""
        size = after.size
        frame = Frame(size, self.cell)
        cap = self.options.tokens(frame.full)
        standing = allocate(after.relevance, cap, image_size=size, cell=self.cell)
        shown, wanted = cells_of(after.shown, frame.grid), detail_of(standing)
        fresh = fresh_ground(standing, shown)
        unmet = np.clip(1 - shown / np.maximum(wanted, 1e-6), 0, 1)
        # Ground that was shown still counts a little: what is left over goes to the most relevant of it.
        demand = cells_of(after.relevance, frame.grid) * (0.02 + 0.98 * unmet)
        tokens = 1 + round((cap - 1) * fresh)
        paid = allocate(demand.astype(np.float32), tokens, image_size=size, cell=self.cell)
        after = replace(after, shown=np.maximum(after.shown, spread_over(detail_of(paid), after.shown.shape)))
        seen = SeenFrame(
            number=after.frame,
            scene=after.scene,
            cut=cut,
            allocation=paid,
            relevance=Relevance(after.relevance, query=self.query, notes=(self.source.note,)),
            fresh=fresh,
            looked=1.0,
        )
        return after, seen


def check_frame(pixels: object) -> np.ndarray:
    """(H, W, 3) uint8, or one clear line."""
    array = np.asarray(pixels)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or 0 in array.shape:
        raise InputError(f"a frame must be (height, width, 3) uint8 RGB, got {array.dtype} {array.shape}")
    return np.ascontiguousarray(array)
