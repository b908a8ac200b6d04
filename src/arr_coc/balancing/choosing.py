"""Which sources of relevance are asked for a picture and a question, and the map that balancing makes of them.

    relevances_for("auto", scenes, questions).relevance     one `Relevance` for each picture

"auto" takes the words of a page where they are known, the scorer or the glance of a model where there is one, and else
weighs every source that may know something here. That costs nothing yet: is it a photograph, is it grey, how much of it
is type, what does the question name? A source of little promise is not asked. What the others say, `balance` weighs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from ..core.errors import InputError
from ..core.values import Relevance
from ..knowing.language.lexical import Coupling
from ..knowing.photos.source import photo_coupling, photo_question, things_map
from ..knowing.registry import BUILT_IN, GIVEN, Maps, Source, as_relevance, find_source, is_map, several_maps
from ..knowing.scene import Scene
from ..knowing.signs import plain_signs, signs_of
from ..knowing.ways import perspectival, three_ways
from ..knowing.words.reading import with_words
from ..texture.channels import Texture
from .arousal import first_arousal
from .balance import Known, balance_ways, look_map
from .law import SOURCES, Law, read_law
from .tensions import DEFAULT_TENSIONS, WEIGHTS

# A source that is believed less than this beforehand is not asked.
PROMISE = 0.08
WAYS = ("propositional", "perspectival", "participatory")
# Sources that are weighed, and what is said where one of them decides by itself.
ALONE = {
    "scorer": "the picture is drawn or a page",
    "photos": "the picture is a photograph",
    "look": "no source that learned from examples knows more here",
    "words": "the words of the picture were read",
}
SEVERAL = "several maps, each by how far it is to be believed here"
WEIGHED = Source("weighed", "arr_coc.balancing.choosing:weighed_relevance", summary=SEVERAL)


def relevance_for(relevance: object, scene: Scene, query: str) -> Relevance:
    """The map of one picture, whatever `relevance=` is."""
    return relevances_for(relevance, [scene], [query]).relevance[0]


def relevances_for(relevance: object, scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
    """The maps of all pictures of a prompt. relevance: as for `find_source`, or one ready map for each picture."""
    maps = several_maps(relevance)
    given = [relevance] if maps is None else maps
    if (maps is not None or is_map(relevance)) and not (len(given) == len(scenes) and all(map(is_map, given))):
        count = f"{len(given)} maps for {len(scenes)} pictures"
        raise InputError(f"relevance= gives {count}; give one (rows, cols) map each")
    alone = [] if maps is None else list(range(len(scenes)))
    if isinstance(relevance, str) and relevance == "auto":
        scenes = [with_words(scene, query) for scene, query in zip(scenes, queries, strict=True)]
        alone = [number for number, scene in enumerate(scenes) if scene.words is not None]
    # Pictures with words by those; what is taken for the others is one source, and a glance is at all of them.
    together = [number for number in range(len(scenes)) if number not in alone]
    found = Maps([None] * len(scenes))
    for members in ([together] if together else []) + [[number] for number in alone]:
        source, note = resolve(relevance if maps is None else maps[members[0]], scenes[members[0]], queries[members[0]])
        asked = range(len(scenes)) if source.asks_model else members
        with ThreadPoolExecutor(min(8, 2 * len(members))) as pool:  # pictures are sensed while the source thinks
            if source is not WEIGHED and source.way != GIVEN and read_law(scenes[members[0]].law).reads_signs:
                for scene in (scenes[number] for number in members):
                    _ = scene.levels  # only this thread asks the device
                    _ = [pool.submit(getattr, scene, name) for name in ("letters", "odds")]
            made = source.maps([scenes[number] for number in asked], [queries[number] for number in asked])
        for place, number in enumerate(asked):
            if number in members:
                known = as_relevance(made.relevance[place], queries[number], note)
                found.relevance[number] = balanced(known, source, scenes[number])
        found = replace(found, realize={**found.realize, **made.realize})
    return found


def resolve(relevance: object, scene: Scene, query: str = "") -> tuple[Source, str]:
    """The source that `relevance=` stands for in this scene, and the note that says so; refused where the scene does
    not offer what it needs."""
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
    """What "auto" stands for here, and why."""
    if not scene.choosing:
        return BUILT_IN["detail"], "everything is kept, so nothing is to be chosen"
    if scene.words is not None:
        if not getattr(scene.words, "by_ocr", False):  # those that OCR has read may be misread: they are weighed
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
    """Weigh every source that may know something about the picture; take one alone where the others promise nothing."""
    wanted = promising(scene, query)
    asked = [name for name in wanted if name in ALONE] or ["look"]
    if wanted == asked and len(asked) == 1:
        return BUILT_IN[asked[0]], ALONE[asked[0]]
    return WEIGHED, f"{' and '.join(asked)} may know"


def promising(scene: Scene, query: str) -> list[str]:
    """Which of the sources that are there are worth asking; the centre is always there."""
    there = ["scorer", "look", "centre"] + ["words"] * (scene.words is not None)
    there += ["photos"] * (scene.photos and BUILT_IN["photos"].missing() is None)
    logits = read_law(scene.law).sources @ signs_of(scene, query)
    raised = np.where(np.isin(SOURCES, there), np.exp(logits - logits.max()), 0.0)
    return [name for name, share in zip(SOURCES, raised / raised.sum(), strict=True) if share >= PROMISE]


# ---- what the sources say, balanced ----------------------------------------------------------------------------------


def look_relevance(scene: Scene, query: str) -> Relevance:
    """The source "look"; a prompt without a question is asked what is there."""
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
    """Balance the three ways of a sensed picture into one map, which arousal sharpens by the stakes of the question's
    words and by how far the three contradict each other. photo: as for `three_ways`. weights: as for `balance`."""
    ways, notes = three_ways(texture, query, photo)
    arousal, said = first_arousal(query, ways)
    balanced = look_map(np.stack(ways), tensions, arousal, weights)
    return Relevance(balanced, query, *ways, tensions=dict(tensions), notes=(*notes, *said))


def _signs(law: Law, scene: Scene, query: str) -> np.ndarray:
    return signs_of(scene, query) if law.reads_signs else plain_signs(scene.share)


def weighed_relevance(scene: Scene, query: str) -> Relevance:
    """The maps of several sources as one, and a line that says who decided."""
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
    """What the sources say of a picture and a question, for `balance_ways`, and each as a `Relevance`.

    names: which of `law.SOURCES` are asked; by default those that promise something here. learning: also what a law may
    need that a training changes.
    """
    from ..knowing.words.answer import sureness_of_words

    names = [name for name in names or promising(scene, query) if name in ALONE] or ["look"]
    law, whole = read_law(scene.law), scene
    maps: dict[str, Relevance] = {}
    for name in names:
        # Each source speaks for itself, but the words are read by the scorer's light.
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
    """What one source found alone, with who decided. What a caller gave stays as it is."""
    name, law = source.name, read_law(scene.law)
    if source is WEIGHED or source.way == GIVEN:
        return found if found.ways else replace(found, ways={GIVEN: {name: 1.0}})
    salient = perspectival(scene.sensed) if law.salient else None
    one = balance_ways(Known({name: found.map}, found.map.shape, _signs(law, scene, found.query), salient=salient), law)
    return replace(found, map=one.map, ways=one.ways({name: source.way}), tensions=one.numbers())
