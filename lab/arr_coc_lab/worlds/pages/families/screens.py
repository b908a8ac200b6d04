"""What screens show: dashboards, phones, programs of a desktop, dialogs, web pages; and slides and posters."""

from __future__ import annotations

from markupsafe import Markup

from ..sheet import PageFamily, PageSheet, layouts, variants
from ..words import vocabulary
from .charts import bars, columns, curves, pie
from .papers import make_fields, telling

KEYS = ("Ctrl+", "Ctrl+Shift+", "Alt+", "Cmd+", "")


def set_colours(sheet: PageSheet, dark: float = 0.3) -> None:
    """Put the colours of a screen; set paper and ink, dark now and then."""
    sheet.manner, sheet.padding, sheet.cropped = "sans", 0, False
    night = sheet.chance(dark)
    sheet.paper = sheet.pick(*vocabulary("screen.dark" if night else "screen.light"))
    sheet.ink = "#ddd" if night else "#222"
    sheet.put(accent=sheet.hue(35, 50), line="#fff2" if night else "#0002", panel="#ffffff0d" if night else "#fff")


def entries(sheet: PageSheet, low: int, high: int, icons: float = 0.0) -> list[Markup]:
    """Named things to click on."""
    return [sheet.entry(word, icons) for word in sheet.some("ui", sheet.between(low, high))]


# ---- Dashboards and phones -------------------------------------------------------------------------------------------


def tile(sheet: PageSheet) -> dict[str, object]:
    """A number with its name and a change."""
    label, kind = sheet.labels_of(("money", "int", "percent"), 60)[0]
    name, value = sheet.mark(label), sheet.mark(sheet.value(kind), f"{sheet.larger(1.3, 2.1)};font-weight:bold")
    sheet.ask_field(label, kind, value, name)
    text = f"{sheet.pick('+', '-')}{sheet.random.uniform(0, 30):.1f}%"
    look = f"color:{sheet.pick('#1a9a4a', '#d33')};font-size:.85em"
    return {"name": name, "value": value, "change": sheet.asked("lookup", "screen.change", text, look, name, L=label)}


def figure(sheet: PageSheet, width: int, height: int) -> Markup:
    """A small chart of any kind."""
    kept = sheet.width, sheet.height, sheet.padding
    sheet.width, sheet.height, sheet.padding = width, height, 4
    drawing = sheet.pick(columns, bars, curves, pie)(sheet, sheet.pick(1, 1, 2))
    sheet.width, sheet.height, sheet.padding = kept
    return sheet.render("screens/figure", title=sheet.mark(drawing.topic.title[:60]), drawing=drawing)


def dashboard(sheet: PageSheet) -> None:
    """Tiles, charts, a list; the menu at the left, on top, or (kept aside) at the right."""
    set_colours(sheet, 0.35)
    if sheet.width < 768:
        sheet.width, sheet.height = sheet.pick((1024, 768), (896, 704), (768, 768))
    sheet.size = min(sheet.size, 12)
    side = 0 if sheet.layout == "topmenu" else sheet.between(110, 160)
    wide, high = (sheet.width - side - 28) // 2 - 20, int(sheet.height * 0.42)
    sheet.put(title=sheet.titled(sheet.pick(*vocabulary("screen.dashboards"), sheet.heading())), side=side)
    sheet.put(tiles=[tile(sheet) for _ in range(sheet.between(3, 5))], radius=sheet.pick(0, 4, 8, 12))
    sheet.put(charts=[figure(sheet, wide, high) for _ in range(2)], items=entries(sheet, 5, 10, 0.7))
    rows = [(sheet.fake.name(), sheet.word("statuses"), sheet.money(5000)) for _ in range(sheet.between(3, 8))]
    sheet.put(rows=sheet.listed(rows, ("cell", "screen.amount", 2, 0, "n"), ("cell", "screen.status", 1, 0, "n")))
    sheet.put(icons=[sheet.icon(asked=True), sheet.icon(asked=True)])
    sheet.put(ground=sheet.pick(sheet.page["panel"], "#1f2937;color:#eee"))


