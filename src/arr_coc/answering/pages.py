"""Questions about documents: its pages become pictures of one prompt, or are read one after another. What the words
of a page add to an answer.

A model that was taught several pictures sees every page that got tokens, with page marks, and its prompt names the
others. One that was taught single pictures reads the best page, and the next where it is unsure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

import numpy as np

from ..core.answer import Answer, Pass, comparable, is_unsure, summed
from ..core.errors import InputError, shown
from ..core.values import Allocation, Relevance
from ..decide_document import DocumentLook, listed, look_through
from ..knowing.language.senses import asks_by_sight
from ..knowing.registry import find_source
from ..knowing.scene import RelevanceSource
from ..knowing.words.answer import WordsAnswer
from ..options import Options
from ..pictures.document import Document, DocumentPage
from ..pictures.load import Picture
from ..pictures.words import Words
from ..realizing.bundled import log_odds, logistic
from .chat import Turn

# Pages that are read one after another, and pages of one prompt.
MOST_READ, MOST_PAGES_SHOWN = 3, 64
# Up to this many tokens a page is shown small: more of it would be read, cut into patches and thrown away.
SMALL_TOKENS, SMALL_SIDE = 4, 256
# What an answer is worth from a page for which nothing speaks, beside one from the page that is believed most.
DOUBTED = 0.25
MARK = "Page {number} of {of_pages}:"


@dataclass(frozen=True, eq=False)
class OpenedPages:
    """turns: the conversation with pages in place of documents. groups: which pictures share a budget. pages: the
    number of each picture's page. options: with a budget and a map for each picture."""

    turns: tuple[Turn, ...]
    groups: tuple[int, ...]
    pages: tuple[int, ...]
    of_pages: int
    notes: tuple[str, ...]
    seconds: float
    options: Options


def open_pages(
    turns: Sequence[Turn], question: str, options: Options, scorer: RelevanceSource | None, most: int | None = None
) -> OpenedPages:
    """Open the documents of a conversation at the pages that get tokens; return how its pictures share budgets.

    turns: of the conversation; other pictures in it are documents of one page. options: how much may be spent on each
    document, or on all pictures where they say `total`. scorer: the one that was trained with the model. most: pages
    that are shown. 1: the model reads one picture, and gets the best page without marks.
    """
    if isinstance(options.budget, list):
        raise InputError("several budgets are for several pictures; a document takes one number")
    single, together = most == 1, options.total or most == 1
    parts = [part for turn in turns for part in turn.parts if not isinstance(part, str)]
    # A picture, perhaps of a view, is a document of one page.
    documents = [one if isinstance(one, Document) else Document.of(getattr(one, "picture", one)) for one in parts]
    books = [Document.of(documents) if len(documents) > 1 else documents[0]] if together else documents
    relevance, most = for_pages(options.relevance), MOST_PAGES_SHOWN if most is None else most
    looks = [look_through(one, question, options, relevance, scorer, most) for one in books]
    found = iter([page for look in looks for page in zip(look.allocation.pages, look.relevances, strict=True)])
    notes, hidden = [note for look in looks for note in look.notes], []
    taken: list[tuple[Relevance, int, int]] = []  # of each picture that is shown: its map, its group and its page
    shown: list[list[object]] = []  # of each document: marks, and pictures of the pages with tokens
    for number, (held, document) in enumerate(zip(parts, documents, strict=True)):
        several, left, pieces = len(document) > 1, [], list[object]()
        for page, (share, known) in zip(document, found, strict=False):
            if not share.tokens:
                left.append(page.number)
                continue
            if several and not single:
                pieces.append(MARK.format(number=page.number, of_pages=document.of_pages))
            small = SMALL_SIDE if share.tokens <= SMALL_TOKENS and several else None
            pieces.append(page.draw(small) if isinstance(held, Document) else held)
            seen = Relevance(np.zeros((1, 1))) if known.relevance is None else known.relevance
            seen = replace(seen, map=np.clip(seen.map * known.belief, 0, 1), query=question, notes=())
            taken.append((seen, 0 if together else number, page.number))
            if several and share.tokens > 1:
                notes.append(f"page {page.number} of {document.of_pages}: {share.tokens} tokens; {share.why}")
        shown.append(pieces)
        if several and left and not single:
            noun = "Page" if len(left) == 1 else "Pages"
            hidden.append(f"{noun} {listed(left)} of {document.of_pages} are not shown.")
    pages, opened = iter(shown), list[Turn]()
    for turn in turns:
        pieces = [[part] if isinstance(part, str) else next(pages) for part in turn.parts]
        opened.append(replace(turn, parts=tuple(chain.from_iterable(pieces))))
    if hidden:  # the turn that asks names the pages that are not shown
        last = list(opened[-1].parts)
        place = max(number for number, part in enumerate(last) if isinstance(part, str))
        last[place] = f"({' '.join(hidden)}) {last[place]}"
        opened[-1] = replace(opened[-1], parts=tuple(last))
    maps, groups, numbers = zip(*taken, strict=True)
    # Budgets as numbers, one for each look: a share is that of all pages, also of those that are not shown.
    budgets = [look.allocation.budget for look in looks]
    return OpenedPages(
        tuple(opened),
        groups,
        numbers,
        sum(document.of_pages or 1 for document in documents),
        tuple(dict.fromkeys(notes)),
        sum(sum(look.seconds.values()) for look in looks),
        replace(options, budget=budgets[0] if len(budgets) == 1 else budgets, relevance=list(maps), words=None),
    )


