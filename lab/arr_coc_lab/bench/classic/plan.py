"""What `bench classic` reads, and the record of what was read, picture by picture: a run goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from arr_coc.core.errors import InputError

from ...train.evaluate import FAMILIES

# How large pictures are laid out; all but the last are compared with it.
SCALES = ("classic", "uniform", "overlay")


@dataclass(frozen=True)
class ClassicPlan:
    """each: pictures of every family. keeps: shares of the tokens. at_once: pictures in memory. large: pictures of
    every family for the classic scale, of size `large_size`, `large_at_once` of them, at `large_budgets` tokens.
    seconds: no further batch is begun after them. names: only these rows of the registry, beside ours and the controls;
    all phases where empty."""

    each: int = 147
    keeps: tuple[float, ...] = (1 / 4,)
    size: tuple[int, int] = (512, 512)
    large: int = 0
    large_size: tuple[int, int] = (2048, 2048)
    large_budgets: tuple[int, ...] = (1024,)
    families: tuple[str, ...] = FAMILIES
    seed: int = 21
    split: str = "test"
    at_once: int = 21
    large_at_once: int = 1
    seconds: float | None = None
    names: tuple[str, ...] = ()
    device: str = "cpu"

    def batches(self) -> Iterator[tuple[bool, str, int, int]]:
        """(large, family, first picture, how many): every family in turn, so that what is done is balanced."""
        for start in range(0, self.each, self.at_once):
            for family in self.families:
                yield False, family, start, min(self.at_once, self.each - start)
        for start in range(0, self.large, self.large_at_once):
            for family in self.families:
                yield True, family, start, min(self.large_at_once, self.large - start)

    def steps(self) -> list[str]:
        return [step_name(*one[:3]) for one in self.batches()]


def step_name(large: bool, family: str, start: int) -> str:
    return f"{'large ' if large else ''}{family} from {start}"


@dataclass
class Record:
    """What was read so far. cells: "NAME@TOKENS" → family → number of the first picture of a batch → "0110…"."""

    powers: dict[str, tuple[float, bool]] = field(default_factory=dict)
    cells: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any], plan: ClassicPlan) -> Record:
        """Of a file of an earlier run, which must have read the same pictures."""
        found = cls.read(document)
        same = ("size", "seed", "split", "at_once", "large_at_once", "large_size")
        differing = [name for name in same if document["plan"].get(name) != plain(asdict(plan)[name])]
        if differing:
            raise InputError(f"the record was made with another {differing[0]}; give another folder with --out")
        found.plan = plain(asdict(plan))
        return found

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Record:
        """Of a file, with the plan that it was made by."""
        if document.get("kind") != "classic":
            raise InputError("this is no record of `bench classic`; give another folder with --out")
        powers = {name: (float(power), bool(odds)) for name, (power, odds) in document["powers"].items()}
        return cls(powers, document["cells"], dict(document.get("missing", {})), dict(document["plan"]))

    def to_json(self) -> dict[str, Any]:
        return {"schema": 1, "kind": "classic", **plain(asdict(self))}

    def has(self, cell: str, family: str, start: int) -> bool:
        return str(start) in self.cells.get(cell, {}).get(family, {})

    def add(self, cell: str, family: str, start: int, right: Tensor) -> None:
        text = "".join("01"[int(one)] for one in right.tolist())
        self.cells.setdefault(cell, {}).setdefault(family, {})[str(start)] = text

    def pictures(self, cells: Sequence[str]) -> list[tuple[str, str, int]]:
        """(family, batch, place in it) of every picture that all these cells have read."""
        places = [
            {
                (family, start, place)
                for family, batches in self.cells.get(cell, {}).items()
                for start, text in batches.items()
                for place in range(len(text))
            }
            for cell in cells
        ]
        return sorted(set.intersection(*places)) if places else []

    def right(self, cell: str, pictures: Sequence[tuple[str, str, int]]) -> np.ndarray:
        return np.array([self.cells[cell][family][start][place] == "1" for family, start, place in pictures], float)


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value
