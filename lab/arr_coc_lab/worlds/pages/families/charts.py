"""Lines, pies and scatters, and every chart in its frame."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ..sheet import Mark, Sheet
from ..wording import HIGHEST, POINT
from .axes import ask_values, category_names, legend_for, plot_size, room_below, upright_axis
from .bars import Drawn, bars, columns, lollipops, stacked
from .figures import FRAMES, HELD_FRAMES, Svg, Topic, nice, palette, tick_text, topic_for


def curves(sheet: Sheet, k: int) -> tuple[Topic, Drawn]:
    """Lines or areas over time: figures at every point, at the ends, or none; names at the ends or in a legend."""
    width, height, size = plot_size(sheet)
    k = sheet.random.choice((1, 1, 2, 3, 4, 5))
    topic = topic_for(sheet, sheet.random.randint(5, max(6, int(min(30, width / (size * 2.5))))), k, ordered=True)
    n, svg, colors = len(topic.categories), Svg(sheet, width, height, size), palette(sheet, k)
    direct = k > 1 and sheet.chance(0.5)
    right = max(map(svg.wide, topic.series)) + 14 if direct else 24
    left, below, y0 = (
        max(svg.wide(tick_text(nice(max(map(max, topic.values)))[-1], topic)) + 22, 36),
        room_below(svg, topic, width - 60),
        size + 8,
    )
    wide, high = width - left - right, height - below - y0
    end = upright_axis(sheet, svg, topic, max(map(max, topic.values)) * 1.05, left, wide, high, y0)
    show = "all" if k == 1 or sheet.chance(0.35) else sheet.pick("ends", "none", "ends")
    dots, area, thick = sheet.chance(0.6), k == 1 and sheet.chance(0.25), sheet.random.choice((1, 1.5, 2, 3))
    figures: dict[tuple[int, int], Mark] = {}
    marks: dict[int, Mark] = {}
    for i in range(k):
        points = [
            (left + wide / n * (j + 0.5), y0 + high - high * value / end) for j, value in enumerate(topic.values[i])
        ]
        if area:
            svg.path(
                [(points[0][0], y0 + high), *points, (points[-1][0], y0 + high)], "none", 0, colors[i], 'opacity=".35"'
            )
        svg.path(points, colors[i], thick, extra='stroke-dasharray="5 3"' if i and sheet.chance(0.2) else "")
        for j, (x, y) in enumerate(points):
            if dots:
                svg.circle(x, y, thick + 1, colors[i])
            if show == "all" or (show == "ends" and j in (0, n - 1)):
                lift = -6 if i % 2 == 0 else size + 5
                figures[i, j] = svg.text(
                    x, y + lift, topic.texts[i][j], size=size * 0.9, fill=colors[i] if k > 1 else "currentColor"
                )
        if direct:
            marks[i] = svg.text(
                points[-1][0] + 8, points[-1][1] + size * 0.35, topic.series[i], "start", fill=colors[i]
            )
    names = category_names(sheet, svg, topic, left, wide, y0 + high)
    legend = ""
    if k > 1 and not direct:
        legend, marks = legend_for(sheet, topic, colors)
    for i, mark in marks.items():
        sheet.ask(
            "place", ("Where is the line for {L}?", "Find {L}.", "{L}", "Which line is {L}?"), mark, L=topic.series[i]
        )
    ask_values(sheet, topic, names, figures, marks)
    return topic, (legend, str(svg))


def pie(sheet: Sheet, k: int, hole: bool = False) -> tuple[Topic, Drawn]:
    """A pie: names outside with a pointer, or in a legend; shares inside or with the names."""
    width, height, size = plot_size(sheet)
    topic = topic_for(sheet, sheet.random.randint(2, 9), 1, ordered=False, percent=True)
    n, svg = len(topic.categories), Svg(sheet, width, height, size)
    total, form = sum(topic.values[0]), sheet.pick("{:.0f}%", "{:.1f}%", "{:.2f}%", "{:.0f}")
    shares = [value / total for value in topic.values[0]]
    texts = [form.format(share * 100) for share in shares]
    topic, colors = topic._replace(texts=[texts], series=["share"]), palette(sheet, n)
    radius, cx, cy = min(width * 0.26, height * 0.36), width / 2, height / 2
    listed = sheet.chance(0.3) and not hole
    names, figures, angle, key = {}, {}, sheet.random.uniform(0, 6.28), ""
    for j, share in enumerate(shares):
        after = angle + share * math.tau
        x0, y0, x1, y1 = (
            cx + radius * math.sin(angle),
            cy - radius * math.cos(angle),
            cx + radius * math.sin(after),
            cy - radius * math.cos(after),
        )
        svg.parts.append(
            f'<path d="M{cx:.1f} {cy:.1f}L{x0:.1f} {y0:.1f}A{radius:.1f} {radius:.1f} 0 {int(share > 0.5)} 1 {x1:.1f}'
            f' {y1:.1f}Z" fill="{colors[j]}" stroke="#fff"/>'
        )
        middle, right = (angle + after) / 2, math.sin((angle + after) / 2) > 0
        sin, cos, angle = math.sin(middle), -math.cos(middle), after
        anchor = "start" if right else "end"
        if (listed and share > 0.05) or (share > 0.09 and not hole and sheet.chance(0.5)):
            inner = cx + radius * 0.68 * sin, cy + radius * 0.68 * cos + size * 0.35
            figures[0, j] = svg.text(*inner, texts[j], fill="#fff", weight="bold")
        if listed:
            names[j] = sheet.mark(topic.categories[j])
            key += (
                f'<div><span style="display:inline-block;width:.8em;height:.8em;background:{colors[j]}"></span>'
                f" {names[j]}</div>"
            )
            continue
        x, y = cx + radius * 1.18 * sin, cy + radius * 1.18 * cos + size * 0.35
        svg.line(cx + radius * sin, cy + radius * cos, cx + radius * 1.14 * sin, cy + radius * 1.14 * cos, "#888")
        names[j] = svg.text(x, y, topic.categories[j], anchor)
        if (0, j) not in figures:
            offset = svg.wide(topic.categories[j]) + 6 if right else -svg.wide(topic.categories[j]) - 6
            below = sheet.chance(0.5)
            figures[0, j] = svg.text(
                x if below else x + offset,
                y + size * 1.15 if below else y,
                texts[j],
                anchor,
                weight="bold" if sheet.chance(0.4) else "normal",
            )
    if hole:
        svg.circle(cx, cy, radius * 0.58, sheet.paper)
        middle = svg.text(cx, cy + size * 0.5, f"{total:,.0f}", size=size * 1.5, weight="bold")
        sheet.ask("value", ("What number stands in the middle?", "What is the total?", "total"), middle)
    ask_values(sheet, topic, names, figures, {})
    return topic, (
        f'<div style="columns:{sheet.random.choice((1, 2, 3))};margin:4px 0">{key}</div>' if key else "",
        str(svg),
    )


def scatter(sheet: Sheet, k: int) -> tuple[Topic, Drawn]:
    """Points with names over two axes; the names are what can be pointed at."""
    width, height, size = plot_size(sheet)
    topic = topic_for(sheet, sheet.random.randint(6, 26), 1, ordered=False)
    n, svg, colors = len(topic.categories), Svg(sheet, width, height, size), palette(sheet, 4)
    left, y0 = max(svg.wide(tick_text(nice(max(topic.values[0]))[-1], topic)) + 24, 40), 8
    wide, high = width - left - 60, height - 40 - y0
    end = upright_axis(sheet, svg, topic, max(topic.values[0]), left, wide, high, y0)
    across = sheet.pick("GDP per capita", "Age", "Income", "Distance in km", "Years of schooling", "Weight", "Price")
    svg.text(left + wide / 2, height - 4, across, size=size)
    for i in range(6):
        svg.text(
            left + wide * i / 5, y0 + high + size + 3, str(i * sheet.random.choice((10,))), size=size * 0.9, fill="#666"
        )
    names, positions = {}, []
    for j in range(n):
        x, y = left + wide * sheet.random.uniform(0.02, 0.95), y0 + high - high * topic.values[0][j] / end
        positions.append(x)
        svg.circle(x, y, sheet.random.choice((2.5, 3, 4, 7)), colors[j % 4], 'opacity=".75"')
        names[j] = svg.text(x + 6, y + size * 0.35, topic.categories[j], "start", size * 0.95)
        sheet.ask(
            "place",
            (*POINT, "Which point is {L}?", "Where is the dot of {L}?"),
            names[j],
            L=topic.categories[j],
            l=topic.categories[j].lower(),
        )
    best = max(range(n), key=topic.values[0].__getitem__)
    sheet.ask("extreme", HIGHEST, names[best], m=topic.measure, k=topic.kind)
    far = max(range(n), key=positions.__getitem__)
    sheet.ask(
        "extreme",
        ("Which {k} has the highest {a}?", "Which {k} is furthest to the right?"),
        names[far],
        k=topic.kind,
        a=across.lower(),
    )
    return topic, ("", str(svg))


def chart(sheet: Sheet, draw: Callable[[Sheet, int], tuple[Topic, Drawn]], frame: str, name: str) -> str:
    """A drawing in a frame."""
    sheet.layout, sheet.cropped = name, True
    sheet.manner = sheet.random.choices(("sans", "serif", "mono"), (12, 2, 0.5))[0]
    sheet.padding = sheet.random.randint(8, 28)
    if sheet.chance(0.7) and sheet.height > sheet.width:
        sheet.width, sheet.height = sheet.height, sheet.width
    if sheet.chance(0.15):
        sheet.paper = (
            f"hsl({sheet.random.randrange(360)},{sheet.random.randint(5, 45)}%,{sheet.random.randint(90, 98)}%)"
        )
    topic, (legend, figure) = draw(sheet, sheet.random.choice((1, 1, 1, 1, 2, 2, 3)))
    return (FRAMES | HELD_FRAMES)[frame](sheet, topic, legend, figure)


def _layouts(
    kinds: Mapping[str, Callable[[Sheet, int], tuple[Topic, Drawn]]], frames: Iterable[str]
) -> dict[str, Callable[[Sheet], str]]:
    return {
        f"{kind}-{frame}": partial(chart, draw=draw, frame=frame, name=f"{kind}-{frame}")
        for kind, draw in kinds.items()
        for frame in frames
    }


BARS = _layouts({"columns": columns, "bars": bars}, FRAMES)
HELD_BARS = _layouts({"columns": columns, "bars": bars, "lollipops": lollipops}, HELD_FRAMES)
STACKS, HELD_STACKS = _layouts({"stacked": stacked}, FRAMES), _layouts({"stacked": stacked}, HELD_FRAMES)
LINES, HELD_LINES = _layouts({"curves": curves}, FRAMES), _layouts({"curves": curves}, HELD_FRAMES)
PIES, HELD_PIES = _layouts({"pie": pie}, FRAMES), _layouts({"donut": partial(pie, hole=True)}, HELD_FRAMES)
SCATTERS, HELD_SCATTERS = _layouts({"scatter": scatter}, FRAMES), _layouts({"scatter": scatter}, HELD_FRAMES)
