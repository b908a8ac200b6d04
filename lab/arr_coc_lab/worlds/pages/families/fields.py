"""Label and value, arranged in the many ways in which forms do it."""

from __future__ import annotations

from typing import NamedTuple

from ..sheet import Mark, Sheet


class Field(NamedTuple):
    """A label and what is written for it; value None where it was left empty."""

    label: Mark
    value: Mark | None
    kind: str

    @property
    def shown(self) -> str:
        return str(self.value) if self.value else "&nbsp;"


class Pen(NamedTuple):
    """How labels and values look on one page."""

    label: str
    value: str
    separator: str
    case: str


def pen_for(sheet: Sheet) -> Pen:
    """Draw the look of labels and values once a page: bold, small, another typeface, handwriting, capitals."""
    chance, pick = sheet.chance, sheet.pick
    label = pick(
        "",
        "",
        "font-weight:bold",
        "font-style:italic",
        "font-size:.85em",
        "color:#444",
        "font-size:.9em;font-weight:bold",
    )
    value = pick("", "", "", "font-weight:bold", "font-style:italic")
    if chance(0.4):
        manner = sheet.random.choices(("mono", "hand", "serif", "sans"), (6, 1.5, 1, 1))[0]
        value += f";font-family:'{sheet.face(manner)}'"
        value += ";font-size:1.25em" if manner == "hand" else ""
    if chance(0.08):
        value += ";color:#1b2a8a"
    return Pen(
        label,
        value,
        pick(":", ":", ":", ":", "", "", ".", " -", " ="),
        sheet.pick("as", "as", "as", "as", "upper", "upper", "title"),
    )


def cased(text: str, case: str) -> str:
    return {"upper": text.upper(), "title": text.title()}.get(case, text)


def make_fields(sheet: Sheet, pen: Pen, n: int, empty: float = 0.12, long: bool = True) -> list[Field]:
    """n labels with values, each asked for. long: whether sentences may stand as values."""
    result = []
    labels = [pair for pair in sheet.labels(n + 12) if long or pair[1] != "text"][:n]
    for label, kind in labels:
        shown = cased(label, pen.case)
        end = "" if shown.endswith(("?", ".")) else pen.separator
        label_mark = sheet.mark(shown + end, pen.label)
        if sheet.chance(empty):
            result.append(Field(label_mark, None, kind))
            continue
        text = sheet.value(kind)
        text = text.upper() if sheet.chance(0.08) else text
        value = sheet.mark(text, pen.value)
        sheet.ask_field(label, kind, value, label_mark)
        if sheet.chance(0.25):
            sheet.ask_field(label, kind, value, label_mark)
        result.append(Field(label_mark, value, kind))
    return result


# Arrangements: (sheet, fields, gap in pixels) → HTML ----------------------------------------------------------------


def inline(sheet: Sheet, fields: list[Field], gap: int) -> str:
    space = sheet.pick("&nbsp;", "&nbsp;&nbsp;", "&emsp;", " ")
    rows = "".join(
        f'<div class="cut" style="margin:{gap}px 0;break-inside:avoid">{f.label}{space}{f.shown}</div>' for f in fields
    )
    return f'<div style="columns:{sheet.random.choice((1, 2, 2, 3))};column-gap:18px">{rows}</div>'


