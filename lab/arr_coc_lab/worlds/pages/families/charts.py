"""Bars, lines, pies and scatters, each in its frame."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import product

from markupsafe import Markup

from ..sheet import Layout, Mark, PageFamily, PageSheet, variants
from .plots import Names, Plot, Topic, nice, palette, plot_size, tick_text, topic_for

CURRENT, WHITE = "currentColor", "#fff"


def columns(sheet: PageSheet, k: int) -> Plot:
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


def bars(sheet: PageSheet, k: int) -> Plot:
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


def lollipops(sheet: PageSheet, k: int) -> Plot:
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
    return plot


def shares_of(sheet: PageSheet, topic: Topic) -> Topic:
    """The topic with each category's series as shares of a hundred."""
    sums = [sum(row[j] for row in topic.values) for j in range(len(topic.categories))]
    values = [[value / total * 100 for value, total in zip(row, sums, strict=True)] for row in topic.values]
    form = sheet.pick("{:.0f}", "{:.0f}%", "{:.1f}%", "{:.0f}")
    return topic._replace(values=values, texts=[[form.format(value) for value in row] for row in values])


def stacked(sheet: PageSheet, k: int) -> Plot:
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


def curves(sheet: PageSheet, k: int) -> Plot:
    """Lines or areas over time: figures at every point, at the ends, or none; names at the ends or in a legend."""
    width, height, size = plot_size(sheet)
    k = sheet.pick(1, 1, 2, 3, 4, 5)
    topic = topic_for(sheet, sheet.between(5, max(6, int(min(30, width / (size * 2.5))))), k, ordered=True)
    n, plot, colors = len(topic.categories), Plot(sheet, topic, width, height, size), palette(sheet, k)
    svg, direct = plot.svg, k > 1 and sheet.chance(0.5)
    right = max(map(svg.wide, topic.series)) + 14 if direct else 24
    plot.margins(plot.tick_room(22, 36), size + 8, right, plot.room_below(width - 60))
    end = plot.upright_axis(topic.highest * 1.05)
    show = "all" if k == 1 or sheet.chance(0.35) else sheet.pick("ends", "none", "ends")
    dots, area, thick = sheet.chance(0.6), k == 1 and sheet.chance(0.25), sheet.pick(1, 1.5, 2, 3)
    marks: Names = {}
    for i, color in enumerate(colors):
        points = [
            (plot.left + plot.wide / n * (j + 0.5), plot.base - plot.high * value / end)
            for j, value in enumerate(topic.values[i])
        ]
        if area:
            ground = [(points[0][0], plot.base), *points, (points[-1][0], plot.base)]
            svg.path(ground, "none", 0, color, 'opacity=".35"')
        svg.path(points, color, thick, extra='stroke-dasharray="5 3"' if i and sheet.chance(0.2) else "")
        for j, (x, y) in enumerate(points):
            if dots:
                svg.circle(x, y, thick + 1, color)
            if show == "all" or (show == "ends" and j in (0, n - 1)):
                lift, fill = -6 if i % 2 == 0 else size + 5, color if k > 1 else "currentColor"
                plot.figures[i, j] = svg.text(x, y + lift, topic.texts[i][j], size=size * 0.9, fill=fill)
        if direct:
            x, y = points[-1]
            marks[i] = svg.text(x + 8, y + size * 0.35, topic.series[i], "start", fill=color)
    plot.name_columns()
    if not direct:
        marks = plot.add_legend(colors)
    for i, mark in marks.items():
        sheet.ask("place", "chart.line", mark, L=topic.series[i])
    plot.ask_values(marks)
    return plot


