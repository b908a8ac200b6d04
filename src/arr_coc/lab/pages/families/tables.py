"""Dense tables, timetables and menus."""

from __future__ import annotations

from functools import partial

from ..sheet import Mark, Sheet
from ..wording import CELL, PRICE, ROW_OF, lowered
from ..words import vocabulary

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
                body += f'<tr class="cut"><td colspan="{k + 1}" style="padding:4px;font-weight:bold;background:#e8e8e8">{sheet.text(sheet.fake.word().capitalize())}</td></tr>'
            body += (
                f'<tr class="cut" style="{shade}"><td style="{cell};{"padding-left:16px" if layout == "grouped" else ""}">{name}</td>'
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
    return f'<div style="margin-bottom:6px">{title}</div><table style="width:100%"><tr style="border-bottom:2px solid">{"".join(f"<td style={chr(34)}padding:2px 6px{chr(34)}>{mark}</td>" for mark in (name_head, *heads))}</tr>{body}</table>'


def timetable(sheet: Sheet, layout: str) -> str:
    """Stops and times, a week's lessons, or (kept aside) a board of departures."""
    sheet.layout, sheet.padding, sheet.size = layout, sheet.random.randint(8, 30), min(sheet.size, 12)
    accent, rule = (
        sheet.pick("#000", sheet.hue(20, 40)),
        sheet.pick("border:1px solid #999", "border-bottom:1px solid #ccc"),
    )
    title = sheet.mark(
        sheet.pick(
            "Timetable", "Line 12", "Weekly schedule", "Departures", "Class schedule", "Bus route 7", "Opening hours"
        )
        + " "
        + sheet.pick("", sheet.fake.city(), "2019", "Summer"),
        "font-size:1.5em;font-weight:bold",
    )
    sheet.ask_title(title)
    if layout == "week":
        days, body = (
            [sheet.mark(day, "font-weight:bold") for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")],
            "",
        )
        subjects = sheet.random.sample(
            (
                "Mathematics",
                "English",
                "History",
                "Physics",
                "Chemistry",
                "Biology",
                "Music",
                "Art",
                "Sports",
                "Geography",
                "French",
                "Latin",
                "Ethics",
                "Drama",
                "Computing",
                "Yoga",
                "Pilates",
                "Spinning",
                "Staff meeting",
                "Lunch",
                "Workshop",
            ),
            14,
        )
        for hour in range(8, 8 + sheet.random.randint(5, 10)):
            time, cells = sheet.mark(f"{hour:02d}:{sheet.pick('00', '15', '30')}"), ""
            for day in days:
                what = sheet.mark(sheet.random.choice(subjects))
                cells += f'<td style="{rule};padding:5px;background:{sheet.pick("#fff", "#fff", "#eef", "#efe", "#fee")}">{what}</td>'
                if sheet.chance(0.35):
                    sheet.ask(
                        "cell",
                        (
                            "What is on {d} at {t}?",
                            "Which lesson is on {d} at {t}?",
                            "{d} {t}",
                            "What happens {d}, {t}?",
                        ),
                        what,
                        (day, time),
                        d=day.text,
                        t=time.text,
                    )
            body += f'<tr class="cut"><td style="{rule};padding:5px">{time}</td>{cells}</tr>'
        return f'{title}<table style="width:100%;margin-top:8px"><tr><td></td>{"".join(f"<td style={chr(34)}padding:5px;background:{accent};color:#fff{chr(34)}>{day}</td>" for day in days)}</tr>{body}</table>'
    if layout == "board":
        body = ""
        for _ in range(sheet.random.randint(6, 16)):
            time, to, code, gate = (
                sheet.mark(f"{sheet.random.randint(0, 23):02d}:{sheet.random.randint(0, 59):02d}"),
                sheet.mark(sheet.fake.city()),
                sheet.mark(f"{sheet.pick('LH', 'BA', 'AF', 'IC', 'RE', 'KL')} {sheet.random.randint(10, 999)}"),
                sheet.mark(f"{sheet.pick('A', 'B', 'C')}{sheet.random.randint(1, 30)}"),
            )
            state = sheet.mark(sheet.pick("On time", "Delayed", "Boarding", "Cancelled", "Gate open"))
            for what, mark in (("time", time), ("gate", gate), ("number", code), ("status", state)):
                sheet.ask(
                    "lookup",
                    ("What is the {w} for {c}?", "{c}: {w}?", "Which {w} does the one to {c} have?"),
                    mark,
                    (to,),
                    w=what,
                    c=to.text,
                )
            body += f'<tr class="cut">{"".join(f"<td style={chr(34)}padding:5px 10px{chr(34)}>{m}</td>" for m in (time, to, code, gate, state))}</tr>'
        sheet.paper, sheet.ink = "#10131a", "#ffd34d"
        return f'{title}<table style="width:100%;margin-top:8px">{body}</table>'
    trips = sheet.random.randint(3, max(4, sheet.width // 90))
    lines = [sheet.mark(str(sheet.random.randint(100, 999)), "font-weight:bold") for _ in range(trips)]
    body, minute = "", [sheet.random.randint(300, 360) + 55 * i for i in range(trips)]
    for stop in sheet.distinct(
        sheet.fake.city if sheet.chance(0.5) else sheet.fake.street_name,
        sheet.random.randint(6, max(7, sheet.height // 32)),
    ):
        name, cells = sheet.mark(stop), ""
        for i in range(trips):
            minute[i] += sheet.random.randint(2, 19)
            time = sheet.mark(f"{minute[i] // 60 % 24:02d}:{minute[i] % 60:02d}")
            cells += f'<td style="{rule};padding:2px 8px;text-align:center">{time}</td>'
            if sheet.chance(0.2):
                sheet.ask(
                    "cell",
                    (
                        "When does {n} stop at {s}?",
                        "At what time is {n} in {s}?",
                        "{s}, {n}",
                        "When does number {n} leave {s}?",
                    ),
                    time,
                    (name, lines[i]),
                    n=lines[i].text,
                    s=stop,
                )
        body += f'<tr class="cut"><td style="{rule};padding:2px 8px">{name}</td>{cells}</tr>'
    return f'{title}<table style="margin-top:8px"><tr style="background:{accent};color:#fff"><td></td>{"".join(f"<td style={chr(34)}padding:3px 8px{chr(34)}>{mark}</td>" for mark in lines)}</tr>{body}</table>'


def menu(sheet: Sheet, layout: str) -> str:
    """Dishes with prices under headings, in columns, boxes or (kept aside) price first."""
    sheet.layout, sheet.manner = layout, sheet.pick("serif", "sans", "serif")
    sheet.paper = sheet.pick("#fff", "#fff", "#fbf6ea", "#222")
    sheet.ink = "#eee" if sheet.paper == "#222" else "#111"
    title = sheet.mark(
        sheet.fake.last_name() + sheet.pick(" Cafe", "'s Kitchen", " Grill", " Bistro"),
        f"font-family:'{sheet.face('display')}';font-size:2.4em",
    )
    sheet.ask("title", ("What is the name of the restaurant?", "Which restaurant is this?", "restaurant name"), title)
    dishes = list(vocabulary("dishes"))
    sheet.random.shuffle(dishes)
    parts = []
    for section in sheet.random.sample(
        (
            "Starters",
            "Soups",
            "Salads",
            "Mains",
            "Grill",
            "Pasta",
            "Desserts",
            "Drinks",
            "Specials",
            "Breakfast",
            "Kids",
        ),
        sheet.random.randint(3, 6),
    ):
        head = sheet.mark(section, "font-size:1.4em;font-weight:bold")
        sheet.ask_place(head)
        rows = ""
        for _ in range(sheet.random.randint(3, 6)):
            dish, price = sheet.mark(dishes.pop(), "font-weight:bold"), sheet.mark(sheet.money(30))
            sheet.ask("value", PRICE, price, (dish,), I=dish.text, i=lowered(dish.text))
            note = (
                f'<div style="font-size:.8em;opacity:.8">{sheet.text(sheet.sentence(3, 8))}</div>'
                if sheet.chance(0.6)
                else ""
            )
            order = (
                f"{price} &nbsp; {dish}"
                if layout == "pricefirst"
                else f'{dish}<div style="flex:1;border-bottom:{sheet.random.choice((0, 1))}px dotted;margin:0 4px 3px"></div>{price}'
            )
            rows += f'<div class="cut" style="margin:5px 0;break-inside:avoid"><div style="display:flex">{order}</div>{note}</div>'
            if len(dishes) < 2:
                break
        parts.append(
            f'<div style="break-inside:avoid;{"border:1px solid;padding:6px;margin-bottom:6px" if layout == "boxes" else ""}">{head}{rows}</div>'
        )
        if len(dishes) < 8:
            break
    return f'<div style="text-align:center">{title}</div><div style="columns:{1 if layout == "plain" else 2};column-gap:26px">{"".join(parts)}</div>'


def _of(make, *names):
    return {name: partial(make, layout=name) for name in names}


TABLES = _of(figures, "ruled", "striped", "bare", "grouped") | _of(register, "register")
HELD_TABLES = _of(figures, "turned", "dottedrows") | _of(register, "ledger")
TIMETABLES, HELD_TIMETABLES = _of(timetable, "stops", "week"), _of(timetable, "board")
MENUS, HELD_MENUS = _of(menu, "plain", "columns", "boxes"), _of(menu, "pricefirst")
