"""What opens on a screen: dialogs, menus, a browser's bars; kept aside: an assistant of some steps, a box of tools."""

from __future__ import annotations

from ..sheet import PageSheet, layouts
from ..words import vocabulary
from .desks import start, window

KEYS = ("Ctrl+", "Ctrl+Shift+", "Alt+", "Cmd+", "")


def dialog(sheet: PageSheet) -> str:
    """A dialog over a window of text: a title, a message, options, buttons."""
    colours = start(sheet)
    title, message = sheet.mark_all(sheet.sentence(2, 4), sheet.sentence(5, 12))
    sheet.ask("title", "dialog.title", title)
    sheet.ask("place", "dialog.message", message)
    options = [(sheet.entry(word), sheet.chance(0.5)) for word in sheet.some("ui", sheet.between(0, 4))]
    answers = [sheet.entry(word) for word in sheet.random.sample(vocabulary("dialog.answers"), sheet.between(2, 3))]
    close = sheet.icon("close", asked=True)
    body: dict[str, object] = {"dialog": title, "message": message, "options": options, "answers": answers}
    body |= {"close": close}
    body |= {"left": sheet.between(12, 45), "drop": sheet.between(15, 45), "text": sheet.paragraph(14)}
    return window(sheet, "Notes", colours, "dialogs", **body)


def menus(sheet: PageSheet) -> str:
    """An open menu: commands, their keys, some greyed out; text behind it."""
    colours = start(sheet)
    letters = sheet.random.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 12)
    rows = []
    for word, letter in zip(sheet.some("ui", sheet.between(6, 12)), letters, strict=False):
        name, key = sheet.mark_all(word, f"{sheet.random.choice(KEYS)}{letter}")
        sheet.ask_click(name)
        sheet.ask("lookup", "dialog.key", key, name, L=word)
        rows.append((name, key, sheet.chance(0.2), sheet.chance(0.2)))
    body = {"rows": rows, "left": sheet.between(2, 40), "text": sheet.paragraph(18)}
    return window(sheet, "Writer", colours, "dialogs", **body)


def browser_window(sheet: PageSheet) -> str:
    """Tabs, an address, bookmarks, icons, and a page below them."""
    colours = start(sheet)
    tabs = [sheet.entry(sheet.fake.company()[:18], icons=0.6) for _ in range(sheet.between(2, 5))]
    address = sheet.mark(f"https://www.{sheet.fake.domain_name()}/{sheet.fake.uri_path()}")
    sheet.ask("place", "dialog.address", address)
    icons = [sheet.icon(asked=True) for _ in range(sheet.between(3, 8))]
    bookmarks = [sheet.entry(word, icons=0.5) for word in sheet.some("ui", sheet.between(3, 7))]
    headline = sheet.mark(sheet.heading())
    sheet.ask("title", "web.headline", headline)
    links = [sheet.entry(word) for word in sheet.some("ui", sheet.between(2, 6))]
    context: dict[str, object] = {"tabs": tabs, "address": address, "icons": icons, "bookmarks": bookmarks}
    context |= {"headline": headline}
    context |= {"links": links, "paragraphs": [sheet.paragraph(5) for _ in range(4)], "radius": sheet.pick(0, 4, 12)}
    return sheet.render("dialogs/browser", **context, **colours._asdict())


def assistant(sheet: PageSheet) -> str:
    """Kept aside: an assistant with its steps at the left and buttons below."""
    colours = start(sheet)
    steps = sheet.mark_all(*sheet.some("ui", sheet.between(3, 6)))
    now = sheet.random.randrange(len(steps))
    sheet.ask("choice", "dialog.step", steps[now])
    message = sheet.mark(sheet.sentence(5, 12))
    sheet.ask("place", "dialog.message", message)
    choices = [(sheet.entry(sheet.sentence(2, 5)), sheet.chance(0.3)) for _ in range(sheet.between(2, 5))]
    answers = [sheet.entry(word) for word in ("Back", "Next", "Cancel")]
    body = {"steps": steps, "now": now, "message": message, "choices": choices, "answers": answers}
    return window(sheet, "Setup", colours, "dialogs", **body)


def toolbox(sheet: PageSheet) -> str:
    """Kept aside: icons in a grid beside a picture, each with or without its name."""
    colours = start(sheet)
    cells = [
        sheet.icon(asked=True) if sheet.chance(0.5) else sheet.entry(word, icons=0.5)
        for word in sheet.some("ui", sheet.between(8, 20))
    ]
    body = {"cells": cells, "across": sheet.between(2, 4), "hue": sheet.hue(), "ground": sheet.hue(70, 90)}
    return window(sheet, "Draw", colours, "dialogs", **body)


TRAIN, HELD = layouts(dialog, menus, browser_window), layouts(assistant, toolbox)
