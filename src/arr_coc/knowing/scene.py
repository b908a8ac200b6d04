"""`Scene`: what a caller can offer to a source of relevance, each part made when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from ..core.arrays import Array
from ..core.kept import PictureStore
from ..pictures.load import load_picture

if TYPE_CHECKING:
    import torch

    from ..core.values import Relevance
    from ..pictures.words import Words
    from ..texture.channels import Texture
    from .photos.source import PhotoSight

# A function of (picture, question), such as a trained scorer.
RelevanceSource = Callable[["torch.Tensor", str], "Relevance | np.ndarray | torch.Tensor"]
# The longer side at which a picture is held for sensing and drawing. Boxes are in pixels as given all the same.
VIEW_SIDE = 1600
# Channels are sensed at this longer side: detail energy survives the averaging, and four times the pixels would cost
# four times the time.
SENSE_SIDE = 768


class ModelPrompt(Protocol):
    """A model's prompt that shows the picture, for sources that ask the model."""

    @property
    def can_glance(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class Scene:
    """One picture and what is known about it.

    picture: (H, W, 3) uint8, or a tensor (3, H, W) in [0, 1], or a function that gives one of them. words: those of a
    page, with their boxes. prompt: the model's prompt that shows the picture. scorer: the one that was trained with
    that model, a function of (tensor, question). previous: (h, w) relevance of the frame before. photos: whether the
    photo map may take part. ocr: how many lines "auto" may read. page: the picture as finely as it was given, for
    reading, where that is not the picture. remark: why its words could not be read. pointed: (rows, cols) the scorer's
    map of this question, where it was asked.
    choosing: False where everything is kept anyway. fallback: what "auto" takes where nothing better is offered. kept:
    where sources keep what they made of the picture, for its next question.
    """

    picture: np.ndarray | torch.Tensor | Callable[[], object]
    words: Words | None = None
    prompt: ModelPrompt | None = None
    scorer: RelevanceSource | None = None
    previous: np.ndarray | None = None
    device: str = "cpu"
    photos: bool = True
    ocr: int = 0
    page: np.ndarray | None = None
    remark: str = ""
    pointed: np.ndarray | None = None
    choosing: bool = True
    fallback: str = "look"
    kept: PictureStore | None = None

    @property
    def offers(self) -> frozenset[str]:
        """Which of `registry.NEEDS` can be met here."""
        given = {"words": self.words, "model": self.prompt, "scorer": self.scorer, "previous": self.previous}
        return frozenset({"pixels", "texture", *(name for name, value in given.items() if value is not None)})

    @cached_property
    def given(self) -> Any:
        """The picture as the caller has it: what a plain function of (picture, question) is handed."""
        return self.picture() if callable(self.picture) else self.picture

    @cached_property
    def pixels(self) -> np.ndarray:
        """(H, W, 3) uint8; a large tensor is reduced."""
        given = self.given
        return given if isinstance(given, np.ndarray) else load_picture(given, longest_side=VIEW_SIDE).pixels

    @property
    def page_pixels(self) -> np.ndarray:
        """(H, W, 3) uint8 in which words are read."""
        return self.pixels if self.page is None else self.page

    @cached_property
    def tensor(self) -> torch.Tensor:
        """(3, H, W) float32 in [0, 1] on the device."""
        given = self.given
        if not isinstance(given, np.ndarray):
            return given
        import torch

        writable = given if given.flags.writeable else given.copy()  # torch warns of the others
        return torch.from_numpy(writable).permute(2, 0, 1).to(self.device).float() / 255

    @cached_property
    def sensed(self) -> tuple[Texture, float]:
        """The texture that the three ways read, and the seconds it took."""
        from ..texture.channels import sense

        started = perf_counter()
        texture = sense(self.pixels, side=min(SENSE_SIDE, max(self.pixels.shape[:2])))
        return texture, perf_counter() - started

    @cached_property
    def seen(self) -> PhotoSight:
        """What the networks for photographs say of it, each when it is first asked."""
        from .photos.source import PhotoSight

        return PhotoSight(self.pixels)

    def strategy_inputs(self, strategy: str, options: Mapping[str, object]) -> tuple[dict[str, Array], tuple[str, ...]]:
        """Maps that some strategies need besides the relevance, less those that the caller gave, and notes."""
        if strategy == "edge" and "edges" not in options:
            return {"edges": self.sensed[0]["sobel_magnitude"]}, ()
        return {}, ()

    def varied(self, **changes: object) -> Self:
        """The same picture with other things known about it; what was made of the picture is kept."""
        other = replace(self, **changes)
        if isinstance(self.picture, np.ndarray):
            other.__dict__["seen"] = self.seen  # nothing is asked yet, and what will be is asked once for all
        other.__dict__.update(
            {name: self.__dict__[name] for name in ("given", "pixels", "sensed") if name in self.__dict__}
        )
        return other
