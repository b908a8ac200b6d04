"""Letters, memos, fax covers, minutes: running text with facts inside it."""

from __future__ import annotations

from ..sheet import Mark, Sheet
from ..wording import BY_KIND, FIELD, lowered
from .fields import cased, make_fields, pen_for
from .forms import logo, trimmings

STATES = (
    "The {} is {}.",
    "The {} was {}.",
    "Please note that the {} is {}.",
    "Our {}: {}.",
    "As agreed, the {} will be {}.",
    "Their {} now stands at {}.",
    "We recorded {} as the {}.",
)


def telling(sheet: Sheet, facts: int) -> str:
    """Paragraphs in which some sentences carry a fact that can be asked for."""
    out = ""
    for label, kind in [pair for pair in sheet.labels(facts + 14) if pair[1] not in ("text", "yesno", "word")][:facts]:
        name, value = sheet.mark(lowered(label.rstrip("."))), sheet.mark(sheet.value(kind))
        sentence = sheet.random.choice(STATES)
        filled = sentence.format(value, name) if sentence.startswith("We") else sentence.format(name, value)
        out += (
            f'<p class="cut">{sheet.text(sheet.paragraph(sheet.random.randint(0, 2)))} {filled}'
            f" {sheet.text(sheet.paragraph(sheet.random.randint(0, 1)))}</p>"
        )
        sheet.ask(
            "field",
            FIELD[9:] + BY_KIND.get(kind, ()) * 3,
            value,
            (name,),
            L=label.rstrip("."),
            l=lowered(label.rstrip(".")),
        )
    return out


def address(sheet: Sheet, role: str) -> tuple[str, Mark]:
    """Name, firm, street, town on lines of their own, asked for as the sender's or the reader's."""
    name, firm = sheet.mark(sheet.fake.name()), sheet.mark(sheet.fake.company())
    street, town = (
        sheet.mark(sheet.fake.street_address().replace("\n", ", ")),
        sheet.mark(f"{sheet.fake.city()}, {sheet.fake.postcode()}"),
    )
    who = {
        "to": ("To whom is the letter addressed?", "Who is the letter to?", "addressee", "Who receives this?"),
        "from": ("Who wrote the letter?", "Who sent this?", "sender", "Who is it from?"),
    }[role]
    sheet.ask("field", who, name)
    sheet.ask(
        "field",
        ("What is the street address of {n}?", "Where is {n} located?", "address of {n}"),
        street,
        (name,),
        n=name.text,
    )
    sheet.ask(
        "field",
        ("For which company does {n} work?", "Which company stands under {n}?", "company of {n}"),
        firm,
        (name,),
        n=name.text,
    )
    return f"<div>{name}<br>{firm}<br>{street}<br>{town}</div>", name


def set_up(sheet: Sheet, layout: str) -> None:
    sheet.layout = layout
    sheet.manner = sheet.random.choices(("mono", "serif", "sans"), (4, 4, 2))[0]
    sheet.padding, sheet.cropped = sheet.random.randint(30, 90), sheet.chance(0.4)


def closing(sheet: Sheet) -> str:
    name, job = sheet.mark(sheet.fake.name()), sheet.mark(sheet.fake.job().split(",")[0])
    sheet.ask("field", ("Who signed the letter?", "Who signed this?", "signature", "Whose name is at the end?"), name)
    sheet.ask(
        "field", ("What is the title of {n}?", "What is the position of {n}?", "job of {n}"), job, (name,), n=name.text
    )
    scribble = (
        f'<div style="font-family:\'{sheet.face("hand")}\';font-size:2em" class="icon">{sheet.text(name.text)}</div>'
        if sheet.chance(0.6)
        else "<br>"
    )
    return (
        '<div class="cut"'
        ' style="margin-top:1.2em">'
        f"{sheet.pick('Sincerely,', 'Yours faithfully,', 'Best regards,', 'Very truly yours,', 'Kind regards,')}"
        f"{scribble}{name}<br>{job}</div>"
    )


