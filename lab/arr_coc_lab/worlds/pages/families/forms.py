"""Forms: a head, sections of fields, tick boxes, small tables, signatures, stamps, and what a clerk scribbles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ..sheet import Sheet
from ..wording import CELL
from ..words import vocabulary
from .fields import ARRANGEMENTS, HELD_ARRANGEMENTS, Field, Pen, cased, make_fields, pen_for

Arrange = Callable[[Sheet, list[Field], int], str]


def logo(sheet: Sheet, size: int = 34) -> str:
    """A plain mark of a firm: a disc, a shield or stripes."""
    color = sheet.pick("#000", "#000", "#333", sheet.hue(20, 45))
    shape = sheet.pick("disc", "ring", "stripes", "shield", "steps")
    half = size / 2
    drawn = {
        "disc": (
            f'<circle cx="{half}" cy="{half}" r="{half - 1}" fill="{color}"/><path d="M6 {half}h{size - 12}"'
            ' stroke="#fff" stroke-width="3"/>'
        ),
        "ring": (
            f'<circle cx="{half}" cy="{half}" r="{half - 4}" fill="none" stroke="{color}" stroke-width="5"/><circle'
            f' cx="{half}" cy="{half}" r="4" fill="{color}"/>'
        ),
        "stripes": "".join(f'<rect y="{y}" width="{size - y}" height="4" fill="{color}"/>' for y in range(0, size, 8)),
        "shield": (
            f'<path d="M2 2H{size - 2}V{half}Q{half} {size} {half} {size - 1}Q2 {half + 6} 2 {half}Z" fill="none"'
            f' stroke="{color}" stroke-width="3"/>'
        ),
        "steps": "".join(
            f'<rect x="{x}" y="{size - x - 6}" width="6" height="{x + 6}" fill="{color}"/>' for x in range(0, size, 8)
        ),
    }[shape]
    return f'<svg width="{size}" height="{size}" style="flex:none">{drawn}</svg>'


def head(sheet: Sheet) -> str:
    """The title with or without a firm, a logo, a frame; ranged left, centred or between two things."""
    case = sheet.pick("as", "upper", "upper")
    title = sheet.mark(
        cased(sheet.random.choice(vocabulary("documents")) if sheet.chance(0.7) else sheet.heading(), case),
        f"font-size:{sheet.random.uniform(1.1, 1.9):.2f}em;font-weight:{sheet.pick('bold', 'bold', 'normal')};"
        f"{sheet.pick('', '', 'text-decoration:underline')}",
    )
    sheet.ask_title(title)
    firm = ""
    if sheet.chance(0.6):
        name = sheet.mark(
            cased(sheet.fake.company(), sheet.pick("as", "upper")),
            sheet.pick("", "font-weight:bold", "font-size:1.2em"),
        )
        sheet.ask(
            "title",
            (
                "Which company is this from?",
                "What is the name of the company?",
                "Whose form is this?",
                "company",
                "Which organization issued this?",
            ),
            name,
        )
        extra = (
            f"<div>{sheet.text(sheet.fake.street_address())}, {sheet.text(sheet.fake.city())}</div>"
            if sheet.chance(0.4)
            else ""
        )
        firm = f"<div>{name}</div>{extra}"
    side = sheet.pick("left", "center", "center", "center")
    picture = logo(sheet, sheet.random.randint(24, 52)) if sheet.chance(0.35) else ""
    frame = sheet.pick(
        "",
        "",
        "",
        "border:1px solid #000;padding:6px",
        "border-bottom:2px solid #000;padding-bottom:4px",
        "border-top:3px double #000;border-bottom:3px double #000;padding:4px 0",
        "background:#222;color:#fff;padding:6px",
    )
    inner = (
        f"<div style='flex:1;text-align:{side}'>{firm}<div>{title}</div></div>"
        if sheet.chance(0.6)
        else f"<div style='flex:1;text-align:{side}'><div>{title}</div>{firm}</div>"
    )
    return f'<div style="display:flex;align-items:center;gap:12px;margin-bottom:10px;{frame}">{picture}{inner}</div>'


def ticks(sheet: Sheet) -> str:
    """A question with boxes to tick; what is ticked can be asked."""
    label = sheet.mark(sheet.random.choice(vocabulary("sections")) + sheet.pick(":", "?", ""))
    names = sheet.some("statuses", sheet.random.randint(2, 5))
    chosen = sheet.random.randrange(len(names))
    style = sheet.pick("box", "line", "round")
    out = []
    for i, name in enumerate(names):
        mark = sheet.mark(name)
        on = sheet.pick("X", "x", "&#10003;") if i == chosen else "&nbsp;"
        tick = {
            "box": (
                '<span class="icon" style="display:inline-block;width:1.2em;height:1.2em;border:1px solid'
                f' #000;text-align:center;line-height:1.1em">{on}</span>'
            ),
            "line": f'<span class="icon" style="border-bottom:1px solid #000;padding:0 5px">{on}</span>',
            "round": (
                '<span class="icon" style="display:inline-block;width:1em;height:1em;border:1px solid'
                f' #000;border-radius:50%;background:{"#000" if i == chosen else "none"}"></span>'
            ),
        }[style]
        out.append(f"{tick} {mark}" if sheet.chance(0.8) else f"{mark} {tick}")
        if i == chosen:
            plain = label.text.rstrip(":?")
            sheet.ask(
                "choice",
                ("What is ticked for {L}?", "Which box is checked under {L}?", "What is marked for {L}?", "{L}"),
                mark,
                (label,),
                L=plain,
            )
        elif sheet.chance(0.3):
            sheet.ask_place(mark)
    return f'<div class="cut" style="margin:6px 0">{label} &nbsp; ' + " &nbsp;&nbsp; ".join(out) + "</div>"


def small_table(sheet: Sheet) -> str:
    """A few rows of figures inside a form: suppliers and costs, months and amounts."""
    pairs = [pair for pair in sheet.labels(40) if pair[1] in ("money", "int", "date", "percent", "code")][
        : sheet.random.randint(2, 4)
    ]
    names = sheet.distinct(
        sheet.fake.company if sheet.chance(0.5) else sheet.fake.last_name, sheet.random.randint(2, 6)
    )
    border = sheet.pick("", "border:1px solid #000", "border-bottom:1px solid #999")
    marks = [sheet.mark(text, sheet.pick("font-weight:bold", "text-decoration:underline")) for text, _ in pairs]
    rows = ""
    for name in names:
        first, cells = sheet.mark(name), []
        for column, (_, kind) in zip(marks, pairs, strict=True):
            cell = sheet.mark(sheet.value(kind))
            cells.append(cell)
            if sheet.chance(0.6):
                sheet.ask("cell", CELL, cell, (first, column), r=name, c=column.text.lower())
        rows += (
            f'<tr class="cut"><td style="padding:2px 8px;{border}">{first}</td>'
            + "".join(f'<td style="padding:2px 8px;{border}">{cell}</td>' for cell in cells)
            + "</tr>"
        )
    top = "".join(f'<td style="padding:2px 8px;{border}">{mark}</td>' for mark in marks)
    return (
        f'<table class="cut" style="width:{sheet.pick("100%", "70%", "auto")};margin:8px 0"><tr><td'
        f' style="{border}"></td>{top}</tr>{rows}</table>'
    )


def signatures(sheet: Sheet, pen: Pen) -> str:
    """Lines to sign on, with the name typed under a scribble, and a date."""
    out = ""
    for label in sheet.random.sample(
        (
            "Prepared by",
            "Approved by",
            "Submitted by",
            "Signature",
            "Manager",
            "Reviewed by",
            "Authorized signature",
            "Group manager",
            "Applicant",
            "Witness",
            "Product manager",
        ),
        sheet.random.randint(1, 4),
    ):
        name = sheet.value("name")
        label_mark = sheet.mark(cased(label, pen.case) + pen.separator, pen.label)
        value = sheet.mark(
            name,
            (
                f"font-family:'{sheet.face('hand')}';font-size:{sheet.random.uniform(1.2, 1.9):.2f}em"
                if sheet.chance(0.5)
                else pen.value
            ),
        )
        date = sheet.mark(sheet.date(), pen.value)
        date_mark = sheet.mark(cased("Date", pen.case) + pen.separator, pen.label)
        sheet.ask_field(label, "name", value, label_mark)
        sheet.ask(
            "lookup",
            (
                "When was it signed by {n}?",
                "What date stands beside {L}?",
                "On what date is {n} entered?",
                "date of {l}",
            ),
            date,
            (label_mark, date_mark),
            n=name,
            L=label,
            l=label.lower(),
        )
        out += (
            f'<div class="cut" style="display:flex;margin:7px 0;align-items:flex-end">{label_mark}<div'
            ' style="flex:2;border-bottom:1px solid #000;margin:0 12px 0'
            f' 4px;padding-left:8px">{value}</div>{date_mark}<div style="flex:1;border-bottom:1px solid'
            f' #000;margin-left:4px;padding-left:6px">{date}</div></div>'
        )
    return out


def trimmings(sheet: Sheet) -> str:
    """What is not part of the form: a fax line, a number up the margin, a stamp, a scribble, holes."""
    out, hand = "", sheet.face("hand")
    if sheet.chance(0.3):
        number = sheet.mark(
            "".join(sheet.random.choice("0123456789") for _ in range(8)),
            f"font-weight:bold;font-size:{sheet.random.uniform(1.1, 1.6):.1f}em",
        )
        place = sheet.pick(
            "right:6px;bottom:60px;writing-mode:vertical-rl",
            "right:30px;bottom:8px",
            "left:6px;bottom:90px;writing-mode:vertical-rl",
        )
        sheet.ask(
            "place",
            (
                "What number is stamped in the margin?",
                "Which number stands at the edge of the page?",
                "page stamp number",
            ),
            number,
        )
        out += f'<div class="deco" style="{place}">{number}</div>'
    if sheet.chance(0.15):
        out += (
            f'<div class="deco" style="left:8px;top:1px;font-size:.8em;white-space:nowrap">{sheet.text(sheet.date())}'
            f" {sheet.value('time')} &nbsp; FROM {sheet.text(sheet.fake.company().upper())} &nbsp;"
            f" {sheet.value('phone')} &nbsp; P.{sheet.random.randint(1, 9)}</div>"
        )
    if sheet.chance(0.15):
        word = sheet.mark(
            sheet.pick("RECEIVED", "COPY", "PAID", "CONFIDENTIAL", "APPROVED", "DRAFT", "FILE"),
            "border:3px solid;padding:2px 8px;font-weight:bold;font-size:1.4em",
        )
        out += (
            '<div class="deco"'
            f' style="right:{sheet.random.randint(10, 120)}px;bottom:{sheet.random.randint(4, 40)}px;color:'
            f'{sheet.pick("#555", "#a22", "#225")}">{word}</div>'
        )
        sheet.ask("place", ("What does the stamp say?", "Where is the stamp?", "stamp"), word)
    if sheet.chance(0.15):
        out += (
            '<div class="deco"'
            f" style=\"right:{sheet.random.randint(6, 90)}px;top:{sheet.random.randint(2, 14)}px;font-family:'"
            f"{hand}';font-size:1.5em\">{sheet.text(sheet.sentence(1, 3))}</div>"
        )
    if sheet.chance(0.1):
        out += "".join(
            '<div class="deco"'
            f' style="left:8px;top:{share}%;width:14px;height:14px;border-radius:50%;background:#111"></div>'
            for share in (18, 50, 82)
        )
    return out


def form(sheet: Sheet, arrangements: Mapping[str, Arrange], first: str) -> str:
    """A whole form. The first section is laid out as `first`, the others as any arrangement of the same split."""
    sheet.manner = sheet.random.choices(("mono", "sans", "serif"), (4, 4, 3))[0]
    sheet.layout = first
    if sheet.chance(0.5):
        sheet.padding = sheet.random.randint(24, 80)
    pen, gap = pen_for(sheet), sheet.random.randint(1, 9)
    frame = sheet.pick("", "", "", "border:1px solid #000;padding:8px", "border:2px solid #000;padding:10px")
    parts = [head(sheet)]
    if sheet.chance(0.25):
        parts.append(
            "<div"
            ' style="display:flex;justify-content:flex-end;gap:18px">'
            f"{''.join(f'<div>{f.label} {f.shown}</div>' for f in make_fields(sheet, pen, 2, 0, False))}</div>"
        )
    room = sheet.height - 2 * sheet.padding
    for number in range(max(1, round(room / (sheet.size * 1.4) / sheet.random.uniform(8, 22)))):
        arrange = arrangements[first if number == 0 or sheet.chance(0.5) else sheet.random.choice(list(arrangements))]
        if sheet.chance(0.45):
            title = sheet.mark(
                cased(sheet.random.choice(vocabulary("sections")), sheet.pick("as", "upper", pen.case)),
                sheet.pick(
                    "font-weight:bold",
                    "text-decoration:underline",
                    "font-weight:bold;font-size:1.15em",
                    "font-style:italic",
                ),
            )
            bar = sheet.pick(
                "", "", "border-top:1px solid #000", "background:#ddd;padding:2px 4px", "border-bottom:1px solid #000"
            )
            parts.append(f'<div class="cut" style="margin-top:{gap + 6}px;{bar}">{title}</div>')
            sheet.ask(
                "place",
                ("Where is the section {L}?", "Find the section on {l}.", "{L}"),
                title,
                L=title.text,
                l=title.text.lower(),
            )
        parts.append(
            arrange(sheet, make_fields(sheet, pen, sheet.random.randint(2, 12), sheet.random.choice((0.05, 0.25))), gap)
        )
        extra = sheet.random.random()
        if extra < 0.12:
            parts.append(f'<p class="cut">{sheet.text(sheet.paragraph(sheet.random.randint(1, 4)))}</p>')
        elif extra < 0.26:
            parts.append(ticks(sheet))
        elif extra < 0.36:
            parts.append(small_table(sheet))
        elif extra < 0.42:
            parts.append(
                '<div class="cut">'
                + "".join(
                    f'<div style="border-bottom:1px solid #000;height:{sheet.size * 1.7:.0f}px"></div>'
                    for _ in range(sheet.random.randint(2, 5))
                )
                + "</div>"
            )
    if sheet.chance(0.5):
        parts.append(signatures(sheet, pen))
    if sheet.chance(0.3):
        parts.append(
            f'<div class="cut" style="font-size:.75em;margin-top:10px">{sheet.text("Form " + sheet.code())} &nbsp;'
            f" {sheet.text(sheet.sentence(4, 12))}</div>"
        )
    return f'<div style="{frame}">{"".join(parts)}</div>{trimmings(sheet)}'


TRAIN = {name: partial(form, arrangements=ARRANGEMENTS, first=name) for name in ARRANGEMENTS}
HELD = {name: partial(form, arrangements=HELD_ARRANGEMENTS, first=name) for name in HELD_ARRANGEMENTS}
