"""From a picture and a question to an `Allocation`: the whole path up to ATTEND, in one call.

look("street.png", "What number is on the red sign?", budget=256)      → Allocation
examine("street.png", "What number is on the red sign?", keep=0.25)    → Look: also relevance, picture, seconds
prepare("street.png").look("the red sign"), .look("the blue sign")     → sensed once, asked many times

One picture, one question, the quadtree, a CPU: all of it is numpy and OpenCV, because importing torch takes longer
than everything else together. Other strategies and devices import torch when they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np

from .attending.strategies import CLASSIC_SCALE, check_strategy
from .bundled import ScorerRelevance
from .errors import InputError
from .pictures import Picture, load_picture
from .values import DEFAULT_CELL, Allocation, Relevance

DEFAULT_KEEP = 0.25
# The longer side at which a picture is held for sensing and drawing. Boxes are in pixels as given all the same.
VIEW_SIDE = 1600
# Channels are sensed at this longer side: detail energy survives the averaging, and four times the pixels would cost
# four times the time.
SENSE_SIDE = 768
# What the three ways of knowing and the strategies read; sensing the rest would be time for nothing.
CHANNELS = ("red", "green", "blue", "sobel_x", "sobel_y", "sobel_magnitude")
CHANNELS += ("y", "x", "eccentricity", "saliency", "text_regions")
# Whose relevance: the three ways of knowing, which need no weights, or the learned scorer, which needs torch.
RELEVANCE = ("look", "scorer")
# Relevance is kept at this longer side: several values for each cell of a 1024-pixel picture, and quick to balance.
MAP_SIDE = 256


@dataclass(frozen=True, eq=False)
class Look:
    """allocation, the relevance it came from, the picture (reduced, if large), and seconds for each stage."""

    allocation: Allocation
    relevance: Relevance
    picture: Picture
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about the picture and the relevance."""
        return (*self.picture.notes, *self.relevance.notes)

    def timed(self, stage: str, seconds: float) -> Look:
        return replace(self, seconds={**self.seconds, stage: seconds})


def look(image: Any, query: str, budget: int | None = None, **how: Any) -> Allocation:
    """Where the visual tokens go for one picture and one question; the arguments are those of `examine`."""
    return examine(image, query, budget, **how).allocation


def examine(
    image: Any,
    query: str,
    budget: int | None = None,
    keep: float | None = None,
    strategy: str = "quadtree",
    seed: int = 0,
    *,
    device: str = "cpu",
    cell: int = DEFAULT_CELL,
    canvas: tuple[int, int] | None = None,
    relevance: str = "look",
    photos: bool = True,
    **options: Any,
) -> Look:
    """`look` with everything that led to it.

    image: path, PIL image, numpy array, torch tensor, bytes (see `load_picture`). budget: tokens that may be spent; or
    keep: share of the full count, by default a quarter. strategy: see `arr_coc.attending.STRATEGIES`. cell, canvas:
    pixels of one token and the size the backbone resizes to. relevance: "look", the three ways of knowing, or "scorer",
    the learned one that comes with `mini`. photos: with "look", let the photo map take part where the extra
    `[photos]` is installed and the question names something that it knows (`knowing.photo_words`); a note says so.
    options: what a strategy takes by name, such as `criterion`, `levels` (quadtree) or `boxes` (oracle).
    """
    check_request([query], budget, keep)
    how: dict[str, Any] = {"device": device, "cell": cell, "canvas": canvas, "relevance": relevance}
    how["photos"] = photos
    return prepare(image).look(query, budget, keep, strategy, seed, **how, **options)


def prepare(image: Any) -> Prepared:
    """Load a picture once for any number of questions."""
    started = perf_counter()
    picture = load_picture(image, longest_side=VIEW_SIDE)
    return Prepared(picture, perf_counter() - started)


