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
from ..pictures.kind import photograph_odds
from ..texture.channels import Texture, sense
from ..texture.type_height import TypeHeight, view_letters
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
        given = self.given
        return given if isinstance(given, np.ndarray) else self.once("pixels", self.begin_pixels())

    def begin_pixels(self) -> Callable[[], np.ndarray]:
        """Begin to copy pixels from the device, in the thread that uses it; return a function that waits for them."""
        known = "pixels" in self.made or isinstance(self.given, np.ndarray)
        return (lambda: self.pixels) if known else self.once("copy", lambda: copied_levels(self.given))

    @property
    def letters(self) -> TypeHeight:
        """Heights of letters, measured in a small view."""
        return self.once("letters", lambda: view_letters(self.pixels))

    @property
    def odds(self) -> float:
        """The log-odds that this is a photograph."""
        return self.once("odds", lambda: photograph_odds(self.pixels))

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


def copied_levels(picture: torch.Tensor) -> Callable[[], np.ndarray]:
    """Convert (3, H, W) uint8 or in [0, 1] to (H, W, 3) uint8 where the picture is, which saves three quarters of the
    bytes, and begin to copy it from a GPU into pinned memory. Return a function that waits for the copy."""
    levels = (picture.clamp(0, 1) * 255).round().byte() if picture.is_floating_point() else picture
    here = levels.permute(1, 2, 0).contiguous().to("cpu", non_blocking=picture.is_cuda)
    if not picture.is_cuda:
        return here.numpy
    copied = sys.modules["torch"].cuda.current_stream(picture.device).record_event()
    return lambda: (copied.synchronize(), here.numpy())[1]
