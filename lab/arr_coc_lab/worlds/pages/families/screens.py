"""Dashboards and phone screens, and the colours that all screens share."""

from __future__ import annotations

from typing import Any, NamedTuple

from markupsafe import Markup

from ..sheet import PageSheet, layouts, named
from ..words import vocabulary
from .bars import bars, columns
from .charts import curves, pie
from .fields import short_fields


class ScreenColours(NamedTuple):
    accent: str
    line: str
    panel: str


def colours_for(sheet: PageSheet, dark: float = 0.3) -> ScreenColours:
    """The colours of a screen; sets paper and ink, dark now and then."""
    sheet.manner, sheet.padding, sheet.cropped = "sans", 0, False
    accent = sheet.hue(35, 50)
    if sheet.chance(dark):
        sheet.paper, sheet.ink = sheet.pick("#16181d", "#1e1e24", "#0f172a", "#222"), "#ddd"
        return ScreenColours(accent, "#fff2", "#ffffff0d")
    sheet.paper, sheet.ink = sheet.pick("#fff", "#f3f4f6", "#f7f9fc", "#fafafa"), "#222"
    return ScreenColours(accent, "#0002", "#fff")


def tile(sheet: PageSheet) -> dict[str, object]:
    """A number with its name and a change."""
    label, kind = sheet.labels_of(("money", "int", "percent"), 60)[0]
    name, text = sheet.mark(label), sheet.value(kind)
    value = sheet.mark(text, f"{sheet.larger(1.3, 2.1)};font-weight:bold")
    text = f"{sheet.pick('+', '-')}{sheet.random.uniform(0, 30):.1f}%"
    change = sheet.mark(text, f"color:{sheet.pick('#1a9a4a', '#d33')};font-size:.85em")
    sheet.ask_field(label, kind, value, name)
    sheet.ask("lookup", "screen.change", change, name, L=label)
    return {"name": name, "value": value, "change": change}


def figure(sheet: PageSheet, width: int, height: int) -> Markup:
    """A small chart of any kind."""
    kept = sheet.width, sheet.height, sheet.padding
    sheet.width, sheet.height, sheet.padding = width, height, 4
    drawing = sheet.pick(columns, bars, curves, pie)(sheet, sheet.pick(1, 1, 2))
    sheet.width, sheet.height, sheet.padding = kept
    return sheet.render("screens/figure", title=sheet.mark(drawing.topic.title[:60]), drawing=drawing)


