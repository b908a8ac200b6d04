"""Letters, memos, fax covers, minutes: running text with facts inside it."""

from __future__ import annotations

from markupsafe import Markup

from ..sheet import PageSheet, layouts
from ..wording import lowered, wordings
from .fields import make_field, pen_for, short_fields
from .forms import logo, trimmings


def telling(sheet: PageSheet, facts: int) -> Markup:
    """Paragraphs in which some sentences carry a fact that can be asked for."""
    paragraphs = []
    for label, kind in [pair for pair in sheet.labels(facts + 14) if pair[1] not in ("text", "yesno", "word")][:facts]:
        plain = label.rstrip(".")
        name, value = sheet.mark_all(lowered(plain), sheet.value(kind))
        sentence = Markup(sheet.word("letter.facts"))
        fact = sentence.format(value, name) if sentence.startswith("We") else sentence.format(name, value)
        before, after = sheet.paragraph(sheet.between(0, 2)), sheet.paragraph(sheet.between(0, 1))
        paragraphs.append((before, fact, after))
        sheet.ask("field", wordings("field")[9:] + wordings(f"by_kind.{kind}") * 3, value, name, L=plain)
    return sheet.render("letters/telling", paragraphs=paragraphs)


def set_up(sheet: PageSheet) -> None:
    sheet.set_manner(mono=4, serif=4, sans=2)
    sheet.padding, sheet.cropped = sheet.between(30, 90), sheet.chance(0.4)


def closing(sheet: PageSheet) -> Markup:
    name, job = sheet.mark_all(sheet.fake.name(), sheet.job())
    sheet.ask("field", "letter.signer", name)
    sheet.ask("field", "letter.job", job, name, n=name.text)
    hand = sheet.face("hand") if sheet.chance(0.6) else ""
    return sheet.render("letters/closing", name=name, job=job, hand=hand, words=sheet.word("letter.closings"))


def letter(sheet: PageSheet) -> str:
    set_up(sheet)
    date = sheet.mark(sheet.date())
    sheet.ask("field", "letter.date", date)
    subject = sheet.mark(sheet.heading(), sheet.pick("font-weight:bold", "text-decoration:underline"))
    lead = sheet.mark(sheet.pick("Re:", "Subject:", "RE:"))
    sheet.ask("field", "letter.subject", subject, lead)
    name, firm = sheet.mark_all(sheet.fake.name(), sheet.fake.company())
    street, town = sheet.mark_all(sheet.street(), f"{sheet.fake.city()}, {sheet.fake.postcode()}")
    sheet.ask("field", "letter.to", name)
    sheet.ask("field", "letter.street", street, name, n=name.text)
    sheet.ask("field", "letter.firm", firm, name, n=name.text)
    context: dict[str, object] = {"date": date, "lead": lead, "subject": subject, "to": (name, firm, street, town)}
    context |= {"head_side": sheet.pick("center", "left", "right"), "sender": sheet.fake.company()}
    context |= {"address": sheet.fake.address().replace("\n", ", "), "date_side": sheet.pick("left", "right")}
    text, end = telling(sheet, sheet.between(2, 8)), closing(sheet)
    return sheet.render("letters/letter", text=text, closing=end, trimmings=trimmings(sheet), **context)


def memo(sheet: PageSheet) -> str:
    set_up(sheet)
    pen = pen_for(sheet)
    title = sheet.word("letter.memos")
    look = f"{sheet.larger(1.2, 2)};font-weight:bold;letter-spacing:{sheet.pick(0, 0, 3)}px"
    title_mark = sheet.mark(title, look)
    sheet.ask_title(title_mark)
    labels = sheet.some("letter.memo_fields", sheet.between(4, 6))
    fields = [make_field(sheet, pen, label, kind, ":") for label, kind in labels]
    side, text = sheet.pick("left", "center"), telling(sheet, sheet.between(3, 9))
    end = closing(sheet) if sheet.chance(0.3) else ""
    context = {"title": title_mark, "fields": fields, "side": side, "text": text, "closing": end}
    return sheet.render("letters/memo", trimmings=trimmings(sheet), **context)


def fax(sheet: PageSheet) -> str:
    set_up(sheet)
    pen = pen_for(sheet)
    title = sheet.mark(sheet.word("letter.faxes"))
    sheet.ask_title(title)
    fields = [make_field(sheet, pen, label, kind) for label, kind in sheet.some("letter.fax_fields", 8)]
    context: dict[str, object] = {"title": title, "fields": fields, "k": sheet.pick(1, 2), "small": sheet.paragraph(4)}
    context |= {"logo": logo(sheet), "border": sheet.pick(0, 1, 2), "text": telling(sheet, sheet.between(0, 4))}
    return sheet.render("letters/fax", trimmings=trimmings(sheet), **context)


def resume(sheet: PageSheet) -> str:
    """A person's record: name, contact, posts with years."""
    set_up(sheet)
    name = sheet.mark(sheet.fake.name())
    sheet.ask("title", "letter.person", name)
    contact, sections = short_fields(sheet, 3), []
    for section in sheet.some("letter.sections", 4):
        head = sheet.mark(section, f"font-weight:bold;color:{sheet.pick('#000', sheet.hue(20, 40))}")
        posts = []
        for _ in range(sheet.between(1, 5)):
            start = sheet.between(1970, 2020)
            texts = f"{start}-{start + sheet.between(1, 9)}", sheet.job(), sheet.fake.company()
            years, job, firm = sheet.mark_all(*texts)
            sheet.ask("lookup", "letter.years", years, firm, f=firm.text)
            sheet.ask("lookup", "letter.post", job, firm, f=firm.text)
            posts.append((years, job, firm, sheet.sentence(6, 14)))
        sections.append((head, posts))
    return sheet.render("letters/resume", name=name, contact=contact, sections=sections)


def minutes(sheet: PageSheet) -> str:
    """Kept aside: minutes with numbered points, who does what until when."""
    set_up(sheet)
    title = sheet.mark(f"Minutes: {sheet.heading()}")
    sheet.ask_title(title)
    points = []
    for _ in range(1, sheet.between(5, 12)):
        task, who, until = sheet.mark_all(sheet.sentence(2, 4), sheet.fake.name(), sheet.date())
        sheet.ask("lookup", "letter.who", who, task, t=task.text)
        sheet.ask("lookup", "letter.until", until, task, t=task.text)
        points.append((task, sheet.paragraph(1), who, until))
    present = ", ".join(sheet.fake.name() for _ in range(4))
    return sheet.render("letters/minutes", title=title, points=points, present=present)


def notice(sheet: PageSheet) -> str:
    """Kept aside: two columns of text with facts, like a bulletin."""
    set_up(sheet)
    title = sheet.mark(sheet.heading())
    sheet.ask_title(title)
    return sheet.render("letters/notice", title=title, text=telling(sheet, sheet.between(4, 9)))


TRAIN, HELD = layouts(letter, memo, fax, resume), layouts(minutes, notice)
