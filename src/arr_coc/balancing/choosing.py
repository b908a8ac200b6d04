"""Choose and weigh sources of relevance for a picture and a question, and give one map.

    relevances_for("auto", scenes, questions).relevance     one `Relevance` for each picture

"auto" takes the words of a page where they are known, the scorer or the glance of a model where there is one, and else
weighs every source that may know something here.

Sources are weighed in two steps. First what costs nothing: is it a photograph, is it grey, how much of it is type, what
does the question name? A source of little promise is not asked. Then the maps themselves: how sharp each is, how sure
the detector was, whether two agree. Both steps are one small linear law with a softmax, fitted once (lab/LOG.md); where
one source is left, its map is handed on as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from ..core.arrays import sized
from ..core.errors import InputError
from ..core.values import Relevance
from ..knowing.registry import BUILT_IN, Maps, Source, as_relevance, find_source, is_map
from ..knowing.scene import Scene
from ..texture.channels import centre_map


def relevance_for(relevance: object, scene: Scene, query: str) -> Relevance:
    """The map of one picture, whatever `relevance=` is."""
    return relevances_for(relevance, [scene], [query]).relevance[0]


def relevances_for(relevance: object, scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
    """The maps of all pictures of a prompt. relevance: as for `find_source`, or one ready map for each picture."""
    if isinstance(relevance, str) and relevance == "auto":
        from ..knowing.words.reading import with_words

        scenes = [with_words(scene, query) for scene, query in zip(scenes, queries, strict=True)]
        if len({scene.words is None for scene in scenes}) > 1 or (len(scenes) > 1 and any(map(_were_read, scenes))):
            return _by_words_where_known(scenes, queries)
    several = isinstance(relevance, list | tuple) or getattr(relevance, "ndim", 0) == 3
    given = list(relevance) if several and isinstance(relevance, Iterable) else [relevance]
    if (several or is_map(relevance)) and not (len(given) == len(scenes) and all(map(is_map, given))):
        count = f"{len(given)} maps for {len(scenes)} pictures"
        raise InputError(f"relevance= gives {count}; give one (rows, cols) map each")
    source, note = resolve(given[0] if several else relevance, scenes[0], next(iter(queries), ""))
    found = Maps(given, [None] * len(given)) if several else source.maps(scenes, queries)
    maps = [as_relevance(one, query, note) for one, query in zip(found.relevance, queries, strict=True)]
    return replace(found, relevance=maps)


def _by_words_where_known(scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
    """Of several pictures some bring their words: those by them, the others by what "auto" takes without words."""
    found = Maps([None] * len(scenes), [None] * len(scenes))
    if any(scene.words is None and scene.prompt is not None for scene in scenes):  # a model glances at all of them
        found = relevances_for("auto", [scene.varied(words=None, ocr=0) for scene in scenes], queries)
    maps = [
        relevance_for("auto", scene, query) if scene.words is not None or other is None else other
        for other, scene, query in zip(found.relevance, scenes, queries, strict=True)
    ]
    return replace(found, relevance=maps)


def resolve(relevance: object, scene: Scene, query: str = "") -> tuple[Source, str]:
    """The source that `relevance=` stands for in this scene, and the note that says so; refused where the scene does
    not offer what it needs."""
    if isinstance(relevance, str) and relevance == "auto":
        source, why = choose_source(scene, query)
        note = f"relevance {source.name!r}, chosen because {why}: {source.summary}"
    else:
        source = find_source(relevance)
        note = f"relevance {source.name!r}" + (f": {source.summary}" if source.summary else "")
    line = source.missing(scene.offers)
    if line is not None:
        raise InputError(line)
    return source, note


def check_relevance(relevance: object, offers: Iterable[str] = ("pixels", "texture")) -> None:
    """Refuse, before any picture is read, what cannot be used: an unknown name, or what needs more than is offered."""
    if isinstance(relevance, str) and relevance == "auto":
        return
    line = find_source(relevance).missing(offers)
    if line is not None:
        raise InputError(line)


# ---- what "auto" stands for ------------------------------------------------------------------------------------------

# Sources that are weighed, and what is said where one of them decides by itself.
ALONE: Mapping[str, str] = {
    "scorer": "the picture is drawn or a page",
    "photos": "the picture is a photograph",
    "look": "no source that learned from examples knows more here",
    "words": "the words of the picture were read",
}


def choose_source(scene: Scene, query: str = "") -> tuple[Source, str]:
    """What "auto" stands for here, and why."""
    if not scene.choosing:
        return BUILT_IN["detail"], "everything is kept, so nothing is to be chosen"
    if scene.words is not None and not _were_read(scene):
        return BUILT_IN["words"], "the words of the picture are known"
    if scene.words is None and scene.scorer is not None:
        return BUILT_IN["scorer"], ", and ".join(filter(None, ("it comes with this model", scene.remark)))
    if scene.words is None and scene.prompt is not None:
        if scene.prompt.can_glance:
            return BUILT_IN["glance"], "this model can say where it looks"
        source, why = _by_kind(scene, query)
        return source, f"this model cannot show where it looks, and {why}"
    if scene.words is None and (scene.fallback != "look" or scene.given is None):
        return BUILT_IN[scene.fallback], "no scorer comes with this model"
    return _by_kind(scene, query)


def _by_kind(scene: Scene, query: str) -> tuple[Source, str]:
    """Weigh every source that may know something about the picture; take one alone where the others promise nothing."""
    there = [name for name in ("scorer", "photos", "look") if BUILT_IN[name].available() is None]
    there = [name for name in there if scene.photos or name != "photos"] + ["words"] * (scene.words is not None)
    wanted, signs = promising(scene, query, [*there, "centre"])
    asked = [name for name in wanted if name in ALONE] or ["look"]
    if wanted == asked and len(asked) == 1:
        return BUILT_IN[asked[0]], ", and ".join(filter(None, (ALONE[asked[0]], scene.remark)))
    summary = "several maps, each by how far it is to be believed here"
    weighed = Source("weighed", partial(_weighed, asked, signs), summary=summary)
    return weighed, ", and ".join(filter(None, (f"{' and '.join(asked)} may know", scene.remark)))


def _were_read(scene: Scene) -> bool:
    """Its words are known by OCR: they are weighed, as they may be misread."""
    return bool(getattr(scene.words, "by_ocr", False))


# ---- weighing --------------------------------------------------------------------------------------------------------

# The order of the rows of the fitted numbers. The middle of the picture is a map that needs no source.
SOURCES = ("scorer", "photos", "look", "centre", "words")
# A source that is believed less than this beforehand is not asked.
PROMISE = 0.08
# Maps are compared on so many cells along the longer side.
SIDE = 24
# Added to the centre's belief where the photo map does not speak: in photographs things stand in the middle more often
# than the other sources find them. Chosen on photographs of two other collections, in colour and grey; drawn pages and
# pictures do not notice it.
MIDDLE = 3.0


@cache
def law() -> dict[str, np.ndarray]:
    """The fitted numbers of each source: signs, for `signs_of`; maps, for how sharp, sure and shared its map is."""
    text = Path(__file__).with_name("weighing.json").read_text(encoding="utf-8")
    return {name: np.array(rows, dtype=np.float64) for name, rows in json.loads(text).items() if name != "n"}


def shares(logits: np.ndarray, there: np.ndarray) -> np.ndarray:
    """(sources,) → softmax over those that are there."""
    raised = np.where(there, np.exp(logits - logits[there].max()), 0.0)
    return raised / raised.sum()


def promising(scene: Scene, query: str, names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Which of the sources that are there are worth asking, and the signs that say so."""
    signs = signs_of(scene, query)
    belief = shares(law()["signs"] @ signs, np.isin(SOURCES, names))
    return [name for name, share in zip(SOURCES, belief, strict=True) if share >= PROMISE], signs


