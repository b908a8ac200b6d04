"""Charts: bars and lines with their figures, axes and legends, about statistics that could be true."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from markupsafe import Markup

from ...words import vocabulary
from ..sheet import Layout, Mark, PageFamily, PageSheet, variants, wordings

KINDS = {"person": "name", "state": "city"}  # what a kind of category is called among values
Names = dict[int, Mark]  # by category or series


class Topic(NamedTuple):
    """title; measure and kind as used in questions; categories, series; values[series][category] and their texts."""

    title: str
    measure: str
    unit: str
    kind: str
    categories: list[str]
    series: list[str]
    values: list[list[float]]
    texts: list[list[str]]

    @property
    def highest(self) -> float:
        return max(map(max, self.values))


def categories_for(sheet: PageSheet, n: int, ordered: bool) -> tuple[str, list[str]]:
    """(kind, names): years, quarters or months; or countries, companies, cities, people, goods, groups."""
    start = sheet.between(1950, 2015)
    if ordered:
        quarters = [f"Q{i % 4 + 1} '{(start + i // 4) % 100:02d}" for i in range(n)]
        years, months = [str(start + i) for i in range(n)], list(vocabulary("chart.months")[:n])
        return sheet.pick(*(("year", years),) * 4, ("quarter", quarters), ("month", months))
    kind = sheet.word("chart.kinds")
    if kind in ("product", "group"):
        return kind, sheet.some("goods" if kind == "product" else "groups", n)
    return kind, sheet.distinct(lambda: sheet.value(KINDS.get(kind, kind))[:24].rstrip(" ,(-"), n)


def values_for(sheet: PageSheet, n: int, ordered: bool) -> list[float]:
    """n values in 0.03–1: a walk where order means time, otherwise a long tail or even."""
    if not ordered:
        power = sheet.pick(0.5, 1, 1, 2, 3)
        return [0.03 + 0.97 * sheet.random.random() ** power for _ in range(n)]
    value, walk = 0.0, []
    for _ in range(n):
        value += sheet.random.gauss(0.01, 0.07)
        walk.append(value)
    low, high, floor = min(walk), max(walk), sheet.random.uniform(0.05, 0.7)
    return [floor + (1 - floor) * (value - low) / max(high - low, 1e-6) for value in walk]


def topic_for(sheet: PageSheet, n: int, k: int, ordered: bool) -> Topic:
    """A statistic that could be true: n categories, k series."""
    kind, categories = categories_for(sheet, n, ordered)
    percent, scale = sheet.chance(0.3), sheet.pick(10, 50, 100, 1000, 5000, 90000, 2e6)
    form = "{:,.0f}" if scale > 900 else sheet.pick("{:,.1f}", "{:,.2f}", "{:,.0f}", "${:,.2f}", "{:,.1f}k")
    unit, comma = sheet.word("chart.units"), sheet.pick(",", " ", ",", "")
    if percent:
        scale, unit, form = 100, "percent", sheet.pick("{:.0f}", "{:.0f}%", "{:.1f}%", "{:.1f}")
    slots = {name: sheet.word(f"{name}s") for name in ("noun", "good", "group", "opinion")}
    measure = sheet.word("chart.shares" if percent else "chart.measures").format(**slots)
    place = sheet.pick("worldwide", "in Europe", f"in {sheet.word('countries')}", f"in {sheet.city()}", "")
    span = f" from {categories[0]} to {categories[-1]}" if kind == "year" else sheet.pick("", f", by {kind}")
    title = f"{measure[0].upper()}{measure[1:]} {place}{span}".replace("  ", " ").replace(" ,", ",")
    # Neighbours in the list belong together: Men, Women; Coal, Gas, Nuclear.
    at = sheet.random.randrange(len(vocabulary("series")) - k + 1)
    high = scale * sheet.random.uniform(0.35, 1)
    values = [[value * high for value in values_for(sheet, len(categories), ordered)] for _ in range(k)]
    texts = [[form.format(value).replace(",", comma) for value in row] for row in values]
    title = f"{title} ({unit})" if unit and sheet.chance(0.5) else title
    return Topic(title, measure, unit, kind, categories, list(vocabulary("series")[at : at + k]), values, texts)


# ---- Drawings --------------------------------------------------------------------------------------------------------


def palette(sheet: PageSheet, n: int) -> list[str]:
    """n colours: a fixed set, or hues that lie apart."""
    known, start = vocabulary("chart.palette"), sheet.random.randrange(360)
    if sheet.chance(0.4):
        return [known[i % len(known)] for i in range(n)]
    return [f"hsl({(start + 47 * i) % 360},{sheet.between(40, 80)}%,{sheet.between(38, 62)}%)" for i in range(n)]


def ticks_to(top: float) -> list[float]:
    """Axis ticks from 0 to just above `top`."""
    step = 10 ** math.floor(math.log10(top / 4))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if top / (step * factor) <= 6)
    return [step * i for i in range(math.ceil(top / step) + 1)]


def tick_text(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}".rstrip("0")


class Plot:
    """A topic as SVG whose texts are marks. left, top, wide, high: the part of it that the values take."""

    def __init__(self, sheet: PageSheet, n: int, k: int, ordered: bool) -> None:
        self.sheet, self.topic, self.colors = sheet, topic_for(sheet, n, k, ordered), palette(sheet, k)
        self.width, self.height, self.size = plot_size(sheet)
        self.left, self.top, self.wide, self.high = 0.0, 0.0, self.width, self.height
        self.parts: list[str] = []
        self.names: Names = {}
        self.figures: dict[tuple[int, int], Mark] = {}  # by series and category
        self.legend = Markup()

    def add(self, tag: str, **look: object) -> None:
        """An element; numbers are rounded, and an underscore in a name stands for a hyphen."""
        shown = ((name.replace("_", "-"), f"{v:.1f}" if isinstance(v, float) else v) for name, v in look.items())
        attributes = " ".join(f'{name}="{value}"' for name, value in shown)
        self.parts.append(f"<{tag} {attributes}/>")

    def text(
        self, x: float, y: float, text: str, anchor: str = "middle", size: float = 0, turn: float = 0, fill: str = ""
    ) -> Mark:
        mark = self.sheet.mark(text)
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(
            f'<text data-t="{mark.key}" x="{x:.1f}" y="{y:.1f}" font-size="{size or self.size:.1f}"'
            f' text-anchor="{anchor}" fill="{fill or "currentColor"}"{turned}>{html.escape(mark.text)}</text>'
        )
        return mark

    def width_of(self, text: str) -> float:
        """A guess of a text's width, on the wide side."""
        return len(text) * 0.57 * self.size

    @property
    def figure(self) -> Markup:
        size = f'width="{self.width:.0f}" height="{self.height:.0f}"'
        return Markup(f'<svg {size} style="overflow:visible">{"".join(self.parts)}</svg>')

    @property
    def base(self) -> float:
        return self.top + self.high

    def margins(self, left: float, top: float, right: float, below: float) -> None:
        self.left, self.top = left, top
        self.wide, self.high = self.width - left - right, self.height - below - top

    def upright_axis(self, right: float) -> float:
        """Margins, grid and ticks for values going up, and names under the columns; returns the axis' end."""
        sheet, size, ticks = self.sheet, self.size, ticks_to(self.topic.highest * 1.05)
        longest, n = max(map(self.width_of, self.topic.categories)), len(self.topic.categories)
        room = self.width - 60 - right
        turn = 0 if longest < room / n * 0.98 else sheet.pick(-45, -60, -90)
        below = min(longest, 150) * 0.85 + size + 10 if turn else size * 2 + 6
        self.margins(max(self.width_of(tick_text(ticks[-1])) + 12, 36), size + 8, right, below)
        for value in ticks:
            y = self.base - self.high * value / ticks[-1]
            self.add("line", x1=self.left, y1=y, x2=self.left + self.wide, y2=y, stroke="#ddd" if value else "#333")
            self.text(self.left - 5, y + size * 0.35, tick_text(value), "end", size * 0.95, fill="#666")
        slot = self.wide / n
        every = math.ceil(size * 1.1 / slot) if turn else 1
        for j in range(0, n, every):
            x = self.left + slot * (j + 0.5) + (size * 0.35 if turn else 0)
            anchor = "end" if turn else "middle"
            self.names[j] = self.text(x, self.base + size + 4, self.topic.categories[j], anchor, turn=turn)
        return ticks[-1]

    def add_legend(self) -> Names:
        """A legend in a row; none for one series."""
        if len(self.topic.series) < 2:
            return {}
        marks = self.sheet.mark_all(*self.topic.series)
        radius, side = self.sheet.pick("0", "50%", "2px"), self.sheet.pick("left", "center", "center")
        keys = list(zip(marks, self.colors, strict=True))
        self.legend = self.sheet.render("charts/legend", keys=keys, radius=radius, side=side)
        return dict(enumerate(marks))

    # Questions ---------------------------------------------------------------------------------------------------
    def ask_all(self, legend: Names) -> Plot:
        """Ask what a chart with printed figures can be asked: values, the other way round, highest and lowest."""
        sheet, topic, names = self.sheet, self.topic, self.names
        several = len(topic.series) > 1
        about = {"m": topic.measure, "k": topic.kind}
        lead = next((words for words in wordings("value_by") if topic.measure.startswith(words)), "")
        value = wordings("value_of") if several else wordings("value") + wordings(f"value_by.{lead}") * 2
        for (i, j), figure in self.figures.items():
            if j not in names:
                continue
            slots = about | {"x": topic.categories[j], "s": topic.series[i], "v": figure.text}
            slots["o"] = topic.measure.removeprefix(lead)
            if not several or i in legend:
                sheet.ask("value", value, figure, [names[j], *([legend[i]] if i in legend else [])], **slots)
            if not several and topic.texts[0].count(figure.text) == 1 and sheet.chance(0.3):
                sheet.ask("lookup", "where_value", names[j], figure, **slots)
        if not several and len(topic.categories) > 2:
            self._ask_extremes(about)
        for i, mark in legend.items():
            best = _highest(topic.values[i])
            if best in names and sheet.chance(0.6):
                near = [self.figures[i, best]] if (i, best) in self.figures else []
                sheet.ask("extreme", "highest_of", names[best], [mark, *near], k=topic.kind, s=topic.series[i])
        if len(names) == len(topic.categories) < 10 and sheet.chance(0.15):
            sheet.ask("count", "entries", names.values(), answer=str(len(names)), k=topic.kind)
        return self

    def _ask_extremes(self, about: dict[str, str]) -> None:
        row = self.topic.values[0]
        worst = min(range(len(row)), key=row.__getitem__)
        for j, which, extreme in ((_highest(row), "highest", "peak"), (worst, "lowest", "bottom")):
            near = [self.figures[0, j]] if (0, j) in self.figures else []
            name = [self.names[j]] if j in self.names else []
            if name:
                self.sheet.ask("extreme", which, name[0], near, **about)
            if near and self.sheet.chance(0.7):
                self.sheet.ask("extreme", extreme, near[0], name, **about)