def start_phone(sheet: PageSheet) -> None:
    """What all phones show: the time, the battery, a title between two icons, tabs now and then."""
    set_colours(sheet, 0.35)
    sheet.width, sheet.height = sheet.pick((384, 768), (448, 832), (512, 896), (416, 832), (512, 1024))
    sheet.size = sheet.between(11, 15)
    time = f"{sheet.between(0, 23)}:{sheet.between(0, 59):02d}"
    sheet.put(time=sheet.asked("field", "screen.time", time), wifi=sheet.icon("wifi"))
    sheet.put(power=sheet.asked("field", "screen.battery", f"{sheet.between(3, 100)}%"))
    sheet.put(title=sheet.titled(sheet.word("ui")), menu=sheet.icon("menu", asked=True), corner=sheet.icon(asked=True))
    sheet.put(tabs=[(sheet.icon(), entry) for entry in entries(sheet, 4, 4)], tabbed=sheet.chance(0.7))


def settings(sheet: PageSheet) -> None:
    start_phone(sheet)
    states = ("On", "Off", "Auto", sheet.fake.word(), str(sheet.between(1, 99)))
    rows = [(name, sheet.pick(*states)) for name in sheet.some("ui", sheet.between(7, 14))]
    marks = sheet.listed(rows, ("click", "click", 0, 0, "L"), ("lookup", "screen.setting", 1, 0, "L"))
    sheet.put(rows=[(sheet.icon(), *pair) for pair in marks])


def chat(sheet: PageSheet) -> None:
    start_phone(sheet)
    rows = []
    for _ in range(sheet.between(5, 10)):
        words = sheet.mark(sheet.sentence(3, 12))
        begin = " ".join(words.text.split()[:4])
        when = sheet.asked("lookup", "screen.sent", sheet.value("time"), "", words, t=begin)
        rows.append((sheet.chance(0.5), words, when))
    sheet.put(rows=rows)


def home(sheet: PageSheet) -> None:
    start_phone(sheet)
    marks = sheet.listed(zip(sheet.some("ui", 20)), ("click", "click", 0, 0, "L"))
    sheet.put(apps=[(label, sheet.hue(40, 60), sheet.icon()) for (label,) in marks])


def feed(sheet: PageSheet) -> None:
    """Cards of fields, or (kept aside) a ticket with them."""
    start_phone(sheet)
    sheet.put(fields=make_fields(sheet, 10))


def player(sheet: PageSheet) -> None:
    """Kept aside: songs with their lengths."""
    start_phone(sheet)
    lengths = [f"{sheet.between(1, 7)}:{sheet.between(0, 59):02d}" for _ in range(sheet.between(5, 10))]
    rows = [(sheet.sentence(1, 3), sheet.fake.name(), length) for length in lengths]
    sheet.put(
        songs=sheet.listed(rows, ("lookup", "screen.duration", 2, 0, "s"), ("lookup", "screen.artist", 1, 0, "s"))
    )


# ---- Programs of a desktop, and what opens over them -----------------------------------------------------------------


def start_desk(sheet: PageSheet) -> None:
    if sheet.width < sheet.height:
        sheet.turn()
    sheet.size = sheet.pick(9, 10, 11, 12, 13)
    set_colours(sheet)


def window(sheet: PageSheet, name: str) -> None:
    """Title bar, menu, tools, status line; the template of the layout puts its body between them."""
    start_desk(sheet)
    file = sheet.fake.file_name(extension=sheet.pick("txt", "docx", "xlsx", "png", "md"))
    sheet.put(title=sheet.titled(f"{name} - {file}", "", "desk.title"), radius=sheet.pick(0, 2, 5))
    sheet.put(bar=sheet.pick(f"{sheet.page['accent']};color:#fff", sheet.page["line"]), border=sheet.chance(0.5))
    sheet.put(buttons=[sheet.icon(which, asked=sheet.chance(0.4)) for which in ("flag", "copy", "close")])
    known = vocabulary("desk.menu")[: sheet.between(4, 8)]
    sheet.put(menu=[(sheet.between(5, 11), sheet.entry(word)) for word in known])
    sheet.put(tools=entries(sheet, 3, 7, 0.6) + [sheet.icon(asked=True) for _ in range(sheet.between(1, 4))])
    sheet.put(status=sheet.asked("place", "desk.status", sheet.word("desk.status")))


