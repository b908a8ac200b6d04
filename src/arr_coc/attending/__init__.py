"""ATTEND: from relevance and a budget to an `Allocation`. One call for every strategy.

Names are resolved on first use: one picture's overlay or quadtree needs no torch, everything else does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .allocate import allocate
    from .allocate_batch import allocate_batch
    from .classic import PowerCurve
    from .frame import Frame, to_cells
    from .overlay import overlay
    from .places import Fixations, fixate
    from .quadtree import quadtree
    from .quadtree_numpy import quadtree_numpy
    from .request import boxes_to_cells
    from .strategies import STRATEGIES, check_strategy, strategy_names
    from .tree import Leaves, Tree, build_tree, grid_of, tokens_for, tree_for

resolve_lazily(
    __name__,
    {
        "STRATEGIES": "strategies",
        "Fixations": "places",
        "Frame": "frame",
        "Leaves": "tree",
        "PowerCurve": "classic",
        "Tree": "tree",
        "allocate": "allocate",
        "allocate_batch": "allocate_batch",
        "boxes_to_cells": "request",
        "build_tree": "tree",
        "check_strategy": "strategies",
        "fixate": "places",
        "grid_of": "tree",
        "overlay": "overlay",
        "quadtree": "quadtree",
        "quadtree_numpy": "quadtree_numpy",
        "strategy_names": "strategies",
        "to_cells": "frame",
        "tokens_for": "tree",
        "tree_for": "tree",
    },
)

__all__ = [
    "STRATEGIES",
    "Fixations",
    "Frame",
    "Leaves",
    "PowerCurve",
    "Tree",
    "allocate",
    "allocate_batch",
    "boxes_to_cells",
    "build_tree",
    "check_strategy",
    "fixate",
    "grid_of",
    "overlay",
    "quadtree",
    "quadtree_numpy",
    "strategy_names",
    "to_cells",
    "tokens_for",
    "tree_for",
]
