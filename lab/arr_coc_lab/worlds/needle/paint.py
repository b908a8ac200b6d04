"""Painting a batch at once, in whole numbers.

Every layer is pulled, not pushed: for each pixel, which item lies here and which of its texels? Items of one layer do
not overlap, so both are sums over items of (row part) × (column part), which is one small matrix product per batch.
All numbers in these products are whole and below 2048, so they are exact in any float format a GPU may choose.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch

from .atlas import PANEL_SIDE, SPRITE_SIDE, glyphs, sprites
from .draws import Draws
from .scene import Background, Layer, NeedleScene, Text
from .surfaces import PAPER, SIDE, textures


def outer(rows: torch.Tensor, cols: torch.Tensor) -> torch.Tensor:
    """Sum row × column over items for each pixel: (B, K, H), (B, K, W) whole numbers → (B * H * W,) int32."""
    plane = torch.bmm(rows.transpose(1, 2).float(), cols.float())
    return plane.view(-1).to(torch.int32)


def divide_255(value: torch.Tensor) -> torch.Tensor:
    """Divide by 255 with rounding, for numbers from 0 to 65 025, without a division."""
    value = value + 128
    return (value + (value >> 8)) >> 8


def _channels_at_once(device: torch.device) -> int:
    """Group channels: on a GPU all three (fewer launches), on a CPU one by one (each stays in its cache)."""
    return 1 if device.type == "cpu" else 3


def blend(canvas: torch.Tensor, where: torch.Tensor | None, colour: torch.Tensor, alpha: torch.Tensor) -> None:
    """Lay packed colour (N,) with alpha (N,) over the canvas (3, pixels) at the N places `where` (None: everywhere)."""
    step = _channels_at_once(canvas.device)
    for channel in range(0, 3, step):
        planes = canvas[channel : channel + step]
        under = (planes if where is None else planes.index_select(1, where)).to(torch.int32)
        shifts = torch.arange(8 * channel, 8 * (channel + step), 8, device=canvas.device, dtype=torch.int32)[:, None]
        # 255 * under + alpha * (colour - under), in place because these are the largest tensors there are.
        mixed = ((colour >> shifts) & 255).sub_(under).mul_(alpha).add_(under, alpha=255).add_(128)
        mixed = mixed.add_(mixed >> 8).__irshift__(8).to(torch.uint8)
        if where is None:
            planes.copy_(mixed)
        else:
            planes.index_copy_(1, where, mixed)


def packed(colours: torch.Tensor) -> torch.Tensor:
    """Pack channels (…, 3 or 4) int64 into (…,) int32: red in the lowest byte, opacity in the highest."""
    shifts = torch.arange(0, 8 * colours.shape[-1], 8, device=colours.device)
    value = (colours << shifts).sum(-1)
    return torch.where(value >= 1 << 31, value - (1 << 32), value).to(torch.int32)


def _covered(number: torch.Tensor) -> torch.Tensor | None:
    """Return the pixels that hold something; None for all of them. On a GPU all: asking how many would make it wait."""
    if number.device.type != "cpu" or 2 * int(torch.count_nonzero(number)) > len(number):
        return None
    return torch.nonzero(number)[:, 0]


def _pictures(number: int, pixels: int, where: torch.Tensor | None, device: torch.device) -> torch.Tensor:
    """Return (N,) int32: the picture that each pixel belongs to."""
    if where is not None:
        return torch.div(where, pixels, rounding_mode="floor").to(torch.int32)
    return torch.arange(number, device=device, dtype=torch.int32)[:, None].expand(number, pixels).reshape(-1)


def _texel(local: torch.Tensor, extent: torch.Tensor, side: torch.Tensor, sliced: torch.Tensor) -> torch.Tensor:
    """Convert (B, K, n) pixel offsets inside items of (B, K) extent → texel coordinates.

    Stretched items scale the sprite; sliced ones keep its corners and repeat its middle.
    """
    extent = extent[..., None].clamp(min=1)
    stretched = torch.div((2 * local + 1) * side[..., None], 2 * extent, rounding_mode="floor")
    half = PANEL_SIDE // 2 - 1
    end = extent - 1 - local
    cut = torch.where(local <= end, local.clamp(max=half), PANEL_SIDE - 1 - end.clamp(max=half))
    return torch.where(sliced[..., None], cut, stretched)


def _sampling(layer: Layer) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return for every item (B, K) whether it is sliced, the side of the resolution to read, and its first texel."""
    sliced = sprites(layer.y.device).sliced[layer.sprite]
    largest = torch.maximum(layer.height, layer.width)
    mip = torch.where(sliced, 0, (largest <= 64).long() + (largest <= 32).long())
    return sliced, SPRITE_SIDE >> mip, (layer.sprite * 3 + mip) * SPRITE_SIDE**2