@dataclass(eq=False)
class Prepared:
    """A loaded picture; it is sensed when first looked at, and only once."""

    picture: Picture
    load_seconds: float = 0.0

    @cached_property
    def _sensed(self) -> tuple[Any, float]:
        from .sensing import Layout, sense_one

        started = perf_counter()
        side = min(SENSE_SIDE, max(self.picture.pixels.shape[:2]))
        texture = sense_one(self.picture.pixels, Layout.of("look", CHANNELS), size=side)
        return texture, perf_counter() - started

    def look(
        self,
        query: str,
        budget: int | None = None,
        keep: float | None = None,
        strategy: str = "quadtree",
        seed: int = 0,
        *,
        device: str = "cpu",
        cell: int = DEFAULT_CELL,
        canvas: tuple[int, int] | None = None,
        relevance: str = "look",
        photos: bool = True,
        **options: Any,
    ) -> Look:
        """One question about this picture; the arguments are those of `examine`."""
        check_request([query], budget, keep)
        check_relevance(relevance)
        clock = _Clock({"load": self.load_seconds})
        with clock.stage("import"):
            check_strategies([strategy], device)
            import_rooms(strategy, device, relevance)
        from .attending import allocate, tokens_for

        full = tokens_for(self.picture.size, cell=cell, canvas=canvas)
        spend = tokens_to_spend(full, budget, keep, strategy, self.picture.name)
        texture = None
        if relevance == "look" or strategy == "edge":
            texture, clock.seconds["sense"] = self._sensed
        with clock.stage("know"):
            if relevance == "look":
                found = relevance_of(texture, query, photo_map(self.picture.pixels, query) if photos else None)
            else:
                found = ScorerRelevance.bundled().of_pixels(self.picture.pixels, query, device)
        with clock.stage("attend"):
            allocation = allocate(
                found.map if device == "cpu" else import_module("torch").from_numpy(found.map).to(device),
                spend,
                image_size=self.picture.size,
                strategy=strategy,
                cell=cell,
                canvas=canvas,
                seed=seed,
                **{**_strategy_inputs(strategy, texture, self.picture), **options},
            )
        return Look(allocation, found, self.picture, clock.seconds)


def photo_map(pixels: np.ndarray, query: str) -> Any:
    """What the photo map couples to the question, a `knowing.Coupling`; None where it is not installed or has nothing
    to say, and then nothing heavy was loaded."""
    from .knowing.photo_words import worth_asking

    return import_module(".knowing.photos", __package__).photo_coupling(pixels, query) if worth_asking(query) else None


def relevance_of(texture: Any, query: str, photo: Any = None) -> Relevance:
    """The three maps of one sensed picture (a `Texture` of `sense_one` or `sense`, on a CPU), balanced into one.

    Without an image-text encoder, what couples to the question is what its plain words name: colours, places, print;
    and what `photo` (of `photo_map`) says of the things it names.
    """
    from .arrays import like
    from .balancing import DEFAULT_TENSIONS, balance, sharpen
    from .knowing import lexical, perspectival, propositional

    coupling = lexical(texture, query)
    names = ("propositional", "perspectival", "participatory")
    maps = [propositional(texture), perspectival(texture), coupling.map]
    scale = min(1.0, MAP_SIDE / max(maps[0].shape))
    height, width = (max(1, round(side * scale)) for side in maps[0].shape)
    maps = [texture.ops.shrink(one, (height, width)) for one in maps]
    notes = coupling.notes
    if photo is not None:
        seen = like(enlarged(photo.map, (height, width)), maps[2])
        maps[2] = coupled_with(maps[2], seen)
        notes = (*(note for note in notes if "is zero" not in note), *photo.notes)
    return Relevance(
        map=sharpen(balance(*(one[None] for one in maps))[0]),
        query=query,
        tensions=dict(DEFAULT_TENSIONS),
        notes=notes,
        **dict(zip(names, map(np.asarray, maps), strict=True)),
    )


def coupled_with(words: Any, photo: Any) -> Any:
    """Two maps (h, w), what plain words couple to and what the photo map does, as lexical joins its own words: what
    meets both comes first, what meets one still counts; a map that says nothing takes no part."""
    if not bool(photo.max() > 0):
        return words
    return 0.6 * (words * photo) ** 0.5 + 0.2 * (words + photo) if bool(words.max() > 0) else photo


