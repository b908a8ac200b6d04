"""What a texture holds: channels by name, the range of each, and how each shrinks to a coarser level.

Channels are reached by name, never by number: a layout is an ordered list of names, and the only place that knows
which plane a name lives in is `Layout.index`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from ..errors import InputError

ReducerKind = Literal["mean", "majority", "maximum", "unit_mean"]

SEMANTIC_DIMENSIONS = 16
SEMANTIC_NAMES = tuple(f"semantic_{number}" for number in range(SEMANTIC_DIMENSIONS))


class Channel(NamedTuple):
    """One channel: its name, its smallest and largest value, its reducer, the group it is learned with."""

    name: str
    low: float
    high: float
    reducer: ReducerKind
    group: str


_GROUPS: dict[str, tuple[str, ...]] = {
    "colour": ("red", "green", "blue", "lab_l", "lab_a", "luminance"),
    "edges": (
        *("sobel_x", "sobel_y", "sobel_magnitude", "edges", "edges_inverted", "high_pass", "low_pass"),
        *("distance_field", "object_boundaries"),
    ),
    "position": ("y", "x", "eccentricity"),
    "salience": ("saliency", "motion", "text_regions"),
    "clusters": ("cluster_id", "cluster_distance", "cluster_size"),
    "memory": (
        *("previous_relevance", "previous_saliency", "fixation_history"),
        *("previous_attention", "current_attention", "gaze"),
    ),
    "semantic": SEMANTIC_NAMES,
}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names}
_MAXIMUM = frozenset({"object_boundaries", "text_regions", "gaze"})


def channel(name: str) -> Channel:
    """The channel of that name."""
    group = _GROUP_OF.get(name)
    if group is None:
        raise InputError(f"no channel is called {name!r}; the channels are {', '.join(sorted(_GROUP_OF))}")
    if name == "cluster_id":
        return Channel(name, 0.0, float("inf"), "majority", group)
    if group == "semantic":
        return Channel(name, -1.0, 1.0, "unit_mean", group)
    return Channel(name, 0.0, 1.0, "maximum" if name in _MAXIMUM else "mean", group)


@dataclass(frozen=True)
class Layout:
    """An ordered list of channels under one name."""

    name: str
    channels: tuple[Channel, ...]

    @classmethod
    def of(cls, name: str, names: Sequence[str]) -> Layout:
        return cls(name, tuple(channel(one) for one in names))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.channels)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.channels)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def index(self, name: str) -> int:
        """The plane of a channel."""
        place = self._places.get(name)
        if place is None:
            raise InputError(f"layout {self.name} has no channel {name!r}; it has {', '.join(self.names)}")
        return place

    def having(self, reducer: ReducerKind) -> tuple[int, ...]:
        """The planes that shrink by this reducer, in order."""
        return tuple(place for place, one in enumerate(self.channels) if one.reducer == reducer)

    def groups(self) -> dict[str, tuple[int, ...]]:
        """Group name → its planes, in order of first appearance."""
        found: dict[str, list[int]] = {}
        for place, one in enumerate(self.channels):
            found.setdefault(one.group, []).append(place)
        return {group: tuple(places) for group, places in found.items()}


MVP13 = Layout.of(
    "mvp13",
    (
        *("red", "green", "blue", "lab_l", "lab_a", "sobel_x", "sobel_y", "sobel_magnitude"),
        *("y", "x", "eccentricity", "saliency", "luminance"),
    ),
)
FULL40 = Layout.of(
    "full40",
    (
        *("red", "green", "blue", "edges", "edges_inverted", "high_pass", "low_pass", "motion", "saliency"),
        *("x", "y", "eccentricity", "cluster_id", "cluster_distance", "cluster_size"),
        *("previous_relevance", "previous_saliency", "fixation_history", *SEMANTIC_NAMES),
        *("distance_field", "previous_attention", "current_attention", "gaze", "object_boundaries", "text_regions"),
    ),
)
LAYOUTS = {layout.name: layout for layout in (MVP13, FULL40)}


def get_layout(layout: str | Layout) -> Layout:
    """A layout from its name; a `Layout` passes through."""
    if isinstance(layout, Layout):
        return layout
    if layout not in LAYOUTS:
        raise InputError(f"no layout is called {layout!r}; choose one of {', '.join(LAYOUTS)}")
    return LAYOUTS[layout]
