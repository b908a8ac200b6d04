"""What charts are about, and what they are drawn with: topics, SVG, colours, axes, legends, and their questions."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from ..sheet import Mark, PageSheet
from ..words import vocabulary, wordings


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


class NumberStyle(NamedTuple):
    """How a chart writes its figures. comma: the mark between thousands."""

    scale: float
    form: str
    comma: str
    unit: str


def number_style(sheet: PageSheet, percent: bool) -> NumberStyle:
    if percent:
        return NumberStyle(100, sheet.pick("{:.0f}", "{:.0f}%", "{:.1f}%", "{:.1f}", "{:.2f}%"), "", "percent")
    scale = sheet.pick(10, 50, 100, 1000, 5000, 90000, 2e6)
    form = "{:,.0f}" if scale > 900 else sheet.pick("{:,.1f}", "{:,.2f}", "{:,.0f}")
    if scale <= 100 and sheet.chance(0.2):
        form = sheet.pick("${:,.2f}", "{:,.1f}k", "{:,.1f}m", "€{:,.1f}", "${:,.0f}bn")
    return NumberStyle(scale, form, sheet.pick(",", " ", ",", "", " "), sheet.word("chart.units"))


def steps_in_time(sheet: PageSheet, n: int) -> tuple[str, list[str]]:
    """(kind, names): years, seasons, quarters, months, ages."""
    start, style = sheet.between(1950, 2015), sheet.random.random()
    if style < 0.7:
        step, tail = sheet.pick(1, 1, 1, 1, 2, 5), sheet.pick("", "", "", "*", "**")
        return "year", [f"{start + step * i}{tail if i == n - 1 else ''}" for i in range(n)]
    if style < 0.8:
        return "year", [f"{start + i}/{(start + i + 1) % 100:02d}" for i in range(n)]
    if style < 0.88:
        return "quarter", [f"Q{i % 4 + 1} '{(start + i // 4) % 100:02d}" for i in range(n)]
    if style < 0.95:
        return "month", list(vocabulary("chart.months")[:n])
    return "age group", list(vocabulary("chart.ages" if sheet.chance(0.5) else "chart.sizes")[:n])


def categories_for(sheet: PageSheet, n: int, ordered: bool) -> tuple[str, list[str]]:
    """(kind, names): steps in time; or countries, companies, cities, people, goods, answers."""
    if ordered:
        return steps_in_time(sheet, n)
    kind = sheet.word("chart.kinds")
    if kind in ("product", "group"):
        return kind, sheet.some("goods" if kind == "product" else "groups", n)
    make = getattr(sheet.fake, {"person": "name", "state": "city"}.get(kind, kind))
    return kind, sheet.distinct(lambda: " ".join(make().split()[:3])[:24].rstrip(" ,(-"), n + 2)[:n]


def measure_for(sheet: PageSheet, percent: bool) -> str:
    slots = {"noun": sheet.word("nouns"), "good": sheet.word("goods")}
    if percent:
        slots |= {"group": sheet.word("groups"), "opinion": sheet.word("opinions")}
    return sheet.word("chart.shares" if percent else "chart.measures").format(**slots)


def title_for(sheet: PageSheet, measure: str, kind: str, categories: list[str], unit: str) -> str:
    place = sheet.pick(
        *("worldwide", "in the United States", "in Europe"),
        *(f"in {sheet.fake.country()}", f"in {sheet.fake.city()}", ""),
    )
    if kind == "year":
        span = f" from {categories[0]} to {categories[-1]}"
    else:
        span = sheet.pick("", f" in {sheet.between(1990, 2024)}", f", by {kind}")
    title = f"{measure[0].upper()}{measure[1:]} {place}{span}".replace("  ", " ").replace(" ,", ",")
    return f"{title} ({unit})" if unit and sheet.chance(0.5) else title


def topic_for(sheet: PageSheet, n: int, k: int, ordered: bool | None = None, percent: bool | None = None) -> Topic:
    """A statistic that could be true: n categories, k series."""
    ordered = sheet.chance(0.5) if ordered is None else ordered
    percent = sheet.chance(0.3) if percent is None else percent
    kind, categories = categories_for(sheet, n, ordered)
    n = len(categories)
    style = number_style(sheet, percent)
    measure = measure_for(sheet, percent)
    title = title_for(sheet, measure, kind, categories, style.unit)
    # Neighbours in the list belong together: Men, Women; Coal, Gas, Nuclear.
    names = vocabulary("series")
    at = sheet.random.randrange(len(names) - k + 1)
    series = list(names[at : at + k])
    if kind != "year" and sheet.chance(0.3):
        start = sheet.between(1995, 2018)
        series = [str(start + i) for i in range(k)]
    values = [shape(sheet, n, ordered) for _ in range(k)]
    if not ordered and sheet.chance(0.7):
        order = sorted(range(n), key=lambda j: -values[0][j])
        values = [[row[j] for j in order] for row in values]
    scale = style.scale * sheet.random.uniform(0.35, 1)
    scaled = [[value * scale for value in row] for row in values]
    texts = [[style.form.format(value).replace(",", style.comma) for value in row] for row in scaled]
    return Topic(title, measure, style.unit, kind, categories, series, scaled, texts)


def shape(sheet: PageSheet, n: int, ordered: bool) -> list[float]:
    """n values in 0.03–1: a walk where order means time, otherwise a long tail or even."""
    r = sheet.random
    if ordered:
        value, walk, drift = r.uniform(0.2, 0.7), [], r.uniform(-0.06, 0.08)
        for _ in range(n):
            value += drift + r.gauss(0, 0.07)
            walk.append(value)
        low, high = min(walk), max(walk)
        floor = r.uniform(0.05, 0.7)
        return [floor + (1 - floor) * (value - low) / max(high - low, 1e-6) for value in walk]
    power = sheet.pick(0.5, 1, 1, 2, 3)
    return [0.03 + 0.97 * r.random() ** power for _ in range(n)]


Names = dict[int, Mark]  # by category
Figures = dict[tuple[int, int], Mark]  # by series and category


class Svg:
    """A drawing whose texts are marks."""

    def __init__(self, sheet: PageSheet, width: float, height: float, size: float) -> None:
        self.sheet, self.width, self.height, self.size = sheet, width, height, size
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, text: str, anchor: str = "middle", size: float = 0, turn: float = 0, **look: str
    ) -> Mark:
        """look: fill, weight, style."""
        mark = self.sheet.mark(text)
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        fill, weight = look.get("fill", "currentColor"), look.get("weight", "normal")
        self.parts.append(
            f'<text data-t="{mark.key}" x="{x:.1f}" y="{y:.1f}" font-size="{size or self.size:.1f}"'
            f' text-anchor="{anchor}" fill="{fill}" font-weight="{weight}" style="{look.get("style", "")}"{turned}>'
            f"{html.escape(mark.text)}</text>"
        )
        return mark

    def rect(self, x: float, y: float, width: float, height: float, fill: str, extra: str = "") -> None:
        width, height = max(0, width), max(0, height)
        box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect {box} fill="{fill}" {extra}/>')

    def line(self, x0: float, y0: float, x1: float, y1: float, stroke: str, width: float = 1, extra: str = "") -> None:
        ends = f'x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"'
        self.parts.append(f'<line {ends} stroke="{stroke}" stroke-width="{width}" {extra}/>')

    def path(
        self, points: Sequence[tuple[float, float]], stroke: str, width: float, fill: str = "none", extra: str = ""
    ) -> None:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        look = f'fill="{fill}" stroke="{stroke}" stroke-width="{width}"'
        self.parts.append(f'<polyline points="{places}" {look} {extra}/>')

    def circle(self, x: float, y: float, radius: float, fill: str, extra: str = "") -> None:
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{fill}" {extra}/>')

    def wedge(self, x: float, y: float, radius: float, start: float, share: float, fill: str) -> None:
        """A piece of a pie from an angle on."""
        end = start + share * math.tau
        x0, y0 = x + radius * math.sin(start), y - radius * math.cos(start)
        x1, y1 = x + radius * math.sin(end), y - radius * math.cos(end)
        arc = f"A{radius:.1f} {radius:.1f} 0 {int(share > 0.5)} 1 {x1:.1f} {y1:.1f}"
        self.parts.append(f'<path d="M{x:.1f} {y:.1f}L{x0:.1f} {y0:.1f}{arc}Z" fill="{fill}" stroke="#fff"/>')

    def wide(self, text: str) -> float:
        """A guess of a text's width, on the wide side."""
        return len(text) * 0.57 * self.size

    def __html__(self) -> Markup:
        size = f'width="{self.width:.0f}" height="{self.height:.0f}"'
        return Markup(f'<svg {size} style="overflow:visible">{"".join(self.parts)}</svg>')


