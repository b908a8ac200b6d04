"""What is written on paper: forms, letters, receipts, invoices, cheques, tickets, and pages known by their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from ...bills import goods_of, sums_of
from ..sheet import Mark, PageFamily, PageSheet, layouts, variants
from ..words import lowered, vocabulary, wordings

BOLD, RULED = "font-weight:bold", "text-decoration:underline"
ARRANGEMENTS = ("inline", "aligned", "underlined", "above", "boxed", "tabled", "leaders", "typed", "running", "combed")
HELD_ARRANGEMENTS = ("captioned", "numbered", "banded", "staggered")

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
    slanted, small = "font-style:italic", "font-size:.85em"
    label = sheet.pick("", "", BOLD, slanted, small, "color:#444", "font-size:.9em;font-weight:bold")
    value = sheet.pick("", "", "", BOLD, slanted)
    if sheet.chance(0.4):
        manner = sheet.random.choices(("mono", "hand", "serif", "sans"), (6, 1.5, 1, 1))[0]
        value += f";font-family:'{sheet.face(manner)}'" + (";font-size:1.25em" if manner == "hand" else "")
    value += ";color:#1b2a8a" if sheet.chance(0.08) else ""
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
    text = sheet.value(kind)
    value = sheet.mark(text.upper() if sheet.chance(0.08) else text, pen.value)
    for _ in range(2 if sheet.chance(0.25) else 1):
        sheet.ask_field(label, kind, value, label_mark)
    return Field(label_mark, value)


def make_fields(
    sheet: PageSheet, n: int, empty: float = 0.0, pen: Pen | None = None, long: bool = False
) -> list[Field]:
    """n labels with values. long: whether sentences may stand as values."""
    pen = pen or pen_for(sheet)
    labels = [pair for pair in sheet.labels(n + 12) if long or pair[1] != "text"][:n]
    return [make_field(sheet, pen, *pair, empty) for pair in labels]


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


def logo(sheet: PageSheet, size: int = 34) -> Markup:
    """A plain mark of a firm: a disc, a shield or stripes."""
    return sheet.render("forms/logo", size=size)


def head(sheet: PageSheet) -> Markup:
    """The title with or without a firm, a logo, a frame; ranged left, centred or between two things."""
    title = cased(sheet.word("documents") if sheet.chance(0.7) else sheet.heading(), sheet.pick("as", "upper", "upper"))
    look = f"{sheet.larger(1.1, 1.9, 2)};font-weight:{sheet.pick('bold', 'bold', 'normal')}"
    context: dict[str, object] = {"title": sheet.titled(title, f"{look};{sheet.pick('', '', RULED)}")}
    context |= {"firm": None, "address": None, "side": sheet.pick("left", "center", "center", "center")}
    if sheet.chance(0.6):
        name = cased(sheet.fake.company(), sheet.pick("as", "upper"))
        context["firm"] = sheet.asked("title", "form.firm", name, sheet.pick("", BOLD, "font-size:1.2em"))
        if sheet.chance(0.4):
            context["address"] = f"{sheet.fake.street_address()}, {sheet.fake.city()}"
    context["picture"] = logo(sheet, sheet.between(24, 52)) if sheet.chance(0.35) else ""
    frame = sheet.pick(
        *("", "", "", "border:1px solid #000;padding:6px", "border-bottom:2px solid #000;padding-bottom:4px"),
        "border-top:3px double #000;border-bottom:3px double #000;padding:4px 0",
        "background:#222;color:#fff;padding:6px",
    )
    return sheet.render("forms/head", firm_first=sheet.chance(0.6), frame=frame, **context)


def ticks(sheet: PageSheet) -> Markup:
    """A question with boxes to tick; what is ticked can be asked."""
    label = sheet.mark(sheet.word("sections") + sheet.pick(":", "?", ""))
    marks = sheet.mark_all(*sheet.some("statuses", sheet.between(2, 5)))
    chosen, choices = sheet.random.choice(marks), []
    for mark in marks:
        sign = Markup(sheet.pick("X", "x", "&#10003;") if mark is chosen else "&nbsp;")
        choices.append((mark, sign, mark is chosen, sheet.chance(0.8)))
        if mark is not chosen and sheet.chance(0.3):
            sheet.ask_place(mark)
    sheet.ask("choice", "form.ticked", chosen, label, L=label.text.rstrip(":?"))
    return sheet.render("forms/ticks", label=label, style=sheet.pick("box", "line", "round"), choices=choices)


def small_table(sheet: PageSheet) -> Markup:
    """A few rows of figures inside a form: suppliers and costs, months and amounts."""
    pairs = sheet.labels_of(("money", "int", "date", "percent", "code"), 40)[: sheet.between(2, 4)]
    names = sheet.distinct(sheet.fake.company if sheet.chance(0.5) else sheet.fake.last_name, sheet.between(2, 6))
    columns = [sheet.mark(text, sheet.pick(BOLD, RULED)) for text, _ in pairs]
    rows = [sheet.mark_all(name, *(sheet.value(kind) for _, kind in pairs)) for name in names]
    for first, *cells in rows:
        for column, cell in zip(columns, cells, strict=True):
            if sheet.chance(0.6):
                sheet.ask("cell", "cell", cell, (first, column), r=first.text, c=column.text.lower())
    border = sheet.pick("", "border:1px solid #000", "border-bottom:1px solid #999")
    width = sheet.pick("100%", "70%", "auto")
    return sheet.render("forms/small_table", columns=columns, rows=rows, border=border, width=width)


def signatures(sheet: PageSheet, pen: Pen) -> Markup:
    """Lines to sign on, with the name typed under a scribble, and a date."""
    lines = []
    for label in sheet.some("form.signers", sheet.between(1, 4)):
        label_mark, date_mark = (
            sheet.mark(cased(text, pen.case) + pen.separator, pen.label) for text in (label, "Date")
        )
        scribbled = f"font-family:'{sheet.face('hand')}';{sheet.larger(1.2, 1.9, 2)}"
        value = sheet.mark(sheet.value("name"), scribbled if sheet.chance(0.5) else pen.value)
        date = sheet.mark(sheet.date(), pen.value)
        sheet.ask_field(label, "name", value, label_mark)
        sheet.ask("lookup", "form.signed", date, (label_mark, date_mark), n=value.text, L=label)
        lines.append((label_mark, value, date_mark, date))
    return sheet.render("forms/signatures", lines=lines)


def trimmings(sheet: PageSheet) -> Markup:
    """What is not part of the form: a fax line, a number up the margin, a stamp, a scribble, holes."""
    number = place = fax = stamp = scribble = None
    if sheet.chance(0.3):
        digits = "".join(sheet.random.choice("0123456789") for _ in range(8))
        number = sheet.asked("place", "form.margin", digits, f"font-weight:bold;{sheet.larger(1.1, 1.6)}")
        place = sheet.pick("right:6px;bottom:60px;writing-mode:vertical-rl", "right:30px;bottom:8px")
    if sheet.chance(0.15):
        fax = {"date": sheet.date(), "time": Markup(sheet.value("time")), "firm": sheet.fake.company().upper()}
        fax |= {"phone": Markup(sheet.value("phone")), "page": sheet.between(1, 9)}
    if sheet.chance(0.15):
        word = sheet.asked("place", "form.stamp", sheet.word("form.stamps"))
        right, bottom = sheet.between(10, 120), sheet.between(4, 40)
        stamp = {"word": word, "right": right, "bottom": bottom, "color": sheet.pick("#555", "#a22", "#225")}
    if sheet.chance(0.15):
        scribble = {"right": sheet.between(6, 90), "top": sheet.between(2, 14), "text": sheet.sentence(1, 3)}
    context = {"number": number, "place": place, "fax": fax, "stamp": stamp, "scribble": scribble}
    return sheet.render("forms/trimmings", holes=sheet.chance(0.1), hand=sheet.face("hand"), **context)


def section(sheet: PageSheet, pen: Pen, arrangement: str, gap: int) -> Iterator[Markup]:
    """Fields, with a heading above and something else below them now and then."""
    if sheet.chance(0.45):
        name = cased(sheet.word("sections"), sheet.pick("as", "upper", pen.case))
        look = sheet.pick(BOLD, RULED, "font-weight:bold;font-size:1.15em", "font-style:italic")
        over, under = "border-top:1px solid #000", "border-bottom:1px solid #000"
        bar = sheet.pick("", "", over, "background:#ddd;padding:2px 4px", under)
        title = sheet.asked("place", "form.section", name, look, L=name, l=name.lower())
        yield sheet.render("forms/section", title=title, gap=gap, bar=bar)
    fields = make_fields(sheet, sheet.between(2, 12), sheet.pick(0.05, 0.25), pen, long=True)
    yield arrange(sheet, arrangement, fields, gap)
    extra = sheet.random.random()
    if extra < 0.12:
        yield sheet.render("forms/paragraph", text=sheet.paragraph(sheet.between(1, 4)))
    elif extra < 0.26:
        yield ticks(sheet)
    elif extra < 0.36:
        yield small_table(sheet)
    elif extra < 0.42:
        yield sheet.render("forms/lines", n=sheet.between(2, 5))


def form(sheet: PageSheet) -> None:
    """A whole form. The first section is set as the layout says, the others as any arrangement of the same split."""
    sheet.set_manner(mono=4, sans=4, serif=3)
    if sheet.chance(0.5):
        sheet.padding = sheet.between(24, 80)
    pen, gap, parts = pen_for(sheet), sheet.between(1, 9), [head(sheet)]
    if sheet.chance(0.25):
        parts.append(sheet.render("forms/corner", fields=make_fields(sheet, 2, 0, pen)))
    room = sheet.height - 2 * sheet.padding
    others = ARRANGEMENTS if sheet.layout in ARRANGEMENTS else HELD_ARRANGEMENTS
    for number in range(max(1, round(room / (sheet.size * 1.4) / sheet.random.uniform(8, 22)))):
        same = number == 0 or sheet.chance(0.5)
        parts += section(sheet, pen, sheet.layout if same else sheet.pick(*others), gap)
    if sheet.chance(0.5):
        parts.append(signatures(sheet, pen))
    if sheet.chance(0.3):
        parts.append(sheet.render("forms/small_print", code=sheet.code(), text=sheet.sentence(4, 12)))
    frame = sheet.pick("", "", "", "border:1px solid #000;padding:8px", "border:2px solid #000;padding:10px")
    sheet.put(frame=frame, parts=parts, trimmings=trimmings(sheet), clutter="")


def archived(sheet: PageSheet) -> None:
    """A form of one of the arrangements, under an archive's footer, stamps, patterns and dashed rules."""
    sheet.layout = sheet.pick(*(HELD_ARRANGEMENTS if sheet.layout == "shelved" else ARRANGEMENTS))
    form(sheet)
    sheet.put(clutter=clutter(sheet, 0.8))


