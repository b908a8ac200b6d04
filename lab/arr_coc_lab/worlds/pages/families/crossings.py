"""Tables whose heads span several columns or rows: a value stands where a row, a group and a column cross."""

from __future__ import annotations

from typing import NamedTuple

from ..sheet import Mark, PageSheet, named
from ..words import vocabulary
from .tables import cell_styles, figure_of, set_up

NAMES = {"country": "country", "person": "last_name", "company": "company", "city": "city"}


class Crossing(NamedTuple):
    """A value and the three heads that it belongs to."""

    row: Mark
    group: Mark
    column: Mark
    value: Mark


def group_names(sheet: PageSheet, n: int) -> tuple[str, list[str]]:
    """What groups are called together, and n of them."""
    year = sheet.between(1990, 2020)
    match sheet.pick("year", "quarter", "group", "place"):
        case "year":
            return "year", [str(year + step) for step in range(n)]
        case "quarter":
            return "quarter", [f"Q{step + 1}" for step in range(n)]
        case "group":
            return "group", sheet.random.sample(vocabulary("groups"), n)
        case _:
            return "place", [text[:18] for text in sheet.distinct(sheet.fake.city, n)]


def ask_crossings(sheet: PageSheet, kind: str, crossings: list[Crossing], share: float) -> None:
    """A share of the values by their three heads, and now and then the group by a value that is there once."""
    texts = [one.value.text for one in crossings]
    for one in crossings:
        if not sheet.chance(share):
            continue
        heads, slots = (one.row, one.group, one.column), {"r": one.row.text, "g": one.group.text}
        sheet.ask("cell", "crossing.cell", one.value, heads, c=one.column.text.lower(), **slots)
        if texts.count(one.value.text) == 1 and sheet.chance(0.25):
            beside = (one.value, one.row, one.column)
            slots = {"r": one.row.text, "v": one.value.text, "k": kind}
            sheet.ask("lookup", "crossing.which", one.group, beside, c=one.column.text.lower(), **slots)


def crossing(sheet: PageSheet) -> str:
    """Heads over several columns, with a last row of totals; kept aside: names of groups beside several rows."""
    set_up(sheet, (8, 24), sans=6, serif=3, mono=2)
    sided = sheet.layout in ("sided", "stepped")
    kind, texts = group_names(sheet, sheet.between(2, 4 if sided or sheet.width > 600 else 3))
    wide = sheet.between(2, 5) if sided else sheet.between(2, max(2, min(3, sheet.width // 70 // len(texts))))
    heads = sheet.random.sample(vocabulary("table.columns"), wide)
    forms = [sheet.pick("int", "pct", "dec", "big", "money") for _ in heads]
    maker = getattr(sheet.fake, NAMES[sheet.pick(*NAMES)])
    rows = sheet.between(3, 6) if sided else sheet.between(5, max(6, sheet.height // 26))
    names = [name[:24] for name in sheet.distinct(maker, rows)]
    groups, crossings, lines = sheet.mark_all(*texts), [], []
    total = sheet.mark(sheet.pick("Total", "TOTAL", "Sum", "All"))
    if sided:
        columns = sheet.mark_all(*heads)
        for group in groups:
            block = []
            for row in sheet.mark_all(*names):
                values = [sheet.mark(figure_of(sheet, form)) for form in forms]
                crossings += [Crossing(row, group, *pair) for pair in zip(columns, values, strict=True)]
                block.append((row, values))
            lines.append((group, block))
    else:
        columns = [mark for _ in groups for mark in sheet.mark_all(*heads)]
        over = [group for group in groups for _ in heads]
        for row in (*sheet.mark_all(*names), total):
            values = [sheet.mark(figure_of(sheet, form)) for _ in groups for form in forms]
            crossings += [Crossing(row, *each) for each in zip(over, columns, values, strict=True)]
            lines.append((row, values))
    ask_crossings(sheet, kind, crossings, min(1, 26 / len(crossings)))
    title = sheet.mark(f"Table {sheet.between(1, 40)}. {sheet.sentence(3, 8)}", "font-weight:bold")
    sheet.ask_title(title, "table.title")
    context = {"title": title, "groups": groups, "columns": columns, "lines": lines, "span": len(heads)}
    context |= {"first": sheet.mark(sheet.pick("Name", "Item", "Region", "")), "high": sheet.chance(0.5)}
    note = sheet.paragraph(1) if sheet.chance(0.5) else ""
    return sheet.render("tables/sided" if sided else "tables/crossing", note=note, **context, **cell_styles(sheet))


CROSSINGS = named(crossing, "ruled", "striped", "bare", "stepped")
HELD_CROSSINGS = named(crossing, "sided", "dottedspans")