def aligned(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """Labels in a column of their own, values beside them; two or four columns."""
    side = sheet.pick("left", "left", "right")
    columns = sheet.pick("auto 1fr", "30% 1fr", "auto 1fr auto 1fr", "18% 1fr 18% 1fr", "auto auto auto 1fr")
    cells = "".join(f'<div style="text-align:{side}">{f.label}</div><div>{f.shown}</div>' for f in fields)
    return (
        f'<div class="cut" style="display:grid;grid-template-columns:{columns};gap:{gap}px'
        f' {sheet.random.randint(6, 26)}px">{cells}</div>'
    )


def underlined(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """Values on ruled lines, one to three a row."""
    line = sheet.pick("1px solid #000", "1px solid #000", "1px dotted #333", "1px dashed #555", ".5px solid #444")
    inset = sheet.random.choice((4, 4, 14))
    out, left = "", list(fields)
    while left:
        row, left = left[: (k := sheet.random.choice((1, 2, 2, 3)))], left[k:]
        cells = "".join(
            f'<div style="display:flex;flex:{sheet.random.choice((1, 1, 2))}"><div'
            f' style="white-space:nowrap">{f.label}</div><div style="flex:1;border-bottom:{line};margin:0 10px 0'
            f' 4px;padding-left:{inset}px">{f.shown}</div></div>'
            for f in row
        )
        out += f'<div class="cut" style="display:flex;margin:{gap}px 0">{cells}</div>'
    return out


def above(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """Small label, the value below it."""
    k = sheet.random.choice((2, 2, 3, 4))
    rule = sheet.pick("", "", "border-bottom:1px solid #666")
    cells = "".join(
        f'<div style="{rule}"><div style="font-size:.8em">{f.label}</div><div>{f.shown}</div></div>' for f in fields
    )
    return (
        f'<div class="cut" style="display:grid;grid-template-columns:repeat({k},1fr);gap:{gap + 2}px'
        f' 14px">{cells}</div>'
    )


def boxed(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """Every field a box, its label small in the corner; widths differ from row to row."""
    out, left = "", list(fields)
    indent = sheet.random.choice((0, 4, 16))
    while left:
        row, left = left[: (k := sheet.random.choice((1, 2, 2, 3, 4)))], left[k:]
        cells = "".join(
            f'<td style="border:1px solid #000;padding:1px 4px {gap // 2}px;vertical-align:top"><div'
            f' style="font-size:.72em">{f.label}</div><div style="padding-left:{indent}px">{f.shown}</div></td>'
            for f in row
        )
        out += f'<table class="cut" style="width:100%;margin-top:-1px"><tr>{cells}</tr></table>'
    return out


def tabled(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """A bordered table of label and value, one or two pairs a row, labels shaded now and then."""
    k = sheet.random.choice((1, 1, 2))
    shade = sheet.pick("", "", "background:#eee", "background:#ddd")
    border = sheet.pick("1px solid #000", "1px solid #777", "1px solid #bbb", "2px solid #000")
    rows = [fields[i : i + k] for i in range(0, len(fields), k)]
    cell = f"border:{border};padding:{max(1, gap // 2)}px 5px"
    body = "".join(
        '<tr class="cut">'
        + "".join(f'<td style="{cell};{shade}">{f.label}</td><td style="{cell}">{f.shown}</td>' for f in row)
        + "</tr>"
        for row in rows
    )
    return f'<table style="width:{sheet.pick("100%", "100%", "80%", "auto")}">{body}</table>'


def leaders(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """Label, dots, value at the right edge."""
    rows = "".join(
        f'<div class="cut" style="display:flex;margin:{gap}px 0">{f.label}<div style="flex:1;border-bottom:1px dotted'
        f' #444;margin:0 4px 3px"></div>{f.shown}</div>'
        for f in fields
    )
    return f'<div style="columns:{sheet.random.choice((1, 1, 2))};column-gap:24px">{rows}</div>'


def typed(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """As typed on a machine: tab stops, values indented or on the next line."""
    stop = sheet.random.randint(90, 200)
    below = sheet.chance(0.3)
    rows = []
    for f in fields:
        if below and sheet.chance(0.5):
            rows.append(
                f'<div class="cut" style="margin:{gap}px 0"><div>{f.label}</div><div'
                f' style="margin-left:{stop // 3}px">{f.shown}</div></div>'
            )
        else:
            rows.append(
                f'<div class="cut" style="margin:{gap}px 0;display:flex"><div'
                f' style="min-width:{stop}px">{f.label}</div><div style="margin-left:6px">{f.shown}</div></div>'
            )
    return "".join(rows)


def running(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """Fields one after another in a line of text, wrapping where they will."""
    joint = sheet.pick("; ", " &nbsp;&nbsp; ", " | ", " &emsp; ", " / ")
    return f'<p class="cut" style="margin:{gap}px 0">' + joint.join(f"{f.label} {f.shown}" for f in fields) + "</p>"


def combed(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """Values letter by letter would break words, so the comb lies under them: a ruled box with ticks."""
    comb = "background:repeating-linear-gradient(90deg,#999 0 1px,transparent 1px 13px)"
    rows = "".join(
        f'<div class="cut" style="display:flex;align-items:center;margin:{gap}px 0"><div'
        f' style="width:32%">{f.label}</div><div style="flex:1;border:1px solid #666;{comb};padding:2px 5px"><span'
        f' style="background:{sheet.paper}">{f.shown}</span></div></div>'
        for f in fields
    )
    return f'<div style="columns:{sheet.random.choice((1, 1, 2))}">{rows}</div>'


# Kept aside for validation -------------------------------------------------------------------------------------------


def captioned(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """The value on a line, its label in small print below the line."""
    k = sheet.random.choice((2, 3))
    cells = "".join(
        f'<div><div style="border-bottom:1px solid #000;text-align:center">{f.shown}</div><div'
        f' style="font-size:.75em;text-align:center">{f.label}</div></div>'
        for f in fields
    )
    return (
        f'<div class="cut" style="display:grid;grid-template-columns:repeat({k},1fr);gap:{gap + 6}px'
        f' 20px">{cells}</div>'
    )


def numbered(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """Numbered boxes like a tax form: number, label, then the value ranged right in its own cell."""
    rows = "".join(
        f'<tr class="cut"><td style="border:1px solid #000;padding:2px 4px;width:24px">{i}</td><td style="border:1px'
        f' solid #000;padding:{gap // 2 + 1}px 5px">{f.label}</td><td style="border:1px solid #000;padding:2px'
        f' 6px;text-align:right;width:38%">{f.shown}</td></tr>'
        for i, f in enumerate(fields, sheet.random.choice((1, 1, 10, 21)))
    )
    return f'<table style="width:100%">{rows}</table>'


def banded(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """Dark label bands with the value under each, side by side."""
    k = sheet.random.choice((2, 3, 4))
    cells = "".join(
        '<div style="border:1px solid #333"><div style="background:#333;color:#fff;padding:1px'
        f' 5px;font-size:.85em">{f.label}</div><div style="padding:{gap // 2 + 1}px 5px">{f.shown}</div></div>'
        for f in fields
    )
    return f'<div class="cut" style="display:grid;grid-template-columns:repeat({k},1fr);gap:4px">{cells}</div>'


def staggered(sheet: Sheet, fields: list[Field], gap: int) -> str:
    """Label at the left edge, value at the right, every other row shifted."""
    return "".join(
        f'<div class="cut" style="display:flex;justify-content:space-between;margin:{gap}px {12 if i % 2 else 60}px'
        f' {gap}px {60 if i % 2 else 12}px"><div>{f.label}</div><div>{f.shown}</div></div>'
        for i, f in enumerate(fields)
    )


ARRANGEMENTS = {
    f.__name__: f for f in (inline, aligned, underlined, above, boxed, tabled, leaders, typed, running, combed)
}
HELD_ARRANGEMENTS = {f.__name__: f for f in (captioned, numbered, banded, staggered)}