def dashboard(sheet: PageSheet) -> str:
    """Tiles, charts, a list; the menu at the left, on top, or (kept aside) at the right."""
    colours = colours_for(sheet, 0.35)
    if sheet.width < 768:
        sheet.width, sheet.height = sheet.pick((1024, 768), (896, 704), (768, 768))
    sheet.size, radius = min(sheet.size, 12), sheet.pick(0, 4, 8, 12)
    names = sheet.some("ui", 14)
    title = sheet.mark(sheet.pick(*vocabulary("screen.dashboards"), sheet.heading()))
    sheet.ask_title(title)
    side = 0 if sheet.layout == "topmenu" else sheet.between(110, 160)
    inner = sheet.width - side - 28
    tiles = [tile(sheet) for _ in range(sheet.between(3, 5))]
    charts = [figure(sheet, inner // 2 - 20, int(sheet.height * 0.42)) for _ in range(2)]
    rows = []
    for _ in range(sheet.between(3, 8)):
        who, what, much = sheet.mark_all(sheet.fake.name(), sheet.word("statuses"), sheet.money(5000))
        sheet.ask("cell", "screen.amount", much, who, n=who.text)
        sheet.ask("cell", "screen.status", what, who, n=who.text)
        rows.append((who, what, much))
    context = {"radius": radius, "title": title, "side": side, "tiles": tiles, "charts": charts, "rows": rows}
    context["icons"] = [sheet.icon(asked=True), sheet.icon(asked=True)]
    context["items"] = [sheet.entry(name, icons=0.7) for name in names[: sheet.between(5, 10)]]
    if sheet.layout != "topmenu":
        context["ground"] = sheet.pick(colours.panel, "#1f2937;color:#eee")
    return sheet.render("screens/dashboard", **context, **colours._asdict())


def set_up_phone(sheet: PageSheet) -> dict[str, Any]:
    """What all phones show: the time, the battery, a title between two icons. names: what may be written below."""
    colours = colours_for(sheet, 0.35)
    sheet.width, sheet.height = sheet.pick((384, 768), (448, 832), (512, 896), (416, 832), (512, 1024))
    sheet.size = sheet.between(11, 15)
    time = sheet.mark(f"{sheet.between(0, 23)}:{sheet.between(0, 59):02d}")
    sheet.ask("field", "screen.time", time)
    power = sheet.mark(f"{sheet.between(3, 100)}%")
    sheet.ask("field", "screen.battery", power)
    wifi, title = sheet.icon("wifi"), sheet.mark(sheet.word("ui"))
    sheet.ask_title(title)
    context = {"time": time, "power": power, "wifi": wifi, "title": title, "menu": sheet.icon("menu", asked=True)}
    return context | {"corner": sheet.icon(asked=True), "names": sheet.some("ui", 30)} | colours._asdict()


def finish_phone(sheet: PageSheet, template: str, context: dict[str, Any]) -> str:
    """The tabs below come last, and are not always shown."""
    tabs = [(sheet.icon(), sheet.entry(name)) for name in context["names"][-4:]]
    return sheet.render(f"screens/{template}", tabs=tabs, tabbed=sheet.chance(0.7), **context)


def settings(sheet: PageSheet) -> str:
    context, rows = set_up_phone(sheet), []
    for name in context["names"][: sheet.between(7, 14)]:
        text = sheet.pick("On", "Off", "Auto", sheet.fake.word(), str(sheet.between(1, 99)))
        label, state = sheet.mark_all(name, text)
        sheet.ask_click(label)
        sheet.ask("lookup", "screen.setting", state, label, L=name)
        rows.append((sheet.icon(), label, state))
    return finish_phone(sheet, "settings", {**context, "rows": rows})


def chat(sheet: PageSheet) -> str:
    context, rows = set_up_phone(sheet), []
    for _ in range(sheet.between(5, 10)):
        mine = sheet.chance(0.5)
        words, when = sheet.mark_all(sheet.sentence(3, 12), sheet.value("time"))
        sheet.ask("lookup", "screen.sent", when, words, t=" ".join(words.text.split()[:4]))
        rows.append((mine, words, when))
    return finish_phone(sheet, "chat", {**context, "rows": rows})


def home(sheet: PageSheet) -> str:
    context, apps = set_up_phone(sheet), []
    for name in context["names"][:20]:
        label = sheet.mark(name)
        sheet.ask_click(label)
        apps.append((label, sheet.hue(40, 60), sheet.icon()))
    return finish_phone(sheet, "home", {**context, "apps": apps})


def feed(sheet: PageSheet) -> str:
    """Cards of fields, or (kept aside) a ticket with them."""
    context = set_up_phone(sheet)
    return finish_phone(sheet, sheet.layout, {**context, "fields": short_fields(sheet, 10)})


def player(sheet: PageSheet) -> str:
    """Kept aside: songs with their lengths."""
    context, songs = set_up_phone(sheet), []
    for _ in range(sheet.between(5, 10)):
        texts = sheet.sentence(1, 3), sheet.fake.name(), f"{sheet.between(1, 7)}:{sheet.between(0, 59):02d}"
        song, artist, long = sheet.mark_all(*texts)
        sheet.ask("lookup", "screen.duration", long, song, s=song.text)
        sheet.ask("lookup", "screen.artist", artist, song, s=song.text)
        songs.append((song, artist, long))
    return finish_phone(sheet, "player", {**context, "songs": songs})


DASHBOARDS, HELD_DASHBOARDS = named(dashboard, "leftmenu", "topmenu"), named(dashboard, "rightmenu")
PHONES, HELD_PHONES = layouts(settings, chat, home, feed), layouts(player) | named(feed, "ticket")
