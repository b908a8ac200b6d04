"""`Esper`: look, answer, and look again where it pays.

esper = Esper.from_pretrained("mini")
esper.set_image("zoo.png").ask("What are the ingredients in this snack?")     → Answer with up to four passes

Every pass asks the model with all regions seen so far and some more: the cells where relevance is highest among those
not yet seen in full detail. An unsure answer explores (`temper`), as far as the tension exploit ↔ explore of this
question lets it; high stakes sharpen the map (`balancing.arousal`). The tokens of every pass count in full, so the
budget is that of all passes together.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..attending.frame import Frame, to_cells
from ..attending.leaves import leaves_of
from ..balancing.arousal import arousal_of, keyword_stakes, modulate
from ..core.answer import Answer, Pass, summed
from ..core.errors import InputError, of_kind, whole
from ..core.folders import MINI
from ..core.plugins import LAB, load_plugin, plugins
from ..core.values import Allocation, Relevance
from ..options import Budget, Options, as_options, check_question
from ..pictures.document import PageList
from .eye import Eye
from .pages import ask_page_by_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..pictures.load import Picture

    # (eye that is shown a picture or document, question, options) → Answer
    PresetFunction = Callable[[Eye, str, Options], Answer]

# Another package adds a preset by an entry point of this group.
GROUP = "arr_coc.presets"
# Share of the full token count for all passes together, where the caller gives none.
DEFAULT_TOTAL = 5 / 16
# Relevance that is left outside the fovea, so that spare tokens go to the next best place.
OUTSIDE = 1e-3


@dataclass(frozen=True)
class PassSettings:
    """How often to look, and how.

    Args:
        passes: Maximum number of passes.
        least: Minimum number of passes.
        stop: Stop once the uncertainty is below this.
        gain: From the third pass on, stop once a pass lowers the uncertainty by less than this.
        fovea: Gather each later look around one place: a Gaussian of this many cells. None spreads it over the map.
        inhibition: How much of the ground around earlier places to leave out, 0 to 1.
    """

    passes: int = 4
    least: int = 1
    stop: float = 0.3
    gain: float = 0.05
    fovea: float | None = None
    inhibition: float = 0.0


PRESETS = {
    "two_pass": PassSettings(passes=2),
    "four_pass": PassSettings(),
    "saccades": PassSettings(least=3, stop=0.1, gain=0.0, fovea=2.0, inhibition=1.0),
}


def find_preset(name: str) -> PresetFunction:
    """Look up what a preset does; raise `InputError` for an unknown name."""
    if name in PRESETS:
        return lambda eye, query, options: Esper(eye, name).ask(query, options=options)
    if name in plugins(GROUP):
        return load_plugin(plugins(GROUP)[name])
    known = ", ".join(dict.fromkeys((*PRESETS, *plugins(GROUP))))
    raise InputError(f"preset {name!r} is unknown; choose from {known} ('source' is part of the laboratory: {LAB})")


class Esper:
    """Look several times at one picture, with any model that an `Eye` can hold.

    Args:
        eye: The model.
        preset: "two_pass", "four_pass" or "saccades", or `PassSettings`.

    Example:
        >>> Esper.from_pretrained("mini").set_image("zoo.png").ask("What are the ingredients?").tokens  # doctest: +SKIP
        49
    """

    def __init__(self, eye: Eye, preset: str | PassSettings = "four_pass") -> None:
        self.eye = of_kind(eye, Eye, "eye")
        if isinstance(preset, str) and preset not in PRESETS:
            raise InputError(f"preset {preset!r} is unknown; choose from {', '.join(PRESETS)}")
        self.settings = PRESETS[preset] if isinstance(preset, str) else of_kind(preset, PassSettings, "preset")

    @classmethod
    def from_pretrained(
        cls, name: str = MINI, preset: str | PassSettings = "four_pass", *, device: str = "cpu"
    ) -> Esper:
        """Load a model, as `Eye.from_pretrained` does."""
        return cls(Eye.from_pretrained(name, device=device), preset)

    def set_image(self, image: object, pages: PageList = None) -> Esper:
        """Set the picture that the next questions are about, as for `Eye`; of a document the best page is looked at."""
        self.eye = copy(self.eye).set_image(image, pages)
        return self

    def ask(
        self, query: str, budget: Budget | None = None, options: Options | None = None, *, passes: int | None = None
    ) -> Answer:
        """Answer one question.

        Args:
            query: The question.
            budget: Visual tokens of all passes together, or a share such as "25%"; 5/16 by default.
            options: `relevance`, `scale`, `balancing` and `max_new_tokens`, as for `Eye.ask`.
            passes: Maximum number of passes, instead of the preset's.

        Returns:
            An `Answer` with one entry in `passes` for each look.
        """
        check_question(query)
        settings, given = self.settings, as_options(options).override(budget=budget)
        taken = ("budget", "relevance", "scale", "balancing", "max_new_tokens")
        options = Options(**{name: getattr(given, name) for name in taken})
        options.check_fixed("several passes")
        if isinstance(options.budget, list):
            raise InputError(f"got {len(options.budget)} budgets for one picture; pass one")
        if passes is not None:
            passes = whole(passes, "passes", 1)
            settings = replace(settings, passes=passes, least=min(settings.least, passes))
        if (document := self.eye.document) is None:
            return self._look_again(query, options, settings)

        def asker(picture: Picture, _words: object, tokens: int, known: Relevance | None) -> Answer:
            page = Esper(self.eye, settings).set_image(picture)
            return page.ask(query, options=replace(options, budget=tokens, relevance=known))

        plain = replace(options, scale=None, device=self.eye.engine.device).default(relevance=self.eye.relevance)
        return ask_page_by_page(document, query, plain, self.eye.scorer, asker)

    def _look_again(self, query: str, options: Options, settings: PassSettings) -> Answer:
        eye = copy(self.eye)
        eye.record = None  # all passes are one answer
        full = eye.full
        total = options.default(budget=DEFAULT_TOTAL).tokens(full)
        # All passes together must fit: the first takes two units, each later one a unit more than the one before.
        most = max(number for number in range(1, settings.passes + 1) if number == 1 or _cost(number) <= total)
        unit = max(total // _cost(most), 1)
        looked = eye.prepare(query, replace(options, budget=max(min(2 * unit, total, full), 1)))
        if len(looked.plan.allocations) != 1 or looked.plan.relevance is None:
            raise InputError(f"{eye.engine.name} shows a picture as several tiles; passes need a model with one grid")
        (allocation,), decided = looked.plan.allocations, np.asarray(looked.plan.relevance[0], dtype=np.float64)
        relevance = np.asarray(to_cells(decided[None], _frame(allocation))[0])
        answers: list[Answer] = []
        curious = allocation.tensions.get("exploit_explore", 0.5)
        exploration, fixated = exploration_rule(1, 1.0, curious), np.zeros(allocation.grid)
        while True:
            answer = eye.answer(looked, options.max_new_tokens)
            (step,) = answer.passes
            answers.append(replace(answer, passes=(replace(step, exploration=exploration),)))
            unsure = [one.uncertainty for one in answers]
            if len(answers) == most or _enough(unsure, settings):
                break
            exploration = exploration_rule(len(unsure) + 1, unsure[-1], curious)
            steered = _next_map(relevance, allocation, query, unsure[-1], exploration)
            steered = steered * (1 - settings.inhibition * fixated)
            if settings.fovea is not None:
                seen = _glimpse(np.unravel_index(int(steered.argmax()), steered.shape), steered.shape, settings.fovea)
                steered, fixated = steered * (OUTSIDE + seen), np.maximum(fixated, seen)
            longer = _with_cells(allocation, steered, unit)
            if longer.tokens == allocation.tokens:
                break
            allocation = longer
            looked = replace(looked, plan=replace(looked.plan, allocations=[allocation]), seconds=dict(looked.seconds))
        steps: tuple[Pass, ...] = tuple(step for one in answers for step in one.passes)
        found = replace(answers[-1], passes=steps, seconds=summed(one.seconds for one in answers))
        return self.eye.recorded(found, query, looked.views)


def _cost(passes: int) -> int:
    """Return the units of all passes together: two for the first, and one more for each than for the one before."""
    return passes * (passes + 3) // 2


def _enough(uncertainty: list[float], settings: PassSettings) -> bool:
    """Decide whether the uncertainties after each pass allow to stop."""
    if len(uncertainty) < settings.least:
        return False
    in_vain = len(uncertainty) > 2 and uncertainty[-2] - uncertainty[-1] < settings.gain
    return uncertainty[-1] < settings.stop or in_vain


def _frame(allocation: Allocation) -> Frame:
    return Frame((allocation.height, allocation.width), allocation.cell, allocation.canvas)


def _next_map(
    relevance: np.ndarray, allocation: Allocation, query: str, uncertainty: float, exploration: float
) -> np.ndarray:
    """Compute where the next look goes: (rows, cols), 0 where nothing finer can be seen."""
    levels = allocation.level_map()
    levels = np.where(levels < 0, levels.max() + 1, levels)
    arousal = arousal_of(keyword_stakes(query)[0], uncertainty)
    aroused = modulate(relevance.clip(0, 1), arousal)
    # Examined: 1 at full detail, a quarter of that for each level above.
    return temper(aroused, np.exp2(-2.0 * levels), exploration) * (levels > 0)


def _glimpse(place: tuple[Any, ...], shape: tuple[int, ...], fovea: float) -> np.ndarray:
    """Draw a Gaussian of `fovea` cells around a cell."""
    row, col = np.indices(shape)
    return np.exp(-((row - place[0]) ** 2 + (col - place[1]) ** 2) / (2 * fovea**2))


def _with_cells(allocation: Allocation, steered: np.ndarray, number: int) -> Allocation:
    """Add the `number` best cells of a map that are not yet seen in full detail."""
    leaves = leaves_of(allocation)
    open_ground = allocation.level_map() != 0
    wanted = np.where(open_ground, steered, -np.inf).ravel()
    best = np.argsort(-wanted, kind="stable")[: min(number, int(open_ground.sum()))]
    cells = np.stack([*np.unravel_index(best, steered.shape), np.zeros(len(best))], axis=1).astype(np.int64)
    frame, every = _frame(allocation), np.concatenate([leaves, cells])
    scores = np.concatenate([allocation.scores[: len(leaves)], wanted[best]]).astype(np.float32)
    longer = frame.allocation(every, scores, len(every), "esper")
    kept = {name: getattr(allocation, name) for name in ("scale", "full", "ways", "tensions")}
    return replace(longer, **kept)


# ---- tempering: how much of a further look explores ground that was not examined yet -------------------------------

# Exploration up to here is too little to be worth disturbing the map for.
BLEND_ABOVE = 0.2


def exploration_rule(pass_number: int, uncertainty: float, curious: float = 0.5) -> float:
    """Return how much a pass explores, by the uncertainty after the pass before and the tension exploit ↔ explore."""
    share = 0.1 if pass_number <= 1 else 0.5 if uncertainty > 0.7 else 0.3 if uncertainty > 0.4 else 0.05
    return 2 * curious * share


def temper(relevance: np.ndarray, examined: np.ndarray, exploration: float) -> np.ndarray:
    """Blend a map (h, w) with one of the ground not examined yet; examined: (h, w) in [0, 1].

    Fresh ground counts as much as the most relevant place, examined ground as little as the least.
    """
    if exploration <= BLEND_ABOVE:
        return relevance
    low, high = relevance.min(), relevance.max()
    return (1 - exploration) * relevance + exploration * (high - (high - low) * examined)
