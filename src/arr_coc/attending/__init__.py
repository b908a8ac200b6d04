"""ATTEND: from relevance and a budget to an `Allocation`. One call for every strategy."""

from .allocate import STRATEGIES, allocate, allocate_batch, strategy_names
from .grids import Frame, boxes_to_cells, to_cells
from .power_curve import PowerCurve
from .quadtree import Leaves, quadtree
from .saccades import Fixations, fixate
from .tree import Tree, build_tree, grid_of, tokens_for, tree_for

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
    "fixate",
    "grid_of",
    "quadtree",
    "strategy_names",
    "to_cells",
    "tokens_for",
    "tree_for",
]
