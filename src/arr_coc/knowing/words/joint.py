"""Words of several pages ranked together, so that what is likely on one page can be compared with another.

Each page keeps its own phrases, neighbours and places; what depends on the question (how rare a word is, how strong the
best match is, what stands anywhere at all) is that of all pages together. For one page it is `answer_shares`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...pictures.words import Words
from .kinds import GROUPS, PATTERNS, asked_kinds, kinds_of, parts_of, stem
from .page import WordPage, word_page
from .source import ASKS, asked, page_shares

# Of plain text search: how soon more of the same word adds nothing, and how much a long page is held against it.
SATURATION, LENGTH = 1.2, 0.5
# What a word of the same group is worth beside the very word, and one that only holds it.
KINDRED, INSIDE = 0.5, 0.5
# What a page gains by values of the kind that is asked for, where no word of the question says more.
OF_KIND = 0.05


def joint_page(pages: Sequence[WordPage]) -> WordPage:
    """Several pages as one, whose rows and columns never meet: each lies right of and below the one before it."""
    if len(pages) == 1:
        return pages[0]
    phrases = np.cumsum([0, *(len(page) for page in pages)])
    words = np.cumsum([0, *(len(page.order) for page in pages)])
    all_phrases, parts = int(phrases[-1]), tuple(dict.fromkeys(part for page in pages for part in page.parts))
    place = {part: number for number, part in enumerate(parts)}
    near, owner, first_part, pairs = [], [], [], np.zeros((len(parts), pages[0].pairs.shape[1]), np.float32)
    told = 0
    for page, start in zip(pages, phrases, strict=False):
        near.append(np.where(page.neighbours == len(page), all_phrases, page.neighbours + start))
        where = np.array([place[part] for part in page.parts])
        pairs[where] = page.pairs
        owner.append(where[page.part])
        first_part.append(page.first_part + told)
        told += len(page.part)
    return replace(
        pages[0],
        order=np.concatenate([page.order + start for page, start in zip(pages, words, strict=False)]),
        first=np.concatenate([page.first + start for page, start in zip(pages, words, strict=False)]),
        phrase=np.concatenate([page.phrase + start for page, start in zip(pages, phrases, strict=False)]),
        texts=tuple(text for page in pages for text in page.texts),
        # Three units apart, a page's longer side being one: no gap between two of them is a gap on a page.
        boxes=np.concatenate([page.boxes + 3.0 * number for number, page in enumerate(pages)]),
        neighbours=np.concatenate(near),
        kinds=np.concatenate([page.kinds for page in pages]),
        word_kinds=np.concatenate([page.word_kinds for page in pages]),
        features=np.concatenate([page.features for page in pages]),
        word_features=np.concatenate([page.word_features for page in pages]),
        percentile=np.concatenate([page.percentile for page in pages]),
        parts=parts,
        stems=tuple(map(stem, parts)),
        groups=tuple(GROUPS.get(part, frozenset()) for part in parts),
        part=np.concatenate(owner),
        first_part=np.concatenate(first_part),
        pairs=pairs,
    )


def joint_shares(pages: Sequence[Words], query: str) -> list[np.ndarray]:
    """(N, 2) of each page, as `answer_shares` gives them for one: how likely each word is part of the answer, and of
    what names it, among the words of all these pages."""
    found = [np.zeros((len(words), 2), np.float32) for words in pages]
    written = [number for number, words in enumerate(pages) if len(words)]
    if not written:
        return found
    shares = page_shares(joint_page([word_page(pages[number]) for number in written]), query)
    ends = np.cumsum([len(pages[number]) for number in written])[:-1]
    for number, part in zip(written, np.split(shares, ends), strict=True):
        found[number] = part
    return found


def text_scores(texts: Sequence[str], query: str) -> np.ndarray:
    """(pages,) how well plain text search (BM25) finds the question on each page; words of one meaning count too."""
    question = asked(query)
    counted = [Counter(parts_of.__wrapped__(text)) for text in texts]  # whole pages are not kept
    lengths = np.array([sum(one.values()) for one in counted], dtype=np.float64)
    scores = np.zeros(len(texts))
    if not lengths.any():
        return scores
    damped = SATURATION * (1 - LENGTH + LENGTH * lengths / lengths[lengths > 0].mean())
    vocabulary = dict.fromkeys(part for one in counted for part in one)
    for part, weight in zip(question.parts, question.weights.tolist(), strict=True):
        worth = _alike(part, vocabulary)
        found = np.array([sum(one[other] * worth[other] for other in one.keys() & worth.keys()) for one in counted])
        if found.any():
            pages = int((found >= 0.5).sum())
            rare = math.log(1 + (len(texts) - pages + 0.5) / (pages + 0.5))
            scores += weight * rare * found / (found + damped)
    wanted = [kind for kind in PATTERNS if kind in ASKS and asked_kinds(query)[ASKS.index(kind)]]
    if wanted and scores.max() < 0.5:
        places = [list(PATTERNS).index(kind) for kind in wanted]
        scores += [
            OF_KIND * any(kinds[place] for kinds in map(kinds_of, text.split()[:2000]) for place in places)
            for text in texts
        ]
    return scores


def _alike(part: str, vocabulary: dict[str, None]) -> dict[str, float]:
    """Which words of the pages stand for a part of the question, and how surely."""
    stemmed, groups, long = stem(part), GROUPS.get(part, frozenset()), len(part) > 3 and not part.isdigit()
    worth: dict[str, float] = {}
    for other in vocabulary:
        if other == part or stem(other) == stemmed:
            worth[other] = 1.0
        elif groups and GROUPS.get(other, frozenset()) & groups:
            worth[other] = KINDRED
        elif long and part in other:
            worth[other] = INSIDE
    return worth
