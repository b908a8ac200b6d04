"""The thesaurus for photographs, read from `thesaurus.toml`; `things` takes questions apart by it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..language.tables import read_table

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Ground:
    """Something without an outline. height: 0 top – 1 bottom; reach: how far from there. busy: −1 smooth – 1 busy."""

    height: float
    reach: float
    colours: tuple[str, ...] = ()
    busy: float = 0.0
    upright: bool = False


class Thesaurus(NamedTuple):
    """classes: the detector's outputs. names: what else a class is called. groups: words for several classes. parts:
    words, their class, and where of its box they are. grounds: by their words. asking: words that name nothing."""

    classes: tuple[str, ...]
    names: dict[str, str]
    groups: dict[str, str]
    parts: tuple[tuple[str, str, Box], ...]
    grounds: dict[str, Ground]
    asking: frozenset[str]


@cache
def thesaurus() -> Thesaurus:
    table = read_table(Path(__file__).with_suffix(".toml"))
    grounds = {
        ground.pop("words"): Ground(colours=tuple(ground.pop("colours", "").split()), **ground)
        for ground in map(dict, table["grounds"])
    }
    return Thesaurus(
        classes=tuple(table["classes"]),
        names={name: " ".join(words.split()) for name, words in table["names"].items()},
        groups=table["groups"],
        parts=tuple((entry["words"], entry["of"], tuple(entry["box"])) for entry in table["parts"]),
        grounds=grounds,
        asking=frozenset(table["asking"].split()),
    )