# ---- Letters, memos, fax covers, minutes: running text with facts inside it ------------------------------------------


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
    name = sheet.asked("field", "letter.signer", sheet.fake.name())
    job = sheet.asked("field", "letter.job", sheet.job(), "", name, n=name.text)
    hand = sheet.face("hand") if sheet.chance(0.6) else ""
    return sheet.render("letters/closing", name=name, job=job, hand=hand, words=sheet.word("letter.closings"))


def letter(sheet: PageSheet) -> None:
    start_letter(sheet)
    lead, look = sheet.mark(sheet.pick("Re:", "Subject:", "RE:")), sheet.pick(BOLD, RULED)
    sheet.put(lead=lead, subject=sheet.asked("field", "letter.subject", sheet.heading(), look, lead))
    texts = sheet.fake.name(), sheet.fake.company(), sheet.street(), f"{sheet.fake.city()}, {sheet.fake.postcode()}"
    asks = ("field", "letter.to", 0, 0, "n"), ("field", "letter.firm", 1, 0, "n"), ("field", "letter.street", 2, 0, "n")
    sheet.put(to=sheet.listed([texts], *asks)[0], date=sheet.asked("field", "letter.date", sheet.date()))
    sheet.put(head_side=sheet.pick("center", "left", "right"), date_side=sheet.pick("left", "right"))
    sheet.put(sender=sheet.fake.company(), address=sheet.fake.address().replace("\n", ", "))
    sheet.put(text=telling(sheet, sheet.between(2, 8)), closing=closing(sheet), trimmings=trimmings(sheet))


