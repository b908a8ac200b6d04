"""Charts: bars, curves, shares and maps with titles, scales, legends and numbers, and questions about them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from arr_coc.knowing.language.tables import read_table

from .blocks import block
from .paper import Area, Colour, Paper, Span
from .speech import DATA

CHARTS: dict[str, Any] = read_table(DATA / "charts.toml")
COLOURS: dict[str, Colour] = {name: tuple(parts) for name, parts in CHARTS["colours"].items()}
KINDS: dict[str, str] = CHARTS["kinds"]
GROUPS = {"sex": "group", "product_line": "product", "age": "age group"}
GREY = (70, 70, 70)


@dataclass(frozen=True)
class ChartData:
    """What a chart shows. kind: of the entries. group: of the series. topic: the row of `charts.toml`, with its title
    and questions. slots: what stands in their gaps. values: of every series, of every entry. texts: the same as they
    are written."""

    kind: str
    group: str
    measure: str
    topic: dict[str, Any]
    slots: dict[str, str]
    names: list[str]
    labels: list[str]
    colours: list[str]
    high: float
    values: list[list[float]]
    texts: list[list[str]]
    unit: str


def chart_data(paper: Paper, most: int, series: int, coloured: bool = False) -> ChartData:
    """Draw a topic, its entries, its series and numbers of one form."""
    topic = paper.random.choice(CHARTS["topics"])
    kind = paper.random.choice(topic["kinds"])
    names = entries(paper, kind, paper.between(3, most))
    group = paper.random.choice(topic["series"])
    labels = paper.distinct(lambda: paper.value(group), series)
    form = paper.random.choice(topic["forms"])
    unit, low, high, digits = CHARTS["forms"][form]
    high = high * paper.pick(0.3, 0.6, 1.0)
    rough = paper.random.uniform(0.05, 0.7)
    values, texts = [], []
    for _ in labels:
        level = paper.random.uniform(0.3, 0.9)
        row = [min(1.0, max(0.02, level + rough * paper.random.uniform(-0.6, 0.6))) for _ in names]
        row = sorted(row, reverse=paper.chance(0.7)) if kind != "year" and paper.chance(0.4) else row
        values.append([max(low, share * high) for share in row])
        texts.append([f"{paper.number(value, digits)}{unit}" for value in values[-1]])
    slots = {name: paper.value(kind) for name, kind in (("p", "country"), ("g", "industry"), ("b", "invented"))}
    wanted = len(names) if coloured or paper.chance(0.3) else 1
    colours = paper.random.sample(list(COLOURS), min(len(COLOURS), max(len(labels), wanted)))
    return ChartData(
        kind, group, topic["measure"].format(**slots), topic, slots, names, labels, colours, high, values, texts, unit
    )


def entries(paper: Paper, kind: str, number: int) -> list[str]:
    """Draw names of the entries of a chart."""
    if kind != "year":
        return paper.distinct(lambda: paper.value(KINDS[kind]), number)
    start, step = paper.between(1975, 2022 - number), paper.pick(1, 1, 1, 2, 5) if number < 7 else 1
    years = [start + step * place for place in range(number)]
    form = paper.pick("{}", "{}", "{}", "{}", "{}/{:02d}", "FY {}", "{}*", "Q1 {}", "'{2:02d}")
    starred = form.endswith("*")
    return [
        (form if not starred or year == years[-1] else "{}").format(year, (year + 1) % 100, year % 100)
        for year in years
    ]


def chart_title(paper: Paper, frame: Area, y: float, data: ChartData) -> float:
    """Draw a title with quantity, place and time, sometimes with a line below it."""
    slots = data.slots | {"a": data.names[0], "z": data.names[-1], "m": data.measure}
    text = data.topic["title"].format(**slots)
    span, y = paper.flow(frame, y, text[:1].upper() + text[1:], paper.pick(1.0, 1.2, 1.45))
    paper.ask("title", paper.say("title"), span)
    if paper.chance(0.4):
        _, y = paper.flow(frame, y, paper.random.choice(CHARTS["subtitles"]).format(**slots), 0.9)
    return y + 0.6 * paper.size


def value_question(paper: Paper, data: ChartData, name: str, series: str = "") -> str:
    """Ask for one number: by the chart's own wording, or plainly."""
    slots = {"x": name, "s": series, "k": data.kind, "m": data.measure}
    asks = data.topic.get("asks_of" if series else "asks", ()) if paper.asking == "en" else ()
    if asks and paper.chance(0.55):
        return paper.roughened(paper.random.choice(asks).format(**data.slots, **slots))
    return paper.say("value_of" if series else "value", **slots)


