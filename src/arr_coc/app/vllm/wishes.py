"""What a request wishes for its pictures inside vLLM, checked, and the leaves that follow from it. Needs no vLLM.

    mm_processor_kwargs={"arr_coc": {"budget": 96}}                    for every picture of the prompt
    mm_processor_kwargs={"arr_coc": [{"budget": 96}, {"budget": 1.0}]} one for each

A processor of vLLM has no model to glance with: relevance comes from the words of the picture where the caller gives
them, else from a scorer, else from any source of `registry.source_names()`; or the caller decides by an `allocation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from ...attending.grip import Grip
from ...attending.leaves import check_grid, leaves_of
from ...attending.strategies import DEFAULT_STRATEGY
from ...balancing.choosing import relevance_for
from ...core.errors import InputError, shown, whole
from ...core.values import Allocation, JsonObject
from ...decide import View, attend
from ...knowing.registry import check_relevance
from ...knowing.scene import Scene
from ...knowing.scorer.source import ScorerRelevance, scorer_beside
from ...options import Options, check_question
from ...pictures.load import Picture
from ...pictures.words import as_words
from ...realizing.base import VisualGrid
from ...realizing.bundled import Calibration
from ...texture.type_height import letters_of

KEY = "arr_coc"
NAMES = ("budget", "relevance", "strategy", "levels", "scale", "words", "ocr", "allocation")
# What a prompt without any words is taken to ask.
NO_QUESTION = "What is this?"


@dataclass(frozen=True, eq=False)
class SeenPicture:
    """A picture of a prompt. given: as it came. canvas: (3, height, width) in [0, 1], as the processor resized it.
    grid: its level-0 tokens. resized: gives those of the picture shown this many times as large."""

    given: Picture
    canvas: Tensor
    grid: VisualGrid
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
        server = cls(default, None if most is None else whole(most, "arr_coc.max_budget", 1), grip=Grip.known(model))
        if Path(model).is_dir():
            beside = scorer_beside(Path(model))
            scorer = server.scorer if beside is None else ScorerRelevance(beside)
            server = replace(server, calibration=Calibration.beside(Path(model)), scorer=scorer)
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
        own = [_mapping(one) for one in several]
        for one in own:
            self._check(one)
        usual = {"query": question.strip() or NO_QUESTION, **self.default}
        return [one if "allocation" in one else {**usual, **one} for one in own]  # which has decided already

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
            check_relevance(options.relevance)

    def options(self, wish: JsonObject) -> Options:
        """The options of a wish, with what the model was calibrated for."""
        options = Options.for_client({key: wish[key] for key in wish if key != "query"}, NAMES, where=KEY)
        options.check_alone("allocation")
        return options.default(
            strategy=self.calibration.strategy or DEFAULT_STRATEGY,
            levels=self.calibration.levels,
            ceiling=self.max_budget,
        )

    def decide(self, wish: JsonObject, picture: SeenPicture) -> tuple[np.ndarray, float]:
        """The leaves (N, 3) of one picture, in raster order, and how many times as large it is read."""
        options = self.options(wish)
        allocation = options.allocation or self._allocation(wish["query"], options, picture)
        times, leaves = allocation.scale, leaves_of(allocation)
        if options.allocation is not None:
            grid = picture.grid if times == 1 else picture.resized(times)
            check_grid(allocation, grid.rows, grid.cols)
            # A leaf that covers the whole picture is the coarsest: beyond it most of what a model sees is padding.
            coarsest = (max(grid.rows, grid.cols) - 1).bit_length()
            if (leaves[:, 2] > coarsest).any():
                raise InputError(f"arr_coc asks for level {leaves[:, 2].max()}; this picture's coarsest is {coarsest}")
        most = options.capped(picture.grid.tokens)
        if len(leaves) > most:
            raise InputError(f"arr_coc asks for {len(leaves)} tokens of a picture that may have {most}; ask for fewer")
        return leaves, times

    def _allocation(self, query: str, options: Options, picture: SeenPicture) -> Allocation:
        grid, given, source = picture.grid, picture.given, options.relevance or "auto"
        budget = options.tokens(grid.tokens)
        words = None if options.words is None else as_words(options.words, given.size) or None
        offers: JsonObject = {"words": words, "scorer": self.scorer, "page": given.pixels}
        lines = options.reads(grid.tokens, source)
        scene = Scene(picture.canvas, **offers, ocr=lines, choosing=budget < grid.tokens)
        known = relevance_for(source, scene, query)
        view = View(
            given.size,
            grid.frame,
            letters=lambda: letters_of(given.pixels, words, given.size),
            resized=lambda times: picture.resized(times).frame,
            grip=self.grip,
        )
        return attend([view], [known], [budget], options)[0].allocation


def _mapping(given: object) -> JsonObject:
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"arr_coc must be an object, or a list of one for each picture, got {shown(given)}")
    return {name: value for name, value in (given or {}).items() if value is not None}
