"""The values that travel between the stages: `Relevance`, `Allocation`, `DocumentAllocation`; see also `answer`.

They are plain, frozen and made of numpy arrays: every picture, table and file is made from them.
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

# Schema 2 lets regions overlap; schema 1, in which they tile the picture, is read too.
SCHEMA = 2
DOCUMENT_SCHEMA = 1
DEFAULT_CELL = 32
COARSEST_LEVEL = 15
LEAST_SCALE, MOST_SCALE = 0.05, 4
_PLAIN = ("budget", "full", "strategy", "sparse", "cell", "scale")  # of an allocation: the same in JSON
MOST_CELLS = 1 << 24  # of one picture; the largest that is read has a few million
JsonObject = dict[str, Any]  # an object of JSON: what its keys are and hold, its writer says


def numbers(found: Any) -> dict[str, float]:
    """An object of JSON whose values are finite numbers."""
    plain = {str(name): value for name, value in dict(found).items()}
    if not all(is_number(value) and abs(value) <= sys.float_info.max for value in plain.values()):
        raise InputError(f"ways and tensions must be finite numbers, got {shown(found)}")
    return {name: float(value) for name, value in plain.items()}


class Region(NamedTuple):
    """One region of an `Allocation`, in pixels of the picture as given.

    Attributes:
        y: The first row.
        x: The first column.
        height: In pixels.
        width: In pixels.
        level: Of detail: 0 is full, each further one halves it.
        tokens: What it costs.
        score: How relevant it is.
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
    """Where a question needs detail.

    Args:
        map: (rows, cols) float32 in [0, 1]; any resolution, it covers the whole picture.
        query: The question.
        propositional: What is there to be read, the same kind of array, or None.
        perspectival: What stands out.
        participatory: What the question couples to.
        tensions: The balance of the three, by name, such as {"compress_particularize": 0.5}.
        ways: Who decided: way of knowing → source → weight, such as {"participatory": {"scorer": 1.0}}.
        notes: What a reader should know.

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
    """Which regions the model will see, each at which level of detail.

    Regions may lie on one another: what is seen of a place is the finest region over it. Everything is checked when one
    is made, and the arrays are read-only.

    Args:
        boxes: (N, 4) int32: y, x, height, width in pixels of the picture as given, clipped to it.
        levels: (N,) int32. Level 0 is full resolution; a region of one token of level l is seen at 1 / 2**l of it.
        counts: (N,) int32: tokens of each region; more than one lie in it as a grid (`frame.token_grids`).
        scores: (N,) float32: the relevance that earned the region its place.
        height: Of the picture as given.
        width: Of the picture as given.
        budget: The tokens allowed.
        full: The tokens that level 0 everywhere would cost.
        strategy: Who made it.
        sparse: True where ground is left uncovered.
        cell: Pixels of one token at level 0.
        canvas: (height, width) of the picture that the model sees at level 0, where it resizes before cutting cells;
            None where cells are cut from the picture as given, padded at the edge.
        notes: What a reader should know: who decided, and why.
        scale: How many times as large as given the picture is at level 0.
        ways: Who decided, as in `Relevance`.
        tensions: As in `Relevance`.

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
            wanted = (
                f"an allocation of {number} regions needs boxes ({number}, 4), levels, counts and scores ({number},)"
            )
            raise InputError(f"{wanted}; got {', '.join(map(str, shapes))}")
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
        start, extent = self.boxes[:, :2].astype(np.int64), self.boxes[:, 2:].astype(np.int64)
        if (start < 0).any() or (extent < 1).any() or (start + extent > (self.height, self.width)).any():
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
        """What the whole allocation costs."""
        return int(self.counts.sum())

    @property
    def keep(self) -> float:
        """Share of the full token count that is spent."""
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
        """(N, 3) int64: row and column of each region's first level-0 cell, and its level."""
        corners = np.rint(self.boxes[:, :2] * self._cells_per_pixel()).astype(np.int64)
        return np.concatenate([corners, self.levels[:, None].astype(np.int64)], axis=1)

    def _cells_per_pixel(self) -> np.ndarray:
        given = np.array([self.height, self.width])
        return (self.canvas or given) / given / self.cell

    def tokens_by_level(self) -> dict[int, int]:
        """Level → tokens."""
        return {level: int(tokens) for level, tokens in enumerate(np.bincount(self.levels, self.counts)) if tokens}

    def level_map(self) -> np.ndarray:
        """(rows, cols) int32: the level of each level-0 cell; -1 where nothing looks (sparse strategies)."""
        return np.append(self.levels, np.int32(-1))[self.leaf_map()]

    def leaf_map(self) -> np.ndarray:
        """(rows, cols) int32: of each level-0 cell the finest region over it; -1 where nothing looks."""
        result, (owner, rows, cols) = np.full(self.grid, -1, dtype=np.int32), self.cells_under()
        result[rows, cols] = owner
        return result

    def extents(self) -> np.ndarray:
        """(N, 2) int64: how many cells each region covers, 2**level a side for a leaf, else those of its box."""
        boxes = np.clip(np.rint(self.boxes[:, 2:] * self._cells_per_pixel()), 1, None).astype(np.int64)
        leaves = np.maximum(boxes, np.int64(1) << self.levels[:, None].astype(np.int64))
        return np.where((self.counts == 1)[:, None], leaves, boxes)

    def cells_under(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Region, row and column of every cell under every region; coarse regions first, the last painted is seen."""
        first = np.clip(self.leaf_cells()[:, :2], 0, np.array(self.grid) - 1)
        extent = np.minimum(self.extents(), np.array(self.grid) - first)
        order = np.lexsort((self.counts == 1, -self.levels))
        area = extent.prod(1)[order]
        owner = np.repeat(order, area)
        local = np.arange(area.sum()) - np.repeat(np.cumsum(area) - area, area)
        return owner, first[owner, 0] + local // extent[owner, 1], first[owner, 1] + local % extent[owner, 1]

    def to_json(self) -> JsonObject:
        """A JSON-ready dictionary. Optional keys appear only where they differ from their defaults."""
        document: dict[str, object] = {
            "schema": SCHEMA,
            "strategy": self.strategy,
            "budget": self.budget,
            "full": self.full,
            "image": {"height": self.height, "width": self.width},
            "regions": [region._asdict() for region in self.regions],
        }
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
        return document | {name: value for name, value in optional.items() if value}

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, object]) -> Allocation:
        """Read what `to_json` gave, or the text of such a file; equal to the allocation that was written."""
        try:
            data: Any = json.loads(document) if isinstance(document, str | bytes) else document
            if not 1 <= (schema := data["schema"]) <= SCHEMA:
                raise InputError(f"allocation schema {schema} is not supported; this version reads 1 to {SCHEMA}")
            canvas, image = data.get("canvas"), data["image"]
            plain = {name: data[name] for name in _PLAIN if name in data}
            columns = [np.array([region[name] for region in data["regions"]]) for name in Region._fields]
            return cls(
                boxes=np.stack(columns[:4], axis=1),
                levels=columns[4],
                counts=columns[5],
                scores=columns[6],
                height=image["height"],
                width=image["width"],
                **plain,
                canvas=None if canvas is None else (canvas["height"], canvas["width"]),
                notes=tuple(of_kind(note, str, "a note of an allocation") for note in data.get("notes", ())),
                ways={str(way): numbers(one) for way, one in dict(data.get("ways", {})).items()},
                tensions=numbers(data.get("tensions", {})),
            )
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
    """What one page got.

    number: from 1, as the document counts its pages. name: for captions. full: the tokens of the whole page.
    allocation: its regions; None where the page got no token. why: one line. worth: what its best place is worth,
    beside those of the other pages; tokens also go where much is a little likely.
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
    """Which regions of which pages the model will see, at one budget in all.

    pages: in the document's order, those without a token too. of_pages: how many the whole document has, which may be
    more than were looked at. budget: the tokens allowed in all. name: of the document.
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
        """What all pages cost together."""
        return sum(page.tokens for page in self.pages)

    @property
    def full(self) -> int:
        """What all pages would cost at level 0 everywhere."""
        return sum(page.full for page in self.pages)

    @property
    def keep(self) -> float:
        """Share of the full count that is spent."""
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
        """This allocation as JSON."""
        names = ("name", "of_pages", "budget", "strategy", "tokens", "full")
        own = {name: getattr(self, name) for name in names}
        pages = [page.to_json() for page in self.pages]
        return {"document_schema": DOCUMENT_SCHEMA, **own, "notes": list(self.notes), "pages": pages}


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Generator[None]:
    """Write into `seconds` how long the block takes."""
    started = perf_counter()
    yield
    seconds[stage] = perf_counter() - started
