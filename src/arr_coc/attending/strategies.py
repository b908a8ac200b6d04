"""The names of all strategies; what each needs is imported only when it is asked for."""

from __future__ import annotations

from ..errors import InputError

# Strategies that tile the picture with leaves of one token each, or (top_k) select such leaves.
LEAF_STRATEGIES = (
    *("quadtree", "saccades", "top_k", "uniform", "random", "shuffled", "edge", "center", "oracle", "full"),
)
# Strategies that choose places and leave the rest uncovered.
PLACE_STRATEGIES = ("power_curve", "lod", "cascade", "clusters")
# The classic scale spends its own, larger budgets, so a budget above the tree's full count is no mistake there.
CLASSIC_SCALE = ("power_curve", "lod")
STRATEGIES: tuple[str, ...] = (*LEAF_STRATEGIES, *PLACE_STRATEGIES)


def strategy_names() -> str:
    return ", ".join(STRATEGIES)


def check_strategy(strategy: str) -> str:
    if strategy not in STRATEGIES:
        raise InputError(f"unknown strategy {strategy!r}; choose one of {strategy_names()}")
    return strategy
