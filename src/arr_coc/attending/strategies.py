"""The table of strategies: name → the function that allocates tokens, and its options.

Another package adds one by an entry point of the group `arr_coc.strategies`: its name is the strategy's name, and it
names a `Strategy`. Functions are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.arrays import Array
from ..core.errors import InputError, meant, shown
from ..core.plugins import LAB, load_function, load_plugin, plugins
from ..core.values import Allocation
from .frame import Frame
from .overlay import overlay
from .tree import Leaves, Tree, quadtree, tree_for

if TYPE_CHECKING:
    import torch

GROUP = "arr_coc.strategies"
DEFAULT_STRATEGY = "overlay"


@dataclass(frozen=True)
class AllocationJob:
    """The input of a strategy.

    maps: (1, h, w) relevance at its own resolution. cells: (1, rows, cols) the same on level-0 cells; of several
    pictures (B, rows, cols), if the strategy needs no torch. budget: in tokens. options: of the strategy, by name.
    """

    maps: Array
    cells: Array
    budget: int
    frame: Frame
    seed: int = 0
    levels: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def tree(self) -> Tree:
        return tree_for(*self.frame.grid, self.budget, self.levels)

    def leaves(self, cells: Array) -> Leaves:
        """Return the overlay of maps (B, rows, cols)."""
        return overlay(cells, [self.budget] * len(cells), levels=self.levels)

    def generator(self) -> torch.Generator:
        """Return a generator on the CPU, so that a seed gives the same result on every device."""
        return import_module("torch").Generator().manual_seed(self.seed)

    def option(self, name: str, default: object = None) -> Any:
        return self.options.get(name, default)

    def need(self, name: str, strategy: str, what: str) -> Any:
        value = self.options.get(name)
        if value is None:
            raise InputError(f"strategy {strategy!r} needs {name}= ({what})")
        return value


@dataclass(frozen=True)
class Strategy:
    """A way of spending a budget.

    function: `AllocationJob` → `Leaves` or an `Allocation`; or "module:name" of one. options: names of its options.
    leaves: whether its regions are leaves of one token each. without_torch: whether it runs on numpy arrays.
    """

    name: str
    function: Callable[[AllocationJob], Leaves | Allocation] | str
    options: tuple[str, ...] = ()
    leaves: bool = True
    without_torch: bool = False

    def __call__(self, job: AllocationJob) -> Leaves | Allocation:
        return load_function(self.function)(job)


BUILT_IN = {
    strategy.name: strategy
    for strategy in (
        Strategy("overlay", lambda job: job.leaves(job.cells), without_torch=True),
        Strategy("quadtree", lambda job: quadtree(job.cells, job.tree, job.budget), without_torch=True),
        # Baselines: plain down-sampling, and level 0 everywhere.
        Strategy("uniform", lambda job: quadtree(job.cells * 0 + 1, job.tree, job.budget)),
        Strategy("full", lambda job: quadtree(job.cells, job.tree, job.tree.full)),
    )
}


def strategy_names() -> tuple[str, ...]:
    """List the names of all strategies: the library's own, then those of other packages."""
    return tuple(dict.fromkeys((*BUILT_IN, *plugins(GROUP))))


def find_strategy(name: object) -> Strategy:
    """Return the strategy of this name; raise `InputError` with the most similar name if there is none."""
    if isinstance(name, str) and name in BUILT_IN:
        return BUILT_IN[name]
    point = plugins(GROUP).get(name) if isinstance(name, str) else None
    if point is not None:
        strategy = load_plugin(point)
        if not isinstance(strategy, Strategy):
            raise InputError(f"strategy {name!r}: {point.value} is not a Strategy")
        return strategy
    known = strategy_names()
    names = f"{', '.join(known)}; for more of them: {LAB}"
    raise InputError(f"unknown strategy {shown(name)}{meant(name, known)}; choose one of {names}")


def check_options(strategy: str, options: Iterable[str]) -> None:
    """Refuse options that the strategy does not have, such as mistyped names."""
    known = find_strategy(strategy).options
    for name in options:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options of its own"
            raise InputError(f"{name}= is not an option{meant(name, known)}: strategy {strategy!r} {takes}")
