"""Dashboards and phone screens, and the icons that all screens share."""

from __future__ import annotations

from ..sheet import Mark, Sheet, named
from ..wording import lowered
from ..words import vocabulary
from .bars import bars, columns
from .charts import curves, pie
from .fields import make_fields, pen_for

ICON_ASKED = (
    "Click on the {i} icon.",
    "Click the {i} symbol",
    "Where is the {i} icon?",
    "{i} icon",
    "Press the {i} button.",
    "Tap the icon of a {i}.",
)


def icon(sheet: Sheet, name: str | None = None, style: str = "", asked: bool = False) -> str:
    """One icon of the icon face; asked: it stands alone and can be clicked on by its name."""
    codes = {known: code for known, _, code in (pair.partition(":") for pair in vocabulary("icons"))}
    shown = name or sheet.random.choice(list(codes))
    drawn = f"&#x{codes[shown]};"
    sheet.icons[shown] += 1
    if not asked:
        return f'<span class="icon" style="font-family:FontAwesome;{style}">{drawn}</span>'
    mark = sheet.whole(drawn, f"font-family:FontAwesome;{style}")
    sheet.ask("icon", ICON_ASKED, mark, answer=shown, i=shown)
    return str(mark)


def looks(sheet: Sheet, dark: float = 0.3) -> tuple[str, str, str]:
    """(accent, line, panel) colours; sets paper and ink, dark now and then."""
    sheet.manner, sheet.padding, sheet.cropped = "sans", 0, False
    accent = sheet.hue(35, 50)
    if sheet.chance(dark):
        sheet.paper, sheet.ink = sheet.pick("#16181d", "#1e1e24", "#0f172a", "#222"), "#ddd"
        return accent, "#fff2", "#ffffff0d"
    sheet.paper, sheet.ink = sheet.pick("#fff", "#f3f4f6", "#f7f9fc", "#fafafa"), "#222"
    return accent, "#0002", "#fff"


def entry(sheet: Sheet, name: str, style: str = "", icons: float = 0.4) -> str:
    """A named thing to click on, with an icon before it now and then."""
    mark = sheet.mark(name, style)
    sheet.ask_click(mark)
    return (icon(sheet) + " " if sheet.chance(icons) else "") + str(mark)


def tile(sheet: Sheet, line: str, panel: str, radius: int) -> str:
    """A number with its name and a change."""
    label, kind = next(pair for pair in sheet.labels(60) if pair[1] in ("money", "int", "percent"))
    name, value = (
        sheet.mark(label, "font-size:.85em;opacity:.75"),
        sheet.mark(sheet.value(kind), f"font-size:{sheet.random.uniform(1.3, 2.1):.1f}em;font-weight:bold"),
    )
    change = sheet.mark(
        f"{sheet.pick('+', '-')}{sheet.random.uniform(0, 30):.1f}%",
        f"color:{sheet.pick('#1a9a4a', '#d33')};font-size:.85em",
    )
    sheet.ask_field(label, kind, value, name)
    sheet.ask(
        "lookup",
        ("How much did the {l} change?", "What is the change of {L}?", "{l} change"),
        change,
        (name,),
        L=label,
        l=lowered(label),
    )
    return (
        f'<div style="background:{panel};border:1px solid'
        f' {line};border-radius:{radius}px;padding:8px"><div>{name}</div><div>{value}</div><div>{change}</div></div>'
    )


def figure(sheet: Sheet, width: int, height: int) -> str:
    """A small chart of any kind."""
    kept = sheet.width, sheet.height, sheet.padding
    sheet.width, sheet.height, sheet.padding = width, height, 4
    topic, (legend, drawing) = sheet.random.choice((columns, bars, curves, pie))(sheet, sheet.random.choice((1, 1, 2)))
    sheet.width, sheet.height, sheet.padding = kept
    title = sheet.mark(topic.title[:60], "font-weight:600")
    return f"<div>{title}</div>{legend}{drawing}"


