"""Web pages, slides and posters."""

from __future__ import annotations

from ..sheet import Sheet
from ..wording import PRICE, lowered
from ..words import vocabulary
from .letters import telling
from .screens import count_of, entry, figure, icon, looks


def site(sheet: Sheet, layout: str, body: str, accent: str, line: str) -> str:
    """Name, navigation, body, a foot with links."""
    name = sheet.mark(sheet.fake.company().split(",")[0], "font-weight:bold;font-size:1.5em")
    sheet.ask(
        "title", ("What is the name of the site?", "Which site is this?", "site name", "Whose page is this?"), name
    )
    links = "".join(
        f'<span style="margin-left:{sheet.random.randint(10, 20)}px">{entry(sheet, word, icons=0.1)}</span>'
        for word in sheet.some("ui", sheet.random.randint(4, 7))
    )
    foot = "".join(
        f'<span style="margin-right:16px">{entry(sheet, word, icons=0)}</span>' for word in sheet.some("ui", 5)
    )
    search = (
        f'<span style="border:1px solid {line};border-radius:12px;padding:2px 12px">{icon(sheet, "search", asked=True)}'
        f" &nbsp; {sheet.text(sheet.fake.word())}</span>"
        if sheet.chance(0.5)
        else ""
    )
    return (
        '<div style="display:flex;justify-content:space-between;align-items:center;padding:10px 18px;border-bottom:1px'
        f' solid {line}">{name}<div>{links}</div>{search}</div><div style="padding:14px 18px">{body}</div><div'
        f' style="padding:10px 18px;border-top:1px solid {line};font-size:.85em">{foot}</div>'
    )


def button(sheet: Sheet, word: str, accent: str) -> str:
    return (
        "<span"
        f' style="display:inline-block;background:{accent};color:#fff;border-radius:'
        f"{sheet.random.choice((0, 4, 16))}px;padding:5px"
        f' 14px">{entry(sheet, word, icons=0.3)}</span>'
    )


def start(sheet: Sheet, layout: str) -> tuple[str, str, str]:
    sheet.layout = layout
    sheet.size, accent = max(sheet.size, 10), looks(sheet, 0.2)
    sheet.cropped = sheet.chance(0.6)
    if sheet.width < 640:
        sheet.width = 640
    return accent


def store(sheet: Sheet) -> str:
    """Goods with prices and ratings."""
    accent, line, panel = start(sheet, "store")
    k, cards, names = sheet.random.choice((3, 4)), "", []
    for item in sheet.some("items", k * sheet.random.randint(2, 4)):
        name, price, stars = (
            sheet.mark(item, "font-weight:bold"),
            sheet.mark(sheet.money(200), f"color:{accent};font-size:1.2em"),
            sheet.mark(f"{sheet.random.uniform(1, 5):.1f}"),
        )
        names.append(name)
        sheet.ask("value", PRICE, price, (name,), I=item, i=lowered(item))
        sheet.ask(
            "lookup",
            ("What rating does {I} have?", "How many stars has the {i}?", "rating of {i}"),
            stars,
            (name,),
            I=item,
            i=lowered(item),
        )
        picture = (
            f'<svg width="100%" height="50"><rect width="100%" height="50" fill="{sheet.hue(60, 85)}"/><circle cx="50%"'
            f' cy="25" r="{sheet.random.randint(8, 20)}" fill="{sheet.hue()}"/></svg>'
        )
        cards += (
            '<div class="cut" style="border:1px solid'
            f' {line};background:{panel};padding:8px">{picture}<div>{name}</div><div>{price} &nbsp;'
            f" {icon(sheet, 'star', 'color:#e5a50a')}"
            f" {stars}</div>"
            f"{button(sheet, sheet.pick('Add to cart', 'Buy now', 'Compare'), accent) if sheet.chance(0.3) else ''}"
            "</div>"
        )
    if len(names) < 10:
        count_of(sheet, "products", names)
    return site(
        sheet,
        "store",
        f'<div style="display:grid;grid-template-columns:repeat({k},1fr);gap:10px">{cards}</div>',
        accent,
        line,
    )