def _highest(row: Sequence[float]) -> int:
    return max(range(len(row)), key=row.__getitem__)


def plot_size(sheet: PageSheet) -> tuple[float, float, float]:
    """(width, height, type size) of a drawing on this canvas, with room for titles."""
    width, height = sheet.width - 2 * sheet.padding - 34.0, (sheet.height - 2 * sheet.padding) * 0.68
    return width, height, 10.0


# ---- Kinds of charts -------------------------------------------------------------------------------------------------


def columns(sheet: PageSheet) -> Plot:
    """Upright bars, one to three a group, with their figures above them."""
    k = sheet.pick(1, 1, 1, 2, 3)
    plot = Plot(sheet, sheet.between(3, max(4, sheet.width // (30 * k + 20))), k, sheet.chance(0.5))
    topic, size, end = plot.topic, plot.size, plot.upright_axis(8)
    slot, fill = plot.wide / len(topic.categories), sheet.random.uniform(0.55, 0.9)
    bar = slot * fill / k
    for i, j in product(range(k), range(len(topic.categories))):
        tall = plot.high * topic.values[i][j] / end
        x, y = plot.left + slot * (j + (1 - fill) / 2) + bar * i, plot.base - tall
        plot.add("rect", x=x, y=y, width=bar * 0.96, height=tall, fill=plot.colors[i])
        tight = plot.width_of(topic.texts[i][j]) > bar * 1.4
        anchor, turn = ("start", -90) if tight else ("middle", 0)
        x += bar / 2 + (size * 0.35 if tight else 0)
        plot.figures[i, j] = plot.text(x, y - 3, topic.texts[i][j], anchor, size * 0.9, turn)
    return plot.ask_all(plot.add_legend())


def bars(sheet: PageSheet) -> Plot:
    """Lying bars with names at the left and figures at their ends; many rows on a tall page."""
    k = sheet.pick(1, 1, 1, 2, 3)
    plot = Plot(sheet, sheet.between(3, max(4, sheet.height // (18 * k + 16))), k, sheet.chance(0.15))
    topic, size = plot.topic, plot.size
    n = len(topic.categories)
    plot.height = min(plot.height, n * (size * 2.1 * k + 14) + 40)
    right = max(map(plot.width_of, topic.texts[0])) + 8
    plot.margins(max(map(plot.width_of, topic.categories)) + 10, 0, right, 0)
    slot, fill = plot.high / n, sheet.random.uniform(0.55, 0.9)
    bar = slot * fill / k
    for j, name in enumerate(topic.categories):
        plot.names[j] = plot.text(plot.left - 5, slot * (j + 0.5) + size * 0.35, name, "end")
        for i in range(k):
            long, y = plot.wide * topic.values[i][j] / topic.highest, slot * (j + (1 - fill) / 2) + bar * i
            plot.add("rect", x=plot.left, y=y, width=long, height=bar * 0.94, fill=plot.colors[i])
            letters = min(size, max(7, bar * 1.05))
            place = plot.left + long + 4, y + bar / 2 + size * 0.35
            plot.figures[i, j] = plot.text(*place, topic.texts[i][j], "start", letters)
    return plot.ask_all(plot.add_legend())


def curves(sheet: PageSheet) -> Plot:
    """Lines over time: figures at every point, at the ends, or none; names at the ends or in a legend."""
    k = sheet.pick(1, 1, 2, 3, 4)
    plot, marks = Plot(sheet, sheet.between(5, max(6, sheet.width // 45)), k, True), {}
    topic, size, direct = plot.topic, plot.size, k > 1 and sheet.chance(0.5)
    end = plot.upright_axis(max(map(plot.width_of, topic.series)) + 14 if direct else 24)
    n, thick = len(topic.categories), sheet.pick(1, 1.5, 2, 3)
    show = "all" if k == 1 or sheet.chance(0.35) else sheet.pick("ends", "none", "ends")
    for i, color in enumerate(plot.colors):
        heights = [plot.base - plot.high * value / end for value in topic.values[i]]
        points = [(plot.left + plot.wide / n * (j + 0.5), y) for j, y in enumerate(heights)]
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        plot.add("polyline", points=places, fill="none", stroke=color, stroke_width=thick)
        for j, (x, y) in enumerate(points):
            if show == "all" or (show == "ends" and j in (0, n - 1)):
                lift = -6 if i % 2 == 0 else size + 5
                plot.figures[i, j] = plot.text(x, y + lift, topic.texts[i][j], size=size * 0.9, fill=color)
        if direct:
            marks[i] = plot.text(points[-1][0] + 8, points[-1][1] + size * 0.35, topic.series[i], "start", fill=color)
    legend = marks if direct else plot.add_legend()
    for i, mark in legend.items():
        sheet.ask("place", "chart.line", mark, L=topic.series[i])
    return plot.ask_all(legend)


# ---- Frames: what stands around a chart; templates/charts ------------------------------------------------------------


def source(sheet: PageSheet, style: str = "font-size:.8em;color:#666") -> Markup:
    lead, name = sheet.pick("Source:", "Source:", "Quelle:"), sheet.asked("source", "source", sheet.company(), style)
    return sheet.render("charts/source", lead=lead, name=name, style=style, text=sheet.sentence(2, 8))


def chart(sheet: PageSheet, draw: Callable[[PageSheet], Plot]) -> None:
    """A chart with what stands around it: titled, in an article, or (kept aside) on a card."""
    sheet.cropped, sheet.padding = True, sheet.between(8, 28)
    sheet.set_manner(sans=12, serif=2, mono=0.5)
    if sheet.chance(0.7) and sheet.height > sheet.width:
        sheet.turn()
    plot = draw(sheet)
    look = f"{sheet.larger(1.1, 1.7, 2)};font-weight:{sheet.pick('bold', 'normal', '600')}"
    sheet.put(title=sheet.titled(plot.topic.title, look, "chart_title"), legend=plot.legend, figure=plot.figure)
    sheet.put(side=sheet.pick("left", "center"), source=source(sheet) if sheet.chance(0.6) else "")
    sheet.put(number=f"Figure {sheet.between(1, 19)}{sheet.pick('.', ':', ' -')}", text=sheet.paragraph(1))


def framed(frames: Sequence[str], **kinds: Callable[[PageSheet], Plot]) -> dict[str, Layout]:
    """Every kind of chart in every frame."""
    made: dict[str, Layout] = {}
    for frame, (kind, draw) in product(frames, kinds.items()):
        made |= variants(partial(chart, draw=draw), f"charts/{frame}", f"{kind}-{frame}")
    return made


FRAMES, HELD_FRAMES = ("titled", "article"), ("card",)
FAMILIES = {
    "bars": PageFamily(16, framed(FRAMES, columns=columns, bars=bars), framed(HELD_FRAMES, columns=columns, bars=bars)),
    "lines": PageFamily(6, framed(FRAMES, curves=curves), framed(HELD_FRAMES, curves=curves)),
}
