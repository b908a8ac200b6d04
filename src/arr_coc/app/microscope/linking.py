"""The state of the page as the query of its address, and back: what is in a link is what a visitor sees.

A link carries settings, never a picture: `picture=upload` tells the next visitor to bring it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from ...balancing import DEFAULT_TENSIONS, TENSION_NAMES
from ...errors import InputError
from .sources import UPLOAD, check_source

TABS = ("ask", "ways", "textures", "compare", "passes", "video", "numbers")
# The dialogue of a link may be long, but not endless.
LONGEST_QUERY = 400
FIRST_SOURCE = "example:street.png"
FIRST_QUERY = "What does the pink sign say?"


@dataclass(frozen=True)
class PageState:
    """All settings of the page; each field is a key of the link. keep: per cent of the full count."""

    tab: str = "ask"
    picture: str = FIRST_SOURCE
    q: str = FIRST_QUERY
    keep: float = 25.0
    model: str = ""
    passes: int = 1
    compress: float = DEFAULT_TENSIONS["compress_particularize"]
    explore: float = DEFAULT_TENSIONS["exploit_explore"]
    diversify: float = DEFAULT_TENSIONS["focus_diversify"]
    layout: str = "mvp13"
    level: int = 0
    by: str = "strategies"
    first: str = "quadtree"
    second: str = "uniform"
    q2: str = ""
    relevance: str = "look"
    family: str = "cards"
    seed: int = 0

    @property
    def tensions(self) -> dict[str, float]:
        return dict(zip(TENSION_NAMES, (self.compress, self.explore, self.diversify), strict=True))

    def link(self) -> str:
        """The query of the address: only what differs from the defaults, and always tab, picture and question."""
        default = PageState()
        always = ("tab", "picture", "q")
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        kept = {key: value for key, value in found.items() if key in always or value != getattr(default, key)}
        return urlencode({key: f"{value:g}" if isinstance(value, float) else value for key, value in kept.items()})


def read_link(query: Mapping[str, Any]) -> tuple[PageState, list[str]]:
    """The state that a query asks for, and a sentence for everything in it that cannot be used."""
    state, complaints = PageState(), []
    for one in fields(PageState):
        if one.name not in query:
            continue
        try:
            state = replace(state, **{one.name: _read(one.name, str(query[one.name]), getattr(state, one.name))})
        except (InputError, ValueError) as error:
            complaints.append(f"The link's {one.name}={str(query[one.name])[:60]!r} is left out: {error}.")
    return state, complaints


_CHOICES = {
    "tab": TABS,
    "layout": ("mvp13", "full40"),
    "by": ("strategies", "questions"),
    "relevance": ("look", "scorer"),
}
_RANGES = {
    "keep": (0.01, 100.0),
    "passes": (1, 4),
    "level": (0, 4),
    "compress": (0.0, 1.0),
    "explore": (0.0, 1.0),
    "diversify": (0.0, 1.0),
    "seed": (0, 2**31 - 1),
}


def _read(name: str, text: str, default: Any) -> Any:
    if name in _CHOICES and text not in _CHOICES[name]:
        raise InputError(f"choose from {', '.join(_CHOICES[name])}")
    if name in ("q", "q2") and len(text) > LONGEST_QUERY:
        raise InputError(f"a question has at most {LONGEST_QUERY} characters")
    if name == "picture" and text != UPLOAD:
        check_source(text)
    if not isinstance(default, int | float):
        return text
    value = type(default)(text)
    low, high = _RANGES[name]
    if not low <= value <= high:
        raise InputError(f"it must lie between {low:g} and {high:g}")
    return value
