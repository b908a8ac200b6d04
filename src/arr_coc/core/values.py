"""The values that stages exchange: `Relevance`, `Allocation`, `DocumentAllocation`; see also `answer`.

They are frozen and made of numpy arrays; every drawing, table and file is made from them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .errors import InputError, frozen, is_number, of_kind, positive, shown, whole, whole_size

# In schema 2 regions may overlap; schema 1, in which they tile the picture, can still be read.
SCHEMA = 2
DOCUMENT_SCHEMA = 1
DEFAULT_CELL = 32
COARSEST_LEVEL = 15
LEAST_SCALE, MOST_SCALE = 0.05, 4
_PLAIN = ("budget", "full", "strategy", "sparse", "cell", "scale")  # fields of an allocation with the same form in JSON
MOST_CELLS = 1 << 24  # of one picture; the largest that can be read has a few million
JsonObject = dict[str, Any]  # a JSON object


def numbers(found: Any) -> dict[str, float]:
    """Read a JSON object whose values must be finite numbers."""
    plain = {str(name): value for name, value in dict(found).items()}
    if not all(is_number(value) and abs(value) <= sys.float_info.max for value in plain.values()):
        raise InputError(f"ways and tensions must be finite numbers, got {shown(found)}")
    return {name: float(value) for name, value in plain.items()}


class Region(NamedTuple):
    """One region of an `Allocation`, in pixels of the picture as given.

    Attributes:
        y: The first row.
        x: The first column.
        height: Number of rows.
        width: Number of columns.
        level: Level of detail: 0 is full resolution, each further one halves it.
        tokens: Its number of tokens.
        score: Its relevance.
    """

    y: int
    x: int
    height: int
    width: int
    level: int
    tokens: int
    score: float


@dataclass(frozen=True)
class Relevance:
    """A map of where a question needs detail.

    Args:
        map: (rows, cols) float32 in [0, 1], of any resolution; it covers the whole picture.
        query: The question.
        propositional: How much there is to read, an array like `map`, or None.
        perspectival: How much each place stands out, likewise.
        participatory: How much each place has to do with the question, likewise.
        tensions: The balance of the three, by name, such as {"compress_particularize": 0.5}.
        ways: What decided: way of knowing → source → weight, such as {"participatory": {"scorer": 1.0}}.
        notes: What the user should know.

    Example:
        >>> look(image, question, relevance=Relevance(np.eye(8)))  # doctest: +SKIP
    """

    map: np.ndarray
    query: str = ""
    propositional: np.ndarray | None = None
    perspectival: np.ndarray | None = None
    participatory: np.ndarray | None = None
    tensions: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    ways: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        array = frozen(self.map, "relevance", np.float32)
        if array.ndim != 2 or not array.size:
            raise InputError(f"relevance must be a map of shape (rows, cols), got {array.shape}")
        object.__setattr__(self, "map", array)
        for name in ("propositional", "perspectival", "participatory"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen(getattr(self, name), name, np.float32))

    def __repr__(self) -> str:
        rows, cols = self.map.shape
        asked = f" of {self.query!r}" if self.query else ""
        return f"Relevance({rows}×{cols}{asked}, {self.map.min():.2f} to {self.map.max():.2f})"


@dataclass(frozen=True, eq=False)
class Allocation:
    """The regions that the model will see, and the level of detail of each.

    Regions may overlap; each place is seen by the finest region over it. All fields are checked on construction, and
    the arrays are read-only.

    Args:
        boxes: (N, 4) int32: y, x, height, width in pixels of the picture as given, clipped to it.
        levels: (N,) int32. Level 0 is full resolution; a region of one token of level l is seen at 1 / 2**l of it.
        counts: (N,) int32: tokens of each region; more than one lie in it as a grid (`frame.token_grids`).
        scores: (N,) float32: the relevance for which each region was chosen.
        height: Height of the picture as given, in pixels.
        width: Width of the picture as given, in pixels.
        budget: The maximum number of tokens.
        full: The number of tokens with level 0 everywhere.
        strategy: Name of the strategy that made it.
        sparse: True if parts of the picture are not covered.
        cell: Side in pixels of one token at level 0.
        canvas: (height, width) of the picture at level 0 if the model resizes it before cutting cells; None if cells
            are cut from the picture as given, padded at the edge.
        notes: What the user should know: which source decided, and why.
        scale: Factor by which the picture is resized at level 0.
        ways: What decided, as in `Relevance`.
        tensions: The tensions, as in `Relevance`.

    Example:
        >>> look("street.png", "the red sign", budget=64).level_map().shape  # doctest: +SKIP
        (24, 32)
    """

    boxes: np.ndarray
    levels: np.ndarray
    counts: np.ndarray
    scores: np.ndarray
    height: int
    width: int
    budget: int
    full: int
    strategy: str
    sparse: bool = False
    cell: int = DEFAULT_CELL
    canvas: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    scale: float = 1.0
    ways: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    tensions: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in (("boxes", np.int32), ("levels", np.int32), ("counts", np.int32), ("scores", np.float32)):
            object.__setattr__(self, name, frozen(getattr(self, name), f"{name} of an allocation", kind))
        number = self.levels.size
        shapes = self.boxes.shape, self.levels.shape, self.counts.shape, self.scores.shape
        if shapes != ((number, 4), (number,), (number,), (number,)):
            wanted = f"boxes ({number}, 4), levels, counts and scores ({number},)"
            raise InputError(f"an allocation of {number} regions needs {wanted}; got {', '.join(map(str, shapes))}")
        for name, least in (("height", 1), ("width", 1), ("budget", 0), ("full", 0), ("cell", 1)):
            object.__setattr__(self, name, whole(getattr(self, name), f"{name} of an allocation", least))
        if number and not self.budget:
            raise InputError(f"an allocation of {number} regions has a budget of 0; give what it was made for")
        if self.canvas is not None:
            object.__setattr__(self, "canvas", whole_size(self.canvas, "canvas of an allocation"))
        object.__setattr__(self, "scale", positive(self.scale, "scale of an allocation"))
        if not LEAST_SCALE <= self.scale <= MOST_SCALE:
            raise InputError(f"scale of an allocation must be {LEAST_SCALE} to {MOST_SCALE}, got {self.scale:g}")
        if math.prod(self.grid) > MOST_CELLS:
            raise InputError(f"{self.height}×{self.width} pixels have more than {MOST_CELLS} cells")
        if not isinstance(self.strategy, str) or not isinstance(self.sparse, bool | np.bool_):
            given = f"{shown(self.strategy)} and {shown(self.sparse)}"
            raise InputError(f"strategy must be a name and sparse true or false, got {given}")
        start, extent = self.boxes.T.astype(np.int64).reshape(2, 2, -1)
        if (start < 0).any() or (extent < 1).any() or (start + extent > [[self.height], [self.width]]).any():
            raise InputError(f"an allocation has regions outside its picture of {self.height}×{self.width} pixels")
        if (self.levels < 0).any() or (self.levels > COARSEST_LEVEL).any() or (self.counts < 1).any():
            raise InputError(f"levels of an allocation must be 0 to {COARSEST_LEVEL}, and every region needs a token")

    def __repr__(self) -> str:
        levels = f", levels {self.levels.min()}–{self.levels.max()}" if len(self) else ""
        levels += f", scale {self.scale:g}" if self.scale != 1 else ""
        return (
            f"Allocation({self.strategy}: {self.tokens} of {self.full} tokens for {self.height}×{self.width} pixels, "
            f"{len(self)} regions{levels}{', sparse' if self.sparse else ''})"
        )

    @property
    def tokens(self) -> int:
        """Number of tokens of all regions."""
        return int(self.counts.sum())

    @property
    def keep(self) -> float:
        """Share of the full number of tokens that is spent."""
        return self.tokens / self.full if self.full else 0.0

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def regions(self) -> tuple[Region, ...]:
        columns = (*self.boxes.T.tolist(), self.levels.tolist(), self.counts.tolist(), self.scores.tolist())
        return tuple(map(Region._make, zip(*columns, strict=True)))

    @property
    def grid(self) -> tuple[int, int]:
        """(rows, cols) of level-0 cells."""
        height, width = self.canvas or (self.height, self.width)
        return -(-height // self.cell), -(-width // self.cell)

    def leaf_cells(self) -> np.ndarray:
        """Return (N, 3) int64: row and column of each region's first level-0 cell, and its level."""
        corners = np.rint(self.boxes[:, :2] * self._cells_per_pixel()).astype(np.int64)
        return np.concatenate([corners, self.levels[:, None].astype(np.int64)], axis=1)

    def _cells_per_pixel(self) -> np.ndarray:
        given = np.array([self.height, self.width])
        return (self.canvas or given) / given / self.cell

    def tokens_by_level(self) -> dict[int, int]:
        """Return level → number of tokens."""
        return {level: int(tokens) for level, tokens in enumerate(np.bincount(self.levels, self.counts)) if tokens}

    def level_map(self) -> np.ndarray:
        """Return (rows, cols) int32: the level of each level-0 cell; -1 if not covered (sparse strategies)."""
        return np.append(self.levels, np.int32(-1))[self.leaf_map()]

    def leaf_map(self) -> np.ndarray:
        """Return (rows, cols) int32: the finest region over each level-0 cell; -1 if not covered."""
        result, (owner, rows, cols) = np.full(self.grid, -1, dtype=np.int32), self.cells_under()
        result[rows, cols] = owner
        return result

    def extents(self) -> np.ndarray:
        """Return (N, 2) int64: rows and columns of cells under each region; 2**level for a leaf, else by its box."""
        boxes = np.clip(np.rint(self.boxes[:, 2:] * self._cells_per_pixel()), 1, None).astype(np.int64)
        leaves = np.maximum(boxes, np.int64(1) << self.levels[:, None].astype(np.int64))
        return np.where((self.counts == 1)[:, None], leaves, boxes)

    def cells_under(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return region, row and column of every cell under every region, coarse regions first, to paint in order."""
        first = np.clip(self.leaf_cells()[:, :2], 0, np.array(self.grid) - 1)
        extent = np.minimum(self.extents(), np.array(self.grid) - first)
        order = np.lexsort((self.counts == 1, -self.levels))
        area = extent.prod(1)[order]
        owner = np.repeat(order, area)
        local = np.arange(area.sum()) - np.repeat(np.cumsum(area) - area, area)
        return owner, first[owner, 0] + local // extent[owner, 1], first[owner, 1] + local % extent[owner, 1]

    def to_json(self) -> JsonObject:
        """Return a JSON-ready dictionary; optional keys appear only if they differ from their defaults."""
        own = {name: getattr(self, name) for name in ("strategy", "budget", "full")}
        image, regions = {"height": self.height, "width": self.width}, [region._asdict() for region in self.regions]
        height, width = canvas = self.canvas or (self.height, self.width)
        optional = {
            "sparse": bool(self.sparse),
            "cell": self.cell if self.cell != DEFAULT_CELL else None,
            "canvas": {"height": height, "width": width} if canvas != (self.height, self.width) else None,
            "scale": self.scale if self.scale != 1 else None,
            "notes": list(self.notes),
            "ways": {way: dict(one) for way, one in self.ways.items()},
            "tensions": dict(self.tensions),
        }
        document = {"schema": SCHEMA, **own, "image": image, "regions": regions}
        return document | {name: value for name, value in optional.items() if value}

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, object]) -> Allocation:
        """Read the result of `to_json`, or the text of such a file; equals the allocation that was written."""
        try:
            data: Any = json.loads(document) if isinstance(document, str | bytes) else document
            if not 1 <= (schema := data["schema"]) <= SCHEMA:
                raise InputError(f"allocation schema {schema} is not supported; this version reads 1 to {SCHEMA}")
            canvas, image = data.get("canvas"), data["image"]
            plain = {name: data[name] for name in _PLAIN if name in data}
            columns = [np.array([region[name] for region in data["regions"]]) for name in Region._fields]
            return cls(
                np.stack(columns[:4], axis=1), columns[4], columns[5], columns[6], image["height"], image["width"],
                **plain,
                canvas=None if canvas is None else (canvas["height"], canvas["width"]),
                notes=tuple(of_kind(note, str, "a note of an allocation") for note in data.get("notes", ())),
                ways={str(way): numbers(one) for way, one in dict(data.get("ways", {})).items()},
                tensions=numbers(data.get("tensions", {})),
            )  # fmt: skip
        except InputError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(f"not an allocation ({type(error).__name__}: {shown(str(error))})") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Allocation):
            return NotImplemented
        return self.to_json() == other.to_json()


@dataclass(frozen=True, eq=False)
class PageShare:
    """The share of one page in the budget of a document.

    number: from 1, as in the document. name: for captions. full: tokens of the whole page. allocation: its regions;
    None if it got no token. why: the reason in one line. worth: the value of its best place, comparable between pages;
    tokens also go to pages with many places of low value.
    """

    number: int
    name: str
    full: int
    allocation: Allocation | None = None
    why: str = ""
    worth: float = 0.0

    @property
    def tokens(self) -> int:
        return 0 if self.allocation is None else self.allocation.tokens

    def to_json(self) -> JsonObject:
        own = {name: getattr(self, name) for name in ("number", "name", "full", "tokens", "why", "worth")}
        return own | {"allocation": None if self.allocation is None else self.allocation.to_json()}


@dataclass(frozen=True, eq=False)
class DocumentAllocation:
    """The regions of a document's pages that the model will see, with one budget for all pages.

    pages: in order, including those without tokens. of_pages: number of pages of the whole document, which may be more
    than were looked at. budget: the maximum number of tokens for all pages. name: of the document.
    """

    pages: tuple[PageShare, ...]
    budget: int
    strategy: str
    name: str
    of_pages: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        pages = f"{len(self.funded)} of {self.of_pages} pages"
        return f"DocumentAllocation({self.name}: {self.tokens} of {self.full} tokens on {pages})"

    @property
    def tokens(self) -> int:
        """Number of tokens of all pages."""
        return sum(page.tokens for page in self.pages)

    @property
    def full(self) -> int:
        """Number of tokens of all pages with level 0 everywhere."""
        return sum(page.full for page in self.pages)

    @property
    def keep(self) -> float:
        """Share of the full number of tokens that is spent."""
        return self.tokens / self.full if self.full else 0.0

    @property
    def funded(self) -> tuple[PageShare, ...]:
        """Pages with tokens, in the document's order."""
        return tuple(page for page in self.pages if page.tokens)

    @property
    def ranked(self) -> tuple[PageShare, ...]:
        """Pages by their tokens, most first."""
        return tuple(sorted(self.pages, key=lambda page: (-page.tokens, page.number)))

    def to_json(self) -> JsonObject:
        """Return a JSON-ready dictionary."""
        names = ("name", "of_pages", "budget", "strategy", "tokens", "full")
        own = {name: getattr(self, name) for name in names}
        pages = [page.to_json() for page in self.pages]
        return {"document_schema": DOCUMENT_SCHEMA, **own, "notes": list(self.notes), "pages": pages}


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Generator[None]:
    """Write the duration of the block into `seconds`."""
    started = perf_counter()
    yield
    seconds[stage] = perf_counter() - started
