"""`sense`: the source's channels of a batch of pictures, by name, on any device.

    texture = sense(pictures, "full40", given={"motion": moved}, semantic=planes)
    texture["saliency"]      (B, H, W)

What the library senses of a picture (saliency, print, place) is computed by its own formulas, over `ops`. What
needs more than the picture is given by the caller: motion, memory and gaze, and the semantic channels (`pca`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.arrays import sized
from arr_coc.core.errors import InputError, shown
from arr_coc.texture import channels as library
from arr_coc.texture.channels import (
    eccentricity,
    local_contrast,
    saliency,
    smooth,
    surround_radius,
    text_regions,
)
from arr_coc.texture.ops import srgb_to_lab

from . import ops
from .superpixels import VIEW, cluster_channels, superpixels

Planes = tuple[Tensor, Tensor, Tensor]
Reducer = Literal["mean", "majority", "maximum", "unit_mean"]

SEMANTIC_DIMENSIONS = 16
SEMANTIC_NAMES = tuple(f"semantic_{number}" for number in range(SEMANTIC_DIMENSIONS))
MEMORY = ("previous_relevance", "previous_saliency", "fixation_history", "previous_attention", "current_attention")
# Channels that a caller gives as maps.
GIVEN = ("motion", *MEMORY)
# Groups of channels that are learned together.
GROUPS: dict[str, tuple[str, ...]] = {
    "colour": ("red", "green", "blue", "lab_l", "lab_a", "luminance"),
    "edges": (
        *("sobel_x", "sobel_y", "sobel_magnitude", "edges", "edges_inverted", "high_pass", "low_pass"),
        *("distance_field", "object_boundaries"),
    ),
    "position": ("y", "x", "eccentricity"),
    "salience": ("saliency", "motion", "text_regions"),
    "clusters": ("cluster_id", "cluster_distance", "cluster_size"),
    "memory": (*MEMORY, "gaze"),
    "semantic": SEMANTIC_NAMES,
}
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
_REDUCERS: dict[str, Reducer] = {
    "cluster_id": "majority",
    **dict.fromkeys(("object_boundaries", "text_regions", "gaze"), "maximum"),
    **dict.fromkeys(SEMANTIC_NAMES, "unit_mean"),
}


# ---- layouts and textures --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """An ordered list of channels under one name. Channels are found by name, never by number."""

    name: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        unknown = [name for name in self.names if name not in _GROUP_OF]
        if unknown:
            raise InputError(f"no channel is called {unknown[0]!r}; the channels are {', '.join(sorted(_GROUP_OF))}")

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def index(self, name: str) -> int:
        """Find the plane of a channel."""
        if name not in self.names:
            raise InputError(f"layout {self.name} has no channel {name!r}; it has {', '.join(self.names)}")
        return self.names.index(name)

    def having(self, reducer: Reducer) -> list[int]:
        """List the planes that shrink by this reducer, in order."""
        return [place for place, name in enumerate(self.names) if _REDUCERS.get(name, "mean") == reducer]

    def groups(self) -> dict[str, list[int]]:
        """Map group names to their planes, in order of first appearance."""
        places: dict[str, list[int]] = {}
        for place, name in enumerate(self.names):
            places.setdefault(_GROUP_OF[name], []).append(place)
        return places


MVP13 = Layout(
    "mvp13",
    (
        *("red", "green", "blue", "lab_l", "lab_a", "sobel_x", "sobel_y", "sobel_magnitude"),
        *("y", "x", "eccentricity", "saliency", "luminance"),
    ),
)
FULL40 = Layout(
    "full40",
    (
        *("red", "green", "blue", "edges", "edges_inverted", "high_pass", "low_pass", "motion", "saliency"),
        *("x", "y", "eccentricity", "cluster_id", "cluster_distance", "cluster_size"),
        *("previous_relevance", "previous_saliency", "fixation_history", *SEMANTIC_NAMES),
        *("distance_field", "previous_attention", "current_attention", "gaze", "object_boundaries", "text_regions"),
    ),
)
# What the library itself senses.
LOOK = Layout("look", library.CHANNELS)
LAYOUTS = {layout.name: layout for layout in (MVP13, FULL40, LOOK)}


def get_layout(layout: str | Layout) -> Layout:
    """Find a layout by its name; a `Layout` passes through."""
    if isinstance(layout, Layout):
        return layout
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise InputError(f"no layout is called {shown(layout)}; choose one of {', '.join(LAYOUTS)}")
    return LAYOUTS[layout]


@dataclass(frozen=True, eq=False)
class BatchTexture:
    """What was sensed of a batch of pictures, channel by channel.

    Args:
        data: (B, C, H, W) float32.
        layout: Which channel is which.
        notes: What a reader should know, such as which channels are zero.
    """

    data: Tensor
    layout: Layout
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.data.ndim != 4 or self.data.shape[1] != len(self.layout):
            wanted = f"(B, {len(self.layout)}, H, W)"
            raise InputError(f"a {self.layout.name} texture is {wanted}, got {tuple(self.data.shape)}")

    def __contains__(self, name: object) -> bool:
        return name in self.layout

    def __getitem__(self, name: str) -> Tensor:
        """Take one channel, (B, H, W), without a copy."""
        return self.data[:, self.layout.index(name)]

    @property
    def size(self) -> tuple[int, int]:
        return self.data.shape[2], self.data.shape[3]

    @property
    def semantic(self) -> Tensor:
        """Return (B, 16, H, W): unit vectors, or zeros where none were given."""
        first = self.layout.index(SEMANTIC_NAMES[0])
        return self.data[:, first : first + SEMANTIC_DIMENSIONS]

    @cached_property
    def named(self) -> library.Texture:
        """Return the same planes for the library's ways of knowing, which run over `ops` then."""
        planes: dict[str, Any] = dict(zip(self.layout.names, self.data.unbind(1), strict=True))
        return library.Texture(planes, ops)

    def one(self, number: int = 0) -> library.Texture:
        """Take one picture of the batch as the library has it: planes (H, W) in numpy."""
        planes = self.data[number].detach().cpu().numpy()
        return library.Texture(dict(zip(self.layout.names, planes, strict=True)))

    def silent(self) -> tuple[str, ...]:
        """Name the channels that have the same value everywhere."""
        return tuple(name for name in self.layout.names if bool(self[name].min() == self[name].max()))

    def replacing(self, **maps: Tensor) -> BatchTexture:
        """Exchange some channels, each (B, H, W)."""
        planes = list(self.data.unbind(1))
        for name, plane in maps.items():
            planes[self.layout.index(name)] = plane.to(self.data).expand_as(planes[0])
        return replace(self, data=torch.stack(planes, 1))


