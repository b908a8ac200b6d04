"""Office World on disk: pictures, their words beside them, and records of what is asked; documents for `bench real`.

A document has 2 to 40 pages of three layouts, so the same labels stand on many pages. Each page has a running head, and
a question names the head of its page, never its number.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from arr_coc.core.errors import InputError
from arr_coc.core.folders import replacing, write_json

from ..needle.export import begin, contact_sheet, record, rounded, write_records
from ..words import Writer
from .paper import worn
from .world import SPLITS, Page, layout_names, make_page, side_by_side

SHOWN = 24
FEWEST, MOST = 2, 40  # pages of a document


def write_words(page: Page, path: Path) -> None:
    """Write the words of a page beside its picture."""
    words = zip(page.words.texts, rounded(page.words.boxes), strict=True)
    write_json(path.with_suffix(".words.json"), {"words": [{"text": text, "box": box} for text, box in words]})


def write_picture(pixels: np.ndarray, path: Path) -> None:
    with replacing(path) as draft:
        Image.fromarray(pixels).save(draft)


# ---- Single pages ----------------------------------------------------------------------------------------------------


def page_records(split: str, seed: int, folder: Path, number: int) -> list[dict[str, object]]:
    """Write a page under `folder`; return a record for each of its questions."""
    page = make_page(split, seed, number)
    name, pixels = f"{page.layout}-{split}-{seed}-{number:06d}", page.pixels()
    write_picture(pixels, folder / f"img/{name}.png")
    write_words(page, folder / f"img/{name}.png")
    about = record(name, f"pages/{page.layout}", f"img/{name}.png", (pixels.shape[1], pixels.shape[0]))
    return [
        about
        | {"id": f"{name}-{place:02d}", "words": f"img/{name}.words.json"}
        | {"query": asked.text, "answer": asked.answer.text, "qtype": asked.kind}
        | {"boxes": rounded(page.boxes(asked.answer)), "ctx_boxes": rounded(page.boxes(*asked.named))}
        for place, asked in enumerate(page.questions)
    ]


def write_pages(
    out: Path,
    n: int,
    seed: int = 0,
    split: str = "train",
    layouts: tuple[str, ...] = (),
    workers: int = 1,
    advance: Callable[[int], object] = lambda done: None,
) -> dict[str, object]:
    """Write n pages of these layouts (of all where none is named): img, records.jsonl and contact_sheet.png."""
    if n < 1:
        raise InputError(f"--n {n} draws nothing; give at least 1")
    if split not in SPLITS:
        raise InputError(f"--split {split!r} is unknown; take one of {', '.join(SPLITS)}")
    names = layout_names(split)
    if unknown := [name for name in layouts if name not in names]:
        raise InputError(f"--layouts {unknown[0]!r} is unknown; take some of {', '.join(names)}")
    numbers = islice((number for number in count() if not layouts or names[number % len(names)] in layouts), n)
    records: list[dict[str, object]] = []
    begin(out)
    shown: list[dict[str, object]] = []
    for asked in side_by_side(partial(page_records, split, seed, out), numbers, workers):
        records += asked
        shown += asked[:1]
        advance(1)
    write_records(out, records)
    with replacing(out / "contact_sheet.png") as path:
        sheet_of(out, shown[:SHOWN]).save(path)
    return {"out": str(out), "pages": n, "questions": len(records)}


def sheet_of(folder: Path, records: list[dict[str, object]]) -> Image.Image:
    """Draw pages with the boxes of a question: the answer red, the words that name it blue."""
    tiles = []
    for one in records:
        image = Image.open(folder / str(one["image"])).convert("RGB")
        pen = ImageDraw.Draw(image)
        for name, colour in (("ctx_boxes", "#06c"), ("boxes", "#d00")):
            for box in (np.array(one[name]).reshape(-1, 4) * np.array(image.size * 2)).tolist():
                pen.rectangle(box, outline=colour, width=3)
        tiles.append(ImageOps.pad(image, (640, 640), color="#888"))
    return contact_sheet(tiles, [f"{one['query']}\n{one['answer']}" for one in records])


# ---- Documents -------------------------------------------------------------------------------------------------------


class DocumentQuestion(NamedTuple):
    """page: from 1. boxes: (K, 4) in 0–1, of the answer there. layout: of the page."""

    text: str
    answer: str
    page: int
    boxes: np.ndarray
    layout: str


def write_document(
    folder: Path, seed: int, index: int, pages: int | None = None, *, scanned: bool = False
) -> list[DocumentQuestion]:
    """Write document `index` of a seed as a folder of pictures, with their words unless scanned; return what is asked.

    pages: 2 to 40 by chance where None.
    """
    source, names = random.Random(f"documents {seed} {index}"), layout_names("val")
    number = pages or source.randint(FEWEST, MOST)
    heads, kinds = Writer(source).distinct(Writer(source).company, number), source.sample(range(len(names)), 3)
    questions = []
    for place, head in enumerate(heads):
        page = make_page("val", seed, kinds[place % 3] + len(names) * (MOST * index + place), head)
        path, pixels = folder / f"page-{place + 1:02d}.png", page.pixels()
        write_picture(worn(pixels, source) if scanned else pixels, path)
        if not scanned:
            write_words(page, path)
        for asked in page.questions:
            text = source.choice(("{head}: {text}", "{text} ({head})")).format(head=head, text=asked.text)
            boxes = page.boxes(asked.answer)
            questions.append(DocumentQuestion(text, asked.answer.text, place + 1, boxes, page.layout))
    source.shuffle(questions)
    return questions
