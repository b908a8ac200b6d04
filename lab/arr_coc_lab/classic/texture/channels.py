"""The channel families, each written once over the operations that both back ends have.

Every function takes the back end first, then maps in its array type: (H, W) for OpenCV, (B, H, W) for torch. `out`
gives planes to write into, by channel name, where the back end can. `channel_tasks` are those that a layout wants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import hypot

import numpy as np

from ..core.arrays import float32, is_tensor, namespace, sized
from ..core.checks import shown
from ..core.errors import InputError
from . import text_regions
from .backend import Backend, BackendMap, local_contrast, smooth, surround_radius
from .texture import Layout

# One family of channels: computes its maps, by name.
Task = Callable[[], dict[str, BackendMap]]


@dataclass(frozen=True, eq=False)
class ChannelInputs:
    """What channels are made of beside the picture.

    gaze: (y, x) in [0, 1]: centre of the eccentricity, and the place of the gaze channel. previous: the frame before,
    same kind of picture: gives the motion channel. text: "strokes" (no download), "ocr" (needs the extra), "auto" (ocr
    where installed). memory: maps for `MEMORY_CHANNELS`.
    """

    gaze: tuple[float, float] | None = None
    previous: object = None
    text: str = "strokes"
    memory: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_gaze(self.gaze)
        if not isinstance(self.text, str) or self.text not in ("strokes", "ocr", "auto"):
            raise InputError(f"no text detector is called {shown(self.text)}; choose strokes, ocr or auto")

    @property
    def wants_ocr(self) -> bool:
        return self.text == "ocr" or (self.text == "auto" and text_regions.ocr_installed())


def channel_tasks(
    ops: Backend,
    layout: Layout,
    planes: tuple[BackendMap, BackendMap, BackendMap],
    luminance: BackendMap,
    inputs: ChannelInputs,
    out: Mapping[str, BackendMap],
) -> list[Task]:
    """The families both back ends compute by the same formulas, only those that the layout has, slowest first.

    out: planes to write into, by name, where the back end can.
    """
    size, gaze = (luminance.shape[-2], luminance.shape[-1]), inputs.gaze

    def strokes() -> dict[str, BackendMap]:
        return {"text_regions": text_regions.stroke_map(ops, luminance)}

    def shapes() -> dict[str, BackendMap]:
        steps = object_boundaries(ops, planes)
        return {"object_boundaries": steps, "distance_field": distance_field(ops, steps)}

    def faint_edges() -> dict[str, BackendMap]:
        return {"edges_inverted": edges_inverted(ops, luminance, out)}

    def bands() -> dict[str, BackendMap]:
        high, low = passes(ops, luminance, out)
        return {"edges": edges(ops, luminance, out), "high_pass": high, "low_pass": low}

    def sobel() -> dict[str, BackendMap]:
        return sobel_channels(ops, luminance, out)

    def salience() -> dict[str, BackendMap]:
        return {"saliency": saliency(ops, planes, out.get("saliency"))}

    def places() -> dict[str, BackendMap]:
        y, x = ops.position(size, luminance)
        return {"y": y, "x": x, "eccentricity": eccentricity(ops, size, gaze, luminance)}

    def remembered() -> dict[str, BackendMap]:
        maps = memory_channels(ops, inputs.memory, size, luminance)
        return maps if gaze is None else maps | {"gaze": gaze_map(ops, size, gaze, luminance)}

    families: list[tuple[str, Task]] = [
        *(("text_regions", strokes), ("edges_inverted", faint_edges), ("object_boundaries", shapes)),
        *(("edges", bands), ("sobel_x", sobel), ("saliency", salience), ("x", places)),
        ("previous_relevance", remembered),
    ]
    read = inputs.wants_ocr
    return [task for name, task in families if name in layout and not (name == "text_regions" and read)]


# ---- local change: Sobel, edges, inverted edges for faint text, high and low pass -----------------------------------


# Below this gradient (about four grey levels across an edge) a picture counts as blank: without the floor, dividing
# by the picture's own largest edge would blow rounding noise up to full strength.
FAINTEST_EDGE = 4 * 4 / 255
# Local contrast below this (in luminance) is treated as noise by the contrast normalisation.
FAINTEST_CONTRAST = 4 / 255
FAINTEST_NORMALISED_EDGE = 1.0


def sobel_channels(ops: Backend, luminance: BackendMap, out: Mapping[str, BackendMap]) -> dict[str, BackendMap]:
    """sobel_x and sobel_y (0.5 = no change) and sobel_magnitude, on one scale: the picture's strongest edge."""
    along_x, along_y = ops.sobel(luminance)
    magnitude = ops.magnitude(along_x, along_y)
    scale = 1 / ops.at_least(ops.peak(magnitude), FAINTEST_EDGE)
    return {
        "sobel_x": ops.affine(along_x, scale * 0.5, 0.5, out.get("sobel_x")),
        "sobel_y": ops.affine(along_y, scale * 0.5, 0.5, out.get("sobel_y")),
        "sobel_magnitude": ops.affine(magnitude, scale, 0.0, out.get("sobel_magnitude")),
    }


