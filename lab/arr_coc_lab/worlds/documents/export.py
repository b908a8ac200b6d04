"""Drawn documents on disk: PDFs with text layer or as scans, and records of their questions with pages and boxes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.files import check_folder, write_text
from arr_coc.pictures.document import Document
from arr_coc.pictures.words import Words

from .makers import DocumentQuestion, DrawnDocument, make_document
from .pdf_writer import PdfSheetWriter, write_pdf

# Of a scan: its longer side in pixels, and its noise.
SCAN_SIDE, NOISE = 1400, 6.0


def document_questions(
    folder: Path, seed: int, index: int, pages: int | None = None
) -> tuple[Path, DrawnDocument, list[tuple[DocumentQuestion, np.ndarray]]]:
    """Document `index` written to a folder; its questions, each with (K, 4) boxes of the answer in 0–1."""
    drawn = make_document(seed, index, pages)
    path = write_pdf(folder / f"{drawn.name}.pdf", drawn.sheets)
    document = Document.of(path)
    found = []
    for question in drawn.questions:
        words = document.pages[question.page - 1].words
        boxes = None if words is None else answer_boxes(words, question)
        if boxes is not None:
            found.append((question, boxes))
    return path, drawn, found


def answer_boxes(words: Words, question: DocumentQuestion) -> np.ndarray | None:
    """(K, 4) boxes of the answer's words: of several places the one nearest to its label, which stands on its line."""
    wanted, label = question.answer.split(), question.label.split()[0]
    starts = [
        place
        for place in range(len(words) - len(wanted) + 1)
        if [text.strip(":") for text in words.texts[place : place + len(wanted)]] == wanted
    ]
    lines = [words.boxes[place, 1] for place, text in enumerate(words.texts) if text.startswith(label)]
    if not starts or not lines:
        return None
    best = min(starts, key=lambda place: min(abs(float(words.boxes[place, 1]) - float(line)) for line in lines))
    boxes = words.boxes[best : best + len(wanted)]
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


def write_documents(out: Path, number: int, seed: int = 0, *, words: bool = True) -> dict[str, object]:
    """Documents 0 … number - 1 of a seed, 2 to 40 pages each.

    Args:
        out: Folder of the PDFs and of records.jsonl, which comes last.
        number: How many.
        seed: The same one gives the same documents.
        words: With a text layer; without, every page is a scan.

    Returns:
        What was written.
    """
    if number < 1:
        raise InputError(f"--n {number} makes no document; give at least 1")
    check_folder(out)
    (out / "records.jsonl").unlink(missing_ok=True)
    lines, pages = [], 0
    for index in range(number):
        path, drawn, questions = document_questions(out, seed, index)
        pages += len(drawn.sheets)
        if not words:
            pages_as_scans = scanned(Document.of(path), seed + index)
            write_pdf(path, [_scan(page.draw(SCAN_SIDE).pixels) for page in pages_as_scans])
        for place, (question, boxes) in enumerate(questions):
            record = {
                "id": f"{drawn.name}-{place:02d}",
                "source": f"documents/{drawn.kind}",
                "file": path.name,
                "pages": len(drawn.sheets),
                "page": question.page,
                "query": question.text,
                "answer": question.answer,
                "boxes": np.round(boxes, 5).tolist(),
                "words": words,
            }
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    write_text(out / "records.jsonl", "".join(lines))
    return {"out": str(out), "documents": number, "pages": pages, "questions": len(lines)}


def _scan(pixels: np.ndarray) -> PdfSheetWriter:
    sheet = PdfSheetWriter()
    sheet.picture(pixels)
    return sheet
