"""What charts are about: a measure, categories, series, and values that could be true."""

from __future__ import annotations

from typing import NamedTuple

from ..sheet import PageSheet
from ..words import vocabulary


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
