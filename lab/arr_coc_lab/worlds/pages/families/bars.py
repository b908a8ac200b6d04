"""Bars: upright, lying, in groups, stacked, and as dots on stems."""

from __future__ import annotations

from ..sheet import PageSheet
from .axes import Drawing, Plot, nice, palette, plot_size, tick_text
from .topics import Topic, topic_for

CURRENT, WHITE = "currentColor", "#fff"


def columns(sheet: PageSheet, k: int) -> Drawing:
    """Upright bars, one to four a group, with their figures above, inside or on the axis only."""
    width, height, size = plot_size(sheet)
    topic = topic_for(sheet, sheet.between(3, max(4, int(min(24, width / (size * 2.6 * k))))), k)
    n, colors, plot = len(topic.categories), palette(sheet, k), Plot(sheet, topic, width, height, size)
    svg = plot.svg
    plot.margins(plot.tick_room(22, 34), size + 8, 6, plot.room_below(width - 40))
    end = plot.upright_axis(topic.highest)
    slot, fill = plot.wide / n, sheet.random.uniform(0.55, 0.9)
    bar, printed, inside = slot * fill / k, sheet.chance(0.88), sheet.chance(0.15)
    bold, radius = sheet.pick("normal", "bold", "normal"), sheet.pick(0, 0, 0, 2)
    for i in range(k):
        for j in range(n):
            tall = plot.high * topic.values[i][j] / end
            x, y = plot.left + slot * (j + (1 - fill) / 2) + bar * i, plot.base - tall
            svg.rect(x, y, bar * 0.96, tall, colors[i], f'rx="{radius}"')
            if not printed:
                continue
            text = topic.texts[i][j]
            tight = svg.wide(text) > bar * (1.25 if k > 1 else 1.5)
            within = inside and tall > size * 1.6 and not tight
            place = x + bar / 2 + (size * 0.35 if tight else 0), y + size + 2 if within else y - 3
            anchor, turn = ("start", -90) if tight else ("middle", 0)
            look = {"fill": WHITE if within else CURRENT, "weight": bold}
            plot.figures[i, j] = svg.text(*place, text, anchor, size * (0.95 if k == 1 else 0.85), turn, **look)
    plot.name_columns()
    return plot.finished(colors)


def lying_axis(plot: Plot, ticks: list[float]) -> None:
    """Grid, ticks and the axis' name for values going to the right."""
    svg, size, topic = plot.svg, plot.size, plot.topic
    for value in ticks:
        x = plot.left + plot.wide * value / ticks[-1]
        svg.line(x, 0, x, plot.high, "#e2e2e2")
        svg.text(x, plot.high + size + 3, tick_text(value, topic), "middle", size * 0.9, fill="#666")
    if plot.sheet.chance(0.6):
        name = (topic.unit or topic.measure)[:50].capitalize()
        svg.text(plot.left + plot.wide / 2, plot.high + size * 2.3 + 4, name, "middle", size * 0.9, fill="#555")


def bars(sheet: PageSheet, k: int) -> Drawing:
    """Lying bars with names at the left and figures at their ends; many rows on a tall page."""
    width, height, size = plot_size(sheet)
    n = sheet.between(3, max(4, int(min(36, height / (size * (1.25 * k + 0.5))))))
    topic = topic_for(sheet, n, k, ordered=sheet.chance(0.15))
    n = len(topic.categories)
    height = min(height, n * (size * 2.1 * k + 14) + 40)
    plot, colors = Plot(sheet, topic, width, height, size), palette(sheet, k)
    svg = plot.svg
    right = max(map(svg.wide, topic.texts[0])) + 8
    plot.margins(max(map(svg.wide, topic.categories)) + 10, 0, right, size * 3 + 4)
    ticks, axis = nice(topic.highest), sheet.chance(0.7)
    if axis:
        lying_axis(plot, ticks)
    left, slot, fill = plot.left, plot.high / n, sheet.random.uniform(0.55, 0.9)
    bar, printed, bold = slot * fill / k, sheet.chance(0.92), sheet.pick("normal", "bold", "normal")
    inside = sheet.chance(0.2)
    for j in range(n):
        if sheet.layout.startswith("bars") and j % 2 and axis:
            svg.rect(left, slot * j, plot.wide, slot, "#00000008")
        plot.names[j] = svg.text(left - 5, slot * (j + 0.5) + size * 0.35, topic.categories[j], "end")
        for i in range(k):
            long, y = plot.wide * topic.values[i][j] / ticks[-1], slot * (j + (1 - fill) / 2) + bar * i
            svg.rect(left, y, long, bar * 0.94, colors[i])
            if not printed:
                continue
            text = topic.texts[i][j]
            within = inside and long > svg.wide(text) + 8 and bar > size
            x, anchor, color = (left + long - 4, "end", WHITE) if within else (left + long + 4, "start", CURRENT)
            letters = min(size, max(7, bar * 1.05))
            place = x, y + bar / 2 + size * 0.35
            plot.figures[i, j] = svg.text(*place, text, anchor, letters, fill=color, weight=bold)
    svg.line(left, 0, left, plot.high, "#333")
    return plot.finished(colors)


