"""Words that are known are read, not guessed: what a page's own words add to an answer.

A page may bring its words: the text layer of a PDF, a file of hOCR, OCR. They tell where to look, and they can be read.
A stock model gets those that stand where the page is shown in detail as text in its prompt. The bundled `mini` was
never taught to read such a prompt: for it the answer is also copied from the words, and the surer of the two wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..core.errors import shown
from ..core.values import Allocation, Answer, comparable
from ..knowing.words.answer import WordsAnswer
from ..pictures.words import Words

# Words of one page that go into a prompt.
MOST_HINTS = 200
INTRODUCTION = "Words that stand on picture {page} where it is shown in detail:\n{text}"
# What is left of the sureness of pixels where the words of the page say otherwise.
DOUBTED = 0.5
PIXELS, COPIED, BOTH = "pixels", "words", "words and pixels"
# The same where OCR has read the words, which may be misread.
READ, READ_BOTH = "words by OCR", "words by OCR and pixels"


def seen_words(words: Words, allocation: Allocation) -> np.ndarray:
    """(n,) places of the words that stand in or beside the finest leaves, in reading order; at most `MOST_HINTS`."""
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
    """What the prompt says of a page: its words in detail, a line for each line; "" where there is none."""
    places = seen_words(words, allocation)
    lines: list[list[str]] = []
    last = None
    for place in places.tolist():
        if words.lines[place] != last:
            lines.append([])
            last = words.lines[place]
        lines[-1].append(words.texts[place])
    text = "\n".join(" ".join(line) for line in lines)
    return INTRODUCTION.format(page=page, text=text) if text else ""


def hints_of(words: object, allocations: Sequence[Allocation]) -> str:
    """The hints of all pages together. words: of one page, or one entry for each; None for a page without."""
    several = list(words) if isinstance(words, list | tuple) else [words]
    told = [
        hint_text(one, allocation, page)
        for page, (one, allocation) in enumerate(zip(several, allocations, strict=False), start=1)
        if one is not None
    ]
    return "\n".join(text for text in told if text)


def settled(answer: Answer, copied: WordsAnswer) -> Answer:
    """Of what was read from pixels and what was copied from words, the surer; both, where they agree."""
    said, written = 1.0 - answer.uncertainty, copied.sureness
    if comparable(answer.text) == comparable(copied.text):
        both = READ_BOTH if copied.by_ocr else BOTH
        return replace(answer, text=copied.text, uncertainty=(1 - said) * (1 - written), source=both)
    # Where the two differ, a reading of pixels was right half as often as it said (82 questions about drawn pages).
    said *= DOUBTED
    if written < said:
        return replace(answer, uncertainty=1 - said)
    whose = "words that OCR read" if copied.by_ocr else "the page's words"
    note = f"copied from {whose}; the pixels were read as {shown(answer.text)}"
    source = READ if copied.by_ocr else COPIED
    return replace(answer, text=copied.text, uncertainty=1 - written, source=source, notes=(*answer.notes, note))