def paint_layer(canvas: torch.Tensor, layer: Layer, height: int, width: int) -> None:
    """Paint all items: every pixel finds the item it shows. canvas: (3, B * height * width) uint8, changed in place."""
    device = canvas.device
    number, items = layer.y.shape
    sliced, side, base = _sampling(layer)
    local_y = torch.arange(height, device=device) - layer.y[..., None]
    local_x = torch.arange(width, device=device) - layer.x[..., None]
    rows = (local_y >= 0) & (local_y < layer.height[..., None])
    cols = (local_x >= 0) & (local_x < layer.width[..., None])
    texel_y = _texel(local_y, layer.height, side, sliced) * rows
    texel_x = _texel(local_x, layer.width, side, sliced) * cols
    names = torch.arange(1, items + 1, device=device)[None, :, None]
    item = outer(rows * names, cols)
    vertical, horizontal = outer(texel_y, cols), outer(rows, texel_x)

    where = _covered(item)
    if where is not None:
        item, vertical, horizontal = (plane.index_select(0, where) for plane in (item, vertical, horizontal))
    # Entry 0 of every picture's list stands for "nothing here" and has no opacity.
    entry = _pictures(number, height * width, where, device) * (items + 1) + item
    bases = torch.nn.functional.pad(base, (1, 0)).view(-1).to(torch.int32)
    colours = packed(torch.nn.functional.pad(layer.colours, (0, 0, 0, 0, 1, 0))).view(-1, 3)
    place = bases.index_select(0, entry).add_(vertical, alpha=SPRITE_SIDE).add_(horizontal)
    masks = sprites(device).texels.index_select(0, place)
    for mask in layer.masks:
        colour = colours[:, mask].contiguous().index_select(0, entry)
        blend(canvas, where, colour, divide_255(((masks >> (8 * mask)) & 255) * ((colour >> 24) & 255)))


def paint_text(canvas: torch.Tensor, text: Text, height: int, width: int) -> None:
    """Paint all lines of all pictures. canvas: (3, B * height * width) uint8, changed in place."""
    device = canvas.device
    atlas = glyphs(device)
    number, lines = text.x.shape
    advance = text.advances()
    end = text.x[..., None] + advance.cumsum(-1)
    start = end - advance
    across = torch.arange(width, device=device).expand(number, lines, width).contiguous()
    letter = (torch.searchsorted(start.contiguous(), across, right=True) - 1).clamp(min=0)
    first = atlas.first[text.face[..., None], text.size[..., None], text.ids]
    tall = text.height()[..., None]
    cols = (across >= text.x[..., None]) & (across < end[..., -1:])
    # For each line and each column of the picture: the top of the atlas's column that is seen there; 0 is empty.
    column = ((first - start * tall).gather(-1, letter) + across * tall) * cols
    column = torch.nn.functional.pad(column, (0, 0, 1, 0)).view(-1).to(torch.int32)

    down = torch.arange(height, device=device) - text.top()[..., None]
    rows = (down >= 0) & (down < tall)
    names = torch.arange(1, lines + 1, device=device)[None, :, None]
    line = outer(rows * names, cols)
    depth = outer(down * rows, cols)
    where = _covered(line)
    if where is not None:
        line, depth = line.index_select(0, where), depth.index_select(0, where)
        x = (where % width).to(torch.int32)
    else:
        x = torch.arange(width, device=device, dtype=torch.int32).expand(number * height, width).reshape(-1)
    entry = _pictures(number, height * width, where, device) * (lines + 1) + line
    seen = column.index_select(0, entry * width + x).add_(depth)
    coverage = atlas.coverage.index_select(0, seen).to(torch.int32)
    ink = packed(torch.nn.functional.pad(text.ink, (0, 0, 1, 0))).view(-1)
    blend(canvas, where, ink.index_select(0, entry), coverage)


