"""How far each source of relevance is to be believed for a picture and a question: what "auto" adds maps by.

Two steps. First what costs nothing: is it a photograph, is it grey, how much of it is type, what does the question
name? A source of little promise is not asked. Then the maps themselves: how sharp each is, how sure the detector was,
whether two agree. Both steps are one small linear law with a softmax, fitted once (lab/LOG.md); where one
source is left, its map is handed on as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.arrays import sized
from ..core.values import Relevance
from ..texture.channels import centre_map

if TYPE_CHECKING:
    from ..knowing.scene import Scene

# The order of the rows of the fitted numbers. The middle of the picture is nobody's map: it holds where nobody knows.
SOURCES = ("scorer", "photos", "look", "centre", "words", "encoder")
# What a picture and a question look like, and what a source's map looks like.
SIGNS = ("photograph", "grey", "type", "typeless", "reading", "thing", "ground", "colour", "place", "photo thing", "1")
MAP_SIGNS = ("sharp", "sure", "agreed")
# A source that is believed less than this beforehand is not asked.
PROMISE = 0.08
# Maps are compared on so many cells along the longer side.
SIDE = 24
# Added to the centre's belief where nobody speaks who knows things: in photographs they stand in the middle more often
# than the other sources find them. Chosen on photographs of two other collections, in colour and grey; drawn pages and
# pictures do not notice it.
MIDDLE = 3.0
FITTED = Path(__file__).with_name("weighing.json")


@dataclass(frozen=True)
class WeighingLaw:
    """The fitted numbers. signs: (sources, SIGNS). maps: (sources, MAP_SIGNS). sureness: of `sureness_signs`."""

    signs: np.ndarray
    maps: np.ndarray
    sureness: np.ndarray

    @classmethod
    @cache
    def bundled(cls) -> WeighingLaw:
        told = json.loads(FITTED.read_text(encoding="utf-8"))
        return cls(*(np.array(told[name], dtype=np.float64) for name in ("signs", "maps", "sureness")))

    def beforehand(self, signs: np.ndarray, there: np.ndarray) -> np.ndarray:
        """(sources,) belief in each from the picture and the question alone; 0 for those that are not there."""
        return shares(self.signs @ signs, there)

    def weights(self, signs: np.ndarray, maps: np.ndarray, there: np.ndarray) -> np.ndarray:
        """(sources,) belief in each when their maps are known, (sources, MAP_SIGNS)."""
        logits = self.signs @ signs + (self.maps * maps).sum(1)
        logits[SOURCES.index("centre")] += 0.0 if there[SOURCES.index("photos")] else MIDDLE
        return shares(logits, there)

    def expected(self, weights: np.ndarray, maps: np.ndarray, blended: np.ndarray) -> float:
        """How much of what is asked for an eighth of the tokens will show, in [0, 1]."""
        return float(1 / (1 + np.exp(-self.sureness @ sureness_signs(weights, maps, blended))))


def shares(logits: np.ndarray, there: np.ndarray) -> np.ndarray:
    """(sources,) → softmax over those that are there."""
    raised = np.where(there, np.exp(logits - logits[there].max()), 0.0)
    return raised / raised.sum()


def signs_of(scene: Scene, query: str) -> np.ndarray:
    """(SIGNS,) of a picture and a question."""
    from ..knowing.language.senses import coupled_words
    from ..knowing.photos.source import photo_question
    from ..pictures.kind import photograph_odds
    from ..texture.type_height import letters_of

    pixels = scene.pixels
    small = pixels[:: max(1, len(pixels) // 128), :: max(1, pixels.shape[1] // 128)].astype(np.int16)
    colourful = float((small.max(2) - small.min(2)).mean()) / 32
    letters = letters_of(pixels)
    boxes = letters.boxes
    ground = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).sum() / (pixels.shape[0] * pixels.shape[1])
    plain, named = coupled_words(query), photo_question(query)
    reading = bool(set(plain.reading) - {part for word in named.words for part in word.split("-")})
    odds = float(np.clip(photograph_odds(pixels) / 4, -2, 2))
    thing = bool(named.things)
    found = {
        "photograph": odds,
        "grey": float(colourful < 0.1),
        "type": float(np.sqrt(min(1.0, ground))),
        "typeless": float(not letters),
        "reading": float(reading),
        "thing": float(thing),
        "ground": float(bool(named.grounds)),
        "colour": float(bool(plain.colour_names)),
        "place": float(named.side is not None),
        "photo thing": max(0.0, odds) * thing,
        "1": 1.0,
    }
    return np.array([found[name] for name in SIGNS])


def on_cells(plane: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A map of any size on (rows, cols) cells, its sum 1."""
    import cv2

    cells = cv2.resize(np.asarray(plane, np.float32), shape[::-1], interpolation=cv2.INTER_AREA).astype(np.float64)
    cells = np.maximum(cells, 0) + 1e-9
    return cells / cells.sum()


