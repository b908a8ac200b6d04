"""Label and value, arranged in the many ways in which forms do it: one template each in `templates/fields`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from markupsafe import Markup

from ..sheet import Mark, PageSheet


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


ARRANGEMENTS = ("inline", "aligned", "underlined", "above", "boxed", "tabled", "leaders", "typed", "running", "combed")
HELD_ARRANGEMENTS = ("captioned", "numbered", "banded", "staggered")


def pen_for(sheet: PageSheet) -> Pen:
    """Draw the look of labels and values once a page: bold, small, another typeface, handwriting, capitals."""
    bold, slanted, small = "font-weight:bold", "font-style:italic", "font-size:.85em"
    label = sheet.pick("", "", bold, slanted, small, "color:#444", "font-size:.9em;font-weight:bold")
    value = sheet.pick("", "", "", bold, slanted)
    if sheet.chance(0.4):
        manner = sheet.random.choices(("mono", "hand", "serif", "sans"), (6, 1.5, 1, 1))[0]
        value += f";font-family:'{sheet.face(manner)}'"
        value += ";font-size:1.25em" if manner == "hand" else ""
    if sheet.chance(0.08):
        value += ";color:#1b2a8a"
    separator = sheet.pick(":", ":", ":", ":", "", "", ".", " -", " =")
    return Pen(label, value, separator, sheet.pick("as", "as", "as", "as", "upper", "upper", "title"))


def cased(text: str, case: str) -> str:
    return {"upper": text.upper(), "title": text.title()}.get(case, text)


def make_field(sheet: PageSheet, pen: Pen, label: str, kind: str, separator: str | None = None) -> Field:
    """A label with a value of its kind, asked for."""
    label_mark = sheet.mark(cased(label, pen.case) + (pen.separator if separator is None else separator), pen.label)
    value = sheet.mark(sheet.value(kind), pen.value)
    sheet.ask_field(label, kind, value, label_mark)
    return Field(label_mark, value)


def make_fields(sheet: PageSheet, pen: Pen, n: int, empty: float = 0.12, long: bool = True) -> list[Field]:
    """n labels with values, each asked for. long: whether sentences may stand as values."""
    result = []
    labels = [pair for pair in sheet.labels(n + 12) if long or pair[1] != "text"][:n]
    for label, kind in labels:
        shown = cased(label, pen.case)
        end = "" if shown.endswith(("?", ".")) else pen.separator
        label_mark = sheet.mark(shown + end, pen.label)
        if sheet.chance(empty):
            result.append(Field(label_mark, None))
            continue
        text = sheet.value(kind)
        text = text.upper() if sheet.chance(0.08) else text
        value = sheet.mark(text, pen.value)
        sheet.ask_field(label, kind, value, label_mark)
        if sheet.chance(0.25):
            sheet.ask_field(label, kind, value, label_mark)
        result.append(Field(label_mark, value))
    return result


def short_fields(sheet: PageSheet, n: int, empty: float = 0.0) -> list[Field]:
    """Fields without sentences, in a look of their own."""
    return make_fields(sheet, pen_for(sheet), n, empty, long=False)


def arrange(sheet: PageSheet, name: str, fields: list[Field], gap: int) -> Markup:
    """Fields as the template of this name sets them, which draws its own lots. gap: between rows, in pixels."""
    return sheet.render(f"fields/{name}", fields=fields, gap=gap, rows=partial(rows_of, sheet, fields))


def rows_of(sheet: PageSheet, fields: list[Field], *lengths: int) -> Iterator[list[Field]]:
    """Fields in rows, the length of each drawn anew."""
    left = list(fields)
    while left:
        length = sheet.pick(*lengths)
        yield left[:length]
        left = left[length:]
