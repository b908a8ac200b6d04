"""Forms: a head, sections of fields, tick boxes, small tables, signatures, stamps, and what a clerk scribbles."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from markupsafe import Markup

from ..sheet import Layout, PageSheet, named
from .fields import ARRANGEMENTS, HELD_ARRANGEMENTS, Pen, arrange, cased, make_fields, pen_for

BOLD, RULED = "font-weight:bold", "text-decoration:underline"


def logo(sheet: PageSheet, size: int = 34) -> Markup:
    """A plain mark of a firm: a disc, a shield or stripes."""
    return sheet.render("forms/logo", size=size)


def head(sheet: PageSheet) -> Markup:
    """The title with or without a firm, a logo, a frame; ranged left, centred or between two things."""
    case = sheet.pick("as", "upper", "upper")
    title = cased(sheet.word("documents") if sheet.chance(0.7) else sheet.heading(), case)
    size, weight = sheet.larger(1.1, 1.9, 2), sheet.pick("bold", "bold", "normal")
    title_mark = sheet.mark(title, f"{size};font-weight:{weight};{sheet.pick('', '', RULED)}")
    sheet.ask_title(title_mark)
    firm = address = None
    if sheet.chance(0.6):
        name = cased(sheet.fake.company(), sheet.pick("as", "upper"))
        firm = sheet.mark(name, sheet.pick("", BOLD, "font-size:1.2em"))
        sheet.ask("title", "form.firm", firm)
        if sheet.chance(0.4):
            address = f"{sheet.fake.street_address()}, {sheet.fake.city()}"
    side = sheet.pick("left", "center", "center", "center")
    picture = logo(sheet, sheet.between(24, 52)) if sheet.chance(0.35) else ""
    frame = sheet.pick(
        *("", "", "", "border:1px solid #000;padding:6px", "border-bottom:2px solid #000;padding-bottom:4px"),
        "border-top:3px double #000;border-bottom:3px double #000;padding:4px 0",
        "background:#222;color:#fff;padding:6px",
    )
    context = {"title": title_mark, "firm": firm, "address": address, "side": side, "picture": picture, "frame": frame}
    return sheet.render("forms/head", firm_first=sheet.chance(0.6), **context)


def ticks(sheet: PageSheet) -> Markup:
    """A question with boxes to tick; what is ticked can be asked."""
    label = sheet.mark(sheet.word("sections") + sheet.pick(":", "?", ""))
    names = sheet.some("statuses", sheet.between(2, 5))
    chosen = sheet.random.randrange(len(names))
    style = sheet.pick("box", "line", "round")
    choices = []
    for number, name in enumerate(names):
        mark = sheet.mark(name)
        sign = Markup(sheet.pick("X", "x", "&#10003;") if number == chosen else "&nbsp;")
        choices.append((mark, sign, number == chosen, sheet.chance(0.8)))
        if number == chosen:
            sheet.ask("choice", "form.ticked", mark, label, L=label.text.rstrip(":?"))
        elif sheet.chance(0.3):
            sheet.ask_place(mark)
    return sheet.render("forms/ticks", label=label, style=style, choices=choices)


def small_table(sheet: PageSheet) -> Markup:
    """A few rows of figures inside a form: suppliers and costs, months and amounts."""
    pairs = sheet.labels_of(("money", "int", "date", "percent", "code"), 40)[: sheet.between(2, 4)]
    make = sheet.fake.company if sheet.chance(0.5) else sheet.fake.last_name
    names = sheet.distinct(make, sheet.between(2, 6))
    border = sheet.pick("", "border:1px solid #000", "border-bottom:1px solid #999")
    columns = [sheet.mark(text, sheet.pick(BOLD, RULED)) for text, _ in pairs]
    rows = []
    for name in names:
        rows.append([first := sheet.mark(name)])
        for column, (_, kind) in zip(columns, pairs, strict=True):
            rows[-1].append(cell := sheet.mark(sheet.value(kind)))
            if sheet.chance(0.6):
                sheet.ask("cell", "cell", cell, (first, column), r=name, c=column.text.lower())
    width = sheet.pick("100%", "70%", "auto")
    return sheet.render("forms/small_table", columns=columns, rows=rows, border=border, width=width)


def signatures(sheet: PageSheet, pen: Pen) -> Markup:
    """Lines to sign on, with the name typed under a scribble, and a date."""
    lines = []
    for label in sheet.some("form.signers", sheet.between(1, 4)):
        name = sheet.value("name")
        label_mark = sheet.mark(cased(label, pen.case) + pen.separator, pen.label)
        scribbled = sheet.chance(0.5)
        style = f"font-family:'{sheet.face('hand')}';{sheet.larger(1.2, 1.9, 2)}" if scribbled else pen.value
        value = sheet.mark(name, style)
        date = sheet.mark(sheet.date(), pen.value)
        date_mark = sheet.mark(cased("Date", pen.case) + pen.separator, pen.label)
        sheet.ask_field(label, "name", value, label_mark)
        sheet.ask("lookup", "form.signed", date, (label_mark, date_mark), n=name, L=label, l=label.lower())
        lines.append((label_mark, value, date_mark, date))
    return sheet.render("forms/signatures", lines=lines)


def trimmings(sheet: PageSheet) -> Markup:
    """What is not part of the form: a fax line, a number up the margin, a stamp, a scribble, holes."""
    number = place = fax = stamp = scribble = None
    hand = sheet.face("hand")
    if sheet.chance(0.3):
        digits = "".join(sheet.random.choice("0123456789") for _ in range(8))
        number = sheet.mark(digits, f"font-weight:bold;{sheet.larger(1.1, 1.6)}")
        upright = "writing-mode:vertical-rl"
        place = sheet.pick(
            f"right:6px;bottom:60px;{upright}", "right:30px;bottom:8px", f"left:6px;bottom:90px;{upright}"
        )
        sheet.ask("place", "form.margin", number)
    if sheet.chance(0.15):
        fax = {"date": sheet.date(), "time": Markup(sheet.value("time")), "firm": sheet.fake.company().upper()}
        fax |= {"phone": Markup(sheet.value("phone")), "page": sheet.between(1, 9)}
    if sheet.chance(0.15):
        word = sheet.mark(sheet.word("form.stamps"))
        right, bottom = sheet.between(10, 120), sheet.between(4, 40)
        stamp = {"word": word, "right": right, "bottom": bottom, "color": sheet.pick("#555", "#a22", "#225")}
        sheet.ask("place", "form.stamp", word)
    if sheet.chance(0.15):
        scribble = {"right": sheet.between(6, 90), "top": sheet.between(2, 14), "text": sheet.sentence(1, 3)}
    context = {"number": number, "place": place, "fax": fax, "stamp": stamp, "scribble": scribble, "hand": hand}
    return sheet.render("forms/trimmings", holes=sheet.chance(0.1), **context)


def section(sheet: PageSheet, pen: Pen, arrangement: str, gap: int) -> Iterator[Markup]:
    """Fields, with a heading above and something else below them now and then."""
    if sheet.chance(0.45):
        name = cased(sheet.word("sections"), sheet.pick("as", "upper", pen.case))
        title = sheet.mark(name, sheet.pick(BOLD, RULED, "font-weight:bold;font-size:1.15em", "font-style:italic"))
        over, under = "border-top:1px solid #000", "border-bottom:1px solid #000"
        bar = sheet.pick("", "", over, "background:#ddd;padding:2px 4px", under)
        yield sheet.render("forms/section", title=title, gap=gap, bar=bar)
        sheet.ask("place", "form.section", title, L=title.text, l=title.text.lower())
    yield arrange(sheet, arrangement, make_fields(sheet, pen, sheet.between(2, 12), sheet.pick(0.05, 0.25)), gap)
    extra = sheet.random.random()
    if extra < 0.12:
        yield sheet.render("forms/paragraph", text=sheet.paragraph(sheet.between(1, 4)))
    elif extra < 0.26:
        yield ticks(sheet)
    elif extra < 0.36:
        yield small_table(sheet)
    elif extra < 0.42:
        yield sheet.render("forms/lines", n=sheet.between(2, 5))


def form(sheet: PageSheet, arrangements: Collection[str]) -> str:
    """A whole form. The first section is set as the layout says, the others as any arrangement of the same split."""
    sheet.set_manner(mono=4, sans=4, serif=3)
    if sheet.chance(0.5):
        sheet.padding = sheet.between(24, 80)
    pen, gap = pen_for(sheet), sheet.between(1, 9)
    frame = sheet.pick("", "", "", "border:1px solid #000;padding:8px", "border:2px solid #000;padding:10px")
    parts = [head(sheet)]
    if sheet.chance(0.25):
        parts.append(sheet.render("forms/corner", fields=make_fields(sheet, pen, 2, 0, False)))
    room = sheet.height - 2 * sheet.padding
    for number in range(max(1, round(room / (sheet.size * 1.4) / sheet.random.uniform(8, 22)))):
        same = number == 0 or sheet.chance(0.5)
        parts += section(sheet, pen, sheet.layout if same else sheet.random.choice(list(arrangements)), gap)
    if sheet.chance(0.5):
        parts.append(signatures(sheet, pen))
    if sheet.chance(0.3):
        parts.append(sheet.render("forms/small_print", code=sheet.code(), text=sheet.sentence(4, 12)))
    return sheet.render("forms/form", frame=frame, parts=parts, trimmings=trimmings(sheet))


def layouts_of(arrangements: Collection[str]) -> dict[str, Layout]:
    return named(lambda sheet: form(sheet, arrangements), *arrangements)


TRAIN, HELD = layouts_of(ARRANGEMENTS), layouts_of(HELD_ARRANGEMENTS)