def pie(sheet: PageSheet, k: int, hole: bool = False) -> Plot:
    """A pie: names outside with a pointer, or in a legend; shares inside or with the names."""
    width, height, size = plot_size(sheet)
    topic = topic_for(sheet, sheet.between(2, 9), 1, ordered=False, percent=True)
    total, form = sum(topic.values[0]), sheet.pick("{:.0f}%", "{:.1f}%", "{:.2f}%", "{:.0f}")
    shares = [value / total for value in topic.values[0]]
    topic = topic._replace(texts=[[form.format(share * 100) for share in shares]], series=["share"])
    plot, colors = Plot(sheet, topic, width, height, size), palette(sheet, len(shares))
    svg, radius, cx, cy = plot.svg, min(width * 0.26, height * 0.36), width / 2, height / 2
    listed = sheet.chance(0.3) and not hole
    angle, key = sheet.random.uniform(0, 6.28), []
    for j, (share, name, text) in enumerate(zip(shares, topic.categories, topic.texts[0], strict=True)):
        svg.wedge(cx, cy, radius, angle, share, colors[j])
        after = angle + share * math.tau
        middle = (angle + after) / 2
        sin, cos, angle = math.sin(middle), -math.cos(middle), after
        anchor, side = ("start", 1) if sin > 0 else ("end", -1)
        if (listed and share > 0.05) or (share > 0.09 and not hole and sheet.chance(0.5)):
            place = cx + radius * 0.68 * sin, cy + radius * 0.68 * cos + size * 0.35
            plot.figures[0, j] = svg.text(*place, text, fill="#fff", weight="bold")
        if listed:
            plot.names[j] = sheet.mark(name)
            key.append((colors[j], plot.names[j]))
            continue
        x, y = cx + radius * 1.18 * sin, cy + radius * 1.18 * cos + size * 0.35
        svg.line(cx + radius * sin, cy + radius * cos, cx + radius * 1.14 * sin, cy + radius * 1.14 * cos, "#888")
        plot.names[j] = svg.text(x, y, name, anchor)
        if (0, j) not in plot.figures:
            place = (x, y + size * 1.15) if sheet.chance(0.5) else (x + side * (svg.wide(name) + 6), y)
            plot.figures[0, j] = svg.text(*place, text, anchor, weight="bold" if sheet.chance(0.4) else "normal")
    if hole:
        svg.circle(cx, cy, radius * 0.58, sheet.paper)
        amount = svg.text(cx, cy + size * 0.5, f"{total:,.0f}", size=size * 1.5, weight="bold")
        sheet.ask("value", "chart.total", amount)
    if key:
        plot.legend = sheet.render("charts/key", key=key, columns=sheet.pick(1, 2, 3))
    plot.ask_values({})
    return plot


def scatter(sheet: PageSheet, k: int) -> Plot:
    """Points with names over two axes; the names are what can be pointed at."""
    width, height, size = plot_size(sheet)
    topic = topic_for(sheet, sheet.between(6, 26), 1, ordered=False)
    plot, colors = Plot(sheet, topic, width, height, size), palette(sheet, 4)
    svg, values = plot.svg, topic.values[0]
    plot.margins(plot.tick_room(24, 40), 8, 60, 40)
    end = plot.upright_axis(topic.highest)
    across = sheet.word("chart.across")
    svg.text(plot.left + plot.wide / 2, height - 4, across, size=size)
    for i in range(6):
        x = plot.left + plot.wide * i / 5
        svg.text(x, plot.base + size + 3, str(i * sheet.pick(10)), size=size * 0.9, fill="#666")
    positions = []
    for j, name in enumerate(topic.categories):
        x, y = plot.left + plot.wide * sheet.random.uniform(0.02, 0.95), plot.base - plot.high * values[j] / end
        positions.append(x)
        svg.circle(x, y, sheet.pick(2.5, 3, 4, 7), colors[j % 4], 'opacity=".75"')
        plot.names[j] = svg.text(x + 6, y + size * 0.35, name, "start", size * 0.95)
        sheet.ask("place", "chart.point", plot.names[j], L=name, l=name.lower())
    best = max(plot.names, key=values.__getitem__)
    sheet.ask("extreme", "highest", plot.names[best], m=topic.measure, k=topic.kind)
    far = max(plot.names, key=positions.__getitem__)
    sheet.ask("extreme", "chart.farthest", plot.names[far], k=topic.kind, a=across.lower())
    return plot


# ---- Frames: what stands around a chart; templates/charts ------------------------------------------------------------


def chart_title(sheet: PageSheet, topic: Topic, style: str = "") -> Mark:
    return sheet.titled(topic.title, style, "chart_title")


def source(sheet: PageSheet, style: str = "font-size:.8em;color:#666") -> Markup:
    lead = sheet.pick("Source:", "Source:", "Data source:", "SOURCE:", "Quelle:")
    name = sheet.asked("source", "source", sheet.fake.company(), style)
    return sheet.render("charts/source", lead=lead, name=name, style=style, text=sheet.sentence(2, 8))


def bare(sheet: PageSheet, topic: Topic) -> None:
    pass


def titled(sheet: PageSheet, topic: Topic) -> None:
    look = f"{sheet.larger(1.1, 1.7, 2)};font-weight:{sheet.pick('bold', 'normal', '600')}"
    sheet.put(title=chart_title(sheet, topic, look), side=sheet.pick("left", "center"))
    sheet.put(source=source(sheet) if sheet.chance(0.6) else "")