def letter(sheet: Sheet) -> str:
    set_up(sheet, "letter")
    date = sheet.mark(sheet.date())
    sheet.ask(
        "field",
        (
            "What is the date of the letter?",
            "When was the letter written?",
            "date",
            "Date?",
            "What date is on the letter?",
        ),
        date,
    )
    subject = sheet.mark(sheet.heading(), sheet.pick("font-weight:bold", "text-decoration:underline"))
    lead = sheet.mark(sheet.pick("Re:", "Subject:", "RE:"))
    sheet.ask(
        "field", ("What is the subject?", "What is the letter about?", "Re", "subject of the letter"), subject, (lead,)
    )
    to, name = address(sheet, "to")
    firm = (
        f'<div style="text-align:{sheet.pick("center", "left", "right")};margin-bottom:1.5em"><b'
        f' style="font-size:1.4em">{sheet.text(sheet.fake.company())}</b><br>'
        f"{sheet.text(sheet.fake.address().replace(chr(10), ', '))}</div>"
    )
    return (
        f'{firm}<div style="text-align:{sheet.pick("left", "right")};margin:1em 0">{date}</div>{to}<p'
        f' style="margin:1.2em 0">{lead} {subject}</p><p>Dear'
        f" {sheet.text(name.text)},</p>{telling(sheet, sheet.random.randint(2, 8))}{closing(sheet)}{trimmings(sheet)}"
    )


def memo(sheet: Sheet) -> str:
    set_up(sheet, "memo")
    pen = pen_for(sheet)
    title = sheet.mark(
        sheet.pick("MEMORANDUM", "MEMO", "Inter-office memo", "INTEROFFICE CORRESPONDENCE", "Internal note"),
        f"font-size:{sheet.random.uniform(1.2, 2):.1f}em;font-weight:bold;letter-spacing:"
        f"{sheet.random.choice((0, 0, 3))}px",
    )
    sheet.ask_title(title)
    rows = ""
    for label, kind in sheet.random.sample(
        (
            ("To", "name"),
            ("From", "name"),
            ("Date", "date"),
            ("Subject", "text"),
            ("Cc", "name"),
            ("Re", "text"),
            ("Department", "word"),
            ("Copies", "name"),
        ),
        sheet.random.randint(4, 6),
    ):
        lead, value = sheet.mark(cased(label, pen.case) + ":", pen.label), sheet.mark(sheet.value(kind), pen.value)
        sheet.ask_field(label, kind, value, lead)
        rows += f'<tr><td style="padding:3px 18px 3px 0;vertical-align:top">{lead}</td><td>{value}</td></tr>'
    return (
        f'<div style="text-align:{sheet.pick("left", "center")}">{title}</div><table style="margin:14px'
        f' 0">{rows}</table><hr>{telling(sheet, sheet.random.randint(3, 9))}'
        f"{closing(sheet) if sheet.chance(0.3) else ''}{trimmings(sheet)}"
    )


def fax(sheet: Sheet) -> str:
    set_up(sheet, "fax")
    pen = pen_for(sheet)
    title = sheet.mark(
        sheet.pick("FAX", "FAX COVER SHEET", "Facsimile transmission", "TELECOPY", "Telefax"),
        "font-size:2em;font-weight:bold",
    )
    sheet.ask_title(title)
    rows, cells = "", []
    for label, kind in sheet.random.sample(
        (
            ("To", "name"),
            ("From", "name"),
            ("Company", "company"),
            ("Fax number", "phone"),
            ("Phone", "phone"),
            ("Date", "date"),
            ("Time", "time"),
            ("Pages", "int"),
            ("Re", "text"),
            ("Cc", "name"),
            ("Client number", "code"),
            ("Operator", "name"),
        ),
        8,
    ):
        lead, value = (
            sheet.mark(cased(label, pen.case) + pen.separator, pen.label),
            sheet.mark(sheet.value(kind), pen.value),
        )
        sheet.ask_field(label, kind, value, lead)
        cells.append(f'<td style="padding:5px 10px 5px 4px">{lead}</td><td style="padding:5px">{value}</td>')
    k = sheet.random.choice((1, 2))
    rows = "".join("<tr>" + "".join(cells[i : i + k]) + "</tr>" for i in range(0, 8, k))
    small = sheet.text(sheet.paragraph(4))
    return (
        f'<div style="display:flex;align-items:center;gap:20px">{logo(sheet)}{title}</div><table'
        f' style="width:100%;margin:16px 0;border:{sheet.random.choice((0, 1, 2))}px solid'
        f' #000">{rows}</table>{telling(sheet, sheet.random.randint(0, 4))}<p class="cut" style="border:1px solid'
        f' #000;padding:5px;font-size:.8em;margin-top:2em">{small}</p>{trimmings(sheet)}'
    )