def news(sheet: Sheet) -> str:
    """An article beside a list of headlines."""
    accent, line, _ = start(sheet, "news")
    head, author, date = (
        sheet.mark(sheet.sentence(4, 9), "font-size:2em;font-weight:bold"),
        sheet.mark(sheet.fake.name()),
        sheet.mark(sheet.date()),
    )
    sheet.ask_title(
        head, ("What is the headline?", "What is the article about?", "headline", "What is the title of the article?")
    )
    sheet.ask("field", ("Who wrote the article?", "author", "Who is the author?"), author)
    sheet.ask("field", ("When was the article published?", "date of the article"), date)
    others = ""
    for _ in range(sheet.random.randint(4, 8)):
        title, views = (
            sheet.mark(sheet.sentence(3, 7)),
            sheet.mark(f"{sheet.random.randint(2, 999)} comments", "font-size:.8em;opacity:.7"),
        )
        sheet.ask("click", ("Open the article {t}", "Click on '{t}'", "Read {t}"), title, t=title.text)
        sheet.ask("lookup", ("How many comments has {t}?", "comments on {t}"), views, (title,), t=title.text)
        others += f'<div class="cut" style="padding:6px 0;border-bottom:1px solid {line}">{title}<br>{views}</div>'
    return site(
        sheet,
        "news",
        f'<div style="display:flex;gap:20px"><div style="flex:2"><div>{head}</div><div style="opacity:.7">By {author},'
        f' {date}</div>{telling(sheet, sheet.random.randint(2, 5))}</div><div style="flex:1">{others}</div></div>',
        accent,
        line,
    )


def landing(sheet: Sheet) -> str:
    """A promise in large type, three plans with prices."""
    accent, line, panel = start(sheet, "landing")
    title = sheet.mark(sheet.heading(), f"font-size:{sheet.random.uniform(2, 3):.1f}em;font-weight:bold")
    sheet.ask_title(title)
    plans = ""
    for name in sheet.random.sample(("Free", "Basic", "Plus", "Pro", "Team", "Business", "Enterprise", "Student"), 3):
        plan, price, space = (
            sheet.mark(name, "font-weight:bold;font-size:1.3em"),
            sheet.mark(sheet.money(99), "font-size:1.5em"),
            sheet.mark(f"{sheet.random.randint(1, 500)} GB"),
        )
        sheet.ask("value", PRICE, price, (plan,), I=name, i=f"{name} plan")
        sheet.ask(
            "lookup",
            ("How much storage comes with {n}?", "{n} storage", "What space does the {n} plan give?"),
            space,
            (plan,),
            n=name,
        )
        plans += (
            '<div style="flex:1;border:1px solid'
            f' {line};border-radius:8px;padding:12px;text-align:center;background:{panel}">{plan}<div>{price} per'
            " month</div><div>Storage"
            f" {space}</div>{button(sheet, sheet.pick('Try free', 'Get started', 'Book now'), accent)}</div>"
        )
    return site(
        sheet,
        "landing",
        "<div"
        f' style="text-align:center;padding:20px">{title}<p>{sheet.text(sheet.paragraph(2))}</p>'
        f"{button(sheet, 'Learn more', accent)}</div><div"
        f' style="display:flex;gap:12px">{plans}</div>',
        accent,
        line,
    )


def account(sheet: Sheet) -> str:
    """A form on the web: labels, boxes, a button."""
    accent, line, panel = start(sheet, "account")
    from .fields import make_fields, pen_for

    fields = make_fields(sheet, pen_for(sheet), sheet.random.randint(6, 12), 0.1, False)
    boxes = "".join(
        f'<div class="cut" style="margin:7px 0"><div style="font-size:.85em">{f.label}</div><div style="border:1px'
        f' solid {line};border-radius:4px;padding:4px 8px;background:{panel}">{f.shown}</div></div>'
        for f in fields
    )
    return site(
        sheet,
        "account",
        f'<div style="columns:{sheet.random.choice((1, 2))};max-width:640px;margin:0'
        f' auto">{boxes}</div>{button(sheet, sheet.pick("Submit", "Continue", "Register", "Save"), accent)}',
        accent,
        line,
    )


