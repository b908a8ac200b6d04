"""Painting set text, fills and rules on B sheets at once, pulled: every pixel asks what lies under it.

A pixel finds its piece of text by one small matrix product, its letter by the piece's columns, and the ink under its
own square exactly: the sum over any area of a glyph is a difference of four entries of a table (`PrintAtlas.sums`). So
type of 6 pixels is filtered as a good rasteriser filters it, and type of 64 is smooth.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..needle.paint import outer
from .atlas import LEVELS, PrintAtlas
from .setting import Runs

PIXELS_AT_ONCE = {"cpu": 1 << 19, "cuda": 1 << 24}


@dataclass(frozen=True)
class Rects:
    """M rectangles of B pictures. boxes: (B, M, 4) float32 x0, y0, x1, y1 in pixels, of any fraction. strength: (B, M)
    from 0 (not there) to 1. colour: (B, M, 3) in 0–1; those of one list must not lie on one another."""

    boxes: Tensor
    strength: Tensor
    colour: Tensor


def _covers(low: Tensor, high: Tensor, length: int) -> Tensor:
    """Return the share of every pixel's width between edges (B, M): (B, M, length)."""
    at = torch.arange(length, device=low.device, dtype=torch.float32)
    return (torch.minimum(high[..., None], at + 1) - torch.maximum(low[..., None], at)).clamp(0, 1)


def paint_rects(canvas: Tensor, rects: Rects) -> Tensor:
    """Paint rectangles over (B, 3, H, W) float32 in 0–1."""
    height, width = canvas.shape[2:]
    x0, y0, x1, y1 = rects.boxes.unbind(-1)
    rows = _covers(y0, y1, height) * rects.strength[..., None]
    cols = _covers(x0, x1, width)
    # Strength and strength times colour, as one product of four planes.
    weights = torch.cat([rects.colour, torch.ones_like(rects.colour[..., :1])], -1)
    planes = torch.einsum("bkh,bkc,bkw->bchw", rows, weights, cols)
    cover = planes[:, 3:]
    # Where several lie on one another (rules that cross), their mean colour.
    colour = planes[:, :3] / cover.clamp_min(1e-6)
    return torch.lerp(canvas, colour, cover.clamp(0, 1))


def paint_runs(canvas: Tensor, runs: Runs, areas: Tensor, atlas: PrintAtlas, weight: Tensor) -> Tensor:
    """Paint text over (B, 3, H, W) float32 in 0–1.

    areas: (B, R, 4) int64 pixels of each piece of text, none on another. weight: (B,) exponent of the ink's coverage:
    below 1 heavier, above 1 lighter. A processor works on the pixels with text alone, a GPU on all of them: it would
    have to wait for their number.
    """
    device, (batch, _, height, width) = canvas.device, canvas.shape
    slots, letters = runs.ids.shape[1:]
    line = text_plane(runs.there, areas, height, width)

    # Of every piece: baseline, and texels of a pixel; entry 0 of every picture is nothing.
    facts = torch.stack([runs.baseline, atlas.em / runs.em.clamp_min(1)], -1)
    facts = F.pad(facts, (0, 0, 1, 0), value=1.0).view(-1, 2)

    # Of every letter: its origin and its glyph's box in texels.
    glyph = torch.cat([runs.start[..., None], atlas.boxes[runs.face[..., None], runs.ids] * atlas.em], -1)
    glyph = F.pad(glyph, (0, 0, 0, 0, 1, 0)).view(-1, 5)
    first = F.pad(atlas.first[runs.face[..., None], runs.ids].to(torch.int32), (0, 0, 1, 0)).view(-1)

    # The letter in every column: the last one that begins before it.
    columns = torch.arange(width, device=device, dtype=torch.float32) + 0.5
    begin = torch.where(runs.ids > 0, runs.start, 1e6).contiguous()
    table = (torch.searchsorted(begin, columns.expand(batch, slots, width).contiguous(), right=True) - 1).clamp_min(0)
    table = F.pad(table.to(torch.int16), (0, 0, 1, 0)).view(-1)
    colours = F.pad(runs.ink, (0, 0, 1, 0)).view(-1, 3)
    where = torch.nonzero(line)[:, 0] if device.type == "cpu" else None
    pixel = torch.arange(len(line), device=device, dtype=torch.int32) if where is None else where.to(torch.int32)
    if where is not None:
        line = line[where]
    picture = torch.div(pixel, height * width, rounding_mode="floor")
    x = (pixel % width).float() + 0.5
    y = (torch.div(pixel, width, rounding_mode="floor") % height).float() + 0.5
    entry = picture * (slots + 1) + line
    base, scale = facts.index_select(0, entry).unbind(-1)
    letter = table.index_select(0, entry * width + x.to(torch.int32)).to(torch.int32)
    own = entry * letters + letter
    ink = _ink(atlas, glyph, first, own, (x, y - base, scale))
    # What hangs over from the letter in front or behind, whichever is nearer.
    origin = glyph.index_select(0, own)
    middle = origin[:, 0] + (origin[:, 1] + 0.5 * origin[:, 3]) / scale
    step = torch.where(x < middle, -1, 1).to(torch.int32)
    beside = own + torch.where((letter + step >= 0) & (letter + step < letters), step, 0)
    other = _ink(atlas, glyph, first, beside, (x, y - base, scale))
    ink = torch.where(beside == own, ink, ink + other).clamp_(0, 1)
    ink = ink.pow_(weight.index_select(0, picture)) * (line > 0)
    colour = colours.index_select(0, entry)
    if where is None:
        ink, colour = ink.view(batch, 1, height, width), colour.view(batch, height, width, 3).permute(0, 3, 1, 2)
        return torch.lerp(canvas, colour, ink)
    flat = canvas.permute(0, 2, 3, 1).reshape(-1, 3).clone()
    flat[where] = torch.lerp(flat[where], colour, ink[:, None])
    return flat.view(batch, height, width, 3).permute(0, 3, 1, 2).contiguous()