def signs_of(scene: Scene, query: str) -> np.ndarray:
    """What a picture and a question look like, in the order of the fitted numbers."""
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
    signs = {
        "photograph": odds,
        "grey": float(colourful < 0.1),
        "type": float(np.sqrt(min(1.0, ground))),
        "typeless": float(not letters),
        "reading": float(reading),
        "thing": float(bool(named.things)),
        "ground": float(bool(named.grounds)),
        "colour": float(bool(plain.colour_names)),
        "place": float(named.side is not None),
        "photo thing": max(0.0, odds) * bool(named.things),
        "1": 1.0,
    }
    return np.array(list(signs.values()))


def _weighed(names: Sequence[str], signs: np.ndarray, scene: Scene, query: str) -> Relevance:
    """The maps of several sources as one, and a line that says who decided."""
    from ..knowing.photos.source import surest_box
    from ..knowing.words.answer import sureness_of_words

    maps: dict[str, Relevance] = {}
    for name in names:
        # Each source speaks for itself, but the words are read by the scorer's light.
        own = scene.varied(photos=False) if name == "look" else scene
        found = scene.pointed if name == "scorer" and scene.pointed is not None else None
        found = BUILT_IN[name].maps([own], [query]).relevance[0] if found is None else found
        maps[name] = as_relevance(found, query, BUILT_IN[name].summary)
        scene = scene.varied(pointed=maps[name].map) if name == "scorer" else scene
    grid = sized(scene.pixels.shape, SIDE, grow=True)
    planes = {name: one.map for name, one in maps.items()} | {"centre": centre_map(grid)}
    cells = {name: _on_cells(plane, grid) for name, plane in planes.items()}
    map_signs = np.zeros((len(SOURCES), 3))
    for name, own in cells.items():
        sure = 0.0
        if name == "scorer":
            sure = float(planes[name].max())
        elif name == "words" and scene.words is not None:
            sure = sureness_of_words(scene.words, query, planes.get("scorer"))
        elif name == "photos":
            sure = surest_box(scene.seen, query)
        best = max(1, own.size // 8)
        sharp = float(np.partition(own.ravel(), -best)[-best:].sum())
        others = [np.sqrt(own * other).sum() for key, other in cells.items() if key not in (name, "centre")]
        map_signs[SOURCES.index(name)] = sharp, sure, max(others, default=0.0)
    logits = law()["signs"] @ signs + (law()["maps"] * map_signs).sum(1)
    logits[SOURCES.index("centre")] += 0.0 if "photos" in planes else MIDDLE
    weights = dict(zip(SOURCES, shares(logits, np.isin(SOURCES, list(planes))).tolist(), strict=True))
    shape = max((one.map.shape for one in maps.values()), key=lambda one: one[0] * one[1])
    plane = np.sum([weights[name] * _on_cells(one, shape) for name, one in planes.items()], axis=0)
    order = sorted(weights, key=lambda name: -weights[name])
    line = f"weighed: {', '.join(f'{name} {weights[name]:.1f}' for name in order if weights[name] >= 0.05)}"
    said = [note for one in maps.values() for note in one.notes[1:]]
    first = maps.get("look") or next(iter(maps.values()))
    return replace(first, map=(plane / plane.max()).astype(np.float32), notes=(line, *said))


def _on_cells(plane: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A map of any size on (rows, cols) cells, its sum 1."""
    import cv2

    cells = cv2.resize(np.asarray(plane, np.float32), shape[::-1], interpolation=cv2.INTER_AREA).astype(np.float64)
    cells = np.maximum(cells, 0) + 1e-9
    return cells / cells.sum()
