"""`bench words`: how much of the answers is seen in full detail where the words of a page are known."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from arr_coc.knowing.words.source import words_map

from arr_coc.attending.allocate import allocate
from arr_coc.core.errors import InputError
from arr_coc.looking import VIEW_SIDE
from arr_coc.packing.prices.counting import tokens_for
from arr_coc.pictures.load import load_picture
from arr_coc.pictures.ocr import ocr_words
from arr_coc.pictures.pdf import pdf_pages
from arr_coc.pictures.words import Words, make_words

from ..train.run import door
from ..worlds.pages.pack import picture_of, read_pack
from ..worlds.pages.page import DrawnPage
from .options import WordsBenchOptions
from .real import KEEPS, MeasuredValues, by_picture, coverage, load_records
from .report import Report
from .run import BenchRun, program

DOCUMENTS = ("funsd", "chartqa")


class BenchWordQuestion(NamedTuple):
    """name: of the page. size: (height, width) in pixels. boxes: (n, 4) of the answer in 0–1."""

    group: str
    name: str
    size: tuple[int, int]
    words: Words
    query: str
    boxes: np.ndarray
    any_of: bool = False


def measure(options: WordsBenchOptions, run: BenchRun) -> Report:
    """Each kind of page that is named."""
    kinds: dict[str, Iterator[BenchWordQuestion]] = {}
    if options.pages:
        kinds["drawn pages"] = drawn_questions(options.pages, options.limit, options.ocr)
    if options.pdf:
        kinds["drawn PDF pages"] = pdf_questions(options.pdf, options.seed)
    if options.data is not None:
        kinds["real pictures"] = real_questions(options.data, options.limit)
    if not kinds:
        raise InputError("nothing to measure: give --pages, --pdf or --data")
    lines: list[str] = []
    for title, questions in kinds.items():
        lines.append(f"{title}: % at 1/4, 1/8, 1/16 of the tokens with 95 % intervals over pages")
        lines += told(coverages(questions, options.strategy))
    return Report({"schema": 1, "kind": "words", "lines": lines}, lines=lines)


def drawn_questions(packs: Iterable[Path], limit: int, by_ocr: bool) -> Iterator[BenchWordQuestion]:
    pages = [page for pack in packs for page in read_pack(pack)]
    chosen = np.linspace(0, len(pages) - 1, min(limit or len(pages), len(pages))).round().astype(int)
    for page in (pages[place] for place in chosen):
        size = (page.height, page.width)
        words = ocr_words(picture_of(page)) if by_ocr else make_words(page.words, page.word_boxes, size=size)
        yield from _of_page(page, size, words)


def _of_page(page: DrawnPage, size: tuple[int, int], words: Words) -> Iterator[BenchWordQuestion]:
    extent = np.array([page.width, page.height] * 2, dtype=float)
    for one in page.questions:
        yield BenchWordQuestion(page.family, page.name, size, words, one.text, one.boxes / extent)


def pdf_questions(number: int, seed: int) -> Iterator[BenchWordQuestion]:
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


def real_questions(folder: Path, limit: int) -> Iterator[BenchWordQuestion]:
    for picture, records in by_picture(load_records(folder, limit or None, DOCUMENTS)):
        seen = load_picture(picture, longest_side=VIEW_SIDE)
        words = ocr_words(seen.pixels)
        for one in records:
            yield BenchWordQuestion(one.source, picture.name, seen.size, words, one.query, one.boxes, one.any_of)


def coverages(questions: Iterable[BenchWordQuestion], strategy: str = "overlay") -> MeasuredValues:
    """Coverage at level 0 of every question at every budget, by group; "found" where a hundredth at most is missing."""
    values = MeasuredValues()
    for one in questions:
        full, found = tokens_for(one.size), words_map(one.words, one.query)
        for keep in KEEPS:
            allocation = allocate(found, max(1, int(keep * full)), strategy=strategy, image_size=one.size)
            share = coverage(allocation, one.boxes, one.any_of)
            for group in (one.group, "all"):
                values.add(group, "coverage", "words", keep, one.name, share)
                values.add(group, "seen whole", "words", keep, one.name, float(share > 0.99))
    return values


def told(values: MeasuredValues) -> Iterator[str]:
    for group, measure_name, system in dict.fromkeys(key[:3] for key in values.found):
        cells, counts = [], ""
        for keep in KEEPS:
            found = values.estimate((group, measure_name, system, keep))
            if found is not None:
                estimate, number, pages = found
                cells.append(f"{100 * estimate.value:5.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]")
                counts = f"n {number}, {pages} pages"
        yield f"{group:12} {measure_name:10} {'  '.join(cells)}  {counts}"


if __name__ == "__main__":
    door(program("words"))
