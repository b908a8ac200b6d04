"""The words of a chart: ticks, names and values of bars, a legend."""

from __future__ import annotations

import torch
from torch import Tensor

from ..constants import constant
from .bank import KIND
from .paint import Rects, rects_of
from .questions import GROUP
from .setting import Slots, joined
from .sheets import FRAMED, Sheet, SheetStage, distinct_rows, empty_facts, frame_facts

TICKS, LEGEND = 6, 2


def charts(stage: SheetStage, name: str = "charts") -> Sheet:
    """Bars with their names and values, ticks along the axis, a legend: the words of a chart."""
    draws, device, atlas = stage.draws, stage.device, stage.atlas
    around = stage.frame
    face, em = around.face, around.em
    most = 6 if stage.width <= 384 else 10
    wide, tall = around.right - around.left, around.bottom - around.top
    series = 1 + draws.chance(f"{name}/two", 35).long()
    flat = draws.chance(f"{name}/flat", 35)
    line_high = stage.high(face, em) + 2
    room = torch.where(flat, tall / (line_high * series * 1.25), wide / (em * 3.2 * series)).floor().clamp(2, most)
    bars = (2 + draws.uniform(f"{name}/bars") * (room - 1)).floor().clamp_max(most)
    # The plot: to its left ticks (or names), below it names (or ticks), above it the legend.
    legend_high = torch.where(series > 1, line_high * 1.3, torch.zeros_like(line_high))
    axis = torch.where(flat, 0.26 * wide, 4.2 * em).clamp_min(8)
    x0, x1 = around.left + axis, around.right - torch.where(flat, 4.5 * em, 0.3 * em)
    y0, y1 = around.top + legend_high + line_high * 1.2, around.bottom - line_high * 1.4
    each, which = (
        torch.arange(most * LEGEND, device=device) // LEGEND,
        torch.arange(most * LEGEND, device=device) % LEGEND,
    )
    there = (each < bars) & (which < series) & (y1 - y0 > 3 * line_high) & (x1 - x0 > 6 * em)
    span = torch.where(flat, y1 - y0, x1 - x0) / bars
    fill = draws.uniform(f"{name}/fill", 0.45, 0.9)
    size = span * fill / series
    low = torch.where(flat, y0, x0) + each * span + span * (1 - fill) / 2 + which * size
    value = draws.uniform(f"{name}/value", 0.06, 1.0, most * LEGEND)
    long = value * torch.where(flat, x1 - x0, y1 - y0)
    up = torch.stack([low, y1 - long, low + size * 0.94, y1.expand_as(low)], -1)
    side = torch.stack([x0.expand_as(low), low, x0 + long, low + size * 0.94], -1)
    boxes = torch.where(flat[..., None], side, up)
    hues = torch.stack([draws.uniform(f"{name}/hue{c}", 0.1, 0.85, LEGEND) for c in "rgb"], -1)
    colour = hues.repeat(1, most, 1)
    fills_bars = rects_of(boxes, there.float(), colour)
    middle = low + size * 0.47
    rise = 0.5 * atlas.capital[face] * em
    value_kind = constant([KIND[k] for k in ("int", "percent", "tick", "money", "measure")], device=device)[
        draws.integers(f"{name}/kind", 0, 5)
    ]
    values = stage.slots(
        most * LEGEND, row=stage.row(f"{name}/value", value_kind.expand(-1, most * LEGEND), most * LEGEND),
        x=torch.where(flat, x0 + long + 0.3 * em, middle), align=torch.where(flat, 0.0, 0.5),
        limit=torch.where(flat, 4.2 * em, size * 1.02),
        baseline=torch.where(flat, middle + rise, y1 - long - atlas.descent[face] * em - 1.5),
        em=em * draws.uniform(f"{name}/value_em", 0.75, 1.0), face=face, ink=stage.ink(f"{name}/ink"), there=there,
    )  # fmt: skip
    bar = torch.arange(most, device=device)
    centre = torch.where(flat, y0, x0) + (bar + 0.5) * span
    names = stage.slots(
        most, row=stage.row(f"{name}/name", "category", most), scramble=stage.scramble(f"{name}/name", most, 25),
        x=torch.where(flat, x0 - 0.4 * em, centre), align=torch.where(flat, 1.0, 0.5),
        limit=torch.where(flat, axis - 0.5 * em, span * 0.95),
        baseline=torch.where(flat, centre + rise, y1 + atlas.ascent[face] * em + 2.5), em=em, face=face,
        ink=stage.ink(f"{name}/ink"), there=there[:, ::LEGEND],
    )  # fmt: skip
    tick = torch.arange(TICKS, device=device) / (TICKS - 1)
    ticks = stage.slots(
        TICKS, row=stage.row(f"{name}/tick", "tick", TICKS),
        x=torch.where(flat, x0 + tick * (x1 - x0), x0 - 0.5 * em), align=torch.where(flat, 0.5, 1.0),
        limit=torch.where(flat, (x1 - x0) / TICKS * 0.8, axis - 0.6 * em),
        baseline=torch.where(flat, y1 + atlas.ascent[face] * em + 2.5, y1 - tick * (y1 - y0) + rise), em=em * 0.9,
        face=face, ink=stage.ink(f"{name}/tick_ink"), there=draws.chance(f"{name}/ticked", 70),
    )  # fmt: skip
    keys, square = legend(stage, name, (series > 1) & there[:, :1])
    fills = joined(fills_bars, rects_of(square, keys.there.float(), hues))
    rules = axes_and_grid(stage, name, (x0, y0, x1, y1), flat, there[:, :1])
    first_name = FRAMED + most * LEGEND
    two = (series > 1).expand_as(each + 0 * series)
    facts = empty_facts(
        stage, most * LEGEND, group=torch.where(two, GROUP["series"], GROUP["value"]),
        label=torch.where(two, first_name + most + TICKS + which, first_name + each),
        second=torch.where(two, first_name + each, -1), answer=FRAMED + torch.arange(most * LEGEND, device=device),
        valid=there,
    )  # fmt: skip
    slots = joined(around.slots, values, names, ticks, keys)
    return Sheet(slots, fills, rules, joined(facts, frame_facts(stage)))