def for_pages(relevance: object) -> object:
    """Refuse sources that need the model itself, before it has seen anything."""
    if isinstance(relevance, str) and relevance != "auto" and find_source(relevance).asks_model:
        return "auto"
    return "auto" if relevance is None else relevance


# ---- page by page ----------------------------------------------------------------------------------------------------

# (picture, its words, tokens, relevance) → the answer about it alone.
PageAsker = Callable[[Picture, Words | None, int, Relevance | None], Answer]


def ask_page_by_page(
    document: Document, query: str, options: Options, scorer: RelevanceSource | None, asker: PageAsker
) -> Answer:
    """Ask the best page, then the next while unsure; return the surest answer. The budget is that of all of them.

    options: how much may be spent in all; a quarter of one page by default. scorer: the one that was trained with the
    model. asker: asks about one page. `pages` of the answer names the page of each pass, the one that answers last.
    """
    if options.budget is None:
        largest = max(-(-page.size[0] // options.cell) * -(-page.size[1] // options.cell) for page in document)
        options = replace(options, budget=max(1, largest // 4))
    look = look_through(document, query, options, for_pages(options.relevance), scorer, MOST_READ)
    by_number = {page.number: number for number, page in enumerate(document.pages)}
    asked: list[tuple[DocumentPage, Answer]] = []
    for share in sorted(look.allocation.funded, key=lambda one: (-one.worth, -one.tokens, one.number))[:MOST_READ]:
        number = by_number[share.number]
        page, known = document.pages[number], look.relevances[number].relevance
        answer = asker(page.draw(), page.words, share.tokens, known)
        asked.append((page, answer))
        if not is_unsure(answer.uncertainty):
            break
    return _surest(look, asked)


def _surest(look: DocumentLook, asked: Sequence[tuple[DocumentPage, Answer]]) -> Answer:
    """Choose the sure answer on a reliable page; its passes come last."""
    peaks = {page.number: known.peak for page, known in zip(look.document, look.relevances, strict=True)}
    most = max(max(peaks.values()), 1e-9)

    def worth(one: tuple[DocumentPage, Answer]) -> float:
        return (1 - one[1].uncertainty) * (DOUBTED + (1 - DOUBTED) * peaks[one[0].number] / most)

    order = sorted(asked, key=worth)
    page, best = order[-1]
    passes: list[Pass] = [step for _, answer in order for step in answer.passes]
    numbers = [one.number for one, answer in order for _ in answer.passes]
    seconds = summed((look.seconds, *(answer.seconds for _, answer in asked)))
    of_pages = look.document.of_pages
    note = f"page {page.number} of {of_pages} answers; looked at {listed([one.number for one, _ in asked])}"
    notes = tuple(dict.fromkeys((note, *look.document.notes, *look.notes[:1], *best.notes)))
    whole = {"seconds": seconds, "full": look.allocation.full, "notes": notes}
    return replace(best, passes=tuple(passes), pages=tuple(numbers), of_pages=of_pages, **whole)


# ---- what the words of a page add to an answer -----------------------------------------------------------------------
#
# A page may bring its words: the text layer of a PDF, a file of hOCR, OCR. They say where to look, and they can be
# read. A stock model gets those that stand where the page is shown in detail as text in its prompt. The bundled `mini`
# was never taught to read such a prompt: for it the answer is also copied from the words, and the likelier one wins.

# Words of one page that go into a prompt.
MOST_HINTS = 200
INTRODUCTION = "Words that stand on picture {page} where it is shown in detail:\n{text}"
# How sure an answer is by the odds of its sources, slope and shift: where pixels and words agree, of both together;
# where they differ, of pixels and of words. Where a question asks for what is seen, not written, words lose and pixels
# gain odds. Fitted on 259 questions about drawn pages of layouts that no training saw and pictures of Needle World,
# read by OCR: 68.0 % right, by words alone 63.3, by pixels alone 47.1. The slope of pixels is a little steeper than
# fitted: of 13 readings surer than 0.98 that the words contradicted 10 were right, and the words in 2.
AGREED, SAID, WRITTEN = (0.32, 0.34), (0.70, -2.6), (0.94, -0.8)
BY_SIGHT = 2.0
PIXELS, COPIED, BOTH = "pixels", "words", "words and pixels"
# The same where OCR has read the words, which may be misread.
READ, READ_BOTH = "words by OCR", "words by OCR and pixels"


def seen_words(words: Words, allocation: Allocation) -> np.ndarray:
    """Return the places (n,) of words in or beside the finest leaves, in reading order; at most `MOST_HINTS`."""
    levels = np.asarray(allocation.levels)
    fine = np.asarray(allocation.boxes, dtype=np.float64)[levels == levels.min()]
    extent = np.array([allocation.height, allocation.width], dtype=np.float64)
    top, left, tall, wide = (fine / np.tile(extent, 2)).T
    x0, y0, x1, y1 = words.boxes.astype(np.float64).T
    # As far around a leaf as half of it is large: a word is seldom cut where its cell ends.
    down, across = (y0 + y1)[:, None] / 2, (x0 + x1)[:, None] / 2
    inside = (
        (down > top - tall / 2) & (down < top + 1.5 * tall) & (across > left - wide / 2) & (across < left + 1.5 * wide)
    )
    found = np.flatnonzero(inside.any(1))[:MOST_HINTS]
    _, line = np.unique(words.lines[found], return_inverse=True)
    count = np.maximum(np.bincount(line), 1)
    height = np.bincount(line, weights=(y0 + y1)[found]) / count
    return found[np.lexsort((x0[found], height[line]))] if len(found) else found


def hint_text(words: Words, allocation: Allocation, page: int = 1) -> str:
    """Return the text for the prompt: a page's words in detail, line by line; "" if there are none."""
    lines = groupby(seen_words(words, allocation).tolist(), key=lambda place: int(words.lines[place]))
    text = "\n".join(" ".join(words.texts[place] for place in line) for _, line in lines)
    return INTRODUCTION.format(page=page, text=text) if text else ""


def hints_of(words: object, allocations: Sequence[Allocation]) -> str:
    """Return the hints of all pages together. words: of one page, or one entry for each; None for a page without."""
    several = list(words) if isinstance(words, list | tuple) else [words]
    pages = enumerate(zip(several, allocations, strict=False), start=1)
    texts = [hint_text(one, allocation, page) for page, (one, allocation) in pages if one is not None]
    return "\n".join(text for text in texts if text)


def settled(answer: Answer, copied: WordsAnswer, query: str) -> Answer:
    """Choose the likelier of the answers read from pixels and copied from words; join them if they agree."""
    pixels, words = log_odds(1.0 - answer.uncertainty), log_odds(copied.sureness)
    if comparable(answer.text) == comparable(copied.text):
        both = READ_BOTH if copied.by_ocr else BOTH
        sure = logistic(AGREED[0] * (pixels + words) + AGREED[1])
        # OCR misses spaces and signs of currency; a text layer does not.
        text = max(copied.text, answer.text, key=len) if copied.by_ocr else copied.text
        return replace(answer, text=text, uncertainty=1 - sure, source=both)
    seen = BY_SIGHT if asks_by_sight(query) else 0.0
    said, written = logistic(SAID[0] * pixels + SAID[1] + seen), logistic(WRITTEN[0] * words + WRITTEN[1] - seen)
    if written < said:
        return replace(answer, uncertainty=1 - said)
    whose = "words that OCR read" if copied.by_ocr else "the page's words"
    note = f"copied from {whose}; the pixels were read as {shown(answer.text)}"
    source = READ if copied.by_ocr else COPIED
    return replace(answer, text=copied.text, uncertainty=1 - written, source=source, notes=(*answer.notes, note))
