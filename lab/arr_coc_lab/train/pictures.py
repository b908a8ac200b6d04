"""Draw training pictures of Needle World, with the places of all glyphs for a dense auxiliary target.

A linear head on each visual token predicts the character in each of the 4×8 sub-cells of its leaf. This gives every
token a signal from the first step; without it, training never left chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from arr_coc.core.alphabet import SPACE

from ..worlds.needle import FAMILIES, render
from ..worlds.needle.batch import CELL, CELL_CLASSES, FIRST_COLOUR, NeedleBatch
from ..worlds.needle.difficulty import as_difficulty
from ..worlds.needle.draws import Draws
from ..worlds.needle.renderer import finish_batch, lay_out
from ..worlds.needle.scene import NeedleScene

# Rows and columns of sub-cells in a leaf. Letters are narrower than high: on drawn pages, a quarter of the letters
# share a square sub-cell of 8 pixels with another, 2 in 100 share one of these.
SUB_ROWS, SUB_COLS = 4, 8
SUBCELLS = SUB_ROWS * SUB_COLS
# Pixels of a sub-cell at level 0.
SUB_HEIGHT, SUB_WIDTH = CELL // SUB_ROWS, CELL // SUB_COLS
# Type below this size in pixels, at the leaf's own resolution, is ignored: it cannot be read there.
LEGIBLE = 6
IGNORE = -100
# Coarsest level with targets for glyphs.
READING_LEVELS = 2
# The things of a picture without labels.
UNKNOWN = 255


@dataclass(frozen=True)
class Glyphs:
    """Every glyph of every picture: y, x (pixels of its centre), character and type size, each (B, G) int64."""

    y: Tensor
    x: Tensor
    character: Tensor
    size: Tensor


def every_family(
    number: int, size: tuple[int, int], seed: int, split: str, *, device: torch.device | str = "cpu", at_once: int = 0
) -> Iterator[NeedleBatch]:
    """Draw `number` pictures in equal parts of every family (rounded up): a family as one batch, or as batches of at
    most `at_once`."""
    each = -(-number // len(FAMILIES))
    for family in FAMILIES:
        for start in range(0, each, at_once or each):
            yield render(family, min(at_once or each, each - start), size, seed, split, None, device, start)


@torch.no_grad()
def render_glyphs(
    family: str, number: int, size: tuple[int, int], seed: int, split: str, device: torch.device | str, start: int
) -> tuple[NeedleBatch, Glyphs]:
    """Draw by `needle.render`, and return the places of all glyphs."""
    knobs, device = as_difficulty(None, size), torch.device(device)
    with torch.autocast(device.type, enabled=False):
        index = torch.arange(start, start + number, device=device)
        draws = Draws.of(seed, split, family, index)
        scene = lay_out(family, draws, size, split, knobs)
        return finish_batch(scene, draws, index, family, split, seed, size), glyphs_of(scene, size)


def glyphs_of(scene: NeedleScene, size: tuple[int, int]) -> Glyphs:
    """Return every glyph of a scene; those outside the picture have character 0."""
    text = scene.text
    y, x = text.middles()
    there = (text.ids > 0) & (text.ids != SPACE) & (y >= 0) & (y < size[0]) & (x >= 0) & (x < size[1])
    pixels = text.atlas.sizes[text.size][..., None].expand_as(x)
    return Glyphs(*(item.flatten(1) for item in (y, x, text.ids * there, pixels)))


def glyph_board(glyphs: Glyphs, size: tuple[int, int], depth: int) -> Tensor:
    """Return the character in each sub-cell of the picture at 1 / 2**depth of its resolution, (B, rows, cols) int64.

    0 for none, −100 for "ignore": too small, or two in one sub-cell. Coarse leaves at the edge exceed the picture, so
    the board has one blank leaf more on each side.
    """
    there = glyphs.character > 0
    legible = there & (glyphs.size >> depth >= LEGIBLE)
    written = on_board(glyphs, size, depth, torch.where(legible, glyphs.character, IGNORE), there)
    alone = on_board(glyphs, size, depth, there.long(), there, "sum") == 1
    return torch.where(alone | (written == 0), written, IGNORE)


def on_board(
    glyphs: Glyphs, size: tuple[int, int], depth: int, values: Tensor, there: Tensor, how: str | None = None
) -> Tensor:
    """Scatter a value (B, G) of every glyph into its sub-cell, (B, rows, cols) int64; of several, any or their sum; 0
    if there is none."""
    high, wide = SUB_HEIGHT << depth, SUB_WIDTH << depth
    rows, cols = -(-size[0] // high) + SUB_ROWS, -(-size[1] // wide) + SUB_COLS
    number, nowhere = len(glyphs.y), rows * cols
    board = torch.zeros(number, nowhere + 1, dtype=torch.int64, device=glyphs.y.device)
    place = (glyphs.y.clamp_min(0) // high) * cols + glyphs.x.clamp_min(0) // wide
    place = torch.where(there, place, nowhere)
    board = board.scatter_add_(1, place, values) if how == "sum" else board.scatter_(1, place, values)
    return board[:, :-1].view(number, rows, cols)


def board_targets(boards: Sequence[Tensor], leaves: Tensor) -> Tensor:
    """Return the contents of each sub-cell of leaves (B, N, 3), (B, N, 32) int64, from boards of depth 0, 1, …"""
    batch, number = leaves.shape[:2]
    row, col, level = leaves.unbind(-1)
    down, across = (torch.arange(number, device=leaves.device) for number in (SUB_ROWS, SUB_COLS))
    result = leaves.new_full((batch, number, SUBCELLS), IGNORE)
    for depth, board in enumerate(boards):
        cols = board.shape[2]
        y = ((row >> depth) * SUB_ROWS)[..., None] + down
        x = ((col >> depth) * SUB_COLS)[..., None] + across
        index = (y[..., :, None] * cols + x[..., None, :]).flatten(1).clamp(0, board[0].numel() - 1)
        found = board.flatten(1).gather(1, index).view(batch, number, -1)
        result = torch.where((level == depth)[..., None], found.to(result.dtype), result)
    return result


def thing_targets(things: Tensor, leaves: Tensor) -> tuple[Tensor, Tensor]:
    """Return the things in each leaf (B, N, classes) from (B, rows, cols, classes), and a mask (B, N) of targets:
    levels 0 and 1, only in pictures with labels (not `UNKNOWN`)."""
    batch, rows, cols, classes = things.shape
    row, col, level = leaves.unbind(-1)
    flat = things.view(batch, rows * cols, classes)
    offset = torch.arange(2, device=leaves.device)
    result = torch.zeros(batch, leaves.shape[1], classes, dtype=things.dtype, device=things.device)
    for depth in range(READING_LEVELS):
        step = offset[: 1 << depth]
        y = (row[..., None] + step).clamp(max=rows - 1)
        x = (col[..., None] + step).clamp(max=cols - 1)
        index = (y[..., :, None] * cols + x[..., None, :]).view(batch, -1)
        found = flat.gather(1, index[..., None].expand(-1, -1, classes))
        found = found.view(batch, leaves.shape[1], -1, classes).amax(2)
        result = torch.where((level == depth)[..., None], found, result)
    return result, (level < READING_LEVELS) & (flat[:, :1, 0] != UNKNOWN)


def unknown_things(number: int, size: tuple[int, int], device: torch.device) -> Tensor:
    """Return `things` of pictures without labels."""
    shape = number, size[0] // CELL, size[1] // CELL, len(CELL_CLASSES) - FIRST_COLOUR
    return torch.full(shape, UNKNOWN, dtype=torch.uint8, device=device)


# ----------------------------------------------------------------------------------------------------------------------
# Small changes of a picture that leave its text legible: bolder, lighter or softer strokes, more or less light.
#
# There are few typefaces to train on and others to read later; strokes of any weight and sharpness stand in for
# them.

# Shares of the pictures that become lighter, bolder or softer; the rest keep their strokes.
LIGHTER, BOLDER, SOFTER = 0.2, 0.2, 0.2
STRONGEST = 0.6


@torch.no_grad()
def vary(pictures: Tensor, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    """Vary pictures (B, 3, H, W) uint8, each in its own way.

    The first become lighter, the next bolder, the next softer: pictures come in random order, and each change is only
    computed for its pictures.
    """
    number, device = len(pictures), pictures.device
    how_much, light, contrast = torch.rand(3, number, 1, 1, 1, generator=generator, device=device).to(dtype)
    pixels = pictures.to(dtype)
    ends = [round(number * share) for share in (LIGHTER, LIGHTER + BOLDER, LIGHTER + BOLDER + SOFTER)]
    changes = (torch.maximum, torch.minimum, None)
    for first, last, change in zip((0, *ends), ends, changes, strict=False):
        if last == first:
            continue
        some = pixels[first:last]
        target = softened(some) if change is None else spread(some, change)
        some.lerp_(target, STRONGEST * how_much[first:last])
    # Up to a tenth more or less light, and up to a fifth less contrast, about the middle grey.
    factor = 1 - 0.2 * contrast
    return pixels.mul_(factor).add_(128 * (1 - factor) + 25 * (light - 0.5)).round_().clamp_(0, 255).to(torch.uint8)


def spread(pixels: Tensor, change: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return the brightest or darkest of every pixel and its neighbours to the right and below, (B, 3, H, W)."""
    for axis in (3, 2):
        beside = torch.cat([pixels.narrow(axis, 1, pixels.shape[axis] - 1), pixels.narrow(axis, -1, 1)], axis)
        pixels = change(pixels, beside)
    return pixels


def softened(pixels: Tensor) -> Tensor:
    """Return the mean of three by three pixels, (B, 3, H, W)."""
    for axis in (3, 2):
        length = pixels.shape[axis]
        before = torch.cat([pixels.narrow(axis, 0, 1), pixels.narrow(axis, 0, length - 1)], axis)
        behind = torch.cat([pixels.narrow(axis, 1, length - 1), pixels.narrow(axis, length - 1, 1)], axis)
        pixels = before.add_(pixels).add_(behind).div_(3)
    return pixels
