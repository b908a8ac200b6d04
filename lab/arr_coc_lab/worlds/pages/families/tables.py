"""Dense tables: figures by row and column, and registers of records."""

from __future__ import annotations

from ..sheet import Mark, PageSheet, named
from ..wording import lowered
from ..words import vocabulary

RECORD_KINDS = ("date", "money", "code", "city", "int", "word", "percent", "time", "phone")


def set_up(sheet: PageSheet, paddings: tuple[int, int], **manners: float) -> None:
    sheet.set_manner(**manners)
    sheet.size, sheet.padding = min(sheet.size, 12), sheet.between(*paddings)


def cell_styles(sheet: PageSheet) -> dict[str, str]:
    """The looks of a cell and of a head, by layout."""
    color = sheet.pick("#000", "#444", sheet.hue(20, 45))
    ruled = f"border:1px solid {sheet.pick('#000', '#999')}"
    rules = {"ruled": ruled, "striped": "", "bare": "", "grouped": "border-bottom:1px solid #ccc"}
    rule = rules.get(sheet.layout, "border-bottom:1px dotted #888")
    pad = sheet.between(1, 5)
    cell = f"{rule};padding:{pad}px {sheet.between(4, 10)}px"
    tops = {"ruled": "background:#eee", "striped": f"background:{color};color:#fff"}
    top = tops.get(sheet.layout, f"border-top:2px solid {color};border-bottom:1px solid {color}")
    return {"cell": cell, "top": top}


def figure_of(sheet: PageSheet, form: str) -> str:
    """A number in one of five forms."""
    match form:
        case "int":
            return str(sheet.between(0, 999))
        case "pct":
            return f"{sheet.random.uniform(0, 100):.1f}%"
        case "dec":
            return f"{sheet.random.uniform(0, 50):.2f}"
        case "money":
            return sheet.money(900)
        case _:
            return f"{sheet.between(1000, 999999):,}"


def ask_cells(
    sheet: PageSheet, kind: str, share: float, heads: list[Mark], names: list[Mark], rows: list[list[Mark]]
) -> None:
    """A share of the cells by row and column, and now and then the row by a figure that is there once."""
    for name, row in zip(names, rows, strict=True):
        for column, (head, mark) in enumerate(zip(heads, row, strict=True)):
            if sheet.chance(share):
                text = head.text if head.text.isdigit() else head.text.lower()
                sheet.ask("cell", "cell", mark, (name, head), r=name.text, c=text)
                if sum(other[column].text == mark.text for other in rows) == 1 and sheet.chance(0.3):
                    sheet.ask("lookup", "row_of", name, (mark, head), k=kind, c=head.text, v=mark.text)


def figures(sheet: PageSheet) -> str:
    """Rows of names, columns of figures: ruled, striped, grouped, bare or (kept aside) turned on its side."""
    set_up(sheet, (8, 30), sans=6, serif=3, mono=2)
    n, k = sheet.between(5, max(7, sheet.height // 24)), sheet.between(3, max(4, sheet.width // 95))
    start = sheet.between(1980, 2015)
    years = sheet.chance(0.4)
    heads = [str(start + i) for i in range(k)] if years else sheet.random.sample(vocabulary("table.columns"), k)
    makers = {"country": "country", "person": "last_name", "company": "company", "city": "city", "name": "name"}
    kind = sheet.pick(*makers)
    texts = [name[:28] for name in sheet.distinct(getattr(sheet.fake, makers[kind]), n)]
    if years:
        forms = [sheet.pick("int", "pct", "dec", "big")] * k
    else:
        forms = [sheet.pick("int", "pct", "dec", "money", "big") for _ in heads]
    styles = cell_styles(sheet)
    columns, names = sheet.mark_all(*heads), sheet.mark_all(*texts)
    rows = [[sheet.mark(figure_of(sheet, form)) for form in forms] for _ in names]
    ask_cells(sheet, kind, min(1, 24 / (n * k)), columns, names, rows)
    title = sheet.mark(
        f"Table {sheet.between(1, 30)}. {sheet.sentence(3, 8)}" if sheet.chance(0.6) else sheet.heading(),
        sheet.pick("font-weight:bold;font-size:1.2em", "font-style:italic", "font-weight:bold"),
    )
    sheet.ask_title(title, "table.title")
    context = {"title": title, "columns": columns, "names": names, "rows": rows, **styles}
    if sheet.layout == "turned":
        context["shown"] = min(len(names), max(4, sheet.width // 60))
    else:
        context["first"] = sheet.mark(kind.capitalize())
        grouped = sheet.layout == "grouped"
        context["groups"] = [sheet.fake.word().capitalize() for _ in names[::6]] if grouped else []
    context["wide"] = sheet.pick("width:100%", "width:100%", "")
    context["note"] = sheet.paragraph(1) if sheet.chance(0.5) else ""
    return sheet.render("tables/turned" if sheet.layout == "turned" else "tables/figures", **context)


def register(sheet: PageSheet) -> str:
    """A list of records with columns of many kinds: names, dates, codes, amounts, states."""
    set_up(sheet, (6, 24), sans=6, serif=2, mono=3)
    labels = sheet.labels_of(RECORD_KINDS, 40)[: sheet.between(3, max(4, sheet.width // 130))]
    heads = sheet.mark_all(*(label for label, _ in labels))
    name_head = sheet.mark("Name")
    rule, rows = sheet.pick("border:1px solid #888", "border-bottom:1px solid #ccc", ""), []
    for _ in range(sheet.between(6, sheet.height // 22)):
        rows.append([name := sheet.mark(sheet.fake.name())])
        for (label, kind), head in zip(labels, heads, strict=True):
            rows[-1].append(cell := sheet.mark(sheet.value(kind)))
            if sheet.chance(0.15):
                sheet.ask("cell", "cell", cell, (name, head), r=name.text, c=lowered(label))
    title = sheet.mark(sheet.heading())
    sheet.ask_title(title)
    return sheet.render("tables/register", title=title, heads=[name_head, *heads], rows=rows, rule=rule)


TABLES = named(figures, "ruled", "striped", "bare", "grouped") | named(register, "register")
HELD_TABLES = named(figures, "turned", "dottedrows") | named(register, "ledger")