def situated(paper: Paper, data: ChartData, text: str) -> str:
    """Add where, when or among what to a question, as people do, now and then."""
    if paper.asking != "en" or not text.endswith("?") or paper.chance(0.7):
        return text
    situation = paper.random.choice(CHARTS["situations"]).format(**data.slots, k=data.kind)
    return f"{text[:-1]} {situation}?"


def draw_legend(paper: Paper, frame: Area, y: float, data: ChartData, spots: list[tuple[float, float]]) -> list[Span]:
    """Draw a legend: a mark and a name for each series. spots: places of names at the ends of curves instead."""
    found, x = [], frame.x0
    upright = not spots and paper.chance(0.25)
    mark = paper.pick("square", "line", "square")
    for place, label in enumerate(data.labels):
        colour = COLOURS[data.colours[place]]
        if spots:
            found.append(paper.write(*spots[place], label, scale=0.85, colour=colour))
        else:
            at = (frame.x0, y + 1.3 * place * paper.size) if upright else (x, y)
            if x > frame.x0 and not upright and x + paper.extent(label, 0.9) + 2 * paper.size > frame.x1:
                x, y = frame.x0, y + 1.4 * paper.size
                at = (x, y)
            if mark == "square":
                paper.box(*at, at[0] + 0.8 * paper.size, at[1] + 0.8 * paper.size, colour, fill=True)
            else:
                middle = at[1] + 0.5 * paper.size
                paper.line(at[0], middle, at[0] + 1.2 * paper.size, middle, colour, 3)
            found.append(paper.write(at[0] + 1.5 * paper.size, at[1] - 0.1 * paper.size, label, scale=0.9))
            x = paper.boxes[-1][2] + 1.4 * paper.size
        ask_legend(paper, GROUPS.get(data.group, data.group), data.colours[place], found[-1])
    return found


def ask_legend(paper: Paper, kind: str, colour: str, span: Span) -> None:
    """Ask what a colour stands for, in English and where it is one."""
    if paper.asking == "en" and colour not in ("gray", "black"):
        paper.ask("legend", paper.say("legend", k=kind, colour=colour), span)


def draw_scale(paper: Paper, frame: Area, data: ChartData, lying: bool) -> None:
    """Draw ticks from zero on, with lines across or without."""
    steps, ruled = paper.pick(4, 5, 5, 6), paper.chance(0.7)
    digits = 0 if data.high >= steps else 1
    for step in range(steps + 1):
        share = step / steps
        text = f"{paper.number(share * data.high, digits)}{data.unit if paper.chance(0.95) else ''}"
        if lying:
            x = frame.x0 + share * frame.width
            paper.write(x, frame.y1 + 0.2 * paper.size, text, scale=0.8, align="middle", colour=GREY)
        else:
            tick = frame.y1 - share * (frame.y1 - frame.y0)
            paper.write(frame.x0 - 0.4 * paper.size, tick - 0.5 * paper.size, text, scale=0.8, align="right")
            if ruled:
                paper.line(frame.x0, tick, frame.x1, tick)


def ask_chart(
    paper: Paper, data: ChartData, named: list[Span], legend: list[Span], said: list[list[Span | None]]
) -> None:
    """Ask for numbers by their names, for names by their numbers, and for what is highest and lowest."""
    slots = {"k": data.kind, "m": data.measure}
    when = "_when" if data.kind == "year" and paper.asking == "en" else ""
    for row, label in enumerate(data.labels):
        order = sorted(range(len(named)), key=lambda place: data.values[row][place])
        ends = data.texts[row].count(data.texts[row][order[-1]]), data.texts[row].count(data.texts[row][order[0]])
        for place, span in enumerate(said[row]):
            if span is None:
                continue
            if legend:
                text = value_question(paper, data, data.names[place], label)
                paper.ask("value", text, span, named[place], legend[row])
            else:
                paper.ask("value", value_question(paper, data, data.names[place]), span, named[place])
                if data.texts[row].count(span.text) == 1:
                    which = paper.say(f"which_value{when}", v=span.text, **slots)
                    paper.ask("which", situated(paper, data, which), named[place], span)
        shown = all(span is not None for span in said[row])
        wordings = (("highest", order[-1], ends[0]), ("lowest", order[0], ends[1]))
        for wording, place, often in wordings:
            if often > 1:
                continue
            if legend and paper.asking == "en":
                text = paper.say(f"{wording}_of{when}", s=label, **slots)
            elif legend:
                continue
            else:
                text = paper.say(f"{wording}{when}", **slots)
            paper.ask(wording if shown else "tallest", situated(paper, data, text), named[place])
        if shown and not legend and ends[0] == 1:
            paper.ask("peak", paper.say("peak", **slots), said[row][order[-1]])
            if paper.asking == "en" and ends[1] == 1:
                paper.ask("peak", paper.say("bottom", **slots), said[row][order[0]])