# ---- sensing ---------------------------------------------------------------------------------------------------------


def sense(
    pictures: Tensor | np.ndarray,
    layout: str | Layout = "mvp13",
    *,
    size: int | tuple[int, int] | None = None,
    gaze: tuple[float, float] | None = None,
    given: Mapping[str, Tensor | np.ndarray] | None = None,
    labels: Tensor | None = None,
    semantic: Tensor | None = None,
) -> BatchTexture:
    """Sense the channels of a batch of pictures of one size.

    Args:
        pictures: (B, 3, H, W), uint8 or floating in [0, 1]; or one picture (H, W, 3) uint8.
        layout: "mvp13", "full40", "look", or a `Layout`.
        size: The longer side, or (height, width), at which to sense; as given by default.
        gaze: (y, x) in [0, 1]: the centre of the eccentricity and the place of the channel gaze.
        given: Maps (h, w) or (B, h, w) in [0, 1] for some of `GIVEN`; the others are zero.
        labels: (B, h, w) integers for the cluster channels; by default superpixels.
        semantic: (B, 16, h, w) for the semantic channels, as `pca` makes them; else they are zero.

    Returns:
        A `BatchTexture`.
    """
    chosen, batch = get_layout(layout), as_batch(pictures, size)
    size = (batch.shape[2], batch.shape[3])
    red, green, blue = batch.unbind(1)
    light = ops.luminance((red, green, blue))
    maps = {"red": red, "green": green, "blue": blue, "luminance": light}
    if "lab_l" in chosen:
        maps |= _lab((red, green, blue))
    if "sobel_magnitude" in chosen:
        maps |= _derivatives(light)
    if "edges" in chosen:
        maps |= _bands(light)
    if "object_boundaries" in chosen:
        maps |= _shapes((red, green, blue))
    if "saliency" in chosen:
        maps["saliency"] = saliency(ops, (red, green, blue))
    if "text_regions" in chosen:
        maps["text_regions"] = text_regions(ops, light)
    if "cluster_id" in chosen:
        labels = _superpixels(batch) if labels is None else labels
        maps |= cluster_channels(labels.to(batch.device), size)
    maps |= _places(size, gaze, light)
    for name, plane in (given or {}).items():
        maps[name] = _given(name, plane, light)
    if semantic is not None:
        large = ops.resize(semantic.to(batch).flatten(0, 1), size).unflatten(0, (-1, SEMANTIC_DIMENSIONS))
        maps |= dict(zip(SEMANTIC_NAMES, ops.unit(large, 1).unbind(1), strict=True))
    missing = [name for name in chosen.names if name not in maps]
    blank = light.new_zeros(()).expand_as(light)
    data = torch.stack([maps.get(name, blank).expand_as(light) for name in chosen.names], dim=1)
    return BatchTexture(data, chosen, (f"nothing was given for {', '.join(missing)}: zero",) if missing else ())


