"""Decide for a document: the relevance of its pages, one budget over all of them, leaves in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from .attending.frame import Frame, check_maps, to_cells
from .attending.overlay import page_gains, share_tokens
from .balancing.document import PageOffers, PageRelevance, page_relevances
from .core.errors import InputError
from .core.values import Allocation, DocumentAllocation, PageShare
from .decide import View, attend
from .options import Options
from .pictures.document import Document
from .texture.type_height import no_letters

# Tokens that a document costs where nobody said how many: a quarter of its pages, but no more than this.
DEFAULT_MOST = 4096
# How the note begins that names the pages which get no token.
LEFT_OUT = "without a token: "


@dataclass(frozen=True, eq=False)
class DocumentLook:
    """allocation, what led to it, and the seconds of each stage. relevances: one for each page."""

    document: Document
    allocation: DocumentAllocation
    relevances: tuple[PageRelevance, ...]
    query: str
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.allocation.notes


def look_through(
    document: Document,
    query: str,
    options: Options,
    relevance: object = "auto",
    offers: PageOffers | None = None,
    most: int | None = None,
) -> DocumentLook:
    """Where the tokens go over the pages of a document.

    Args:
        document: Its pages; they are drawn only where their pixels are needed.
        query: The question.
        options: How much may be spent in all, and how it is laid out inside a page.
        relevance: As for `look`, or one map for each page.
        offers: What else is known.
        most: Pages that may get tokens at all; None: any number.

    Returns:
        The allocation with everything that led to it.
    """
    started = perf_counter()
    relevances, notes = page_relevances(document, query, relevance, offers)
    known = perf_counter()
    allocation = allocate_pages(document, relevances, options, most=most)
    allocation = replace(allocation, notes=tuple(dict.fromkeys((*document.notes, *notes, *allocation.notes))))
    seconds = {"know": known - started, "attend": perf_counter() - known}
    return DocumentLook(document, allocation, tuple(relevances), query, seconds)


def allocate_pages(
    document: Document, relevances: Sequence[PageRelevance], options: Options, *, most: int | None = None
) -> DocumentAllocation:
    """One budget over pages whose relevance is known, exactly spent. most: pages that may get tokens at all."""
    pages = document.pages
    frames = [Frame(page.size, options.cell, options.canvas) for page in pages]
    full = [frame.full for frame in frames]
    chosen = [number for number in range(len(pages)) if not relevances[number].failed]
    if not chosen:
        raise InputError(f"no page of {document.name} can be drawn; {relevances[0].why}")
    cells = {number: _cells(relevances[number], frames[number]) for number in chosen}
    gains = {number: page_gains(cells[number], full[number], relevances[number].belief) for number in chosen}
    if most is not None and len(chosen) > most:
        # Those whose first tokens gain most; pages of which nothing is known come last, in their order.
        first = {number: (-gains[number][:16].sum(), number) for number in chosen}
        chosen = sorted(sorted(chosen, key=lambda number: first[number])[:most])
    whole = sum(full[number] for number in chosen)
    wanted, notes = document_budget(options, sum(full), whole)
    tokens = dict(zip(chosen, share_tokens([gains[number] for number in chosen], wanted), strict=True))
    shares = []
    for number, page in enumerate(pages):
        spent = tokens.get(number, 0)
        known, given = relevances[number].relevance, None
        if spent:
            blank = known is None or cells[number] is None
            given = _laid(np.zeros((1, 1)) if blank else known.map, frames[number], spent, options)
        why, worth = _reason(relevances[number], spent), relevances[number].peak
        shares.append(PageShare(page.number, page.name, full[number], given, why, worth))
    out = [share.number for share in shares if not share.tokens]
    if out:
        notes = (*notes, f"{LEFT_OUT}{'page' if len(out) == 1 else 'pages'} {listed(out)}")
    return DocumentAllocation(tuple(shares), wanted, options.layout, document.name, document.of_pages, notes)


def document_budget(options: Options, full: int, whole: int) -> tuple[int, tuple[str, ...]]:
    """Tokens for a document that costs `full`, of which `whole` may be given, and notes."""
    wanted = options.wanted(full)
    notes: tuple[str, ...] = ()
    if options.budget is None and wanted > DEFAULT_MOST:
        wanted = DEFAULT_MOST
        notes = (f"no budget was given: {DEFAULT_MOST} tokens for the whole document",)
    if wanted > whole:
        notes = (*notes, f"budget {wanted} is above the {whole} tokens of all pages: all of them are seen")
    wanted = min(wanted, whole)
    if options.capped(wanted) < wanted:
        notes = (*notes, f"nothing may cost more than {options.ceiling} tokens here: the budget was lowered to that")
    return options.capped(wanted), notes


def listed(numbers: Sequence[int]) -> str:
    """[1, 2, 3, 5] → "1-3, 5"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _cells(one: PageRelevance, frame: Frame) -> np.ndarray | None:
    if one.relevance is None or not one.relevance.map.any():
        return None
    return to_cells(check_maps(np.asarray(one.relevance.map)), frame)[0]


def _laid(known: np.ndarray, frame: Frame, tokens: int, options: Options) -> Allocation:
    view = View(frame.image_size, frame, no_letters, lambda times: frame, scalable=False)
    return attend([view], [known], [tokens], options)[0].allocation


def _reason(one: PageRelevance, tokens: int) -> str:
    if one.failed:
        return one.why
    if not tokens:
        return f"left out; {one.why}" if one.why else "left out: other pages gain more"
    if tokens > 1 and one.relevance is not None:
        return one.why
    return f"overview only; {one.why}" if one.why else "overview"
