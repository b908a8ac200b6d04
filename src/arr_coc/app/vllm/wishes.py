"""What a request wishes for its pictures inside vLLM, checked, and the leaves that follow from it. Needs no vLLM.

    mm_processor_kwargs={"arr_coc": {"budget": 96}}                    for every picture of the prompt
    mm_processor_kwargs={"arr_coc": [{"budget": 96}, {"budget": 1.0}]} one for each
    mm_processor_kwargs={"arr_coc": {"budget": 96, "total": True}}     for all of them together

A processor of vLLM has no model to glance with: relevance comes from the words of the picture where the caller gives
them, else from a scorer, else from any source of `registry.names_for()`; or the caller has decided, by `leaves` or by
an `allocation`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor

from ...attending.distance import distance_of
from ...attending.frame import Frame, check_grid, leaves_of, ordered_leaves
from ...attending.grip import Grip
from ...attending.strategies import DEFAULT_STRATEGY
from ...balancing.choosing import check_relevance, relevance_for
from ...core.errors import InputError, frozen, shown, whole
from ...core.values import Allocation, JsonObject
from ...decide import View, attend
from ...knowing.scene import Scene
from ...knowing.scorer.source import ScorerRelevance, scorer_beside
from ...knowing.words.reading import with_words
from ...options import Options, check_question
from ...pictures.words import Words, as_words
from ...realizing.attachment_plan import by_relevance, frame_of
from ...realizing.base import VisualGrid
from ...realizing.bundled import Calibration
from ...texture.type_height import letters_of

KEY = "arr_coc"
DECIDED = ("leaves", "allocation")
NAMES = ("budget", "total", "relevance", "strategy", "levels", "scale", "words", "ocr", "allocation")
# Decimals of a map that a wish spells out: caches are keyed by it.
DECIMALS = 3
# What a prompt without any words is taken to ask.
NO_QUESTION = "What is this?"


@dataclass(frozen=True, eq=False)
class SeenPicture:
    """A picture of a prompt. canvas: (3, height, width) in [0, 1], as the processor resized it. grid: its level-0
    tokens. size: (height, width) as it was given. pixels: gives those, (height, width, 3) uint8. resized: gives the
    level-0 tokens of the picture shown this many times as large."""

    canvas: Tensor
    grid: VisualGrid
    size: tuple[int, int]
    pixels: Callable[[], np.ndarray]
    resized: Callable[[float], VisualGrid]


@dataclass(frozen=True)
class VllmServer:
    """What the server was started with.

    default: wishes of requests that do not say otherwise. max_budget: tokens that no picture exceeds; None allows the
    whole picture. calibration, scorer: those beside the model's weights, else the library's own scorer. grip: of the
    model, where it was measured.
    """

    default: JsonObject = field(default_factory=dict)
    max_budget: int | None = None
    calibration: Calibration = field(default_factory=lambda: Calibration(strategy=None))
    scorer: ScorerRelevance = field(default_factory=ScorerRelevance.bundled)
    grip: Grip | None = None

    @classmethod
    def of(cls, given: object, model: str = "") -> VllmServer:
        """given: `arr_coc` of --mm-processor-kwargs. model: a folder, or a name on the hub."""
        default = _mapping(given)
        most = default.pop("max_budget", None)
        most = None if most is None else whole(most, "arr_coc.max_budget", 1)
        folder = Path(model)
        beside = scorer_beside(folder) if folder.is_dir() else None
        server = cls(
            default,
            most,
            Calibration.beside(folder) if folder.is_dir() else Calibration(strategy=None),
            ScorerRelevance.bundled() if beside is None else ScorerRelevance(beside),
            Grip.known(model),
        )
        server._check(default)
        return server

    @property
    def largest(self) -> JsonObject:
        """What costs the most that any request may cost; the memory is profiled with it. Nothing is looked for."""
        return {"budget": 1.0, "relevance": [[1.0]], "query": NO_QUESTION}

    def wishes(self, given: object, pictures: int, question: str = "") -> list[JsonObject]:
        """One wish for each picture, all of it plain JSON: caches are keyed by it. question: where none is given."""
        several = given if isinstance(given, list) else [given] * pictures
        if len(several) != pictures:
            raise InputError(f"arr_coc has {len(several)} entries for {pictures} pictures; give one, or one for each")
        wishes = [self._wish(_mapping(one), question) for one in several]
        if len({bool(wish.get("total")) for wish in wishes}) > 1:
            raise InputError("arr_coc.total is said of some pictures only; a budget for all is a wish of the prompt")
        if wishes and wishes[0].get("total"):
            if any(name in wish for wish in wishes for name in DECIDED):
                raise InputError("arr_coc.total shares a budget, and leaves or an allocation are decided; give one")
            if len({json.dumps(wish.get("budget")) for wish in wishes}) > 1:
                raise InputError("arr_coc.total shares one budget, and several were given; give the same to all")
        return wishes

    def _wish(self, own: JsonObject, question: str) -> JsonObject:
        self._check(own)
        decided = any(name in own for name in DECIDED)
        # A request that says how many, or has decided, needs nothing of that from the server.
        dropped = {"budget", "scale", *DECIDED} if decided else set(DECIDED) if "budget" in own else set()
        wish = {**{name: value for name, value in self.default.items() if name not in dropped}, **own}
        if not any(name in wish for name in DECIDED):
            wish.setdefault("query", question.strip() or NO_QUESTION)
        return wish

    def _check(self, wish: JsonObject) -> None:
        """Refuse all that can be wrong whatever the picture is."""
        options, most = self.options(wish), self.max_budget
        if isinstance(options.budget, list):
            raise InputError("arr_coc.budget is one number; for several pictures give arr_coc a list of wishes")
        if most is not None and isinstance(options.budget, int) and options.budget > most:
            raise InputError(f"arr_coc.budget {options.budget} is above this server's {most}; ask for fewer tokens")
        if "query" in wish:
            check_question(wish["query"])
        if options.relevance is not None:
            offers = ("pixels", "texture", "scorer", *(("words",) if "words" in wish else ()))
            check_relevance(options.relevance, offers)
        if all(name in wish for name in DECIDED):
            raise InputError("arr_coc has leaves and an allocation; give one of them")
        if "scale" in wish and any(name in wish for name in DECIDED):
            raise InputError("arr_coc.scale is decided by leaves (1) or by the allocation; leave it out")

    def options(self, wish: JsonObject) -> Options:
        """The options of a wish, with what the model was calibrated for."""
        own = {name: value for name, value in wish.items() if name not in ("query", "leaves")}
        options = Options.for_client(own, NAMES, where=KEY)
        return options.default(
            strategy=self.calibration.strategy or DEFAULT_STRATEGY,
            levels=self.calibration.levels,
            ceiling=self.max_budget,
        )

    def shared(
        self, wishes: Sequence[JsonObject], pictures: Sequence[np.ndarray], grids: Sequence[VisualGrid]
    ) -> list[JsonObject]:
        """Wishes that share a budget as wishes of each picture: how many tokens it gets, and the map that said so.

        pictures: (height, width, 3) uint8 as given. grids: their level-0 tokens.
        """
        if not wishes or not wishes[0].get("total"):
            return list(wishes)
        each = [self.options(wish) for wish in wishes]
        found = [
            relevance_for(
                options.relevance or "auto",
                Scene(pixels, words=known_words(options, pixels.shape[:2]), scorer=self.scorer, ocr=options.ocr),
                wish["query"],
            )
            for wish, options, pixels in zip(wishes, each, pictures, strict=True)
        ]
        budgets = by_relevance(found, grids, each[0].override(ceiling=1 << 62), [0] * len(wishes))
        shared = []
        for wish, known, tokens in zip(wishes, found, budgets, strict=True):
            if self.max_budget is not None and tokens > self.max_budget:
                raise InputError(f"arr_coc gives {tokens} of the shared tokens to one picture, above this server's "
                                 f"{self.max_budget}; ask for fewer")  # fmt: skip
            rows = np.round(known.map.astype(float), DECIMALS).tolist()
            kept = {name: value for name, value in wish.items() if name not in ("budget", "total", "words", "ocr")}
            shared.append({**kept, "budget": tokens, "relevance": rows})
        return shared

    def decide(self, wish: JsonObject, picture: SeenPicture) -> tuple[np.ndarray, float]:
        """The leaves (N, 3) of one picture, in raster order, and how many times as large it is read."""
        options, grid = self.options(wish), picture.grid
        most = grid.tokens if self.max_budget is None else min(grid.tokens, self.max_budget)
        if "leaves" in wish:
            leaves, times = given_leaves(wish["leaves"], grid), 1.0
        else:
            allocation = options.allocation or self._allocation(wish["query"], options, picture)
            times = distance_of(allocation).times
            seen = grid if times == 1 else picture.resized(times)
            if options.allocation is not None:
                check_size(allocation, picture.size)
                check_grid(allocation, seen.rows, seen.cols)
            leaves = no_coarser(leaves_of(allocation), seen)
        if len(leaves) > most:
            raise InputError(f"arr_coc asks for {len(leaves)} tokens of a picture that may have {most}; ask for fewer")
        return leaves, times

    def _allocation(self, query: str, options: Options, picture: SeenPicture) -> Allocation:
        grid, source = picture.grid, options.relevance or "auto"
        budget, words = options.tokens(grid.tokens), known_words(options, picture.size)
        scene = Scene(picture.canvas, words=words, scorer=self.scorer, choosing=budget < grid.tokens)
        if options.reads(grid.tokens, source) and words is None:  # as it was given: small print is lost in resizing
            read = with_words(Scene(picture.pixels(), ocr=True))
            scene = scene.varied(words=read.words, ocr=read.ocr)
        known = relevance_for(source, scene, query)

        def resized(times: float) -> Frame:
            return frame_of(picture.resized(times))

        letters = lambda: letters_of(picture.pixels(), words, picture.size)  # noqa: E731
        view = View(picture.size, frame_of(grid), letters, resized, self.grip)
        return attend([view], [known], [budget], options)[0].allocation


def known_words(options: Options, size: tuple[int, ...]) -> Words | None:
    """The words that a wish brings; None where there are none."""
    words = None if options.words is None else as_words(options.words, (size[0], size[1]))
    return words if words is not None and len(words) else None


def check_size(allocation: Allocation, size: tuple[int, int]) -> None:
    """Refuse an allocation of another picture."""
    if (allocation.height, allocation.width) != tuple(size):
        raise InputError(
            f"arr_coc.allocation is of a picture of {allocation.width}×{allocation.height}, this one has "
            f"{size[1]}×{size[0]}"
        )


def given_leaves(given: object, grid: VisualGrid) -> np.ndarray:
    """Leaves as a request spells them out, checked."""
    leaves = frozen(given, "arr_coc.leaves", np.int32).astype(np.int64)
    if leaves.ndim != 2 or leaves.shape[1] != 3 or not len(leaves):
        raise InputError("arr_coc.leaves must be a list of [row, col, level], at least one")
    if len(np.unique(leaves, axis=0)) < len(leaves):
        raise InputError("arr_coc.leaves names a leaf twice; name each once")
    return no_coarser(ordered_leaves(leaves, grid.rows, grid.cols), grid)


def no_coarser(leaves: np.ndarray, grid: VisualGrid) -> np.ndarray:
    """A leaf that covers the whole picture is the coarsest: beyond it most of what a model sees is padding."""
    coarsest = (max(grid.rows, grid.cols) - 1).bit_length()
    if (leaves[:, 2] > coarsest).any():
        raise InputError(
            f"arr_coc asks for a leaf of level {leaves[:, 2].max()}; this picture's coarsest is {coarsest}"
        )
    return leaves


def _mapping(given: object) -> JsonObject:
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"arr_coc must be an object, or a list of one for each picture, got {shown(given)}")
    return {name: value for name, value in (given or {}).items() if value is not None}