def _texture(kind: torch.Tensor, draws: Draws, name: str, height: int, width: int) -> torch.Tensor:
    """Return (B, height, width) int32 texture values, each picture from its own corner of the tile."""
    device = kind.device
    shift = draws.integers(name, 0, SIDE, 2)
    y = (torch.arange(height, device=device) + shift[:, :1]) % SIDE
    x = (torch.arange(width, device=device) + shift[:, 1:]) % SIDE
    place = (kind[:, None] * SIDE**2 + y * SIDE)[:, :, None] + x[:, None, :]
    return textures(device).view(-1).index_select(0, place.view(-1).to(torch.int32)).view_as(place)


def paint_background(background: Background, draws: Draws, height: int, width: int) -> torch.Tensor:
    """Make the canvas, (3, B * height * width) uint8."""
    device = background.top.device
    number = len(draws)
    weight = torch.div(torch.arange(height, device=device) * 256, height, rounding_mode="floor")
    gradient = background.top[:, :, None] * (256 - weight) + background.bottom[:, :, None] * weight
    gradient = (gradient >> 8).to(torch.int32)
    surface = _texture(background.texture, draws, "background", height, width)
    surface = (surface * background.strength.to(torch.int32)[:, None, None]) >> 6
    canvas = torch.empty(3, number * height * width, dtype=torch.uint8, device=device)
    for channel in range(3):
        plane = (surface + gradient[:, channel, :, None]).clamp_(0, 255)
        canvas[channel].copy_(plane.view(-1))
    return canvas


def finish(canvas: torch.Tensor, draws: Draws, height: int, width: int) -> torch.Tensor:
    """Add light from one side and a little grain to the canvas: (B, 3, height, width) uint8."""
    device = canvas.device
    slope = draws.integers("light", -20, 21, 2, place=True)
    level = 250 + draws.integers("light/level", -8, 9, place=True)
    down = torch.div((torch.arange(height, device=device) - height // 2) * slope[:, :1], height, rounding_mode="floor")
    side = torch.div((torch.arange(width, device=device) - width // 2) * slope[:, 1:], width, rounding_mode="floor")
    light = ((level + down)[:, :, None] + side[:, None, :]).to(torch.int32)
    kind = torch.full((len(draws),), PAPER, device=device)
    grain = _texture(kind, draws, "grain", height, width)
    grain = (grain * draws.integers("grain/strength", 0, 6).to(torch.int32)[:, :, None]) >> 6
    result = torch.empty(len(draws), 3, height, width, dtype=torch.uint8, device=device)
    for channel in range(3):
        lit = (canvas[channel].view(-1, height, width).to(torch.int32) * light) >> 8
        result[:, channel] = lit.add_(grain).clamp_(0, 255).to(torch.uint8)
    return result


def paint(scene: NeedleScene, draws: Draws, height: int, width: int) -> torch.Tensor:
    """Paint whole pictures, (B, 3, height, width) uint8."""
    canvas = paint_background(scene.background, draws, height, width)
    for layer in scene.layers:
        paint_layer(canvas, layer, height, width)
    paint_text(canvas, scene.text, height, width)
    return finish(canvas, draws, height, width)


def part(value: object, rows: slice) -> Any:
    """Return some pictures of a batch: slices every tensor of a (nested) dataclass along its first dimension."""
    if isinstance(value, torch.Tensor):
        return value[rows]
    if isinstance(value, list):
        return [part(entry, rows) for entry in value]
    if isinstance(value, dict):
        return {name: part(entry, rows) for name, entry in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: part(getattr(value, field.name), rows) for field in fields(value)})
    return value


def paint_in_parts(scene: NeedleScene, draws: Draws, height: int, width: int, pixels: int) -> torch.Tensor:
    """Call `paint` for a few pictures at a time: on a CPU those that fit its cache, on a GPU its memory."""
    step = max(1, pixels // (height * width))
    if step >= len(draws):
        return paint(scene, draws, height, width)
    result = torch.empty(len(draws), 3, height, width, dtype=torch.uint8, device=draws.device)
    for first in range(0, len(draws), step):
        rows = slice(first, first + step)
        result[rows] = paint(part(scene, rows), part(draws, rows), height, width)
    return result