def memo(sheet: PageSheet) -> None:
    start_letter(sheet)
    look = f"{sheet.larger(1.2, 2)};font-weight:bold;letter-spacing:{sheet.pick(0, 0, 3)}px"
    pen = pen_for(sheet)._replace(separator=":")
    fields = [make_field(sheet, pen, *pair) for pair in sheet.some("letter.memo_fields", sheet.between(4, 6))]
    sheet.put(title=sheet.titled(sheet.word("letter.memos"), look), side=sheet.pick("left", "center"), fields=fields)
    sheet.put(text=telling(sheet, sheet.between(3, 9)), trimmings=trimmings(sheet))
    sheet.put(closing=closing(sheet) if sheet.chance(0.3) else "")


def fax(sheet: PageSheet) -> None:
    start_letter(sheet)
    pen = pen_for(sheet)
    sheet.put(title=sheet.titled(sheet.word("letter.faxes")), logo=logo(sheet), border=sheet.pick(0, 1, 2))
    sheet.put(fields=[make_field(sheet, pen, *pair) for pair in sheet.some("letter.fax_fields", 8)])
    sheet.put(k=sheet.pick(1, 2), small=sheet.paragraph(4), text=telling(sheet, sheet.between(0, 4)))
    sheet.put(trimmings=trimmings(sheet))


