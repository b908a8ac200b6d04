"""The quadtree as a textbook writes it: a heap in plain Python, one picture at a time. The allocator's naive form."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np


def heap_quadtree(relevance: np.ndarray, budget: int, levels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Pop the node with most relevance inside, push its four children, repeat: what `attending.quadtree` computes.

    relevance: (rows, cols) of level-0 cells, both sides divisible by 2**levels. Returns (N, 3) row, column and level of
    the leaves in raster order, and (N,) their mean relevance.
    """
    rows, cols = relevance.shape
    side = 1 << levels
    # Ties go to the coarser node, then to the earlier place.
    heap = [
        (-float(relevance[row : row + side, col : col + side].sum()), -levels, row, col)
        for row in range(0, rows, side)
        for col in range(0, cols, side)
    ]
    heapify(heap)
    leaves = []
    count = len(heap)
    while heap and count + 3 <= budget:
        _, level, row, col = heappop(heap)
        level = -level - 1
        side = 1 << level
        count += 3
        for child_row in (row, row + side):
            for child_col in (col, col + side):
                mass = float(relevance[child_row : child_row + side, child_col : child_col + side].sum())
                if level:
                    heappush(heap, (-mass, -level, child_row, child_col))
                else:
                    leaves.append((child_row, child_col, 0, mass))
    leaves += [(row, col, -level, -negative / 4**-level) for negative, level, row, col in heap]
    leaves.sort()
    cells = np.array([leaf[:3] for leaf in leaves])
    return cells, np.array([leaf[3] for leaf in leaves], dtype=np.float32)