@block
def bars(
    paper: Paper, frame: Area, y: float, lying: str = "", numbers: str = "", series: str = "1", curve: str = "",
    titled: str = "",
) -> float:  # fmt: skip
    """Draw bars or curves over a scale, with a legend for several series, with or without numbers at the marks."""
    most = max(4, min(12 if curve else 10, int(frame.width / (5 * paper.size))))
    data = chart_data(paper, most, int(series))
    y = chart_title(paper, frame, y, data) if titled else y
    several, shown = len(data.labels) > 1, bool(numbers) or paper.chance(0.5)
    below, ends = several and paper.chance(0.4), bool(several and curve and paper.chance(0.5))
    legend: list[Span] = []
    top = y + (1.2 if shown else 0.5) * paper.size
    if several and not below and not ends:
        legend = draw_legend(paper, frame, y, data, [])
        top = paper.boxes[-1][3] + 1.6 * paper.size
    bottom = max(top + 12 * paper.size, min(frame.y1 - (6 if below else 3) * paper.size, top + 26 * paper.size))
    widest = max(paper.extent(name, 0.9) for name in data.names)
    left = frame.x0 + (min(widest, 0.4 * frame.width) + paper.size if lying else 4.5 * paper.size)
    right = frame.x1 - (9 if ends else 3 if lying else 0.5) * paper.size
    plot = Area(left, top, right, bottom)
    if not (shown and paper.chance(0.4)):
        draw_scale(paper, plot, data, bool(lying))
    named, step = [], ((bottom - top) if lying else plot.width) / len(data.names)
    said: list[list[Span | None]] = [[] for _ in data.labels]
    points: list[list[tuple[float, float]]] = [[] for _ in data.labels]
    apart = len(data.colours) >= len(data.names) > 1 and not several and not curve
    for place, name in enumerate(data.names):
        start = (top if lying else left) + (place + 0.15) * step
        if lying:
            spot = (left - 0.5 * paper.size, start + 0.35 * step - 0.5 * paper.size)
            named.append(paper.write(*spot, name, scale=0.9, align="right"))
        else:
            text = name if len(name) < 8 else name[: max(int(step / (0.55 * paper.size)), 6)].strip()
            spot = (start + 0.35 * step, bottom + 0.3 * paper.size)
            named.append(paper.write(*spot, text, scale=0.85, align="middle"))
        for row in range(len(data.labels)):
            share, thick = data.values[row][place] / data.high, 0.7 * step / len(data.labels)
            colour = COLOURS[data.colours[place if apart else row]]
            at = start + row * thick
            if lying:
                end = left + share * plot.width
                paper.box(left, at, end, at + 0.9 * thick, colour, fill=True)
                spot = (end + 4, at + 0.45 * thick - 0.5 * paper.size)
            else:
                peak = bottom - share * (bottom - top)
                if curve:
                    at, thick = start + 0.35 * step, 0.0
                    points[row].append((at, peak))
                else:
                    paper.box(at, peak, at + 0.9 * thick, bottom, colour, fill=True)
                spot = (at + 0.45 * thick, peak - 1.2 * paper.size)
            align, text = "left" if lying else "middle", data.texts[row][place]
            said[row].append(paper.write(*spot, text, scale=0.8, align=align) if shown else None)
    for row, path in enumerate(points):
        for (x0, y0), (x1, y1) in pairwise(path):
            paper.line(x0, y0, x1, y1, COLOURS[data.colours[row]], 2)
    end = bottom + (1.6 if not lying else 1.4) * paper.size
    if ends:
        legend = draw_legend(paper, frame, y, data, [(path[-1][0] + 6, path[-1][1] - 7) for path in points])
    elif below:
        legend = draw_legend(paper, frame, end + 0.4 * paper.size, data, [])
        end = paper.boxes[-1][3]
    ask_chart(paper, data, named, legend, said)
    return end + 0.8 * paper.size