def resume(sheet: PageSheet) -> None:
    """A person's record: name, contact, posts with years."""
    start_letter(sheet)
    sheet.put(name=sheet.asked("title", "letter.person", sheet.fake.name()), contact=make_fields(sheet, 3))
    sections = []
    for name in sheet.some("letter.sections", 4):
        title = sheet.mark(name, f"font-weight:bold;color:{sheet.pick('#000', sheet.hue(20, 40))}")
        starts = [sheet.between(1970, 2020) for _ in range(sheet.between(1, 5))]
        rows = [(f"{year}-{year + sheet.between(1, 9)}", sheet.job(), sheet.fake.company()) for year in starts]
        posts = sheet.listed(rows, ("lookup", "letter.years", 0, 2, "f"), ("lookup", "letter.post", 1, 2, "f"))
        sections.append((title, [(*post, sheet.sentence(6, 14)) for post in posts]))
    sheet.put(sections=sections)


def minutes(sheet: PageSheet) -> None:
    """Kept aside: minutes with numbered points, who does what until when."""
    start_letter(sheet)
    rows = [(sheet.sentence(2, 4), sheet.fake.name(), sheet.date()) for _ in range(sheet.between(4, 11))]
    points = sheet.listed(rows, ("lookup", "letter.who", 1, 0, "t"), ("lookup", "letter.until", 2, 0, "t"))
    sheet.put(points=[(task, sheet.paragraph(1), who, until) for task, who, until in points])
    sheet.put(title=sheet.titled(f"Minutes: {sheet.heading()}"))
    sheet.put(present=", ".join(sheet.fake.name() for _ in range(4)))


