"""What a question asks for in a photograph: its words, as classes of a detector, parts of them, and kinds of ground.

A thesaurus, written by hand: the 80 things of COCO with the words people use for them; words for several of them
together (animal, vehicle); parts that lie at a known place of a thing (shoes at the foot of a person, a tap above a
sink); ground that has no outline (sky, road), which is told by colour and place. Words that it does not know are
looked up in a table of kinds made from WordNet (`kinds.json`: a dachshund is a dog). Needs no weights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..language.tables import read_table

# ----------------------------------------------------------------------------------------------------------------------
# The thesaurus for photographs, read from `thesaurus.toml`; `things` takes questions apart by it.

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
    table = read_table(Path(__file__).with_name("thesaurus.toml"))
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


# ----------------------------------------------------------------------------------------------------------------------

PLACES = {
    **dict.fromkeys(("left", "leftmost"), (-1, 0)),
    **dict.fromkeys(("right", "rightmost"), (1, 0)),
    **dict.fromkeys(("top", "upper", "uppermost", "above"), (0, -1)),
    **dict.fromkeys(("bottom", "lower", "lowest", "below"), (0, 1)),
    **dict.fromkeys(("middle", "centre", "center", "central"), (0, 0)),
}
ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1}
SIZES = {
    **dict.fromkeys(("largest", "biggest", "big", "large", "nearest", "closest"), 1),
    **dict.fromkeys(("smallest", "small", "tiny", "little", "farthest", "furthest", "distant"), -1),
}
# A thing named after another one is mostly there to say which: "the dog on the couch".
LATER = 0.4
WHOLE = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Wanted:
    """A class of the detector (its number), how much it is wanted, and which part of its box."""

    place: int
    weight: float
    part: Box = WHOLE


@dataclass(frozen=True)
class PhotoQuestion:
    """What a question names. words: those that were understood. side: (−1 left – 1 right, −1 top – 1 bottom). ordinal:
    which of several, counted from the left, from the right where from_right; size: the largest (1), smallest (−1)."""

    words: tuple[str, ...] = ()
    things: tuple[Wanted, ...] = ()
    grounds: tuple[Ground, ...] = ()
    side: tuple[int, int] | None = None
    ordinal: int | None = None
    from_right: bool = False
    size: int = 0

    def __bool__(self) -> bool:
        return bool(self.things or self.grounds)


@cache
def vocabulary() -> dict[str, tuple[tuple[Wanted, ...], tuple[Ground, ...]]]:
    """Word, or words joined by hyphens → what it stands for."""
    table = thesaurus()
    number = {name: place for place, name in enumerate(table.classes)}
    things: dict[str, dict[tuple[int, Box], float]] = {}
    grounds: dict[str, list[Ground]] = {}

    def add(words: str, name: str, weight: float = 1.0, part: Box = WHOLE) -> None:
        for word in words.split():
            held = things.setdefault(word, {})
            key = number[name], part
            held[key] = max(weight, held.get(key, 0.0))

    for name, others in table.names.items():
        add(f"{name.replace(' ', '-')} {others}", name)
    for words, names in table.groups.items():
        for name in names.split():
            add(words, name.replace("_", " "), 0.8)
    for words, name, part in table.parts:
        add(words, name, 0.7, part)
    for words, ground in table.grounds.items():
        for word in words.split():
            grounds.setdefault(word, []).append(ground)
    return {
        word: (
            tuple(Wanted(place, weight, part) for (place, part), weight in things.get(word, {}).items()),
            tuple(grounds.get(word, ())),
        )
        for word in things.keys() | grounds.keys()
    }


@cache
def kinds() -> dict[str, str]:
    """Noun → the class that it is a kind of, of WordNet."""
    path = Path(__file__).with_name("kinds.json")
    table: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {word: name for name, words in table.items() for word in words.split()}


def singular(word: str) -> Iterator[str]:
    """The word, and what its singular may be."""
    yield word
    if word.endswith("ies"):
        yield word[:-3] + "y"
    if word.endswith("es"):
        yield word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        yield word[:-1]


def known(word: str) -> tuple[tuple[Wanted, ...], tuple[Ground, ...]] | None:
    """What a word stands for; None where it is not known."""
    for one in singular(word):
        if one in vocabulary():
            return vocabulary()[one]
        if one in kinds():
            return vocabulary()[kinds()[one].replace(" ", "-")]
    return None


def photo_question(query: str) -> PhotoQuestion:
    """What a question names in a photograph."""
    words = re.findall(r"[a-z]+(?:-[a-z]+)*", query.lower().replace("'s", ""))
    found: list[str] = []
    things: dict[tuple[int, Box], float] = {}
    grounds: list[Ground] = []
    place = 0
    while place < len(words):
        length = next((n for n in (3, 2, 1) if known_at(words, place, n)), 0)
        if not length:
            place += 1
            continue
        word = "-".join(words[place : place + length])
        wanted, ground = known(word) or ((), ())
        weight = LATER if found else 1.0
        for one in wanted:
            key = one.place, one.part
            things[key] = max(things.get(key, 0.0), weight * one.weight)
        if not found:
            grounds += ground
        found.append(word)
        place += length
    parts = {number for number, part in things if part != WHOLE}
    # "the woman's shoes": where a part of a thing is asked for, the whole of it is not.
    kept = {key: weight for key, weight in things.items() if key[1] != WHOLE or key[0] not in parts or weight == 1.0}
    if parts and len(found) > 1:
        kept = {key: weight for key, weight in kept.items() if key[1] != WHOLE or key[0] not in parts}
    sides = [PLACES[word] for word in words if word in PLACES]
    side = (sum(x for x, _ in sides), sum(y for _, y in sides)) if sides else None
    return PhotoQuestion(
        words=tuple(found),
        things=tuple(Wanted(number, weight, part) for (number, part), weight in kept.items()),
        grounds=tuple(grounds),
        side=side,
        ordinal=next((ORDINALS[word] for word in words if word in ORDINALS), None),
        from_right="from the right" in query.lower(),
        size=next((SIZES[word] for word in words if word in SIZES), 0),
    )


def known_at(words: list[str], place: int, length: int) -> bool:
    """Do these words name something? Words that ask, and places, never do."""
    several = words[place : place + length]
    if len(several) < length or (length == 1 and (several[0] in thesaurus().asking or several[0] in PLACES)):
        return False
    return known("-".join(several)) is not None
