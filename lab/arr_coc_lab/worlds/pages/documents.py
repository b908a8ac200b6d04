"""Documents of 2 to 40 pages as PDFs: the same labels stand on many pages, and questions name no page.

Written without a browser. `write_documents` writes a folder, `document_questions` one document with its questions.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from arr_coc.core.errors import InputError
from arr_coc.core.folders import replacing, write_text
from arr_coc.core.runs import check_folder
from arr_coc.pictures.document import Document
from arr_coc.pictures.words import Words

from ..words import lists_of

words = lists_of(Path(__file__).with_name("data") / "documents.toml")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 595, 842, 60, 535, 70, 790  # in points, from the upper left corner
FONTS = ("Helvetica", "Helvetica-Bold", "Times-Roman", "Times-Bold", "Courier", "Courier-Bold")
SCAN_SIDE, NOISE = 1400, 6.0  # of a scan: its longer side in pixels, and its noise


class DocumentQuestion(NamedTuple):
    """page: from 1. answer: as it stands there. label: what names it there, for finding its place."""

    text: str
    answer: str
    page: int
    label: str


class DrawnDocument(NamedTuple):
    """sheets: the PDF commands of each page."""

    name: str
    kind: str
    sheets: list[list[str]]
    questions: list[DocumentQuestion]


class DocumentPen:
    """Writes a page from top to bottom. marks: its PDF commands. y: where the next line goes."""

    def __init__(self, rng: random.Random, font: int, size: float) -> None:
        self.rng, self.font, self.size = rng, font, size
        self.marks: list[str] = []
        self.y = float(TOP)

    def line(self, text: str, x: float = LEFT, *, bold: bool = False, larger: float = 0) -> None:
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        font, place = f"/F{self.font + bold} {self.size + larger:g} Tf", f"{x:.1f} {HEIGHT - self.y:.1f} Tm"
        self.marks.append(f"BT {font} 1 0 0 1 {place} ({escaped}) Tj ET")

    def down(self, lines: float = 1) -> None:
        self.y += lines * 1.5 * self.size

    def title(self, text: str, larger: float = 4, lines: float = 2) -> None:
        self.line(text, bold=True, larger=larger)
        self.down(lines)

    def prose(self, low: int, high: int) -> None:
        """Write lines of words without meaning, among them those of labels."""
        known = words("prose")
        for _ in range(self.rng.randint(low, high)):
            if self.y > BOTTOM:
                return
            start, wide = self.rng.randrange(len(known)), 13 if FONTS[self.font] == "Courier" else 16
            self.line(" ".join(known[(start + step) % len(known)] for step in range(wide)).capitalize())
            self.down()
        self.down(0.6)

    def pair(self, label: str, value: str, gap: float = 170) -> None:
        self.line(label + (":" if self.rng.random() < 0.6 else ""))
        self.line(value, LEFT + gap)
        self.down(1.2)

    def row(self, values: Sequence[str], places: Sequence[float], *, bold: bool = False, ruled: bool = False) -> None:
        for value, x in zip(values, places, strict=True):
            self.line(value, x, bold=bold)
        self.down(1.15)
        if ruled:
            y = HEIGHT - self.y + 10
            self.marks.append(f"0.5 w {LEFT:.1f} {y:.1f} m {RIGHT:.1f} {y:.1f} l S")

    def amount(self) -> str:
        return f"{self.rng.uniform(20, 99000):,.2f}"

    def day(self) -> str:
        return f"{self.rng.randint(1, 28):02d}/{self.rng.randint(1, 12):02d}/{self.rng.randint(2015, 2026)}"


Questions = Iterator[DocumentQuestion]


def some_names(rng: random.Random, number: int) -> list[str]:
    """A name for each page, as far as there are names."""
    return rng.sample(words("names"), min(number, len(words("names"))))


def reports(rng: random.Random, pens: list[DocumentPen]) -> Questions:
    """A page for each site: the same key figures on all of them."""
    names, labels = some_names(rng, len(pens)), words("reports")
    for page, pen in enumerate(pens, 1):
        name = names[(page - 1) % len(names)]
        pen.title(f"Annual report: site {name}" if page <= len(names) else f"Annex {page}", 5)
        pen.prose(2, 7)
        values = (pen.amount(), pen.amount(), str(rng.randint(12, 980)), rng.choice(words("people")), pen.day())
        for label, value in zip(labels, values, strict=True):
            pen.pair(label, value)
        pen.down()
        pen.prose(6, 20)
        if page <= len(names):
            place = rng.randrange(len(labels))
            what = labels[place].lower()
            asked = rng.choice((f"What is the {what} of the site {name}?", f"Site {name}: what is the {what}?"))
            yield DocumentQuestion(asked, values[place], page, labels[place])


def contracts(rng: random.Random, pens: list[DocumentPen]) -> Questions:
    """Clauses: a few values, each once, whose words stand on other pages too."""
    pen = pens[0]
    values = [f"{rng.randint(2, 18)} weeks", f"{pen.amount()} EUR", rng.choice(words("names"))]
    values += [f"{rng.randint(6, 60)} months", f"{pen.amount()} EUR", pen.day()]
    values += [f"C-{rng.randint(10000, 99999)}", f"{pen.amount()} EUR"]
    terms = list(zip(words("contracts"), values, strict=True))
    rng.shuffle(terms)
    pages = [rng.randint(1, len(pens)) for _ in terms]
    for page, pen in enumerate(pens, 1):
        pen.title(f"Section {page}: {rng.choice(words('clauses'))}", 3, 1.8)
        for (asked, value), place in zip(terms, pages, strict=True):
            if place != page:
                continue
            label = asked.split(" the ")[1].rstrip("?").capitalize()
            pen.prose(2, 6)
            if rng.random() < 0.5:
                pen.pair(label, value)
            else:
                pen.line(f"{page}.{rng.randint(1, 9)}  {label}: {value}")
                pen.down(1.4)
            yield DocumentQuestion(asked, value, page, label)
        while pen.y < BOTTOM - 6 * pen.size * 1.5 and rng.random() < 0.85:
            pen.prose(3, 8)


def statements(rng: random.Random, pens: list[DocumentPen]) -> Questions:
    """An account on each page: rows of bookings, and the same sums under them."""
    names, places = some_names(rng, len(pens)), (LEFT, LEFT + 90, LEFT + 330)
    for page, pen in enumerate(pens, 1):
        name, account = names[(page - 1) % len(names)], str(rng.randint(100000, 999999))
        pen.title("Statement of account")
        opened = pen.amount()
        for label, value in (("Account holder", name), ("Account number", account), ("Opening balance", opened)):
            pen.pair(label, value)
        pen.row(("Date", "Booking", "Amount"), places, bold=True, ruled=True)
        for _ in range(rng.randint(6, 22)):
            pen.row((pen.day(), rng.choice(words("bookings")), pen.amount()), places)
        closing = pen.amount()
        pen.down(0.6)
        pen.pair("Closing balance", closing, 330)
        if page <= len(names):
            known = (("Closing balance", closing), ("Opening balance", opened), ("Account number", account))
            label, value = rng.choice(known)
            yield DocumentQuestion(f"What is the {label.lower()} of the account holder {name}?", value, page, label)


def manuals(rng: random.Random, pens: list[DocumentPen]) -> Questions:
    """A machine on each page, with the same table of data."""
    known = [f"{letter}{size}" for letter in "ABDKMRTX" for size in (110, 220, 340, 450, 560, 780)]
    models, places = rng.sample(known, min(len(pens), len(known))), (LEFT, LEFT + 220)
    for page, pen in enumerate(pens, 1):
        model = models[page - 1] if page <= len(models) else ""
        pen.title(f"Model {model}: operation and data" if model else "Notes on use")
        pen.prose(4, 14)
        pen.row(("Technical data", "Value"), places, bold=True)
        values = [f"{rng.randint(20, 900)} kg", f"{rng.randint(1, 90)} kW", f"{rng.uniform(1, 40):.1f} l"]
        values += [f"{rng.randint(2, 300)} bar", f"{rng.randint(100, 5000)} hours"]
        facts = list(zip(words("manuals"), values, strict=True))
        rng.shuffle(facts)
        for pair in facts:
            pen.row(pair, places)
        pen.down()
        pen.prose(4, 14)
        if model:
            label, value = rng.choice(facts)
            yield DocumentQuestion(f"What is the {label.lower()} of the model {model}?", value, page, label)


def catalogues(rng: random.Random, pens: list[DocumentPen]) -> Questions:
    """Tables of goods: a row for each, in another order on every page."""
    goods = [(wood, thing) for wood in words("woods") for thing in words("things")]
    rng.shuffle(goods)
    each, places = max(4, min(16, len(goods) // len(pens))), (LEFT, LEFT + 150, LEFT + 260, LEFT + 370)
    for page, pen in enumerate(pens, 1):
        pen.title(f"Catalogue, part {page}")
        pen.prose(0, 5)
        pen.row(("Article", "Order no.", "Width", "Price"), places, bold=True, ruled=True)
        rows = []
        for wood, thing in goods[(page - 1) * each : page * each]:
            number, width = f"{rng.randint(1000, 9999)}-{rng.randint(10, 99)}", f"{rng.randint(30, 240)} cm"
            rows.append((f"{wood} {thing}", number, width, pen.amount()))
            pen.row(rows[-1], places)
        pen.down()
        pen.prose(2, 12)
        if rows:
            row, column = rng.choice(rows), rng.choice((1, 2, 3))
            name = ("", "order number", "width", "price")[column]
            yield DocumentQuestion(f"What is the {name} of the {row[0].lower()}?", row[column], page, row[0])


KINDS: dict[str, Callable[[random.Random, list[DocumentPen]], Questions]] = {
    make.__name__: make for make in (reports, contracts, statements, manuals, catalogues)
}


def make_document(seed: int, index: int, pages: int | None = None) -> DrawnDocument:
    """Draw document `index` of a seed. pages: 2 to 40 by chance where None."""
    rng = random.Random(f"documents {seed} {index}")
    kind = list(KINDS)[index % len(KINDS)]
    number = pages or rng.randint(2, 40)
    font, size = rng.choice((0, 2, 4)), rng.choice((9.0, 10.0, 11.0))
    pens = [DocumentPen(rng, font, size) for _ in range(number)]
    questions = list(KINDS[kind](rng, pens))
    rng.shuffle(questions)
    return DrawnDocument(f"{kind}-{seed}-{index:04d}", kind, [pen.marks for pen in pens], questions)


# ---- On disk ---------------------------------------------------------------------------------------------------------


def document_questions(
    folder: Path, seed: int, index: int, pages: int | None = None
) -> tuple[Path, DrawnDocument, list[tuple[DocumentQuestion, np.ndarray]]]:
    """Write document `index` to a folder; its questions, each with (1, 4) box of the answer in 0–1."""
    drawn = make_document(seed, index, pages)
    path = write_pdf(folder / f"{drawn.name}.pdf", drawn.sheets)
    document = Document.of(path)
    found = []
    for question in drawn.questions:
        known = document.pages[question.page - 1].words
        box = None if known is None else answer_box(known, question)
        if box is not None:
            found.append((question, box))
    return path, drawn, found


def answer_box(known: Words, question: DocumentQuestion) -> np.ndarray | None:
    """(1, 4) box of the answer's words: of several places the one nearest to its label, which stands on its line."""
    wanted, label = question.answer.split(), question.label.split()[0]
    texts = [text.strip(":") for text in known.texts]
    starts = [place for place in range(len(texts)) if texts[place : place + len(wanted)] == wanted]
    lines = [known.boxes[place, 1] for place, text in enumerate(known.texts) if text.startswith(label)]
    if not starts or not lines:
        return None
    best = min(starts, key=lambda place: min(abs(float(known.boxes[place, 1]) - float(line)) for line in lines))
    boxes = known.boxes[best : best + len(wanted)]
    return np.concatenate([boxes[:, :2].min(0), boxes[:, 2:].max(0)])[None].astype(np.float64)


