"""Timetables and menus."""

from __future__ import annotations

from ..sheet import Sheet, named
from ..wording import PRICE, lowered
from ..words import vocabulary
from .tables import cells_of


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
                cells += (
                    f'<td style="{rule};padding:5px;background:'
                    f'{sheet.pick("#fff", "#fff", "#eef", "#efe", "#fee")}">{what}</td>'
                )
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
        return (
            f"{title}<table"
            ' style="width:100%;margin-top:8px"><tr><td></td>'
            f"{cells_of(days, f'padding:5px;background:{accent};color:#fff')}"
            f"</tr>{body}</table>"
        )
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
            body += f'<tr class="cut">{cells_of((time, to, code, gate, state), "padding:5px 10px")}</tr>'
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
    return (
        f'{title}<table style="margin-top:8px"><tr'
        f' style="background:{accent};color:#fff"><td></td>'
        f"{cells_of(lines, 'padding:3px 8px')}</tr>{body}"
        "</table>"
    )


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
                else (
                    f'{dish}<div style="flex:1;border-bottom:{sheet.random.choice((0, 1))}px dotted;margin:0 4px'
                    f' 3px"></div>{price}'
                )
            )
            rows += (
                '<div class="cut" style="margin:5px 0;break-inside:avoid"><div'
                f' style="display:flex">{order}</div>{note}</div>'
            )
            if len(dishes) < 2:
                break
        parts.append(
            "<div"
            ' style="break-inside:avoid;'
            f'{"border:1px solid;padding:6px;margin-bottom:6px" if layout == "boxes" else ""}">{head}{rows}'
            "</div>"
        )
        if len(dishes) < 8:
            break
    return (
        f'<div style="text-align:center">{title}</div><div'
        f' style="columns:{1 if layout == "plain" else 2};column-gap:26px">{"".join(parts)}</div>'
    )


TIMETABLES, HELD_TIMETABLES = named(timetable, "stops", "week"), named(timetable, "board")
MENUS, HELD_MENUS = named(menu, "plain", "columns", "boxes"), named(menu, "pricefirst")
