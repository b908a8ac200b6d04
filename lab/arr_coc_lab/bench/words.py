"""How much of the answers is seen in full detail where the words of a page are known; no model answers.

python -m arr_coc_lab.bench.words --pages PACK …          drawn pages, words as drawn
python -m arr_coc_lab.bench.words --pages PACK … --ocr    the same, words by OCR from the picture
python -m arr_coc_lab.bench.words --pdf 200               drawn PDF pages, words of their text layer
python -m arr_coc_lab.bench.words --data FOLDER           records of real pictures, words by OCR
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from arr_coc.allocation.allocate import allocate
from arr_coc.allocation.tree import tokens_for
from arr_coc.core.errors import InputError
from arr_coc.looking import VIEW_SIDE
from arr_coc.pictures.load import load_picture
from arr_coc.pictures.ocr import ocr_words
from arr_coc.pictures.pdf import pdf_pages
from arr_coc.pictures.words import Words, make_words
from arr_coc.relevance.words.source import words_map

from ..train.options import option, parse
from ..train.run import door
from ..worlds.pages.pack import picture_of, read_pack
from ..worlds.pages.page import DrawnPage
from .real import KEEPS, by_picture, load_records
from .real_measures import coverage
from .real_report import Values

DOCUMENTS = ("funsd", "chartqa")


class Asked(NamedTuple):
    """name: of the page. size: (height, width) in pixels. boxes: (n, 4) of the answer in 0–1."""

    group: str
    name: str
    size: tuple[int, int]
    words: Words
    query: str
    boxes: np.ndarray
    any_of: bool = False


@dataclass(frozen=True, kw_only=True)
class WordsBench:
    """What is measured; each kind that is named."""

    pages: tuple[Path, ...] = option((), "packs of drawn pages")
    ocr: bool = option(False, "read the words of drawn pages by OCR")
    pdf: int = option(0, "so many PDF pages, drawn for this")
    data: Path | None = option(None, "folder with records.jsonl and its pictures")
    limit: int = option(0, "at most so many questions of each source, or pages of all packs, spread evenly")
    strategy: str = option("overlay", "how maps become regions")
    seed: int = option(0, "of the PDF pages")


def drawn_questions(packs: Iterable[Path], limit: int, by_ocr: bool) -> Iterator[Asked]:
    pages = [page for pack in packs for page in read_pack(pack)]
    chosen = np.linspace(0, len(pages) - 1, min(limit or len(pages), len(pages))).round().astype(int)
    for page in (pages[place] for place in chosen):
        size = (page.height, page.width)
        words = ocr_words(picture_of(page)) if by_ocr else make_words(page.words, page.word_boxes, size=size)
        yield from _of_page(page, size, words)


def _of_page(page: DrawnPage, size: tuple[int, int], words: Words) -> Iterator[Asked]:
    extent = np.array([page.width, page.height] * 2, dtype=float)
    for one in page.questions:
        yield Asked(page.family, page.name, size, words, one.text, one.boxes / extent)


def pdf_questions(number: int, seed: int) -> Iterator[Asked]:
    """Pages kept aside from training, printed to PDF by the browser that drew them, and read back."""
    from ..worlds.pages.drawing import Artist, browser, make_page

    with browser() as running, tempfile.TemporaryDirectory() as folder:
        artist, path = Artist(running), Path(folder) / "page.pdf"
        for index in range(number):
            page = make_page(artist, "val", seed, index)
            artist.print(page, path)
            (read,) = pdf_pages(path)
            for one in _of_page(page, read.picture.size, read.words):
                if _inked(read.picture.pixels, one.boxes):
                    yield one


def _inked(pixels: np.ndarray, boxes: np.ndarray) -> bool:
    """Whether something is drawn in every box: what did not fit on the sheet was printed on a second one."""
    rows, cols = pixels.shape[:2]
    places = (boxes * [cols, rows, cols, rows]).astype(int)
    return all(pixels[y0 : y1 + 1, x0 : x1 + 1].std() > 2 for x0, y0, x1, y1 in places)


def real_questions(folder: Path, limit: int) -> Iterator[Asked]:
    for picture, records in by_picture(load_records(folder, limit or None, DOCUMENTS)):
        seen = load_picture(picture, longest_side=VIEW_SIDE)
        words = ocr_words(seen.pixels)
        for one in records:
            yield Asked(one.source, picture.name, seen.size, words, one.query, one.boxes, one.any_of)


def measure(questions: Iterable[Asked], strategy: str = "overlay") -> Values:
    """Coverage at level 0 of every question at every budget, by group; "found" where a hundredth at most is missing."""
    values = Values()
    for one in questions:
        full, found = tokens_for(one.size), words_map(one.words, one.query)
        for keep in KEEPS:
            allocation = allocate(found, max(1, int(keep * full)), strategy=strategy, image_size=one.size)
            share = coverage(allocation, one.boxes, one.any_of)
            for group in (one.group, "all"):
                values.add(group, "coverage", "words", keep, one.name, share)
                values.add(group, "seen whole", "words", keep, one.name, float(share > 0.99))
    return values


def told(values: Values) -> Iterator[str]:
    for group, measure_name, system in dict.fromkeys(key[:3] for key in values.found):
        cells, counts = [], ""
        for keep in KEEPS:
            found = values.estimate((group, measure_name, system, keep))
            if found is not None:
                estimate, number, pages = found
                cells.append(f"{100 * estimate.value:5.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]")
                counts = f"n {number}, {pages} pages"
        yield f"{group:12} {measure_name:10} {'  '.join(cells)}  {counts}"


def main(arguments: Iterable[str] | None = None) -> None:
    given = parse(WordsBench, arguments, __doc__)
    kinds: list[tuple[str, Iterator[Asked]]] = []
    if given.pages:
        kinds.append(("drawn pages", drawn_questions(given.pages, given.limit, given.ocr)))
    if given.pdf:
        kinds.append(("drawn PDF pages", pdf_questions(given.pdf, given.seed)))
    if given.data is not None:
        kinds.append(("real pictures", real_questions(given.data, given.limit)))
    if not kinds:
        raise InputError("nothing to measure: give --pages, --pdf or --data")
    for title, questions in kinds:
        print(f"{title}: % at 1/4, 1/8, 1/16 of the tokens with 95 % intervals over pages")
        print("\n".join(told(measure(questions, given.strategy))))


if __name__ == "__main__":
    door(main)
