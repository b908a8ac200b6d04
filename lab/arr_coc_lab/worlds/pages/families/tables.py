"""Tables and registers: a value stands where a row and a column cross."""

from __future__ import annotations

from ...words import lowered, vocabulary
from ..sheet import Mark, PageFamily, PageSheet, layouts, variants

RECORD_KINDS = ("date", "money", "code", "city", "int", "word", "percent", "time", "phone")
ROW_KINDS = ("country", "name", "company", "city")
FORMS = ("int", "pct", "dec", "money", "big")


def start(sheet: PageSheet) -> None:
    """A small type, and the looks of a cell and of a head, by layout."""
    sheet.set_manner(sans=6, serif=3, mono=2)
    sheet.size, sheet.padding = min(sheet.size, 12), sheet.between(8, 28)
    color = sheet.pick("#000", "#444", sheet.hue(20, 45))
    rules = {"ruled": f"border:1px solid {sheet.pick('#000', '#999')}", "striped": "", "bare": ""}
    rule = rules.get(sheet.layout, sheet.pick("border-bottom:1px solid #ccc", "border-bottom:1px dotted #888"))
    tops = {"ruled": "background:#eee", "striped": f"background:{color};color:#fff"}
    top = tops.get(sheet.layout, f"border-top:2px solid {color};border-bottom:1px solid {color}")
    sheet.put(cell=f"{rule};padding:{sheet.between(1, 5)}px {sheet.between(4, 10)}px", top=top, rule=rule)
    sheet.put(note=sheet.paragraph(1) if sheet.chance(0.5) else "")


def table_title(sheet: PageSheet) -> Mark:
    text = f"Table {sheet.between(1, 30)}. {sheet.sentence(3, 8)}" if sheet.chance(0.6) else sheet.heading()
    look = sheet.pick("font-weight:bold;font-size:1.2em", "font-style:italic", "font-weight:bold")
    return sheet.titled(text, look, "table.title")


def figure_of(sheet: PageSheet, form: str) -> str:
    """A number in one of five forms."""
    made = {"int": str(sheet.between(0, 999)), "pct": f"{sheet.random.uniform(0, 100):.1f}%", "money": sheet.money(900)}
    made |= {"dec": f"{sheet.random.uniform(0, 50):.2f}", "big": f"{sheet.between(1000, 999999):,}"}
    return made[form]


def figures(sheet: PageSheet) -> None:
    """Rows of names, columns of figures: ruled, striped, grouped, bare or (kept aside) turned on its side."""
    start(sheet)
    n, k = sheet.between(5, max(7, sheet.height // 24)), sheet.between(3, max(4, sheet.width // 95))
    years, first, kind = sheet.chance(0.4), sheet.between(1980, 2015), sheet.pick(*ROW_KINDS)
    heads = [str(first + i) for i in range(k)] if years else sheet.random.sample(vocabulary("table.columns"), k)
    forms = [sheet.pick("int", "pct", "dec", "big")] * k if years else [sheet.pick(*FORMS) for _ in heads]
    names, columns = sheet.mark_all(*sheet.distinct(lambda: sheet.value(kind)[:26], n)), sheet.mark_all(*heads)
    rows = [[sheet.mark(figure_of(sheet, form)) for form in forms] for _ in names]
    for name, row in zip(names, rows, strict=True):
        for column, (head, mark) in enumerate(zip(columns, row, strict=True)):
            if not sheet.chance(min(1, 24 / (n * k))):
                continue
            sheet.ask("cell", "cell", mark, (name, head), r=name.text, c=head.text.lower())
            if sum(other[column].text == mark.text for other in rows) == 1 and sheet.chance(0.3):
                sheet.ask("lookup", "row_of", name, (mark, head), k=kind, c=head.text, v=mark.text)
    groups = [sheet.word("plain").capitalize() for _ in names[::6]] if sheet.layout == "grouped" else []
    sheet.put(title=table_title(sheet), columns=columns, names=names, rows=rows, groups=groups)
    sheet.put(first=sheet.mark(kind.capitalize()), wide=sheet.pick("width:100%", "width:100%", ""))
    sheet.put(shown=min(len(names), max(4, sheet.width // 60)))


def register(sheet: PageSheet) -> None:
    """A list of records with columns of many kinds: names, dates, codes, amounts, states."""
    start(sheet)
    labels = sheet.labels(sheet.between(3, max(4, sheet.width // 130)), RECORD_KINDS)
    heads = sheet.mark_all("Name", *(label for label, _ in labels))
    rows = []
    for name in sheet.distinct(sheet.name, sheet.between(6, sheet.height // 22)):
        rows.append(sheet.mark_all(name, *(sheet.value(kind) for _, kind in labels)))
        for head, cell in zip(heads[1:], rows[-1][1:], strict=True):
            if sheet.chance(0.15):
                sheet.ask("cell", "cell", cell, (rows[-1][0], head), r=name, c=lowered(head.text))
    sheet.put(title=sheet.titled(sheet.heading()), heads=heads, rows=rows)


FAMILIES = {
    "tables": PageFamily(
        12,
        variants(figures, "tables/figures", "ruled", "striped", "bare", "grouped") | layouts("tables", register),
        variants(figures, "tables/turned", "turned")
        | variants(figures, "tables/figures", "dottedrows")
        | variants(register, "tables/register", "ledger"),
    ),
}