def resume(sheet: Sheet) -> str:
    """A person's record: name, contact, posts with years."""
    set_up(sheet, "resume")
    name = sheet.mark(sheet.fake.name(), "font-size:1.9em;font-weight:bold")
    sheet.ask("title", ("Whose record is this?", "What is the name of the person?", "name", "Who applies?"), name)
    parts = [
        f"<div>{name}</div>",
        '<div style="display:flex;gap:20px;margin-bottom:8px">'
        + "".join(f"<div>{f.label} {f.shown}</div>" for f in make_fields(sheet, pen_for(sheet), 3, 0, False))
        + "</div>",
    ]
    for section in sheet.random.sample(
        ("Experience", "Education", "Publications", "Projects", "Awards", "Training"), 4
    ):
        head = sheet.mark(section, f"font-weight:bold;color:{sheet.pick('#000', sheet.hue(20, 40))}")
        parts.append(f'<div class="cut" style="border-bottom:1px solid #666;margin-top:8px">{head}</div>')
        for _ in range(sheet.random.randint(1, 5)):
            start = sheet.random.randint(1970, 2020)
            years, job, firm = (
                sheet.mark(f"{start}-{start + sheet.random.randint(1, 9)}"),
                sheet.mark(sheet.fake.job().split(",")[0], "font-weight:bold"),
                sheet.mark(sheet.fake.company()),
            )
            sheet.ask(
                "lookup",
                ("When did they work at {f}?", "Which years belong to {f}?", "years at {f}"),
                years,
                (firm,),
                f=firm.text,
            )
            sheet.ask(
                "lookup", ("What was the position at {f}?", "What did they do at {f}?"), job, (firm,), f=firm.text
            )
            parts.append(
                '<div class="cut" style="display:flex;gap:14px;margin:4px 0"><div'
                f' style="width:80px">{years}</div><div>{job},'
                f" {firm}<br>{sheet.text(sheet.sentence(6, 14))}</div></div>"
            )
    return "".join(parts)


def minutes(sheet: Sheet) -> str:
    """Kept aside: minutes with numbered points, who does what until when."""
    set_up(sheet, "minutes")
    title = sheet.mark(f"Minutes: {sheet.heading()}", "font-size:1.4em;font-weight:bold")
    sheet.ask_title(title)
    rows = ""
    for number in range(1, sheet.random.randint(5, 12)):
        task, who, until = (
            sheet.mark(sheet.sentence(2, 4), "font-weight:bold"),
            sheet.mark(sheet.fake.name()),
            sheet.mark(sheet.date()),
        )
        sheet.ask(
            "lookup", ("Who takes care of {t}?", "Who is responsible for {t}?", "{t}: who?"), who, (task,), t=task.text
        )
        sheet.ask("lookup", ("Until when is {t} due?", "When must {t} be done?"), until, (task,), t=task.text)
        rows += (
            f'<div class="cut" style="margin:6px 0">{number}. {task}. {sheet.text(sheet.paragraph(1))} <i>{who}</i>, by'
            f" {until}</div>"
        )
    return f"<div>{title}</div><p>Present: {sheet.text(', '.join(sheet.fake.name() for _ in range(4)))}</p>{rows}"


def notice(sheet: Sheet) -> str:
    """Kept aside: two columns of text with facts, like a bulletin."""
    set_up(sheet, "notice")
    title = sheet.mark(sheet.heading(), "font-size:1.8em")
    sheet.ask_title(title)
    return (
        '<div style="text-align:center;border-top:4px solid;border-bottom:1px'
        f' solid;margin-bottom:8px">{title}</div><div'
        f' style="columns:2;column-gap:20px;text-align:justify">{telling(sheet, sheet.random.randint(4, 9))}</div>'
    )


TRAIN = {f.__name__: f for f in (letter, memo, fax, resume)}
HELD = {f.__name__: f for f in (minutes, notice)}