def palette(sheet: PageSheet, n: int) -> list[str]:
    """n colours: one hue in steps, a fixed set, greys, or free."""
    style = sheet.random.random()
    if style < 0.3:
        known = vocabulary("chart.palette")
    elif style < 0.5:
        hue = sheet.random.randrange(360)
        known = [f"hsl({hue},{60 - 4 * i}%,{30 + (45 * i) // max(1, n - 1) if n > 1 else 45}%)" for i in range(n)]
    elif style < 0.6:
        known = [f"hsl(0,0%,{25 + (50 * i) // max(1, n - 1) if n > 1 else 45}%)" for i in range(n)]
    else:
        start = sheet.random.randrange(360)
        known = [f"hsl({(start + 47 * i) % 360},{sheet.between(40, 80)}%,{sheet.between(38, 62)}%)" for i in range(n)]
    return [known[i % len(known)] for i in range(n)]


def nice(top: float) -> list[float]:
    """Axis ticks from 0 to just above `top`."""
    step = 10 ** math.floor(math.log10(top / 4))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if top / (step * factor) <= 6)
    return [step * i for i in range(math.ceil(top / step) + 1)]


def tick_text(value: float, topic: Topic) -> str:
    text = f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}".rstrip("0")
    return text.replace(",", " " if any(" " in t for t in topic.texts[0]) else ",")