def dashboard(sheet: Sheet, layout: str) -> str:
    """Tiles, charts, a list; the menu at the left, on top, or (kept aside) at the right."""
    sheet.layout = layout
    accent, line, panel = looks(sheet, 0.35)
    if sheet.width < 768:
        sheet.width, sheet.height = sheet.random.choice(((1024, 768), (896, 704), (768, 768)))
    sheet.size, radius = min(sheet.size, 12), sheet.random.choice((0, 4, 8, 12))
    names = sheet.some("ui", 14)
    title = sheet.mark(
        sheet.pick(
            "Overview",
            "Sales dashboard",
            "Operations",
            "Campaign report",
            "Server status",
            "Fleet",
            "Energy monitor",
            sheet.heading(),
        ),
        "font-size:1.5em;font-weight:bold",
    )
    sheet.ask_title(title)
    side = 0 if layout == "topmenu" else sheet.random.randint(110, 160)
    inner = sheet.width - side - 28
    k = sheet.random.randint(3, 5)
    tiles = "".join(tile(sheet, line, panel, radius) for _ in range(k))
    charts = "".join(
        f'<div style="background:{panel};border:1px solid'
        f' {line};border-radius:{radius}px;padding:6px;overflow:hidden">'
        f"{figure(sheet, inner // 2 - 20, int(sheet.height * 0.42))}</div>"
        for _ in range(2)
    )
    rows = ""
    for _ in range(sheet.random.randint(3, 8)):
        who, what, much = (
            sheet.mark(sheet.fake.name()),
            sheet.mark(sheet.random.choice(vocabulary("statuses"))),
            sheet.mark(sheet.money(5000)),
        )
        sheet.ask("cell", ("What is the amount for {n}?", "How much has {n}?", "{n}"), much, (who,), n=who.text)
        sheet.ask("cell", ("What is the status of {n}?", "Which state does {n} have?"), what, (who,), n=who.text)
        rows += (
            f'<tr class="cut"><td style="padding:3px;border-bottom:1px solid {line}">{who}</td><td'
            f' style="border-bottom:1px solid {line}">{what}</td><td style="text-align:right;border-bottom:1px solid'
            f' {line}">{much}</td></tr>'
        )
    main = (
        "<div"
        f' style="display:flex;justify-content:space-between;align-items:center">{title}<div>{icon(sheet, asked=True)}'
        f" &nbsp; {icon(sheet, asked=True)}</div></div><div"
        f' style="display:grid;grid-template-columns:repeat({k},1fr);gap:8px;margin:8px 0">{tiles}</div><div'
        f' style="display:grid;grid-template-columns:1fr 1fr;gap:8px">{charts}</div><table'
        f' style="width:100%;margin-top:8px">{rows}</table>'
    )
    items = [entry(sheet, name, icons=0.7) for name in names[: sheet.random.randint(5, 10)]]
    if layout == "topmenu":
        return (
            "<div"
            f' style="background:{accent};color:#fff;padding:8px;display:flex;gap:18px">'
            f"{''.join(f'<div>{item}</div>' for item in items)}</div><div"
            f' style="padding:10px">{main}</div>'
        )
    menu = (
        "<div"
        f' style="width:{side}px;min-height:{sheet.height - 6}px;padding:10px;background:'
        f'{sheet.pick(panel, "#1f2937;color:#eee")}">'
        + "".join(f'<div style="padding:5px 0">{item}</div>' for item in items)
        + "</div>"
    )
    body = f'<div style="flex:1;padding:10px;min-width:0">{main}</div>'
    return f'<div style="display:flex">{body + menu if layout == "rightmenu" else menu + body}</div>'


