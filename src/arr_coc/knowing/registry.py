"""The table of sources of relevance, by name. `look`, `ask`, `attach`, passes and clips all use it.

@relevance_source("centre", summary="what lies in the middle")
def centre(scene, question):                        # a `Scene` and the question → a map (rows, cols) in [0, 1]
    rows, cols = scene.pixels.shape[:2]; …

look(image, question, relevance="centre")           and so in ask(), attach(), Esper, watch() and on the command line

Another package adds one by an entry point of the group `arr_coc.relevance`: its name is the source's name, and it
names a `Source` or such a function. Sources of this library are imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import is_tensor
from ..core.errors import InputError, meant, of_kind, shown
from ..core.folders import CHOOSER
from ..core.plugins import LAB, load_function, load_plugin, plugins
from ..core.values import Relevance
from .scene import Scene


@dataclass(frozen=True)
class Maps:
    """Relevance of several pictures. realize: intermediate results that the model's adapter can reuse, such as the
    output of an encoder that a glance ran."""

    relevance: list[Any]
    realize: Mapping[str, object] = field(default_factory=dict)


GROUP = "arr_coc.relevance"
# Ways of knowing of sources; a map from the caller belongs to none of the three.
PARTICIPATORY, GIVEN = "participatory", "given"


@dataclass(frozen=True)
class Source:
    """A source of relevance.

    function: (scene, question) → `Relevance` or a map (rows, cols) in [0, 1]; or "module:name" of one, imported on
    first use. summary: one line, which becomes a note of the relevance. ready: a function, or "module:name" of one,
    that returns a line about what is missing on this machine, or None. together: the function takes all scenes and all
    questions of a prompt, and returns `Maps`. asks_model: it needs `Scene.prompt`. way: of knowing, "propositional",
    "perspectival" or "participatory".
    """

    name: str
    function: Callable[..., object] | str
    summary: str = ""
    ready: Callable[[], str | None] | str | None = None
    together: bool = False
    asks_model: bool = False
    way: str = GIVEN

    def missing(self, model: bool = False) -> str | None:
        """Return one line that says what this source lacks here; None if it can be used. model: whether one reads."""
        if self.asks_model and not model:
            needed = "a model that reads the picture; use ask() or attach()"
            return f"relevance={self.name!r} needs {needed}; or choose another, such as 'scorer' or 'look'"
        return None if self.ready is None else load_function(self.ready)()

    def maps(self, scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
        function = load_function(self.function)
        if self.together:
            return function(scenes, queries)
        return Maps([function(scene, query) for scene, query in zip(scenes, queries, strict=True)])


BUILT_IN: Mapping[str, Source] = {
    source.name: source
    for source in (
        Source(
            "look", "arr_coc.balancing.choosing:look_relevance",
            "what is there, what stands out and what the question's words name, balanced", way="three ways",
        ),
        Source(
            "scorer", "arr_coc.knowing.scorer.source:scorer_maps", "a network that finds the answer on pages",
            together=True, way=PARTICIPATORY,
        ),
        Source(
            "glance", lambda scenes, queries: scenes[0].prompt.glance_maps(scenes, queries),
            "the model's own attention on a coarse first look", together=True, asks_model=True, way=PARTICIPATORY,
        ),
        Source(
            "words", "arr_coc.knowing.words.source:words_relevance",
            "where the words of the picture answer the question", way=PARTICIPATORY,
        ),
        Source(
            "photos", "arr_coc.knowing.ways:scene_photos", "where things that the question names are, by a detector",
            ready="arr_coc.knowing.photos.source:photos_missing", way=PARTICIPATORY,
        ),
        Source(
            "detail", "arr_coc.knowing.ways:scene_detail", "what a coarse look would lose, whatever is asked",
            way="propositional",
        ),
    )
}  # fmt: skip
_ADDED: dict[str, Source] = {}


def relevance_source(
    name: str, *, summary: str = "", **more: Any
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Register a function as a source of relevance, in this process.

    Args:
        name: The name for `relevance=`.
        summary: One line, which becomes a note of its maps.
        **more: Further fields of `Source`.

    Returns:
        A decorator for a function of (scene, question) that returns a map (rows, cols) in [0, 1] or a `Relevance`.

    Example:
        >>> @relevance_source("centre", summary="what lies in the middle")  # doctest: +SKIP
        ... def centre(scene, question):
        ...     return np.outer(np.hanning(16), np.hanning(16))
    """
    of_kind(name, str, "the name of a source")
    source = Source(name, "", summary, **more)

    def add(function: Callable[..., object]) -> Callable[..., object]:
        if not callable(function):
            raise InputError(f"relevance {name!r} must be a function of (scene, question), got {shown(function)}")
        if name == "auto" or name in BUILT_IN or not name:
            raise InputError(f"relevance {name!r} is a name of the library; choose another")
        _ADDED[name] = replace(source, function=function)
        return function

    return add