def as_batch(pictures: Tensor | np.ndarray, size: int | tuple[int, int] | None = None) -> Tensor:
    """Turn one picture (H, W, 3) uint8 or a batch (B, 3, H, W) into (B, 3, h, w) float32 in [0, 1]."""
    if isinstance(pictures, np.ndarray):
        pictures = torch.from_numpy(np.ascontiguousarray(pictures.transpose(2, 0, 1)))[None]
    if pictures.ndim != 4 or pictures.shape[1] != 3 or not pictures.numel():
        raise InputError(f"pictures must be (B, 3, H, W), or one (H, W, 3) in numpy, got {tuple(pictures.shape)}")
    batch = pictures.float() / 255 if pictures.dtype == torch.uint8 else pictures.float()
    low, high = batch.detach().aminmax()
    if not (low >= -1e-3 and high <= 1 + 1e-3):  # false for NaN as well
        raise InputError(f"floating pictures must lie in [0, 1], got {low:g} to {high:g}; divide by 255")
    if size is None:
        return batch
    target = sized(batch.shape[2:], size, grow=True) if isinstance(size, int) else size
    return ops.resize(batch.flatten(0, 1), target).unflatten(0, (-1, 3))


def _superpixels(batch: Tensor) -> Tensor:
    pixels = (batch.detach().permute(0, 2, 3, 1) * 255).round().to(torch.uint8).cpu().numpy()
    return torch.from_numpy(np.stack([superpixels(one) for one in pixels]))


def _given(name: str, plane: Tensor | np.ndarray, light: Tensor) -> Tensor:
    if name not in GIVEN:
        raise InputError(f"no channel {name!r} can be given; choose from {', '.join(GIVEN)}")
    values = torch.as_tensor(np.array(plane) if isinstance(plane, np.ndarray) else plane).to(light)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or len(values) not in (1, len(light)):
        raise InputError(f"{name} must be a map (h, w), or one per picture (B, h, w), got {tuple(values.shape)}")
    if bool(values.isnan().any()):
        raise InputError(f"{name} contains NaN; every value must be a number in [0, 1]")
    return ops.resize(values, (light.shape[1], light.shape[2])).clip(0, 1)


# ---- channels that only the source has -------------------------------------------------------------------------------

# Local contrast below this (in luminance) is treated as noise by the contrast normalisation.
FAINTEST_CONTRAST = 4 / 255
FAINTEST_NORMALISED_EDGE = 1.0
STRONG_BOUNDARY = 0.25
# A colour step this large (in L*a*b*, where 2.3 is just noticeable) counts as a full boundary.
FULL_COLOUR_STEP = 40.0
# Below this gradient (about four grey levels across an edge) a picture counts as blank: without the floor, dividing by
# the picture's own largest edge would blow rounding noise up to full strength.
FAINTEST_EDGE = 4 * 4 / 255
GAZE_SPREAD = 0.05  # of the longer side: roughly what a fovea covers of a picture at reading distance


