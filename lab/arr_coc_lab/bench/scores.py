"""Scores: how an answer is held against the true ones, and how much of what matters an allocation shows.

Answers are scored as each public set's own evaluation does it, 0 to 1. anls: DocVQA, InfographicVQA (Mathew et al.).
relaxed_accuracy: ChartQA (Masry et al.), 5 %. vqa_accuracy: VQAv2 (Antol, Goyal et al.), ten people's answers, and
TextVQA, whose texts are cut a little further. choice: multiple choice, V*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from arr_coc.core.values import Allocation

ANLS_THRESHOLD, RELAXED = 0.5, 0.05
PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = {"none": 0, **{name: number for number, name in enumerate(NUMBERS)}}
ARTICLES = ("a", "an", "the")
# An answer that lacks one of the apostrophes gets it back.
APOSTROPHES = re.findall(
    r"\S+",
    """
    ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd he'd've
    he's how'd how'll how's I'd've I'm I've isn't it'd it'd've it'll ma'am mightn't mightn't've might've mustn't must've
    needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've somebody'd've somebody'll
    somebody's someone'd someone'd've someone'll someone's something'd something'd've something'll that's there'd
    there'd've there're there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll
    what're what's what've when's where'd where's where've who'd who'd've who'll who's who've why'll why're why's won't
    would've wouldn't wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're you've
    """,
)
CONTRACTIONS = {
    word[: place.start()] + word[place.end() :]: word for word in APOSTROPHES for place in re.finditer("'", word)
} | {"somebody'd": "somebodyd"}  # so in the official table


def anls(said: str, answers: Sequence[str]) -> float:
    """1 − edits over the longer length for the nearest answer; 0 below a half."""
    best = 0.0
    for answer in answers:
        distance = Levenshtein.distance(" ".join(answer.lower().split()), " ".join(said.lower().split()))
        longest = max(len(answer), len(said))
        best = max(best, 1.0 - distance / longest if longest else 1.0)
    return best if best >= ANLS_THRESHOLD else 0.0


def relaxed_accuracy(said: str, answers: Sequence[str]) -> float:
    """Numbers within 5 % of the true one, anything else by its letters whatever their case."""
    return float(any(_relaxed(said.strip(), answer.strip()) for answer in answers))


def _relaxed(said: str, answer: str) -> bool:
    found, true = _number(said), _number(answer)
    if found is not None and true:
        return abs(found - true) / abs(true) <= RELAXED
    return said.lower() == answer.lower()


def _number(text: str) -> float | None:
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def vqa_accuracy(said: str, answers: Sequence[str]) -> float:
    """Three of ten people are enough; averaged over leaving each of them out."""
    return _agreement(normalised(said), [normalised(answer) for answer in answers])


def textvqa_accuracy(said: str, answers: Sequence[str]) -> float:
    """The same behind the tokeniser of TextVQA's evaluation."""
    return _agreement(normalised(_tokenised(said)), [normalised(_tokenised(answer)) for answer in answers])


def _agreement(said: str, answers: Sequence[str]) -> float:
    same = np.array([answer == said for answer in answers])
    return float(np.minimum(1.0, (same.sum() - same) / 3).mean()) if len(same) else 0.0


def _tokenised(text: str) -> str:
    return text.lower().replace(",", "").replace("?", "").replace("'s", " 's").strip()


def normalised(text: str) -> str:
    """Without punctuation and articles, numbers as digits, apostrophes in their places."""
    text = text.replace("\n", " ").replace("\t", " ").strip()
    given, grouped = text, re.search(r"\d,\d", text) is not None
    for mark in PUNCTUATION:
        apart = f"{mark} " in given or f" {mark}" in given or grouped
        text = text.replace(mark, "" if apart else " ")
    text = re.sub(r"\.(?!\d)", "", text)
    words = (str(DIGITS.get(word, word)) for word in text.lower().split())
    return " ".join(CONTRACTIONS.get(word, word) for word in words if word not in ARTICLES)


def exact(said: str, answers: Sequence[str]) -> float:
    return float(said.strip() in [answer.strip() for answer in answers])


def choice(said: str, answers: Sequence[str]) -> float:
    """answers: the letter. Said alone or first, in brackets, or behind "answer is"."""
    said = said.strip()
    patterns = (r"\(?([A-Za-z])\)?(?:[.:),]|\s*$)", r".*?\(([A-Z])\)", r".*?\b(?i:answer)(?: is)?:? *\(?([A-Za-z])\b")
    found = next((match for match in (re.match(one, said, re.DOTALL) for one in patterns) if match), None)
    return float(found is not None and found[1].upper() in [answer.strip().strip("()").upper() for answer in answers])


# ---- what an allocation shows ----------------------------------------------------------------------------------------

BOARD = 64  # side of a map of boxes


def coverage(allocation: Allocation, boxes: np.ndarray, any_of: bool = False, level: int = 0) -> float:
    """Share of the relevant boxes (K, 4: x0, y0, x1, y1 in 0–1) that is seen at a level or finer; with any_of, of the
    best one. What leaves cover of a box adds up, those left out that lie under or on another one that counts. Several
    boxes count by their area."""
    scale = np.array([allocation.width, allocation.height] * 2, dtype=float)
    x0, y0, x1, y1 = (np.asarray(boxes, dtype=float).reshape(-1, 4) * scale).T[:, None]
    fine = allocation.boxes[_outermost(allocation, level)].astype(float)
    top, left, height, width = fine.T[:, :, None]
    down = np.clip(np.minimum(y1, top + height) - np.maximum(y0, top), 0, None)
    across = np.clip(np.minimum(x1, left + width) - np.maximum(x0, left), 0, None)
    seen = (down * across).sum(0)
    area = np.maximum(((x1 - x0) * (y1 - y0))[0], 1e-9)
    return float((seen / area).max()) if any_of else float(seen.sum() / area.sum())


def _outermost(allocation: Allocation, level: int) -> np.ndarray:
    """(N,) bool: leaves of a level or finer that lie in no other such leaf."""
    row, col, own = allocation.leaf_cells().T
    alone = own <= level
    for coarse in range(1, level + 1):
        name = ((row >> coarse) << 32) | (col >> coarse)
        alone &= ~((own < coarse) & np.isin(name, name[own == coarse]))
    return alone


def tokens_to_reach(seen: Callable[[int], float], full: int, share: float) -> int:
    """A budget that shows the share where one token less does not, found by halving: seen(budget) is asked
    log2(full) times. It is the smallest such where more tokens never show less; an overlay's overview grows in steps,
    so there it can be one of a few. The whole picture counts as reaching it."""
    short, enough = 0, full
    while enough - short > 1:
        middle = (short + enough) // 2
        short, enough = (short, middle) if seen(middle) >= share else (middle, enough)
    return enough


def box_map(*boxes: Sequence[float] | np.ndarray) -> np.ndarray:
    """(64, 64) float32: 1 where a box of x0, y0, x1, y1 in 0–1 reaches."""
    board = np.zeros((BOARD, BOARD), np.float32)
    for box in boxes:
        x0, y0, x1, y1 = (np.array(box) * BOARD).tolist()
        board[int(y0) : max(int(np.ceil(y1)), int(y0) + 1), int(x0) : max(int(np.ceil(x1)), int(x0) + 1)] = 1.0
    return board