def notice(sheet: PageSheet) -> None:
    """Kept aside: two columns of text with facts, like a bulletin."""
    start_letter(sheet)
    sheet.put(title=sheet.titled(sheet.heading()), text=telling(sheet, sheet.between(4, 9)))


# ---- Receipts and invoices -------------------------------------------------------------------------------------------

HELD_HEADS = ("banner", "sidebar")


def shop(sheet: PageSheet, style: str = "") -> Markup:
    """Name and address of the seller."""
    text = cased(sheet.fake.company(), sheet.pick("as", "upper"))
    name = sheet.asked("title", "sale.shop", text, f"{sheet.larger(1.1, 1.8)};font-weight:bold")
    context = {"name": name, "street": sheet.asked("field", "sale.street", sheet.street()), "style": style}
    context |= {"town": sheet.mark(f"{sheet.fake.postcode()} {sheet.fake.city()}")}
    context |= {"phone": sheet.asked("field", "sale.phone", sheet.value("phone"))}
    return sheet.render("sales/shop", lead=sheet.pick("Tel:", "Phone", "T.", "TEL"), **context)


def bill(sheet: PageSheet, names: Sequence[str], dearest: float, till: bool) -> list[dict[str, Mark]]:
    """Goods and sums as marks. Lines: thing, count, each (the price of one), price; the sums are put."""
    goods, bare, case = goods_of(sheet.random, names, dearest), sheet.chance(0.7), sheet.pick("as", "upper", "as")
    lines = []
    for one in goods:
        prices = [f"{'' if bare else sheet.currency}{value:,.2f}" for value in (one.price, one.price * one.count)]
        marks = sheet.mark_all(cased(one.thing, case), one.count, *prices)
        lines.append(dict(zip(("thing", "count", "each", "price"), marks, strict=True)))
    shown = []
    for one in sums_of(sheet.random, goods, lambda value: f"{sheet.currency}{value:,.2f}", till):
        large = "font-size:1.2em" if one.kind == "total" and sheet.chance(0.4) else ""
        bold = "font-weight:bold;" if one.kind == "total" else ""
        label = sheet.mark(one.label if sheet.chance(0.6) else one.label.upper(), bold)
        value = sheet.mark(one.value, bold + large)
        sheet.ask_field(one.label, "money", value, label)
        shown.append((label, value))
    sheet.put(sums=shown)
    return lines