def plot_size(sheet: PageSheet) -> tuple[float, float, float]:
    """(width, height, type size) of a drawing on this canvas, with room for titles."""
    share = sheet.pick(0.55, 0.65, 0.72, 0.78)
    width, height = sheet.width - 2 * sheet.padding - 34, (sheet.height - 2 * sheet.padding) * share
    return width, height, sheet.pick(8, 9, 9, 10, 10, 11, 12)


class Plot:
    """A topic on a drawing. left, top, wide, high: the part of it that the values take."""

    def __init__(self, sheet: PageSheet, topic: Topic, width: float, height: float, size: float) -> None:
        self.sheet, self.topic, self.size = sheet, topic, size
        self.svg = Svg(sheet, width, height, size)
        self.left, self.top, self.wide, self.high = 0.0, 0.0, width, height
        self.names: Names = {}
        self.figures: Figures = {}
        self.legend = Markup()

    @property
    def figure(self) -> Markup:
        return self.svg.__html__()

    def margins(self, left: float, top: float, right: float, below: float) -> None:
        self.left, self.top = left, top
        self.wide, self.high = self.svg.width - left - right, self.svg.height - below - top

    @property
    def base(self) -> float:
        return self.top + self.high

    def tick_room(self, spare: float, least: float) -> float:
        """The width of the longest number of an upright axis."""
        return max(self.svg.wide(tick_text(nice(self.topic.highest)[-1], self.topic)) + spare, least)

    def room_below(self, width: float) -> float:
        """The height of the names under columns that share this width."""
        longest = max(map(self.svg.wide, self.topic.categories))
        if longest < width / len(self.topic.categories) * 0.98:
            return self.size * 2 + 6
        return min(longest, 150) * 0.85 + self.size + 10

    def upright_axis(self, highest: float) -> float:
        """Grid, ticks and the axis' name for values going up; returns the axis' end."""
        sheet, svg, right = self.sheet, self.svg, self.left + self.wide
        ticks = nice(highest)
        grid, numbers = sheet.pick("#e4e4e4", "#ccc", "#eee", "none"), sheet.chance(0.85)
        for value in ticks:
            y = self.base - self.high * value / ticks[-1]
            svg.line(self.left, y, right, y, grid, 1, 'stroke-dasharray="2 2"' if grid == "#ccc" else "")
            if numbers:
                label = tick_text(value, self.topic)
                svg.text(self.left - 5, y + self.size * 0.35, label, "end", self.size * 0.95, fill="#666")
        svg.line(self.left, self.base, right, self.base, "#333")
        if sheet.chance(0.5):
            name = (self.topic.unit or self.topic.measure)[:44]
            name = name[0].upper() + name[1:]
            svg.text(9, self.top + self.high / 2, name, "middle", self.size * 0.9, turn=-90, fill="#555")
        return ticks[-1]

    def name_columns(self) -> None:
        """Names under the columns, turned or thinned out where they would not fit."""
        sheet, svg, size = self.sheet, self.svg, self.size
        n, slot = len(self.topic.categories), self.wide / len(self.topic.categories)
        longest = max(map(svg.wide, self.topic.categories))
        turn = 0 if longest < slot * 0.98 else sheet.pick(-45, -35, -60, -90)
        every = 1 if not turn or slot > size * 1.1 else math.ceil(size * 1.1 / slot)
        if turn and self.topic.kind in ("year", "quarter") and sheet.chance(0.5):
            turn, every = 0, math.ceil(longest / slot * 1.1)
        for j in range(0, n, every):
            x = self.left + slot * (j + 0.5) + (size * 0.35 if turn else 0)
            anchor = "end" if turn else "middle"
            self.names[j] = svg.text(x, self.base + size + 4, self.topic.categories[j], anchor, turn=turn)

    def add_legend(self, colors: list[str]) -> Names:
        """A legend in a row; none for one series."""
        if len(self.topic.series) < 2:
            return {}
        marks = self.sheet.mark_all(*self.topic.series)
        radius, side = self.sheet.pick("0", "50%", "2px"), self.sheet.pick("left", "center", "center")
        keys = list(zip(marks, colors, strict=False))
        self.legend = self.sheet.render("charts/legend", keys=keys, radius=radius, side=side)
        return dict(enumerate(marks))

    def finished(self, colors: list[str]) -> Plot:
        """The plot with its legend; all that it shows is asked for."""
        self.ask_values(self.add_legend(colors))
        return self

    def ask_values(self, legend: Names) -> None:
        """Ask all that a chart with printed figures can be asked: values, the other way round, highest and lowest."""
        sheet, topic, names = self.sheet, self.topic, self.names
        several = len(topic.series) > 1
        about = {"m": topic.measure, "k": topic.kind}
        lead = next((words for words in wordings("value_by") if topic.measure.startswith(words)), "")
        value = wordings("value_of") if several else wordings("value") + wordings(f"value_by.{lead}") * 2
        for (i, j), figure in self.figures.items():
            if j not in names:
                continue
            slots = about | {"x": topic.categories[j].rstrip("*"), "s": topic.series[i], "v": figure.text}
            slots["o"] = topic.measure.removeprefix(lead)
            if not several or i in legend:
                sheet.ask("value", value, figure, [names[j], *([legend[i]] if i in legend else [])], **slots)
            if not several and sum(text == figure.text for text in topic.texts[0]) == 1 and sheet.chance(0.3):
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
        for mark in [*names.values()][:2] + [*legend.values()][:2]:
            if sheet.chance(0.25):
                sheet.ask("place", "point", mark, L=mark.text, l=mark.text.lower())

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