@block
def shares(paper: Paper, frame: Area, y: float, series: str = "3") -> float:
    """Draw horizontal bars split into shares with their numbers; statements before them, answers above."""
    number, left = int(series), frame.x0 + 0.4 * frame.width
    answers = paper.distinct(lambda: paper.value(paper.pick("answer", "answer", "year")), number)
    colours = paper.random.sample(list(COLOURS), number)
    kind = paper.pick("", "age", "country", "industry")
    rows = paper.between(3, 8)
    statements = paper.distinct(lambda: paper.value(kind) if kind else paper.prose_words(3, 8).capitalize(), rows)
    wide, heads = frame.x1 - left, []
    for place, text in enumerate(answers):
        heads.append(paper.write(left + (place + 0.4) * wide / number, y, text, scale=0.9, bold=True, align="middle"))
    y += 1.8 * paper.size
    for statement in statements:
        parts = [paper.random.uniform(0.2, 1) for _ in answers]
        named, bottom = paper.flow(Area(frame.x0, y, left - paper.size, frame.y1), y, statement, 0.95)
        x = left
        for place, part in enumerate(parts):
            share, end = 100 * part / sum(parts), x + part / sum(parts) * wide
            paper.box(x, y, end, y + 1.3 * paper.size, COLOURS[colours[place]], fill=True)
            text = f"{share:.0f}{paper.pick('%', '')}"
            span = paper.write((x + end) / 2, y, text, scale=0.9, align="middle", colour=(255, 255, 255))
            slots = {"x": statement, "s": answers[place], "m": "share"}
            paper.ask("value", paper.say("share_of", **slots), span, named, heads[place])
            x = end
        y = max(bottom, y + 1.9 * paper.size) + 0.4 * paper.size
    return y


@block
def pie(paper: Paper, frame: Area, y: float) -> float:
    """Draw a pie chart with a legend beside it or names around it, and shares."""
    data = chart_data(paper, 6, 1, True)
    kind, measure, names = data.kind, data.measure, data.names
    colours = paper.random.sample(list(COLOURS), len(names))
    parts = [paper.random.uniform(0.2, 1) for _ in names]
    total, angle = sum(parts), -90.0
    radius = min(frame.width * 0.3, 10 * paper.size)
    centre = (frame.x0 + radius + paper.size, y + radius + paper.size)
    shares = [100 * part / total for part in parts]
    beside = paper.chance(0.5)
    spans: list[tuple[Span, Span]] = []
    for place, (name, share) in enumerate(zip(names, shares, strict=True)):
        colour, turn = COLOURS[colours[place]], angle + 1.8 * share
        corners = (centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius)
        paper.shapes.append(("pie", (*corners, angle, angle + 3.6 * share), colour, 1))
        angle += 3.6 * share
        x, at = centre[0] + radius + 2 * paper.size, y + (1 + 1.9 * place) * paper.size
        paper.box(x, at, x + 0.9 * paper.size, at + 0.9 * paper.size, colour, fill=True)
        label = paper.write(x + 1.4 * paper.size, at, name)
        text = f"{share:.{paper.pick(0, 1)}f}%"
        if beside:
            figure = paper.write(paper.boxes[-1][2] + paper.size, at, text)
        else:
            far = math.radians(turn)
            right, down = 0.65 * radius * math.cos(far), 0.65 * radius * math.sin(far) - 0.6 * paper.size
            spot = (centre[0] + right, centre[1] + down)
            figure = paper.write(*spot, text, align="middle", colour=(255, 255, 255))
        spans.append((label, figure))
        paper.ask("value", paper.say("value", x=name, k=kind, m=measure), figure, label)
        paper.ask("which", paper.say("which_value", v=text, k=kind, m=measure), label, figure)
        ask_legend(paper, kind, colours[place], label)
    order = sorted(range(len(names)), key=lambda place: shares[place])
    for wording, place in (("highest", order[-1]), ("lowest", order[0])):
        paper.ask(wording, situated(paper, data, paper.say(wording, k=kind, m=measure)), spans[place][0])
    paper.ask("peak", paper.say("peak", m=measure, k=kind), spans[order[-1]][1])
    return y + max(2 * radius + 2 * paper.size, (2 + 1.9 * len(names)) * paper.size)


@block
def chart_map(paper: Paper, frame: Area, y: float) -> float:
    """Draw areas with names and numbers, like a map."""
    bottom = min(frame.y1, y + 26 * paper.size)
    names = paper.distinct(paper.city, 6)
    for place, name in enumerate(names):
        x0 = frame.x0 + place % 3 * frame.width / 3
        y0 = y + place // 3 * (bottom - y) / 2
        shade = paper.shade(140, 235)
        paper.box(x0, y0, x0 + frame.width / 3, y0 + (bottom - y) / 2, shade, fill=True)
        spot = (x0 + 0.15 * frame.width / 3, y0 + paper.random.uniform(0.2, 0.6) * (bottom - y) / 2)
        label = paper.write(*spot, name, colour=(20, 20, 20))
        text = paper.pick(paper.percent(), paper.value("int"))
        figure = paper.write(spot[0], spot[1] + 1.3 * paper.size, text, colour=(20, 20, 20))
        paper.ask("value", paper.say("value", x=name, k="region", m="value"), figure, label)
    return bottom + 0.5 * paper.size
