"""What a question asks for in a photograph: the source of relevance called "photos". No torch.

A detector says of every place how much it looks like each of 80 things; a thesaurus, written by hand, says which of
them the question means, words for several together (animal, vehicle) and parts that lie at a known place of a thing
(shoes at the foot of a person) included. Other words are looked up in a table of kinds made from WordNet (`kinds.json`:
a dachshund is a dog). Sides, ordinals and sizes choose among what was found ("the second car"), colours among the
places. Where nothing is named that is known, what looks like any thing takes its place.

The weights are no part of this library: `arr-coc doctor --download` (docs/photos.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.values import JsonObject, Relevance
from ...pictures.kind import is_photograph
from ...texture.channels import centre_map
from ...texture.pixels import srgb_to_lab
from ..language.lexical import COLOUR_REACH, COLOURS, LIGHTNESS_WEIGHT, Coupling
from ..language.senses import coupled_words
from ..language.tables import read_table
from .nets import REMEDY, Anchors, PhotoSight, find_part

if TYPE_CHECKING:
    from ..scene import Scene

# Of so many anchors that speak most for a class, the boxes are painted.
MOST_BOXES = 60
# What an anchor says counts to this power: a few sure boxes before many doubtful ones.
SURENESS = 2.5
# A best box below this is no better than what stands out.
DOUBT = 0.05
# What stands out counts this much beside what is asked for.
AROUND = 0.02
# Boxes that are one thing, and those that are sure enough to be counted ("the second car").
SAME, COUNTED = 0.5, 0.3
# An upright person is so many times as high as wide; a box that the picture cuts off below shows only the upper part.
UPRIGHT = 2.2


def photos_installed() -> bool:
    """Whether the detector is there; loads nothing."""
    return find_part("detector") is not None


def photos_missing(offers: frozenset[str] = frozenset()) -> str | None:
    """One line that says what is missing, or None."""
    return None if photos_installed() else f"relevance='photos' needs a detector's weights, once; fetch them: {REMEDY}"


def photos_relevance(scene: Scene, query: str) -> Relevance:
    """The source "photos"."""
    found = couple(scene.seen, query)
    return Relevance(np.asarray(found.map), query=query, participatory=np.asarray(found.map), notes=found.notes)


def photo_coupling(picture: np.ndarray | PhotoSight, query: str) -> Coupling | None:
    """The same for `look`, which has maps of its own beside it; None where the question names nothing that is known,
    and where the picture is no photograph."""
    seen = picture if isinstance(picture, PhotoSight) else PhotoSight(picture)
    if not worth_asking(query) or not is_photograph(seen.pixels):
        return None
    return couple(seen, query, alone=False)


def worth_asking(query: str) -> bool:
    """Whether the photo map has something to say: it is there, the question names something that it knows, and does not
    ask for something written, which it cannot read."""
    return photos_installed() and not coupled_words(query).reading and bool(photo_question(query))


def couple(seen: PhotoSight, query: str, *, alone: bool = True) -> Coupling:
    """Where what the question names is: a map (h, w) in [0, 1] and a line that says how it was found. alone: False
    leaves out what stands out, where others see to that."""
    named = photo_question(query)
    found, surest = things_map(seen.anchors, named, seen.shape)
    note = f"photo map: {', '.join(named.words)}" if named.words else "photo map: nothing named that it knows"
    if named.things:
        note += f" (best box {surest:.2f})"
    colours = coupled_words(query).colour_names
    if colours and named:
        # Colours choose among places that were found, never new ones.
        found = found * (0.15 + 0.85 * colour_map(seen.small, colours))
    found = found / max(float(found.max()), 1e-6)
    if alone:
        around = unnamed_map(seen)
        if not named:
            found = around if named.side is None else around * side_map(named.side, seen.shape)
            note += ": what stands out"
        elif surest < DOUBT:
            found = (found * surest + around * (DOUBT - surest)) / DOUBT
            note += ", unsure: what stands out is seen too"
        else:
            found = found + AROUND * around
    return Coupling((found / max(float(found.max()), 1e-6)).astype(np.float32), (note,))


def surest_box(seen: PhotoSight, query: str) -> float:
    """The score of the surest box of what the question names, in [0, 1]; 0 where it names nothing that is known."""
    return things_map(seen.anchors, photo_question(query), seen.shape)[1]


# ---- things ----------------------------------------------------------------------------------------------------------


def things_map(anchors: Anchors, named: PhotoQuestion, shape: tuple[int, int]) -> tuple[np.ndarray, float]:
    """(h, w) in [0, 1], its surest place 1 where a box is no worse than `DOUBT`, and the surest box's score."""
    found, surest = np.zeros(shape, np.float32), 0.0
    for wanted in named.things:
        boxes, scores = chosen(*strongest(anchors.boxes, anchors.scores[:, wanted.place]), named)
        surest = max(surest, float(scores.max(initial=0)))
        found = np.maximum(found, painted(part_of(boxes, wanted), wanted.weight * scores**SURENESS, shape))
    return found / max(float(found.max()), DOUBT**SURENESS), surest


