"""Values that no label names (cheques, tickets, parcels, cards), places that words name (the second line, bottom
right), and forms under what archives and security printers put on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from ..sheet import Mark, PageSheet, layouts, named
from .fields import ARRANGEMENTS, HELD_ARRANGEMENTS
from .forms import form, logo

ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
SMALL_NUMBERS = (*ONES, "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
CORNERS = ("top left", "top right", "bottom left", "bottom right")


def in_words(number: int) -> str:
    """A whole number below a million, in English words."""
    if number < 20:
        return SMALL_NUMBERS[number]
    if number < 100:
        return TENS[number // 10] + (f"-{SMALL_NUMBERS[number % 10]}" if number % 10 else "")
    part, name = (100, "hundred") if number < 1000 else (1000, "thousand")
    rest = f" {in_words(number % part)}" if number % part else ""
    return f"{in_words(number // part)} {name}{rest}"


def clutter(sheet: PageSheet, chance: float = 0.5) -> Markup:
    """What takes the eye and answers nothing: an archive's footer, dashed rules, a stamp, a security pattern."""
    footer = stamp = pattern = ""
    if sheet.chance(chance):
        code = "".join(sheet.random.choice("abcdefghjkmnpqrstvwxyz0123456789") for _ in range(8))
        footer = sheet.pick(
            f"Source: https://www.{sheet.fake.domain_word()}.org/docs/{code}",
            f"{sheet.fake.company()} archive, box {sheet.between(1, 900)}, folder {sheet.between(1, 99)}",
            f"Scanned {sheet.date()} {code.upper()}",
        )
    if sheet.chance(chance):
        stamp = sheet.word("form.stamps")
    if sheet.chance(chance):
        pattern = sheet.pick("lines", "rings", "crossed")
    rules = [sheet.between(15, 95) for _ in range(sheet.pick(0, 0, 1, 2))]
    context: dict[str, object] = {"footer": footer, "stamp": stamp, "pattern": pattern, "rules": rules}
    context |= {"color": sheet.pick("#a22", "#225", "#555", "#282"), "turn": sheet.between(-20, 20)}
    context |= {"left": sheet.between(5, 60), "top": sheet.between(10, 80), "hue": sheet.hue(70, 88)}
    return sheet.render("unlabelled/clutter", width=sheet.between(4, 14), **context)


def written_sum(sheet: PageSheet) -> tuple[str, str]:
    """An amount in figures and in words."""
    whole, rest = sheet.between(3, 9999), sheet.between(0, 99)
    words = in_words(whole).capitalize()
    return f"{whole:,}.{rest:02d}", f"{words} and {rest:02d}/100"


def ask_bare(sheet: PageSheet, **marks: Mark) -> None:
    """Every value by what it is, in the wordings of its kind."""
    for name, mark in marks.items():
        for _ in range(2):
            sheet.ask("bare", f"bare.{name}", mark)


def cheque(sheet: PageSheet) -> str:
    """A bank's cheque: a date, a payee, a sum in figures and in words, numbers along the lower edge."""
    sheet.set_manner(sans=4, serif=4, mono=2)
    if sheet.width < sheet.height:
        sheet.turn()
    sheet.size, sheet.padding = max(sheet.size, 11), sheet.between(14, 40)
    figures, words = written_sum(sheet)
    bank = sheet.mark(f"{sheet.fake.city()} {sheet.pick('Bank', 'Savings Bank', 'Trust', 'Credit Union')}")
    date, payee, owner = sheet.mark_all(sheet.date(), sheet.fake.name(), sheet.fake.name())
    amount, spelled = sheet.mark_all(figures, words)
    digits = [str(sheet.between(10 ** (n - 1), 10**n - 1)) for n in (4, 9, 10)]
    number, route, account = sheet.mark_all(*digits)
    memo = sheet.mark(sheet.sentence(1, 4))
    ask_bare(sheet, bank=bank, date=date, payee=payee, amount=amount, spelled=spelled, number=number, memo=memo)
    ask_bare(sheet, owner=owner, account=account)
    hand = sheet.pick("", f"font-family:'{sheet.face('hand')}';font-size:1.3em")
    marks = {"bank": bank, "date": date, "payee": payee, "owner": owner, "amount": amount, "spelled": spelled}
    marks |= {"number": number, "route": route, "account": account, "memo": memo}
    context = {
        "hand": hand,
        "symbol": sheet.pick("$", "€", "£", ""),
        "logo": logo(sheet, 30),
        "text": sheet.paragraph(3),
    }
    return sheet.render("unlabelled/cheque", clutter=clutter(sheet, 0.6), street=sheet.street(), **context, **marks)


