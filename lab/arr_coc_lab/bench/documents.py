"""`bench real --data documents:10`: one budget over the pages of drawn documents.

Measures whether the page is found, how much of the answer is seen, and, with --ask, whether `mini` answers right.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from arr_coc.attending.allocate import allocate
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation, DocumentAllocation, PageShare
from arr_coc.decide_document import allocate_pages, page_relevances
from arr_coc.knowing.words.search import text_scores
from arr_coc.options import Options
from arr_coc.pictures.document import Document

from ..worlds.office.export import DocumentQuestion, write_document
from .report import Report, Score
from .rows import BenchRow, Key
from .run import Job, Plan
from .scores import coverage
from .suite import RealOptions, parse_shares

KINDS = ("documents", "scans")
NUMBER, EACH, BUDGETS = 150, 5, "64 256 1024"  # questions in all, questions of a document, tokens of a document
OURS, FIRST, ALIKE, SEARCH, ALL = "ours", "first page", "every page alike", "text search + uniform", "all tokens"
SEEN = 0.99  # share of the answer's area that must be seen in full detail
EVERY = 1 << 20  # more tokens than any page has
SCORES = (
    Score("page", "The right page is among the two best funded", baseline=OURS),
    Score("coverage", "Share of the answer seen at level 0", baseline=OURS),
    Score("seen", "Answer seen whole", baseline=OURS),
    Score("exact", "mini says it", baseline=OURS),
)


def plan(options: RealOptions, number: int) -> Plan:
    kind, _, given = options.data.partition(":")
    pages = int(given) if given.isdecimal() else 10
    if not 2 <= pages <= 40:
        raise InputError(f"--data {options.data} is no document; give 2 to 40 pages, such as {kind}:10")
    budgets = sorted(int(one) for one in parse_shares(options.keeps or BUDGETS, most=EVERY))
    cells = [(system, float(budget)) for system in (OURS, FIRST, ALIKE, SEARCH) for budget in budgets]
    cells += [] if options.ask else [(ALL, 1.0)]
    jobs = [
        Job(index, tuple(Key(f"{index}.{place}", *cell) for place in range(EACH) for cell in cells))
        for index in range(-(-number // EACH))
    ]
    work = DocumentWork(options.seed, pages, kind == "scans", options.ask, options.device)
    settings = {"data": f"{kind}:{pages}", "seed": options.seed}
    facts = {"documents": f"{pages} pages, {'scanned, without words' if work.scans else 'with words'}"}
    facts |= {"seed": str(options.seed), "intervals": "95 %, over questions"}
    name = "real_documents_ask" if options.ask else "real_documents"
    return Plan(jobs, work, lambda rows: Report.of(rows, SCORES, facts, ("kind", "system")), settings, name)


@dataclass(frozen=True)
class AskedDocument:
    """A question about a document. texts: the text of each page; text search gets it for scans, too."""

    document: Document
    question: DocumentQuestion
    texts: tuple[str, ...]
    device: str

    @cached_property
    def relevances(self) -> Any:
        return page_relevances(self.document, self.question.text, "auto", Options(device=self.device))[0]

    @cached_property
    def searched(self) -> int:
        """Return the page that plain text search finds, from 0."""
        return int(text_scores(self.texts, self.question.text).argmax())


@dataclass(frozen=True)
class DocumentWork:
    """Draw one document and look at it for each of its questions, in any process."""

    seed: int
    pages: int
    scans: bool
    ask: bool
    device: str

    def __call__(self, index: int, wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        with tempfile.TemporaryDirectory() as folder:
            plain, scan = Path(folder) / "plain", Path(folder) / "scan"
            questions = write_document(plain, self.seed, index, self.pages)
            written = shown = Document.of(plain)
            if self.scans:
                write_document(scan, self.seed, index, self.pages, scanned=True)
                shown = Document.of(scan)
            asked = [AskedDocument(shown, one, written.texts, self.device) for one in questions]
            for key in wanted:
                place = int(key.question.split(".")[1])
                if place >= len(asked):  # this document has fewer questions
                    yield BenchRow("real", *key)
                    continue
                scores, tokens = answered(asked[place], key) if self.ask else looked(asked[place], key)
                one = asked[place].question
                yield BenchRow("real", *key, scores, one.layout, tokens, None, {"query": one.text})


def looked(asked: AskedDocument, key: Key) -> tuple[dict[str, float], int]:
    """Score whether the right page is among the two with most tokens, and how much of the answer is seen."""
    found = allocated(asked, key.system, int(key.keep))
    page = next(share for share in found.pages if share.number == asked.question.page)
    best = [share.number for share in found.ranked[:2] if share.tokens]
    share = 0.0 if page.allocation is None else float(coverage(page.allocation, asked.question.boxes))
    scores = {"page": float(asked.question.page in best), "coverage": round(share, 5), "seen": float(share > SEEN)}
    return scores, found.tokens


def allocated(asked: AskedDocument, system: str, budget: int) -> DocumentAllocation:
    """Allocate a budget by one system."""
    pages = asked.document.pages
    if system == OURS:
        return allocate_pages(asked.document, asked.relevances, Options(budget=budget))
    if system == FIRST:
        return uniform(asked.document, {pages[0].number: budget})
    if system == SEARCH:
        return uniform(asked.document, {pages[asked.searched].number: budget})
    if system == ALL:
        return uniform(asked.document, {page.number: EVERY for page in pages})
    even = {page.number: budget // len(pages) + (place < budget % len(pages)) for place, page in enumerate(pages)}
    return uniform(asked.document, even)


def uniform(document: Document, tokens: Mapping[int, int]) -> DocumentAllocation:
    """Return the finest even tiling of each page that its tokens allow."""
    shares = []
    for page in document.pages:
        full = -(-page.size[0] // 32) * -(-page.size[1] // 32)
        spent = min(tokens.get(page.number, 0), full)
        shares.append(PageShare(page.number, page.name, full, even_leaves(page.size, spent) if spent else None))
    return DocumentAllocation(tuple(shares), sum(tokens.values()), "uniform", document.name, document.of_pages)


@lru_cache(maxsize=256)
def even_leaves(size: tuple[int, int], tokens: int) -> Allocation:
    """Return the leaves of a page without relevance; pages of one size share them."""
    return allocate(np.ones((1, 1), np.float32), tokens, image_size=size)


def answered(asked: AskedDocument, key: Key) -> tuple[dict[str, float], int]:
    """Tell whether `mini` answers right. If pages are asked one by one, the surest answer counts."""
    from arr_coc.asking import ask

    pages, query, budget = asked.document.pages, asked.question.text, int(key.keep)
    if key.system == OURS:
        answers = [ask(asked.document, query, budget, device=asked.device, options=Options(max_new_tokens=24))]
    else:
        chosen = {FIRST: pages[:1], SEARCH: pages[asked.searched :][:1]}.get(key.system, pages)
        each = max(1, budget // len(pages)) if key.system == ALIKE else budget
        options = Options(relevance=np.ones((1, 1), np.float32), device=asked.device, max_new_tokens=24)
        answers = [ask(page.draw(), query, each, options=options) for page in chosen]
    said = min(answers, key=lambda answer: answer.uncertainty).text
    right = "".join(said.lower().split()) == "".join(asked.question.answer.lower().split())
    return {"exact": float(right)}, sum(answer.tokens for answer in answers)