def strongest(boxes: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(K, 4) boxes, inside the picture, and (K,) scores of those with the best scores."""
    order = np.argsort(-scores, kind="stable")[:MOST_BOXES]
    return np.clip(boxes[order], 0, 1), scores[order]


def chosen(boxes: np.ndarray, scores: np.ndarray, named: PhotoQuestion) -> tuple[np.ndarray, np.ndarray]:
    """Those that sides, ordinals and sizes leave: one counted thing, or all of them weighted by where they lie."""
    if named.ordinal is not None or named.size:
        alone = distinct(boxes, scores)
        counted = alone[scores[alone] >= COUNTED * scores.max()]
        along = (boxes[counted, 0] + boxes[counted, 2]) / 2
        area = (boxes[counted, 2] - boxes[counted, 0]) * (boxes[counted, 3] - boxes[counted, 1])
        order = np.argsort(-area * named.size if named.size else -along if named.from_right else along, kind="stable")
        place = 0 if named.ordinal is None else named.ordinal
        if -len(order) <= place < len(order):
            one = counted[order[place]]
            alike = overlap(boxes[one : one + 1], boxes)[0] > SAME
            return boxes[alike], scores[alike]
    if named.side is not None:
        centres = (boxes[:, :2] + boxes[:, 2:]) / 2
        scores = scores * at_side(centres[:, 0], centres[:, 1], named.side)
    return boxes, scores


def at_side(x: np.ndarray, y: np.ndarray, side: tuple[int, int]) -> np.ndarray:
    """How far places (0–1) lie to a side, in [0, 1]; (0, 0) is the middle."""
    if side == (0, 0):
        return np.clip(1 - 2 * np.hypot(x - 0.5, y - 0.5), 0, 1)
    across = x if side[0] > 0 else 1 - x if side[0] < 0 else 1.0
    down = y if side[1] > 0 else 1 - y if side[1] < 0 else 1.0
    return np.asarray(across * down)


def side_map(side: tuple[int, int], shape: tuple[int, int]) -> np.ndarray:
    y, x = ((np.arange(number) + 0.5) / number for number in shape)
    return at_side(x[None, :], y[:, None], side) * np.ones(shape)


def overlap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(A, 4) and (B, 4) → (A, B): the shared area as a part of both together."""
    low, high = np.maximum(first[:, None, :2], second[None, :, :2]), np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (first, second)]
    return shared / np.maximum(areas[0][:, None] + areas[1][None] - shared, 1e-9)