def scanned(document: Document, seed: int = 0) -> Document:
    """The same pages as a scanner gives them: a little noise, no text layer. Boxes stay where they are."""
    rng = np.random.default_rng(seed)
    pages = []
    for page in document:
        pixels = page.draw().pixels.astype(np.float32)
        pixels = pixels * rng.uniform(0.9, 1.0) + rng.normal(0, NOISE, pixels.shape[:2])[..., None]
        pages.append(np.clip(pixels, 0, 255).astype(np.uint8))
    return Document.of(pages)


def write_documents(out: Path, number: int, seed: int = 0, *, text: bool = True) -> dict[str, object]:
    """Write documents 0 … number - 1 of a seed, and records.jsonl, which comes last; returns what was written.

    text: with a text layer; without, every page is a scan.
    """
    if number < 1:
        raise InputError(f"--n {number} makes no document; give at least 1")
    check_folder(out)
    (out / "records.jsonl").unlink(missing_ok=True)
    lines, pages = [], 0
    for index in range(number):
        path, drawn, questions = document_questions(out, seed, index)
        pages += len(drawn.sheets)
        if not text:
            sheets = scanned(Document.of(path), seed + index)
            pictures = [Image.fromarray(page.draw(SCAN_SIDE).pixels).convert("L") for page in sheets]
            with replacing(path) as draft:
                pictures[0].save(draft, "PDF", save_all=True, append_images=pictures[1:], resolution=120, quality=70)
        about = {"source": f"documents/{drawn.kind}", "file": path.name, "pages": len(drawn.sheets)}
        for place, (one, box) in enumerate(questions):
            asked = {"page": one.page, "query": one.text, "answer": one.answer, "boxes": np.round(box, 5).tolist()}
            record = {"id": f"{drawn.name}-{place:02d}", **about, **asked, "words": text}
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    write_text(out / "records.jsonl", "".join(lines))
    return {"out": str(out), "documents": number, "pages": pages, "questions": len(lines)}


