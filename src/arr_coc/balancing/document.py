"""What each page of a document has to do with a question, from the same sources as a picture's relevance.

Words first: pages with a text layer are searched as plain text, the best of them are ranked word by word together, and
none is drawn. Pages without words are drawn small. Where the scorer would be asked, the words of the question are
looked for among the letters that it sees, and only the best pages are asked in full; others are asked one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from ..core.errors import InputError, check_stop
from ..core.values import Relevance
from ..knowing.large import LEAST_FOUND, asked_words, letter_board, spelled, spelled_scores
from ..knowing.registry import find_source, is_map
from ..knowing.scene import VIEW_SIDE, RelevanceSource, Scene
from ..knowing.scorer.source import ScorerRelevance
from ..knowing.words.answer import answer_shares
from ..knowing.words.search import text_scores
from ..knowing.words.source import map_of
from ..pictures.document import Document, DocumentPage
from ..pictures.words import MOST_WORDS, Words
from .choosing import relevances_for, resolve

# Pages whose words are ranked together, and how many words these may have.
JOINT, JOINT_WORDS = 8, MOST_WORDS
# What a page is believed for which the search says nothing. Chosen on drawn documents: docs/documents.md.
LEAST_BELIEF = 0.05
# The score of the best page from which on the search is trusted; below, the words' own ranking decides.
SURE_SEARCH = 1.0
# Pixels of pages that are looked at as pictures, in all and of one; below the last such a page is asked again, if among
# the best.
COARSE_PIXELS, LEAST_PIXELS, MOST_PIXELS, AGAIN = 12_000_000, 360_000, 1_310_720, 3
# The same where only letters are looked for, which is quicker: on drawn pages more of them find no more.
LETTER_PIXELS, MOST_LETTER_PIXELS = 20_000_000, 660_000
# Pages whose letters are kept for the next question about them.
KEPT_BOARDS = 40
# Of pages that were searched by their letters: so many are asked in full.
ASKED = 3
# By how much less a page is found that is believed a third as much, and what one is believed at the least. Twice as
# humble as what fits drawn documents best.
SHARP, LEAST_SPELLED = 0.2, 0.01


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
    scorer: RelevanceSource | None = None


def page_relevances(
    document: Document, query: str, relevance: object = "auto", offers: PageOffers | None = None
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
    several = isinstance(relevance, list | tuple) or getattr(relevance, "ndim", 0) == 3
    if several and isinstance(relevance, Iterable):
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


def _given(maps: Sequence[object], pages: Sequence[DocumentPage], query: str) -> list[PageRelevance]:
    if len(maps) != len(pages) or not all(one is None or is_map(one) for one in maps):
        raise InputError(f"relevance= gives {len(maps)} maps for {len(pages)} pages; give one (rows, cols) map each")
    known = (one if one is None or isinstance(one, Relevance) else Relevance(np.asarray(one), query) for one in maps)
    return [PageRelevance(one) for one in known]


# ---- by words --------------------------------------------------------------------------------------------------------


def _by_words(
    document: Document, written: Sequence[int], query: str
) -> tuple[dict[int, PageRelevance], tuple[str, ...]]:
    """Pages with words: searched, then the best ranked together. A page whose words have no boxes is left to others."""
    scores = text_scores([document.texts[number] for number in written], query)
    order = np.argsort(-scores, kind="stable")
    best: list[int] = []
    words: dict[int, Words] = {}
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
    pages: Sequence[DocumentPage], query: str, relevance: object, offers: PageOffers
) -> tuple[list[PageRelevance], tuple[str, ...]]:
    """Pages without words: each drawn and forgotten. Those that the scorer would be asked about are first searched for
    the letters of the question; of other ones each is asked, small if there are many, and the best again in full."""
    if not (isinstance(relevance, str) and relevance == "auto"):
        find_source(relevance)  # an unknown name is told before a page is drawn
    searched = _by_letters(pages, query, relevance, offers)
    others = [number for number in range(len(pages)) if number not in searched]
    room = max(LEAST_PIXELS, COARSE_PIXELS // max(1, len(others)))
    found = searched | {number: _drawn(pages[number], query, relevance, offers, room) for number in others}
    if room < MOST_PIXELS:
        for number in sorted(others, key=lambda number: -found[number].peak)[:AGAIN]:
            if not found[number].failed and math.prod(pages[number].size) > room:
                again = _drawn(pages[number], query, relevance, offers, None)
                # What is seen in full must not fall behind pages that were only seen small.
                found[number] = _no_weaker(again, found[number])
    told = [found[number] for number in range(len(pages))]
    notes = [note for one in told if one.relevance is not None for note in one.relevance.notes[:1]]
    if searched:
        notes.append(f"the letters of {len(searched)} pages were searched for the words of the question, and the best "
                     f"{sum(one.relevance is not None for one in searched.values())} looked at in full")  # fmt: skip
    return told, tuple(dict.fromkeys(notes))


def _by_letters(
    pages: Sequence[DocumentPage], query: str, relevance: object, offers: PageOffers
) -> dict[int, PageRelevance]:
    """Pages that the scorer would be asked about, by the words of the question that their letters spell. Empty where
    nothing is found that tells pages apart: then the scorer itself is asked about each."""
    named, by_name = asked_words(query), isinstance(relevance, str) and relevance in ("auto", "scorer")
    if len(pages) < 2 or not named or not by_name or not getattr(offers.scorer, "has_graph", offers.scorer is None):
        return {}
    room = min(MOST_LETTER_PIXELS, max(LEAST_PIXELS, LETTER_PIXELS // len(pages)))
    there: dict[int, np.ndarray] = {}
    found: dict[int, PageRelevance] = {}
    for number, page in enumerate(pages):
        try:
            board = _board(page, query, relevance, offers, room)
        except InputError as error:
            found[number] = PageRelevance(why=str(error), failed=True)
            continue
        if board is not None:
            there[number] = spelled(board, named)
    if len(there) < 2:
        return {}
    scores = spelled_scores(np.stack(list(there.values())), named)
    if scores.max() < LEAST_FOUND:
        return {}
    order = np.argsort(-scores, kind="stable")
    numbers = list(there)
    for place, at in enumerate(order.tolist()):
        page, belief = numbers[at], max(LEAST_SPELLED, math.exp((scores[at] - scores.max()) / SHARP))
        why = f"its letters rank it {1 + place}"
        if place < ASKED:
            asked = _drawn(pages[page], query, relevance, offers, None)
            found[page] = asked if asked.failed else replace(asked, belief=belief, why=f"{why}; {asked.why}")
        else:
            found[page] = PageRelevance(why=why)
    return found


# By page: whose letters they are, and where they stand.
_boards: WeakKeyDictionary[DocumentPage, tuple[Path, np.ndarray]] = WeakKeyDictionary()


def _board(page: DocumentPage, query: str, relevance: object, offers: PageOffers, room: int) -> np.ndarray | None:
    """The letters of a page; None where the scorer is not what it would be asked by."""
    check_stop()
    folder, board = _boards.get(page, (None, None))
    scorer = offers.scorer or ScorerRelevance.bundled()
    if not isinstance(scorer, ScorerRelevance):  # a function shows no letters
        return None
    if board is not None and folder == scorer.folder:
        return board
    scene = _scene(page, offers, room)
    if resolve(relevance, scene, query)[0].name != "scorer" or not scorer.has_graph:
        return None
    board = letter_board(scorer.folder, scene.pixels)
    if len(_boards) < KEPT_BOARDS:
        _boards[page] = (scorer.folder, board)
    return board


def _scene(page: DocumentPage, offers: PageOffers, room: int | None) -> Scene:
    """A page drawn in no more pixels than `room`, or as a picture is."""
    height, width = page.size
    side = VIEW_SIDE if room is None else max(64, round(max(page.size) * min(1.0, math.sqrt(room / (height * width)))))
    pixels = page.draw(min(side, VIEW_SIDE)).pixels
    return Scene(pixels, photos=offers.photos, device=offers.device, scorer=offers.scorer)


def _drawn(page: DocumentPage, query: str, relevance: object, offers: PageOffers, room: int | None) -> PageRelevance:
    check_stop()
    try:
        scene = _scene(page, offers, room)
    except InputError as error:
        return PageRelevance(why=str(error), failed=True)
    known = relevances_for(relevance, [scene], [query]).relevance[0]
    peak = float(known.map.max())
    return PageRelevance(known, why=f"its best place is worth {100 * peak:.0f} %")


def _no_weaker(one: PageRelevance, other: PageRelevance) -> PageRelevance:
    if one.relevance is None or one.peak >= other.peak or not one.peak:
        return one
    return replace(one, belief=other.peak / one.peak)
