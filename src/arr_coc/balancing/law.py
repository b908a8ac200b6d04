"""The learned numbers of balancing: the weight of each source for a picture, a question and a budget, and the three
tensions with their effects. `balancing.json` has the bundled numbers; an `ARRCOCVIS` can learn others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import Array, is_tensor, namespace
from ..core.errors import InputError, shown
from ..core.values import JsonObject
from ..knowing.signs import CONSTANT, SIGNS

LAW_NAME = "balancing.json"
BUNDLED = Path(__file__).with_name(LAW_NAME)
# Order of the rows. "centre" is the middle of the picture, a map that needs no source.
SOURCES = ("scorer", "photos", "look", "centre", "words")
TENSION_NAMES = ("compress_particularize", "exploit_explore", "focus_diversify")
ROWS = {"sources": SOURCES, "maps": SOURCES, "tensions": TENSION_NAMES}


@dataclass(frozen=True, eq=False)
class Law:
    """The numbers, as arrays of float64 or as tensors; matrices with 12 columns are multiplied by `SIGNS`.

    sources: (5, 12), a logit for each source. maps: (5, 3), added for how sharp, sure and shared its map is. middle:
    added to the logit of the centre without the photo map, because things in photographs are in the middle more often
    than other sources find them. tensions: (3, 12), a logit for each. steepness: (2,), the logarithm of the power to
    which the map is raised: a constant, and a factor of the logit of compress ↔ particularize. look: (3,), the weights
    of `tensions.balance`. salient: how much of what stands out is added when exploring."""

    sources: Array
    maps: Array
    middle: Array
    tensions: Array
    steepness: Array
    look: Array
    salient: Array

    @classmethod
    def of(cls, found: JsonObject) -> Law:
        """Build a law from JSON."""
        rows = {name: [found[name][label] for label in labels] for name, labels in ROWS.items()}
        law = cls(**{name: np.array({**found, **rows}[name], dtype=np.float64) for name in NUMBERS})
        shapes = [np.shape(getattr(law, name)) for name in NUMBERS]
        if shapes != [(5, 12), (5, 3), (), (3, 12), (2,), (3,), ()]:
            raise ValueError(f"arrays of shapes {shapes}")
        return law

    def to_json(self) -> JsonObject:
        """Return the JSON that `of` reads."""
        plain = {name: np.asarray(getattr(self, name)).tolist() for name in NUMBERS}
        rows = {name: dict(zip(labels, plain[name], strict=True)) for name, labels in ROWS.items()}
        return {"signs": list(SIGNS), **plain, **rows}

    def held(self, tensions: Mapping[str, float]) -> Law:
        """Return a copy with these tensions for every picture and question."""
        shares = np.clip([tensions[name] for name in TENSION_NAMES], 1e-6, 1 - 1e-6)
        rows = np.zeros((len(TENSION_NAMES), len(SIGNS)))
        rows[:, CONSTANT] = np.log(shares / (1 - shares))
        return replace(self, tensions=rows)

    @property
    def learns(self) -> bool:
        return is_tensor(self.tensions)

    @property
    def reads_signs(self) -> bool:
        """Whether the tensions depend on signs of picture and question."""
        return bool((self.tensions[:, :CONSTANT] != 0).any())

    def named_tensions(self, signs: Array) -> dict[str, Any]:
        """Compute the tensions in 0–1 from (12,) signs: numbers, or tensors if the law has tensors."""
        values = 1 / (1 + namespace(signs).exp(-(self.tensions @ signs)))
        return dict(zip(TENSION_NAMES, values if self.learns else values.tolist(), strict=True))

    def steepness_of(self, signs: Array) -> Array:
        """Compute the power to which the map is raised before tokens are allocated."""
        return namespace(signs).exp(self.steepness[0] + self.steepness[1] * (self.tensions[0] @ signs))


NUMBERS = tuple(one.name for one in fields(Law))


def read_law(given: object = None) -> Law:
    """Return the bundled law, a `Law` unchanged, or the law of a folder that `ARRCOCVIS.save_pretrained` or `train
    balancing` wrote; numbers missing there keep the bundled values."""
    if isinstance(given, Law):
        return given
    if given is not None and not isinstance(given, str | os.PathLike):
        raise InputError(f"balancing must be a folder or a Law, got {shown(given)}")
    path = BUNDLED if given is None else Path(given) / LAW_NAME
    try:
        return _read(path, os.stat(path).st_mtime_ns)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} has no law of balancing ({error!r}); give a folder that ARRCOCVIS wrote") from error


@lru_cache(maxsize=8)
def _read(path: Path, changed: int) -> Law:
    usual, found = (json.loads(one.read_text(encoding="utf-8")) for one in (BUNDLED, path))
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return Law.of({**usual, **found})
