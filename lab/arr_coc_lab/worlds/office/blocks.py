"""The blocks that pages are made of. Each writes into a frame of a `Paper`, asks about it, and returns where it ends.

    @block
    def heading(paper, frame, y, **how) -> float

`how` holds the options of `layouts.toml` as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import FunctionType

from arr_coc.knowing.language.tables import read_table

from .paper import Area, Paper, Span
from .speech import DATA, PageField, choices

Block = Callable[..., float]
BLOCKS: dict[str, Block] = {}
TABLES: dict[str, dict[str, list[list[str]]]] = read_table(DATA / "values.toml")["tables"]


def block(write: FunctionType) -> FunctionType:
    BLOCKS[write.__name__] = write
    return write


# Texts ----------------------------------------------------------------------------------------------------------------


@block
def heading(paper: Paper, frame: Area, y: float, small: str = "", big: str = "") -> float:
    scale = 1.1 if small else 2.0 if big else paper.random.uniform(1.3, 1.8)
    text = paper.heading() if paper.language == "en" else paper.prose_words(2, 5).capitalize()
    if paper.extent(text, scale, True) > frame.width:
        text = " ".join(text.split()[:3])
    at, align = frame.anchor(paper.chance(0.4))
    span = paper.write(at, y, text, scale=scale, bold=True, align=align)
    paper.ask("title", paper.say("title"), span)
    return y + 1.6 * scale * paper.size


@block
def letterhead(paper: Paper, frame: Area, y: float, middle: str = "") -> float:
    """Draw a company with its address, phone and site, without labels or with short ones."""
    at, align = frame.anchor(bool(middle))
    name = paper.company()
    name = name.upper() if paper.chance(0.3) else name
    company = paper.write(at, y, name, scale=1.3, bold=True, align=align, colour=paper.accent)
    paper.ask("company", paper.say("seller"), company)
    lines = [paper.pick("Reg. no. ", "(", "Co. No. ", "GST ID: ") + paper.value("code")] if paper.chance(0.25) else []
    street, town = paper.street(), f"{paper.value('zip')} {paper.city()}"
    place = [street + paper.pick(",", ""), town] if paper.chance(0.5) else [f"{street}, {town}"]
    phone, mark = paper.value("phone") if paper.chance(0.7) else "", paper.pick("Tel. ", "Phone: ", "T ", "", "Tel:")
    site = f"www.{paper.invented().lower()}.{paper.pick('com', 'de', 'org', 'net')}" if paper.chance(0.5) else ""
    spans: dict[str, Span] = {}
    y += 1.9 * paper.size
    for text in filter(None, (*lines, *place, phone and mark + phone, site)):
        spans[text] = paper.write(at, y, text, align=align, scale=0.9)
        y += 1.35 * paper.size
    first, last = spans[place[0]], spans[place[-1]]
    paper.ask("address", paper.say("where"), Span(first.first, last.end, " ".join(spans[one].text for one in place)))
    if phone:
        paper.ask("phone", paper.say("call"), paper.part(spans[mark + phone], phone))
    if site:
        paper.ask("site", paper.say("site"), spans[site])
    return y


@block
def address(paper: Paper, frame: Area, y: float) -> float:
    for text in (paper.name(), paper.company(), paper.street(), f"{paper.value('zip')} {paper.city()}"):
        paper.write(frame.x0, y, text)
        y += 1.35 * paper.size
    return y


@block
def prose(paper: Paper, frame: Area, y: float, n: str = "3", middle: str = "") -> float:
    text = " ".join(f"{paper.prose_words(5, 14).capitalize()}." for _ in range(int(n)))
    return paper.flow(frame, y, text, align="middle" if middle else "left")[1]


@block
def facts(paper: Paper, frame: Area, y: float, n: str = "3", bullets: str = "", big: str = "") -> float:
    """Draw sentences that hold one fact each, between others that hold none."""
    scale, rows = 1.35 if big else 1.0, choices(f"facts.{paper.language}")
    for number, (sentence, *asks) in enumerate(paper.random.sample(rows, min(int(n), len(rows)))):
        kinds = [piece.split("}")[0] for piece in sentence.split("{")[1:]]
        values = {kind: paper.value(kind) for kind in kinds}
        text = sentence.format(**values)
        if bullets:
            text = f"{paper.pick('•', '-', f'{number + 1}.')} {text}"
        elif paper.chance(0.4):
            text = f"{paper.prose_words(4, 9).capitalize()}. {text}"
        span, y = paper.flow(frame, y, text, scale)
        if paper.asking == paper.language:
            paper.ask("fact", paper.roughened(paper.random.choice(asks)), paper.part(span, values[kinds[0]]))
        y += 0.4 * paper.size if bullets else 0
    return y


@block
def sign(paper: Paper, frame: Area, y: float) -> float:
    """Draw a signature: a name, often with a job below it and a date beside it."""
    y += paper.size
    name = paper.name()
    if paper.chance(0.5):
        paper.write(frame.x0, y, name.split()[-1], hand=True, scale=1.5)
        y += 2.2 * paper.size
    span = paper.write(frame.x0, y, name)
    paper.ask("name", paper.say("signer"), span)
    y += 1.35 * paper.size
    job = paper.write(frame.x0, y, paper.value("job"))
    paper.ask("job", paper.say("post", n=name), job, span)
    return y + 1.35 * paper.size


@block
def source(paper: Paper, frame: Area, y: float) -> float:
    form = paper.random.choice(choices("source.en"))
    slots = {"c": paper.company(), "y": paper.value("year"), "i": paper.value("int"), "m": paper.value("month")}
    paper.write(frame.x0, y, form.format(**slots), scale=0.8)
    return y + 1.2 * paper.size


@block
def contents(paper: Paper, frame: Area, y: float) -> float:
    number = paper.between(1, 9)
    for chapter in range(paper.between(6, 12)):
        title = paper.prose_words(2, 5).capitalize()
        lead = f"{chapter + 1} " if paper.chance(0.5) else ""
        span = paper.write(frame.x0, y, f"{lead}{title}")
        page = paper.write(frame.x1, y, str(number), align="right")
        paper.ask("page", paper.say("page_of", t=title), page, span)
        number += paper.between(2, 30)
        y += 1.6 * paper.size
    return y


@block
def figures(paper: Paper, frame: Area, y: float) -> float:
    """Draw grey pictures with captions."""
    for number in paper.random.sample(range(1, 12), paper.between(2, 3)):
        paper.box(frame.x0, y, frame.x1, y + 7 * paper.size, paper.soft, fill=True)
        y += 7.4 * paper.size
        text = paper.prose_words(3, 8).capitalize()
        forms = choices(f"figures.{paper.language}")
        span, y = paper.flow(frame, y, paper.random.choice(forms).format(n=number, t=text), 0.9)
        paper.ask("figure", paper.say("figure", v=str(number)), paper.part(span, text))
        y += paper.size
    return y


@block
def values(
    paper: Paper, frame: Area, y: float, scope: str = "letter", n: str = "2", big: str = "", middle: str = ""
) -> float:
    """Draw values without labels, recognisable only by their form."""
    at, align = frame.anchor(bool(middle))
    kinds: set[str] = set()
    for field in paper.fields(scope, 3 * int(n)):
        if field.kind in kinds or field.kind in ("text", "code", "int") or not field.asks.get(paper.asking):
            continue
        kinds.add(field.kind)
        span = paper.write(at, y, paper.value(field.kind), scale=1.6 if big else 1.0, align=align, bold=bool(big))
        paper.ask(field.kind, paper.question_about(field, marked=False), span)
        y += (2.2 if big else 1.5) * paper.size
        if len(kinds) == int(n):
            break
    return y


# Labels and values ----------------------------------------------------------------------------------------------------


@block
def pairs(
    paper: Paper, frame: Area, y: float, scope: str = "any", n: str = "6", style: str = "beside", columns: str = "1",
    hand: str = "", ruled: str = "",
) -> float:  # fmt: skip
    """Draw labels with their values: beside, inline, under, above, far, on lines or in boxes."""
    fields = paper.fields(scope, int(n))
    if style in ("under", "above", "boxed"):
        return _grid(paper, frame, y, fields, style, int(columns))
    if style == "inline" and paper.chance(0.25):
        return _run(paper, frame, y, fields)
    mark = paper.pick(":", ":", "", " -", ".") if style != "far" else paper.pick("", "", ":")
    bold, empty = paper.chance(0.4), paper.random.randrange(max(2, len(fields) + 2))
    widest = max([paper.extent(field.label + mark, bold=bold) for field in fields], default=0)
    tab = frame.x0 + min(widest + 1.2 * paper.size, 0.6 * frame.width)
    rows = 1.3 if paper.chance(0.3) else paper.random.uniform(1.5, 2.3)
    for number, field in enumerate(fields):
        label = paper.write(frame.x0, y, field.label + mark, bold=bold)
        long = field.kind in ("text", "word", "item") and paper.chance(0.3)  # several lines
        value = paper.prose_words(6, 22).capitalize() if long else paper.value(field.kind)
        written = bool(hand) and paper.chance(0.8)
        end = paper.boxes[-1][2] + 0.5 * paper.size
        x = {"beside": tab, "inline": end, "line": max(end, tab if paper.chance(0.5) else end), "far": frame.x1}[style]
        space = frame.x1 - x if style != "far" else frame.x1 - end
        if number == empty and style == "line":  # nothing was filled in
            paper.line(x, y + 1.2 * paper.size, frame.x1, y + 1.2 * paper.size)
        elif paper.extent(value, hand=written) > space and style != "far":
            span, y = paper.flow(Area(min(x, frame.x0 + 0.5 * frame.width), y, frame.x1, frame.y1), y, value)
            y -= 1.35 * paper.size
            paper.ask(field.kind, paper.question_about(field), span, label)
        else:
            timed = field.kind == "date" and style == "inline" and paper.chance(0.3)
            text = f"{value} {paper.time()}" if timed else value
            span = paper.write(x, y, text, align="right" if style == "far" else "left", hand=written)
            if style == "line":
                paper.line(x, y + 1.2 * paper.size, frame.x1, y + 1.2 * paper.size)
            paper.ask(field.kind, paper.question_about(field), paper.part(span, value), label)
        y += rows * paper.size
        if ruled:
            paper.line(frame.x0, y - 0.25 * paper.size, frame.x1, y - 0.25 * paper.size)
    return y


def _run(paper: Paper, frame: Area, y: float, fields: Sequence[PageField]) -> float:
    """Draw labels and values one after the other in the same lines."""
    x, mark = frame.x0, paper.pick(":", ":", "")
    for field in fields:
        value = paper.value(field.kind)
        if x > frame.x0 and x + paper.extent(f"{field.label}{mark} {value}") > frame.x1:
            x, y = frame.x0, y + 1.5 * paper.size
        label = paper.write(x, y, field.label + mark)
        span = paper.write(paper.boxes[-1][2] + 0.4 * paper.size, y, value)
        paper.ask(field.kind, paper.question_about(field), span, label)
        x = paper.boxes[-1][2] + paper.random.uniform(0.6, 2.5) * paper.size
    return y + 1.6 * paper.size


def _grid(paper: Paper, frame: Area, y: float, fields: Sequence[PageField], style: str, columns: int) -> float:
    """Draw labels above (or below) their values, in columns, with or without boxes."""
    wide, small = frame.width / columns, paper.random.uniform(0.75, 1.0)
    high = (3.0 if style == "boxed" else 3.2) * paper.size
    bold = paper.chance(0.4)
    for number, field in enumerate(fields):
        x, top = frame.x0 + number % columns * wide, y + number // columns * high
        if style == "boxed":
            paper.box(x, top, x + wide, top + high)
            x, top = x + 0.4 * paper.size, top + 0.15 * paper.size
        first, second = (1.25 * small, 0.0) if style != "above" else (0.0, 1.4)
        value = paper.value(field.kind)
        while paper.extent(value, bold=bold) > wide - 0.6 * paper.size and " " in value:
            value = value.rsplit(" ", 1)[0]
        label = paper.write(x, top + second * paper.size, field.label, scale=small)
        span = paper.write(x, top + first * paper.size, value, bold=bold)
        paper.ask(field.kind, paper.question_about(field), span, label)
    return y + math.ceil(len(fields) / columns) * high + 0.5 * paper.size


@block
def ticks(paper: Paper, frame: Area, y: float, columns: str = "3", n: str = "18") -> float:
    """Write a list of names, some with a mark in a box or on a line beside them."""
    make = paper.pick(paper.city, paper.company, paper.invented, paper.last_name, lambda: paper.word("items"))
    names, wide = paper.distinct(make, int(n)), frame.width / int(columns)
    behind, boxed, mark, share = (
        paper.chance(0.5),
        paper.chance(0.5),
        paper.pick("x", "X", "X", "XX"),
        paper.pick(0.3, 0.6),
    )
    hand, aligned = paper.chance(0.3), paper.chance(0.6)
    for number, name in enumerate(names):
        x, top = frame.x0 + number % int(columns) * wide, y + number // int(columns) * 1.8 * paper.size
        label = paper.write(x + (0 if behind else 2.2 * paper.size), top, name)
        right = paper.boxes[label.end - 1][2] + 0.6 * paper.size
        at = x if not behind else x + wide - 2.5 * paper.size if aligned else right
        if at < (x if not behind else right):
            continue
        (paper.box if boxed else paper.line)(
            at, top + (0 if boxed else 1.2 * paper.size), at + 1.4 * paper.size, top + 1.2 * paper.size
        )
        if paper.chance(share):
            span = paper.write(at + 0.3 * paper.size, top, mark, hand=hand)
            paper.ask("tick", paper.say("field", L=name), span, label)
    return y + (math.ceil(len(names) / int(columns)) * 1.8 + 0.5) * paper.size


@block
def cards(paper: Paper, frame: Area, y: float, n: str = "3") -> float:
    """Draw tiles of a dashboard: a large number, its name, often a change."""
    fields = paper.fields("metrics", int(n))
    wide, above = frame.width / int(n), paper.chance(0.5)
    high = 5.2 * paper.size
    for number, field in enumerate(fields):
        x = frame.x0 + number * wide
        paper.box(x, y, x + wide - 0.6 * paper.size, y + high)
        x += 0.6 * paper.size
        label = paper.write(x, y + (0.4 if above else 2.6) * paper.size, field.label, scale=0.9)
        span = paper.write(x, y + (1.6 if above else 0.4) * paper.size, paper.value(field.kind), scale=1.7, bold=True)
        paper.ask(field.kind, paper.question_about(field), span, label)
        if paper.chance(0.6):
            text = paper.pick("+", "-", "▲ ", "") + paper.percent()
            change = paper.write(x, y + 3.9 * paper.size, text, scale=0.85, colour=paper.accent)
            paper.ask("change", paper.say("change", L=field.label, l=field.label), change, label)
    return y + high + 0.6 * paper.size


@block
def code(paper: Paper, frame: Area, y: float, n: str = "14") -> float:
    """Draw lines of a file with constants, numbered or not."""
    numbered, form = paper.chance(0.6), paper.pick("{} = {}", "{}: {}", "{}={}", "export {}={}", "{} = {};")
    x = frame.x0 + (2.5 * paper.size if numbered else 0)
    words = choices("constants.en")
    for row in range(int(n)):
        if numbered:
            paper.write(frame.x0 + 1.5 * paper.size, y, str(row + 1), align="right", colour=paper.soft)
        if paper.chance(0.55):
            name = "_".join(paper.random.sample(words, paper.between(1, 3)))
            name = paper.pick(name.upper(), name.upper(), name)
            value = paper.value("constant")
            span = paper.write(x, y, form.format(name, value))
            answer = paper.part(span, value) or paper.part(span, f"{value};")
            paper.ask("constant", paper.say("constant", L=name), answer or (span if "=" not in form else None))
        elif paper.chance(0.6):
            paper.write(x, y, f"{paper.pick('#', '//', 'import', 'def', 'return')} {paper.words(1, 5).lower()}")
        y += 1.5 * paper.size
    return y


# Tables ---------------------------------------------------------------------------------------------------------------


@block
def table(paper: Paper, frame: Area, y: float, rows: str = "", ruled: str = "", spans: str = "") -> float:
    """Draw rows named by their first cell; sometimes with heads that span two columns."""
    languages = paper.random.choice(list(TABLES.values()))
    heads = languages.get(paper.language) or languages["en"]
    kept = max(2, min(len(heads), int(frame.width / (7 * paper.size))))
    heads = [heads[0], *paper.random.sample(heads[1:], kept - 1)]
    number = int(rows) if rows else paper.between(3, 9)
    first = paper.distinct(lambda: paper.value(heads[0][1]), number)
    return _rows(paper, frame, y, heads, first, bool(ruled) or paper.chance(0.5), bool(spans))


def _rows(
    paper: Paper, frame: Area, y: float, heads: Sequence[Sequence[str]], first: Sequence[str], ruled: bool, spans: bool
) -> float:
    wide, high = frame.width / len(heads), paper.random.uniform(1.45, 1.9) * paper.size
    numeric = ("money", "int", "percent", "big_int", "measure")
    right = [place > 0 and kind in numeric for place, (_, kind) in enumerate(heads)]

    def cell(row_y: float, place: int, text: str, bold: bool = False) -> Span:
        x = frame.x0 + (place + right[place]) * wide - (0.5 * paper.size if right[place] else 0)
        while paper.extent(text, bold=bold) > wide - 0.4 * paper.size and " " in text:
            text = text.rsplit(" ", 1)[0]
        return paper.write(x, row_y, text, align="right" if right[place] else "left", bold=bold)

    if spans and len(heads) > 3:
        paper.write(frame.x0 + 2 * wide, y, paper.prose_words(1, 2).title(), bold=True, align="middle")
        y += high
    tops = [cell(y, place, head, bold=True) for place, (head, _) in enumerate(heads)]
    paper.line(frame.x0, y + high - 2, frame.x1, y + high - 2, paper.ink)
    y += high
    numbers: list[list[tuple[float, Span, str]]] = [[] for _ in heads]
    for name in first:
        spans_of = [cell(y, 0, name)]
        for place, (head, kind) in enumerate(heads[1:], 1):
            spans_of.append(cell(y, place, paper.value(kind)))
            slots = {"C": head, "R": name, "c": head.lower() if paper.asking != "de" else head, "r": name}
            paper.ask("cell", paper.say("cell", **slots), spans_of[place], spans_of[0], tops[place])
            figure = _figure(spans_of[place].text)
            if figure is not None:
                numbers[place].append((figure, spans_of[0], head))
        if paper.chance(0.3):
            place = paper.between(1, len(heads) - 1)
            slots = {"k": heads[0][0].lower(), "C": heads[place][0], "v": spans_of[place].text}
            paper.ask("whose", paper.say("whose", c=heads[place][0].lower(), **slots), spans_of[0], spans_of[place])
        y += high
        if ruled:
            paper.line(frame.x0, y - 2, frame.x1, y - 2)
    for place, column in enumerate(numbers):
        if len(column) == len(first) and len({figure for figure, *_ in column}) == len(column) and paper.chance(0.5):
            ends = (("most", max(column)), ("least", min(column)))
            for wording, (_, span, head) in ends:
                slots = {"k": heads[0][0].lower(), "C": head, "c": head.lower()}
                paper.ask("extreme", paper.say(wording, **slots), span, tops[place])
    return y + 0.5 * paper.size


def _figure(text: str) -> float | None:
    digits = "".join(letter for letter in text if letter.isdigit() or letter in ".,")
    plain = len(text.replace(" ", "")) - len(digits) < 4 and any(map(str.isdigit, digits))
    try:
        return float(digits.replace(",", "")) if plain else None
    except ValueError:
        return None


@block
def entries(paper: Paper, frame: Area, y: float) -> float:
    """Draw transactions of an account: date, purpose, amount."""
    heads = {"en": ("Date", "Description", "Amount"), "de": ("Datum", "Buchungstext", "Betrag")}
    heads |= {"fr": ("Date", "Libellé", "Montant"), "es": ("Fecha", "Concepto", "Importe")}
    whom = paper.distinct(lambda: paper.pick(paper.company(), paper.value("item"), paper.name()), paper.between(4, 9))
    dates = [paper.date() for _ in whom]
    tab = frame.x0 + max(map(paper.extent, dates)) + 1.5 * paper.size
    for x, head, align in zip((frame.x0, tab, frame.x1), heads[paper.language], ("left", "left", "right"), strict=True):
        paper.write(x, y, head, bold=True, align=align)
    y += 1.6 * paper.size
    for name, date in zip(whom, dates, strict=True):
        when = paper.write(frame.x0, y, date)
        text = paper.write(tab, y, name)
        value = paper.pick("-", "", "+") + paper.amount(paper.random.uniform(1, 3000))
        amount = paper.write(frame.x1, y, value, align="right")
        if paper.boxes[text.end - 1][2] < paper.boxes[amount.first][0]:
            paper.ask("money", paper.say("price", I=name, i=name), amount, text)
            paper.ask("date", paper.say("when", t=name), when, text)
        y += 1.6 * paper.size
    return y


@block
def goods(paper: Paper, frame: Area, y: float, slim: str = "", ruled: str = "") -> float:
    """Draw items with number and price; on a slip in one or two columns."""
    number = paper.between(2, 8)
    items = paper.distinct(lambda: paper.pick(paper.value("item"), paper.word("items"), paper.word("services")), number)
    if not slim and paper.chance(0.75):
        heads = paper.random.choice(choices(f"goods.{paper.language}"))
        places = (frame.x0, frame.x0 + 3 * paper.size, frame.x0 + 0.72 * frame.width, frame.x1)
        for place, head in enumerate(heads):
            paper.write(places[place], y, head, bold=True, align="right" if place > 1 else "left")
        y += 1.6 * paper.size
    for name in items:
        count, price = paper.between(1, 9), paper.random.uniform(1, 400)
        amount = paper.amount(count * price)
        at = frame.x0
        if not slim or paper.chance(0.4):
            times = paper.write(at, y, f"{count}{paper.pick('', ' x', 'x')}")
            paper.ask("int", paper.say("count", I=name, i=name), times if times.text.isdigit() else None)
            at += 3 * paper.size
        thing = paper.write(at, y, name)
        if not slim:
            paper.write(frame.x0 + 0.72 * frame.width, y, paper.number(price, 2), align="right")
        span = paper.write(frame.x1, y, amount, align="right")
        if paper.boxes[thing.end - 1][2] < paper.boxes[span.first][0]:
            paper.ask("money", paper.say("price", I=name, i=name.lower()), span, thing)
        y += 1.6 * paper.size
        if ruled:
            paper.line(frame.x0, y - 3, frame.x1, y - 3)
    return y + 0.5 * paper.size


@block
def sums(paper: Paper, frame: Area, y: float, style: str = "", side: str = "", few: str = "") -> float:
    """Draw subtotal, tax, total and similar sums: beside, under, in boxes or in one row."""
    if side == "right" and frame.width > 20 * paper.size:
        frame = Area(frame.x1 - 16 * paper.size, frame.y0, frame.x1, frame.y1)
    net = paper.random.uniform(10, 9000)
    kinds = ["subtotal", "tax", "total"] if paper.chance(0.8) else ["total"]
    kinds[:0] = [kind for kind in ("discount", "shipping") if paper.chance(0.2)]
    kinds += ["paid", "balance"] if paper.chance(0.3) else []
    if few:
        kinds = [kind for kind in kinds if kind in ("total", "balance", "tax")]
    if paper.chance(0.15):
        kinds.sort(key=lambda kind: kind != "total")
    tax = paper.pick(0.05, 0.07, 0.19, 0.2) * net
    amounts = {"subtotal": net, "tax": tax, "total": net + tax, "paid": 0.4 * (net + tax), "balance": 0.6 * (net + tax)}
    amounts |= {"discount": 0.03 * net, "shipping": paper.random.uniform(3, 60)}
    columns = len(kinds) if style in ("row", "under") and frame.width > 9 * paper.size * len(kinds) else 1
    wide = frame.width / columns
    for number, kind in enumerate(kinds):
        alone = kind == "total" and "balance" not in kinds and paper.chance(0.4)
        label = paper.random.choice(choices(f"sums.{paper.language}.{'due' if alone else kind}"))
        scale = 1.3 if kind == "total" and paper.chance(0.5) else 1.0
        x, bold = frame.x0 + number % columns * wide, kind == "total"
        mark = paper.pick("", ":") if style != "boxed" else ""
        amount = paper.amount(amounts[kind])
        if style in ("row", "under", "boxed"):
            if style == "boxed":
                paper.box(x, y, x + wide, y + 3.1 * paper.size)
            named = paper.write(x + 4, y + 2, label + mark, scale=0.9)
            span = paper.write(x + 4, y + 1.4 * paper.size, amount, scale=scale, bold=bold)
            down = 3.3 * paper.size
        else:
            named = paper.write(x, y, label + mark, scale=scale, bold=bold)
            end = paper.boxes[-1][2]
            inline = style == "inline" or paper.chance(0.2)
            at, align = (end + 8, "left") if inline else (frame.x1, "right")
            span = paper.write(at, y, amount, scale=scale, bold=bold, align=align)
            down = 1.7 * scale * paper.size
        y += down if columns == 1 or number == len(kinds) - 1 else 0
        if paper.boxes[named.end - 1][2] < paper.boxes[span.first][0] or down > 2.5 * paper.size:
            field = PageField(label, "money", {paper.language: choices(f"sums.{paper.language}.{kind}")}, {})
            text = paper.question_about(field) if paper.asking == paper.language else paper.say(kind)
            paper.ask(kind, paper.say(kind) if paper.chance(0.5) else text, span, named)
    return y + 0.5 * paper.size


@block
def programme(paper: Paper, frame: Area, y: float) -> float:
    """Draw a schedule: time, title, often speaker and place."""
    hour, speakers = paper.between(7, 10), paper.chance(0.7)
    for _ in range(paper.between(4, 8)):
        at = paper.pick(f"{hour}:{paper.pick('00', '15', '30', '45')}", f"{hour:02d}.{paper.pick('00', '30')}")
        title = paper.prose_words(2, 5).capitalize()
        when = paper.write(frame.x0, y, at, bold=paper.chance(0.3))
        what = paper.write(frame.x0 + 5 * paper.size, y, title)
        paper.ask("time", paper.say("when", t=title), when, what)
        paper.ask("what", paper.say("what_at", v=at), what, when)
        if speakers:
            y += 1.3 * paper.size
            name = paper.name()
            who = paper.write(frame.x0 + 5 * paper.size, y, name, scale=0.9)
            paper.ask("name", paper.say("who", t=title), who, what)
            if paper.chance(0.6):
                room = paper.write(frame.x1, y, paper.pick(paper.filled("Room %##"), paper.city()), align="right")
                paper.ask("place", paper.say("room", t=title), room, what)
        hour += 1 + paper.chance(0.3)
        y += 1.8 * paper.size
    return y


# Screens --------------------------------------------------------------------------------------------------------------


@block
def menu(paper: Paper, frame: Area, y: float, upright: str = "") -> float:
    x = frame.x0
    for text in paper.some("ui", paper.between(4, 9)):
        if upright:
            paper.write(x, y, text)
            y += 1.9 * paper.size
        elif x + paper.extent(text) < frame.x1:
            paper.write(x, y, text)
            x += paper.extent(text) + 1.6 * paper.size
    return y + (0 if upright else 2 * paper.size)


@block
def mails(paper: Paper, frame: Area, y: float) -> float:
    """Draw a list of messages: sender, subject, time."""
    stacked = frame.width < 38 * paper.size
    for name in paper.distinct(paper.name, paper.between(5, 9)):
        subject, time = paper.prose_words(2, 6).capitalize(), paper.pick(paper.time(), paper.date())
        who = paper.write(frame.x0, y, name, bold=True)
        when = paper.write(frame.x1, y, time, align="right", scale=0.9)
        y += 1.4 * paper.size if stacked else 0
        what = paper.write(frame.x0 + (0 if stacked else 14 * paper.size), y, subject)
        y += 1.8 * paper.size
        if paper.boxes[what.end - 1][2] < paper.boxes[when.first][0] or stacked:
            paper.ask("subject", paper.say("mail_subject", n=name), what, who)
            paper.ask("time", paper.say("mail_time", n=name), when, who)
            paper.ask("name", paper.say("mail_from", t=subject), who, what)
    return y


@block
def shelf(paper: Paper, frame: Area, y: float) -> float:
    """Draw goods of a shop in a grid: a picture, a name, a price, often a rating."""
    columns, high = paper.between(2, 4), 11 * paper.size
    wide = frame.width / columns
    names = paper.distinct(lambda: paper.pick(paper.word("items"), paper.value("item")), 2 * columns)
    for place, name in enumerate(names):
        x, top = frame.x0 + place % columns * wide, y + place // columns * high
        paper.box(x, top, x + wide - paper.size, top + 6 * paper.size, paper.soft, fill=True)
        label = paper.write(x, top + 6.3 * paper.size, name)
        price = paper.write(x, top + 7.8 * paper.size, paper.money(300), bold=True, scale=1.1)
        paper.ask("money", paper.say("price", I=name, i=name.lower()), price, label)
        if paper.chance(0.5):
            paper.write(x, top + 9.2 * paper.size, paper.value("rating"), scale=0.8)
    return y + 2 * high