def text_plane(there: Tensor, areas: Tensor, height: int, width: int) -> Tensor:
    """Return (B * H * W,) int32: the number of the piece of text at each pixel, from 1; 0 for none."""
    x0, y0, x1, y1 = areas[..., None].unbind(-2)
    down, across = torch.arange(height, device=areas.device), torch.arange(width, device=areas.device)
    rows = (down >= y0) & (down < y1) & there[..., None]
    cols = (across >= x0) & (across < x1)
    names = torch.arange(1, areas.shape[1] + 1, device=areas.device)[None, :, None]
    return outer(rows * names, cols)


def _ink(
    atlas: PrintAtlas, glyph: Tensor, first: Tensor, letter: Tensor, place: tuple[Tensor, Tensor, Tensor]
) -> Tensor:
    """Return the share of each pixel that the letter's ink covers, (N,) float32. place: x of the pixel, how far below
    the baseline it lies, and how many texels a pixel is."""
    x, y, scale = place
    origin, left, top, wide, high = glyph.index_select(0, letter).unbind(-1)
    start, stride = first.index_select(0, letter), wide.to(torch.int32) + 1
    # Type above the atlas's own size is read through a window of a texel: blurred a little, not blocky.
    half = scale.clamp_min(1) / 2
    u, v = (x - origin) * scale - left, y * scale + top
    rows, columns = _edges(v - half, v + half, high), _edges(u - half, u + half, wide)
    total = torch.zeros_like(u)
    for row, row_weight in rows:
        begin = start + row * stride
        line = torch.zeros_like(u)
        for column, column_weight in columns:
            line.addcmul_(atlas.sums.index_select(0, begin + column).float(), column_weight)
        total.addcmul_(line, row_weight)
    return total / (4 * LEVELS * half**2)


def _edges(low: Tensor, high: Tensor, end: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return four entries with weights whose sum is the difference of a table's linear values at high and low."""
    found = []
    for place, sign in ((low, -1.0), (high, 1.0)):
        inside = torch.minimum(place.clamp_min(0), end)
        entry = inside.floor()
        part = inside - entry
        index = entry.to(torch.int32)
        found += [(index, sign * (1 - part)), (torch.minimum(index + 1, end.to(torch.int32)), sign * part)]
    return found
