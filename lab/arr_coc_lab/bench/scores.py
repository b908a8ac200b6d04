"""Score answers against the right ones, and allocations by how much of the relevant boxes they show.

Answers are scored like the evaluation of each public set, 0 to 1. anls: DocVQA, InfographicVQA (Mathew et al.).
relaxed_accuracy: ChartQA (Masry et al.), 5 %. For other public sets there is lmms-eval (`lmms`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from arr_coc.core.values import Allocation

ANLS_THRESHOLD, RELAXED = 0.5, 0.05


def anls(said: str, answers: Sequence[str]) -> float:
    """Return 1 − edit distance over the longer length for the nearest answer; 0 below a half."""
    best = 0.0
    for answer in answers:
        distance = Levenshtein.distance(" ".join(answer.lower().split()), " ".join(said.lower().split()))
        longest = max(len(answer), len(said))
        best = max(best, 1.0 - distance / longest if longest else 1.0)
    return best if best >= ANLS_THRESHOLD else 0.0


def relaxed_accuracy(said: str, answers: Sequence[str]) -> float:
    """Score numbers as right within 5 % of the true one, texts by equality without case."""
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


def exact(said: str, answers: Sequence[str]) -> float:
    return float(said.strip() in [answer.strip() for answer in answers])


# ---- what an allocation shows ----------------------------------------------------------------------------------------

BOARD = 64  # side of a map of boxes


def coverage(allocation: Allocation, boxes: np.ndarray, any_of: bool = False, level: int = 0) -> float:
    """Return the share of the relevant boxes (K, 4: x0, y0, x1, y1 in 0–1) seen at a level or finer; with any_of, of
    the best box. Sums the covered area over leaves that lie in no other such leaf. Several boxes are weighted by
    area."""
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
    """Return a mask (N,) of leaves of a level or finer that lie in no other such leaf."""
    row, col, own = allocation.leaf_cells().T
    alone = own <= level
    for coarse in range(1, level + 1):
        name = ((row >> coarse) << 32) | (col >> coarse)
        alone &= ~((own < coarse) & np.isin(name, name[own == coarse]))
    return alone


def box_map(*boxes: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return a map (64, 64) float32 with 1 inside boxes x0, y0, x1, y1 in 0–1."""
    board = np.zeros((BOARD, BOARD), np.float32)
    for box in boxes:
        x0, y0, x1, y1 = (np.array(box) * BOARD).tolist()
        board[int(y0) : max(int(np.ceil(y1)), int(y0) + 1), int(x0) : max(int(np.ceil(x1)), int(x0) + 1)] = 1.0
    return board
