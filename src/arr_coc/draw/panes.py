"""The panes of a page: leaves over a picture (`overlay`), relevance as colour (`heat`), what the model will see
(`foveated`). Where leaves overlap, the finest shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np

from ..attending.leaves import token_grids
from ..core.compare import token_density
from ..core.values import Allocation, Relevance
from ..pictures.load import load_picture
from .layout import (
    UNSEEN,
    boxes_at,
    covered,
    difference_scale,
    level_colour,
    levels_at,
    relevance_scale,
    resize,
    tokens_at,
)

_VEIL = (84, 88, 100)


def overlay(pixels: np.ndarray, allocation: Allocation) -> np.ndarray:
    """Draw leaves over `pixels` (the picture at display size), dimmed where the level is coarse; (H, W, 3) uint8 RGB.

    Every leaf gets a hairline in its level's colour, fainter if leaves are small on the display; where the level
    changes, a stronger line in the finer level's colour shows the outline.
    """
    size = pixels.shape[:2]
    levels = levels_at(allocation, size)
    result = _dimmed(pixels, levels)
    boxes, token_levels = tokens_at(allocation, size)
    for level in sorted(set(allocation.levels.tolist()), reverse=True):
        chosen = boxes[token_levels == level]
        side = float(np.median(np.minimum(chosen[:, 2] - chosen[:, 0], chosen[:, 3] - chosen[:, 1])))
        lines = covered(_edges(chosen), size) & (levels == level)
        _blend(result, lines, level_colour(level), float(np.clip(side / 40, 0.12, 0.55)))
    for level in sorted(set(allocation.levels.tolist()), reverse=True):
        if (levels != level).any():
            thickness = max(1, round(min(size) / 420)) + (level == 0)
            _blend(result, _outline(levels, level, thickness), level_colour(level), 0.95)
    return result


def _dimmed(pixels: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Dim pixels by level: full colour at level 0, greyer at coarser levels, dark without a token.

    A grey veil shows on white paper as well as on a night street; darkening alone would not.
    """
    coarsest = max(int(levels.max()), 1)
    share = np.clip(levels, 0, None).astype(np.float32)[..., None] / coarsest
    colours = pixels.astype(np.float32)
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)[..., None]
    shown = colours + (grey - colours) * (0.6 * share)
    shown += (np.array(_VEIL, dtype=np.float32) - shown) * (0.6 * share)
    unseen = np.array(UNSEEN, dtype=np.float32) * 0.8 + 0.1 * grey
    return np.rint(np.where((levels < 0)[..., None], unseen, shown)).astype(np.uint8)


def _edges(boxes: np.ndarray) -> np.ndarray:
    """Return the top row and the left column of each box, (2N, 4); its other edges belong to its neighbours."""
    top, left, bottom, right = boxes.T
    return np.concatenate(
        [np.stack([top, left, top + 1, right], axis=1), np.stack([top, left, bottom, left + 1], axis=1)]
    )


def _outline(levels: np.ndarray, level: int, thickness: int) -> np.ndarray:
    """Return a mask (H, W) of the pixels of `level` within `thickness` of a coarser or unseen pixel."""
    rank = np.where(levels < 0, np.iinfo(np.int16).max, levels).astype(np.int16)
    here = (rank == level).astype(np.uint8)
    coarser = (rank > level).astype(np.uint8)
    reach = np.ones((2 * thickness + 1, 2 * thickness + 1), dtype=np.uint8)
    return (here & cv2.dilate(coarser, reach)).astype(bool)


def _blend(canvas: np.ndarray, where: np.ndarray, colour: np.ndarray, alpha: float) -> None:
    canvas[where] = np.rint(canvas[where] * (1 - alpha) + colour.astype(np.float32) * alpha).astype(np.uint8)


# ---- relevance ------------------------------------------------------------------------------------------------------


def heat(relevance: Relevance | np.ndarray, size: tuple[int, int], pixels: np.ndarray | None = None) -> np.ndarray:
    """Draw a map in [0, 1] as (H, W, 3) uint8 RGB, with the same perceptually uniform colours for every picture.

    pixels: (H, W, 3) uint8 of the picture at that size; its brightness shades the colours a little, so that one
    recognises what is where.
    """
    values = np.asarray(relevance.map if isinstance(relevance, Relevance) else relevance, dtype=np.float32)
    grows = size[0] >= values.shape[0] and size[1] >= values.shape[1]
    interpolation = cv2.INTER_LINEAR if grows else cv2.INTER_AREA
    values = cv2.resize(np.clip(values, 0, 1), (size[1], size[0]), interpolation=interpolation)
    colours = relevance_scale()[np.rint(values * 255).astype(np.uint8)]
    if pixels is None:
        return colours
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)[..., None] / 255
    # The picture shows through where little is relevant; otherwise a map of one small place would be a black pane.
    shaded = colours * (0.7 + 0.3 * grey) + (14 + 100 * (1 - values[..., None])) * grey
    return np.clip(np.rint(shaded), 0, 255).astype(np.uint8)


# ---- what the model sees --------------------------------------------------------------------------------------------