def receipt(sheet: PageSheet) -> None:
    """A till roll. slip: a narrow column; wide: over the page; twoline: price under the name; coded: numbers first."""
    sheet.set_manner(mono=6, sans=3, serif=1)
    if sheet.chance(0.6) and sheet.width > sheet.height:
        sheet.turn()
    lead, number = sheet.mark_all(sheet.pick("Date:", "DATE", "Date", "Dt:"), sheet.word("sale.numbers"))
    date = sheet.asked("field", "sale.date", sheet.date(), "", lead)
    sheet.put(lead=lead, date=date, time=sheet.asked("field", "sale.time", sheet.value("time"), "", date))
    sheet.put(bill=number, code=sheet.asked("field", "sale.number", sheet.value("code"), "", number))
    known = sheet.random.sample(
        vocabulary("items") + vocabulary("dishes"), sheet.between(3, max(5, sheet.height // 40))
    )
    lines = bill(sheet, known, 60, till=True)
    for line in lines:
        sheet.ask("value", "price", line["price"], line["thing"], I=line["thing"].text)
        if sheet.chance(0.4):
            sheet.ask("value", "count_of", line["count"], line["thing"], I=line["thing"].text)
    codes = [sheet.between(10000, 999999) for _ in lines]
    room = sheet.width - 2 * sheet.padding
    widths = {"slip": sheet.between(220, 320), "twoline": sheet.between(240, 380), "dotted": 340}
    sheet.put(lines=lines, codes=codes, width=min(widths.get(sheet.layout, room), room), fields=make_fields(sheet, 2))
    sheet.put(rule=sheet.pick("-" * 32, "=" * 30, "*" * 30, ""), thanks=sheet.word("sale.thanks"))
    sheet.put(text=sheet.sentence(3, 8), shop=shop(sheet, f"text-align:{sheet.pick('center', 'center', 'left')}"))


def invoice(sheet: PageSheet) -> None:
    """Seller, buyer, fields, lines, sums; ruled, striped or plain; the head differs by layout."""
    sheet.set_manner(sans=6, serif=3, mono=2)
    accent = sheet.pick("#000", "#333", sheet.hue(20, 45), sheet.hue(20, 45))
    look = f"font-size:2em;color:{accent};font-weight:{sheet.pick('bold', 'normal')}"
    sheet.put(accent=accent, title=sheet.titled(sheet.word("sale.titles"), look), seller=shop(sheet))
    known = HELD_ARRANGEMENTS if sheet.layout in HELD_HEADS else ARRANGEMENTS
    arrangement = sheet.pick(*(name for name in known if name not in ("combed", "running")))
    fields = make_fields(sheet, sheet.between(4, 8), 0.05)
    sheet.put(block=arrange(sheet, arrangement, fields, sheet.between(1, 5)))
    lead, buyer = sheet.mark_all(sheet.word("sale.buyers"), sheet.fake.company())
    sheet.ask_field(lead.text, "company", buyer, lead)
    sheet.put(lead=lead, buyer=buyer, street=sheet.fake.street_address(), city=sheet.fake.city())
    columns = sheet.mark_all(*sheet.word("sale.columns").split("|"))
    names = sheet.random.sample(vocabulary("services") + vocabulary("items"), sheet.between(2, sheet.height // 50))
    lines = [list(line.values()) for line in bill(sheet, names, 900, till=False)]
    for thing, *cells in lines:
        for column, cell in zip(columns[1:], cells, strict=True):
            sheet.ask("cell", "cell", cell, (thing, column), r=thing.text, c=column.text.lower())
    cell = sheet.pick(
        *(f"border:1px solid {accent};padding:3px 6px", "border-bottom:1px solid #ccc;padding:4px 6px"),
        *("padding:3px 6px", "border-left:1px solid #666;border-right:1px solid #666;padding:3px 6px"),
    )
    top = sheet.pick(f"background:{accent};color:#fff", "border-bottom:2px solid", "background:#ddd", "")
    sheet.put(columns=columns, lines=lines, cell=cell, top=top, striped=sheet.chance(0.3), logo=logo(sheet, 42))
    sheet.put(side=sheet.pick("auto", "auto", "0"), text=sheet.paragraph(1))


# ---- Values that no label names, and places that words name ----------------------------------------------------------

CORNERS = ("top left", "top right", "bottom left", "bottom right")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def in_words(number: int) -> str:
    """A whole number below a million, in English words."""
    small, tens = vocabulary("numbers.small"), vocabulary("numbers.tens")
    if number < 20:
        return small[number]
    if number < 100:
        return tens[number // 10 - 2] + (f"-{small[number % 10]}" if number % 10 else "")
    part, name = (100, "hundred") if number < 1000 else (1000, "thousand")
    rest = f" {in_words(number % part)}" if number % part else ""
    return f"{in_words(number // part)} {name}{rest}"


def clutter(sheet: PageSheet, chance: float) -> Markup:
    """What takes the eye and answers nothing: an archive's footer, dashed rules, a stamp, a security pattern."""
    code = "".join(sheet.random.choice("abcdefghjkmnpqrstvwxyz0123456789") for _ in range(8))
    footer = sheet.pick(
        f"Source: https://www.{sheet.fake.domain_word()}.org/docs/{code}",
        f"{sheet.fake.company()} archive, box {sheet.between(1, 900)}, folder {sheet.between(1, 99)}",
        f"Scanned {sheet.date()} {code.upper()}",
    )
    context: dict[str, object] = {"footer": footer if sheet.chance(chance) else ""}
    context |= {"stamp": sheet.word("form.stamps") if sheet.chance(chance) else ""}
    context |= {"pattern": sheet.pick("lines", "rings", "crossed") if sheet.chance(chance) else ""}
    context |= {"rules": [sheet.between(15, 95) for _ in range(sheet.pick(0, 0, 1, 2))], "width": sheet.between(4, 14)}
    context |= {"color": sheet.pick("#a22", "#225", "#555", "#282"), "turn": sheet.between(-20, 20)}
    context |= {"left": sheet.between(5, 60), "top": sheet.between(10, 80), "hue": sheet.hue(70, 88)}
    return sheet.render("unlabelled/clutter", **context)


def bare_values(sheet: PageSheet, texts: dict[str, str]) -> dict[str, Mark]:
    """Values that are asked for by what they are, in the wordings of their kind."""
    marks = {name: sheet.mark(text) for name, text in texts.items()}
    for name, mark in [*marks.items()] * 2:
        if wordings(f"bare.{name}"):
            sheet.ask("bare", f"bare.{name}", mark)
    return marks


def cheque(sheet: PageSheet) -> None:
    """A bank's cheque: a date, a payee, a sum in figures and in words, numbers along the lower edge."""
    sheet.set_manner(sans=4, serif=4, mono=2)
    if sheet.width < sheet.height:
        sheet.turn()
    sheet.size, sheet.padding = max(sheet.size, 11), sheet.between(14, 40)
    whole, rest, fake = sheet.between(3, 9999), sheet.between(0, 99), sheet.fake
    number, route, account = (str(sheet.between(10 ** (n - 1), 10**n - 1)) for n in (4, 9, 10))
    texts = {"bank": f"{fake.city()} {sheet.pick('Bank', 'Savings Bank', 'Trust', 'Credit Union')}"}
    texts |= {"amount": f"{whole:,}.{rest:02d}", "spelled": f"{in_words(whole).capitalize()} and {rest:02d}/100"}
    texts |= {"date": sheet.date(), "payee": fake.name(), "owner": fake.name(), "memo": sheet.sentence(1, 4)}
    sheet.put(**bare_values(sheet, texts | {"number": number, "route": route, "account": account}))
    sheet.put(hand=sheet.pick("", f"font-family:'{sheet.face('hand')}';font-size:1.3em"), logo=logo(sheet, 30))
    sheet.put(symbol=sheet.pick("$", "€", "£", ""), text=sheet.paragraph(3), street=sheet.street())
    sheet.put(clutter=clutter(sheet, 0.6))


TICKETS = {
    "ticket": ("event", "date", "time", "venue", "amount", "code", "seat"),
    "parcel": ("sender", "person", "street", "venue", "weight", "code", "date"),
    "badge": ("person", "job", "firm", "code", "date", "venue"),
    "card": ("person", "job", "firm", "street", "phone", "mail", "venue"),
}


def ticket(sheet: PageSheet) -> None:
    """An entrance ticket; a parcel's label; kept aside: a visiting card. Each value in its own place and size."""
    sheet.set_manner(sans=6, serif=2, mono=2)
    sheet.size, sheet.padding = max(sheet.size, 11), sheet.between(14, 50)
    kinds = {"person": "name", "sender": "company", "firm": "company", "venue": "city", "amount": "money"}
    texts = {name: sheet.value(kinds.get(name, name)) for name in TICKETS[sheet.layout]}
    own = {"event": sheet.word("web.events"), "mail": sheet.fake.email(), "weight": f"{sheet.between(1, 300) / 10} kg"}
    own |= {"seat": f"{sheet.pick('Row', 'Block', 'Gate')} {sheet.between(1, 40)} {sheet.between(1, 60)}"}
    marks = list(bare_values(sheet, texts | {name: text for name, text in own.items() if name in texts}).values())
    sheet.random.shuffle(marks)
    looks = [f"{sheet.larger(0.9, 2.2)};{sheet.pick('', BOLD)}" for _ in marks]
    sides = [sheet.pick("left", "center", "right") for _ in marks]
    sheet.put(lines=[(mark._replace(style=look), side) for mark, look, side in zip(marks, looks, sides, strict=True)])
    frame = sheet.pick("border:2px solid", "border:1px dashed", "border:1px solid;border-radius:10px", "")
    sheet.put(frame=frame, picture=logo(sheet, 40), gap=sheet.between(4, 26), clutter=clutter(sheet, 0.4))


def corners(sheet: PageSheet) -> None:
    """Texts in the corners and in the middle of a page of prose, asked for by where they stand."""
    sheet.set_manner(sans=4, serif=5, mono=2)
    sheet.padding = sheet.between(30, 70)
    texts = [sheet.pick(sheet.date, sheet.code, sheet.fake.company, sheet.fake.city)() for _ in CORNERS]
    marks, number = sheet.mark_all(*texts), sheet.mark(sheet.between(1, 400))
    for name, mark in [*zip(CORNERS, marks, strict=True)] * 2:
        sheet.ask("place", "place.corner", mark, p=name)
    for _ in range(3):
        sheet.ask("place", "place.number", number)
    sheet.put(corners=marks, number=number, title=sheet.titled(sheet.heading()), lower=sheet.layout != "cover")
    sheet.put(paragraphs=[sheet.paragraph(sheet.between(2, 6)) for _ in range(sheet.between(2, 7))])
    sheet.put(clutter=clutter(sheet, 0.3))


def lines(sheet: PageSheet) -> None:
    """Short lines one below the other, asked for by their number, and by what follows or precedes them."""
    sheet.set_manner(sans=4, serif=3, mono=3)
    marks = sheet.mark_all(*sheet.distinct(lambda: sheet.sentence(2, 6), sheet.between(4, 8)))
    for name, mark in [*zip(ORDINALS, marks, strict=False), ("last", marks[-1])]:
        sheet.ask("place", "place.line", mark, o=name)
    for before, after in pairwise(marks):
        if sheet.chance(0.4):
            sheet.ask("lookup", "place.below", after, before, t=before.text)
    style = {"numbers": "decimal", "bullets": "disc"}.get(sheet.layout, "none")
    sheet.put(title=sheet.titled(sheet.heading()), marks=marks, style=style, gap=sheet.between(1, 16))
    sheet.put(clutter=clutter(sheet, 0.4))


FAMILIES = {
    "forms": PageFamily(
        24, variants(form, "forms/form", *ARRANGEMENTS), variants(form, "forms/form", *HELD_ARRANGEMENTS)
    ),
    "letters": PageFamily(5, layouts("letters", letter, memo, fax, resume), layouts("letters", minutes, notice)),
    "receipts": PageFamily(
        6,
        variants(receipt, "sales/receipt", "slip", "wide", "twoline", "coded"),
        variants(receipt, "sales/receipt", "dotted"),
    ),
    "invoices": PageFamily(
        6, variants(invoice, "sales/{}", "letterhead", "split", "centered"), variants(invoice, "sales/{}", *HELD_HEADS)
    ),
    "bare": PageFamily(
        5,
        layouts("unlabelled", cheque) | variants(ticket, "unlabelled/ticket", "ticket", "parcel", "badge"),
        variants(ticket, "unlabelled/ticket", "card"),
    ),
    "places": PageFamily(
        4,
        layouts("unlabelled", corners) | variants(lines, "unlabelled/lines", "numbers", "plain"),
        variants(corners, "unlabelled/corners", "cover") | variants(lines, "unlabelled/lines", "bullets"),
    ),
    "archives": PageFamily(
        6, variants(archived, "forms/form", "archived"), variants(archived, "forms/form", "shelved")
    ),
}
