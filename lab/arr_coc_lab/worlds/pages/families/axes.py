"""What charts share: what can be asked of them, legends, axes, the names under columns."""

from __future__ import annotations

import math

from ..sheet import Mark, Sheet
from ..wording import BOTTOM, ENTRIES, HIGHEST, HIGHEST_OF, LOWEST, PEAK, POINT, VALUE, VALUE_BY, VALUE_OF, WHERE_VALUE
from .figures import Svg, Topic, nice, tick_text


def ask_values(
    sheet: Sheet, topic: Topic, names: dict[int, Mark], figures: dict[tuple[int, int], Mark], legend: dict[int, Mark]
) -> None:
    """Everything that a chart with printed figures can be asked: values, the other way round, highest and lowest."""
    several = len(topic.series) > 1
    for (i, j), figure in figures.items():
        if j not in names:
            continue
        context = [names[j], *([legend[i]] if i in legend else [])]
        slots = {
            "m": topic.measure,
            "x": topic.categories[j].rstrip("*"),
            "s": topic.series[i],
            "k": topic.kind,
            "v": figure.text,
        }
        lead = next((words for words in VALUE_BY if topic.measure.startswith(words)), "")
        slots["o"] = topic.measure.removeprefix(lead)
        if not several or i in legend:
            wordings = VALUE_OF if several else VALUE + VALUE_BY.get(lead, ()) * 2
            sheet.ask("value", wordings, figure, context, **slots)
        if not several and sum(text == figure.text for text in topic.texts[0]) == 1 and sheet.chance(0.3):
            sheet.ask("lookup", WHERE_VALUE, names[j], (figure,), **slots)
    if not several and len(topic.categories) > 2:
        row = topic.values[0]
        best, worst = max(range(len(row)), key=row.__getitem__), min(range(len(row)), key=row.__getitem__)
        for j, which, extreme in ((best, HIGHEST, PEAK), (worst, LOWEST, BOTTOM)):
            near = [figures[0, j]] if (0, j) in figures else []
            if j in names:
                sheet.ask("extreme", which, names[j], near, m=topic.measure, k=topic.kind)
            if near and sheet.chance(0.7):
                sheet.ask("extreme", extreme, near[0], [names[j]] if j in names else [], m=topic.measure, k=topic.kind)
    for i, mark in legend.items():
        best = max(range(len(topic.categories)), key=topic.values[i].__getitem__)
        if best in names and sheet.chance(0.6):
            near = [figures[i, best]] if (i, best) in figures else []
            sheet.ask("extreme", HIGHEST_OF, names[best], [mark, *near], k=topic.kind, s=topic.series[i])
    if len(names) == len(topic.categories) < 10 and sheet.chance(0.15):
        sheet.ask("count", ENTRIES, names.values(), answer=str(len(names)), k=topic.kind)
    for mark in [*names.values()][:2] + [*legend.values()][:2]:
        if sheet.chance(0.25):
            sheet.ask("place", POINT, mark, L=mark.text, l=mark.text.lower())


def legend_for(sheet: Sheet, topic: Topic, colors: list[str]) -> tuple[str, dict[int, Mark]]:
    """A legend in a row; empty for one series."""
    if len(topic.series) < 2:
        return "", {}
    marks = {i: sheet.mark(name) for i, name in enumerate(topic.series)}
    round_ = sheet.pick("0", "50%", "2px")
    keys = "".join(
        '<span style="white-space:nowrap;margin-right:12px"><span'
        f' style="display:inline-block;width:.8em;height:.8em;border-radius:{round_};background:{colors[i]};mar'
        f'gin-right:4px"></span>{mark}</span>'
        for i, mark in marks.items()
    )
    return f'<div style="text-align:{sheet.pick("left", "center", "center")};margin:4px 0">{keys}</div>', marks


def plot_size(sheet: Sheet) -> tuple[float, float, float]:
    """(width, height, type size) of a drawing on this canvas, with room for titles."""
    share = sheet.random.choice((0.55, 0.65, 0.72, 0.78))
    return (
        sheet.width - 2 * sheet.padding - 34,
        (sheet.height - 2 * sheet.padding) * share,
        sheet.random.choice((8, 9, 9, 10, 10, 11, 12)),
    )


def upright_axis(
    sheet: Sheet, svg: Svg, topic: Topic, top: float, left: float, width: float, height: float, y0: float
) -> float:
    """Grid, ticks and the axis' name for values going up; returns the axis' end."""
    ticks = nice(top)
    grid, numbers = sheet.pick("#e4e4e4", "#ccc", "#eee", "none"), sheet.chance(0.85)
    for value in ticks:
        y = y0 + height - height * value / ticks[-1]
        svg.line(left, y, left + width, y, grid, 1, 'stroke-dasharray="2 2"' if grid == "#ccc" else "")
        if numbers:
            svg.text(left - 5, y + svg.size * 0.35, tick_text(value, topic), "end", svg.size * 0.95, "#666")
    svg.line(left, y0 + height, left + width, y0 + height, "#333")
    if sheet.chance(0.5):
        name = (topic.unit or topic.measure)[:44]
        svg.text(9, y0 + height / 2, name[0].upper() + name[1:], "middle", svg.size * 0.9, "#555", turn=-90)
    return ticks[-1]


def category_names(sheet: Sheet, svg: Svg, topic: Topic, left: float, width: float, base: float) -> dict[int, Mark]:
    """Names under the columns, turned or thinned out where they would not fit."""
    n, slot = len(topic.categories), width / len(topic.categories)
    longest = max(svg.wide(name) for name in topic.categories)
    names: dict[int, Mark] = {}
    turn = 0 if longest < slot * 0.98 else sheet.random.choice((-45, -35, -60, -90))
    every = 1 if not turn or slot > svg.size * 1.1 else math.ceil(svg.size * 1.1 / slot)
    if turn and topic.kind in ("year", "quarter") and sheet.chance(0.5):
        turn, every = 0, math.ceil(longest / slot * 1.1)
    for j in range(0, n, every):
        x = left + slot * (j + 0.5)
        y = base + svg.size + 4
        names[j] = svg.text(
            x + (svg.size * 0.35 if turn else 0), y, topic.categories[j], "end" if turn else "middle", turn=turn
        )
    return names


def room_below(svg: Svg, topic: Topic, width: float) -> float:
    longest = max(svg.wide(name) for name in topic.categories)
    return (
        svg.size * 2 + 6 if longest < width / len(topic.categories) * 0.98 else min(longest, 150) * 0.85 + svg.size + 10
    )
