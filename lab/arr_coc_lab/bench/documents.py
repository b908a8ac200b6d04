"""`bench documents`: one budget over the pages of drawn documents: is the page found, and is the answer seen?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from arr_coc.allocation.allocate import allocate
from arr_coc.allocation.document_look import allocate_pages
from arr_coc.allocation.request import Request
from arr_coc.core.document_values import DocumentAllocation, PageShare
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation
from arr_coc.pictures.document import Document
from arr_coc.relevance.document import page_relevances
from arr_coc.relevance.words.joint import text_scores

from ..statistics import mean, proportion
from ..train.run import door
from ..worlds.documents.export import document_questions, scanned
from .options import DocumentsBenchOptions
from .real import MeasuredValues, coverage
from .report import Report
from .run import BenchRun, program

OURS, FIRST, ALIKE, SEARCH, ALL = "ours", "first page", "every page alike", "text search + uniform", "all tokens"
SYSTEMS = (OURS, FIRST, ALIKE, SEARCH, ALL)
# Of the answer's area: so much must be seen in full detail.
SEEN = 0.99


class AskedDocument(NamedTuple):
    """One question. truth: the number of the page and (K, 4) boxes of the answer in 0–1. words: with text layer."""

    name: str
    kind: str
    document: Document
    query: str
    answer: str
    page: int
    boxes: np.ndarray


def measure(options: DocumentsBenchOptions, run: BenchRun) -> Report:
    """Coverage and pages found for every system and budget."""
    if not 2 <= options.pages <= 40:
        raise InputError(f"--pages {options.pages} is not a document; give 2 to 40")
    values, rights = MeasuredValues(), {}
    number = 0
    with run.progress(options.number, "looking") as advance, tempfile.TemporaryDirectory() as folder:
        for one in asked_documents(options, Path(folder)):
            found = allocations(one, options)
            for (system, budget), allocation in found.items():
                page = allocation.page(one.page)
                best = [share.number for share in allocation.ranked[:2] if share.tokens]
                share = 0.0 if page.allocation is None else coverage(page.allocation, one.boxes)
                for group in (one.kind, "all"):
                    values.add(group, "page", system, budget, f"{one.name} {one.query}", float(one.page in best))
                    values.add(group, "coverage", system, budget, f"{one.name} {one.query}", share)
                    values.add(group, "seen", system, budget, f"{one.name} {one.query}", float(share > SEEN))
            number += 1
            if options.ask and number <= options.ask:
                for budget in options.budgets:
                    rights.setdefault(budget, []).append(answered(one, budget))
            advance()
            if number == options.number:
                break
    lines = list(told(values, options, rights))
    return Report({"schema": 1, "kind": "documents", "questions": number, "lines": lines}, lines=lines)


def asked_documents(options: DocumentsBenchOptions, folder: Path) -> Iterator[AskedDocument]:
    """Questions about documents of a seed, `each` of every document."""
    index = 0
    while True:
        path, drawn, questions = document_questions(folder, options.seed, index, options.pages)
        written = Document.of(path)
        shown = scanned(written, options.seed + index) if options.scanned else written
        for question, boxes in questions[: options.each]:
            yield AskedDocument(drawn.name, drawn.kind, shown, question.text, question.answer, question.page, boxes)
        path.unlink()
        index += 1


def allocations(one: AskedDocument, options: DocumentsBenchOptions) -> dict[tuple[str, int], DocumentAllocation]:
    """What every system does with the same budgets."""
    relevances, _ = page_relevances(one.document, one.query)
    texts = one.document.texts
    best = int(text_scores(texts, one.query).argmax()) if any(texts) else 0
    pages = one.document.pages
    found = {}
    for budget in options.budgets:
        even = {page.number: budget // len(pages) + (place < budget % len(pages)) for place, page in enumerate(pages)}
        found[OURS, budget] = allocate_pages(one.document, relevances, Request.of(budget))
        found[FIRST, budget] = uniform(one.document, {pages[0].number: budget})
        found[ALIKE, budget] = uniform(one.document, even)
        found[SEARCH, budget] = uniform(one.document, {pages[best].number: budget})
        found[ALL, budget] = uniform(one.document, {page.number: 1 << 20 for page in pages})
    return found


def uniform(document: Document, tokens: Mapping[int, int]) -> DocumentAllocation:
    """The finest even tiling of each page that its tokens pay for; without torch, a flat map is that."""
    shares = []
    for page in document.pages:
        full = -(-page.size[0] // 32) * -(-page.size[1] // 32)
        spent = min(tokens.get(page.number, 0), full)
        given = even_leaves(page.size, spent) if spent else None
        shares.append(PageShare(page.number, page.name, full, given))
    return DocumentAllocation(tuple(shares), sum(tokens.values()), "uniform", document.name)


@lru_cache(maxsize=256)
def even_leaves(size: tuple[int, int], tokens: int) -> Allocation:
    """Leaves of a page of which nothing is known; pages of one size have the same."""
    return allocate(np.ones((1, 1), np.float32), tokens, image_size=size)


def answered(one: AskedDocument, budget: int) -> bool:
    """Does `mini` say it?"""
    from arr_coc.asking import ask

    said = ask(one.document, one.query, budget, max_new_tokens=24).text
    return "".join(said.lower().split()) == "".join(one.answer.lower().split())


def told(values: MeasuredValues, options: DocumentsBenchOptions, rights: Mapping[int, list[bool]]) -> Iterator[str]:
    kind = "scanned, without words" if options.scanned else "with words"
    yield f"{options.pages} pages, {kind}, seed {options.seed}: % with 95 % intervals over questions"
    names = {"page": "page among two best", "coverage": "answer at level 0", "seen": "answer seen whole"}
    for group in dict.fromkeys(("all", *(key[0] for key in values.found))):
        for measure_name, title in names.items():
            for system in SYSTEMS if group == "all" else (OURS,):
                cells, count = [], 0
                for budget in options.budgets:
                    measured = np.array(
                        [value for _, value in values.found.get((group, measure_name, system, budget), ())]
                    )
                    if len(measured):
                        count = len(measured)
                        estimate = mean(measured) if measure_name == "coverage" else proportion(measured > 0.5)
                        low, high = 100 * estimate.low, 100 * estimate.high
                        cells.append(f"{budget}: {100 * estimate.value:5.1f} [{low:.1f}, {high:.1f}]")
                yield f"{group:11} {title:20} {system:22} {'  '.join(cells)}  n {count}"
    for budget in options.budgets:
        gain = values.difference("all", OURS, SEARCH, budget)
        if gain is not None:
            low, high = 100 * gain.low, 100 * gain.high
            yield f"ahead of {SEARCH} at {budget}: {100 * gain.value:.1f} points of coverage [{low:.1f}, {high:.1f}]"
    for budget, several in rights.items():
        estimate = proportion(np.array(several))
        low, high = 100 * estimate.low, 100 * estimate.high
        yield f"answer right (mini) at {budget}: {100 * estimate.value:.1f} [{low:.1f}, {high:.1f}] n {len(several)}"


main = program("documents")

if __name__ == "__main__":
    door(main)
