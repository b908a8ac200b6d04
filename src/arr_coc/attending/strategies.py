"""The names of all strategies and the options each takes; what they need is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from ..checks import shown
from ..errors import InputError

DEFAULT_STRATEGY = "overlay"
SHAPED = ("shape", "overview", "criterion")
# Strategies whose regions are leaves of one token each, and what each takes by name. `shape` says which allocator turns
# a map into leaves ("overlay" or "quadtree"), so that a control can be made like the strategy that it controls.
LEAF_OPTIONS: dict[str, tuple[str, ...]] = {
    "overlay": ("overview",),
    "quadtree": ("criterion",),
    "saccades": (*SHAPED, "fovea", "confident", "most", "least"),
    "cascade": (*SHAPED, "sides", "keeps"),
    "clusters": (*SHAPED, "clusters", "labels", "saliency", "parents", "gaze", "keep"),
    "top_k": ("level",),
    "uniform": (),
    "random": SHAPED,
    "shuffled": (*SHAPED, "permuted"),
    "edge": (*SHAPED, "edges"),
    "center": SHAPED,
    "oracle": (*SHAPED, "boxes"),
    "full": (),
}
# Strategies that choose places, or patches of several tokens, and may leave the rest uncovered.
PLACE_OPTIONS: dict[str, tuple[str, ...]] = {
    "classic": ("curve", "steepness"),
}
# What one picture on a CPU gets without torch.
WITHOUT_TORCH = ("overlay", "quadtree")
OPTIONS = {**LEAF_OPTIONS, **PLACE_OPTIONS}
STRATEGIES: tuple[str, ...] = tuple(OPTIONS)
# Arguments of `allocate` that every strategy takes; only needed to guess what a wrong name was meant to be.
COMMON = ("budget", "image_size", "strategy", "cell", "canvas", "levels", "seed")


def strategy_names() -> str:
    return ", ".join(STRATEGIES)


def check_strategy(strategy: str) -> str:
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise InputError(
            f"unknown strategy {shown(strategy)}{meant(strategy, STRATEGIES)}; choose one of {strategy_names()}"
        )
    return strategy


def check_options(strategy: str, options: Iterable[str], keywords: Iterable[str] = ()) -> None:
    """Refuse options that the strategy does not take: a mistyped name must not be ignored.

    keywords: what the caller takes besides, among which to look for what was meant.
    """
    for name in options:
        known = OPTIONS[strategy]
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options of its own"
            raise InputError(
                f"{name}= is no option{meant(name, (*known, *COMMON, *keywords))}: strategy {strategy!r} {takes}"
            )


def meant(name: object, known: Iterable[str]) -> str:
    """ " (did you mean NAME?)", or nothing where no known name is near."""
    near = get_close_matches(name if isinstance(name, str) else "", list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""