def _lab(planes: Planes) -> dict[str, Tensor]:
    lightness, red_green, _ = srgb_to_lab(planes)
    return {"lab_l": lightness * 0.01, "lab_a": red_green * (1 / 256) + 0.5}


def edges(light: Tensor) -> Tensor:
    """Measure the gradient's magnitude in [0, 1] of the picture's strongest edge."""
    magnitude = ops.magnitude(*ops.sobel(light))
    return magnitude / ops.peak(magnitude).clip(FAINTEST_EDGE)


def _derivatives(light: Tensor) -> dict[str, Tensor]:
    """Compute sobel_x and sobel_y (0.5 = no change) and sobel_magnitude, on one scale: the picture's strongest edge."""
    along_x, along_y = ops.sobel(light)
    scale = 0.5 / ops.peak(ops.magnitude(along_x, along_y)).clip(FAINTEST_EDGE)
    sides = {"sobel_x": along_x * scale + 0.5, "sobel_y": along_y * scale + 0.5}
    return {**sides, "sobel_magnitude": edges(light)}


def _bands(light: Tensor) -> dict[str, Tensor]:
    """Measure edges, edges of faint print, fine detail (0.5 = none), and the luminance without it.

    edges_inverted: each pixel of the inverted luminance is measured against the mean and spread of its surroundings, so
    that grey type on a slightly lighter ground gets edges almost as strong as a black border.
    """
    radius = surround_radius((light.shape[1], light.shape[2]))
    magnitude = ops.magnitude(*ops.sobel(local_contrast(ops, 1 - light, radius, FAINTEST_CONTRAST)))
    inverted = magnitude / ops.peak(magnitude).clip(FAINTEST_NORMALISED_EDGE)
    low = smooth(ops, light, radius // 2 + 1)
    high = (light - low) * 0.5 + 0.5
    return {"edges": edges(light), "edges_inverted": inverted, "high_pass": high, "low_pass": low}


def _shapes(planes: Planes) -> dict[str, Tensor]:
    """Measure colour steps between neighbouring surfaces and the distance to the nearest strong one, in [0, 1].

    Colours are smoothed over a few pixels of a small view first: texture and strokes go, outlines of things stay. The
    distance is over half the longer side; 1 where there is no boundary.
    """
    size = (planes[0].shape[1], planes[0].shape[2])
    small = sized(size, VIEW)
    red, green, blue = (ops.resize(plane, small) for plane in planes)
    total = torch.zeros_like(red)
    for colour in srgb_to_lab((red, green, blue)):
        along_x, along_y = ops.sobel(ops.box(ops.box(colour, 1), 1))
        total = total + along_x * along_x + along_y * along_y
    # A step of s between two flat colours, smoothed so, has a gradient of about 4/3 of s at its middle.
    steps = ops.enlarge((ops.square_root(total) * (3 / (4 * FULL_COLOUR_STEP))).clip(0, 1), size)
    distance = ops.distance_to(ops.resize(steps, small) > STRONG_BOUNDARY)
    return {"object_boundaries": steps, "distance_field": ops.enlarge((distance * (2 / max(small))).clip(0, 1), size)}


def _places(size: tuple[int, int], gaze: tuple[float, float] | None, light: Tensor) -> dict[str, Tensor]:
    """Make y, x, eccentricity, and a soft spot at the gaze."""
    y, x = ops.position(size)
    maps = {"y": y, "x": x, "eccentricity": eccentricity(ops, size, gaze)}
    if gaze is not None:
        distance = ops.distance_from(size, (gaze[0] * size[0], gaze[1] * size[1]), 1.0)
        maps["gaze"] = torch.exp(distance * distance * (-0.5 / (GAZE_SPREAD * max(size)) ** 2))
    return {name: plane.to(light) for name, plane in maps.items()}