def phone(sheet: Sheet, layout: str) -> str:
    """A phone's screen: settings, chat, list, home or (kept aside) a player or a ticket."""
    sheet.layout = layout
    accent, line, panel = looks(sheet, 0.35)
    sheet.width, sheet.height = sheet.random.choice(((384, 768), (448, 832), (512, 896), (416, 832), (512, 1024)))
    sheet.size = sheet.random.randint(11, 15)
    time = sheet.mark(f"{sheet.random.randint(0, 23)}:{sheet.random.randint(0, 59):02d}")
    sheet.ask("field", ("What time is it?", "What time does the phone show?", "time"), time)
    power = sheet.mark(f"{sheet.random.randint(3, 100)}%")
    sheet.ask("field", ("How full is the battery?", "battery level", "What is the battery charge?"), power)
    status = (
        '<div style="display:flex;justify-content:space-between;padding:3px'
        f' 12px;font-size:.85em">{time}<span>{icon(sheet, "wifi")} {power}</span></div>'
    )
    title = sheet.mark(sheet.random.choice(vocabulary("ui")), "font-size:1.5em;font-weight:bold")
    sheet.ask_title(title)
    top = (
        f'{status}<div style="padding:8px'
        ' 12px;display:flex;justify-content:space-between;align-items:center">'
        f"{icon(sheet, 'menu', asked=True)}{title}{icon(sheet, asked=True)}</div>"
    )
    body = ""
    names = sheet.some("ui", 30)
    if layout == "settings":
        for name in names[: sheet.random.randint(7, 14)]:
            label, state = (
                sheet.mark(name),
                sheet.mark(
                    sheet.pick("On", "Off", "Auto", sheet.fake.word(), f"{sheet.random.randint(1, 99)}"), "opacity:.6"
                ),
            )
            sheet.ask_click(label)
            sheet.ask(
                "lookup",
                ("What is {L} set to?", "What is the state of {l}?", "{L}"),
                state,
                (label,),
                L=name,
                l=lowered(name),
            )
            body += (
                '<div class="cut" style="display:flex;justify-content:space-between;padding:9px 12px;border-bottom:1px'
                " solid"
                f' {line}"><span>{icon(sheet, style=f"color:{accent};margin-right:8px")}{label}</span>{state}</div>'
            )
    elif layout == "chat":
        for _ in range(sheet.random.randint(5, 10)):
            mine = sheet.chance(0.5)
            said, when = (
                sheet.mark(sheet.sentence(3, 12)),
                sheet.mark(sheet.value("time"), "font-size:.75em;opacity:.6"),
            )
            sheet.ask(
                "lookup",
                ("When was '{t}' sent?", "At what time did they write {t}?"),
                when,
                (said,),
                t=" ".join(said.text.split()[:4]),
            )
            body += (
                '<div class="cut"'
                f' style="display:flex;justify-content:{"flex-end" if mine else "flex-start"};padding:4px 12px"><div'
                ' style="max-width:75%;border-radius:12px;padding:6px'
                f' 10px;background:{accent if mine else line};color:{"#fff" if mine else "inherit"}">{said}'
                f"<br>{when}</div></div>"
            )
    elif layout == "home":
        cells = ""
        for name in names[:20]:
            label = sheet.mark(name, "font-size:.8em")
            sheet.ask_click(label)
            cells += (
                '<div class="cut" style="text-align:center"><div style="margin:0 auto'
                f" 4px;width:44px;height:44px;border-radius:12px;background:{sheet.hue(40, 60)};color:#fff;font"
                f'-size:22px;line-height:44px">{icon(sheet)}</div>{label}</div>'
            )
        body = f'<div style="display:grid;grid-template-columns:repeat(4,1fr);gap:18px 6px;padding:12px">{cells}</div>'
    elif layout in ("feed", "ticket"):
        fields = make_fields(sheet, pen_for(sheet), 10, 0, False)
        if layout == "ticket":
            body = (
                '<div style="margin:12px;border:2px dashed'
                f' {accent};border-radius:14px;padding:12px;display:grid;grid-template-columns:1fr 1fr;gap:12px">'
                + "".join(
                    f'<div><div style="font-size:.75em;opacity:.7">{f.label}</div><div'
                    f' style="font-size:1.1em">{f.shown}</div></div>'
                    for f in fields
                )
                + "</div>"
            )
        else:
            body = "".join(
                f'<div class="cut" style="margin:8px 12px;padding:10px;background:{panel};border:1px solid'
                f' {line};border-radius:10px">{f.label}<br>{f.shown}</div>'
                for f in fields
            )
    else:
        for _ in range(sheet.random.randint(5, 10)):
            song, artist, long = (
                sheet.mark(sheet.sentence(1, 3), "font-weight:bold"),
                sheet.mark(sheet.fake.name(), "opacity:.7"),
                sheet.mark(f"{sheet.random.randint(1, 7)}:{sheet.random.randint(0, 59):02d}"),
            )
            sheet.ask("lookup", ("How long is {s}?", "duration of {s}"), long, (song,), s=song.text)
            sheet.ask("lookup", ("Who sings {s}?", "Who is the artist of {s}?"), artist, (song,), s=song.text)
            body += (
                '<div class="cut" style="display:flex;justify-content:space-between;padding:7px'
                f' 12px"><span>{song}<br>{artist}</span>{long}</div>'
            )
    tabs = "".join(
        "<div"
        f' style="text-align:center;font-size:.8em">{icon(sheet, style="font-size:1.4em")}<br>'
        f"{entry(sheet, name, icons=0)}</div>"
        for name in names[-4:]
    )
    bar = (
        "<div"
        ' style="position:absolute;left:0;right:0;bottom:0;display:flex;justify-content:space-around;padding:6'
        f"px;background:{sheet.paper};border-top:1px"
        f' solid {line}">{tabs}</div>'
    )
    body = f'<div style="padding-bottom:56px">{body}</div>'
    return f"{top}{body}{bar if sheet.chance(0.7) else ''}"


def count_of(
    sheet: Sheet,
    what: str,
    marks: list[Mark],
    template: tuple[str, ...] = ("How many {w} are there?", "Count the {w}.", "number of {w}"),
) -> None:
    """A question whose answer is how many there are; its boxes are all of them."""
    sheet.ask("count", template, marks, answer=str(len(marks)), w=what)


DASHBOARDS, HELD_DASHBOARDS = named(dashboard, "leftmenu", "topmenu"), named(dashboard, "rightmenu")
PHONES, HELD_PHONES = named(phone, "settings", "chat", "home", "feed"), named(phone, "player", "ticket")
