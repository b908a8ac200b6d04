"""Choose the scale at which a picture is read, by the letter heights that a model reads (its grip).

A scale of 2 shows the picture twice as large: the same number of tokens then covers less of it, with larger letters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..core.errors import InputError, as_number, is_number, shown
from ..texture.type_height import TypeHeight, no_letters, weighted_quantile
from .frame import Frame
from .grip import NOT_MEASURED, Grip
from .overlay import OVERVIEW_SHARE

AUTO = "auto"
LEAST, MOST = 0.25, 3.0  # range of `auto`
LARGEST = 4.0  # maximum for callers
STEPS = 2.0 ** (np.arange(-8, 7) / 4)  # scales to try, a quarter of an octave apart
# Another scale must be read better than scale 1 by this factor, because resizing costs sharpness.
WORTH = 1.1
NEARLY = 0.97  # share of the best scale's reading that suffices: of these scales the one nearest to 1 is taken
FOCUS = 2.0  # power of the relevance in the weight of letters
COARSELY = 0.2  # share of letters that is read one level coarser
PLACES = 24  # samples of the relevance along a row of letters


@dataclass(frozen=True, eq=False)
class View:
    """A picture to decide about, without a question.

    size: (height, width) of the picture as given. frame: the grid of cells that the model sees. letters: returns the
    heights of the picture's letters; called only if needed. resized: returns the frame at another scale; None if the
    picture cannot be resized. grip: the letter heights that the model reads, if measured. made: what is known about the
    picture that the model sees, by name: see `Scene.made`.
    """

    size: tuple[int, int]
    frame: Frame
    letters: Callable[[], TypeHeight] = no_letters
    resized: Callable[[float], Frame] | None = None
    grip: Grip | None = None
    made: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Distance:
    """The scale at which a picture is read. scale: resize factor. letters: of the canvas, if they decided. grip: of the
    model. notes: what the user should know."""

    scale: float = 1.0
    letters: TypeHeight | None = None
    grip: Grip | None = None
    notes: tuple[str, ...] = ()


def check_scale(scale: object) -> float | str | None:
    """Check a scale: "auto", a number from 0.25 to 4, or None for the default of the entry point."""
    if scale is None or (isinstance(scale, str) and scale.strip().lower() == AUTO):
        return None if scale is None else AUTO
    number = as_number(scale) if isinstance(scale, str) else scale
    if not is_number(number) or not LEAST <= number <= LARGEST:
        raise InputError(f"scale={shown(scale)} is not possible; give auto, or a number from {LEAST} to {LARGEST:g}")
    return float(number)


def scaled_size(canvas: tuple[int, int], times: float, cell: int = 1) -> tuple[int, int]:
    """Multiply (height, width) of a canvas by `times`, rounded to whole cells."""
    height, width = (max(1, round(side * times / cell)) * cell for side in canvas)
    return height, width


def cell_heights(letters: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Reduce a map of letter heights to (rows, cols): the smallest letters in each cell, 0 if there are none."""
    down, across = (
        np.minimum(np.arange(count + 1) * (length / count), length)
        for count, length in zip((rows, cols), letters.shape, strict=True)
    )
    found = np.where(letters > 0, letters, np.inf).astype(np.float32)
    found = np.minimum.reduceat(found, np.minimum(down[:-1].astype(int), letters.shape[0] - 1), axis=0)
    found = np.minimum.reduceat(found, np.minimum(across[:-1].astype(int), letters.shape[1] - 1), axis=1)
    return np.where(np.isfinite(found), found, 0.0).astype(np.float32)


def best_scale(grip: Grip, heights: np.ndarray, weights: np.ndarray, tried: np.ndarray, fine: np.ndarray) -> float:
    """Return the scale of `tried` (S,) at which letters of these heights are read best; 1 if no other is better enough.

    fine: (S,) share of the relevance under the finest tokens at each scale.
    """
    found = (grip.reading(heights[:, None] * tried).T @ weights) * (COARSELY + (1 - COARSELY) * fine)
    here = float(found[np.argmin(np.abs(np.log(tried)))])
    if found.max() < WORTH * here and tried[0] <= 1 <= tried[-1]:
        return 1.0
    good = tried[found >= NEARLY * found.max()]
    return float(good[np.argmin(np.abs(np.log(good)))])


def finely_seen(relevance: np.ndarray, share: float, scales: np.ndarray) -> np.ndarray:
    """Return (S,) the share of the relevance under the finest tokens, which cover less at a larger scale.

    share: the share of the picture that they cover at scale 1.
    """
    order = np.sort(relevance.ravel().astype(np.float64) ** FOCUS)[::-1]
    total = np.concatenate([[0.0], np.cumsum(order)])
    total = total / total[-1] if total[-1] > 0 else np.linspace(0, 1, len(total))
    return np.interp(share / np.square(scales), np.linspace(0, 1, len(total)), total)


def choose_distance(view: View, scale: float | str | None, relevance: np.ndarray, tokens: int) -> Distance:
    """Choose the scale at which to read one picture for one question.

    scale: "auto", a number, or None: "auto" if the grip of the model is known, else 1. relevance: (h, w) map of where
    the question needs detail. Returns the scale, with the letters that decided; without letters it is 1.
    """
    if view.resized is None:
        return Distance()
    grip, size, canvas, full = view.grip, view.size, view.frame.seen, view.frame.full
    if scale is None:
        scale = 1.0 if grip is None else AUTO
    if not isinstance(scale, str):
        return Distance(scale, notes=() if scale == 1 else (f"read {scale:.3g} times as large",))
    found = no_letters() if tokens >= full else view.letters()
    if not found:
        return Distance()
    grip = grip or Grip.cautious()
    # The canvas may be a resized picture: letters are counted in its pixels.
    ratio = float(np.sqrt(canvas[0] * canvas[1] / (size[0] * size[1])))
    found = replace(found, heights=found.heights * np.float32(ratio))
    # The relevance of each row of letters: the maximum of samples along it.
    high, wide = relevance.shape
    y0, x0, y1, x1 = found.boxes.T
    y = np.clip(((y0 + y1) / 2 / size[0] * high).astype(int), 0, high - 1)
    x = (x0[:, None] + (np.arange(PLACES) + 0.5) / PLACES * (x1 - x0)[:, None]) / size[1] * wide
    needed = relevance[y[:, None], np.clip(x.astype(int), 0, wide - 1)].max(1).astype(np.float64)
    needed = needed / needed.max() if needed.max() > 0 else np.ones_like(needed)
    weights = found.ground * needed**FOCUS
    # The smallest scale still has a cell for every token; the largest is limited by the model's canvas.
    least = max(LEAST, min(1.0, 1.05 * float(np.sqrt(tokens / max(full, 1)))))
    most = MOST if grip.largest is None else float(np.clip(grip.largest / max(canvas), least, MOST))
    limits = least, max(least, most)
    tried = np.unique(np.clip([*STEPS, *limits, 1.0], *limits))
    fine = finely_seen(relevance, (1 - 1 / OVERVIEW_SHARE) * tokens / full, tried)
    times = best_scale(grip, found.heights, weights, tried, fine)
    notes = () if grip.model else (NOT_MEASURED,)
    if times != 1:
        tall = weighted_quantile(found.heights, weights, 0.5)
        whose = f"{grip.model or 'the model'} reads best those of {grip.low:.0f} to {grip.high:.0f}"
        notes = (f"read {times:.3g} times as large: letters of {tall:.0f} pixels, and {whose}", *notes)
    return Distance(times, found, grip, notes)
