"""One picture, ready to be looked at again and again: patches, pyramid and maps are made once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..attending.frame import Frame, to_cells
from ..backbones.attachment_plan import plain_map
from ..knowing.registry import relevance_for, resolve
from ..knowing.scene import CHANNELS, SENSE_SIDE, Scene
from ..pictures import Picture
from ..realizing.patches import Pyramid
from .reading import picture_pyramid

if TYPE_CHECKING:
    from ..asking import Eye


@dataclass
class Pictured:
    """A picture as a Qwen3-VL sees it.

    pixels: (3, H, W) float32 in [0, 1], the canvas. normalised: (1, C, H, W). pyramids: by number of levels.
    """

    picture: Picture
    pixels: Tensor
    normalised: Tensor
    cell: int
    pyramids: dict[int, Pyramid] = field(default_factory=dict)

    @classmethod
    def of(cls, eye: Eye, picture: Picture) -> Pictured:
        from PIL import Image

        found = eye.processor.image_processor(images=[Image.fromarray(picture.pixels)], return_tensors="pt")
        inputs = {name: value.to(eye.model.device) for name, value in found.items() if hasattr(value, "to")}
        backbone: Any = eye.backbone
        ((_, normalised),) = backbone.normalised_pixels(eye.model, inputs).values()
        (pixels,) = backbone.pixels(eye.model, eye.processor, inputs)
        vision = eye.model.config.vision_config
        return cls(picture, pixels, normalised, vision.spatial_merge_size * vision.patch_size)

    @property
    def canvas(self) -> tuple[int, int]:
        return self.pixels.shape[1], self.pixels.shape[2]

    @property
    def frame(self) -> Frame:
        return Frame(self.picture.size, self.cell, self.canvas)

    def pyramid(self, model: Any, levels: int) -> Pyramid:
        if levels not in self.pyramids:
            self.pyramids[levels] = picture_pyramid(model, self.normalised, levels)
        return self.pyramids[levels]


def relevance_source(eye: Eye, relevance: Any) -> Any:
    """What `relevance=` stands for in passes: a function of (picture, question)."""
    # The model's own attention joins from the second pass on.
    offered = Scene(lambda: None, scorer=eye.scorer, fallback="detail")
    resolve(relevance, offered)
    return lambda pixels, query: relevance_for(relevance, replace(offered, picture=pixels), query)


def relevance_cells(source: Any, pixels: Tensor, query: str, frame: Frame) -> Tensor:
    """(1, rows, cols) float32 in [0, 1] on the grid of the canvas."""
    found = plain_map(source(pixels, query) if callable(source) else source)
    maps = torch.tensor(np.asarray(found), dtype=torch.float32)[None]
    return to_cells(maps.clamp(0, 1), Frame(frame.seen, frame.cell)).to(pixels.device)


def salient_map(picture: Picture) -> np.ndarray:
    """(h, w) float32 in [0, 1]: what stands out to somebody who has not heard the question."""
    from ..balancing import sharpen
    from ..knowing import perspectival
    from ..sensing import Layout, sense_one

    side = min(SENSE_SIDE, max(picture.pixels.shape[:2]))
    texture = sense_one(picture.pixels, Layout.of("look", CHANNELS), size=side)
    return np.asarray(sharpen(np.asarray(perspectival(texture))))
