"""Desktop applications: editor, mail, spreadsheet, file manager, settings, dialogs."""

from __future__ import annotations

from ..sheet import PageSheet, layouts
from ..words import vocabulary
from .fields import make_fields, pen_for
from .screens import ScreenColours, colours_for


def window(sheet: PageSheet, name: str, colours: ScreenColours, folder: str = "desks", **body: object) -> str:
    """Title bar, menu, tools, status line; the template of the layout puts its body between them."""
    title = sheet.mark(f"{name} - {sheet.fake.file_name(extension=sheet.pick('txt', 'docx', 'xlsx', 'png', 'md'))}")
    sheet.ask_title(title, "desk.title")
    buttons = [sheet.icon(which, asked=sheet.chance(0.4)) for which in ("flag", "copy", "close")]
    bar = sheet.pick(f"{colours.accent};color:#fff", colours.line)
    menu = [(sheet.between(5, 11), sheet.entry(word)) for word in vocabulary("desk.menu")[: sheet.between(4, 8)]]
    radius, border = sheet.pick(0, 2, 5), sheet.chance(0.5)
    tools = [
        sheet.entry(word, icons=0.6) if sheet.chance(0.6) else sheet.icon(asked=True)
        for word in sheet.some("ui", sheet.between(4, 11))
    ]
    status = sheet.mark(sheet.word("desk.status"))
    sheet.ask("place", "desk.status", status)
    frame = {"title": title, "buttons": buttons, "bar": bar, "menu": menu, "radius": radius, "border": border}
    return sheet.render(f"{folder}/{sheet.layout}", tools=tools, status=status, **frame, **body, **colours._asdict())


def start(sheet: PageSheet) -> ScreenColours:
    if sheet.width < sheet.height:
        sheet.turn()
    sheet.size = sheet.pick(9, 10, 11, 12, 13)
    return colours_for(sheet)


def files(sheet: PageSheet) -> str:
    """A file manager: places at the left, files with size and date."""
    colours = start(sheet)
    places = [sheet.entry(name, icons=0.8) for name in sheet.some("ui", sheet.between(5, 12))]
    heads = sheet.mark_all("Name", "Size", "Changed", "Type")
    rows = []
    for _ in range(sheet.between(5, max(6, sheet.height // 30))):
        name = sheet.mark(sheet.fake.file_name())
        texts = f"{sheet.between(1, 999)} {sheet.pick('KB', 'MB', 'bytes')}", sheet.date(), sheet.word("desk.files")
        facts = sheet.mark_all(*texts)
        sheet.ask("click", "desk.file", name, n=name.text)
        for what, mark, head in zip(("size", "date", "type"), facts, heads[1:], strict=True):
            sheet.ask("cell", "desk.about_file", mark, (name, head), w=what, n=name.text)
        rows.append((sheet.icon(), name, facts))
    if len(rows) < 10:
        sheet.ask_count("files", [name for _, name, _ in rows])
    return window(sheet, "Files", colours, places=places, heads=heads, rows=rows, side=sheet.between(110, 170))


def mail(sheet: PageSheet) -> str:
    """Folders, a list of messages, one opened."""
    colours = start(sheet)
    folders = [sheet.entry(name, icons=0.5) for name in vocabulary("desk.mail")[: sheet.between(4, 8)]]
    messages = []
    for _ in range(sheet.between(5, max(6, sheet.height // 60))):
        who, about, when = sheet.mark_all(sheet.fake.name(), sheet.sentence(2, 6), sheet.date())
        sheet.ask("click", "desk.message", who, n=who.text)
        sheet.ask("lookup", "desk.subject", about, who, n=who.text)
        sheet.ask("lookup", "desk.date", when, who, n=who.text)
        messages.append((who, about, when))
    head, texts = sheet.mark(sheet.heading()), [sheet.paragraph(6), sheet.paragraph(4)]
    side = sheet.between(200, 280)
    return window(sheet, "Mail", colours, folders=folders, messages=messages, subject=head, paragraphs=texts, side=side)


def spreadsheet(sheet: PageSheet) -> str:
    """Cells with letters and numbers at the edges."""
    colours = start(sheet)
    k, n = sheet.between(4, max(5, sheet.width // 110)), sheet.between(8, max(9, sheet.height // 28))
    letters = sheet.mark_all(*"ABCDEFGHIJKL"[:k])
    rows, heads = [], [label for label, _ in sheet.labels(k)]
    for row in range(n):
        number, cells = sheet.mark(row + 1), []
        for column, letter in enumerate(letters):
            if row == 0:
                text = heads[column]
            elif column == 0:
                text = sheet.fake.last_name()
            else:
                text = sheet.pick(str(sheet.between(1, 9999)), sheet.money(900, True))
            cells.append(mark := sheet.mark(text))
            if sheet.chance(0.25):
                sheet.ask("cell", "desk.cell", mark, (letter, number), a=f"{letter.text}{row + 1}")
        rows.append((number, cells))
    return window(sheet, "Sheet", colours, letters=letters, rows=rows)


def editor(sheet: PageSheet) -> str:
    """A code editor: a tree of files, numbered lines."""
    colours = start(sheet)
    tree = []
    for _ in range(sheet.between(6, 14)):
        indent, extension = sheet.pick(6, 16, 26), sheet.pick("py", "js", "css", "md")
        tree.append((indent, sheet.entry(sheet.fake.file_name(extension=extension), icons=0.7)))
    mono, lines, word = sheet.face("mono"), [], sheet.fake.word
    for _ in range(1, sheet.between(14, max(15, sheet.height // 22))):
        name = sheet.mark(f"{word()}_{word()}")
        value = sheet.mark(sheet.pick(str(sheet.between(0, 9999)), f"'{word()}'", f"{word()}({sheet.between(1, 9)})"))
        sheet.ask("lookup", "desk.variable", value, name, n=name.text)
        lines.append((" " * sheet.pick(0, 2, 4), name, value))
    return window(sheet, "Code", colours, tree=tree, mono=mono, lines=lines)


def settings(sheet: PageSheet) -> str:
    """Kept aside: groups of settings with a dialog's buttons."""
    colours = start(sheet)
    tabs = [sheet.entry(word) for word in sheet.some("ui", 5)]
    pen = pen_for(sheet)
    fields = make_fields(sheet, pen, sheet.between(6, 12), 0.1, long=False)
    answers = [sheet.entry(word) for word in ("OK", "Cancel", "Apply")]
    return window(sheet, "Preferences", colours, tabs=tabs, fields=fields, answers=answers)


def painter(sheet: PageSheet) -> str:
    """Kept aside: tools in a column, layers at the right, a picture in the middle."""
    colours = start(sheet)
    brushes = [sheet.icon(asked=True) for _ in range(sheet.between(6, 12))]
    layers = []
    for name in sheet.some("ui", sheet.between(4, 8)):
        layer, strength = sheet.mark_all(name, f"{sheet.between(1, 100)}%")
        sheet.ask_click(layer)
        sheet.ask("lookup", "desk.opacity", strength, layer, L=name)
        layers.append((sheet.icon("eye"), layer, strength))
    discs = [(sheet.between(20, 380), sheet.between(20, 280), sheet.between(8, 70), sheet.hue()) for _ in range(9)]
    return window(sheet, "Paint", colours, brushes=brushes, layers=layers, discs=discs)


TRAIN, HELD = layouts(files, mail, spreadsheet, editor), layouts(settings, painter)
