"""Web pages, slides and posters."""

from __future__ import annotations

from markupsafe import Markup

from ..sheet import PageSheet, layouts
from .fields import make_fields, pen_for
from .letters import telling
from .screens import ScreenColours, colours_for, figure


def site(sheet: PageSheet, colours: ScreenColours, **body: object) -> str:
    """Name, navigation, a foot with links; the template of the layout puts its body between them."""
    name = sheet.mark(sheet.fake.company().split(",")[0])
    sheet.ask("title", "web.site", name)
    links = [(sheet.between(10, 20), sheet.entry(word, icons=0.1)) for word in sheet.some("ui", sheet.between(4, 7))]
    foot = [sheet.entry(word) for word in sheet.some("ui", 5)]
    search = (sheet.icon("search", asked=True), sheet.fake.word()) if sheet.chance(0.5) else None
    frame = {"name": name, "links": links, "foot": foot, "search": search}
    return sheet.render(f"webs/{sheet.layout}", **frame, **body, **colours._asdict())


def button(sheet: PageSheet, word: str, colours: ScreenColours) -> Markup:
    radius = sheet.pick(0, 4, 16)
    return sheet.render("webs/button", accent=colours.accent, radius=radius, entry=sheet.entry(word, icons=0.3))


def start(sheet: PageSheet) -> ScreenColours:
    sheet.size = max(sheet.size, 10)
    colours = colours_for(sheet, 0.2)
    sheet.cropped = sheet.chance(0.6)
    sheet.width = max(sheet.width, 640)
    return colours


def store(sheet: PageSheet) -> str:
    """Goods with prices and ratings."""
    colours = start(sheet)
    k, cards = sheet.pick(3, 4), []
    for item in sheet.some("items", k * sheet.between(2, 4)):
        name, price, stars = sheet.mark_all(item, sheet.money(200), f"{sheet.random.uniform(1, 5):.1f}")
        sheet.ask("value", "price", price, name, I=item)
        sheet.ask("lookup", "web.rating", stars, name, I=item)
        card: dict[str, object] = {"name": name, "price": price, "stars": stars, "ground": sheet.hue(60, 85)}
        card |= {"radius": sheet.between(8, 20), "disc": sheet.hue(), "star": sheet.icon("star"), "button": ""}
        if sheet.chance(0.3):
            card["button"] = button(sheet, sheet.pick("Add to cart", "Buy now", "Compare"), colours)
        cards.append(card)
    if len(cards) < 10:
        sheet.ask_count("products", [card["name"] for card in cards])
    return site(sheet, colours, k=k, cards=cards)


def news(sheet: PageSheet) -> str:
    """An article beside a list of headlines."""
    colours = start(sheet)
    head, author, date = sheet.mark_all(sheet.sentence(4, 9), sheet.fake.name(), sheet.date())
    sheet.ask_title(head, "web.headline")
    sheet.ask("field", "web.author", author)
    sheet.ask("field", "web.date", date)
    others = []
    for _ in range(sheet.between(4, 8)):
        title, views = sheet.mark_all(sheet.sentence(3, 7), f"{sheet.between(2, 999)} comments")
        sheet.ask("click", "web.article", title, t=title.text)
        sheet.ask("lookup", "web.comments", views, title, t=title.text)
        others.append((title, views))
    text = telling(sheet, sheet.between(2, 5))
    return site(sheet, colours, head=head, author=author, date=date, text=text, others=others)


def landing(sheet: PageSheet) -> str:
    """A promise in large type, three plans with prices."""
    colours = start(sheet)
    text = sheet.heading()
    title = sheet.mark(text, f"{sheet.larger(2, 3)};font-weight:bold")
    sheet.ask_title(title)
    plans = []
    for name in sheet.some("web.plans", 3):
        plan, price, space = sheet.mark_all(name, sheet.money(99), f"{sheet.between(1, 500)} GB")
        sheet.ask("value", "price", price, plan, I=name, i=f"{name} plan")
        sheet.ask("lookup", "web.storage", space, plan, n=name)
        label = sheet.pick("Try free", "Get started", "Book now")
        plans.append((plan, price, space, button(sheet, label, colours)))
    text, more = sheet.paragraph(2), button(sheet, "Learn more", colours)
    return site(sheet, colours, title=title, plans=plans, text=text, more=more)


def account(sheet: PageSheet) -> str:
    """A form on the web: labels, boxes, a button."""
    colours = start(sheet)
    pen = pen_for(sheet)
    fields = make_fields(sheet, pen, sheet.between(6, 12), 0.1, long=False)
    columns, label = sheet.pick(1, 2), sheet.pick("Submit", "Continue", "Register", "Save")
    return site(sheet, colours, fields=fields, columns=columns, button=button(sheet, label, colours))