def ticket(sheet: PageSheet) -> str:
    """An entrance ticket; a parcel's label; kept aside: a visiting card. Each value in its own place and size."""
    sheet.set_manner(sans=6, serif=2, mono=2)
    sheet.size, sheet.padding = max(sheet.size, 11), sheet.between(14, 50)
    fake, mark = sheet.fake, sheet.mark
    figures, _ = written_sum(sheet)
    match sheet.layout:
        case "ticket":
            texts = {"event": sheet.word("web.events"), "date": sheet.date(), "time": sheet.value("time")}
            texts |= {"venue": fake.city(), "amount": f"{sheet.currency}{figures[-5:]}", "code": sheet.code()}
            texts |= {"seat": f"{sheet.pick('Row', 'Block', 'Gate')} {sheet.between(1, 40)} {sheet.between(1, 60)}"}
        case "parcel":
            texts = {"sender": fake.company(), "person": fake.name(), "street": sheet.street(), "venue": fake.city()}
            texts |= {"weight": f"{sheet.random.uniform(0.1, 30):.1f} kg", "code": sheet.code(), "date": sheet.date()}
        case "badge":
            texts = {"person": fake.name(), "job": sheet.job(), "firm": fake.company(), "code": sheet.code()}
            texts |= {"date": sheet.date(), "venue": fake.city()}
        case _:
            texts = {"person": fake.name(), "job": sheet.job(), "firm": fake.company(), "street": sheet.street()}
            texts |= {"phone": sheet.value("phone"), "mail": fake.email(), "venue": fake.city()}
    names = list(texts)
    sheet.random.shuffle(names)
    marks = {
        name: mark(texts[name], f"{sheet.larger(0.9, 2.2)};{sheet.pick('', 'font-weight:bold')}") for name in names
    }
    ask_bare(sheet, **marks)
    sides = [sheet.pick("left", "center", "right") for _ in names]
    lines = list(zip(marks.values(), sides, strict=True))
    frame = sheet.pick("border:2px solid", "border:1px dashed", "border:1px solid;border-radius:10px", "")
    context = {"lines": lines, "frame": frame, "picture": logo(sheet, 40), "gap": sheet.between(4, 26)}
    return sheet.render("unlabelled/ticket", clutter=clutter(sheet, 0.4), **context)


def corners(sheet: PageSheet) -> str:
    """Texts in the corners and in the middle of a page of prose, asked for by where they stand."""
    sheet.set_manner(sans=4, serif=5, mono=2)
    sheet.padding = sheet.between(30, 70)
    texts = [sheet.pick(sheet.date, sheet.code, sheet.fake.company, sheet.fake.city)() for _ in CORNERS]
    marks = sheet.mark_all(*texts)
    for name, mark in zip(CORNERS, marks, strict=True):
        for _ in range(2):
            sheet.ask("place", "place.corner", mark, p=name)
    title, number = sheet.mark(sheet.heading()), sheet.mark(sheet.between(1, 400))
    sheet.ask_title(title)
    for _ in range(3):
        sheet.ask("place", "place.number", number)
    lower = sheet.layout != "cover"
    context: dict[str, object] = {
        "corners": marks,
        "title": title,
        "number": number,
        "lower": lower,
        "clutter": clutter(sheet, 0.3),
    }
    context |= {"paragraphs": [sheet.paragraph(sheet.between(2, 6)) for _ in range(sheet.between(2, 7))]}
    return sheet.render("unlabelled/corners", **context)


def lines(sheet: PageSheet) -> str:
    """Short lines one below the other, asked for by their number, and by what follows or precedes them."""
    sheet.set_manner(sans=4, serif=3, mono=3)
    texts = sheet.distinct(lambda: sheet.sentence(2, 6), sheet.between(4, 8))
    marks = sheet.mark_all(*texts)
    ask_lines(sheet, marks)
    title = sheet.mark(sheet.heading())
    sheet.ask_title(title)
    style = {"numbers": "decimal", "bullets": "disc"}.get(sheet.layout, "none")
    context = {"title": title, "marks": marks, "style": style, "gap": sheet.between(1, 16)}
    return sheet.render("unlabelled/lines", clutter=clutter(sheet, 0.4), **context)


def ask_lines(sheet: PageSheet, marks: Sequence[Mark]) -> None:
    for name, mark in zip(ORDINALS, marks, strict=False):
        sheet.ask("place", "place.line", mark, o=name)
    sheet.ask("place", "place.line", marks[-1], o="last")
    for before, after in pairwise(marks):
        if sheet.chance(0.4):
            sheet.ask("lookup", "place.below", after, before, t=before.text)


def archived(sheet: PageSheet) -> str:
    """A form of one of the arrangements, under an archive's footer, stamps, patterns and dashed rules."""
    held = sheet.layout == "shelved"
    sheet.layout = sheet.random.choice(list(HELD_ARRANGEMENTS if held else ARRANGEMENTS))
    body = form(sheet, HELD_ARRANGEMENTS if held else ARRANGEMENTS)
    return Markup("{}{}").format(Markup(body), clutter(sheet, 0.8))


BARE, HELD_BARE = layouts(cheque) | named(ticket, "ticket", "parcel", "badge"), named(ticket, "card")
PLACES = named(corners, "corners") | named(lines, "numbers", "plain")
HELD_PLACES = named(corners, "cover") | named(lines, "bullets")
ARCHIVES, HELD_ARCHIVES = named(archived, "archived"), named(archived, "shelved")
