"""Desktop applications: editor, mail, spreadsheet, file manager, settings, dialogs."""

from __future__ import annotations

from ..sheet import Sheet
from ..wording import lowered
from .fields import make_fields, pen_for
from .screens import count_of, entry, icon, looks


def window(sheet: Sheet, layout: str, name: str, body: str, accent: str, line: str) -> str:
    """Title bar, menu, tools, body, status line."""
    title = sheet.mark(f"{name} - {sheet.fake.file_name(extension=sheet.pick('txt', 'docx', 'xlsx', 'png', 'md'))}")
    sheet.ask_title(title, ("What is the title of the window?", "Which file is open?", "window title"))
    buttons = "".join(
        icon(sheet, which, "margin-left:14px", asked=sheet.chance(0.4)) for which in ("flag", "copy", "close")
    )
    top = (
        '<div style="display:flex;justify-content:space-between;padding:4px'
        f' 8px;background:{sheet.pick(accent + ";color:#fff", line)}">{title}<span>{buttons}</span></div>'
    )
    menu = "".join(
        f'<span style="padding:3px {sheet.random.randint(5, 11)}px">{entry(sheet, word, icons=0)}</span>'
        for word in ("File", "Edit", "View", "Insert", "Format", "Tools", "Window", "Help")[
            : sheet.random.randint(4, 8)
        ]
    )
    radius, border = sheet.random.choice((0, 2, 5)), sheet.chance(0.5)
    tools = "".join(
        "<span"
        f' style="display:inline-block;{"border:1px solid " + line if border else ""};border-radius:{radius}px;'
        "margin:2px;padding:2px"
        f' 7px">{entry(sheet, word, icons=0.6) if sheet.chance(0.6) else icon(sheet, asked=True)}</span>'
        for word in sheet.some("ui", sheet.random.randint(4, 11))
    )
    foot = sheet.mark(sheet.pick("Ready", "Ln 12, Col 4", "3 items selected", "100%", "UTF-8", "Saved", "Page 2 of 14"))
    sheet.ask("place", ("What does the status line say?", "status bar", "What is shown in the status line?"), foot)
    status = f'<div style="position:absolute;left:0;right:0;bottom:0;padding:2px 8px;background:{line}">{foot}</div>'
    return (
        f'{top}<div style="border-bottom:1px solid {line}">{menu}</div><div style="padding:2px;border-bottom:1px solid'
        f' {line}">{tools}</div>{body}{status}'
    )


def start(sheet: Sheet, layout: str) -> tuple[str, str, str]:
    sheet.layout = layout
    if sheet.width < sheet.height:
        sheet.width, sheet.height = sheet.height, sheet.width
    sheet.size = sheet.random.choice((9, 10, 11, 12, 13))
    return looks(sheet)