def portal(sheet: PageSheet, topic: Topic) -> None:
    sheet.put(blue=sheet.pick("#0666c4", "#1a73e8", "#0a58a3"), signs=list("★▲⚙<❞▣"[: sheet.between(3, 6)]))
    sheet.put(owner=sheet.mark(f"© {sheet.fake.last_name()} {sheet.between(2015, 2024)}"))
    more = sheet.pick("Additional Information", "More details", "Show metadata")
    show = sheet.pick("Show source", "Sources", "View source data")
    sheet.put(more=sheet.asked("click", "click", more, L=more), show=sheet.asked("click", "click", show, L=show))


def atlas(sheet: PageSheet, topic: Topic) -> None:
    title = chart_title(sheet, topic, f"font-family:'{sheet.face('serif')}';font-size:1.6em;color:#444")
    sheet.put(title=title, text=sheet.sentence(6, 16), source=source(sheet))


def survey(sheet: PageSheet, topic: Topic) -> None:
    institute = sheet.asked("source", "source", sheet.fake.company().upper())
    sheet.put(title=chart_title(sheet, topic), institute=institute)
    sheet.put(text=sheet.sentence(5, 12), note=sheet.sentence(6, 14))


def workbook(sheet: PageSheet, topic: Topic) -> None:
    title = chart_title(sheet, topic, f"font-size:1.35em;color:{sheet.pick('#595959', '#000')}")
    sheet.put(title=title, legend_first=sheet.chance(0.4))


def article(sheet: PageSheet, topic: Topic) -> None:
    number = f"Figure {sheet.between(1, 19)}{sheet.pick('.', ':', ' -')}"
    sheet.put(title=chart_title(sheet, topic), number=number, text=sheet.paragraph(sheet.between(1, 3)))


def card(sheet: PageSheet, topic: Topic) -> None:
    sheet.put(title=chart_title(sheet, topic), text=sheet.sentence(3, 7))
    sheet.put(source=source(sheet, "font-size:.75em;color:#999;text-align:right"))


def newspaper(sheet: PageSheet, topic: Topic) -> None:
    sheet.put(title=chart_title(sheet, topic), source=source(sheet))


Draw = Callable[[PageSheet, int], Plot]
Frame = Callable[[PageSheet, Topic], None]
FRAMES: tuple[Frame, ...] = (bare, titled, portal, atlas, survey, workbook, article)
HELD_FRAMES: tuple[Frame, ...] = (card, newspaper)


def chart(sheet: PageSheet, draw: Draw, frame: Frame) -> None:
    """A chart in a frame."""
    sheet.cropped = True
    sheet.set_manner(sans=12, serif=2, mono=0.5)
    sheet.padding = sheet.between(8, 28)
    if sheet.chance(0.7) and sheet.height > sheet.width:
        sheet.turn()
    if sheet.chance(0.15):
        sheet.paper = f"hsl({sheet.random.randrange(360)},{sheet.between(5, 45)}%,{sheet.between(90, 98)}%)"
    plot = draw(sheet, sheet.pick(1, 1, 1, 1, 2, 2, 3))
    sheet.put(topic=plot.topic, legend=plot.legend, figure=plot.figure)
    frame(sheet, plot.topic)


def framed(frames: tuple[Frame, ...], **kinds: Draw) -> dict[str, Layout]:
    """Every kind of chart in every frame."""
    made: dict[str, Layout] = {}
    for frame, (kind, draw) in product(frames, kinds.items()):
        name = getattr(frame, "__name__", "")
        made |= variants(partial(chart, draw=draw, frame=frame), f"charts/{name}", f"{kind}-{name}")
    return made


FAMILIES = {
    "bars": PageFamily(
        16,
        framed(FRAMES, columns=columns, bars=bars),
        framed(HELD_FRAMES, columns=columns, bars=bars, lollipops=lollipops),
    ),
    "stacks": PageFamily(5, framed(FRAMES, stacked=stacked), framed(HELD_FRAMES, stacked=stacked)),
    "lines": PageFamily(6, framed(FRAMES, curves=curves), framed(HELD_FRAMES, curves=curves)),
    "pies": PageFamily(3, framed(FRAMES, pie=pie), framed(HELD_FRAMES, donut=partial(pie, hole=True))),
    "scatters": PageFamily(2, framed(FRAMES, scatter=scatter), framed(HELD_FRAMES, scatter=scatter)),
}