def results(sheet: Sheet) -> str:
    """Kept aside: what a search found, with addresses and dates."""
    accent, line, _ = start(sheet, "results")
    rows = ""
    for _ in range(sheet.random.randint(5, 9)):
        title, url, date = (
            sheet.mark(sheet.sentence(3, 6), f"color:{accent};font-size:1.2em"),
            sheet.mark(sheet.fake.domain_name(), "color:#383"),
            sheet.mark(sheet.date(), "opacity:.7"),
        )
        sheet.ask("click", ("Open the result {t}", "Click on {t}", "{t}"), title, t=title.text)
        sheet.ask("lookup", ("On which site is {t}?", "address of {t}"), url, (title,), t=title.text)
        sheet.ask("lookup", ("When is {t} from?", "date of {t}"), date, (title,), t=title.text)
        rows += (
            f'<div class="cut" style="margin:9px 0">{url}<br>{title}<br>{date} -'
            f" {sheet.text(sheet.sentence(8, 18))}</div>"
        )
    return site(sheet, "results", rows, accent, line)


def slide(sheet: Sheet, layout: str) -> str:
    """Few words in large type: points, a figure, or big numbers."""
    sheet.layout, sheet.manner, sheet.cropped = layout, "sans", False
    sheet.width, sheet.height = sheet.random.choice(((1024, 576), (768, 576), (896, 512), (1024, 768)))
    sheet.size, sheet.padding = sheet.random.randint(13, 19), sheet.random.randint(24, 60)
    accent = sheet.hue(30, 50)
    if sheet.chance(0.3):
        sheet.paper, sheet.ink = sheet.hue(15, 30), "#fff"
    title = sheet.mark(
        sheet.heading(), f"font-size:1.8em;font-weight:bold;color:{accent if sheet.ink != '#fff' else '#fff'}"
    )
    sheet.ask_title(
        title, ("What is the title of the slide?", "slide title", "What is the slide about?", "What is the title?")
    )
    number = sheet.mark(str(sheet.random.randint(1, 60)), "font-size:.7em")
    sheet.ask("place", ("What is the number of the slide?", "page number", "Which slide is it?"), number)
    foot = (
        f'<div style="position:absolute;right:20px;bottom:10px">{number}</div><div'
        f' style="position:absolute;left:20px;bottom:10px;font-size:.7em">{sheet.text(sheet.fake.company())}</div>'
    )
    if layout == "figure":
        sheet.size = 13
        return f"{title}{figure(sheet, sheet.width - 2 * sheet.padding, int(sheet.height * 0.85))}{foot}"
    if layout == "numbers":
        cells = ""
        for label, kind in [pair for pair in sheet.labels(60) if pair[1] in ("money", "percent", "int")][
            : sheet.random.randint(3, 6)
        ]:
            value, name = (
                sheet.mark(
                    sheet.value(kind),
                    f"font-size:2em;font-weight:bold;color:{accent if sheet.ink != '#fff' else '#fff'}",
                ),
                sheet.mark(label),
            )
            sheet.ask_field(label, kind, value, name)
            cells += f'<div style="text-align:center"><div>{value}</div><div>{name}</div></div>'
        return (
            f'{title}<div style="display:grid;grid-template-columns:repeat(3,1fr);gap:30px'
            f' 10px;margin-top:40px">{cells}</div>{foot}'
        )
    points, marks = "", []
    for _ in range(sheet.random.randint(3, 6)):
        mark = sheet.mark(sheet.sentence(3, 9))
        marks.append(mark)
        points += f'<li style="margin:.5em 0">{mark}</li>'
    sheet.ask("lookup", ("What is the first point?", "Read the first bullet.", "first point on the slide"), marks[0])
    sheet.ask("lookup", ("What is the last point?", "Read the last bullet."), marks[-1])
    count_of(sheet, "points", marks)
    return f"{title}<ul>{points}</ul>{foot}"