def results(sheet: PageSheet) -> str:
    """Kept aside: what a search found, with addresses and dates."""
    colours = start(sheet)
    rows = []
    for _ in range(sheet.between(5, 9)):
        title, url, date = sheet.mark_all(sheet.sentence(3, 6), sheet.fake.domain_name(), sheet.date())
        sheet.ask("click", "web.result", title, t=title.text)
        sheet.ask("lookup", "web.result_site", url, title, t=title.text)
        sheet.ask("lookup", "web.result_date", date, title, t=title.text)
        rows.append((title, url, date, sheet.sentence(8, 18)))
    return site(sheet, colours, rows=rows)


def start_slide(sheet: PageSheet) -> dict[str, object]:
    """What all slides share: a title, a number, a name."""
    sheet.manner, sheet.cropped = "sans", False
    sheet.width, sheet.height = sheet.pick((1024, 576), (768, 576), (896, 512), (1024, 768))
    sheet.size, sheet.padding = sheet.between(13, 19), sheet.between(24, 60)
    accent = sheet.hue(30, 50)
    if sheet.chance(0.3):
        sheet.paper, sheet.ink = sheet.hue(15, 30), "#fff"
    title = sheet.mark(sheet.heading())
    sheet.ask_title(title, "slide.title")
    number = sheet.mark(sheet.between(1, 60))
    sheet.ask("place", "slide.number", number)
    color = accent if sheet.ink != "#fff" else "#fff"
    return {"title": title, "number": number, "firm": sheet.fake.company(), "color": color}


def points(sheet: PageSheet) -> str:
    """Few words in large type."""
    context = start_slide(sheet)
    marks = [sheet.mark(sheet.sentence(3, 9)) for _ in range(sheet.between(3, 6))]
    sheet.ask("lookup", "slide.first", marks[0])
    sheet.ask("lookup", "slide.last", marks[-1])
    sheet.ask_count("points", marks)
    return sheet.render("webs/points", points=marks, **context)


def numbers(sheet: PageSheet) -> str:
    """Kept aside: big numbers."""
    context, cells = start_slide(sheet), []
    for label, kind in sheet.labels_of(("money", "percent", "int"), 60)[: sheet.between(3, 6)]:
        value, name = sheet.mark_all(sheet.value(kind), label)
        sheet.ask_field(label, kind, value, name)
        cells.append((value, name))
    return sheet.render("webs/numbers", cells=cells, **context)


def figures(sheet: PageSheet) -> str:
    """A chart on a slide."""
    sheet.layout = "figure"
    context = start_slide(sheet)
    sheet.size = 13
    drawing = figure(sheet, sheet.width - 2 * sheet.padding, int(sheet.height * 0.85))
    return sheet.render("webs/figure", drawing=drawing, **context)


def poster(sheet: PageSheet) -> str:
    """Kept aside: an event with a date, a place, a price."""
    sheet.padding, sheet.size = 30, 14
    if sheet.width > sheet.height:
        sheet.turn()
    sheet.paper = sheet.pick("#fff", "#fbe9c6", "#123")
    sheet.ink = "#fff" if sheet.paper == "#123" else "#111"
    text = f"{sheet.word('web.events')} {sheet.fake.city()}"
    title = sheet.mark(text, f"font-family:'{sheet.face('display')}';font-size:3.2em;line-height:1.1")
    sheet.ask_title(title, "slide.event")
    facts = {"date": sheet.date(), "time": sheet.value("time"), "place": sheet.fake.street_address()}
    facts |= {"price": sheet.money(60), "phone": sheet.value("phone")}
    lines = []
    for name, fact in facts.items():
        lines.append(mark := sheet.mark(fact, sheet.larger(1, 1.8)))
        sheet.ask("field", f"slide.{name}", mark)
    acts = sheet.some("nouns", 5)
    discs = [
        (sheet.between(0, sheet.width), sheet.between(0, 120), sheet.between(10, 60), sheet.hue(40, 70))
        for _ in range(6)
    ]
    return sheet.render("webs/poster", title=title, lines=lines, acts=acts, discs=discs)


def bulletin(sheet: PageSheet) -> str:
    """A poster for a notice board: text, a table of dates."""
    sheet.padding = 26
    text = sheet.heading()
    title = sheet.mark(text, f"font-family:'{sheet.face('display')}';font-size:2.4em")
    sheet.ask_title(title)
    rows = []
    for what in sheet.some("items", sheet.between(4, 9)):
        name, when, where = sheet.mark_all(what, sheet.date(), f"Room {sheet.between(1, 400)}")
        sheet.ask("cell", "slide.when", when, name, n=what)
        sheet.ask("cell", "slide.where", where, name, n=what)
        rows.append((name, when, where))
    color, text = sheet.hue(30, 50), sheet.paragraph(2)
    return sheet.render("webs/bulletin", title=title, rows=rows, color=color, text=text)


WEBS, HELD_WEBS = layouts(store, news, landing, account), layouts(results)
SLIDES, HELD_SLIDES = layouts(points, figures, bulletin), layouts(numbers, poster)