def mip(pixels: np.ndarray, level: int, canvas: tuple[int, int]) -> np.ndarray:
    """Average the 2**level × 2**level blocks of a canvas: (ceil(H / 2**level), ceil(W / 2**level), 3) uint8.

    The edge is padded by replication, like the encoder's input. If `pixels` are smaller than the canvas (a large
    picture read reduced), blocks are measured on the canvas and averaged over the available pixels.
    """
    if level <= 0:
        return pixels
    block = 1 << level
    blocks = np.array([-(-side // block) for side in canvas])
    wanted = np.rint(blocks * block * (np.array(pixels.shape[:2]) / np.array(canvas))).astype(int)
    missing = np.maximum(wanted - pixels.shape[:2], 0)
    padded = cv2.copyMakeBorder(pixels, 0, int(missing[0]), 0, int(missing[1]), cv2.BORDER_REPLICATE)
    return cv2.resize(padded, (int(blocks[1]), int(blocks[0])), interpolation=cv2.INTER_AREA)


def foveated(picture: object, allocation: Allocation, size: tuple[int, int] | None = None) -> np.ndarray:
    """Draw the picture with each region at its level of detail, dark without a token; (H, W, 3) uint8 RGB.

    picture: anything `load_picture` takes. size: (height, width) of the result; by default that of the canvas which the
    model sees at level 0, where the result is exact, block for block. On a smaller display, levels finer than the
    display can show look alike.
    """
    picture = load_picture(picture)
    canvas = allocation.canvas or picture.size
    size = size or canvas
    pixels = picture.pixels
    if pixels.shape[0] > canvas[0] or pixels.shape[1] > canvas[1]:
        pixels = resize(pixels, canvas)
    # The row and column of the canvas under the centre of each row and column of the display.
    at_row, at_col = (
        np.minimum(((np.arange(shown) + 0.5) * (given / shown) * (side / given)).astype(np.int64), side - 1)
        for shown, given, side in zip(size, picture.size, canvas, strict=True)
    )
    levels = levels_at(allocation, size)
    result = np.full((*size, 3), UNSEEN, dtype=np.uint8)
    # Canvas pixels behind one pixel of the display, or of the pixels read if those are coarser.
    reduction = max(canvas[0] / size[0], canvas[0] / pixels.shape[0])
    smooth = resize(pixels, size)
    for (level, down, across), here in _seen_alike(allocation, levels, boxes_at(allocation, size)):
        if not here.any():
            continue  # the mips of a whole picture are slow
        if max(down, across) <= max(reduction, 1):
            # A block no larger than a pixel cannot be shown; smooth resizing is closest then.
            seen = smooth
        elif level >= 0:
            seen = mip(pixels, int(level), canvas)[(at_row >> int(level))[:, None], (at_col >> int(level))[None, :]]
        else:
            blocks = max(1, round(canvas[0] / down)), max(1, round(canvas[1] / across))
            rows, cols = (at_row * blocks[0] // canvas[0])[:, None], (at_col * blocks[1] // canvas[1])[None, :]
            seen = cv2.resize(pixels, (blocks[1], blocks[0]), interpolation=cv2.INTER_AREA)[rows, cols]
        result[here] = seen[here]
    return result


def _seen_alike(
    allocation: Allocation, levels: np.ndarray, boxes: np.ndarray
) -> Iterator[tuple[tuple[float, float, float], np.ndarray]]:
    """Yield (level, canvas pixels per token pixel down, across) with a mask (H, W) of the display pixels shown so.

    A leaf of level l shows 2**l pixels as one; a patch of several tokens, as many as it has cells per token.
    """
    several = allocation.counts > 1
    single = covered(boxes[~several], levels.shape) if several.any() else levels >= 0
    for level in sorted(set(allocation.levels[~several].tolist())):
        yield (level, 1 << level, 1 << level), (levels == level) & single
    extents = allocation.extents()
    share = extents / token_grids(allocation.counts, extents)
    for down, across in np.unique(share[several], axis=0).tolist():
        chosen = several & (share == (down, across)).all(axis=1)
        yield (-1, down, across), covered(boxes[chosen], levels.shape) & ~single


# ---- two allocations ------------------------------------------------------------------------------------------------


def difference_map(
    first: Allocation, second: Allocation, size: tuple[int, int], pixels: np.ndarray | None = None
) -> np.ndarray:
    """Draw orange where the first spends more tokens, blue where the second does, else paper; (H, W, 3) uint8 RGB.

    Compares the logarithms of tokens per cell, because one level of detail is a factor of four.
    """
    densities = [np.log2(np.maximum(token_density(allocation), 4.0**-6)) / 2 for allocation in (first, second)]
    change = densities[1] - densities[0]
    strongest = max(float(np.abs(change).max()), 1.0)
    at = np.rint((change / strongest + 1) * 127.5).astype(np.uint8)
    cells = difference_scale()[at]
    scale = np.array(first.canvas or (first.height, first.width)) / np.array(size) / first.cell
    row = np.minimum(((np.arange(size[0]) + 0.5) * scale[0]).astype(int), cells.shape[0] - 1)
    col = np.minimum(((np.arange(size[1]) + 0.5) * scale[1]).astype(int), cells.shape[1] - 1)
    colours = cells[row[:, None], col[None, :]]
    if pixels is None:
        return colours
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)[..., None] / 255
    return np.rint(colours * (0.6 + 0.4 * grey)).astype(np.uint8)
