"""What charts are about, the SVG they are drawn with, and the frames around them."""

from __future__ import annotations

import html
import math
from typing import NamedTuple

from ..sheet import Mark, Sheet
from ..wording import CHART_TITLE, SOURCE
from ..words import vocabulary

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
AGES = ("Under 18", "18-24", "25-34", "35-44", "45-54", "55-64", "65-74", "75+")
SIZES = ("0-4", "5-9", "10-19", "20-49", "50-99", "100-249", "250-499", "500+")


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


def number_style(sheet: Sheet, percent: bool) -> tuple[float, str, str, str]:
    """(scale, format, thousands' mark, unit) of a chart's figures."""
    if percent:
        return 100, sheet.pick("{:.0f}", "{:.0f}%", "{:.1f}%", "{:.1f}", "{:.2f}%"), "", "percent"
    scale = sheet.random.choice((10, 50, 100, 1000, 5000, 90000, 2e6))
    form = "{:,.0f}" if scale > 900 else sheet.pick("{:,.1f}", "{:,.2f}", "{:,.0f}")
    if scale <= 100 and sheet.chance(0.2):
        form = sheet.pick("${:,.2f}", "{:,.1f}k", "{:,.1f}m", "€{:,.1f}", "${:,.0f}bn")
    return (
        scale,
        form,
        sheet.pick(",", " ", ",", "", " "),
        sheet.pick(
            "",
            "in thousands",
            "in millions",
            "in million U.S. dollars",
            "in 1,000 metric tons",
            "per 1,000 inhabitants",
            "in billion euros",
        ),
    )


def categories_for(sheet: Sheet, n: int, ordered: bool) -> tuple[str, list[str]]:
    """(kind, names): years, months, ages; or countries, companies, cities, people, goods, answers."""
    if ordered:
        start, style = sheet.random.randint(1950, 2015), sheet.random.random()
        if style < 0.7:
            step = sheet.random.choice((1, 1, 1, 1, 2, 5))
            years = [start + step * i for i in range(n)]
            tail = sheet.pick("", "", "", "*", "**")
            return "year", [f"{year}{tail if i == n - 1 else ''}" for i, year in enumerate(years)]
        if style < 0.8:
            return "year", [f"{start + i}/{(start + i + 1) % 100:02d}" for i in range(n)]
        if style < 0.88:
            return "quarter", [f"Q{i % 4 + 1} '{(start + i // 4) % 100:02d}" for i in range(n)]
        if style < 0.95:
            return "month", list(MONTHS[: min(n, 12)])
        return "age group", list((AGES if sheet.chance(0.5) else SIZES)[: min(n, 8)])
    kind = sheet.pick("country", "country", "country", "company", "city", "person", "product", "group", "state")
    make = {
        "country": sheet.fake.country,
        "company": sheet.fake.company,
        "city": sheet.fake.city,
        "person": sheet.fake.name,
        "state": sheet.fake.city,
    }.get(kind)
    if make is None:
        return kind, sheet.some("goods" if kind == "product" else "groups", n)
    names = sheet.distinct(lambda: " ".join(make().split()[:3])[:24].rstrip(" ,(-"), n + 2)
    return kind, names[:n]