def poster(sheet: Sheet) -> str:
    """Kept aside: an event with a date, a place, a price."""
    sheet.layout, sheet.padding, sheet.size = "poster", 30, 14
    if sheet.width > sheet.height:
        sheet.width, sheet.height = sheet.height, sheet.width
    sheet.paper, sheet.ink = sheet.pick("#fff", "#fbe9c6", "#123"), "#111"
    if sheet.paper == "#123":
        sheet.ink = "#fff"
    title = sheet.mark(
        sheet.pick("Summer Concert", "Book Fair", "Open Day", "Jazz Night", "City Run", "Flea Market", "Film Week")
        + " "
        + sheet.fake.city(),
        f"font-family:'{sheet.face('display')}';font-size:3.2em;line-height:1.1",
    )
    sheet.ask_title(title, ("Which event is it?", "What is the poster about?", "event", "What is the title?"))
    lines = ""
    for wordings, text in (
        (("When is the event?", "date", "On which day is it?"), sheet.date()),
        (("At what time does it begin?", "start time"), sheet.value("time")),
        (("Where is the event?", "place", "What is the venue?"), sheet.fake.street_address()),
        (("How much is the entry?", "admission", "ticket price"), sheet.money(60)),
        (("Which number can be called?", "phone"), sheet.value("phone")),
    ):
        mark = sheet.mark(text, f"font-size:{sheet.random.uniform(1, 1.8):.1f}em")
        sheet.ask("field", wordings, mark)
        lines += f'<div style="margin:.6em 0">{mark}</div>'
    acts = "".join(f'<div class="cut">{sheet.text(name)}</div>' for name in sheet.random.sample(vocabulary("nouns"), 5))
    shapes = "".join(
        f'<circle cx="{sheet.random.randint(0, sheet.width)}" cy="{sheet.random.randint(0, 120)}"'
        f' r="{sheet.random.randint(10, 60)}" fill="{sheet.hue(40, 70)}"/>'
        for _ in range(6)
    )
    return f'<svg width="100%" height="120">{shapes}</svg><div style="text-align:center">{title}{lines}{acts}</div>'


def bulletin(sheet: Sheet) -> str:
    """A poster for a notice board: text, a table of dates."""
    sheet.layout, sheet.padding = "bulletin", 26
    title = sheet.mark(sheet.heading(), f"font-family:'{sheet.face('display')}';font-size:2.4em")
    sheet.ask_title(title)
    rows = ""
    for what in sheet.some("items", sheet.random.randint(4, 9)):
        name, when, where = (
            sheet.mark(what),
            sheet.mark(sheet.date()),
            sheet.mark(f"Room {sheet.random.randint(1, 400)}"),
        )
        sheet.ask("cell", ("When is {n}?", "date of {n}", "On what day is {n}?"), when, (name,), n=what)
        sheet.ask("cell", ("Where is {n}?", "room of {n}", "Which room is {n} in?"), where, (name,), n=what)
        rows += (
            f'<tr class="cut"><td style="padding:5px 12px">{name}</td><td>{when}</td><td'
            f' style="padding-left:12px">{where}</td></tr>'
        )
    return (
        '<div style="text-align:center;border:4px solid'
        f' {sheet.hue(30, 50)};padding:14px">{title}<p>{sheet.text(sheet.paragraph(2))}</p><table style="margin:0'
        f' auto">{rows}</table></div>'
    )


def points(sheet: Sheet) -> str:
    return slide(sheet, "points")


def numbers(sheet: Sheet) -> str:
    return slide(sheet, "numbers")


def figures(sheet: Sheet) -> str:
    return slide(sheet, "figure")


WEBS, HELD_WEBS = {f.__name__: f for f in (store, news, landing, account)}, {"results": results}
SLIDES, HELD_SLIDES = {f.__name__: f for f in (points, figures, bulletin)}, {f.__name__: f for f in (numbers, poster)}
