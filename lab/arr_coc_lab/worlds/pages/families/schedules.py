"""Timetables and menus."""

from __future__ import annotations

from ..sheet import Mark, PageSheet, layouts, named
from ..words import vocabulary


def set_up(sheet: PageSheet) -> dict[str, object]:
    """What all timetables share: a title, a colour, a rule."""
    sheet.padding, sheet.size = sheet.between(8, 30), min(sheet.size, 12)
    accent = sheet.pick("#000", sheet.hue(20, 40))
    rule = sheet.pick("border:1px solid #999", "border-bottom:1px solid #ccc")
    name = sheet.word("schedule.titles")
    title = sheet.mark(f"{name} {sheet.pick('', sheet.fake.city(), '2019', 'Summer')}")
    sheet.ask_title(title)
    return {"accent": accent, "rule": rule, "title": title}


def week(sheet: PageSheet) -> str:
    """A week's lessons."""
    context = set_up(sheet)
    days = sheet.mark_all(*vocabulary("schedule.days"))
    subjects, hours = sheet.some("schedule.lessons", 14), []
    for hour in range(8, 8 + sheet.between(5, 10)):
        time, lessons = sheet.mark(f"{hour:02d}:{sheet.pick('00', '15', '30')}"), []
        for day in days:
            what = sheet.mark(sheet.random.choice(subjects))
            lessons.append((what, sheet.pick("#fff", "#fff", "#eef", "#efe", "#fee")))
            if sheet.chance(0.35):
                sheet.ask("cell", "schedule.lesson", what, (day, time), d=day.text, t=time.text)
        hours.append((time, lessons))
    return sheet.render("schedules/week", days=days, hours=hours, **context)


def board(sheet: PageSheet) -> str:
    """Kept aside: a board of departures."""
    context, rows = set_up(sheet), []
    for _ in range(sheet.between(6, 16)):
        time, to, code, gate = sheet.mark_all(
            f"{sheet.between(0, 23):02d}:{sheet.between(0, 59):02d}",
            sheet.fake.city(),
            f"{sheet.pick('LH', 'BA', 'AF', 'IC', 'RE', 'KL')} {sheet.between(10, 999)}",
            f"{sheet.pick('A', 'B', 'C')}{sheet.between(1, 30)}",
        )
        state = sheet.mark(sheet.word("schedule.states"))
        for what, mark in (("time", time), ("gate", gate), ("number", code), ("status", state)):
            sheet.ask("lookup", "schedule.departure", mark, to, w=what, c=to.text)
        rows.append((time, to, code, gate, state))
    sheet.paper, sheet.ink = "#10131a", "#ffd34d"
    return sheet.render("schedules/board", rows=rows, **context)


def stops(sheet: PageSheet) -> str:
    """Stops and times of several trips."""
    context = set_up(sheet)
    trips = sheet.between(3, max(4, sheet.width // 90))
    lines = sheet.mark_all(*(sheet.between(100, 999) for _ in range(trips)))
    minutes, rows = [sheet.between(300, 360) + 55 * i for i in range(trips)], []
    make = sheet.fake.city if sheet.chance(0.5) else sheet.fake.street_name
    for stop in sheet.distinct(make, sheet.between(6, max(7, sheet.height // 32))):
        name = sheet.mark(stop)
        times: list[Mark] = []
        for trip, line in enumerate(lines):
            minutes[trip] += sheet.between(2, 19)
            times.append(sheet.mark(f"{minutes[trip] // 60 % 24:02d}:{minutes[trip] % 60:02d}"))
            if sheet.chance(0.2):
                sheet.ask("cell", "schedule.stop", times[-1], (name, line), n=line.text, s=stop)
        rows.append((name, times))
    return sheet.render("schedules/stops", lines=lines, rows=rows, **context)


def menu(sheet: PageSheet) -> str:
    """Dishes with prices under headings, in columns, boxes or (kept aside) price first."""
    sheet.manner = sheet.pick("serif", "sans", "serif")
    sheet.paper = sheet.pick("#fff", "#fff", "#fbf6ea", "#222")
    sheet.ink = "#eee" if sheet.paper == "#222" else "#111"
    name = sheet.fake.last_name() + sheet.pick(" Cafe", "'s Kitchen", " Grill", " Bistro")
    title = sheet.mark(name, f"font-family:'{sheet.face('display')}';font-size:2.4em")
    sheet.ask("title", "schedule.restaurant", title)
    dishes = list(vocabulary("dishes"))
    sheet.random.shuffle(dishes)
    courses = []
    for course in sheet.some("schedule.courses", sheet.between(3, 6)):
        head, rows = sheet.mark(course), []
        sheet.ask_place(head)
        for _ in range(sheet.between(3, 6)):
            dish, price = sheet.mark_all(dishes.pop(), sheet.money(30))
            sheet.ask("value", "price", price, dish, I=dish.text)
            note = sheet.sentence(3, 8) if sheet.chance(0.6) else ""
            rows.append((dish, price, note, 0 if sheet.layout == "pricefirst" else sheet.pick(0, 1)))
            if len(dishes) < 2:
                break
        courses.append((head, rows))
        if len(dishes) < 8:
            break
    return sheet.render("schedules/menu", title=title, courses=courses)


TIMETABLES, HELD_TIMETABLES = layouts(stops, week), layouts(board)
MENUS, HELD_MENUS = named(menu, "plain", "columns", "boxes"), named(menu, "pricefirst")
