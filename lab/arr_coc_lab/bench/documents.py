"""`bench documents`: one budget over the pages of drawn documents: is the page found, and is the answer seen?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from arr_coc.knowing.document import PageOffers, page_relevances
from arr_coc.knowing.words.joint import text_scores

from arr_coc.attending.allocate import allocate
from arr_coc.attending.document_look import allocate_pages
from arr_coc.attending.request import Request
from arr_coc.core.document_values import DocumentAllocation, PageShare
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation
from arr_coc.pictures.document import Document

from ..statistics import mean, proportion
from ..train.run import door
from ..worlds.documents.export import document_questions, scanned
from .answers import AnswerStore
from .options import DocumentsBenchOptions
from .real import MeasuredValues, coverage
from .report import Report
from .run import BenchRun, program

OURS, FIRST, ALIKE, SEARCH, ALL = "ours", "first page", "every page alike", "text search + uniform", "all tokens"
SYSTEMS = (OURS, FIRST, ALIKE, SEARCH, ALL)
# Of the answer's area: so much must be seen in full detail.
SEEN = 0.99
LOOKS = "looks"


class AskedDocument(NamedTuple):
    """One question. page: the number of the right one. boxes: (K, 4) of the answer in 0–1. texts: what is written on
    each page, which text search is told of scans too."""

    name: str
    kind: str
    document: Document
    query: str
    answer: str
    page: int
    boxes: np.ndarray
    texts: tuple[str, ...]


def measure(options: DocumentsBenchOptions, run: BenchRun) -> Report:
    """Coverage and pages found for every system and budget; with an --out folder it goes on where it stopped."""
    if not 2 <= options.pages <= 40:
        raise InputError(f"--pages {options.pages} is not a document; give 2 to 40")
    asked: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) if run.out is None else run.out
        kind = "scanned" if options.scanned else "written"
        store = AnswerStore(place / f"documents-{kind}-{options.pages}-{options.seed}.jsonl")
        work, index = DocumentWork(options, frozenset(store.rows)), 0
        while len(asked) < options.number and not run.over():
            # As many documents as are needed where each has all of its questions, and then more for those that lack.
            first, index = index, index + -(-(options.number - len(asked)) // options.each)
            for _, (names, rows) in run.each(range(first, index), work, "looking", options.workers):
                for row in rows:
                    store.add(row)
                asked += names
    # A run that was stopped early also tells what an earlier one has found.
    asked = list(dict.fromkeys([*asked, *(name for name, cell in store.rows if cell == LOOKS)]))[: options.number]
    if not asked:
        raise InputError("no document was looked at; give the run more --seconds")
    values = MeasuredValues()
    for name in asked:
        row = store.rows[name, LOOKS]
        for system, budget, found, share in row["found"]:
            for group in (row["kind"], "all"):
                values.add(group, "page", system, budget, name, float(found))
                values.add(group, "coverage", system, budget, name, share)
                values.add(group, "seen", system, budget, name, float(share > SEEN))
        for system in SYSTEMS:
            for budget in options.budgets:
                if said := store.rows.get((name, f"said {system} {budget}")):
                    values.add("all", "right", system, budget, name, float(said["right"]))
    lines = list(told(values, options))
    return Report({"schema": 1, "kind": "documents", "questions": len(asked), "lines": lines}, lines=lines)


@dataclass(frozen=True)
class DocumentWork:
    """Draws a document, looks at it for each of its questions and lets `mini` answer, in whatever process it is. known:
    (question, cell) of what is there already."""

    options: DocumentsBenchOptions
    known: frozenset[tuple[str, str]]

    def __call__(self, index: int) -> tuple[list[str], list[dict[str, object]]]:
        """The names of the questions of document `index`, and new rows."""
        options, names, rows = self.options, list[str](), list[dict[str, object]]()
        with tempfile.TemporaryDirectory() as folder:
            for number, one in enumerate(asked_document(options, Path(folder), index), index * options.each):
                name = f"{one.name} {one.query}"
                names.append(name)
                if (name, LOOKS) not in self.known:
                    rows.append({"question": name, "cell": LOOKS, "kind": one.kind, "found": looked(one, options)})
                if number >= options.ask:
                    continue
                for system in SYSTEMS[: None if number < options.ask_all else -1]:
                    for budget in options.budgets[:1] if system == ALL else options.budgets:
                        cell = f"said {system} {budget}"
                        if (name, cell) not in self.known:
                            right = answered(one, system, budget, options.device)
                            rows.append({"question": name, "cell": cell, "right": right})
        return names, rows


def looked(one: AskedDocument, options: DocumentsBenchOptions) -> list[tuple[str, int, bool, float]]:
    """For every system and budget: is the right page among the two best funded, and how much of the answer is seen?"""
    found = []
    for (system, budget), allocation in allocations(one, options).items():
        page = allocation.page(one.page)
        best = [share.number for share in allocation.ranked[:2] if share.tokens]
        share = 0.0 if page.allocation is None else coverage(page.allocation, one.boxes)
        found.append((system, budget, one.page in best, float(share)))
    return found


def asked_document(options: DocumentsBenchOptions, folder: Path, index: int) -> Iterator[AskedDocument]:
    """The first `each` questions about document `index` of a seed."""
    path, drawn, questions = document_questions(folder, options.seed, index, options.pages)
    written = Document.of(path)
    shown = scanned(written, options.seed + index) if options.scanned else written
    for question, boxes in questions[: options.each]:
        asked = (question.text, question.answer, question.page, boxes)
        yield AskedDocument(drawn.name, drawn.kind, shown, *asked, written.texts)


def allocations(one: AskedDocument, options: DocumentsBenchOptions) -> dict[tuple[str, int], DocumentAllocation]:
    """What every system does with the same budgets."""
    relevances, _ = page_relevances(one.document, one.query, "auto", PageOffers(device=options.device))
    best, pages = searched(one), one.document.pages
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


def searched(one: AskedDocument) -> int:
    """The page that plain text search finds, from 0."""
    return int(text_scores(one.texts, one.query).argmax())


def answered(one: AskedDocument, system: str, budget: int, device: str = "cpu") -> bool:
    """Does `mini` say it? Of several pages that are asked one by one, its surest answer counts."""
    from arr_coc.asking import ask

    pages = one.document.pages
    if system == OURS:
        said = ask(one.document, one.query, budget, device=device, max_new_tokens=24).text
        return same(said, one.answer)
    chosen = {FIRST: pages[:1], SEARCH: pages[searched(one) :][:1]}.get(system, pages)
    each = {ALL: 1 << 20, ALIKE: max(1, budget // len(pages))}.get(system, budget)
    even = np.ones((1, 1), np.float32)
    answers = [ask(page.draw(), one.query, each, relevance=even, max_new_tokens=24, device=device) for page in chosen]
    return same(min(answers, key=lambda answer: answer.uncertainty).text, one.answer)


def same(said: str, answer: str) -> bool:
    return "".join(said.lower().split()) == "".join(answer.lower().split())


def told(values: MeasuredValues, options: DocumentsBenchOptions) -> Iterator[str]:
    kind = "scanned, without words" if options.scanned else "with words"
    yield f"{options.pages} pages, {kind}, seed {options.seed}: % with 95 % intervals over questions"
    names = {"page": "page among two best", "coverage": "answer at level 0", "seen": "answer seen whole"}
    names |= {"right": "mini says it"} if options.ask else {}
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
                if cells:
                    yield f"{group:11} {title:20} {system:22} {'  '.join(cells)}  n {count}"
    for budget in options.budgets:
        gain = values.difference("all", OURS, SEARCH, budget)
        if gain is not None:
            low, high = 100 * gain.low, 100 * gain.high
            yield f"ahead of {SEARCH} at {budget}: {100 * gain.value:.1f} points of coverage [{low:.1f}, {high:.1f}]"


if __name__ == "__main__":
    door(program("documents"))
