"""Charts with their figures printed or left to the axis: bars, stacks, lines, pies, scatters."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from ..sheet import Mark, Sheet
from ..wording import BOTTOM, HIGHEST, LOWEST, PEAK, POINT, VALUE, VALUE_OF, WHERE_VALUE
from .figures import FRAMES, HELD_FRAMES, Svg, Topic, nice, palette, tick_text, topic_for

Drawn = tuple[str, str]


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
        if not several or i in legend:
            sheet.ask("value", VALUE_OF if several else VALUE, figure, context, **slots)
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
        f'<span style="white-space:nowrap;margin-right:12px"><span style="display:inline-block;width:.8em;height:.8em;border-radius:{round_};background:{colors[i]};margin-right:4px"></span>{mark}</span>'
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


def columns(sheet: Sheet, k: int) -> tuple[Topic, Drawn]:
    """Upright bars, one to four a group, with their figures above, inside or on the axis only."""
    width, height, size = plot_size(sheet)
    n = sheet.random.randint(3, max(4, int(min(24, width / (size * 2.6 * k)))))
    topic = topic_for(sheet, n, k)
    svg, colors, n = Svg(sheet, width, height, size), palette(sheet, k), len(topic.categories)
    left, below, y0 = (
        max(svg.wide(tick_text(nice(max(map(max, topic.values)))[-1], topic)) + 22, 34),
        room_below(svg, topic, width - 40),
        size + 8,
    )
    wide, high = width - left - 6, height - below - y0
    end = upright_axis(sheet, svg, topic, max(map(max, topic.values)), left, wide, high, y0)
    slot, fill = wide / n, sheet.random.uniform(0.55, 0.9)
    bar, printed, inside = slot * fill / k, sheet.chance(0.88), sheet.chance(0.15)
    bold, round_ = sheet.pick("normal", "bold", "normal"), sheet.random.choice((0, 0, 0, 2))
    figures = {}
    for i in range(k):
        for j in range(n):
            tall = high * topic.values[i][j] / end
            x, y = left + slot * (j + (1 - fill) / 2) + bar * i, y0 + high - tall
            svg.rect(x, y, bar * 0.96, tall, colors[i], f'rx="{round_}"')
            text = topic.texts[i][j]
            if printed:
                tight = svg.wide(text) > bar * (1.25 if k > 1 else 1.5)
                within = inside and tall > size * 1.6 and not tight
                figures[i, j] = svg.text(
                    x + bar / 2 + (size * 0.35 if tight else 0),
                    y + size + 2 if within else y - 3,
                    text,
                    "start" if tight else "middle",
                    size * (0.95 if k == 1 else 0.85),
                    "#fff" if within else "currentColor",
                    bold,
                    -90 if tight else 0,
                )
    names = category_names(sheet, svg, topic, left, wide, y0 + high)
    legend, marks = legend_for(sheet, topic, colors)
    ask_values(sheet, topic, names, figures, marks)
    return topic, (legend, str(svg))


def bars(sheet: Sheet, k: int) -> tuple[Topic, Drawn]:
    """Lying bars with names at the left and figures at their ends; many rows on a tall page."""
    width, height, size = plot_size(sheet)
    n = sheet.random.randint(3, max(4, int(min(36, height / (size * (1.25 * k + 0.5))))))
    topic = topic_for(sheet, n, k, ordered=sheet.chance(0.15))
    n = len(topic.categories)
    height = min(height, n * (size * 2.1 * k + 14) + 40)
    svg, colors = Svg(sheet, width, height, size), palette(sheet, k)
    left, right = max(map(svg.wide, topic.categories)) + 10, max(svg.wide(text) for text in topic.texts[0]) + 8
    below = size * 3 + 4
    wide, high = width - left - right, height - below
    ticks, axis = nice(max(map(max, topic.values))), sheet.chance(0.7)
    if axis:
        for value in ticks:
            x = left + wide * value / ticks[-1]
            svg.line(x, 0, x, high, "#e2e2e2")
            svg.text(x, high + size + 3, tick_text(value, topic), "middle", size * 0.9, "#666")
        if sheet.chance(0.6):
            svg.text(
                left + wide / 2,
                high + size * 2.3 + 4,
                (topic.unit or topic.measure)[:50].capitalize(),
                "middle",
                size * 0.9,
                "#555",
            )
    slot, fill = high / n, sheet.random.uniform(0.55, 0.9)
    bar, printed, bold = slot * fill / k, sheet.chance(0.92), sheet.pick("normal", "bold", "normal")
    inside = sheet.chance(0.2)
    names, figures = {}, {}
    for j in range(n):
        if sheet.layout.startswith("bars") and j % 2 and axis:
            svg.rect(left, slot * j, wide, slot, "#00000008")
        names[j] = svg.text(left - 5, slot * (j + 0.5) + size * 0.35, topic.categories[j], "end")
        for i in range(k):
            long, y = wide * topic.values[i][j] / ticks[-1], slot * (j + (1 - fill) / 2) + bar * i
            svg.rect(left, y, long, bar * 0.94, colors[i])
            if printed:
                within = inside and long > svg.wide(topic.texts[i][j]) + 8 and bar > size
                figures[i, j] = svg.text(
                    left + long - 4 if within else left + long + 4,
                    y + bar / 2 + size * 0.35,
                    topic.texts[i][j],
                    "end" if within else "start",
                    min(size, max(7, bar * 1.05)),
                    "#fff" if within else "currentColor",
                    bold,
                )
    svg.line(left, 0, left, high, "#333")
    legend, marks = legend_for(sheet, topic, colors)
    ask_values(sheet, topic, names, figures, marks)
    return topic, (legend, str(svg))


def lollipops(sheet: Sheet, k: int) -> tuple[Topic, Drawn]:
    """Kept aside: a dot at the end of a thin line, the figure inside or beside it."""
    width, height, size = plot_size(sheet)
    topic = topic_for(sheet, sheet.random.randint(4, max(5, int(height / (size * 2.4)))), 1, ordered=False)
    n, svg, color = len(topic.categories), Svg(sheet, width, height, size), palette(sheet, 1)[0]
    left, slot = max(map(svg.wide, topic.categories)) + 12, height / len(topic.categories)
    top = max(topic.values[0]) * 1.2
    names, figures = {}, {}
    for j in range(n):
        y, x = slot * (j + 0.5), left + (width - left - 60) * topic.values[0][j] / top
        names[j] = svg.text(left - 6, y + size * 0.35, topic.categories[j], "end")
        svg.line(left, y, x, y, color, 2)
        svg.circle(x, y, 5, color)
        figures[0, j] = svg.text(x + 9, y + size * 0.35, topic.texts[0][j], "start")
    ask_values(sheet, topic, names, figures, {})
    return topic, ("", str(svg))


def stacked(sheet: Sheet, k: int) -> tuple[Topic, Drawn]:
    """Shares on top of one another or side by side, figures inside the pieces, with or without a total."""
    width, height, size = plot_size(sheet)
    lying, whole = sheet.chance(0.6), sheet.chance(0.6)
    k = sheet.random.randint(2, 5)
    n = sheet.random.randint(2, max(3, int(height / (size * 2.6)) if lying else int(width / (size * 4.2))))
    topic = topic_for(sheet, min(n, 22), k, ordered=not lying and sheet.chance(0.6), percent=whole)
    n = len(topic.categories)
    sums = [sum(row[j] for row in topic.values) for j in range(n)]
    values, texts = topic.values, topic.texts
    if whole:
        values = [[row[j] / sums[j] * 100 for j in range(n)] for row in topic.values]
        form = sheet.pick("{:.0f}", "{:.0f}%", "{:.1f}%", "{:.0f}")
        texts = [[form.format(value) for value in row] for row in values]
        sums = [100.0] * n
    topic = topic._replace(values=values, texts=texts)
    if lying:
        height = min(height, n * size * 3.4 + 30)
    svg, colors = Svg(sheet, width, height, size), palette(sheet, k)
    names, figures = {}, {}
    if lying:
        left = max(map(svg.wide, topic.categories)) + 10
        slot, wide = height / n, width - left - (svg.wide("99999") if not whole else 8)
    else:
        left, below, y0 = 44, room_below(svg, topic, width - 50), size + 6
        wide, high = width - left - 4, height - below - y0
        end = upright_axis(sheet, svg, topic, max(sums), left, wide, high, y0)
        slot = wide / n
        names = category_names(sheet, svg, topic, left, wide, y0 + high)
    pale = "hsl" in colors[0] and colors[-1].endswith((",75%)", ",74%)"))
    thick = slot * sheet.random.uniform(0.5, 0.85)
    for j in range(n):
        at = 0.0
        if lying:
            names[j] = svg.text(left - 5, slot * (j + 0.5) + size * 0.35, topic.categories[j], "end")
        for i in range(k):
            if lying:
                long = wide * values[i][j] / max(sums)
                svg.rect(
                    left + at, slot * (j + 0.5) - thick / 2, long, thick, colors[i], 'stroke="#fff" stroke-width=".6"'
                )
                x, y, fits = (
                    left + at + long / 2,
                    slot * (j + 0.5) + size * 0.35,
                    long > svg.wide(texts[i][j]) and thick > size * 0.9,
                )
            else:
                long = high * values[i][j] / end
                svg.rect(
                    left + slot * (j + 0.5) - thick / 2,
                    y0 + high - at - long,
                    thick,
                    long,
                    colors[i],
                    'stroke="#fff" stroke-width=".6"',
                )
                x, y, fits = (
                    left + slot * (j + 0.5),
                    y0 + high - at - long / 2 + size * 0.35,
                    long > size * 1.1 and thick > svg.wide(texts[i][j]) * 0.95,
                )
            if fits:
                figures[i, j] = svg.text(
                    x,
                    y,
                    texts[i][j],
                    size=size * 0.95,
                    fill="#fff" if i < (k + 1) // 2 or not pale else "#222",
                    style="paint-order:stroke;stroke:#0005;stroke-width:1.5px"
                    if i < (k + 1) // 2 and sheet.chance(0.5)
                    else "",
                )
            at += long
    legend, marks = legend_for(sheet, topic, colors)
    ask_values(sheet, topic, names, figures, marks)
    return topic, (legend, str(svg))


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
            f'<path d="M{cx:.1f} {cy:.1f}L{x0:.1f} {y0:.1f}A{radius:.1f} {radius:.1f} 0 {int(share > 0.5)} 1 {x1:.1f} {y1:.1f}Z" fill="{colors[j]}" stroke="#fff"/>'
        )
        middle, right = (angle + after) / 2, math.sin((angle + after) / 2) > 0
        sin, cos, angle = math.sin(middle), -math.cos(middle), after
        anchor = "start" if right else "end"
        if listed or (share > 0.09 and not hole and sheet.chance(0.5)):
            if share > 0.05:
                figures[0, j] = svg.text(
                    cx + radius * 0.68 * sin,
                    cy + radius * 0.68 * cos + size * 0.35,
                    texts[j],
                    fill="#fff",
                    weight="bold",
                )
        if listed:
            names[j] = sheet.mark(topic.categories[j])
            key += f'<div><span style="display:inline-block;width:.8em;height:.8em;background:{colors[j]}"></span> {names[j]}</div>'
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
            POINT + ("Which point is {L}?", "Where is the dot of {L}?"),
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
    kinds: dict[str, Callable[[Sheet, int], tuple[Topic, Drawn]]], frames: dict[str, object]
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