def cell_shape(size: tuple[int, int]) -> tuple[int, int]:
    """(rows, cols) for a picture of this height and width."""
    return sized(size, SIDE, grow=True)


def sharpness(cells: np.ndarray) -> float:
    """How much of a map's mass lies in its best eighth."""
    best = max(1, cells.size // 8)
    return float(np.partition(cells.ravel(), -best)[-best:].sum())


def map_signs(cells: Mapping[str, np.ndarray], sure: Mapping[str, float]) -> np.ndarray:
    """(sources, MAP_SIGNS) of the maps that are there, on cells; zeros for the others."""
    found = np.zeros((len(SOURCES), len(MAP_SIGNS)))
    for row, name in enumerate(SOURCES):
        if name in cells:
            others = [np.sqrt(cells[name] * other).sum() for key, other in cells.items() if key not in (name, "centre")]
            found[row] = sharpness(cells[name]), sure.get(name, 0.0), max(others, default=0.0)
    return found


def sureness_signs(weights: np.ndarray, maps: np.ndarray, blended: np.ndarray) -> np.ndarray:
    """(3 + 2 · sources,) of what was decided: the blend's sharpness, who was believed and how sure that one was."""
    return np.concatenate([[1.0, sharpness(blended), weights.max()], weights, weights * maps[:, 1]])


def blend(cells: Mapping[str, np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Maps of sum 1 on one grid, added by their weights."""
    return np.sum([weights[SOURCES.index(name)] * one for name, one in cells.items()], axis=0)


def promising(scene: Scene, query: str, names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Which of the sources that are there are worth asking, and the signs that say so."""
    signs = signs_of(scene, query)
    there = np.array([name in names for name in SOURCES])
    belief = WeighingLaw.bundled().beforehand(signs, there)
    wanted = [name for name, share in zip(SOURCES, belief, strict=True) if share >= PROMISE]
    return wanted, signs


def weighed_relevance(
    scene: Scene, query: str, maps: Mapping[str, Relevance], signs: np.ndarray
) -> tuple[np.ndarray, str]:
    """Several maps as one.

    Args:
        scene: The picture.
        query: The question.
        maps: What each source found.
        signs: (SIGNS,) of `signs_of`.

    Returns:
        The map (rows, cols) in [0, 1], and a line that says who decided and how sure it is.
    """
    from ..knowing.photos.source import surest_box
    from ..knowing.words.answer import sureness_of_words

    shape = max((one.map.shape for one in maps.values()), key=lambda one: one[0] * one[1])
    grid = cell_shape((scene.pixels.shape[0], scene.pixels.shape[1]))
    planes = {name: one.map for name, one in maps.items()} | {"centre": centre_map(grid)}
    cells = {name: on_cells(plane, grid) for name, plane in planes.items()}
    sure = {"scorer": float(planes["scorer"].max())} if "scorer" in planes else {}
    if "words" in planes and scene.words is not None:
        sure["words"] = sureness_of_words(scene.words, query)
    if "photos" in planes:
        sure["photos"] = surest_box(scene.seen, query)
    there = np.array([name in planes for name in SOURCES])
    law, found = WeighingLaw.bundled(), map_signs(cells, sure)
    weights = law.weights(signs, found, there)
    expected = law.expected(weights, found, blend(cells, weights))
    fine = blend({name: on_cells(plane, shape) for name, plane in planes.items()}, weights)
    order = np.argsort(-weights, kind="stable")
    told = ", ".join(f"{SOURCES[place]} {weights[place]:.1f}" for place in order if weights[place] >= 0.05)
    line = f"weighed: {told}; an eighth of the tokens is expected to show {100 * expected:.0f} % of what is asked for"
    return (fine / fine.max()).astype(np.float32), line
