"""Five kinds of documents: every page names its own thing, labels stand on many pages, questions name no page."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .pdf_writer import PdfSheetWriter

NAMES = """
Aldermoor Brackwell Castleford Dunmere Eastvale Farrow Glenholt Harwick Islington Jarrow Kelmscott Lanwick
Marston Norbury Oakhurst Penrith Quenby Ravensby Selworth Thornby Ulverton Verwood Westbrook Yarnton Ashdown
Birchley Corfield Denholm Elmstead Fernhill Gosford Hexton Ivybridge Kirkdale Longmead Milford Netherby Ormskirk
Penhurst Rushmere Stanmore Tilbrook
""".split()  # noqa: SIM905
PEOPLE = ("Anna Berg", "Tom Hale", "Ines Costa", "Jan Novak", "Mia Lund", "Paul Weiss", "Rosa Diaz", "Karl Ober",
          "Lena Falk", "Omar Said", "Nora Quist", "Ivo Petrov")  # fmt: skip
PROSE = """
the board has reviewed the figures of the period and found them in order as stated in the notes on the total
amount of deliveries the manager reports that costs were kept below the plan while the date of completion was
moved by two weeks payment terms remain as agreed and the customer was told in writing that notice must be given
before the end of the period the value of stock is counted once a year by weight and by number prices include
delivery but no tax unless the order says otherwise the warranty does not cover wear of parts in daily use
""".split()  # noqa: SIM905
THINGS = ("bench", "cabinet", "lamp", "table", "shelf", "chair", "desk", "mirror", "stool", "rack")
WOODS = ("Oak", "Walnut", "Birch", "Maple", "Cherry", "Ash", "Beech", "Pine", "Teak", "Cedar")
LEFT, RIGHT, TOP, BOTTOM = 60, 535, 70, 790


class DocumentQuestion(NamedTuple):
    """page: from 1. answer: as it stands there. label: what names it there, for finding its place."""

    text: str
    answer: str
    page: int
    label: str


class DrawnDocument(NamedTuple):
    """sheets: its pages."""

    name: str
    kind: str
    sheets: list[PdfSheetWriter]
    questions: list[DocumentQuestion]


class DocumentPen:
    """A page that is written from above to below. y: where the next line goes."""

    def __init__(self, rng: random.Random, style: tuple[str, str, float]) -> None:
        self.sheet, self.rng, self.y = PdfSheetWriter(), rng, float(TOP)
        self.plain, self.bold, self.size = style

    def line(self, text: str, x: float = LEFT, *, bold: bool = False, larger: float = 0) -> None:
        self.sheet.text(x, self.y, text, self.size + larger, self.bold if bold else self.plain)

    def down(self, lines: float = 1) -> None:
        self.y += lines * 1.5 * self.size

    def prose(self, lines: int) -> None:
        """Words of no meaning, among them those of labels."""
        for _ in range(lines):
            if self.y > BOTTOM:
                return
            start = self.rng.randrange(len(PROSE))
            wide = 13 if self.plain == "Courier" else 16
            self.line(" ".join(PROSE[(start + step) % len(PROSE)] for step in range(wide)).capitalize())
            self.down()
        self.down(0.6)

    def pair(self, label: str, value: str, gap: float = 170) -> None:
        self.line(label + (":" if self.rng.random() < 0.6 else ""))
        self.line(value, LEFT + gap)
        self.down(1.2)

    def row(self, values: Sequence[str], places: Sequence[float], *, bold: bool = False) -> None:
        for value, x in zip(values, places, strict=True):
            self.line(value, x, bold=bold)
        self.down(1.15)


def style_of(rng: random.Random) -> tuple[str, str, float]:
    family = rng.choice((("Helvetica", "Helvetica-Bold"), ("Times-Roman", "Times-Bold"), ("Courier", "Courier-Bold")))
    return (*family, rng.choice((9.0, 10.0, 11.0)))


def amount(rng: random.Random) -> str:
    return f"{rng.uniform(20, 99000):,.2f}"


def day(rng: random.Random) -> str:
    return f"{rng.randint(1, 28):02d}/{rng.randint(1, 12):02d}/{rng.randint(2015, 2026)}"


def reports(rng: random.Random, number: int) -> tuple[list[DocumentPen], list[DocumentQuestion]]:
    """A page for each site: the same key figures on all of them."""
    style, names = style_of(rng), rng.sample(NAMES, min(number, len(NAMES)))
    labels = ("Revenue", "Operating cost", "Staff at year end", "Site manager", "Date of audit")
    pens, questions = [], []
    for page in range(1, number + 1):
        pen, name = DocumentPen(rng, style), names[(page - 1) % len(names)]
        pen.line(f"Annual report: site {name}" if page <= len(names) else f"Annex {page}", bold=True, larger=5)
        pen.down(2)
        pen.prose(rng.randint(2, 7))
        values = (amount(rng), amount(rng), str(rng.randint(12, 980)), rng.choice(PEOPLE), day(rng))
        for label, value in zip(labels, values, strict=True):
            pen.pair(label, value)
        pen.down()
        pen.prose(rng.randint(6, 20))
        pens.append(pen)
        if page <= len(names):
            place = rng.randrange(len(labels))
            asked = (f"What is the {labels[place].lower()} of the site {name}?",
                     f"Site {name}: what is the {labels[place].lower()}?")  # fmt: skip
            questions.append(DocumentQuestion(rng.choice(asked), values[place], page, labels[place]))
    return pens, questions


def contracts(rng: random.Random, number: int) -> tuple[list[DocumentPen], list[DocumentQuestion]]:
    """Clauses: a few values, each once, whose words stand on other pages too."""
    style = style_of(rng)
    terms = [("Notice period", f"{rng.randint(2, 18)} weeks", "How long is the notice period?"),
             ("Penalty for delay", f"{amount(rng)} EUR", "What is the penalty for delay?"),
             ("Place of jurisdiction", rng.choice(NAMES), "What is the place of jurisdiction?"),
             ("Warranty period", f"{rng.randint(6, 60)} months", "How long is the warranty period?"),
             ("Deposit", f"{amount(rng)} EUR", "How much is the deposit?"),
             ("Commencement date", day(rng), "What is the commencement date?"),
             ("Contract number", f"C-{rng.randint(10000, 99999)}", "What is the contract number?"),
             ("Liability limit", f"{amount(rng)} EUR", "What is the liability limit?")]  # fmt: skip
    rng.shuffle(terms)
    pages = [rng.randint(1, number) for _ in terms]
    pens, questions = [], []
    for page in range(1, number + 1):
        pen = DocumentPen(rng, style)
        pen.line(
            f"Section {page}: {rng.choice(('General terms', 'Delivery', 'Payment', 'Final terms', 'Use'))}",
            bold=True,
            larger=3,
        )
        pen.down(1.8)
        for (label, value, asked), place in zip(terms, pages, strict=True):
            if place == page:
                pen.prose(rng.randint(2, 6))
                if rng.random() < 0.5:
                    pen.pair(label, value)
                else:
                    pen.line(f"{page}.{rng.randint(1, 9)}  {label}: {value}")
                    pen.down(1.4)
                questions.append(DocumentQuestion(asked, value, page, label))
        while pen.y < BOTTOM - 6 * pen.size * 1.5 and rng.random() < 0.85:
            pen.prose(rng.randint(3, 8))
        pens.append(pen)
    return pens, questions


def statements(rng: random.Random, number: int) -> tuple[list[DocumentPen], list[DocumentQuestion]]:
    """An account on each page: rows of bookings, and the same sums under them."""
    style, names = style_of(rng), rng.sample(NAMES, min(number, len(NAMES)))
    pens, questions = [], []
    for page in range(1, number + 1):
        pen, name, account = DocumentPen(rng, style), names[(page - 1) % len(names)], str(rng.randint(100000, 999999))
        pen.line("Statement of account", bold=True, larger=4)
        pen.down(2)
        opened = amount(rng)
        pen.pair("Account holder", name)
        pen.pair("Account number", account)
        pen.pair("Opening balance", opened)
        places = (LEFT, LEFT + 90, LEFT + 330)
        pen.row(("Date", "Booking", "Amount"), places, bold=True)
        pen.sheet.rule(LEFT, pen.y - 10, RIGHT)
        for _ in range(rng.randint(6, 22)):
            pen.row(
                (day(rng), rng.choice(("Rent", "Salary", "Transfer", "Card", "Fee", "Interest")), amount(rng)), places
            )
        closing = amount(rng)
        pen.down(0.6)
        pen.pair("Closing balance", closing, 330)
        pens.append(pen)
        if page <= len(names):
            label, value = rng.choice(
                (("Closing balance", closing), ("Opening balance", opened), ("Account number", account))
            )
            asked = f"What is the {label.lower()} of the account holder {name}?"
            questions.append(DocumentQuestion(asked, value, page, label))
    return pens, questions


def manuals(rng: random.Random, number: int) -> tuple[list[DocumentPen], list[DocumentQuestion]]:
    """A machine on each page, with the same table of data."""
    style = style_of(rng)
    models = rng.sample(
        [f"{letter}{size}" for letter in "ABDKMRTX" for size in (110, 220, 340, 450, 560, 780)], min(number, 48)
    )
    data = (
        ("Weight", lambda: f"{rng.randint(20, 900)} kg"),
        ("Power", lambda: f"{rng.randint(1, 90)} kW"),
        ("Oil capacity", lambda: f"{rng.uniform(1, 40):.1f} l"),
        ("Maximum pressure", lambda: f"{rng.randint(2, 300)} bar"),
        ("Service interval", lambda: f"{rng.randint(100, 5000)} hours"),
    )
    pens, questions = [], []
    for page in range(1, number + 1):
        pen = DocumentPen(rng, style)
        model = models[page - 1] if page <= len(models) else ""
        pen.line(f"Model {model}: operation and data" if model else "Notes on use", bold=True, larger=4)
        pen.down(2)
        pen.prose(rng.randint(4, 14))
        pen.row(("Technical data", "Value"), (LEFT, LEFT + 220), bold=True)
        found = [(label, value()) for label, value in data]
        rng.shuffle(found)
        for pair in found:
            pen.row(pair, (LEFT, LEFT + 220))
        pen.down()
        pen.prose(rng.randint(4, 14))
        pens.append(pen)
        if model:
            label, value = rng.choice(found)
            questions.append(DocumentQuestion(f"What is the {label.lower()} of the model {model}?", value, page, label))
    return pens, questions


def catalogues(rng: random.Random, number: int) -> tuple[list[DocumentPen], list[DocumentQuestion]]:
    """Tables of goods: a row for each, in another order on every page."""
    style = style_of(rng)
    goods = [(wood, thing) for wood in WOODS for thing in THINGS]
    rng.shuffle(goods)
    pens, questions = [], []
    each = max(4, min(16, len(goods) // number))
    for page in range(1, number + 1):
        pen = DocumentPen(rng, style)
        pen.line(f"Catalogue, part {page}", bold=True, larger=4)
        pen.down(2)
        pen.prose(rng.randint(0, 5))
        places = (LEFT, LEFT + 150, LEFT + 260, LEFT + 370)
        pen.row(("Article", "Order no.", "Width", "Price"), places, bold=True)
        pen.sheet.rule(LEFT, pen.y - 10, RIGHT)
        rows = []
        for wood, thing in goods[(page - 1) * each : page * each]:
            row = (
                f"{wood} {thing}",
                f"{rng.randint(1000, 9999)}-{rng.randint(10, 99)}",
                f"{rng.randint(30, 240)} cm",
                amount(rng),
            )
            rows.append(row)
            pen.row(row, places)
        pen.down()
        pen.prose(rng.randint(2, 12))
        pens.append(pen)
        if rows:
            row = rng.choice(rows)
            column = rng.choice((1, 2, 3))
            name = ("", "order number", "width", "price")[column]
            questions.append(
                DocumentQuestion(f"What is the {name} of the {row[0].lower()}?", row[column], page, row[0])
            )
    return pens, questions


KINDS: dict[str, Callable[[random.Random, int], tuple[list[DocumentPen], list[DocumentQuestion]]]] = {
    "reports": reports,
    "contracts": contracts,
    "statements": statements,
    "manuals": manuals,
    "catalogues": catalogues,
}


def make_document(seed: int, index: int, pages: int | None = None, kind: str | None = None) -> DrawnDocument:
    """Document `index` of a seed. pages: 2 to 40 by chance where None."""
    rng = random.Random(f"documents {seed} {index}")
    kind = kind or list(KINDS)[index % len(KINDS)]
    pens, questions = KINDS[kind](rng, pages or rng.randint(2, 40))
    rng.shuffle(questions)
    return DrawnDocument(f"{kind}-{seed}-{index:04d}", kind, [pen.sheet for pen in pens], questions)
