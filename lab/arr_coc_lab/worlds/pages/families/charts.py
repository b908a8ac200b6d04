"""Lines, pies and scatters, and every chart in its frame: one template each in `templates/charts`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from markupsafe import Markup

from ..sheet import Layout, Mark, PageSheet, named
from .axes import Drawing, Names, Plot, palette, plot_size
from .bars import bars, columns, lollipops, stacked
from .topics import Topic, topic_for

Draw = Callable[[PageSheet, int], Drawing]


def curves(sheet: PageSheet, k: int) -> Drawing:
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
    legend = None
    if k > 1 and not direct:
        legend, marks = plot.legend(colors)
    for i, mark in marks.items():
        sheet.ask("place", "chart.line", mark, L=topic.series[i])
    plot.ask_values(marks)
    return plot.drawing(legend)


def pie(sheet: PageSheet, k: int, hole: bool = False) -> Drawing:
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
    plot.ask_values({})
    return plot.drawing(sheet.render("charts/key", key=key, columns=sheet.pick(1, 2, 3)) if key else None)


def scatter(sheet: PageSheet, k: int) -> Drawing:
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
    return plot.drawing()


# Frames: (sheet, topic) → the context of a template --------------------------------------------------------------


def _title(sheet: PageSheet, topic: Topic, style: str = "") -> Mark:
    title = sheet.mark(topic.title, style)
    sheet.ask_title(title, "chart_title")
    return title


def _source(sheet: PageSheet, style: str = "font-size:.8em;color:#666") -> Markup:
    lead = sheet.pick("Source:", "Source:", "Data source:", "SOURCE:", "Quelle:")
    name = sheet.mark(sheet.fake.company(), style)
    sheet.ask("source", "source", name)
    return sheet.render("charts/source", lead=lead, name=name, style=style, text=sheet.sentence(2, 8))


def bare(sheet: PageSheet, topic: Topic) -> dict[str, object]:
    return {}


def titled(sheet: PageSheet, topic: Topic) -> dict[str, object]:
    size, weight = sheet.larger(1.1, 1.7, 2), sheet.pick("bold", "normal", "600")
    title, side = _title(sheet, topic, f"{size};font-weight:{weight}"), sheet.pick("left", "center")
    return {"title": title, "side": side, "source": _source(sheet) if sheet.chance(0.6) else ""}


def portal(sheet: PageSheet, topic: Topic) -> dict[str, object]:
    blue = sheet.pick("#0666c4", "#1a73e8", "#0a58a3")
    signs = [Markup(sign) for sign in "★▲⚙<❞▣"[: sheet.between(3, 6)]]
    more = sheet.mark(sheet.pick("Additional Information", "More details", "Show metadata"))
    show = sheet.mark(sheet.pick("Show source", "Sources", "View source data"))
    for mark in (more, show):
        sheet.ask_click(mark)
    owner = sheet.mark(f"© {sheet.fake.last_name()} {sheet.between(2015, 2024)}")
    return {"blue": blue, "signs": signs, "more": more, "show": show, "owner": owner}


def atlas(sheet: PageSheet, topic: Topic) -> dict[str, object]:
    title = _title(sheet, topic, f"font-family:'{sheet.face('serif')}';font-size:1.6em;color:#444")
    return {"title": title, "text": sheet.sentence(6, 16), "source": _source(sheet)}


def survey(sheet: PageSheet, topic: Topic) -> dict[str, object]:
    title, institute = _title(sheet, topic), sheet.mark(sheet.fake.company().upper())
    sheet.ask("source", "source", institute)
    return {"title": title, "institute": institute, "text": sheet.sentence(5, 12), "note": sheet.sentence(6, 14)}


def workbook(sheet: PageSheet, topic: Topic) -> dict[str, object]:
    title = _title(sheet, topic, f"font-size:1.35em;color:{sheet.pick('#595959', '#000')}")
    return {"title": title, "legend_first": sheet.chance(0.4)}


def article(sheet: PageSheet, topic: Topic) -> dict[str, object]:
    title = _title(sheet, topic)
    number = f"Figure {sheet.between(1, 19)}{sheet.pick('.', ':', ' -')}"
    return {"title": title, "number": number, "text": sheet.paragraph(sheet.between(1, 3))}


def card(sheet: PageSheet, topic: Topic) -> dict[str, object]:
    title, text = _title(sheet, topic), sheet.sentence(3, 7)
    return {"title": title, "text": text, "source": _source(sheet, "font-size:.75em;color:#999;text-align:right")}


def newspaper(sheet: PageSheet, topic: Topic) -> dict[str, object]:
    return {"title": _title(sheet, topic), "source": _source(sheet)}


FRAMES = {f.__name__: f for f in (bare, titled, portal, atlas, survey, workbook, article)}
HELD_FRAMES = {f.__name__: f for f in (card, newspaper)}


def chart(sheet: PageSheet, draw: Draw, frame: str) -> str:
    """A drawing in a frame."""
    sheet.cropped = True
    sheet.set_manner(sans=12, serif=2, mono=0.5)
    sheet.padding = sheet.between(8, 28)
    if sheet.chance(0.7) and sheet.height > sheet.width:
        sheet.turn()
    if sheet.chance(0.15):
        sheet.paper = f"hsl({sheet.random.randrange(360)},{sheet.between(5, 45)}%,{sheet.between(90, 98)}%)"
    drawing = draw(sheet, sheet.pick(1, 1, 1, 1, 2, 2, 3))
    context = (FRAMES | HELD_FRAMES)[frame](sheet, drawing.topic)
    return sheet.render(f"charts/{frame}", **drawing._asdict(), **context)


def _layouts(kinds: Mapping[str, Draw], frames: Iterable[str]) -> dict[str, Layout]:
    found: dict[str, Layout] = {}
    for kind, draw in kinds.items():
        for frame in frames:
            found |= named(partial(chart, draw=draw, frame=frame), f"{kind}-{frame}")
    return found


BARS = _layouts({"columns": columns, "bars": bars}, FRAMES)
HELD_BARS = _layouts({"columns": columns, "bars": bars, "lollipops": lollipops}, HELD_FRAMES)
STACKS, HELD_STACKS = _layouts({"stacked": stacked}, FRAMES), _layouts({"stacked": stacked}, HELD_FRAMES)
LINES, HELD_LINES = _layouts({"curves": curves}, FRAMES), _layouts({"curves": curves}, HELD_FRAMES)
PIES, HELD_PIES = _layouts({"pie": pie}, FRAMES), _layouts({"donut": partial(pie, hole=True)}, HELD_FRAMES)
SCATTERS, HELD_SCATTERS = _layouts({"scatter": scatter}, FRAMES), _layouts({"scatter": scatter}, HELD_FRAMES)
