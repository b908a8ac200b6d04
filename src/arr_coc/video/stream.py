"""`VideoStream`: relevance that holds still while the scene does, and jumps when the scene does.

stream = VideoStream("What number is on the red sign?", budget=256)
for pixels in frames:
    seen = stream.see(pixels)          # SeenFrame: allocation, cut, similarity, …

One frame: motion; has the scene changed? If so, start afresh. If not, carry relevance along the flow, look again only
where it is weak, and pay only for ground that was not shown before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..attending.allocate import allocate
from ..attending.frame import Frame
from ..core.errors import InputError
from ..core.values import Allocation, Relevance, timed
from ..knowing.scene import RelevanceSource
from ..options import Budget, Options, as_options, check_question
from ..texture.motion import FEATURES, Motion, cut_features, cut_score, measure_motion, next_level, view_of, warp_planes
from .settings import (
    Pace,
    TemporalSettings,
    blend,
    boosted,
    carried_trust,
    cells_of,
    detail_of,
    fresh_ground,
    kept_share,
    load_settings,
    same_ground,
    spread_over,
    weak_bands,
)
from .sources import everything, first_planes, map_size, planes_of, source_of


@dataclass(frozen=True, eq=False)
class StreamState:
    """What is known after a frame; every array is at the maps' size unless said otherwise.

    frame, scene: numbers of the last frame and of its scene, from 0. since_keyframe: frames since everything was
    looked at. size: (height, width) of the frames. view: (h, w, 3) uint8, the last frame small. level:
    (2,) the clip's own level of the cut features.
    planes: (planes, h, w) carried maps. trust: (h, w) how far they may be believed. whole_trust: (h, w) that of maps
    that are known of whole frames only. relevance: (h, w) of the last frame. shown: (h, w) detail in which this ground
    was shown, 0 to 1. standing: (N, 3) leaves of the last standing allocation. spent: tokens so far.
    """

    frame: int
    scene: int
    since_keyframe: int
    spent: int
    size: tuple[int, int]
    view: np.ndarray
    level: np.ndarray
    planes: np.ndarray
    trust: np.ndarray
    whole_trust: np.ndarray
    relevance: np.ndarray
    shown: np.ndarray
    standing: np.ndarray


# A source that can only be asked for the whole frame is asked again when this share of the relevance is weak.
LOOK_AGAIN = 0.25
# Costly maps of whole frames are found anew when so much of what they show is no longer sure: about every eighth frame
# where all is still, sooner where the flow loses things.
DOUBT = 0.15


@dataclass(frozen=True, eq=False)
class SeenFrame:
    """What was decided about one frame.

    number, scene: from 0. cut: the first frame of a new scene. keyframe: everything was looked at again. allocation:
    what is paid for in this frame. standing: where the question needs detail in this frame, whatever was shown before,
    always of the same size: what similarity compares. fresh: share of the standing tokens whose ground is new.
    looked: share of the frame that was looked at again. similarity: of this standing allocation and the last one's, on
    the ground that both frames show; None in the first frame. features: of the cut, by name.
    """

    number: int
    scene: int
    cut: bool
    keyframe: bool
    allocation: Allocation
    standing: Allocation
    relevance: Relevance
    similarity: float | None
    fresh: float
    looked: float
    features: dict[str, float] = field(default_factory=dict)
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
        total: Tokens of the whole clip (`Pace`).
        frames: Of the whole clip (`Pace`).
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
        total: int | None = None,
        frames: int | None = None,
        scorer: RelevanceSource | None = None,
        settings: TemporalSettings | None = None,
        options: Options | None = None,
    ) -> None:
        self.query, self.total, self.frames = check_question(query), total, frames
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
            after, seen = self._attend(state, after, fresh_start, motion)
        self.state = after
        return replace(
            seen,
            looked=looked,
            features=dict(zip(FEATURES, features.tolist(), strict=True)),
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
            spent=0 if state is None else state.spent,
            size=(pixels.shape[0], pixels.shape[1]),
            view=view,
            level=np.zeros(len(FEATURES), dtype=np.float32) if state is None else state.level,
            planes=planes,
            trust=np.ones(size, dtype=np.float32),
            whole_trust=np.ones(size, dtype=np.float32),
            relevance=blank,
            shown=blank,
            standing=np.zeros((0, 3), dtype=np.int64),
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

    def _attend(
        self, before: StreamState | None, after: StreamState, fresh_start: bool, motion: Motion | None
    ) -> tuple[StreamState, SeenFrame]:
        """The standing allocation, and what of it has to be paid for."""
        size = after.size
        cap = self.cap_of(size)
        standing = allocate(after.relevance, cap, image_size=size, cell=self.cell)
        frame = Frame(size, self.cell)
        shown = cells_of(after.shown, frame.grid)
        wanted = detail_of(standing)
        fresh = fresh_ground(standing, shown)
        pace = Pace(cap, self.total, self.frames)
        tokens = pace.allowance(after.frame, after.spent, fresh)
        if tokens == 0:
            raise InputError(
                f"the total of {self.total} tokens is used up before frame {after.frame}: {after.spent} are spent and "
                "every frame needs one; give a larger total, or frames= so that enough is kept back"
            )
        unmet = np.clip(1 - shown / np.maximum(wanted, 1e-6), 0, 1)
        relevance = cells_of(after.relevance, frame.grid)
        # Ground that was shown still counts a little: what is left over goes to the most relevant of it.
        demand = relevance * (0.02 + 0.98 * unmet)
        paid = allocate(demand.astype(np.float32), tokens, image_size=size, cell=self.cell)
        similarity = None
        if before is not None and before.size == size and len(before.standing):
            earlier = frame.allocation(before.standing, np.zeros(len(before.standing)), cap, "overlay")
            ground = np.zeros(frame.grid) if motion is None else cells_of(same_ground(motion.unexplained), frame.grid)
            similarity = kept_share(earlier, standing, ground)
        after = replace(
            after,
            spent=after.spent + paid.tokens,
            shown=np.maximum(after.shown, spread_over(detail_of(paid), after.shown.shape)),
            standing=standing.leaf_cells(),
        )
        seen = SeenFrame(
            number=after.frame,
            scene=after.scene,
            cut=fresh_start and before is not None,
            keyframe=after.since_keyframe == 0,
            allocation=paid,
            standing=standing,
            relevance=Relevance(after.relevance, query=self.query, notes=(self.source.note,)),
            similarity=similarity,
            fresh=fresh,
            looked=1.0,
        )
        return after, seen

    def cap_of(self, size: tuple[int, int]) -> int:
        """Tokens that one frame of (height, width) pixels may cost."""
        return self.options.tokens(Frame(size, self.cell).full)


def check_frame(pixels: object) -> np.ndarray:
    """(H, W, 3) uint8, or one clear line."""
    array = np.asarray(pixels)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or 0 in array.shape:
        raise InputError(f"a frame must be (height, width, 3) uint8 RGB, got {array.dtype} {array.shape}")
    return np.ascontiguousarray(array)