def remove_source(name: str) -> None:
    """Remove a source that was added by `relevance_source`."""
    _ADDED.pop(name, None)


def source_names() -> tuple[str, ...]:
    """List the names for `relevance=`: the library's, those that were added, those of other packages."""
    return tuple(dict.fromkeys(("auto", *BUILT_IN, *_ADDED, *plugins(GROUP))))


def find_source(relevance: object) -> Source:
    """Find the source for `relevance=`: a name, the folder of a trained scorer or chooser, a function of (picture,
    question), a map, or a `Source`. Raises `InputError` with the most similar name."""
    if isinstance(relevance, Source):
        return relevance
    if is_map(relevance):
        return Source("map", lambda scene, query: relevance, "as the caller gave it")
    if callable(relevance) and not isinstance(relevance, type):
        name = getattr(relevance, "__name__", type(relevance).__name__)
        return Source(name, lambda scene, query: relevance(scene.given, query), summary="your own function")
    if isinstance(relevance, str) and (known := _named(relevance)) is not None:
        return known
    if isinstance(relevance, str | Path) and os.path.isfile(Path(relevance) / "config.json"):
        scorer = load_function("arr_coc.knowing.scorer.source:ScorerRelevance")(Path(relevance))
        return Source(str(Path(relevance)), scorer.of_scene, summary="the scorer of this folder")
    if isinstance(relevance, str | Path) and os.path.isfile(Path(relevance) / CHOOSER):
        chooser = load_function("arr_coc.knowing.words.source:words_relevance")
        own = partial(chooser, weights=Path(relevance) / CHOOSER)
        return Source(str(Path(relevance)), own, summary="the chooser of words of this folder")
    names = source_names()
    raise InputError(
        f"relevance={relevance!r} is unknown{meant(relevance, names)}; use {', '.join(map(repr, names))}, "
        "the folder of a trained scorer or chooser, a function of (picture, question), or a map; "
        f"the laboratory has more: {LAB}"
    )


def check_relevance(relevance: object, model: bool = False) -> None:
    """Refuse, before any picture is read, an unknown name, or a source that needs a model where there is none."""
    line = None if isinstance(relevance, str) and relevance == "auto" else find_source(relevance).missing(model)
    if line is not None:
        raise InputError(line)


def _named(name: str) -> Source | None:
    known = BUILT_IN.get(name) or _ADDED.get(name)
    if known is not None or name not in plugins(GROUP):
        return known
    point = plugins(GROUP)[name]
    found = load_plugin(point)
    if isinstance(found, Source):
        return replace(found, name=name)
    if not callable(found):
        raise InputError(f"relevance={name!r}: {point.value} is neither a Source nor a function of (scene, question)")
    return Source(name, found, summary=f"of {point.value}")


def is_map(value: object) -> bool:
    """Check for a `Relevance`, or an array or tensor (rows, cols)."""
    return isinstance(value, Relevance) or getattr(value, "ndim", None) == 2


def several_maps(value: object) -> list[Any] | None:
    """Return the maps of a list or of an array (B, rows, cols); None for everything else."""
    return list(value) if isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 3 else None  # type: ignore


def as_relevance(value: object, query: str, note: str) -> Relevance:
    """Turn the result of a source into a `Relevance` whose first note says where it comes from."""
    if isinstance(value, Relevance):
        return replace(value, notes=(note, *value.notes))
    value = value.detach().float().cpu().numpy() if is_tensor(value) else value
    if not isinstance(value, np.ndarray):
        raise InputError(f"a source of relevance must give a map (rows, cols), got {type(value).__name__}")
    return Relevance(value, query=query, notes=(note,))