def files(sheet: Sheet) -> str:
    """A file manager: places at the left, files with size and date."""
    accent, line, _ = start(sheet, "files")
    places = "".join(
        f'<div style="padding:3px 8px">{entry(sheet, name, icons=0.8)}</div>'
        for name in sheet.some("ui", sheet.random.randint(5, 12))
    )
    heads = [sheet.mark(name, "font-weight:bold") for name in ("Name", "Size", "Changed", "Type")]
    rows, names = "", []
    for _ in range(sheet.random.randint(5, max(6, sheet.height // 30))):
        name = sheet.mark(sheet.fake.file_name())
        size, when, kind = (
            sheet.mark(f"{sheet.random.randint(1, 999)} {sheet.pick('KB', 'MB', 'bytes')}"),
            sheet.mark(sheet.date()),
            sheet.mark(sheet.pick("Text", "Picture", "Folder", "Archive", "Video", "PDF")),
        )
        names.append(name)
        sheet.ask(
            "click",
            ("Open {n}", "Select the file {n}", "Click on {n}", "Where is {n}?", "Delete {n}"),
            name,
            n=name.text,
        )
        for what, mark, head in (("size", size, heads[1]), ("date", when, heads[2]), ("type", kind, heads[3])):
            sheet.ask(
                "cell",
                ("What is the {w} of {n}?", "{n} {w}", "Which {w} does {n} have?"),
                mark,
                (name, head),
                w=what,
                n=name.text,
            )
        rows += (
            f'<tr class="cut"><td style="padding:2px 8px">{icon(sheet)}'
            f" {name}</td><td>{size}</td><td>{when}</td><td>{kind}</td></tr>"
        )
    if len(names) < 10:
        count_of(sheet, "files", names)
    head = "".join(f'<td style="padding:3px 8px;border-bottom:1px solid {line}">{mark}</td>' for mark in heads)
    return window(
        sheet,
        "files",
        "Files",
        f'<div style="display:flex"><div style="width:{sheet.random.randint(110, 170)}px;border-right:1px solid'
        f' {line}">{places}</div><table style="flex:1"><tr>{head}</tr>{rows}</table></div>',
        accent,
        line,
    )


def mail(sheet: Sheet) -> str:
    """Folders, a list of messages, one opened."""
    accent, line, _ = start(sheet, "mail")
    folders = "".join(
        f'<div style="padding:4px 8px">{entry(sheet, name, icons=0.5)}</div>'
        for name in ("Inbox", "Drafts", "Sent", "Archive", "Spam", "Trash", "Contacts", "Calendar")[
            : sheet.random.randint(4, 8)
        ]
    )
    rows = ""
    for _ in range(sheet.random.randint(5, max(6, sheet.height // 60))):
        who, about, when = (
            sheet.mark(sheet.fake.name(), "font-weight:bold"),
            sheet.mark(sheet.sentence(2, 6)),
            sheet.mark(sheet.date(), "font-size:.85em;opacity:.7"),
        )
        sheet.ask("click", ("Open the message from {n}", "Click on the mail from {n}.", "{n}"), who, n=who.text)
        sheet.ask(
            "lookup",
            ("What is the subject of the message from {n}?", "What does {n} write about?"),
            about,
            (who,),
            n=who.text,
        )
        sheet.ask("lookup", ("When did {n} write?", "What is the date of the mail from {n}?"), when, (who,), n=who.text)
        rows += (
            f'<div class="cut" style="padding:5px;border-bottom:1px solid {line}"><div'
            f' style="display:flex;justify-content:space-between">{who}{when}</div>{about}</div>'
        )
    subject = sheet.mark(sheet.heading(), "font-size:1.3em")
    text = (
        "<div"
        f' style="flex:2;padding:10px"><div>{subject}</div><p>{sheet.text(sheet.paragraph(6))}</p><p>'
        f"{sheet.text(sheet.paragraph(4))}</p></div>"
    )
    return window(
        sheet,
        "mail",
        "Mail",
        f'<div style="display:flex"><div style="width:100px;border-right:1px solid {line}">{folders}</div><div'
        f' style="width:{sheet.random.randint(200, 280)}px;border-right:1px solid {line}">{rows}</div>{text}</div>',
        accent,
        line,
    )


def spreadsheet(sheet: Sheet) -> str:
    """Cells with letters and numbers at the edges."""
    accent, line, _ = start(sheet, "spreadsheet")
    k, n = sheet.random.randint(4, max(5, sheet.width // 110)), sheet.random.randint(8, max(9, sheet.height // 28))
    letters = [sheet.mark("ABCDEFGHIJKL"[i]) for i in range(k)]
    cell = "border:1px solid #8885;padding:1px 5px"
    rows = ""
    heads = [label for label, _ in sheet.labels(k)]
    for row in range(n):
        number, cells = sheet.mark(str(row + 1)), ""
        for column in range(k):
            text = (
                heads[column]
                if row == 0
                else (
                    sheet.fake.last_name()
                    if column == 0
                    else sheet.pick(str(sheet.random.randint(1, 9999)), sheet.money(900, True))
                )
            )
            mark = sheet.mark(text, "font-weight:bold" if row == 0 else "")
            cells += f'<td style="{cell};text-align:{"left" if column == 0 or row == 0 else "right"}">{mark}</td>'
            if sheet.chance(0.25):
                sheet.ask(
                    "cell",
                    ("What is in cell {a}?", "Click on cell {a}", "{a}", "Read cell {a}."),
                    mark,
                    (letters[column], number),
                    a=f"{letters[column].text}{row + 1}",
                )
        rows += f'<tr class="cut"><td style="{cell};background:{line};text-align:center">{number}</td>{cells}</tr>'
    top = "".join(f'<td style="{cell};background:{line};text-align:center">{mark}</td>' for mark in letters)
    return window(
        sheet,
        "spreadsheet",
        "Sheet",
        f'<table style="width:100%"><tr><td style="{cell}"></td>{top}</tr>{rows}</table>',
        accent,
        line,
    )


def editor(sheet: Sheet) -> str:
    """A code editor: a tree of files, numbered lines."""
    accent, line, _ = start(sheet, "editor")
    tree = "".join(
        '<div style="padding:2px 6px 2px'
        f' {sheet.random.choice((6, 16, 26))}px">'
        f"{entry(sheet, sheet.fake.file_name(extension=sheet.pick('py', 'js', 'css', 'md')), icons=0.7)}</div>"
        for _ in range(sheet.random.randint(6, 14))
    )
    mono, code = sheet.face("mono"), ""
    for number in range(1, sheet.random.randint(14, max(15, sheet.height // 22))):
        name = sheet.mark(f"{sheet.fake.word()}_{sheet.fake.word()}", f"color:{accent}")
        value = sheet.mark(
            sheet.pick(
                str(sheet.random.randint(0, 9999)),
                f"'{sheet.fake.word()}'",
                f"{sheet.fake.word()}({sheet.random.randint(1, 9)})",
            )
        )
        sheet.ask(
            "lookup",
            ("What is assigned to {n}?", "value of {n}", "Which value does {n} have?"),
            value,
            (name,),
            n=name.text,
        )
        code += (
            '<div class="cut" style="white-space:pre"><span'
            f' style="opacity:.5;display:inline-block;width:30px">{number}</span>'
            f"{' ' * sheet.random.choice((0, 2, 4))}{name}"
            f" = {value}</div>"
        )
    return window(
        sheet,
        "editor",
        "Code",
        f'<div style="display:flex"><div style="width:150px;border-right:1px solid {line}">{tree}</div><div'
        f" style=\"flex:1;padding:6px;font-family:'{mono}'\">{code}</div></div>",
        accent,
        line,
    )


def settings(sheet: Sheet) -> str:
    """Kept aside: groups of settings with a dialog's buttons."""
    accent, line, panel = start(sheet, "settings")
    tabs = "".join(
        f'<span style="padding:4px 10px;border:1px solid {line};border-bottom:0">{entry(sheet, word, icons=0)}</span>'
        for word in sheet.some("ui", 5)
    )
    fields = make_fields(sheet, pen_for(sheet), sheet.random.randint(6, 12), 0.1, False)
    rows = "".join(
        '<div class="cut" style="display:flex;align-items:center;margin:7px 0"><div'
        f' style="width:190px;text-align:right;margin-right:10px">{f.label}</div><div style="border:1px solid'
        f' {line};background:{panel};padding:3px 8px;min-width:200px">{f.shown}</div></div>'
        for f in fields
    )
    buttons = "".join(
        f'<span style="background:{accent};color:#fff;border-radius:4px;padding:5px'
        f' 16px;margin-left:8px">{entry(sheet, word, icons=0)}</span>'
        for word in ("OK", "Cancel", "Apply")
    )
    return window(
        sheet,
        "settings",
        "Preferences",
        f'<div style="padding:12px">{tabs}<div style="border:1px solid {line};padding:10px">{rows}</div><div'
        f' style="text-align:right;margin-top:14px">{buttons}</div></div>',
        accent,
        line,
    )


def painter(sheet: Sheet) -> str:
    """Kept aside: tools in a column, layers at the right, a picture in the middle."""
    accent, line, _ = start(sheet, "painter")
    tools = "".join(
        f'<div style="padding:6px;font-size:1.3em">{icon(sheet, asked=True)}</div>'
        for _ in range(sheet.random.randint(6, 12))
    )
    layers = ""
    for name in sheet.some("ui", sheet.random.randint(4, 8)):
        layer, strength = sheet.mark(name), sheet.mark(f"{sheet.random.randint(1, 100)}%")
        sheet.ask_click(layer)
        sheet.ask(
            "lookup",
            ("What is the opacity of {L}?", "How opaque is the layer {l}?", "{L} opacity"),
            strength,
            (layer,),
            L=name,
            l=lowered(name),
        )
        layers += (
            '<div class="cut" style="display:flex;justify-content:space-between;padding:5px;border-bottom:1px solid'
            f' {line}">{icon(sheet, "eye")} {layer}{strength}</div>'
        )
    shapes = "".join(
        f'<circle cx="{sheet.random.randint(20, 380)}" cy="{sheet.random.randint(20, 280)}"'
        f' r="{sheet.random.randint(8, 70)}" fill="{sheet.hue()}" opacity=".8"/>'
        for _ in range(9)
    )
    return window(
        sheet,
        "painter",
        "Paint",
        f'<div style="display:flex"><div style="border-right:1px solid {line}">{tools}</div><div'
        ' style="flex:1;padding:20px;background:#8883"><svg width="400" height="300"'
        f' style="background:#fff">{shapes}</svg></div><div style="width:190px;border-left:1px solid'
        f' {line}">{layers}</div></div>',
        accent,
        line,
    )


TRAIN = {f.__name__: f for f in (files, mail, spreadsheet, editor)}
HELD = {f.__name__: f for f in (settings, painter)}