def legend(stage: SheetStage, name: str, there: Tensor) -> tuple[Slots, Tensor]:
    """The names of the series above the plot, and (B, 2, 4) the squares beside them."""
    around, face, em = stage.frame, stage.frame.face, stage.frame.em
    at = torch.arange(LEGEND, device=stage.device)
    legend_x = around.left + (around.right - around.left) * (0.04 + 0.48 * at)
    legend_base = around.top + stage.atlas.ascent[face] * em
    keys = stage.slots(
        LEGEND, row=distinct_rows(stage, f"{name}/series", "category", LEGEND), x=legend_x + 1.3 * em,
        limit=0.38 * (around.right - around.left), scramble=stage.scramble(f"{name}/key", LEGEND, 25),
        baseline=legend_base, em=em, face=face, ink=stage.ink(f"{name}/ink"), there=there,
    )  # fmt: skip
    square = torch.stack(
        [
            legend_x,
            (legend_base - 0.7 * em).expand_as(legend_x),
            legend_x + 0.8 * em,
            (legend_base + 0.1 * em).expand_as(legend_x),
        ],
        -1,
    )
    return keys, square


def axes_and_grid(
    stage: SheetStage, name: str, plot: tuple[Tensor, Tensor, Tensor, Tensor], flat: Tensor, there: Tensor
) -> Rects:
    """The two axes, and lines at the ticks. plot: x0, y0, x1, y1, (B, 1) each. flat: (B, 1), bars lie."""
    draws, (x0, y0, x1, y1) = stage.draws, plot
    tick = torch.arange(TICKS, device=stage.device) / (TICKS - 1)
    thick, rule = draws.uniform(f"{name}/thick", 0.5, 1.5), stage.ink(f"{name}/rule")
    axes = torch.stack(
        [
            torch.cat([x0, y1, x1, y1 + thick], 1),
            torch.cat([x0 - thick, y0, x0, y1], 1),
        ],
        1,
    )
    grid_y, grid_x = y1 - tick * (y1 - y0), x0 + tick * (x1 - x0)
    across = torch.stack([x0.expand_as(grid_y), grid_y, x1.expand_as(grid_y), grid_y + 0.7], -1)
    down = torch.stack([grid_x, y0.expand_as(grid_x), grid_x + 0.7, y1.expand_as(grid_x)], -1)
    gridded = draws.chance(f"{name}/grid", 55).float() * 0.22
    fills_grid = rects_of(torch.where(flat[..., None], down, across), gridded, rule)
    return joined(rects_of(axes, there.float(), rule), fills_grid)
