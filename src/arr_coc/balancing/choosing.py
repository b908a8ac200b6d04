"""Choose and weigh sources of relevance for a picture and a question, and give one map.

    relevances_for("auto", scenes, questions).relevance     one `Relevance` for each picture

"auto" takes the words of a page where they are known, the scorer or the glance of a model where there is one, and else
weighs every source that may know something here (`weights`). At grave stakes and in doubt, arousal narrows the map.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..core.errors import InputError
from ..core.values import Relevance
from ..knowing.registry import BUILT_IN, Maps, Source, as_relevance, find_source, is_map
from ..knowing.scene import Scene
from .arousal import GRAVE, aroused, keyword_stakes


def maps_of(source: Source, scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
    """Ask a source for the maps of all pictures; fear narrows those of a source that does not know arousal itself."""
    found = source.maps(scenes, queries)
    return _in_fear(found, queries) if source.narrows else found


def _in_fear(found: Maps, queries: Sequence[str]) -> Maps:
    """Maps of a learned source, narrowed where a question of grave stakes meets a doubtful map."""
    if all(keyword_stakes(query).value < GRAVE for query in queries):
        return found
    maps = list(found.relevance)
    for number, (one, query) in enumerate(zip(maps, queries, strict=True)):
        if isinstance(one, Relevance):
            narrowed, felt = aroused(one.map, query)
            if narrowed is not one.map:
                maps[number] = replace(one, map=narrowed, notes=(*one.notes, felt.note()))
    return replace(found, relevance=maps)


# The library's own, by the rooms that know them. Rooms above this one are named, not imported.


def choose_source(scene: Scene, query: str = "") -> tuple[Source, str]:
    """What "auto" stands for here, and why."""
    if not scene.choosing:
        return BUILT_IN["detail"], "everything is kept, so nothing is to be chosen"
    if scene.words is not None:
        known = BUILT_IN["words"], "the words of the picture are known"
        return _by_kind(scene, query) if _were_read(scene) else known
    if scene.scorer is not None:
        return BUILT_IN["scorer"], ", and ".join(["it comes with this model", *_without_ocr(scene)])
    if scene.prompt is not None:
        if scene.prompt.can_glance:
            return BUILT_IN["glance"], "this model can say where it looks"
        source, why = _by_kind(scene, query)
        return source, f"this model cannot show where it looks, and {why}"
    if scene.fallback != "look" or scene.given is None:
        return BUILT_IN[scene.fallback], "no scorer comes with this model"
    return _by_kind(scene, query)


# Whom a picture alone is shown to, and what is said where one of them decides by itself.
ALONE: Mapping[str, str] = {
    "scorer": "the picture is drawn or a page",
    "photos": "the picture is a photograph",
    "look": "no source that learned from examples knows more here",
    "words": "the words of the picture were read",
    "encoder": "the picture is a photograph",
}


def _by_kind(scene: Scene, query: str) -> tuple[Source, str]:
    """For a picture alone: every source that may know something here, weighed; one alone where the others promise
    nothing."""
    from .weights import promising

    absent = {name: BUILT_IN[name].available() for name in ("scorer", "photos", "look")}
    if not scene.photos:
        absent["photos"] = "the parts for photographs are switched off"
    there = [name for name, line in absent.items() if line is None]
    there += ["words"] if scene.words is not None else ["encoder"] if scene.photos and own_encoder() else []
    wanted, signs = promising(scene, query, [*there, "centre"])
    asked = [name for name in wanted if name in ALONE] or ["look"]
    lines = [line for name in ("scorer", "photos") if (line := _lacks(name, absent[name], signs)) is not None]
    lines += _without_ocr(scene)
    if wanted == asked and len(asked) == 1:
        return _member(asked[0]), ", and ".join([ALONE[asked[0]], *lines])
    summary = "several maps, each by how far it is to be believed here"
    weighed = Source("weighed", partial(_weighed, asked, signs), summary=summary, narrows=True)
    return weighed, ", and ".join([f"{' and '.join(asked)} may know", *lines])


def own_encoder() -> str:
    """The user's own CLIP or SigLIP, which "auto" weighs with the others: $ARR_COC_ENCODER, a folder or a name."""
    return os.environ.get("ARR_COC_ENCODER", "").strip()