def topic_for(sheet: Sheet, n: int, k: int, ordered: bool | None = None, percent: bool | None = None) -> Topic:
    """A statistic that could be true: n categories, k series."""
    ordered = sheet.chance(0.5) if ordered is None else ordered
    percent = sheet.chance(0.3) if percent is None else percent
    kind, categories = categories_for(sheet, n, ordered)
    n = len(categories)
    scale, form, comma, unit = number_style(sheet, percent)
    noun, good = sheet.random.choice(vocabulary("nouns")), sheet.random.choice(vocabulary("goods"))
    if percent:
        group, opinion = sheet.random.choice(vocabulary("groups")), sheet.random.choice(vocabulary("opinions"))
        measure = sheet.pick(
            f"share of {group} who {opinion}",
            f"percentage of {noun}",
            f"market share of {good}",
            "share of respondents",
            f"unemployment rate among {group}",
        )
    else:
        measure = sheet.pick(
            f"number of {noun}",
            f"number of {noun}",
            f"revenue from {good}",
            f"consumption of {good}",
            f"production of {good}",
            f"{good} exports",
            f"average price of {good}",
            f"{good} sales",
            f"total number of {noun}",
        )
    place = sheet.pick(
        "worldwide", "in the United States", "in Europe", f"in {sheet.fake.country()}", f"in {sheet.fake.city()}", ""
    )
    span = (
        f" from {categories[0]} to {categories[-1]}"
        if kind == "year"
        else sheet.pick("", f" in {sheet.random.randint(1990, 2024)}", f", by {kind}")
    )
    title = f"{measure[0].upper()}{measure[1:]} {place}{span}".replace("  ", " ").replace(" ,", ",") + (
        f" ({unit})" if unit and sheet.chance(0.5) else ""
    )
    # Neighbours in the list belong together: Men, Women; Coal, Gas, Nuclear.
    names = vocabulary("series")
    at = sheet.random.randrange(len(names) - k + 1)
    series = list(names[at : at + k])
    if kind != "year" and sheet.chance(0.3):
        start = sheet.random.randint(1995, 2018)
        series = [str(start + i) for i in range(k)]
    values = [shape(sheet, n, ordered) for _ in range(k)]
    if not ordered and sheet.chance(0.7):
        order = sorted(range(n), key=lambda j: -values[0][j])
        values = [[row[j] for j in order] for row in values]
    scale *= sheet.random.uniform(0.35, 1)
    scaled = [[value * scale for value in row] for row in values]
    texts = [[form.format(value).replace(",", comma) for value in row] for row in scaled]
    return Topic(title, measure, unit, kind, categories, series, scaled, texts)


def shape(sheet: Sheet, n: int, ordered: bool) -> list[float]:
    """n values in 0.03–1: a walk where order means time, otherwise a long tail or even."""
    r = sheet.random
    if ordered:
        value, out, drift = r.uniform(0.2, 0.7), [], r.uniform(-0.06, 0.08)
        for _ in range(n):
            value += drift + r.gauss(0, 0.07)
            out.append(value)
        low, high = min(out), max(out)
        floor = r.uniform(0.05, 0.7)
        return [floor + (1 - floor) * (value - low) / max(high - low, 1e-6) for value in out]
    power = r.choice((0.5, 1, 1, 2, 3))
    return [0.03 + 0.97 * r.random() ** power for _ in range(n)]


class Svg:
    """A drawing whose texts are marks."""

    def __init__(self, sheet: Sheet, width: float, height: float, size: float) -> None:
        self.sheet, self.width, self.height, self.size = sheet, width, height, size
        self.parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str = "middle",
        size: float | None = None,
        fill: str = "currentColor",
        weight: str = "normal",
        turn: float = 0,
        style: str = "",
    ) -> Mark:
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        key, shown = len(self.sheet.marks) + 1, " ".join(text.split())
        self.sheet.marks[key] = shown
        markup = (
            f'<text data-t="{key}" x="{x:.1f}" y="{y:.1f}" font-size="{size or self.size:.1f}" text-anchor="{anchor}"'
            f' fill="{fill}" font-weight="{weight}" style="{style}"{turned}>{html.escape(shown)}</text>'
        )
        self.parts.append(markup)
        return Mark(key, shown, markup)

    def rect(self, x: float, y: float, width: float, height: float, fill: str, extra: str = "") -> None:
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0, width):.1f}" height="{max(0, height):.1f}" fill="{fill}"'
            f" {extra}/>"
        )

    def line(
        self, x0: float, y0: float, x1: float, y1: float, stroke: str = "#999", width: float = 1, extra: str = ""
    ) -> None:
        self.parts.append(
            f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{stroke}" stroke-width="{width}"'
            f" {extra}/>"
        )

    def path(
        self, points: list[tuple[float, float]], stroke: str, width: float, fill: str = "none", extra: str = ""
    ) -> None:
        self.parts.append(
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="{fill}" stroke="{stroke}"'
            f' stroke-width="{width}" {extra}/>'
        )

    def circle(self, x: float, y: float, radius: float, fill: str, extra: str = "") -> None:
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{fill}" {extra}/>')

    def wide(self, text: str, size: float | None = None) -> float:
        """A guess of a text's width, on the wide side."""
        return len(text) * 0.57 * (size or self.size)

    def __str__(self) -> str:
        return (
            f'<svg width="{self.width:.0f}" height="{self.height:.0f}"'
            f' style="overflow:visible">{"".join(self.parts)}</svg>'
        )


