"""What each page of a document has to do with a question, from the same sources as a picture's relevance.

Words first: pages with a text layer are searched as plain text, the best of them are ranked word by word together, and
none is drawn. Pages without words are drawn small and asked one by one; of many, the best once more in full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.stopping import check_stop
from ..core.values import Relevance
from ..pictures.document import Document, DocumentPage
from ..pictures.words import MOST_WORDS
from .registry import find_source, is_map, relevances_for
from .scene import VIEW_SIDE, Scene
from .words.joint import joint_shares, text_scores
from .words.source import map_of

# Pages whose words are ranked together, and how many words these may have.
JOINT, JOINT_WORDS = 8, MOST_WORDS
# What a page is believed for which the search says nothing. Chosen on drawn documents: docs/documents.md.
LEAST_BELIEF = 0.05
# The score of the best page from which on the search is trusted; below, the words' own ranking decides.
SURE_SEARCH = 1.0
# Pixels of a page that is asked about its picture, in all and of one; below the second it is asked again, if among the
# best.
COARSE_PIXELS, LEAST_PIXELS, MOST_PIXELS, AGAIN = 12_000_000, 360_000, 1_310_720, 3


@dataclass(frozen=True, eq=False)
class PageRelevance:
    """relevance: where on the page; None where nothing speaks for it. belief: how much the page is believed beside the
    others. why: one line. failed: it could not be drawn."""

    relevance: Relevance | None = None
    belief: float = 1.0
    why: str = ""
    failed: bool = False

    @property
    def peak(self) -> float:
        """What its best place is worth."""
        return 0.0 if self.relevance is None else float(self.relevance.map.max()) * self.belief


@dataclass(frozen=True, eq=False)
class PageOffers:
    """What a caller offers beside the pages: see `Scene`."""

    photos: bool = True
    device: str = "cpu"
    scorer: Any = None


def page_relevances(
    document: Document, query: str, relevance: Any = "auto", offers: PageOffers | None = None
) -> tuple[list[PageRelevance], tuple[str, ...]]:
    """The relevance of every page, comparable between pages, and notes that say where it comes from.

    Args:
        document: Its pages are drawn only where their pixels are needed.
        query: The question.
        relevance: As for `look`: "auto", a source's name, a function of (picture, question), or one map for each page.
        offers: What else is known.

    Returns:
        One `PageRelevance` for each page, in order; notes.
    """
    offers = offers or PageOffers()
    pages = document.pages
    if isinstance(relevance, list | tuple) or getattr(relevance, "ndim", 0) == 3:
        return _given(list(relevance), pages, query), ("relevance: as the caller gave it, page by page",)
    if is_map(relevance):
        raise InputError(f"relevance= is one map for {len(pages)} pages; give one for each")
    by_words = isinstance(relevance, str) and relevance in ("auto", "words")
    written = [number for number, text in enumerate(document.texts) if text.strip()] if by_words else []
    found: dict[int, PageRelevance] = {}
    notes: tuple[str, ...] = ()
    if written:
        found, notes = _by_words(document, written, query)
    others = [number for number in range(len(pages)) if number not in found]
    if others:
        asked, told = _by_pictures([pages[number] for number in others], query, relevance, offers)
        found |= dict(zip(others, asked, strict=True))
        notes = (*notes, *told)
    return [found[number] for number in range(len(pages))], notes


def _given(maps: Sequence[Any], pages: Sequence[DocumentPage], query: str) -> list[PageRelevance]:
    if len(maps) != len(pages) or not all(one is None or is_map(one) for one in maps):
        raise InputError(f"relevance= gives {len(maps)} maps for {len(pages)} pages; give one (rows, cols) map each")
    return [
        PageRelevance() if one is None else PageRelevance(one if isinstance(one, Relevance) else Relevance(one, query))
        for one in maps
    ]


# ---- by words --------------------------------------------------------------------------------------------------------


def _by_words(
    document: Document, written: Sequence[int], query: str
) -> tuple[dict[int, PageRelevance], tuple[str, ...]]:
    """Pages with words: searched, then the best ranked together. A page whose words have no boxes is left to others."""
    scores = text_scores([document.texts[number] for number in written], query)
    order = np.argsort(-scores, kind="stable")
    best: list[int] = []
    words: dict[int, Any] = {}
    count = 0
    for place in order[:JOINT]:
        number = written[place]
        held = document.pages[number].words
        if held is None:
            continue
        count += len(held)
        if count > JOINT_WORDS and best:
            break
        best.append(number)
        words[number] = held
    shares = joint_shares([words[number] for number in best], query)
    top = max(float(scores.max()), 1e-9)
    trusted = min(1.0, top / SURE_SEARCH)
    searched = dict(zip(written, (scores / top).tolist(), strict=True))
    found = {
        number: PageRelevance(why=f"plain text search ranks it {1 + int(np.flatnonzero(order == place)[0])}")
        for place, number in enumerate(written)
    }
    likely = max((float(share[:, 0].max()) for share in shares), default=1.0)
    for number, share in zip(best, shares, strict=True):
        likeliest = int(share[:, 0].argmax())
        why = f"{words[number].texts[likeliest]!r} may answer, {100 * share[likeliest, 0]:.0f} %"
        belief = 1 - trusted * (1 - LEAST_BELIEF) * (1 - searched[number] ** 2)
        belief *= math.sqrt(float(share[likeliest, 0]) / max(likely, 1e-9))
        found[number] = PageRelevance(Relevance(map_of(words[number], share), query), belief, why)
    note = (
        f"relevance 'words', chosen because the words of {len(written)} pages are known: plain text search, and the "
        f"{len(best)} best pages ranked together"
    )
    return found, (note,)


# ---- by pictures -----------------------------------------------------------------------------------------------------


def _by_pictures(
    pages: Sequence[DocumentPage], query: str, relevance: Any, offers: PageOffers
) -> tuple[list[PageRelevance], tuple[str, ...]]:
    """Pages without words: each drawn, asked, and forgotten; of many, small first, and the best again in full."""
    if not (isinstance(relevance, str) and relevance == "auto"):
        find_source(relevance)  # an unknown name is told before a page is drawn
    room = max(LEAST_PIXELS, COARSE_PIXELS // len(pages))
    found = [_drawn(page, query, relevance, offers, room) for page in pages]
    if room < MOST_PIXELS:
        order = sorted(range(len(pages)), key=lambda number: -found[number].peak)
        for number in order[:AGAIN]:
            if not found[number].failed and math.prod(pages[number].size) > room:
                again = _drawn(pages[number], query, relevance, offers, None)
                # What is seen in full must not fall behind pages that were only seen small.
                found[number] = _no_weaker(again, found[number])
    notes = [note for one in found if one.relevance is not None for note in one.relevance.notes[:1]]
    return found, tuple(dict.fromkeys(notes))


def _drawn(page: DocumentPage, query: str, relevance: Any, offers: PageOffers, room: int | None) -> PageRelevance:
    check_stop()
    height, width = page.size
    side = VIEW_SIDE if room is None else max(64, round(max(page.size) * min(1.0, math.sqrt(room / (height * width)))))
    try:
        pixels = page.draw(min(side, VIEW_SIDE)).pixels
    except InputError as error:
        return PageRelevance(why=str(error), failed=True)
    scene = Scene(pixels, photos=offers.photos, device=offers.device, scorer=offers.scorer)
    known = relevances_for(relevance, [scene], [query]).relevance[0]
    peak = float(known.map.max())
    return PageRelevance(known, why=f"its best place is worth {100 * peak:.0f} %")


def _no_weaker(one: PageRelevance, other: PageRelevance) -> PageRelevance:
    if one.relevance is None or one.peak >= other.peak or not one.peak:
        return one
    return replace(one, belief=other.peak / one.peak)
