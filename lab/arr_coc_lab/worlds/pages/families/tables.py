"""Tables, registers, timetables and menus: a value stands where a row, a column and now and then a group cross."""

from __future__ import annotations

from collections.abc import Sequence

from ..sheet import Mark, PageFamily, PageSheet, layouts, variants
from ..words import lowered, vocabulary

RECORD_KINDS = ("date", "money", "code", "city", "int", "word", "percent", "time", "phone")
NAMES = {"country": "country", "person": "last_name", "company": "company", "city": "city", "name": "name"}
FORMS = ("int", "pct", "dec", "money", "big")


def start(sheet: PageSheet, mono: float = 2) -> None:
    """A small type, and the looks of a cell and of a head, by layout."""
    sheet.set_manner(sans=6, serif=3, mono=mono)
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


def row_names(sheet: PageSheet, n: int) -> tuple[str, list[Mark]]:
    """What rows are called together, and a name for each."""
    kind = sheet.pick(*NAMES)
    return kind, sheet.mark_all(*(name[:26] for name in sheet.distinct(getattr(sheet.fake, NAMES[kind]), n)))


def figures(sheet: PageSheet) -> None:
    """Rows of names, columns of figures: ruled, striped, grouped, bare or (kept aside) turned on its side."""
    start(sheet)
    n, k = sheet.between(5, max(7, sheet.height // 24)), sheet.between(3, max(4, sheet.width // 95))
    years, first = sheet.chance(0.4), sheet.between(1980, 2015)
    heads = [str(first + i) for i in range(k)] if years else sheet.random.sample(vocabulary("table.columns"), k)
    forms = [sheet.pick("int", "pct", "dec", "big")] * k if years else [sheet.pick(*FORMS) for _ in heads]
    (kind, names), columns = row_names(sheet, n), sheet.mark_all(*heads)
    rows = [[sheet.mark(figure_of(sheet, form)) for form in forms] for _ in names]
    for name, row in zip(names, rows, strict=True):
        for column, (head, mark) in enumerate(zip(columns, row, strict=True)):
            if not sheet.chance(min(1, 24 / (n * k))):
                continue
            sheet.ask("cell", "cell", mark, (name, head), r=name.text, c=head.text.lower())
            if sum(other[column].text == mark.text for other in rows) == 1 and sheet.chance(0.3):
                sheet.ask("lookup", "row_of", name, (mark, head), k=kind, c=head.text, v=mark.text)
    groups = [sheet.fake.word().capitalize() for _ in names[::6]] if sheet.layout == "grouped" else []
    sheet.put(title=table_title(sheet), columns=columns, names=names, rows=rows, groups=groups)
    sheet.put(first=sheet.mark(kind.capitalize()), wide=sheet.pick("width:100%", "width:100%", ""))
    sheet.put(shown=min(len(names), max(4, sheet.width // 60)))


def register(sheet: PageSheet) -> None:
    """A list of records with columns of many kinds: names, dates, codes, amounts, states."""
    start(sheet, mono=3)
    labels = sheet.labels_of(RECORD_KINDS, 40)[: sheet.between(3, max(4, sheet.width // 130))]
    heads = sheet.mark_all("Name", *(label for label, _ in labels))
    rows = []
    for _ in range(sheet.between(6, sheet.height // 22)):
        rows.append(sheet.mark_all(sheet.fake.name(), *(sheet.value(kind) for _, kind in labels)))
        for head, cell in zip(heads[1:], rows[-1][1:], strict=True):
            if sheet.chance(0.15):
                sheet.ask("cell", "cell", cell, (rows[-1][0], head), r=rows[-1][0].text, c=lowered(head.text))
    sheet.put(title=sheet.titled(sheet.heading()), heads=heads, rows=rows)


def group_names(sheet: PageSheet, n: int) -> tuple[str, list[str]]:
    """What groups are called together, and n of them."""
    kind, year = sheet.pick("year", "quarter", "group", "place"), sheet.between(1990, 2020)
    made = {"year": [str(year + step) for step in range(n)], "quarter": [f"Q{step + 1}" for step in range(n)]}
    made |= {"group": sheet.random.sample(vocabulary("groups"), n)}
    made |= {"place": [text[:18] for text in sheet.distinct(sheet.fake.city, n)]}
    return kind, made[kind]


def ask_crossings(sheet: PageSheet, kind: str, crossings: Sequence[tuple[Mark, Mark, Mark, Mark]]) -> None:
    """Some of the values by their row, group and column, and the group by a value that is there once."""
    texts = [value.text for *_, value in crossings]
    for row, group, column, value in crossings:
        if not sheet.chance(min(1, 26 / len(crossings))):
            continue
        slots = {"r": row.text, "c": column.text.lower()}
        sheet.ask("cell", "crossing.cell", value, (row, group, column), g=group.text, **slots)
        if texts.count(value.text) == 1 and sheet.chance(0.25):
            sheet.ask("lookup", "crossing.which", group, (value, row, column), v=value.text, k=kind, **slots)


def crossing(sheet: PageSheet) -> None:
    """Heads over several columns, with a last row of totals."""
    start(sheet)
    kind, texts = group_names(sheet, sheet.between(2, 4 if sheet.width > 600 else 3))
    heads = sheet.random.sample(vocabulary("table.columns"), max(2, min(3, sheet.width // 70 // len(texts))))
    forms, groups = [sheet.pick(*FORMS) for _ in heads], sheet.mark_all(*texts)
    columns = [mark for _ in groups for mark in sheet.mark_all(*heads)]
    over, lines, crossings = [group for group in groups for _ in heads], [], []
    _, names = row_names(sheet, sheet.between(5, max(6, sheet.height // 26)))
    for row in (*names, sheet.mark(sheet.pick("Total", "TOTAL", "Sum", "All"))):
        values = [sheet.mark(figure_of(sheet, form)) for _ in groups for form in forms]
        crossings += [(row, *each) for each in zip(over, columns, values, strict=True)]
        lines.append((row, values))
    ask_crossings(sheet, kind, crossings)
    sheet.put(title=table_title(sheet), groups=groups, columns=columns, lines=lines, span=len(heads))
    sheet.put(first=sheet.mark(sheet.pick("Name", "Item", "Region", "")))


def sided(sheet: PageSheet) -> None:
    """Names of groups above several rows, or (kept aside) beside them."""
    start(sheet)
    kind, texts = group_names(sheet, sheet.between(2, 4))
    columns = sheet.mark_all(*sheet.random.sample(vocabulary("table.columns"), sheet.between(2, 5)))
    forms = [sheet.pick(*FORMS) for _ in columns]
    names = [name.text for name in row_names(sheet, sheet.between(3, 6))[1]]
    lines, crossings = [], []
    for group in sheet.mark_all(*texts):
        block = [(row, [sheet.mark(figure_of(sheet, form)) for form in forms]) for row in sheet.mark_all(*names)]
        crossings += [(row, group, *pair) for row, values in block for pair in zip(columns, values, strict=True)]
        lines.append((group, block))
    ask_crossings(sheet, kind, crossings)
    sheet.put(title=table_title(sheet), columns=columns, lines=lines, span=len(columns), high=sheet.chance(0.5))
    sheet.put(first=sheet.mark(sheet.pick("Name", "Item", "Region", "")))


# ---- Timetables and menus --------------------------------------------------------------------------------------------


def start_schedule(sheet: PageSheet) -> None:
    """A title, a colour, a rule."""
    sheet.padding, sheet.size = sheet.between(8, 30), min(sheet.size, 12)
    text = f"{sheet.word('schedule.titles')} {sheet.pick('', sheet.fake.city(), '2019', 'Summer')}"
    rule = sheet.pick("border:1px solid #999", "border-bottom:1px solid #ccc")
    sheet.put(accent=sheet.pick("#000", sheet.hue(20, 40)), rule=rule, title=sheet.titled(text))


def week(sheet: PageSheet) -> None:
    """A week's lessons."""
    start_schedule(sheet)
    days = sheet.mark_all(*vocabulary("schedule.days"))
    subjects, hours = sheet.some("schedule.lessons", 14), []
    for hour in range(8, 8 + sheet.between(5, 10)):
        time = sheet.mark(f"{hour:02d}:{sheet.pick('00', '15', '30')}")
        lessons = [
            (sheet.mark(sheet.pick(*subjects)), sheet.pick("#fff", "#fff", "#eef", "#efe", "#fee")) for _ in days
        ]
        for day, (lesson, _) in zip(days, lessons, strict=True):
            if sheet.chance(0.35):
                sheet.ask("cell", "schedule.lesson", lesson, (day, time), d=day.text, t=time.text)
        hours.append((time, lessons))
    sheet.put(days=days, hours=hours)


def board(sheet: PageSheet) -> None:
    """Kept aside: a board of departures."""
    start_schedule(sheet)
    sheet.paper, sheet.ink = "#10131a", "#ffd34d"
    rows = []
    for _ in range(sheet.between(6, 16)):
        time, gate = (
            f"{sheet.between(0, 23):02d}:{sheet.between(0, 59):02d}",
            f"{sheet.pick(*'ABC')}{sheet.between(1, 30)}",
        )
        code = f"{sheet.pick('LH', 'BA', 'AF', 'IC', 'RE', 'KL')} {sheet.between(10, 999)}"
        row = sheet.mark_all(time, sheet.fake.city(), code, gate, sheet.word("schedule.states"))
        for what, place in (("time", 0), ("gate", 3), ("number", 2), ("status", 4)):
            sheet.ask("lookup", "schedule.departure", row[place], row[1], w=what, c=row[1].text)
        rows.append(row)
    sheet.put(rows=rows)


def stops(sheet: PageSheet) -> None:
    """Stops and times of several trips."""
    start_schedule(sheet)
    trips = sheet.between(3, max(4, sheet.width // 90))
    lines = sheet.mark_all(*(sheet.between(100, 999) for _ in range(trips)))
    minutes, rows = [sheet.between(300, 360) + 55 * i for i in range(trips)], []
    make = sheet.fake.city if sheet.chance(0.5) else sheet.fake.street_name
    for name in sheet.mark_all(*sheet.distinct(make, sheet.between(6, max(7, sheet.height // 32)))):
        minutes = [minute + sheet.between(2, 19) for minute in minutes]
        times = sheet.mark_all(*(f"{minute // 60 % 24:02d}:{minute % 60:02d}" for minute in minutes))
        for line, time in zip(lines, times, strict=True):
            if sheet.chance(0.2):
                sheet.ask("cell", "schedule.stop", time, (name, line), n=line.text, s=name.text)
        rows.append((name, times))
    sheet.put(lines=lines, rows=rows)


def menu(sheet: PageSheet) -> None:
    """Dishes with prices under headings, in columns, boxes or (kept aside) price first."""
    sheet.manner = sheet.pick("serif", "sans", "serif")
    sheet.paper = sheet.pick("#fff", "#fff", "#fbf6ea", "#222")
    sheet.ink = "#eee" if sheet.paper == "#222" else "#111"
    name = sheet.fake.last_name() + sheet.pick(" Cafe", "'s Kitchen", " Grill", " Bistro")
    look = f"font-family:'{sheet.face('display')}';font-size:2.4em"
    dishes, courses = iter(sheet.some("dishes", 99)), []
    for course in sheet.some("schedule.courses", sheet.between(3, 6)):
        rows = [(next(dishes), sheet.money(30)) for _ in range(sheet.between(3, 6))]
        head = sheet.asked("place", "point", course, L=course)
        marks = sheet.listed(rows, ("value", "price", 1, 0, "I"))
        notes = [sheet.sentence(3, 8) if sheet.chance(0.6) else "" for _ in rows]
        courses.append((head, [(*pair, note, sheet.pick(0, 1)) for pair, note in zip(marks, notes, strict=True)]))
    sheet.put(title=sheet.asked("title", "schedule.restaurant", name, look), courses=courses)


FAMILIES = {
    "tables": PageFamily(
        6,
        variants(figures, "tables/figures", "ruled", "striped", "bare", "grouped") | layouts("tables", register),
        variants(figures, "tables/turned", "turned")
        | variants(figures, "tables/figures", "dottedrows")
        | variants(register, "tables/register", "ledger"),
    ),
    "crossings": PageFamily(
        6,
        variants(crossing, "tables/crossing", "ruled", "striped", "bare") | variants(sided, "tables/sided", "stepped"),
        variants(crossing, "tables/crossing", "dottedspans") | layouts("tables", sided),
    ),
    "timetables": PageFamily(2, layouts("schedules", stops, week), layouts("schedules", board)),
    "menus": PageFamily(
        1,
        variants(menu, "schedules/menu", "plain", "columns", "boxes"),
        variants(menu, "schedules/menu", "pricefirst"),
    ),
}