def palette(sheet: Sheet, n: int) -> list[str]:
    """n colours: one hue in steps, a fixed set, greys, or free."""
    style = sheet.random.random()
    if style < 0.3:
        known = [
            "#2774d9",
            "#0f283f",
            "#bababa",
            "#a52a2a",
            "#8dbb3f",
            "#f0b400",
            "#7a5fa8",
            "#4cb5ab",
            "#e07b39",
            "#555555",
            "#c2185b",
            "#00838f",
        ]
    elif style < 0.5:
        hue = sheet.random.randrange(360)
        known = [f"hsl({hue},{60 - 4 * i}%,{30 + (45 * i) // max(1, n - 1) if n > 1 else 45}%)" for i in range(n)]
    elif style < 0.6:
        known = [f"hsl(0,0%,{25 + (50 * i) // max(1, n - 1) if n > 1 else 45}%)" for i in range(n)]
    else:
        start = sheet.random.randrange(360)
        known = [
            f"hsl({(start + 47 * i) % 360},{sheet.random.randint(40, 80)}%,{sheet.random.randint(38, 62)}%)"
            for i in range(n)
        ]
    return [known[i % len(known)] for i in range(n)]


def nice(top: float) -> list[float]:
    """Axis ticks from 0 to just above `top`."""
    step = 10 ** math.floor(math.log10(top / 4))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if top / (step * factor) <= 6)
    return [step * i for i in range(math.ceil(top / step) + 1)]


def tick_text(value: float, topic: Topic) -> str:
    text = f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2f}".rstrip("0")
    return text.replace(",", " " if any(" " in t for t in topic.texts[0]) else ",")


# Frames: (sheet, topic, legend, drawing) → HTML -------------------------------------------------------------------


def _title(sheet: Sheet, topic: Topic, style: str) -> Mark:
    title = sheet.mark(topic.title, style)
    sheet.ask_title(title, CHART_TITLE)
    return title


def _source(sheet: Sheet, style: str = "font-size:.8em;color:#666") -> str:
    lead, name = (
        sheet.pick("Source:", "Source:", "Data source:", "SOURCE:", "Quelle:"),
        sheet.mark(sheet.fake.company(), style),
    )
    sheet.ask("source", SOURCE, name)
    return f'<div style="{style};margin-top:4px">{lead} {name}; {sheet.text(sheet.sentence(2, 8))}</div>'


def bare(sheet: Sheet, topic: Topic, legend: str, figure: str) -> str:
    return f"{legend}{figure}"


def titled(sheet: Sheet, topic: Topic, legend: str, figure: str) -> str:
    title = _title(
        sheet,
        topic,
        f"font-size:{sheet.random.uniform(1.1, 1.7):.2f}em;font-weight:{sheet.pick('bold', 'normal', '600')}",
    )
    return (
        "<div"
        f' style="text-align:{sheet.pick("left", "center")};margin-bottom:6px">{title}</div>{legend}{figure}'
        f"{_source(sheet) if sheet.chance(0.6) else ''}"
    )


def portal(sheet: Sheet, topic: Topic, legend: str, figure: str) -> str:
    """Like a statistics portal: buttons at the side, links below, no title."""
    blue = sheet.pick("#0666c4", "#1a73e8", "#0a58a3")
    buttons = "".join(
        '<div class="icon" style="width:20px;height:20px;margin-bottom:5px;box-shadow:0 0 3px'
        f' #bbb;text-align:center;color:#888">{c}</div>'
        for c in "★▲⚙<❞▣"[: sheet.random.randint(3, 6)]
    )
    more, show = (
        sheet.mark(sheet.pick("Additional Information", "More details", "Show metadata"), f"color:{blue}"),
        sheet.mark(sheet.pick("Show source", "Sources", "View source data"), f"color:{blue}"),
    )
    for mark in (more, show):
        sheet.ask_click(mark)
    owner = sheet.mark(f"© {sheet.fake.last_name()} {sheet.random.randint(2015, 2024)}", "color:#444")
    return (
        f'<div style="display:flex"><div style="flex:1">{figure}{legend}</div><div>{buttons}</div></div><div'
        f' style="text-align:right;margin-top:8px">{owner}</div><div'
        f' style="display:flex;justify-content:space-between">{more}{show}</div>'
    )