def _member(name: str) -> Source:
    """A source that is weighed."""
    return find_source(f"encoder:{own_encoder()}") if name == "encoder" else BUILT_IN[name]


def _were_read(scene: Scene) -> bool:
    """Its words are known by OCR: they are weighed, as they may be misread."""
    return bool(getattr(scene.words, "by_ocr", False))


def _without_ocr(scene: Scene) -> list[str]:
    """What OCR would add to this picture, where it is not installed."""
    from ..knowing.words.reading import what_ocr_would_add

    line = what_ocr_would_add(scene)
    return [] if line is None else [line]


def _lacks(name: str, line: str | None, signs: np.ndarray) -> str | None:
    """What a source that is missing would have added to this picture, in one line; None where nothing."""
    from .weights import SOURCES, WeighingLaw

    if line is None:
        return None
    there = np.array([one not in ("words", "encoder") for one in SOURCES])
    share = WeighingLaw.bundled().beforehand(signs, there)[SOURCES.index(name)]
    return f"{line} (it would count for {100 * share:.0f} % here)" if share >= 0.25 else None


def _weighed(names: Sequence[str], signs: np.ndarray, scene: Scene, query: str) -> Relevance:
    """The maps of several sources as one."""
    from .weights import weighed_relevance

    alone = scene.varied(photos=False)  # each source speaks for itself
    found = {name: maps_of(_member(name), [alone if name == "look" else scene], [query]).relevance[0] for name in names}
    maps = {name: as_relevance(one, query, _member(name).summary) for name, one in found.items()}
    plane, line = weighed_relevance(scene, query, maps, signs)
    said = [note for one in maps.values() for note in one.notes[1:]]
    return replace(maps.get("look") or next(iter(maps.values())), map=plane, notes=(line, *said))


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


def relevance_for(relevance: object, scene: Scene, query: str) -> Relevance:
    """The map of one picture, whatever `relevance=` is."""
    return relevances_for(relevance, [scene], [query]).relevance[0]


def relevances_for(relevance: object, scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
    """The maps of all pictures of a prompt. relevance: as for `find_source`, or one ready map for each picture."""
    if isinstance(relevance, str) and relevance == "auto":
        from ..knowing.words.reading import with_words

        scenes = [with_words(scene) for scene in scenes]
        if len({scene.words is None for scene in scenes}) > 1 or (len(scenes) > 1 and any(map(_were_read, scenes))):
            return _by_words_where_known(scenes, queries)
    several = isinstance(relevance, list | tuple) or getattr(relevance, "ndim", 0) == 3
    given = list(relevance) if several and isinstance(relevance, Iterable) else [relevance]
    if (several or is_map(relevance)) and not (len(given) == len(scenes) and all(map(is_map, given))):
        count = f"{len(given)} maps for {len(scenes)} pictures"
        raise InputError(f"relevance= gives {count}; give one (rows, cols) map each")
    source, note = resolve(given[0] if several else relevance, scenes[0], next(iter(queries), ""))
    found = Maps(given, [None] * len(given)) if several else maps_of(source, scenes, queries)
    maps = [as_relevance(one, query, note) for one, query in zip(found.relevance, queries, strict=True)]
    return replace(found, relevance=maps)


def _by_words_where_known(scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
    """Of several pictures some bring their words: those by them, the others by what "auto" takes without words."""
    found = Maps([None] * len(scenes), [None] * len(scenes))
    if any(scene.words is None and scene.prompt is not None for scene in scenes):  # a model glances at all of them
        found = relevances_for("auto", [scene.varied(words=None, ocr=False) for scene in scenes], queries)
    maps = [
        relevance_for("auto", scene, query) if scene.words is not None or other is None else other
        for other, scene, query in zip(found.relevance, scenes, queries, strict=True)
    ]
    return replace(found, relevance=maps)
