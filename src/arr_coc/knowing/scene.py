"""`Scene`: the input of a source of relevance, each part computed on first use."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..core.arrays import as_tensor
from ..core.kept import helpers
from ..pictures.kind import photograph_odds
from ..texture.channels import Texture, sense
from ..texture.type_height import TypeHeight, labelled, measured, view_letters
from .photos.source import PhotoSight

if TYPE_CHECKING:
    import torch

    from ..core.values import Relevance
    from ..pictures.words import Words

# A function of (picture, question), such as a trained scorer.
RelevanceSource = Callable[["torch.Tensor", str], "Relevance | np.ndarray | torch.Tensor"]
# Longer side of the pixels that are kept for analysis and drawing; boxes are in pixels of the picture as given.
VIEW_SIDE = 1600
# Longer side at which channels are computed: averaging keeps the energy of details, and four times the pixels would
# take four times as long.
SENSE_SIDE = 768


class ModelPrompt(Protocol):
    """A model's prompt that contains the picture, for sources that ask the model."""

    @property
    def can_glance(self) -> bool: ...
    def glance_maps(self, scenes: Sequence[Scene], queries: Sequence[str]) -> Any: ...


@dataclass(frozen=True, eq=False)
class Scene:
    """One picture and what is known about it.

    picture: (H, W, 3) uint8, or a tensor (3, H, W) in [0, 1], or a function that returns one of them. words: those of a
    page, with their boxes. prompt: the model's prompt that contains the picture. scorer: the one that was trained with
    that model, a function of (tensor, question). photos: whether the object detector may be used. ocr: how many lines
    "auto" may read. page: the picture at full resolution for OCR, if `picture` is reduced. remark: why its words could
    not be read. pointed: (rows, cols) the scorer's map for this question, if known. choosing: False if everything is
    kept anyway. share: the budget as a share of the picture's tokens. law: how sources are balanced, a `Law` or the
    folder of one; None: the bundled law. made: results computed from the picture, shared by all copies of the scene.
    """

    picture: np.ndarray | torch.Tensor | Callable[[], object]
    words: Words | None = None
    prompt: ModelPrompt | None = None
    scorer: RelevanceSource | None = None
    device: str = "cpu"
    photos: bool = True
    ocr: int = 0
    page: np.ndarray | None = None
    remark: str = ""
    pointed: np.ndarray | None = None
    choosing: bool = True
    share: float = 0.25
    law: object = None
    made: dict[str, Any] = field(default_factory=dict)
    making: dict[str, Any] = field(default_factory=lambda: defaultdict(RLock))

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a result computed from the picture; the first thread computes it, others wait."""
        if name not in self.made:
            with self.making[name]:
                if name not in self.made:
                    self.made[name] = make()
        return self.made[name]

    @property
    def given(self) -> Any:
        """The picture as the caller gave it, for functions of (picture, question)."""
        return self.once("given", self.picture) if callable(self.picture) else self.picture

    @property
    def pixels(self) -> np.ndarray:
        """Pixels (H, W, 3) as given, or uint8 of a tensor."""
        if isinstance(given := self.given, np.ndarray):
            return given
        return self.once("pixels", lambda: (self.made.get("copy") or copied_levels(given))())

    @property
    def letters(self) -> TypeHeight:
        """Heights of letters, measured in a small view."""
        return self.once("letters", self.made.get("measured") or (lambda: view_letters(self.pixels)))

    @property
    def odds(self) -> float:
        """The log-odds that this is a photograph."""
        return self.once("odds", self.made.get("counted") or (lambda: photograph_odds(self.pixels)))

    @property
    def page_pixels(self) -> np.ndarray:
        """Pixels (H, W, 3) uint8 for OCR."""
        return self.pixels if self.page is None else self.page

    @cached_property
    def tensor(self) -> torch.Tensor:
        """Pixels (3, H, W) float32 in [0, 1] on the device."""
        given = self.given
        return (
            as_tensor(given).permute(2, 0, 1).to(self.device).float() / 255 if isinstance(given, np.ndarray) else given
        )

    @property
    def sensed(self) -> Texture:
        """The texture from which the three ways of knowing are computed."""
        return self.once("sensed", lambda: sense(self.pixels, side=min(SENSE_SIDE, max(self.pixels.shape[:2]))))

    @property
    def seen(self) -> PhotoSight:
        """Results of the object detector, computed on first use."""
        return self.once("seen", lambda: PhotoSight(self.pixels))


def begin_copies(scenes: Sequence[Scene]) -> None:
    """Begin to copy pixels from the device, in the thread that uses it; those of one size together."""
    alike = defaultdict(list)
    for scene in scenes:
        if not scene.made.keys() & {"pixels", "copy"} and not isinstance(scene.given, np.ndarray):
            alike[scene.given.shape if scene.given.is_cuda else scene].append(scene)
    for same in alike.values():
        given = [scene.given for scene in same]
        copied = copied_levels(given[0][None] if len(given) == 1 else sys.modules["torch"].stack(given))
        for number, scene in enumerate(same):
            scene.made["copy"] = lambda copied=copied, number=number: copied()[number]


def begin_measuring(scenes: Sequence[Scene]) -> None:
    """Begin to measure letters and kinds of pictures: pieces of each in a thread of its own, letters in one pass."""
    begin_copies(scenes)
    fresh = [scene for scene in scenes if not scene.made.keys() & {"letters", "measured"}]
    pieces = [helpers("pictures").submit(lambda scene=scene: labelled(scene.pixels)) for scene in fresh]
    found = helpers("letters").submit(lambda: measured([one.result() for one in pieces]))
    for number, scene in enumerate(fresh):
        scene.made["counted"] = helpers("pictures").submit(lambda scene=scene: photograph_odds(scene.pixels)).result
        scene.made["measured"] = lambda number=number: found.result()[number]


def copied_levels(picture: torch.Tensor) -> Callable[[], np.ndarray]:
    """Convert (…, 3, H, W) uint8 or in [0, 1] to (…, H, W, 3) uint8 where it is, which saves three quarters of the
    bytes, and begin to copy it from a GPU into pinned memory. Return a function that waits for the copy."""
    levels = (picture.clamp(0, 1) * 255).round().byte() if picture.is_floating_point() else picture
    here = levels.movedim(-3, -1).contiguous().to("cpu", non_blocking=picture.is_cuda)
    if not picture.is_cuda:
        return here.numpy
    copied = sys.modules["torch"].cuda.current_stream(picture.device).record_event()
    return lambda: (copied.synchronize(), here.numpy())[1]
