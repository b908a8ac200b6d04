"""Decide for a document: the relevance of each page for a question, then one budget over all pages.

Words come first: pages with a text layer are searched as plain text, and the best are ranked word by word, without
drawing any. Scanned pages are read by OCR and searched likewise, and the best are looked at in full. If there are very
many of them, or photographs, each is looked at in a small size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from time import perf_counter

import numpy as np

from .attending.frame import Frame, as_maps, to_cells
from .attending.overlay import page_gains, share_tokens
from .balancing.choosing import relevance_for
from .core.errors import InputError, check_stop
from .core.values import DocumentAllocation, PageShare, Relevance
from .decide import View, attend
from .knowing.registry import PARTICIPATORY, find_source, is_map, several_maps
from .knowing.scene import VIEW_SIDE, RelevanceSource, Scene
from .knowing.words.answer import answer_shares
from .knowing.words.search import text_scores
from .knowing.words.source import map_of
from .options import Options, as_options
from .pictures.document import Document, DocumentPage
from .pictures.ocr import ocr_words
from .pictures.words import MOST_WORDS, Words

# Maximum number of pages whose words are ranked together, and of their words.
JOINT, JOINT_WORDS = 8, MOST_WORDS
# Weight of a page that the search does not match. Chosen on drawn documents: docs/results/documents.md.
LEAST_BELIEF = 0.05
# Score of the best page above which the search is fully trusted; below, the ranking of words counts more.
SURE_SEARCH = 1.0
# Pixels of all pages that are looked at as pictures, and the minimum for one page.
COARSE_PIXELS, LEAST_PIXELS = 12_000_000, 360_000
# Maximum number of scanned pages to read by OCR, and number of those to look at in full.
MOST_READ, ASKED = 24, 3
BY_WORDS = {PARTICIPATORY: {"words": 1.0}}

Found = dict[int, "PageRelevance"]
SceneMaker = Callable[..., Scene]  # from the pixels of a page


@dataclass(frozen=True, eq=False)
class PageRelevance:
    """The relevance of one page. relevance: its map; None if nothing is known. belief: the weight of the page among the
    others. why: one line. failed: it could not be drawn."""

    relevance: Relevance | None = None
    belief: float = 1.0
    why: str = ""
    failed: bool = False

    @property
    def peak(self) -> float:
        """Value of its best place."""
        return 0.0 if self.relevance is None else float(self.relevance.map.max()) * self.belief


def page_relevances(
    document: Document,
    query: str,
    relevance: object = "auto",
    options: Options | None = None,
    scorer: RelevanceSource | None = None,
) -> tuple[list[PageRelevance], tuple[str, ...]]:
    """Compute the relevance of every page, comparable between pages, and notes that say where it comes from.

    Args:
        document: The document; its pages are drawn only if their pixels are needed.
        query: The question.
        relevance: As for `look`: "auto", a source's name, a function of (picture, question), or one map for each page.
        options: Device, use of the object detector (`photos`), and the law of balancing.
        scorer: The scorer that was trained with the model, if there is one.

    Returns:
        One `PageRelevance` for each page, in order; notes.
    """
    options, pages = as_options(options), document.pages
    maps = [relevance] if is_map(relevance) else several_maps(relevance)
    if maps is not None:
        if len(maps) != len(pages) or not all(one is None or is_map(one) for one in maps):
            raise InputError(f"relevance= gives {len(maps)} maps for {len(pages)} pages; give one for each")
        known = (one if isinstance(one, Relevance | None) else Relevance(np.asarray(one), query) for one in maps)
        return [PageRelevance(one) for one in known], ("relevance: as the caller gave it, page by page",)
    found: Found = {}
    notes: list[str] = []
    if relevance in ("auto", "words"):
        found, notes = _by_words(document, query)
    drawn = {number: page for number, page in enumerate(pages) if number not in found}
    if drawn and relevance != "auto":
        find_source(relevance)  # refuse an unknown name before any page is drawn
    scene_of = partial(Scene, photos=options.photos, device=options.device, scorer=scorer, law=options.balancing)
    few = relevance == "auto" and 1 < len(drawn) <= MOST_READ
    read = _by_reading(drawn, query, scene_of) if few else {}
    most_pixels = max(LEAST_PIXELS, COARSE_PIXELS // max(1, len(drawn) - len(read)))
    for number, page in drawn.items():
        found[number] = read.get(number) or _by_picture(page, query, scene_of, relevance, most_pixels)
        if (seen := found[number].relevance) is not None:
            notes += seen.notes[:1]
    if read:
        asked = sum(one.relevance is not None for one in read.values())
        notes.append(f"{len(read)} scanned pages were read and searched, and the best {asked} looked at in full")
    return [found[number] for number in range(len(pages))], tuple(dict.fromkeys(notes))


def _by_words(document: Document, query: str) -> tuple[Found, list[str]]:
    """Search pages with words, then rank the best together. A page whose words have no boxes is only searched."""
    written = [number for number, text in enumerate(document.texts) if text.strip()]
    if not written:
        return {}, []
    scores = text_scores([document.texts[number] for number in written], query)
    top = max(float(scores.max()), 1e-9)
    trusted = min(1.0, top / SURE_SEARCH)
    order = np.argsort(-scores, kind="stable").tolist()
    found = {written[at]: PageRelevance(why=f"plain text search ranks it {1 + rank}") for rank, at in enumerate(order)}
    words: dict[int, Words] = {}
    for at in order[:JOINT]:
        held = document.pages[written[at]].words
        if held is not None:
            if words and sum(map(len, words.values())) + len(held) > JOINT_WORDS:
                break
            words[at] = held
    shares = [answer_shares(held, query) for held in words.values()]
    likely = max((float(share[:, 0].max()) for share in shares), default=1.0)
    for (at, held), share in zip(words.items(), shares, strict=True):
        likeliest = int(share[:, 0].argmax())
        chance = float(share[likeliest, 0])
        belief = 1 - trusted * (1 - LEAST_BELIEF) * (1 - (float(scores[at]) / top) ** 2)
        belief *= math.sqrt(chance / max(likely, 1e-9))
        why = f"{held.texts[likeliest]!r} may answer, {100 * chance:.0f} %"
        found[written[at]] = PageRelevance(Relevance(map_of(held, share), query, ways=BY_WORDS), belief, why)
    known = f"relevance 'words', chosen because the words of {len(written)} pages are known"
    return found, [f"{known}: plain text search, and the {len(words)} best pages ranked together"]


def _by_reading(pages: Mapping[int, DocumentPage], query: str, scene_of: SceneMaker) -> Found:
    """Read scanned pages by OCR and search them as plain text; look at the best with their words. {} if none fits."""
    found: Found = {}
    read: dict[int, Words] = {}
    for number, page in pages.items():
        check_stop()
        try:
            read[number] = ocr_words(page.draw(VIEW_SIDE).pixels)
        except InputError as error:
            found[number] = PageRelevance(why=str(error), failed=True)
    scores = text_scores([" ".join(words.texts) for words in read.values()], query)
    top = float(scores.max(initial=0.0))
    if top <= 0:
        return {}
    numbers = list(read)
    for rank, at in enumerate(np.argsort(-scores, kind="stable").tolist()):
        one = PageRelevance(why=f"plain text search ranks it {1 + rank}")
        if rank < ASKED:
            number = numbers[at]
            asked = _by_picture(pages[number], query, scene_of, words=read[number])
            belief = max(LEAST_BELIEF, (float(scores[at]) / top) ** 2)
            one = asked if asked.failed else replace(asked, belief=belief, why=f"{one.why}; {asked.why}")
        found[numbers[at]] = one
    return found


def _by_picture(
    page: DocumentPage,
    query: str,
    scene_of: SceneMaker,
    relevance: object = "auto",
    most_pixels: int | None = None,
    words: Words | None = None,
) -> PageRelevance:
    """Look at a page as a picture, which is drawn and not kept. most_pixels: maximum size of the drawing, by default as
    for pictures. words: those read from it."""
    check_stop()
    side = VIEW_SIDE
    if most_pixels is not None:
        side = min(side, max(64, round(max(page.size) * min(1.0, math.sqrt(most_pixels / math.prod(page.size))))))
    try:
        pixels = page.draw(side).pixels
    except InputError as error:
        return PageRelevance(why=str(error), failed=True)
    known = relevance_for(relevance, scene_of(pixels, words=words or None), query)
    return PageRelevance(known, why=f"its best place is worth {100 * float(known.map.max()):.0f} %")


# ---- one budget over all pages --------------------------------------------------------------------------------------

# Default budget of a document: a quarter of its pages, at most this number of tokens.
DEFAULT_MOST = 4096
# Beginning of the note that lists pages without tokens.
LEFT_OUT = "without a token: "


@dataclass(frozen=True, eq=False)
class DocumentLook:
    """An allocation, what led to it, and the seconds of each stage. relevances: one for each page."""

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
    scorer: RelevanceSource | None = None,
    most: int | None = None,
) -> DocumentLook:
    """Decide where the tokens go over the pages of a document.

    Args:
        document: The document; its pages are drawn only if their pixels are needed.
        query: The question.
        options: The budget of all pages, and the strategy inside a page.
        relevance: As for `look`, or one map for each page.
        scorer: The scorer that was trained with the model, if there is one.
        most: Maximum number of pages with tokens; None: any number.

    Returns:
        The allocation with everything that led to it.
    """
    started = perf_counter()
    relevances, notes = page_relevances(document, query, relevance, options, scorer)
    known = perf_counter()
    allocation = allocate_pages(document, relevances, options, most=most)
    allocation = replace(allocation, notes=tuple(dict.fromkeys((*document.notes, *notes, *allocation.notes))))
    seconds = {"know": known - started, "attend": perf_counter() - known}
    return DocumentLook(document, allocation, tuple(relevances), query, seconds)


def allocate_pages(
    document: Document, relevances: Sequence[PageRelevance], options: Options, *, most: int | None = None
) -> DocumentAllocation:
    """Spend one budget exactly over pages whose relevance is known. most: maximum number of pages with tokens."""
    pages = document.pages
    frames = [Frame(page.size, options.cell, options.canvas) for page in pages]
    full = [frame.full for frame in frames]
    chosen = [number for number in range(len(pages)) if not relevances[number].failed]
    if not chosen:
        raise InputError(f"no page of {document.name} can be drawn; {relevances[0].why}")
    cells = {number: _cells(relevances[number], frames[number]) for number in chosen}
    gains = {number: page_gains(cells[number], full[number], relevances[number].belief) for number in chosen}
    if most is not None and len(chosen) > most:
        # Keep the pages whose first tokens gain most; pages of which nothing is known come last, in order.
        chosen = sorted(sorted(chosen, key=lambda number: -gains[number][:16].sum())[:most])
    whole = sum(full[number] for number in chosen)
    wanted, notes = document_budget(options, sum(full), whole)
    tokens = dict(zip(chosen, share_tokens([gains[number] for number in chosen], wanted), strict=True))
    shares = []
    for number, page in enumerate(pages):
        spent, given = tokens.get(number, 0), None
        if spent:
            known = relevances[number].relevance or Relevance(np.zeros((1, 1)))
            given = attend([View(page.size, frames[number])], [known], [spent], options)[0].allocation
        why, worth = _reason(relevances[number], spent), relevances[number].peak
        shares.append(PageShare(page.number, page.name, full[number], given, why, worth))
    out = [share.number for share in shares if not share.tokens]
    if out:
        notes = (*notes, f"{LEFT_OUT}{'page' if len(out) == 1 else 'pages'} {listed(out)}")
    return DocumentAllocation(tuple(shares), wanted, options.layout, document.name, document.of_pages, notes)


def document_budget(options: Options, full: int, whole: int) -> tuple[int, tuple[str, ...]]:
    """Return the tokens for a document that costs `full`, at most `whole`, the cost of its usable pages; and notes."""
    options.check_fixed("a document")
    notes: tuple[str, ...] = ()
    if options.budget is None and options.wanted(full) > DEFAULT_MOST:
        options = replace(options, budget=DEFAULT_MOST)
        notes = (f"no budget was given: {DEFAULT_MOST} tokens for the whole document",)
    return options.capped(min(options.wanted(full), whole)), (*notes, *options.notes(whole, "all pages"))


def listed(numbers: Sequence[int]) -> str:
    """Format page numbers: [1, 2, 3, 5] → "1-3, 5"."""
    runs = groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(group) for _, group in runs)]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ends)


def _cells(one: PageRelevance, frame: Frame) -> np.ndarray | None:
    if one.relevance is None or not one.relevance.map.any():
        return None
    return to_cells(as_maps(one.relevance), frame)[0]


def _reason(one: PageRelevance, tokens: int) -> str:
    if one.failed:
        return one.why
    if not tokens:
        return f"left out; {one.why}" if one.why else "left out: other pages gain more"
    if tokens > 1 and one.relevance is not None:
        return one.why
    return f"overview only; {one.why}" if one.why else "overview"
