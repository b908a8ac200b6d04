"""Five kinds of documents: every page names its own thing, labels stand on many pages, questions name no page."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..word_lists import lists_of
from .pdf_writer import PdfSheetWriter

words = lists_of(Path(__file__).parent / "data" / "words.toml")
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

    def title(self, text: str, larger: float = 4, lines: float = 2) -> None:
        self.line(text, bold=True, larger=larger)
        self.down(lines)

    def prose(self, lines: int) -> None:
        """Words of no meaning, among them those of labels."""
        known = words("prose")
        for _ in range(lines):
            if self.y > BOTTOM:
                return
            start = self.rng.randrange(len(known))
            wide = 13 if self.plain == "Courier" else 16
            self.line(" ".join(known[(start + step) % len(known)] for step in range(wide)).capitalize())
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

    def head(self, values: Sequence[str], places: Sequence[float]) -> None:
        """A row above a rule."""
        self.row(values, places, bold=True)
        self.sheet.rule(LEFT, self.y - 10, RIGHT)


def style_of(rng: random.Random) -> tuple[str, str, float]:
    family = rng.choice((("Helvetica", "Helvetica-Bold"), ("Times-Roman", "Times-Bold"), ("Courier", "Courier-Bold")))
    return (*family, rng.choice((9.0, 10.0, 11.0)))


def amount(rng: random.Random) -> str:
    return f"{rng.uniform(20, 99000):,.2f}"


def day(rng: random.Random) -> str:
    return f"{rng.randint(1, 28):02d}/{rng.randint(1, 12):02d}/{rng.randint(2015, 2026)}"


# Writes a page, from 1, and says what is asked about it.
WritePage = Callable[[DocumentPen, int], list[DocumentQuestion]]


def some_names(rng: random.Random, number: int) -> list[str]:
    """A name for each page, as far as there are names."""
    return rng.sample(words("names"), min(number, len(words("names"))))


def reports(rng: random.Random, number: int) -> WritePage:
    """A page for each site: the same key figures on all of them."""
    names = some_names(rng, number)
    labels = ("Revenue", "Operating cost", "Staff at year end", "Site manager", "Date of audit")

    def write(pen: DocumentPen, page: int) -> list[DocumentQuestion]:
        name = names[(page - 1) % len(names)]
        pen.title(f"Annual report: site {name}" if page <= len(names) else f"Annex {page}", 5)
        pen.prose(rng.randint(2, 7))
        values = (amount(rng), amount(rng), str(rng.randint(12, 980)), rng.choice(words("people")), day(rng))
        for label, value in zip(labels, values, strict=True):
            pen.pair(label, value)
        pen.down()
        pen.prose(rng.randint(6, 20))
        if page > len(names):
            return []
        place = rng.randrange(len(labels))
        what = labels[place].lower()
        asked = f"What is the {what} of the site {name}?", f"Site {name}: what is the {what}?"
        return [DocumentQuestion(rng.choice(asked), values[place], page, labels[place])]

    return write


def contracts(rng: random.Random, number: int) -> WritePage:
    """Clauses: a few values, each once, whose words stand on other pages too."""
    terms = [("Notice period", f"{rng.randint(2, 18)} weeks", "How long is the notice period?"),
             ("Penalty for delay", f"{amount(rng)} EUR", "What is the penalty for delay?"),
             ("Place of jurisdiction", rng.choice(words("names")), "What is the place of jurisdiction?"),
             ("Warranty period", f"{rng.randint(6, 60)} months", "How long is the warranty period?"),
             ("Deposit", f"{amount(rng)} EUR", "How much is the deposit?"),
             ("Commencement date", day(rng), "What is the commencement date?"),
             ("Contract number", f"C-{rng.randint(10000, 99999)}", "What is the contract number?"),
             ("Liability limit", f"{amount(rng)} EUR", "What is the liability limit?")]  # fmt: skip
    rng.shuffle(terms)
    pages = [rng.randint(1, number) for _ in terms]

    def write(pen: DocumentPen, page: int) -> list[DocumentQuestion]:
        questions = []
        about = rng.choice(("General terms", "Delivery", "Payment", "Final terms", "Use"))
        pen.title(f"Section {page}: {about}", 3, 1.8)
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
        return questions

    return write


def statements(rng: random.Random, number: int) -> WritePage:
    """An account on each page: rows of bookings, and the same sums under them."""
    names, places = some_names(rng, number), (LEFT, LEFT + 90, LEFT + 330)

    def write(pen: DocumentPen, page: int) -> list[DocumentQuestion]:
        name, account = names[(page - 1) % len(names)], str(rng.randint(100000, 999999))
        pen.title("Statement of account")
        opened = amount(rng)
        pen.pair("Account holder", name)
        pen.pair("Account number", account)
        pen.pair("Opening balance", opened)
        pen.head(("Date", "Booking", "Amount"), places)
        for _ in range(rng.randint(6, 22)):
            kind = ("Rent", "Salary", "Transfer", "Card", "Fee", "Interest")
            pen.row((day(rng), rng.choice(kind), amount(rng)), places)
        closing = amount(rng)
        pen.down(0.6)
        pen.pair("Closing balance", closing, 330)
        if page > len(names):
            return []
        known = (("Closing balance", closing), ("Opening balance", opened), ("Account number", account))
        label, value = rng.choice(known)
        return [DocumentQuestion(f"What is the {label.lower()} of the account holder {name}?", value, page, label)]

    return write


def manuals(rng: random.Random, number: int) -> WritePage:
    """A machine on each page, with the same table of data."""
    known = [f"{letter}{size}" for letter in "ABDKMRTX" for size in (110, 220, 340, 450, 560, 780)]
    models, places = rng.sample(known, min(number, len(known))), (LEFT, LEFT + 220)

    def write(pen: DocumentPen, page: int) -> list[DocumentQuestion]:
        model = models[page - 1] if page <= len(models) else ""
        pen.title(f"Model {model}: operation and data" if model else "Notes on use")
        pen.prose(rng.randint(4, 14))
        pen.row(("Technical data", "Value"), places, bold=True)
        found = [
            ("Weight", f"{rng.randint(20, 900)} kg"),
            ("Power", f"{rng.randint(1, 90)} kW"),
            ("Oil capacity", f"{rng.uniform(1, 40):.1f} l"),
            ("Maximum pressure", f"{rng.randint(2, 300)} bar"),
            ("Service interval", f"{rng.randint(100, 5000)} hours"),
        ]
        rng.shuffle(found)
        for pair in found:
            pen.row(pair, places)
        pen.down()
        pen.prose(rng.randint(4, 14))
        if not model:
            return []
        label, value = rng.choice(found)
        return [DocumentQuestion(f"What is the {label.lower()} of the model {model}?", value, page, label)]

    return write


def catalogues(rng: random.Random, number: int) -> WritePage:
    """Tables of goods: a row for each, in another order on every page."""
    goods = [(wood, thing) for wood in words("woods") for thing in words("things")]
    rng.shuffle(goods)
    each, places = max(4, min(16, len(goods) // number)), (LEFT, LEFT + 150, LEFT + 260, LEFT + 370)

    def write(pen: DocumentPen, page: int) -> list[DocumentQuestion]:
        pen.title(f"Catalogue, part {page}")
        pen.prose(rng.randint(0, 5))
        pen.head(("Article", "Order no.", "Width", "Price"), places)
        rows = []
        for wood, thing in goods[(page - 1) * each : page * each]:
            number, width = f"{rng.randint(1000, 9999)}-{rng.randint(10, 99)}", f"{rng.randint(30, 240)} cm"
            rows.append((f"{wood} {thing}", number, width, amount(rng)))
            pen.row(rows[-1], places)
        pen.down()
        pen.prose(rng.randint(2, 12))
        if not rows:
            return []
        row, column = rng.choice(rows), rng.choice((1, 2, 3))
        name = ("", "order number", "width", "price")[column]
        return [DocumentQuestion(f"What is the {name} of the {row[0].lower()}?", row[column], page, row[0])]

    return write


KINDS: dict[str, Callable[[random.Random, int], WritePage]] = {
    make.__name__: make for make in (reports, contracts, statements, manuals, catalogues)
}


def make_document(seed: int, index: int, pages: int | None = None, kind: str | None = None) -> DrawnDocument:
    """Document `index` of a seed. pages: 2 to 40 by chance where None."""
    rng = random.Random(f"documents {seed} {index}")
    kind = kind or list(KINDS)[index % len(KINDS)]
    number = pages or rng.randint(2, 40)
    style = style_of(rng)
    write, questions = KINDS[kind](rng, number), []
    pens = [DocumentPen(rng, style) for _ in range(number)]
    for page, pen in enumerate(pens, 1):
        questions += write(pen, page)
    rng.shuffle(questions)
    return DrawnDocument(f"{kind}-{seed}-{index:04d}", kind, [pen.sheet for pen in pens], questions)