def edges(ops: Backend, luminance: BackendMap, out: Mapping[str, BackendMap]) -> BackendMap:
    """Gradient magnitude in [0, 1] of the picture's strongest edge."""
    magnitude = ops.magnitude(*ops.sobel(luminance))
    return ops.affine(magnitude, 1 / ops.at_least(ops.peak(magnitude), FAINTEST_EDGE), 0.0, out.get("edges"))


def edges_inverted(ops: Backend, luminance: BackendMap, out: Mapping[str, BackendMap]) -> BackendMap:
    """Edges of the locally contrast-normalised, inverted luminance: faint text counts like strong text.

    Each pixel is measured against the mean and spread of its surroundings, so grey type on a slightly lighter
    ground, which `edges` hardly sees beside a black border, gets edges of almost the same strength.
    """
    inverted = 1 - luminance
    normalised = local_contrast(ops, inverted, surround_radius(tuple(luminance.shape[-2:])), FAINTEST_CONTRAST)
    magnitude = ops.magnitude(*ops.sobel(normalised))
    scale = 1 / ops.at_least(ops.peak(magnitude), FAINTEST_NORMALISED_EDGE)
    return ops.affine(magnitude, scale, 0.0, out.get("edges_inverted"))


def passes(ops: Backend, luminance: BackendMap, out: Mapping[str, BackendMap]) -> tuple[BackendMap, BackendMap]:
    """(high_pass, low_pass): fine detail (0.5 = none) and the luminance without it."""
    low = smooth(ops, luminance, surround_radius(tuple(luminance.shape[-2:])) // 2 + 1)
    return ops.affine(luminance - low, 0.5, 0.5, out.get("high_pass")), low


# ---- saliency -------------------------------------------------------------------------------------------------------


# The whole picture is seen at this size: saliency is a coarse matter, and detail has channels of its own.
SALIENCY_VIEW = 64
# Amplitude of one grey level of noise over the view: weaker frequencies have no reliable phase.
SALIENCY_NOISE = SALIENCY_VIEW / 255
FAINTEST_SALIENCE = 1e-4
SALIENCY_BLUR = 2


def saliency(
    ops: Backend, planes: tuple[BackendMap, BackendMap, BackendMap], out: BackendMap | None = None
) -> BackendMap:
    """What the picture's own statistics do not predict, (H, W) or (B, H, W) in [0, 1]; all zero for a blank picture.

    Spectral residual after Hou and Zhang (2007), on opponent colours instead of grey alone, so that a red sign among
    equally bright green ones stands out. The spectrum of a natural picture is smooth; divided by its own smoothed form,
    what is left is the unexpected.
    """
    size = planes[0].shape[-2:]
    red, green, blue = (ops.resize(plane, (SALIENCY_VIEW, SALIENCY_VIEW)) for plane in planes)
    opponents = (ops.luminance((red, green, blue)), red - green, blue - (red + green) * 0.5)
    light, red_green, blue_yellow = (_residual(ops, channel) for channel in opponents)
    total = light + red_green + blue_yellow
    total = ops.box(ops.box(total, SALIENCY_BLUR), SALIENCY_BLUR)
    low = ops.trough(total)
    total = (total - low) / ops.at_least(ops.peak(total) - low, FAINTEST_SALIENCE)
    return ops.enlarge(total, tuple(size), out)


def _residual(ops: Backend, channel: BackendMap) -> BackendMap:
    """Squared response of one channel. The mean is taken off first, so a blank channel gives exactly nothing."""
    library = namespace(channel)
    spectrum = library.fft.fft2(channel - ops.mean(channel))
    expected = ops.box(library.log(ops.amplitude(spectrum) + SALIENCY_NOISE), 1)
    back = library.fft.ifft2(spectrum * library.exp(-expected))
    return float32(back.real**2 + back.imag**2)


# ---- shape: object_boundaries and distance_field --------------------------------------------------------------------


# Both are made on a view of at most this many pixels along the longer side, and enlarged.
VIEW = 256
STRONG_BOUNDARY = 0.25
# A colour step this large (in L*a*b*, where 2.3 is just noticeable) counts as a full boundary.
FULL_COLOUR_STEP = 40.0


def view_size(size: tuple[int, int]) -> tuple[int, int]:
    """The picture's size shrunk so that the longer side is at most `VIEW`."""
    return sized(size, VIEW)


def object_boundaries(ops: Backend, planes: tuple[BackendMap, BackendMap, BackendMap]) -> BackendMap:
    """Steps between the colours of neighbouring surfaces, in [0, 1].

    Colours are smoothed over a few pixels of the small view first: texture and strokes go, outlines of things stay.
    """
    size = tuple(planes[0].shape[-2:])
    small = view_size(size)
    colours = ops.lab(tuple(ops.resize(plane, small) for plane in planes))
    total = None
    for colour in colours:
        smooth = ops.box(ops.box(colour, 1), 1)
        along_x, along_y = ops.sobel(smooth)
        squared = along_x * along_x + along_y * along_y
        total = squared if total is None else total + squared
    # A step of s between two flat colours, smoothed so, has a gradient of about 4/3 of s at its middle.
    step = ops.square_root(total) * (3 / (4 * FULL_COLOUR_STEP))
    return ops.enlarge(ops.clip(step), size)


def distance_field(ops: Backend, boundaries: BackendMap) -> BackendMap:
    """Distance to the nearest strong boundary over half the longer side, in [0, 1]; 1 where there is none."""
    size = tuple(boundaries.shape[-2:])
    small = view_size(size)
    distance = ops.distance_to(ops.resize(boundaries, small) > STRONG_BOUNDARY)
    return ops.enlarge(ops.clip(distance * (2 / max(small))), size)


# ---- place: y, x, eccentricity, gaze --------------------------------------------------------------------------------


GAZE_SPREAD = 0.05  # of the longer side: roughly what a fovea covers of a picture at reading distance


def check_gaze(gaze: tuple[float, float] | None) -> tuple[float, float] | None:
    """(y, x) of the gaze in [0, 1] of the picture, or None."""
    if gaze is None:
        return None
    try:
        y, x = (float(value) for value in gaze)
    except (TypeError, ValueError):
        y = x = -1.0
    if not (0 <= y <= 1 and 0 <= x <= 1):
        raise InputError(f"gaze must be (y, x) with both in [0, 1] of the picture, got {shown(gaze)}")
    return y, x


def eccentricity(ops: Backend, size: tuple[int, int], gaze: tuple[float, float] | None, like: BackendMap) -> BackendMap:
    """Distance from the gaze (the middle, if none), in pixels, over the distance to the farthest corner."""
    y, x = gaze or (0.5, 0.5)
    height, width = size
    farthest = hypot(max(y, 1 - y) * height, max(x, 1 - x) * width)
    return ops.distance_from(size, (y * height, x * width), like, 1 / farthest)


def gaze_map(ops: Backend, size: tuple[int, int], gaze: tuple[float, float], like: BackendMap) -> BackendMap:
    """A soft spot at the gaze."""
    spread = GAZE_SPREAD * max(size)
    distance = ops.distance_from(size, (gaze[0] * size[0], gaze[1] * size[1]), like, 1.0)
    return namespace(distance).exp(distance * distance * (-0.5 / spread**2))


# ---- memory: what was relevant, looked at and attended to before ----------------------------------------------------


MEMORY_CHANNELS = (
    "previous_relevance",
    "previous_saliency",
    "fixation_history",
    "previous_attention",
    "current_attention",
)


def memory_channels(
    ops: Backend, memory: Mapping[str, object], size: tuple[int, int], like: BackendMap
) -> dict[str, BackendMap]:
    """The memory channels that were given, at the wanted size; those that were not stay zero."""
    unknown = set(memory) - set(MEMORY_CHANNELS)
    if unknown:
        raise InputError(f"no memory channel is called {sorted(unknown)[0]!r}; choose of {', '.join(MEMORY_CHANNELS)}")
    return {name: given_map(ops, given, size, like, name) for name, given in memory.items() if given is not None}


def given_map(ops: Backend, given: object, size: tuple[int, int], like: BackendMap, name: str) -> BackendMap:
    """A caller's map (numpy or torch; (H, W) or (B, H, W), any resolution) in the back end's type, in [0, 1]."""
    if ops.name == "torch":
        import torch

        values = given if is_tensor(given) else torch.from_numpy(np.asarray(given, dtype=np.float32))
        values = values.to(like)
        values = values[None] if values.ndim == 2 else values
        fits = values.ndim == 3 and values.shape[0] in (1, like.shape[0])
    else:
        values = given.detach().cpu().numpy() if is_tensor(given) else np.asarray(given)
        values = np.ascontiguousarray(values, dtype=np.float32)
        values = values[0] if values.ndim == 3 and len(values) == 1 else values
        fits = values.ndim == 2
    if not fits:
        raise InputError(f"{name} must be a map (H, W), or one per picture (B, H, W), got {tuple(values.shape)}")
    # NaN makes every comparison false.
    if not bool(values.min() <= values.max()):
        raise InputError(f"{name} contains NaN; every value must be a number in [0, 1]")
    return ops.clip(ops.resize(values, size))


def centre_map(shape: tuple[int, int]) -> np.ndarray:
    """(rows, cols) in [0, 1]: the middle of the picture before its edges."""
    y, x = ((np.arange(number) + 0.5) / number - 0.5 for number in shape)
    return np.exp(-(y[:, None] ** 2 + x[None] ** 2) / (2 * 0.25**2))