def write_pdf(path: Path, sheets: Sequence[Sequence[str]]) -> Path:
    """Write pages of PDF commands as one file."""
    fonts = " ".join(f"/F{number} {3 + number} 0 R" for number in range(len(FONTS)))
    first = 3 + len(FONTS)  # a page and its content take two numbers
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(sheets)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(sheets)} >>"]
    objects += [f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>" for name in FONTS]
    for number, marks in enumerate(sheets):
        stream, box = "\n".join(marks), f"/MediaBox [0 0 {WIDTH} {HEIGHT}]"
        content = f"/Contents {first + 2 * number + 1} 0 R /Resources << /Font << {fonts} >> >>"
        objects += [f"<< /Type /Page /Parent 2 0 R {box} {content} >>"]
        objects += [f"<< /Length {len(stream.encode('latin-1'))} >>\nstream\n{stream}\nendstream"]
    raw, places = io.BytesIO(), []
    raw.write(b"%PDF-1.4\n")
    for number, body in enumerate(objects, 1):
        places.append(raw.tell())
        raw.write(f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1"))
    table, start = "".join(f"{place:010d} 00000 n \n" for place in places), raw.tell()
    size = len(objects) + 1
    raw.write(f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>\n".encode())
    raw.write(f"startxref\n{start}\n%%EOF\n".encode())
    with replacing(path) as draft:
        draft.write_bytes(raw.getvalue())
    return path
