"""What screens show: the settings of a phone, and windows of a desktop."""

from __future__ import annotations

from ..sheet import Mark, PageFamily, PageSheet, layouts
from .papers import make_fields


def set_colours(sheet: PageSheet) -> None:
    """Put the colours of a screen; set paper and ink, dark now and then."""
    sheet.manner, sheet.padding, sheet.cropped = "sans", 0, False
    night = sheet.chance(0.3)
    sheet.paper = sheet.word("screen.dark" if night else "screen.light")
    sheet.ink = "#ddd" if night else "#222"
    sheet.put(accent=sheet.hue(35, 50), line="#fff2" if night else "#0002", panel="#ffffff0d" if night else "#fff")


def entries(sheet: PageSheet, low: int, high: int, name: str = "ui") -> list[Mark]:
    """Named things to click on."""
    return [sheet.asked("click", "click", word, L=word) for word in sheet.some(name, sheet.between(low, high))]


def settings(sheet: PageSheet) -> None:
    """A phone: the time, the battery, a title, names with their states, tabs now and then."""
    set_colours(sheet)
    sheet.width, sheet.height = sheet.pick((384, 768), (448, 832), (512, 896), (416, 832), (512, 1024))
    sheet.size = sheet.between(11, 15)
    sheet.put(time=sheet.asked("field", "screen.time", f"{sheet.between(0, 23)}:{sheet.between(0, 59):02d}"))
    sheet.put(power=sheet.asked("field", "screen.battery", f"{sheet.between(3, 100)}%"))
    sheet.put(title=sheet.titled(sheet.word("ui")), tabs=entries(sheet, 4, 4), tabbed=sheet.chance(0.7))
    states = ("On", "Off", "Auto", sheet.word("plain"), str(sheet.between(1, 99)))
    rows = [(name, sheet.pick(*states)) for name in sheet.some("ui", sheet.between(7, 14))]
    sheet.put(rows=sheet.listed(rows, ("click", "click", 0, 0, "L"), ("lookup", "screen.setting", 1, 0, "L")))


def window(sheet: PageSheet, name: str) -> None:
    """Title bar, menu, tools, status line; the template of the layout puts its body between them."""
    if sheet.width < sheet.height:
        sheet.turn()
    sheet.size = sheet.pick(9, 10, 11, 12, 13)
    set_colours(sheet)
    file = f"{sheet.word('plain')}.{sheet.pick('txt', 'docx', 'xlsx', 'png', 'md')}"
    sheet.put(title=sheet.titled(f"{name} - {file}", "", "desk.title"), radius=sheet.pick(0, 2, 5))
    sheet.put(bar=sheet.pick(f"{sheet.page['accent']};color:#fff", sheet.page["line"]), border=sheet.chance(0.5))
    sheet.put(menu=[(sheet.between(5, 11), entry) for entry in entries(sheet, 4, 8, "desk.menu")])
    sheet.put(tools=entries(sheet, 3, 7), status=sheet.asked("place", "desk.status", sheet.word("desk.status")))


def files(sheet: PageSheet) -> None:
    """A file manager: places at the left, files with size and date."""
    window(sheet, "Files")
    heads, rows = sheet.mark_all("Name", "Size", "Changed", "Type"), []
    known = sheet.distinct(lambda: sheet.word("plain"), sheet.between(5, max(6, sheet.height // 30)))
    for text in (f"{word}.{sheet.pick('txt', 'pdf', 'png', 'zip')}" for word in known):
        name = sheet.asked("click", "desk.file", text, n=text)
        size = f"{sheet.between(1, 999)} {sheet.pick('KB', 'MB', 'bytes')}"
        facts = sheet.mark_all(size, sheet.date(), sheet.word("desk.files"))
        for what, mark, head in zip(("size", "date", "type"), facts, heads[1:], strict=True):
            sheet.ask("cell", "desk.about_file", mark, (name, head), w=what, n=name.text)
        rows.append((name, facts))
    sheet.put(places=entries(sheet, 5, 12), heads=heads, rows=rows, side=sheet.between(110, 170))


def preferences(sheet: PageSheet) -> None:
    """Kept aside: groups of settings with a dialog's buttons."""
    window(sheet, "Preferences")
    sheet.put(tabs=entries(sheet, 5, 5), fields=make_fields(sheet, sheet.between(6, 12), 0.1))
    sheet.put(answers=[sheet.asked("click", "click", word, L=word) for word in ("OK", "Cancel", "Apply")])


FAMILIES = {
    "screens": PageFamily(12, layouts("screens", settings) | layouts("desks", files), layouts("desks", preferences)),
}