def enlarged(plane: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(h, w) → size, bilinear: a coarse map without its steps."""
    from .sensing import backend_opencv

    return backend_opencv.enlarge(np.ascontiguousarray(plane, dtype=np.float32), size)


def _strategy_inputs(strategy: str, texture: Any, picture: Picture) -> dict[str, Any]:
    """Maps that some strategies need besides the relevance."""
    if strategy == "edge":
        return {"edges": texture["sobel_magnitude"]}
    if strategy == "clusters":
        slic = import_module(".sensing.slic", __package__).slic
        return {"labels": slic(picture.pixels)}
    return {}


# ---- what may be asked ----------------------------------------------------------------------------------------------


def check_request(queries: Sequence[str], budget: int | None = None, keep: float | None = None) -> None:
    """What can be wrong with a request whatever the picture; costs nothing, raises `InputError`."""
    for query in queries:
        if not isinstance(query, str) or not query.strip():
            raise InputError('the question is empty; ask something, for example "What number is on the red sign?"')
    if budget is not None and keep is not None:
        raise InputError(f"both budget={budget} and keep={keep} were given; give one of them")
    if budget is not None:
        if isinstance(budget, bool) or not _is_whole(budget):
            raise InputError(f"budget {budget!r} is not a whole number of tokens; give for example 256")
        if budget < 1:
            raise InputError(f"budget {budget} leaves nothing to look with; give at least 1 token")
    if keep is not None and not (isinstance(keep, int | float) and 0 < keep <= 1):  # also false for NaN
        raise InputError(f"keep {keep!r} is not a share above 0 and up to 1; give for example 0.25")


def check_strategies(strategies: Sequence[str], device: str = "cpu") -> None:
    """Are these names of strategies, and can this device be used? Raises `InputError`."""
    for strategy in strategies:
        check_strategy(strategy)
    check_device(device)


def check_relevance(relevance: str) -> None:
    """Is this a name of relevance, and are the weights there that it needs? Raises `InputError`."""
    if relevance not in RELEVANCE:
        raise InputError(f"relevance={relevance!r} is unknown; choose from {', '.join(RELEVANCE)}")
    if relevance == "scorer":
        ScorerRelevance.bundled()


def import_rooms(strategy: str = "quadtree", device: str = "cpu", relevance: str = "look") -> None:
    """What a look with this strategy will import anyway, so that its time can be told apart from the work's."""
    for room in ("sensing.one_picture", "sensing.backend_opencv", "knowing.lexical", "knowing.propositional"):
        import_module(f".{room}", __package__)
    import_module(".attending.allocate", __package__)
    if strategy != "quadtree" or device != "cpu":
        import_module(".attending.allocate_batch", __package__)
    if relevance == "scorer":
        import_module(".knowing.scorer", __package__)


def tokens_to_spend(full: int, budget: int | None, keep: float | None, strategy: str, name: str) -> int:
    """The budget in tokens, from a budget or a share of the full count."""
    if strategy in CLASSIC_SCALE:
        if keep is not None:
            raise InputError(f"strategy {strategy!r} counts 64 to 400 tokens for each patch; give budget, not keep")
        presets = import_module(".attending.classic", __package__).PRESETS
        return presets["classic"].budget if budget is None else int(budget)
    if budget is None:
        return max(1, math.floor((DEFAULT_KEEP if keep is None else keep) * full + 1e-9))
    if budget > full:
        raise InputError(f"budget {budget} is above the {full} tokens that all of {name} costs; give at most {full}")
    return int(budget)


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__")


def check_device(device: str) -> None:
    if device == "cpu":
        return
    torch = import_module("torch")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {device!r} cannot be used ({reason}); use cpu") from error


# ---- time -----------------------------------------------------------------------------------------------------------


@dataclass
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        started = perf_counter()
        yield
        self.seconds[name] = perf_counter() - started
