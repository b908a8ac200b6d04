"""Bars: upright, lying, in groups, stacked, and as dots on stems."""

from __future__ import annotations

from ..sheet import Sheet
from .axes import ask_values, category_names, legend_for, plot_size, room_below, upright_axis
from .figures import Svg, Topic, nice, palette, tick_text, topic_for

Drawn = tuple[str, str]


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
                    style=(
                        "paint-order:stroke;stroke:#0005;stroke-width:1.5px"
                        if i < (k + 1) // 2 and sheet.chance(0.5)
                        else ""
                    ),
                )
            at += long
    legend, marks = legend_for(sheet, topic, colors)
    ask_values(sheet, topic, names, figures, marks)
    return topic, (legend, str(svg))