def lollipops(sheet: PageSheet, k: int) -> Drawing:
    """Kept aside: a dot at the end of a thin line, the figure inside or beside it."""
    width, height, size = plot_size(sheet)
    topic = topic_for(sheet, sheet.between(4, max(5, int(height / (size * 2.4)))), 1, ordered=False)
    plot, color = Plot(sheet, topic, width, height, size), palette(sheet, 1)[0]
    svg = plot.svg
    left, slot = max(map(svg.wide, topic.categories)) + 12, height / len(topic.categories)
    top = max(topic.values[0]) * 1.2
    for j, name in enumerate(topic.categories):
        y, x = slot * (j + 0.5), left + (width - left - 60) * topic.values[0][j] / top
        plot.names[j] = svg.text(left - 6, y + size * 0.35, name, "end")
        svg.line(left, y, x, y, color, 2)
        svg.circle(x, y, 5, color)
        plot.figures[0, j] = svg.text(x + 9, y + size * 0.35, topic.texts[0][j], "start")
    plot.ask_values({})
    return plot.drawing()


def shares_of(sheet: PageSheet, topic: Topic) -> Topic:
    """The topic with each category's series as shares of a hundred."""
    sums = [sum(row[j] for row in topic.values) for j in range(len(topic.categories))]
    values = [[value / total * 100 for value, total in zip(row, sums, strict=True)] for row in topic.values]
    form = sheet.pick("{:.0f}", "{:.0f}%", "{:.1f}%", "{:.0f}")
    return topic._replace(values=values, texts=[[form.format(value) for value in row] for row in values])


def stacked(sheet: PageSheet, k: int) -> Drawing:
    """Shares on top of one another or side by side, figures inside the pieces, with or without a total."""
    width, height, size = plot_size(sheet)
    lying, whole = sheet.chance(0.6), sheet.chance(0.6)
    k = sheet.between(2, 5)
    n = sheet.between(2, max(3, int(height / (size * 2.6)) if lying else int(width / (size * 4.2))))
    topic = topic_for(sheet, min(n, 22), k, ordered=not lying and sheet.chance(0.6), percent=whole)
    n = len(topic.categories)
    topic = shares_of(sheet, topic) if whole else topic
    highest = 100.0 if whole else max(sum(row[j] for row in topic.values) for j in range(n))
    if lying:
        height = min(height, n * size * 3.4 + 30)
    plot, colors = Plot(sheet, topic, width, height, size), palette(sheet, k)
    svg, end = plot.svg, highest
    if lying:
        plot.margins(max(map(svg.wide, topic.categories)) + 10, 0, 8 if whole else svg.wide("99999"), 0)
    else:
        plot.margins(44, size + 6, 4, plot.room_below(width - 50))
        end = plot.upright_axis(highest)
        plot.name_columns()
    slot = (plot.high if lying else plot.wide) / n
    pale = "hsl" in colors[0] and colors[-1].endswith((",75%)", ",74%)"))
    thick = slot * sheet.random.uniform(0.5, 0.85)
    for j, name in enumerate(topic.categories):
        at, middle = 0.0, slot * (j + 0.5)
        if lying:
            plot.names[j] = svg.text(plot.left - 5, middle + size * 0.35, name, "end")
        for i, text in enumerate(row[j] for row in topic.texts):
            if lying:
                long = plot.wide * topic.values[i][j] / end
                box = plot.left + at, middle - thick / 2, long, thick
                place = plot.left + at + long / 2, middle + size * 0.35
                fits = long > svg.wide(text) and thick > size * 0.9
            else:
                long = plot.high * topic.values[i][j] / end
                box = plot.left + middle - thick / 2, plot.base - at - long, thick, long
                place = plot.left + middle, plot.base - at - long / 2 + size * 0.35
                fits = long > size * 1.1 and thick > svg.wide(text) * 0.95
            svg.rect(*box, colors[i], 'stroke="#fff" stroke-width=".6"')
            if fits:
                dark = i < (k + 1) // 2
                stroke = dark and sheet.chance(0.5)
                look = {"fill": WHITE if dark or not pale else "#222"}
                look["style"] = "paint-order:stroke;stroke:#0005;stroke-width:1.5px" if stroke else ""
                plot.figures[i, j] = svg.text(*place, text, "middle", size * 0.95, 0, **look)
            at += long
    return plot.finished(colors)