def distinct(boxes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Numbers of the boxes that no surer one overlaps by half; boxes come with the surest first."""
    shared = overlap(boxes, boxes) > SAME
    kept: list[int] = []
    for place in range(len(scores)):
        if not shared[place, kept].any():
            kept.append(place)
    return np.array(kept, dtype=int)


def part_of(boxes: np.ndarray, wanted: Wanted) -> np.ndarray:
    """(K, 4) boxes of things → of the wanted part of each."""
    left, top, right, bottom = wanted.part
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    if wanted.part != WHOLE and wanted.place == 0:
        # A person cut off by the lower edge: as high as it would be.
        cut = (boxes[:, 3] > 0.97) & (height < UPRIGHT * width)
        height = np.where(cut, np.minimum(UPRIGHT * width, 3 * height), height)
    across, down = (boxes[:, place : place + 1] for place in (0, 1))
    x, y = across + np.outer(width, [left, right]), down + np.outer(height, [top, bottom])
    return np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1)


def painted(boxes: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """(K, 4) boxes and (K,) values → (h, w): the greatest value of the boxes over each place, with soft edges."""
    rows, cols = shape
    y, x = (np.arange(rows) + 0.5) / rows, (np.arange(cols) + 0.5) / cols
    across = np.clip(np.minimum(x - boxes[:, :1], boxes[:, 2:3] - x) * cols + 0.5, 0, 1)
    down = np.clip(np.minimum(y - boxes[:, 1:2], boxes[:, 3:] - y) * rows + 0.5, 0, 1)
    return (values[:, None, None] * down[:, :, None] * across[:, None, :]).max(0, initial=0).astype(np.float32)


# ---- colours, and what stands out ------------------------------------------------------------------------------------


def colour_map(small: np.ndarray, colours: Sequence[str]) -> np.ndarray:
    """(h, w, 3) in [0, 1] → (h, w) in [0, 1]: nearness to the nearest of the named colours."""
    wanted = np.array([COLOURS[name] for name in colours], np.float32)[None] / 255
    weights = np.array([LIGHTNESS_WEIGHT, 1, 1], np.float32)
    lab, targets = (
        np.stack(srgb_to_lab((one[..., 0], one[..., 1], one[..., 2])), -1) * weights for one in (small, wanted)
    )
    far = ((lab[:, :, None] - targets[:, None]) ** 2).sum(-1).min(-1)
    return np.exp(-0.5 * far / COLOUR_REACH**2)


def unnamed_map(seen: PhotoSight) -> np.ndarray:
    """(h, w) in [0, 1]: what looks like any thing at all, and the middle of the picture."""
    things = painted(*strongest(seen.anchors.boxes, seen.anchors.scores.max(1)), seen.shape)
    return (things / max(float(things.max()), 1e-6) + centre_map(seen.shape)) / 2


# ---- the words of a question -----------------------------------------------------------------------------------------

Box = tuple[float, float, float, float]


@cache
def thesaurus() -> JsonObject:
    """classes: the detector's outputs. names: what else a class is called. groups: words for several classes. parts:
    words, their class, and where of its box they are. grounds: words for ground without an outline, which no box holds.
    asking: words that name nothing."""
    return read_table(Path(__file__).with_name("thesaurus.toml"))


@cache
def asking_words() -> frozenset[str]:
    """Words of a question that name nothing."""
    return frozenset(thesaurus()["asking"].split())


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
    """What a question names. words: those that were understood. grounds: those of them that name ground. side: (−1 left
    – 1 right, −1 top – 1 bottom). ordinal: which of several, counted from the left, from the right where from_right;
    size: the largest (1), smallest (−1)."""

    words: tuple[str, ...] = ()
    things: tuple[Wanted, ...] = ()
    grounds: tuple[str, ...] = ()
    side: tuple[int, int] | None = None
    ordinal: int | None = None
    from_right: bool = False
    size: int = 0

    def __bool__(self) -> bool:
        return bool(self.things)


@cache
def vocabulary() -> dict[str, tuple[Wanted, ...]]:
    """Word, or words joined by hyphens → what it stands for; nothing for ground."""
    table = thesaurus()
    number = {name: place for place, name in enumerate(table["classes"])}
    things: dict[str, dict[tuple[int, Box], float]] = {word: {} for word in table["grounds"].split()}

    def add(words: str, name: str, weight: float = 1.0, part: Box = WHOLE) -> None:
        for word in words.split():
            held = things.setdefault(word, {})
            key = number[name], part
            held[key] = max(weight, held.get(key, 0.0))

    for name, others in table["names"].items():
        add(f"{name.replace(' ', '-')} {others}", name)
    for words, names in table["groups"].items():
        for name in names.split():
            add(words, name.replace("_", " "), 0.8)
    for entry in table["parts"]:
        add(entry["words"], entry["of"], 0.7, tuple(entry["box"]))
    return {
        word: tuple(Wanted(place, weight, part) for (place, part), weight in held.items())
        for word, held in things.items()
    }


@cache
def kinds() -> dict[str, str]:
    """Noun → the class that it is a kind of, of WordNet."""
    table: dict[str, str] = json.loads(Path(__file__).with_name("kinds.json").read_text(encoding="utf-8"))
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


def known(word: str) -> str | None:
    """The word of the vocabulary that a word is, or a kind of; None where it is not known."""
    for one in singular(word):
        if one in vocabulary():
            return one
        if one in kinds():
            return kinds()[one].replace(" ", "-")
    return None


def photo_question(query: str) -> PhotoQuestion:
    """What a question names in a photograph."""
    words = re.findall(r"[a-z]+(?:-[a-z]+)*", query.lower().replace("'s", ""))
    found: list[str] = []
    things: dict[tuple[int, Box], float] = {}
    grounds: tuple[str, ...] = ()
    place = 0
    while place < len(words):
        length = next((n for n in (3, 2, 1) if known_at(words, place, n)), 0)
        if not length:
            place += 1
            continue
        word = "-".join(words[place : place + length])
        meant = known(word) or ""
        weight = LATER if found else 1.0
        for one in vocabulary()[meant]:
            key = one.place, one.part
            things[key] = max(things.get(key, 0.0), weight * one.weight)
        if not found and meant in thesaurus()["grounds"].split():
            grounds = (meant,)
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
        grounds=grounds,
        side=side,
        ordinal=next((ORDINALS[word] for word in words if word in ORDINALS), None),
        from_right="from the right" in query.lower(),
        size=next((SIZES[word] for word in words if word in SIZES), 0),
    )


def known_at(words: list[str], place: int, length: int) -> bool:
    """Do these words name something? Words that ask, and places, never do."""
    several = words[place : place + length]
    if len(several) < length or (length == 1 and (several[0] in asking_words() or several[0] in PLACES)):
        return False
    return known("-".join(several)) is not None