def files(sheet: PageSheet) -> None:
    """A file manager: places at the left, files with size and date."""
    window(sheet, "Files")
    heads, rows = sheet.mark_all("Name", "Size", "Changed", "Type"), []
    for _ in range(sheet.between(5, max(6, sheet.height // 30))):
        name = sheet.asked("click", "desk.file", text := sheet.fake.file_name(), n=text)
        size = f"{sheet.between(1, 999)} {sheet.pick('KB', 'MB', 'bytes')}"
        facts = sheet.mark_all(size, sheet.date(), sheet.word("desk.files"))
        for what, mark, head in zip(("size", "date", "type"), facts, heads[1:], strict=True):
            sheet.ask("cell", "desk.about_file", mark, (name, head), w=what, n=name.text)
        rows.append((sheet.icon(), name, facts))
    if len(rows) < 10:
        sheet.ask_count("files", [name for _, name, _ in rows])
    sheet.put(places=entries(sheet, 5, 12, 0.8), heads=heads, rows=rows, side=sheet.between(110, 170))


def mail(sheet: PageSheet) -> None:
    """Folders, a list of messages, one opened."""
    window(sheet, "Mail")
    number = sheet.between(5, max(6, sheet.height // 60))
    rows = [(sheet.fake.name(), sheet.sentence(2, 6), sheet.date()) for _ in range(number)]
    asks = (
        ("click", "desk.message", 0, 0, "n"),
        ("lookup", "desk.subject", 1, 0, "n"),
        ("lookup", "desk.date", 2, 0, "n"),
    )
    sheet.put(messages=sheet.listed(rows, *asks), subject=sheet.mark(sheet.heading()), side=sheet.between(200, 280))
    sheet.put(folders=[sheet.entry(name, icons=0.5) for name in vocabulary("desk.mail")[: sheet.between(4, 8)]])
    sheet.put(paragraphs=[sheet.paragraph(6), sheet.paragraph(4)])


def spreadsheet(sheet: PageSheet) -> None:
    """Cells with letters and numbers at the edges."""
    window(sheet, "Sheet")
    k, n = sheet.between(4, max(5, sheet.width // 110)), sheet.between(8, max(9, sheet.height // 28))
    letters, rows = sheet.mark_all(*"ABCDEFGHIJKL"[:k]), []
    for row in range(n):
        values = [sheet.pick(str(sheet.between(1, 9999)), sheet.money(900, True)) for _ in letters[1:]]
        texts = [sheet.fake.last_name(), *values] if row else [label for label, _ in sheet.labels(k)]
        number, *cells = sheet.mark_all(row + 1, *texts)
        for letter, cell in zip(letters, cells, strict=True):
            if sheet.chance(0.25):
                sheet.ask("cell", "desk.cell", cell, (letter, number), a=f"{letter.text}{row + 1}")
        rows.append((number, cells))
    sheet.put(letters=letters, rows=rows)


def editor(sheet: PageSheet) -> None:
    """A code editor: a tree of files, numbered lines."""
    window(sheet, "Code")
    word, names = sheet.fake.word, [sheet.pick("py", "js", "css", "md") for _ in range(sheet.between(6, 14))]
    tree = [(sheet.pick(6, 16, 26), sheet.entry(sheet.fake.file_name(extension=end), icons=0.7)) for end in names]
    rows = []
    for _ in range(sheet.between(13, max(14, sheet.height // 22))):
        values = str(sheet.between(0, 9999)), f"'{word()}'", f"{word()}({sheet.between(1, 9)})"
        rows.append((f"{word()}_{word()}", sheet.pick(*values)))
    marks = sheet.listed(rows, ("lookup", "desk.variable", 1, 0, "n"))
    sheet.put(tree=tree, mono=sheet.face("mono"), lines=[(" " * sheet.pick(0, 2, 4), *pair) for pair in marks])


def preferences(sheet: PageSheet) -> None:
    """Kept aside: groups of settings with a dialog's buttons."""
    window(sheet, "Preferences")
    sheet.put(tabs=entries(sheet, 5, 5), fields=make_fields(sheet, sheet.between(6, 12), 0.1))
    sheet.put(answers=[sheet.entry(word) for word in ("OK", "Cancel", "Apply")])


def painter(sheet: PageSheet) -> None:
    """Kept aside: tools in a column, layers at the right, a picture in the middle."""
    window(sheet, "Paint")
    rows = [(name, f"{sheet.between(1, 100)}%") for name in sheet.some("ui", sheet.between(4, 8))]
    marks = sheet.listed(rows, ("click", "click", 0, 0, "L"), ("lookup", "desk.opacity", 1, 0, "L"))
    discs = [(sheet.between(20, 380), sheet.between(20, 280), sheet.between(8, 70), sheet.hue()) for _ in range(9)]
    sheet.put(layers=[(sheet.icon("eye"), *pair) for pair in marks], discs=discs)
    sheet.put(brushes=[sheet.icon(asked=True) for _ in range(sheet.between(6, 12))])


def dialog(sheet: PageSheet) -> None:
    """A dialog over a window of text: a title, a message, options, buttons."""
    window(sheet, "Notes")
    sheet.put(dialog=sheet.titled(sheet.sentence(2, 4), "", "dialog.title"), close=sheet.icon("close", asked=True))
    sheet.put(message=sheet.asked("place", "dialog.message", sheet.sentence(5, 12)))
    sheet.put(options=[(entry, sheet.chance(0.5)) for entry in entries(sheet, 0, 4)])
    sheet.put(answers=[sheet.entry(word) for word in sheet.some("dialog.answers", sheet.between(2, 3))])
    sheet.put(left=sheet.between(12, 45), drop=sheet.between(15, 45), text=sheet.paragraph(14))


def menus(sheet: PageSheet) -> None:
    """An open menu: commands, their keys, some greyed out; text behind it."""
    window(sheet, "Writer")
    letters = sheet.random.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", sheet.between(6, 12))
    rows = [(word, sheet.pick(*KEYS) + key) for word, key in zip(sheet.some("ui", len(letters)), letters, strict=True)]
    marks = sheet.listed(rows, ("click", "click", 0, 0, "L"), ("lookup", "dialog.key", 1, 0, "L"))
    sheet.put(rows=[(*pair, sheet.chance(0.2), sheet.chance(0.2)) for pair in marks])
    sheet.put(left=sheet.between(2, 40), text=sheet.paragraph(18))


def browser(sheet: PageSheet) -> None:
    """Tabs, an address, bookmarks, icons, and a page below them."""
    start_desk(sheet)
    address = f"https://www.{sheet.fake.domain_name()}/{sheet.fake.uri_path()}"
    sheet.put(address=sheet.asked("place", "dialog.address", address), radius=sheet.pick(0, 4, 12))
    sheet.put(tabs=[sheet.entry(sheet.fake.company()[:18], icons=0.6) for _ in range(sheet.between(2, 5))])
    sheet.put(icons=[sheet.icon(asked=True) for _ in range(sheet.between(3, 8))], links=entries(sheet, 2, 6))
    sheet.put(bookmarks=entries(sheet, 3, 7, 0.5), headline=sheet.titled(sheet.heading(), "", "web.headline"))
    sheet.put(paragraphs=[sheet.paragraph(5) for _ in range(4)])


def assistant(sheet: PageSheet) -> None:
    """Kept aside: an assistant with its steps at the left and buttons below."""
    window(sheet, "Setup")
    steps = sheet.mark_all(*sheet.some("ui", sheet.between(3, 6)))
    now = sheet.random.randrange(len(steps))
    sheet.ask("choice", "dialog.step", steps[now])
    choices = [(sheet.entry(sheet.sentence(2, 5)), sheet.chance(0.3)) for _ in range(sheet.between(2, 5))]
    sheet.put(steps=steps, now=now, message=sheet.asked("place", "dialog.message", sheet.sentence(5, 12)))
    sheet.put(choices=choices, answers=[sheet.entry(word) for word in ("Back", "Next", "Cancel")])


def toolbox(sheet: PageSheet) -> None:
    """Kept aside: icons in a grid beside a picture, each with or without its name."""
    window(sheet, "Draw")
    cells = entries(sheet, 4, 10, 0.5) + [sheet.icon(asked=True) for _ in range(sheet.between(4, 10))]
    sheet.put(cells=cells, across=sheet.between(2, 4), hue=sheet.hue(), ground=sheet.hue(70, 90))


# ---- Web pages -------------------------------------------------------------------------------------------------------


def site(sheet: PageSheet) -> None:
    """Name, navigation, a foot with links; the template of the layout puts its body between them."""
    sheet.size = max(sheet.size, 10)
    set_colours(sheet, 0.2)
    sheet.cropped, sheet.width = sheet.chance(0.6), max(sheet.width, 640)
    sheet.put(name=sheet.asked("title", "web.site", sheet.fake.company().split(",")[0]), foot=entries(sheet, 5, 5))
    sheet.put(links=[(sheet.between(10, 20), entry) for entry in entries(sheet, 4, 7, 0.1)])
    sheet.put(search=(sheet.icon("search", asked=True), sheet.fake.word()) if sheet.chance(0.5) else None)


def button(sheet: PageSheet, *words: str) -> Markup:
    entry, radius = sheet.entry(sheet.pick(*words), icons=0.3), sheet.pick(0, 4, 16)
    return sheet.render("webs/button", accent=sheet.page["accent"], radius=radius, entry=entry)


def store(sheet: PageSheet) -> None:
    """Goods with prices and ratings."""
    site(sheet)
    k = sheet.pick(3, 4)
    names = sheet.some("items", k * sheet.between(2, 4))
    rows = [(item, sheet.money(200), f"{sheet.random.uniform(1, 5):.1f}") for item in names]
    marks, cards = sheet.listed(rows, ("value", "price", 1, 0, "I"), ("lookup", "web.rating", 2, 0, "I")), []
    for name, price, stars in marks:
        card: dict[str, object] = {"name": name, "price": price, "stars": stars, "ground": sheet.hue(60, 85)}
        card |= {"radius": sheet.between(8, 20), "disc": sheet.hue(), "star": sheet.icon("star")}
        card["button"] = button(sheet, "Add to cart", "Buy now", "Compare") if sheet.chance(0.3) else ""
        cards.append(card)
    if len(cards) < 10:
        sheet.ask_count("products", [name for name, *_ in marks])
    sheet.put(k=k, cards=cards)


def news(sheet: PageSheet) -> None:
    """An article beside a list of headlines."""
    site(sheet)
    sheet.put(head=sheet.titled(sheet.sentence(4, 9), "", "web.headline"), text=telling(sheet, sheet.between(2, 5)))
    sheet.put(author=sheet.asked("field", "web.author", sheet.fake.name()))
    sheet.put(date=sheet.asked("field", "web.date", sheet.date()))
    rows = [(sheet.sentence(3, 7), f"{sheet.between(2, 999)} comments") for _ in range(sheet.between(4, 8))]
    sheet.put(others=sheet.listed(rows, ("click", "web.article", 0, 0, "t"), ("lookup", "web.comments", 1, 0, "t")))


def landing(sheet: PageSheet) -> None:
    """A promise in large type, three plans with prices."""
    site(sheet)
    sheet.put(title=sheet.titled(sheet.heading(), f"{sheet.larger(2, 3)};font-weight:bold"))
    rows = [(name, sheet.money(99), f"{sheet.between(1, 500)} GB") for name in sheet.some("web.plans", 3)]
    plans = sheet.listed(rows, ("value", "price", 1, 0, "I"), ("lookup", "web.storage", 2, 0, "n"))
    sheet.put(plans=[(*plan, button(sheet, "Try free", "Get started", "Book now")) for plan in plans])
    sheet.put(text=sheet.paragraph(2), more=button(sheet, "Learn more"))


def account(sheet: PageSheet) -> None:
    """A form on the web: labels, boxes, a button."""
    site(sheet)
    sheet.put(fields=make_fields(sheet, sheet.between(6, 12), 0.1), columns=sheet.pick(1, 2))
    sheet.put(button=button(sheet, "Submit", "Continue", "Register", "Save"))


def results(sheet: PageSheet) -> None:
    """Kept aside: what a search found, with addresses and dates."""
    site(sheet)
    rows = [(sheet.sentence(3, 6), sheet.fake.domain_name(), sheet.date()) for _ in range(sheet.between(5, 9))]
    asks = ("click", "web.result", 0, 0, "t"), ("lookup", "web.result_site", 1, 0, "t")
    marks = sheet.listed(rows, *asks, ("lookup", "web.result_date", 2, 0, "t"))
    sheet.put(rows=[(*row, sheet.sentence(8, 18)) for row in marks])


# ---- Slides and posters ----------------------------------------------------------------------------------------------


def start_slide(sheet: PageSheet) -> None:
    """What all slides share: a title, a number, a name."""
    sheet.manner, sheet.cropped = "sans", False
    sheet.width, sheet.height = sheet.pick((1024, 576), (768, 576), (896, 512), (1024, 768))
    sheet.size, sheet.padding = sheet.between(13, 19), sheet.between(24, 60)
    color = sheet.hue(30, 50)
    if sheet.chance(0.3):
        sheet.paper, sheet.ink, color = sheet.hue(15, 30), "#fff", "#fff"
    number = sheet.asked("place", "slide.number", sheet.between(1, 60))
    sheet.put(title=sheet.titled(sheet.heading(), "", "slide.title"), number=number)
    sheet.put(firm=sheet.fake.company(), color=color)


def points(sheet: PageSheet) -> None:
    """Few words in large type."""
    start_slide(sheet)
    marks = [sheet.mark(sheet.sentence(3, 9)) for _ in range(sheet.between(3, 6))]
    sheet.ask("lookup", "slide.first", marks[0])
    sheet.ask("lookup", "slide.last", marks[-1])
    sheet.ask_count("points", marks)
    sheet.put(points=marks)


def numbers(sheet: PageSheet) -> None:
    """Kept aside: big numbers."""
    start_slide(sheet)
    cells = []
    for label, kind in sheet.labels_of(("money", "percent", "int"), 60)[: sheet.between(3, 6)]:
        value, name = sheet.mark_all(sheet.value(kind), label)
        sheet.ask_field(label, kind, value, name)
        cells.append((value, name))
    sheet.put(cells=cells)


def charted(sheet: PageSheet) -> None:
    """A chart on a slide."""
    start_slide(sheet)
    sheet.size = 13
    sheet.put(drawing=figure(sheet, sheet.width - 2 * sheet.padding, int(sheet.height * 0.85)))


def poster(sheet: PageSheet) -> None:
    """Kept aside: an event with a date, a place, a price."""
    sheet.padding, sheet.size = 30, 14
    if sheet.width > sheet.height:
        sheet.turn()
    sheet.paper = sheet.pick("#fff", "#fbe9c6", "#123")
    sheet.ink = "#fff" if sheet.paper == "#123" else "#111"
    look = f"font-family:'{sheet.face('display')}';font-size:3.2em;line-height:1.1"
    facts = {"date": sheet.date(), "time": sheet.value("time"), "place": sheet.fake.street_address()}
    facts |= {"price": sheet.money(60), "phone": sheet.value("phone")}
    lines = [sheet.asked("field", f"slide.{name}", fact, sheet.larger(1, 1.8)) for name, fact in facts.items()]
    places = [(sheet.between(0, sheet.width), sheet.between(0, 120), sheet.between(10, 60)) for _ in range(6)]
    sheet.put(title=sheet.titled(f"{sheet.word('web.events')} {sheet.fake.city()}", look, "slide.event"), lines=lines)
    sheet.put(acts=sheet.some("nouns", 5), discs=[(*place, sheet.hue(40, 70)) for place in places])


def bulletin(sheet: PageSheet) -> None:
    """A poster for a notice board: text, a table of dates."""
    sheet.padding = 26
    rows = [(name, sheet.date(), f"Room {sheet.between(1, 400)}") for name in sheet.some("items", sheet.between(4, 9))]
    sheet.put(rows=sheet.listed(rows, ("cell", "slide.when", 1, 0, "n"), ("cell", "slide.where", 2, 0, "n")))
    sheet.put(title=sheet.titled(sheet.heading(), f"font-family:'{sheet.face('display')}';font-size:2.4em"))
    sheet.put(color=sheet.hue(30, 50), text=sheet.paragraph(2))


FAMILIES = {
    "dashboards": PageFamily(
        3,
        variants(dashboard, "screens/dashboard", "leftmenu", "topmenu"),
        variants(dashboard, "screens/dashboard", "rightmenu"),
    ),
    "phones": PageFamily(
        4,
        layouts("screens", settings, chat, home, feed),
        layouts("screens", player) | variants(feed, "screens/{}", "ticket"),
    ),
    "desktops": PageFamily(
        4, layouts("desks", files, mail, spreadsheet, editor), layouts("desks", preferences, painter)
    ),
    "dialogs": PageFamily(4, layouts("dialogs", dialog, menus, browser), layouts("dialogs", assistant, toolbox)),
    "webs": PageFamily(3, layouts("webs", store, news, landing, account), layouts("webs", results)),
    "slides": PageFamily(2, layouts("webs", points, charted, bulletin), layouts("webs", numbers, poster)),
}
