"""Read and check the field `arr_coc` of a request to vLLM, and decide the leaves of its pictures. Needs no vLLM.

    mm_processor_kwargs={"arr_coc": {"budget": 96}}                    for every picture of the prompt
    mm_processor_kwargs={"arr_coc": [{"budget": 96}, {"budget": 1.0}]} one for each

vLLM's processor has no model to glance with, so "auto" decides by the words of the picture, if given, and by a scorer;
a request may name any other source of `registry.source_names()`, or decide itself with an `allocation`.
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
from ...knowing.words.reading import with_words
from ...options import Options, check_question
from ...pictures.load import Picture
from ...pictures.words import as_words
from ...realizing.base import VisualGrid
from ...realizing.bundled import Calibration
from ...texture.type_height import letters_of

KEY = "arr_coc"
NAMES = ("budget", "relevance", "strategy", "levels", "scale", "words", "ocr", "allocation")
# The question of a prompt without words.
NO_QUESTION = "What is this?"


@dataclass(frozen=True, eq=False)
class SeenPicture:
    """A picture of a prompt. given: as sent. canvas: (3, height, width) in [0, 1], as the processor resized it.
    grid: its level-0 tokens. resized: returns the grid of the picture at another scale."""

    given: Picture
    canvas: Tensor
    grid: VisualGrid
    resized: Callable[[float], VisualGrid]


@dataclass(frozen=True)
class VllmServer:
    """Settings of the server.

    default: fields of requests that do not set them. max_budget: maximum number of tokens of a picture; None: no limit.
    calibration, scorer: those in the folder of the model, else the library's own scorer. grip: letter heights that the
    model reads, if measured.
    """

    default: JsonObject = field(default_factory=dict)
    max_budget: int | None = None
    calibration: Calibration = field(default_factory=lambda: Calibration(strategy=None))
    scorer: ScorerRelevance = field(default_factory=ScorerRelevance.bundled)
    grip: Grip | None = None

    @classmethod
    def of(cls, given: object, model: str = "") -> VllmServer:
        """Build the settings. given: `arr_coc` of --mm-processor-kwargs. model: a folder, or a name on the hub."""
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
        """Return the most expensive request, to profile memory with; its relevance map is fixed."""
        return {"budget": 1.0, "relevance": [[1.0]], "query": NO_QUESTION}

    def wishes(self, given: object, pictures: int, question: str = "") -> list[JsonObject]:
        """Return one entry for each picture, as plain JSON, which keys caches. question: used if none is given."""
        several = given if isinstance(given, list) else [given] * pictures
        if len(several) != pictures:
            raise InputError(f"arr_coc has {len(several)} entries for {pictures} pictures; give one, or one for each")
        own = [_mapping(one) for one in several]
        for one in own:
            self._check(one)
        usual = {"query": question.strip() or NO_QUESTION, **self.default}
        return [one if "allocation" in one else {**usual, **one} for one in own]  # an allocation needs no question

    def _check(self, wish: JsonObject) -> None:
        """Refuse everything that is wrong whatever the picture is."""
        options, most = self.options(wish), self.max_budget
        if isinstance(options.budget, list):
            raise InputError("arr_coc.budget must be one number; for several pictures make arr_coc a list")
        if most is not None and isinstance(options.budget, int) and options.budget > most:
            raise InputError(f"arr_coc.budget {options.budget} is above this server's limit of {most} tokens")
        if "query" in wish:
            check_question(wish["query"])
        if options.relevance is not None:
            check_relevance(options.relevance)

    def options(self, wish: JsonObject) -> Options:
        """Build the options of an entry, with the calibration of the model as defaults."""
        options = Options.for_client({key: wish[key] for key in wish if key != "query"}, NAMES, where=KEY)
        options.check_alone("allocation")
        return options.default(
            strategy=self.calibration.strategy or DEFAULT_STRATEGY,
            levels=self.calibration.levels,
            ceiling=self.max_budget,
        )

    def decide(self, wish: JsonObject, picture: SeenPicture) -> tuple[np.ndarray, float]:
        """Decide the leaves (N, 3) of one picture, in raster order, and the scale at which it is read."""
        options = self.options(wish)
        allocation = options.allocation or self._allocation(wish["query"], options, picture)
        times, leaves = allocation.scale, leaves_of(allocation)
        if options.allocation is not None:
            grid = picture.grid if times == 1 else picture.resized(times)
            check_grid(allocation, grid.rows, grid.cols)
            # The coarsest leaf covers the whole picture; beyond that level a leaf would be mostly padding.
            coarsest = (max(grid.rows, grid.cols) - 1).bit_length()
            if (leaves[:, 2] > coarsest).any():
                raise InputError(f"arr_coc asks for level {leaves[:, 2].max()}; the coarsest level here is {coarsest}")
        most = options.capped(picture.grid.tokens)
        if len(leaves) > most:
            raise InputError(f"arr_coc asks for {len(leaves)} tokens for a picture; at most {most} are allowed")
        return leaves, times

    def _allocation(self, query: str, options: Options, picture: SeenPicture) -> Allocation:
        grid, given, source = picture.grid, picture.given, options.relevance or "auto"
        budget = options.tokens(grid.tokens)
        words = None if options.words is None else as_words(options.words, given.size) or None
        offers: JsonObject = {"words": words, "scorer": self.scorer, "page": given.pixels, "law": options.balancing}
        offers |= {"ocr": options.reads(grid.tokens, source), "choosing": budget < grid.tokens}
        scene = with_words(Scene(picture.canvas, **offers, share=budget / grid.tokens), query)
        known = relevance_for(source, scene, query)
        view = View(
            given.size,
            grid.frame,
            letters=lambda: letters_of(given.pixels, scene.words, given.size),
            resized=lambda times: picture.resized(times).frame,
            grip=self.grip,
        )
        return attend([view], [known], [budget], options)[0].allocation


def _mapping(given: object) -> JsonObject:
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"arr_coc must be an object, or a list of one for each picture, got {shown(given)}")
    return {name: value for name, value in (given or {}).items() if value is not None}