def atlas(sheet: Sheet, topic: Topic, legend: str, figure: str) -> str:
    """A serif title with a subtitle, a source line below."""
    serif = sheet.face("serif")
    title = _title(sheet, topic, f"font-family:'{serif}';font-size:1.6em;color:#444")
    return (
        f"<div>{title}</div><div"
        f' style="color:#666;font-size:.9em;margin-bottom:8px">{sheet.text(sheet.sentence(6, 16))}</div>'
        f"{legend}{figure}{_source(sheet)}"
    )


def survey(sheet: Sheet, topic: Topic, legend: str, figure: str) -> str:
    """A poll: bold title, slanted remark, notes, the institute in capitals."""
    title = _title(sheet, topic, "font-weight:bold;font-size:1.25em")
    institute = sheet.mark(sheet.fake.company().upper(), "font-weight:bold;font-size:.85em")
    sheet.ask("source", SOURCE, institute)
    return (
        f"<div>{title}</div><div"
        f' style="font-style:italic;color:#777;margin-bottom:6px">{sheet.text(sheet.sentence(5, 12))}</div>'
        f"{legend}{figure}<div"
        ' style="font-size:.75em;color:#777;margin-top:5px">Note:'
        f" {sheet.text(sheet.sentence(6, 14))}.</div>{institute}"
    )


def workbook(sheet: Sheet, topic: Topic, legend: str, figure: str) -> str:
    """A spreadsheet's chart: grey frame, centred title, the legend below or above."""
    title = _title(sheet, topic, f"font-size:1.35em;color:{sheet.pick('#595959', '#000')}")
    inner = f"{legend}{figure}" if sheet.chance(0.4) else f"{figure}{legend}"
    return (
        '<div style="border:1px solid #bbb;padding:6px"><div'
        f' style="text-align:center;margin-bottom:5px">{title}</div>{inner}</div>'
    )


def article(sheet: Sheet, topic: Topic, legend: str, figure: str) -> str:
    """A figure within a report: text above, a numbered caption below."""
    caption = _title(sheet, topic, "font-style:italic")
    number = f"<b>Figure {sheet.random.randint(1, 19)}{sheet.pick('.', ':', ' -')}</b>"
    text = f'<p style="text-align:justify">{sheet.text(sheet.paragraph(sheet.random.randint(1, 3)))}</p>'
    return f'{text}{legend}{figure}<div style="text-align:center;margin-top:4px">{number} {caption}</div>'


def card(sheet: Sheet, topic: Topic, legend: str, figure: str) -> str:
    """Kept aside: a rounded card with a figure in large type."""
    title = _title(sheet, topic, "font-weight:600")
    return (
        f'<div style="border:1px solid #ddd;border-radius:12px;padding:10px;box-shadow:0 2px 6px #ccc">{title}<div'
        f' style="color:#888;font-size:.85em">{sheet.text(sheet.sentence(3, 7))}</div>{figure}{legend}'
        f"{_source(sheet, 'font-size:.75em;color:#999;text-align:right')}</div>"
    )


def newspaper(sheet: Sheet, topic: Topic, legend: str, figure: str) -> str:
    """Kept aside: a red tab, a bold headline, a thin rule, the source at the foot."""
    title = _title(sheet, topic, "font-weight:bold;font-size:1.3em")
    return (
        '<div style="border-top:1px solid #c00"><div style="background:#c00;width:34px;height:8px"></div><div'
        f' style="margin-top:5px">{title}</div><div'
        f' style="margin-bottom:6px">{sheet.text(topic.unit)}</div>{legend}{figure}{_source(sheet)}</div>'
    )


FRAMES = {f.__name__: f for f in (bare, titled, portal, atlas, survey, workbook, article)}
HELD_FRAMES = {f.__name__: f for f in (card, newspaper)}
