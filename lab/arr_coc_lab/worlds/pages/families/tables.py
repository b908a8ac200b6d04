"""Dense tables, timetables and menus."""

from __future__ import annotations

from collections.abc import Iterable

from ..sheet import Mark, Sheet, named
from ..wording import CELL, ROW_OF, lowered

COLUMNS = (
    "Revenue",
    "Cost",
    "Profit",
    "Units",
    "Share",
    "Growth",
    "Population",
    "Area",
    "Rank",
    "Score",
    "Price",
    "Rate",
    "Orders",
    "Returns",
    "Visits",
    "Budget",
    "Actual",
    "Target",
    "Median",
    "Mean",
    "Max",
    "Min",
    "Yield",
    "Weight",
    "Length",
    "Density",
    "Votes",
    "Seats",
    "Goals",
    "Points",
    "Wins",
    "Losses",
)


def cells_of(marks: Iterable[Mark], style: str) -> str:
    return "".join(f'<td style="{style}">{mark}</td>' for mark in marks)


def figures(sheet: Sheet, layout: str) -> str:
    """Rows of names, columns of figures: ruled, striped, grouped, bare or (kept aside) turned on its side."""
    sheet.layout, sheet.manner = layout, sheet.random.choices(("sans", "serif", "mono"), (6, 3, 2))[0]
    sheet.size, sheet.padding = min(sheet.size, 12), sheet.random.randint(8, 30)
    n, k = sheet.random.randint(5, max(7, sheet.height // 24)), sheet.random.randint(3, max(4, sheet.width // 95))
    start = sheet.random.randint(1980, 2015)
    heads = [str(start + i) for i in range(k)] if sheet.chance(0.4) else sheet.random.sample(COLUMNS, k)
    kind, make = sheet.random.choice(
        (
            ("country", sheet.fake.country),
            ("person", sheet.fake.last_name),
            ("company", sheet.fake.company),
            ("city", sheet.fake.city),
            ("name", sheet.fake.name),
        )
    )
    names = [name[:28] for name in sheet.distinct(make, n)]
    forms = (
        [sheet.random.choice(("int", "pct", "dec", "money", "big")) for _ in heads]
        if not heads[0].isdigit()
        else [sheet.random.choice(("int", "pct", "dec", "big"))] * k
    )
    value = {
        "int": lambda: str(sheet.random.randint(0, 999)),
        "pct": lambda: f"{sheet.random.uniform(0, 100):.1f}%",
        "dec": lambda: f"{sheet.random.uniform(0, 50):.2f}",
        "money": lambda: sheet.money(900),
        "big": lambda: f"{sheet.random.randint(1000, 999999):,}",
    }
    color = sheet.pick("#000", "#444", sheet.hue(20, 45))
    rule = {
        "ruled": f"border:1px solid {sheet.pick('#000', '#999')}",
        "striped": "",
        "bare": "",
        "grouped": "border-bottom:1px solid #ccc",
    }.get(layout, "border-bottom:1px dotted #888")
    pad = sheet.random.randint(1, 5)
    cell = f"{rule};padding:{pad}px {sheet.random.randint(4, 10)}px"
    top = {"ruled": "background:#eee", "striped": f"background:{color};color:#fff"}.get(
        layout, f"border-top:2px solid {color};border-bottom:1px solid {color}"
    )
    column_marks = [sheet.mark(head, "font-weight:bold") for head in heads]
    row_marks = [sheet.mark(name) for name in names]
    cells = [[sheet.mark(value[form]()) for form in forms] for _ in names]
    for row, name in enumerate(row_marks):
        for column, head in enumerate(column_marks):
            if sheet.chance(min(1, 24 / (n * k))):
                mark = cells[row][column]
                sheet.ask(
                    "cell",
                    CELL,
                    mark,
                    (name, head),
                    r=name.text,
                    c=head.text if head.text.isdigit() else head.text.lower(),
                )
                if sum(other[column].text == mark.text for other in cells) == 1 and sheet.chance(0.3):
                    sheet.ask("lookup", ROW_OF, name, (mark, head), k=kind, c=head.text, v=mark.text)
    title = sheet.mark(
        f"Table {sheet.random.randint(1, 30)}. {sheet.sentence(3, 8)}" if sheet.chance(0.6) else sheet.heading(),
        sheet.pick("font-weight:bold;font-size:1.2em", "font-style:italic", "font-weight:bold"),
    )
    sheet.ask_title(
        title,
        ("What is the title of the table?", "What is the table about?", "table title", "What does the table show?"),
    )
    if layout == "turned":
        head = f'<td style="{top}"></td>' + "".join(
            f'<td style="{top};padding:2px 4px;writing-mode:vertical-rl;vertical-align:bottom">{mark}</td>'
            for mark in row_marks[: max(4, sheet.width // 60)]
        )
        body = "".join(
            f'<tr class="cut"><td style="{cell}">{mark}</td>'
            + "".join(
                f'<td style="{cell};text-align:right">{cells[row][column]}</td>'
                for row in range(min(len(names), max(4, sheet.width // 60)))
            )
            + "</tr>"
            for column, mark in enumerate(column_marks)
        )
    else:
        first = sheet.mark(kind.capitalize(), "font-weight:bold")
        head = f'<td style="{cell};{top}">{first}</td>' + "".join(
            f'<td style="{cell};{top};text-align:right">{mark}</td>' for mark in column_marks
        )
        body = ""
        for row, name in enumerate(row_marks):
            shade = "background:#f0f0f0" if layout == "striped" and row % 2 else ""
            if layout == "grouped" and row % 6 == 0:
                body += (
                    f'<tr class="cut"><td colspan="{k + 1}"'
                    ' style="padding:4px;font-weight:bold;background:#e8e8e8">'
                    f"{sheet.text(sheet.fake.word().capitalize())}</td></tr>"
                )
            body += (
                f'<tr class="cut" style="{shade}"><td'
                f' style="{cell};{"padding-left:16px" if layout == "grouped" else ""}">{name}</td>'
                + "".join(f'<td style="{cell};text-align:right">{mark}</td>' for mark in cells[row])
                + "</tr>"
            )
    wide = sheet.pick("width:100%", "width:100%", "")
    note = f'<p class="cut" style="font-size:.8em">{sheet.text(sheet.paragraph(1))}</p>' if sheet.chance(0.5) else ""
    return f'<div style="margin-bottom:6px">{title}</div><table style="{wide}"><tr>{head}</tr>{body}</table>{note}'


def register(sheet: Sheet, layout: str) -> str:
    """A list of records with columns of many kinds: names, dates, codes, amounts, states."""
    sheet.layout, sheet.manner = layout, sheet.random.choices(("sans", "serif", "mono"), (6, 2, 3))[0]
    sheet.size, sheet.padding = min(sheet.size, 12), sheet.random.randint(6, 24)
    labels = [
        pair
        for pair in sheet.labels(40)
        if pair[1] in ("date", "money", "code", "city", "int", "word", "percent", "time", "phone")
    ][: sheet.random.randint(3, max(4, sheet.width // 130))]
    heads = [sheet.mark(label, "font-weight:bold") for label, _ in labels]
    name_head = sheet.mark("Name", "font-weight:bold")
    rule, body = sheet.pick("border:1px solid #888", "border-bottom:1px solid #ccc", ""), ""
    for row in range(sheet.random.randint(6, sheet.height // 22)):
        name = sheet.mark(sheet.fake.name())
        marks: list[Mark] = []
        for (label, kind), head in zip(labels, heads, strict=True):
            marks.append(sheet.mark(sheet.value(kind)))
            if sheet.chance(0.15):
                sheet.ask("cell", CELL, marks[-1], (name, head), r=name.text, c=lowered(label))
        shade = "background:#eef2f7" if row % 2 and sheet.layout == "register" else ""
        body += (
            f'<tr class="cut" style="{shade}"><td style="{rule};padding:2px 6px">{name}</td>'
            + "".join(f'<td style="{rule};padding:2px 6px">{mark}</td>' for mark in marks)
            + "</tr>"
        )
    title = sheet.mark(sheet.heading(), "font-weight:bold;font-size:1.3em")
    sheet.ask_title(title)
    return (
        f'<div style="margin-bottom:6px">{title}</div><table style="width:100%"><tr style="border-bottom:2px'
        ' solid">'
        f"{cells_of((name_head, *heads), 'padding:2px 6px')}"
        f"</tr>{body}</table>"
    )


TABLES = named(figures, "ruled", "striped", "bare", "grouped") | named(register, "register")
HELD_TABLES = named(figures, "turned", "dottedrows") | named(register, "ledger")
