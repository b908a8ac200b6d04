"""What is written on paper: forms, letters, receipts and invoices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from markupsafe import Markup

from ...bills import goods_of, sums_of
from ...words import lowered, vocabulary
from ..sheet import Mark, PageFamily, PageSheet, layouts, variants, wordings

BOLD, RULED = "font-weight:bold", "text-decoration:underline"
ARRANGEMENTS = ("inline", "aligned", "underlined", "above", "boxed", "tabled", "leaders", "typed", "running", "combed")
HELD_ARRANGEMENTS = ("captioned", "numbered", "banded", "staggered")
HELD_HEADS = ("banner", "sidebar")

# ---- A label and its value, arranged in the many ways in which forms do it: templates/fields -------------------------


class Field(NamedTuple):
    """A label and what is written for it; value None where it was left empty."""

    label: Mark
    value: Mark | None

    @property
    def shown(self) -> Mark | Markup:
        return self.value or Markup("&nbsp;")


class Pen(NamedTuple):
    """How labels and values look on one page."""

    label: str
    value: str
    separator: str
    case: str


def pen_for(sheet: PageSheet) -> Pen:
    """Draw the look of labels and values once a page: bold, small, another typeface, handwriting, capitals."""
    label = sheet.pick("", "", BOLD, "font-style:italic", "font-size:.85em", "color:#444")
    value = sheet.pick("", "", "", BOLD, "font-style:italic")
    if sheet.chance(0.4):
        manner = sheet.random.choices(("mono", "hand", "serif", "sans"), (6, 1.5, 1, 1))[0]
        value += f";font-family:'{sheet.face(manner)}'" + (";font-size:1.25em" if manner == "hand" else "")
    separator = sheet.pick(":", ":", ":", ":", "", "", ".", " -", " =")
    return Pen(label, value, separator, sheet.pick("as", "as", "as", "as", "upper", "upper", "title"))


def cased(text: str, case: str) -> str:
    return {"upper": text.upper(), "title": text.title()}.get(case, text)


def make_field(sheet: PageSheet, pen: Pen, label: str, kind: str, empty: float = 0.0) -> Field:
    """A label with a value of its kind, asked for."""
    shown = cased(label, pen.case)
    label_mark = sheet.mark(shown + ("" if shown.endswith(("?", ".")) else pen.separator), pen.label)
    if sheet.chance(empty):
        return Field(label_mark, None)
    value = sheet.mark(sheet.value(kind), pen.value)
    sheet.ask_field(label, kind, value, label_mark)
    return Field(label_mark, value)


def make_fields(sheet: PageSheet, n: int, empty: float = 0.0, pen: Pen | None = None) -> list[Field]:
    """n labels with values."""
    pen = pen or pen_for(sheet)
    return [make_field(sheet, pen, *pair, empty) for pair in sheet.labels(n)]


def arrange(sheet: PageSheet, name: str, fields: list[Field], gap: int) -> Markup:
    """Fields as the template of this name sets them, which draws its own lots. gap: between rows, in pixels."""
    return sheet.render(f"fields/{name}", fields=fields, gap=gap, rows=partial(rows_of, sheet, fields))


def rows_of(sheet: PageSheet, fields: list[Field], *lengths: int) -> Iterator[list[Field]]:
    """Fields in rows, the length of each drawn by lot."""
    left = list(fields)
    while left:
        length = sheet.pick(*lengths)
        yield left[:length]
        left = left[length:]


# ---- Forms -----------------------------------------------------------------------------------------------------------


def head(sheet: PageSheet) -> Markup:
    """The title with or without a firm and a frame."""
    title = cased(sheet.word("documents") if sheet.chance(0.7) else sheet.heading(), sheet.pick("as", "upper", "upper"))
    look = f"{sheet.larger(1.1, 1.9, 2)};font-weight:{sheet.pick('bold', 'bold', 'normal')}"
    context: dict[str, object] = {"title": sheet.titled(title, f"{look};{sheet.pick('', '', RULED)}")}
    context |= {"firm": None, "address": None, "side": sheet.pick("left", "center", "center", "center")}
    if sheet.chance(0.6):
        context["firm"] = sheet.asked("title", "form.firm", sheet.company(), sheet.pick("", BOLD, "font-size:1.2em"))
        context["address"] = f"{sheet.street()}, {sheet.city()}" if sheet.chance(0.4) else None
    frame = sheet.pick("", "", "border:1px solid #000;padding:6px", "background:#222;color:#fff;padding:6px")
    return sheet.render("forms/head", firm_first=sheet.chance(0.6), frame=frame, **context)


def ticks(sheet: PageSheet) -> Markup:
    """A question with boxes to tick; what is ticked can be asked."""
    label = sheet.mark(sheet.word("sections") + sheet.pick(":", "?", ""))
    marks = sheet.mark_all(*sheet.some("statuses", sheet.between(2, 5)))
    chosen, choices = sheet.random.choice(marks), []
    for mark in marks:
        sign = Markup(sheet.pick("X", "x", "&#10003;") if mark is chosen else "&nbsp;")
        choices.append((mark, sign, mark is chosen, sheet.chance(0.8)))
    sheet.ask("choice", "form.ticked", chosen, label, L=label.text.rstrip(":?"))
    return sheet.render("forms/ticks", label=label, style=sheet.pick("box", "line", "round"), choices=choices)


def section(sheet: PageSheet, pen: Pen, arrangement: str, gap: int) -> Iterator[Markup]:
    """Fields, with a heading above and something else below them now and then."""
    if sheet.chance(0.45):
        name = cased(sheet.word("sections"), sheet.pick("as", "upper", pen.case))
        bar = sheet.pick("", "", "border-top:1px solid #000", "background:#ddd;padding:2px 4px")
        title = sheet.asked("place", "form.section", name, sheet.pick(BOLD, RULED), L=name, l=name.lower())
        yield sheet.render("forms/section", title=title, gap=gap, bar=bar)
    yield arrange(sheet, arrangement, make_fields(sheet, sheet.between(2, 12), sheet.pick(0.05, 0.25), pen), gap)
    extra = sheet.random.random()
    if extra < 0.15:
        yield sheet.render("forms/paragraph", text=sheet.paragraph(sheet.between(1, 4)))
    elif extra < 0.3:
        yield ticks(sheet)


def form(sheet: PageSheet) -> None:
    """A whole form. The first section is set as the layout says, the others as any arrangement of the same split."""
    sheet.set_manner(mono=4, sans=4, serif=3)
    pen, gap, parts = pen_for(sheet), sheet.between(1, 9), [head(sheet)]
    room = sheet.height - 2 * sheet.padding
    others = ARRANGEMENTS if sheet.layout in ARRANGEMENTS else HELD_ARRANGEMENTS
    for number in range(max(1, round(room / (sheet.size * 1.4) / sheet.random.uniform(8, 22)))):
        same = number == 0 or sheet.chance(0.5)
        parts += section(sheet, pen, sheet.layout if same else sheet.pick(*others), gap)
    sheet.put(frame=sheet.pick("", "", "", "border:1px solid #000;padding:8px"), parts=parts)


# ---- Letters: running text with facts inside it ----------------------------------------------------------------------


def telling(sheet: PageSheet, facts: int) -> Markup:
    """Paragraphs in which some sentences carry a fact that can be asked for."""
    paragraphs = []
    for label, kind in [pair for pair in sheet.labels(facts + 14) if pair[1] not in ("text", "yesno", "word")][:facts]:
        plain = label.rstrip(".")
        name, value = sheet.mark_all(lowered(plain), sheet.value(kind))
        sentence = Markup(sheet.word("letter.facts"))
        fact = sentence.format(value, name) if sentence.startswith("We") else sentence.format(name, value)
        paragraphs.append((sheet.paragraph(sheet.between(0, 2)), fact, sheet.paragraph(sheet.between(0, 1))))
        sheet.ask("field", wordings("field")[9:] + wordings(f"by_kind.{kind}") * 3, value, name, L=plain)
    return sheet.render("letters/telling", paragraphs=paragraphs)


def start_letter(sheet: PageSheet) -> None:
    sheet.set_manner(mono=4, serif=4, sans=2)
    sheet.padding, sheet.cropped = sheet.between(30, 90), sheet.chance(0.4)


def closing(sheet: PageSheet) -> Markup:
    name = sheet.asked("field", "letter.signer", sheet.name())
    job = sheet.asked("field", "letter.job", sheet.word("jobs"), "", name, n=name.text)
    hand = sheet.face("hand") if sheet.chance(0.6) else ""
    return sheet.render("letters/closing", name=name, job=job, hand=hand, words=sheet.word("letter.closings"))


def letter(sheet: PageSheet) -> None:
    start_letter(sheet)
    lead, look = sheet.mark(sheet.pick("Re:", "Subject:", "RE:")), sheet.pick(BOLD, RULED)
    sheet.put(lead=lead, subject=sheet.asked("field", "letter.subject", sheet.heading(), look, lead))
    texts = sheet.name(), sheet.company(), sheet.street(), f"{sheet.city()}, {sheet.value('zip')}"
    asks = ("field", "letter.to", 0, 0, "n"), ("field", "letter.firm", 1, 0, "n"), ("field", "letter.street", 2, 0, "n")
    sheet.put(to=sheet.listed([texts], *asks)[0], date=sheet.asked("field", "letter.date", sheet.date()))
    sheet.put(head_side=sheet.pick("center", "left", "right"), date_side=sheet.pick("left", "right"))
    sheet.put(sender=sheet.company(), address=f"{sheet.street()}, {sheet.city()}")
    sheet.put(text=telling(sheet, sheet.between(2, 8)), closing=closing(sheet))


def memo(sheet: PageSheet) -> None:
    start_letter(sheet)
    look = f"{sheet.larger(1.2, 2)};font-weight:bold;letter-spacing:{sheet.pick(0, 0, 3)}px"
    pen = pen_for(sheet)._replace(separator=":")
    fields = [make_field(sheet, pen, *pair) for pair in sheet.some("letter.memo_fields", sheet.between(4, 6))]
    sheet.put(title=sheet.titled(sheet.word("letter.memos"), look), side=sheet.pick("left", "center"), fields=fields)
    sheet.put(text=telling(sheet, sheet.between(3, 9)), closing=closing(sheet) if sheet.chance(0.3) else "")


def minutes(sheet: PageSheet) -> None:
    """Kept aside: minutes with numbered points, who does what until when."""
    start_letter(sheet)
    rows = [(sheet.sentence(2, 4), sheet.name(), sheet.date()) for _ in range(sheet.between(4, 11))]
    points = sheet.listed(rows, ("lookup", "letter.who", 1, 0, "t"), ("lookup", "letter.until", 2, 0, "t"))
    sheet.put(points=[(task, sheet.paragraph(1), who, until) for task, who, until in points])
    sheet.put(title=sheet.titled(f"Minutes: {sheet.heading()}"), present=", ".join(sheet.name() for _ in range(4)))


# ---- Receipts and invoices -------------------------------------------------------------------------------------------


def shop(sheet: PageSheet, style: str = "") -> Markup:
    """Name and address of the seller."""
    text = cased(sheet.company(), sheet.pick("as", "upper"))
    name = sheet.asked("title", "sale.shop", text, f"{sheet.larger(1.1, 1.8)};font-weight:bold")
    context = {"name": name, "street": sheet.asked("field", "sale.street", sheet.street()), "style": style}
    context |= {"town": sheet.mark(f"{sheet.value('zip')} {sheet.city()}")}
    context |= {"phone": sheet.asked("field", "sale.phone", sheet.value("phone"))}
    return sheet.render("sales/shop", lead=sheet.pick("Tel:", "Phone", "T.", "TEL"), **context)


def bill(sheet: PageSheet, names: Sequence[str], dearest: float, till: bool, german: bool) -> list[dict[str, Mark]]:
    """Goods and sums as marks. Lines: thing, count, each (the price of one), price; the sums are put."""

    def money(value: float, sign: str = sheet.currency) -> str:
        text = f"{value:,.2f}"
        return f"{text.translate(str.maketrans(',.', '.,'))} EUR" if german else f"{sign}{text}"

    goods, case = goods_of(sheet.random, names, dearest), sheet.pick("as", "upper", "as")
    lines = []
    for one in goods:
        marks = sheet.mark_all(cased(one.thing, case), one.count, money(one.price), money(one.price * one.count))
        lines.append(dict(zip(("thing", "count", "each", "price"), marks, strict=True)))
    shown = []
    for one in sums_of(sheet.random, goods, money, till, "german." if german else ""):
        look = f"{BOLD};{sheet.pick('', 'font-size:1.2em')}" if one.kind == "total" else ""
        label = sheet.mark(one.label if sheet.chance(0.6) else one.label.upper(), look)
        value = sheet.mark(one.value, look)
        sheet.ask_field(one.label, "money", value, label)
        shown.append((label, value))
    sheet.put(sums=shown)
    return lines


def receipt(sheet: PageSheet) -> None:
    """A till roll. slip: a narrow column; wide: over the page; twoline: price under the name; coded: numbers first."""
    sheet.set_manner(mono=6, sans=3, serif=1)
    if sheet.chance(0.6) and sheet.width > sheet.height:
        sheet.turn()
    lead, number = sheet.mark_all(sheet.pick("Date:", "DATE", "Date", "Datum"), sheet.word("sale.numbers"))
    date = sheet.asked("field", "sale.date", sheet.date(), "", lead)
    sheet.put(lead=lead, date=date, time=sheet.asked("field", "sale.time", sheet.value("time"), "", date))
    sheet.put(bill=number, code=sheet.asked("field", "sale.number", sheet.value("code"), "", number))
    names = vocabulary("items") + vocabulary("dishes")
    known = sheet.random.sample(names, sheet.between(3, max(5, sheet.height // 40)))
    lines = bill(sheet, known, 60, till=True, german=sheet.chance(0.2))
    for line in lines:
        sheet.ask("value", "price", line["price"], line["thing"], I=line["thing"].text)
        if sheet.chance(0.4):
            sheet.ask("value", "count_of", line["count"], line["thing"], I=line["thing"].text)
    codes, room = [sheet.between(10000, 999999) for _ in lines], sheet.width - 2 * sheet.padding
    widths = {"slip": sheet.between(220, 320), "twoline": sheet.between(240, 380), "dotted": 340}
    sheet.put(lines=lines, codes=codes, width=min(widths.get(sheet.layout, room), room), fields=make_fields(sheet, 2))
    sheet.put(rule=sheet.pick("-" * 32, "=" * 30, "*" * 30, ""), thanks=sheet.word("sale.thanks"))
    sheet.put(text=sheet.sentence(3, 8), shop=shop(sheet, f"text-align:{sheet.pick('center', 'center', 'left')}"))


def invoice(sheet: PageSheet) -> None:
    """Seller, buyer, fields, lines, sums; one in five is German; the head differs by layout."""
    sheet.set_manner(sans=6, serif=3, mono=2)
    german, accent = sheet.chance(0.2), sheet.pick("#000", "#333", sheet.hue(20, 45), sheet.hue(20, 45))
    look = f"font-size:2em;color:{accent};font-weight:{sheet.pick('bold', 'normal')}"
    title = "Rechnung" if german else sheet.word("sale.titles")
    sheet.put(accent=accent, title=sheet.titled(title, look), seller=shop(sheet))
    known = HELD_ARRANGEMENTS if sheet.layout in HELD_HEADS else ARRANGEMENTS
    arrangement = sheet.pick(*(name for name in known if name not in ("combed", "running")))
    fields = make_fields(sheet, sheet.between(4, 8), 0.05)
    sheet.put(block=arrange(sheet, arrangement, fields, sheet.between(1, 5)))
    lead, buyer = sheet.mark_all("Kunde" if german else sheet.word("sale.buyers"), sheet.company())
    sheet.ask_field(lead.text, "company", buyer, lead)
    sheet.put(lead=lead, buyer=buyer, street=sheet.street(), city=sheet.city())
    heads = "Beschreibung|Menge|Preis|Betrag" if german else sheet.word("sale.columns")
    columns = sheet.mark_all(*heads.split("|"))
    names = sheet.random.sample(vocabulary("services") + vocabulary("items"), sheet.between(2, sheet.height // 50))
    lines = [list(line.values()) for line in bill(sheet, names, 900, till=False, german=german)]
    for thing, *cells in lines:
        for column, cell in zip(columns[1:], cells, strict=True):
            sheet.ask("cell", "cell", cell, (thing, column), r=thing.text, c=column.text.lower())
    rules = (f"border:1px solid {accent};padding:3px 6px", "border-bottom:1px solid #ccc;padding:4px 6px")
    top = sheet.pick(f"background:{accent};color:#fff", "border-bottom:2px solid", "background:#ddd", "")
    sheet.put(columns=columns, lines=lines, cell=sheet.pick(*rules, "padding:3px 6px"), top=top)
    sheet.put(striped=sheet.chance(0.3), side=sheet.pick("auto", "auto", "0"), text=sheet.paragraph(1))


FAMILIES = {
    "forms": PageFamily(
        24, variants(form, "forms/form", *ARRANGEMENTS), variants(form, "forms/form", *HELD_ARRANGEMENTS)
    ),
    "letters": PageFamily(8, layouts("letters", letter, memo), layouts("letters", minutes)),
    "receipts": PageFamily(
        10,
        variants(receipt, "sales/receipt", "slip", "wide", "twoline", "coded"),
        variants(receipt, "sales/receipt", "dotted"),
    ),
    "invoices": PageFamily(
        12, variants(invoice, "sales/{}", "letterhead", "split", "centered"), variants(invoice, "sales/{}", *HELD_HEADS)
    ),
}
