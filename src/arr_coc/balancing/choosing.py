"""Choose the sources of relevance for a picture and a question, and balance their maps.

    relevances_for("auto", scenes, questions).relevance     one `Relevance` for each picture

"auto" uses the words of a page if they are known, else the scorer or the glance of the model if there is one, else all
sources that seem useful. Cheap signs tell which: is it a photograph, is it grey, how much of it is type, what does the
question name? Sources with a low weight by these signs are skipped; `balance` weighs the maps of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..core.errors import InputError
from ..core.values import Relevance
from ..knowing.language.lexical import Coupling
from ..knowing.photos.source import photo_coupling, photo_question, things_map
from ..knowing.registry import BUILT_IN, GIVEN, Maps, Source, as_relevance, find_source, is_map, several_maps
from ..knowing.scene import Scene, begin_copies, begin_measuring
from ..knowing.signs import plain_signs, signs_of
from ..knowing.ways import perspectival, three_ways
from ..knowing.words.reading import with_words
from ..texture.channels import Texture
from .arousal import first_arousal
from .balance import Known, balance_ways, look_map
from .law import SOURCES, Law, read_law
from .tensions import DEFAULT_TENSIONS, WEIGHTS

# Sources whose weight by the signs is below this are skipped.
PROMISE = 0.08
WAYS = ("propositional", "perspectival", "participatory")
# Sources that are weighed, and the reason in the note if one of them decides alone.
ALONE = {
    "scorer": "the picture is drawn or a page",
    "photos": "the picture is a photograph",
    "look": "no source that learned from examples knows more here",
    "words": "the words of the picture were read",
}
SEVERAL = "several maps, each by how far it is to be believed here"
WEIGHED = Source("weighed", "arr_coc.balancing.choosing:weighed_relevance", summary=SEVERAL)


def relevance_for(relevance: object, scene: Scene, query: str) -> Relevance:
    """Compute the map of one picture for any value of `relevance=`."""
    return relevances_for(relevance, [scene], [query]).relevance[0]


def relevances_for(relevance: object, scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
    """Compute the maps of all pictures of a prompt. relevance: as for `find_source`, or one map for each picture."""
    maps = several_maps(relevance)
    given = [relevance] if maps is None else maps
    if (maps is not None or is_map(relevance)) and not (len(given) == len(scenes) and all(map(is_map, given))):
        count = f"{len(given)} maps for {len(scenes)} pictures"
        raise InputError(f"relevance= gives {count}; give one (rows, cols) map each")
    alone = [] if maps is None else list(range(len(scenes)))
    if isinstance(relevance, str) and relevance == "auto":
        scenes = [with_words(scene, query) for scene, query in zip(scenes, queries, strict=True)]
        alone = [number for number, scene in enumerate(scenes) if scene.words is not None]
    # Pictures with words use these; all others share one source, and a glance runs on all pictures.
    together = [number for number in range(len(scenes)) if number not in alone]
    found = Maps([None] * len(scenes))
    for members in ([together] if together else []) + [[number] for number in alone]:
        source, note = resolve(relevance if maps is None else maps[members[0]], scenes[members[0]], queries[members[0]])
        asked = range(len(scenes)) if source.asks_model else members
        if source is not WEIGHED and source.way != GIVEN and read_law(scenes[members[0]].law).reads_signs:
            own = [scenes[number] for number in members]  # measured while the source runs, which a device starts first
            (begin_copies if source is BUILT_IN["scorer"] and own[0].device != "cpu" else begin_measuring)(own)
        made = source.maps([scenes[number] for number in asked], [queries[number] for number in asked])
        for place, number in enumerate(asked):
            if number in members:
                known = as_relevance(made.relevance[place], queries[number], note)
                found.relevance[number] = balanced(known, source, scenes[number])
        found = replace(found, realize={**found.realize, **made.realize})
    return found


def resolve(relevance: object, scene: Scene, query: str = "") -> tuple[Source, str]:
    """Return the source for `relevance=` in this scene, and its note; `InputError` if the scene lacks its needs."""
    if isinstance(relevance, str) and relevance == "auto":
        source, why = choose_source(scene, query)
        why = f"{why}, and {scene.remark}" if scene.remark else why
        note = f"relevance {source.name!r}, chosen because {why}: {source.summary}"
    else:
        source = find_source(relevance)
        note = f"relevance {source.name!r}" + (f": {source.summary}" if source.summary else "")
    line = source.missing(scene.prompt is not None)
    if line is not None:
        raise InputError(line)
    return source, note


# ---- what "auto" stands for ------------------------------------------------------------------------------------------


def choose_source(scene: Scene, query: str = "") -> tuple[Source, str]:
    """Choose the source for "auto", and say why."""
    if not scene.choosing:
        return BUILT_IN["detail"], "everything is kept, so nothing is to be chosen"
    if scene.words is not None:
        if not getattr(scene.words, "by_ocr", False):  # OCR may misread, so its words are only weighed
            return BUILT_IN["words"], "the words of the picture are known"
        return _by_kind(scene, query)
    if scene.scorer is not None:
        return BUILT_IN["scorer"], "it comes with this model"
    if scene.prompt is not None and scene.prompt.can_glance:
        return BUILT_IN["glance"], "this model can say where it looks"
    if scene.given is None:
        return BUILT_IN["look"], "no scorer comes with this model"
    return _by_kind(scene, query)


def _by_kind(scene: Scene, query: str) -> tuple[Source, str]:
    """Weigh all sources that seem useful; use one alone if no other does."""
    wanted = promising(scene, query)
    asked = [name for name in wanted if name in ALONE] or ["look"]
    if wanted == asked and len(asked) == 1:
        return BUILT_IN[asked[0]], ALONE[asked[0]]
    return WEIGHED, f"{' and '.join(asked)} may know"


def promising(scene: Scene, query: str) -> list[str]:
    """Return the available sources whose weight by the signs is high enough; the centre is always available."""
    there = ["scorer", "look", "centre"] + ["words"] * (scene.words is not None)
    there += ["photos"] * (scene.photos and BUILT_IN["photos"].missing() is None)
    logits = read_law(scene.law).sources @ signs_of(scene, query)
    raised = np.where(np.isin(SOURCES, there), np.exp(logits - logits.max()), 0.0)
    return [name for name, share in zip(SOURCES, raised / raised.sum(), strict=True) if share >= PROMISE]


# ---- what the sources say, balanced ----------------------------------------------------------------------------------


def look_relevance(scene: Scene, query: str) -> Relevance:
    """Compute the source "look"; without a question, use "what is there"."""
    query, law = query or "what is there", read_law(scene.law)
    photo = photo_coupling(scene.seen, query) if scene.photos else None
    return relevance_of(scene.sensed, query, photo, law.named_tensions(_signs(law, scene, query)), law.look)


def relevance_of(
    texture: Texture,
    query: str,
    photo: Coupling | None = None,
    tensions: Mapping[str, float] = DEFAULT_TENSIONS,
    weights: np.ndarray = WEIGHTS,
) -> Relevance:
    """Balance the three ways of a picture into one map, which arousal sharpens by the stakes of the question and the
    contradiction between the three. photo: as for `three_ways`. weights: as for `balance`."""
    ways, notes = three_ways(texture, query, photo)
    arousal, said = first_arousal(query, ways)
    balanced = look_map(np.stack(ways), tensions, arousal, weights)
    return Relevance(balanced, query, *ways, tensions=dict(tensions), notes=(*notes, *said))


def _signs(law: Law, scene: Scene, query: str) -> np.ndarray:
    return signs_of(scene, query) if law.reads_signs else plain_signs(scene.share)


def weighed_relevance(scene: Scene, query: str) -> Relevance:
    """Balance the maps of several sources into one, with a note of their weights."""
    known, maps = knowns(scene, query)
    found = balance_ways(known, read_law(scene.law))
    order = sorted(found.weights.items(), key=lambda one: -one[1])
    line = f"weighed: {', '.join(f'{name} {weight:.1f}' for name, weight in order if weight >= 0.05)}"
    said = [note for one in maps.values() for note in one.notes[1:]]
    first = maps.get("look") or next(iter(maps.values()))
    kinds = {name: BUILT_IN[name].way for name in maps} | {"centre": "perspectival"}
    return replace(first, map=found.map, notes=(line, *said), ways=found.ways(kinds), tensions=found.numbers())


def knowns(
    scene: Scene, query: str, names: Sequence[str] = (), *, learning: bool = False
) -> tuple[Known, dict[str, Relevance]]:
    """Compute the input of `balance_ways` for a picture and a question, and each source's map as a `Relevance`.

    names: the sources to use, of `law.SOURCES`; by default those that seem useful. learning: include what a law may
    need after training.
    """
    from ..knowing.words.answer import sureness_of_words

    names = [name for name in names or promising(scene, query) if name in ALONE] or ["look"]
    law, whole = read_law(scene.law), scene
    maps: dict[str, Relevance] = {}
    for name in names:
        # Sources are independent, except that the words use the scorer's map.
        own = replace(scene, photos=False) if name == "look" else scene
        found = scene.pointed if name == "scorer" and scene.pointed is not None else None
        found = BUILT_IN[name].maps([own], [query]).relevance[0] if found is None else found
        maps[name] = as_relevance(found, query, BUILT_IN[name].summary)
        scene = replace(scene, pointed=maps[name].map) if name == "scorer" else scene
    sure = {"scorer": float(maps["scorer"].map.max())} if "scorer" in maps else {}
    if "words" in maps and scene.words is not None:
        sure["words"] = sureness_of_words(scene.words, query, maps["scorer"].map if "scorer" in maps else None)
    if "photos" in maps:
        sure["photos"] = things_map(scene.seen.anchors, photo_question(query), scene.seen.shape)[1]
    look = maps.get("look")
    three = [] if look is None else [np.asarray(getattr(look, way)) for way in WAYS]
    return Known(
        {name: one.map for name, one in maps.items() if name != "look"},
        (scene.pixels.shape[0], scene.pixels.shape[1]),
        signs_of(scene, query),
        sure,
        np.stack(three) if three else None,
        first_arousal(query, three)[0] if three else 0.0,
        perspectival(whole.sensed) if learning or law.salient else None,
        mixed=True,
    ), maps


def balanced(found: Relevance, source: Source, scene: Scene) -> Relevance:
    """Balance the map of a single source, and note its way of knowing. Maps from the caller stay unchanged."""
    name, law = source.name, read_law(scene.law)
    if source is WEIGHED or source.way == GIVEN:
        return found if found.ways else replace(found, ways={GIVEN: {name: 1.0}})
    salient = perspectival(scene.sensed) if law.salient else None
    one = balance_ways(Known({name: found.map}, found.map.shape, _signs(law, scene, found.query), salient=salient), law)
    return replace(found, map=one.map, ways=one.ways({name: source.way}), tensions=one.numbers())
