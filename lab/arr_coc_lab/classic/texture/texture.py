"""The texture array: named channels over one picture or a batch of pictures, and the layouts that name them.

Channels are reached by name, never by number: a layout is an ordered list of names, and the only place that knows
which plane a name lives in is `Layout.index`. The channels of one picture may be a numpy array (no torch needed) or a
tensor; those of a batch are a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..core.checks import shown
from ..core.errors import InputError
from .backend import Backend, BackendMap, get_backend

if TYPE_CHECKING:
    import torch

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
    "salience": ("saliency", "motion", "text_regions", "type_height"),
    "clusters": ("cluster_id", "cluster_distance", "cluster_size"),
    "memory": (
        *("previous_relevance", "previous_saliency", "fixation_history"),
        *("previous_attention", "current_attention", "gaze"),
    ),
    "semantic": SEMANTIC_NAMES,
}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names}
_MAXIMUM = frozenset({"object_boundaries", "text_regions", "type_height", "gaze"})


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
        places_of: dict[str, list[int]] = {}
        for place, one in enumerate(self.channels):
            places_of.setdefault(one.group, []).append(place)
        return {group: tuple(places) for group, places in places_of.items()}


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
# What a page is read by: `mvp13`, where there is type, and how tall its letters are.
PAGE15 = Layout.of("page15", (*MVP13.names, "text_regions", "type_height"))
LAYOUTS = {layout.name: layout for layout in (MVP13, FULL40, PAGE15)}


def get_layout(layout: str | Layout) -> Layout:
    """A layout from its name; a `Layout` passes through."""
    if isinstance(layout, Layout):
        return layout
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise InputError(f"no layout is called {shown(layout)}; choose one of {', '.join(LAYOUTS)}")
    return LAYOUTS[layout]


@dataclass(frozen=True, eq=False)
class Texture:
    """What was sensed of a picture, channel by channel.

    data: (C, H, W) or, for a batch, (B, C, H, W) float32; `sense` gives tensors, `sense_one` numpy.
    layout: which channel is which; `texture["saliency"]` is the way in.
    height, width: the rows and columns that are picture; what lies beyond them, to the right and below, is padding.
    notes: what a reader should know ("no image-text encoder: the semantic channels are zero").
    """

    data: Array
    layout: Layout
    height: int
    width: int
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = tuple(self.data.shape)
        if self.data.ndim not in (3, 4) or shape[-3] != len(self.layout):
            raise InputError(
                f"a {self.layout.name} texture needs data of shape ({len(self.layout)}, H, W) or "
                f"(B, {len(self.layout)}, H, W), got {shape}"
            )
        if not (0 < self.height <= shape[-2] and 0 < self.width <= shape[-1]):
            raise InputError(f"the picture's {self.height}×{self.width} must lie inside the data's {shape[-2:]}")

    @property
    def batched(self) -> bool:
        return self.data.ndim == 4

    @property
    def padding(self) -> tuple[int, int]:
        """(rows below, columns to the right) that are not picture."""
        return self.data.shape[-2] - self.height, self.data.shape[-1] - self.width

    @property
    def names(self) -> tuple[str, ...]:
        return self.layout.names

    def __contains__(self, name: object) -> bool:
        return name in self.layout

    def __getitem__(self, name: str) -> Array:
        """(H, W) or (B, H, W): one channel by name, without a copy."""
        return self.data[..., self.layout.index(name), :, :]

    @property
    def ops(self) -> Backend:
        """The back end whose operations understand this texture's planes."""
        return get_backend("opencv" if isinstance(self.data, np.ndarray) else "torch")

    def plane(self, name: str) -> BackendMap:
        """One channel as `ops` takes it: (H, W) numpy or (B, H, W) tensor, with B = 1 for a single picture."""
        one = self[name]
        return one if self.batched or isinstance(self.data, np.ndarray) else one[None]

    def shaped(self, maps: BackendMap) -> Array:
        """A map as `ops` gives it, in the shape of this texture's own channels: (H, W) or (B, H, W)."""
        return maps if self.batched or isinstance(self.data, np.ndarray) else maps[0]

    def stack(self, *names: str) -> Array:
        """(len(names), H, W) or (B, len(names), H, W): several channels by name, in the order asked for."""
        places = [self.layout.index(name) for name in names]
        first = places[0]
        if places == list(range(first, first + len(places))):
            return self.data[..., first : first + len(places), :, :]
        return self.data[..., places, :, :]

    @property
    def rgb(self) -> Array:
        """(3, H, W) or (B, 3, H, W) in [0, 1]."""
        return self.stack("red", "green", "blue")

    @property
    def semantic(self) -> Array:
        """(16, H, W) or (B, 16, H, W): unit vectors, or zeros where no encoder was given."""
        return self.stack(*SEMANTIC_NAMES)

    def batch(self) -> Array:
        """(B, C, H, W), with B = 1 for a single picture."""
        return self.data if self.batched else self.data[None]

    def replacing(self, **maps: Array) -> Texture:
        """A copy with some channels exchanged, each (H, W) or (B, H, W), of the texture's own library."""
        planes = [self[name] for name in self.names]
        for name, plane in maps.items():
            if isinstance(self.data, np.ndarray):
                exchanged = np.broadcast_to(np.asarray(plane, dtype=np.float32), planes[0].shape)
            else:
                exchanged = plane.to(self.data).expand_as(planes[0])
            planes[self.layout.index(name)] = exchanged
        return replace(self, data=arrays.namespace(self.data).stack(planes, -3))

    def noting(self, *notes: str) -> Texture:
        """The same texture with more notes; a note already there is not repeated."""
        return replace(self, notes=tuple(dict.fromkeys((*self.notes, *notes))))

    def tensors(self) -> Texture:
        """The same texture with its channels as a tensor; numpy's memory is shared, not copied."""
        if not isinstance(self.data, np.ndarray):
            return self
        import torch

        return replace(self, data=torch.from_numpy(self.data))

    def to(self, device: torch.device | str) -> Texture:
        texture = self.tensors()
        return replace(texture, data=texture.data.to(device))

    def cropped(self) -> Texture:
        """Without the padding."""
        return replace(self, data=self.data[..., : self.height, : self.width])
