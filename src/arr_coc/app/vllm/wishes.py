"""What a request wishes for its pictures inside vLLM, checked, and the leaves that follow from it. Needs no vLLM.

    mm_processor_kwargs={"arr_coc": {"budget": 96}}                    for every picture of the prompt
    mm_processor_kwargs={"arr_coc": [{"budget": 96}, {"keep": 1.0}]}   one for each
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

from ...attending.allocate import allocate
from ...attending.distance import Distance, choose_distance, distance_of, reading_option
from ...attending.grip import Grip
from ...attending.request import Request, check_request
from ...attending.strategies import DEFAULT_STRATEGY
from ...balancing.choosing import check_relevance, relevance_for
from ...core.checks import frozen, of_kind, shown, whole
from ...core.errors import InputError
from ...core.values import Allocation, JsonObject, Relevance
from ...knowing.registry import source_names
from ...knowing.scene import Scene
from ...knowing.scorer.source import ScorerRelevance, scorer_beside
from ...knowing.words.reading import with_words
from ...pictures.words_files import as_words
from ...realizing.attachment_plan import by_relevance, plain_map
from ...realizing.base import VisualGrid
from ...realizing.bundled import Calibration
from ...realizing.tokens.patches import check_grid, leaves_of, ordered_leaves
from ...texture.type_height import letters_of

KEY = "arr_coc"
AMOUNT, DECIDED = ("budget", "keep"), ("leaves", "allocation")
OPTIONS = (*AMOUNT, "total", "query", "relevance", "strategy", "levels", "scale", "words", "ocr", *DECIDED)
# Decimals of a map that a wish spells out: caches are keyed by it.
DECIMALS = 3
# What a prompt without any words is taken to ask.
NO_QUESTION = "What is this?"


@dataclass(frozen=True, eq=False)
class WishPlan:
    """What a wish comes to once its picture was looked at. budget: tokens. distance: from how far it is seen.
    relevance: where the question needs detail; None where the caller has decided."""

    budget: int
    distance: Distance = field(default_factory=Distance)
    relevance: object = None


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
        server._check(default, trusted=True)
        return server

    @property
    def largest(self) -> JsonObject:
        """What costs the most that any request may cost; the memory is profiled with it. Nothing is looked for."""
        return {"keep": 1.0, "relevance": [[1.0]], "query": NO_QUESTION}

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
            if len({json.dumps([wish.get(name) for name in AMOUNT]) for wish in wishes}) > 1:
                raise InputError("arr_coc.total shares one budget, and several were given; give the same to all")
        return wishes

    def shared(
        self, wishes: Sequence[JsonObject], pictures: Sequence[np.ndarray], grids: Sequence[VisualGrid]
    ) -> list[JsonObject]:
        """Wishes that share a budget as wishes of each picture: how many tokens it gets, and the map that said so.

        pictures: (height, width, 3) uint8 as given. grids: their level-0 tokens.
        """
        if not wishes or not wishes[0].get("total"):
            return list(wishes)
        found = []
        for wish, pixels in zip(wishes, pictures, strict=True):
            words = as_words(wish["words"], pixels.shape[:2]) if "words" in wish else None
            known = words if words is not None and len(words) else None
            scene = Scene(pixels, words=known, scorer=self.scorer, ocr=self.request(wish).ocr)
            found.append(relevance_for(_source(wish.get("relevance", "auto")), scene, wish["query"]))
        budgets = by_relevance(found, grids, self.request(wishes[0]), [0] * len(wishes))
        made = []
        for wish, known, tokens in zip(wishes, found, budgets, strict=True):
            if self.max_budget is not None and tokens > self.max_budget:
                raise InputError(f"arr_coc gives {tokens} of the shared tokens to one picture, above this server's "
                                 f"{self.max_budget}; ask for fewer")  # fmt: skip
            rows = np.round(known.map.astype(float), DECIMALS).tolist()
            kept = {name: value for name, value in wish.items() if name not in (*AMOUNT, "total", "words", "ocr")}
            made.append({**kept, "budget": tokens, "relevance": rows})
        return made

    def _wish(self, own: JsonObject, question: str) -> JsonObject:
        default = dict(self.default)
        # A request answers "how many" in its own unit, and one that has decided needs no answer.
        for names in (AMOUNT, DECIDED):
            if any(name in own for name in names):
                default = {name: value for name, value in default.items() if name not in (*AMOUNT, *DECIDED)}
        if any(name in own for name in DECIDED):
            default.pop("scale", None)
        self._check(own)
        wish = {**default, **own}
        if not any(name in wish for name in DECIDED):
            wish.setdefault("query", question.strip() or NO_QUESTION)
        return wish

    def _check(self, wish: JsonObject, trusted: bool = False) -> None:
        """All that can be wrong whatever the picture is. trusted: it may name a folder of this machine."""
        unknown = sorted(wish.keys() - set(OPTIONS))
        if unknown:
            raise InputError(f"arr_coc.{unknown[0]} is unknown; choose from {', '.join(OPTIONS)}")
        request = self.request(wish)
        most = self.max_budget
        if most is not None and isinstance(request.budget, int) and request.budget > most:
            raise InputError(f"arr_coc.budget {request.budget} is above this server's {most}; ask for fewer tokens")
        if "query" in wish:
            check_request([wish["query"]])
        relevance = wish.get("relevance")
        if isinstance(relevance, str) and not trusted and relevance not in source_names():
            raise InputError(f"arr_coc.relevance {shown(relevance)} is unknown; use {', '.join(source_names())}")
        if relevance is not None:
            offers = ("pixels", "texture", "scorer", *(("words",) if "words" in wish else ()))
            check_relevance(_source(relevance), offers)
        if not isinstance(wish.get("words", []), list | dict):
            raise InputError("arr_coc.words must be a list of {text, box}")
        of_kind(wish.get("total", False), bool, "arr_coc.total")
        if all(name in wish for name in DECIDED):
            raise InputError("arr_coc has leaves and an allocation; give one of them")
        if "scale" in wish and any(name in wish for name in DECIDED):
            raise InputError("arr_coc.scale is decided by leaves (1) or by the allocation; leave it out")

    def request(self, wish: JsonObject) -> Request:
        """How much a picture may cost and how it is laid out, as for `ask`."""
        strategy = wish.get("strategy", self.calibration.strategy or DEFAULT_STRATEGY)
        if not isinstance(strategy, str):
            raise InputError(f"arr_coc.strategy must be a name, got {shown(strategy)}")
        levels = wish.get("levels", self.calibration.levels)
        budget = wish.get("budget")
        if isinstance(budget, list):
            raise InputError("arr_coc.budget is one number; for several pictures give arr_coc a list of wishes")
        ocr = of_kind(wish.get("ocr", True), bool, "arr_coc.ocr")
        laid: JsonObject = {"strategy": strategy, "levels": levels, "scale": wish.get("scale"), "ocr": ocr}
        return Request.of(budget, wish.get("keep"), **laid)

    def plan(
        self,
        wish: JsonObject,
        picture: Tensor,
        grid: VisualGrid,
        size: tuple[int, int],
        given: Callable[[], np.ndarray],
    ) -> WishPlan:
        """Where the question needs detail in one picture, and from how far it is seen.

        picture: (3, height, width) in [0, 1], as the processor resized it. grid: its level-0 tokens. size: (height,
        width) as it was given. given: its pixels then, (height, width, 3) uint8, asked only where letters decide.
        """
        most = grid.tokens if self.max_budget is None else min(grid.tokens, self.max_budget)
        if "allocation" in wish:
            return WishPlan(most, distance_of(Allocation.from_json(wish["allocation"])))
        if "leaves" in wish:
            return WishPlan(most)
        request = self.request(wish)
        budget = min(request.tokens(grid.tokens), most)
        words = as_words(wish["words"], size) if "words" in wish else None
        words = words if words is not None and len(words) else None
        source = _source(wish.get("relevance", "auto"))
        scene = Scene(picture, words=words, scorer=self.scorer, choosing=budget < grid.tokens)
        if request.reads(grid.tokens, source) and words is None:  # as it was given: small print is lost in resizing
            read = with_words(Scene(given(), ocr=True))
            scene = scene.varied(words=read.words, ocr=read.ocr)
        known = relevance_for(source, scene, wish["query"])
        distance = choose_distance(
            request.scale,
            self.grip,
            lambda: letters_of(given(), words, size),
            plain_map(known),
            size=size,
            canvas=(grid.height, grid.width),
            full=grid.tokens,
            tokens=budget,
        )
        return WishPlan(budget, distance, known)

    def leaves(self, wish: JsonObject, plan: WishPlan, grid: VisualGrid, size: tuple[int, int]) -> np.ndarray:
        """The leaves (N, 3) of one picture, in raster order. grid: of the picture seen from the plan's distance. size:
        (height, width) as it was given."""
        leaves = self._decided(wish, grid, size)
        if leaves is None:
            request, budget = self.request(wish), min(plan.budget, grid.tokens)
            more = reading_option(plan.distance, request.strategy, (grid.rows, grid.cols))
            allocation = allocate(
                plain_map(plan.relevance),
                budget,
                strategy=request.strategy,
                seed=request.seed,
                image_size=(grid.height, grid.width),
                canvas=(grid.rows * grid.cell, grid.cols * grid.cell),
                cell=grid.cell,
                levels=request.levels,
                **{**more, **request.options},
            )
            leaves = leaves_of(allocation)
        if len(leaves) > plan.budget:
            raise InputError(
                f"arr_coc asks for {len(leaves)} tokens of a picture that may have {plan.budget}; ask for fewer"
            )
        return leaves

    @staticmethod
    def _decided(wish: JsonObject, grid: VisualGrid, size: tuple[int, int]) -> np.ndarray | None:
        if "allocation" in wish:
            allocation = Allocation.from_json(wish["allocation"])
            if (allocation.height, allocation.width) != tuple(size):
                raise InputError(
                    f"arr_coc.allocation is of a picture of {allocation.width}×{allocation.height}, this one has "
                    f"{size[1]}×{size[0]}"
                )
            check_grid(allocation, grid.rows, grid.cols)
            return _no_coarser(leaves_of(allocation), grid)
        if "leaves" not in wish:
            return None
        leaves = frozen(wish["leaves"], "arr_coc.leaves", np.int32).astype(np.int64)
        if leaves.ndim != 2 or leaves.shape[1] != 3 or not len(leaves):
            raise InputError("arr_coc.leaves must be a list of [row, col, level], at least one")
        if len(np.unique(leaves, axis=0)) < len(leaves):
            raise InputError("arr_coc.leaves names a leaf twice; name each once")
        return _no_coarser(ordered_leaves(leaves, grid.rows, grid.cols), grid)


def _no_coarser(leaves: np.ndarray, grid: VisualGrid) -> np.ndarray:
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


def _source(relevance: object) -> object:
    """A name, or the map that a request spells out in rows of numbers."""
    if not isinstance(relevance, Sequence) or isinstance(relevance, str):
        return relevance
    return Relevance(frozen(relevance, "arr_coc.relevance", np.float32))
