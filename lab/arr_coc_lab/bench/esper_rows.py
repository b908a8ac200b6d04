"""The rows of `bench esper`, one section after the other; every row is handed over as soon as it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace

import torch
from torch import Tensor

from arr_coc.core.errors import InputError
from arr_coc.core.values import Relevance
from arr_coc.eye.pass_settings import SACCADES, TWO_PASS, EsperSettings
from arr_coc.relevance.look.arousal import modulate, mood
from arr_coc.relevance.look.learned import ArousalEstimator
from arr_coc.relevance.look.tempering import TemperingPolicy

from .esper_cost import pass_cost, sameness
from .esper_runs import (
    BLUR_SEED,
    FIRST,
    LATER,
    Advance,
    Models,
    PassOutcomes,
    QuestionSheet,
    Scenes,
    flat_maps,
    measuring,
    points_between,
    run,
    salient_cells,
    scorer_maps,
    share,
)
from .table import Cell, Quantity

# Short names, because a terminal has 80 columns; `about` and `target` say it at length, in the JSON.
COLUMNS = {
    "what": "what",
    "tokens": "tokens",
    "measured": "right, %",
    "against": "points",
    "kept": "bar",
}
STAKES = {
    "casual": "What is the cute snack called?",
    "plain": "What are the ingredients in this snack?",
    "high stakes": "Which allergens are in this snack?",
}
Row = dict[str, Cell]


def accuracy_row(what: str, about: str, right: Tensor, tokens: Tensor, against: Tensor | None = None) -> Row:
    """Accuracy with its interval, mean tokens, and the paired difference to another way on the same pictures."""
    found = share(right)
    points = points_between(right, against) if against is not None else None
    return {
        "what": what,
        "about": about,
        "n": int(found["n"]),
        "tokens": float(tokens.float().mean()),
        "measured": _percent(found["accuracy"], found["low"], found["high"]),
        "against": None if points is None else _percent(points["difference"], points["low"], points["high"]),
    }


def _percent(value: float, low: float, high: float) -> Quantity:
    return Quantity(100 * value, "", 100 * low, 100 * high)


def one_pass(models: Models, sheet: QuestionSheet, totals: Tensor, settings: EsperSettings) -> PassOutcomes:
    """One look with the tokens that the passes of each picture spent together."""
    return run(models, sheet, totals.clamp(max=models.tree.full), replace(settings, passes=1, least=1))


def hard_rows(
    models: Models, sheet: QuestionSheet, settings: EsperSettings, learned: TemperingPolicy | None, advance: Advance
) -> Iterator[Row]:
    """Passes against one pass of the same total, early stopping against always four, learned tempering, controls."""
    budgets, scenes = (FIRST, LATER), sheet.scenes
    advance("four passes")
    passes = run(models, sheet, budgets, settings)
    yield accuracy_row("hard, first look", "the first look alone, scorer blurred", *passes.at(0)[:2])
    sharp = run(
        models, QuestionSheet.of(models, scenes, scorer_maps(models)), (FIRST, 0), replace(settings, passes=1, least=1)
    )
    yield accuracy_row("hard, sharp scorer", "the first look alone, scorer as shipped", *sharp.at(0)[:2])
    stopped_right, stopped_tokens, ended = passes.stopped(settings)
    early = f"{settings.least} to {settings.passes}"
    ways: list[tuple[str, Tensor, Tensor]] = [(f"{early} passes", stopped_right, stopped_tokens)]
    ways += [(f"{number} passes", *passes.at(number - 1)[:2]) for number in range(2, settings.passes + 1)]
    for name, right, tokens in ways:
        advance(f"one pass against {name}")
        once = one_pass(models, sheet, tokens, settings).at(0)
        yield accuracy_row(f"hard, once for {name}", f"one pass with the total of {name}", *once[:2])
        row = accuracy_row(f"hard, {name}", f"{name}, against one pass with the same total", right, tokens, once[0])
        if right is stopped_right:
            difference = row["against"]
            assert isinstance(difference, Quantity)
            row |= {"target": "at least 5 points above one pass", "kept": difference.value >= 5}
        yield row
    always_right, always_tokens, _ = passes.at(settings.passes - 1)
    loss = points_between(stopped_right, always_right)
    saved = 1 - float(stopped_tokens.sum() / always_tokens.sum())
    yield {
        "what": "hard, tokens saved",
        "about": f"early stopping ({early} passes) against always {settings.passes}",
        "n": len(scenes),
        "measured": Quantity(100 * saved, "%"),
        "against": _percent(loss["difference"], loss["low"], loss["high"]),
        "target": "at least 30 % of the tokens saved, at most 1 point lost",
        "kept": saved >= 0.3 and loss["difference"] >= -0.01,
    }
    counts = torch.bincount(ended, minlength=settings.passes + 1)[1:]
    spread = ", ".join(f"{number}: {100 * float(c) / len(scenes):.0f}" for number, c in enumerate(counts, 1) if c)
    about = "passes that early stopping needed; foretold: 2: 50–60 %, 3: 30–35 %, 4: 10–15 %"
    yield {"what": "hard, passes needed", "about": about, "n": len(scenes), "measured": f"{spread} %"}
    if learned is not None:
        advance("learned tempering")
        other = run(models, sheet, budgets, settings, learned)
        for name, (right, tokens, _), rule in (
            (early, other.stopped(settings), stopped_right),
            (f"{settings.passes}", other.at(settings.passes - 1), always_right),
        ):
            about = f"learned tempering, {name} passes, against the rule"
            yield accuracy_row(f"hard, learned, {name}", about, right, tokens, rule)


def ablation_rows(
    models: Models,
    sheet: QuestionSheet,
    settings: EsperSettings,
    in_time: Callable[[], bool],
    advance: Advance,
    only: Sequence[str] = (),
) -> Iterator[Row]:
    """Layouts, presets, and Esper without one of its parts; early stopping, against the settings as they are. only:
    these instead of all."""
    base = run(models, sheet, (FIRST, LATER), settings).stopped(settings)
    yield accuracy_row("hard, as it is", "early stopping, what the next rows are compared with", *base[:2])
    if not only:
        total = torch.full((len(sheet),), FIRST + 3 * LATER)
        flat = QuestionSheet.of(models, sheet.scenes, flat_maps)
        for name, budget in (("uniform", total), ("full", 0 * total + models.tree.full)):
            advance(name)
            once = run(models, flat, budget, replace(settings, passes=1, least=1)).at(0)
            yield accuracy_row(f"hard, {name}", "one pass without any map", *once[:2])
    others = {
        "apart": ("looks encoded apart, coarse parents kept in sight", replace(settings, layout="apart")),
        "rebuild": ("the tree read anew, earlier encodings kept", replace(settings, layout="rebuild")),
        "fresh": ("the tree encoded and read anew", replace(settings, layout="fresh")),
        "no answer's eye": ("without the answer's attention", replace(settings, attention=0.0)),
        "no question's eye": ("without the question's attention", replace(settings, question=0.0)),
        "neither": ("without either attention", replace(settings, attention=0.0, question=0.0)),
        "no fovea": ("detail spread over the map", replace(settings, fovea=None)),
        "inhibition": ("inhibition of return", replace(settings, inhibition=1.0)),
        "saccades": ("the preset", replace(SACCADES, attention=settings.attention, question=settings.question)),
        "two_pass": ("the preset", TWO_PASS),
    }
    unknown = [name for name in only if name not in others]
    if unknown:
        raise InputError(f"no part or preset is called {', '.join(unknown)}; choose from {', '.join(others)}")
    for name, (about, other) in others.items():
        if only and name not in only:
            continue
        if not in_time():
            return
        advance(name)
        right, tokens, _ = run(models, sheet, (FIRST, LATER), other).stopped(other)
        yield accuracy_row(f"hard, {name}", about, right, tokens, base[0])


def zoo_rows(
    models: Models, scenes: Scenes, settings: EsperSettings, learned: TemperingPolicy | None, advance: Advance
) -> Iterator[Row]:
    """The ingredients of held-out zoo scenes, after a first look at what stands out and after one at what is asked."""
    sheet = QuestionSheet.of(models, scenes, scorer_maps(models))
    policy = learned if settings.learned else None
    for name, one in (("salient", replace(sheet, glance=salient_cells(scenes))), ("relevant", sheet)):
        advance(f"zoo, first look {name}")
        found = run(models, one, (FIRST, LATER), settings, policy)
        right, tokens, ended = found.stopped(settings)
        about = f"ingredients of held-out scenes; the first look goes to what is {name}"
        yield accuracy_row(f"zoo, {name}, first look", about, *found.at(0)[:2])
        row = accuracy_row(f"zoo, {name}, in the end", about, right, tokens, found.at(0)[0])
        yield {**row, "target": "at least 80 % right", "kept": float(right.float().mean()) >= 0.8}
        sure = found.uncertainty.gather(1, ended[:, None] - 1)[:, 0] < EsperSettings().stop
        yield accuracy_row(f"zoo, {name}, and sure", f"{about}; right, and uncertainty below .15", right & sure, tokens)
        mean = " ".join(f"{float(value):.2f}" for value in found.uncertainty.mean(0))
        yield {"what": f"zoo, {name}, doubt", "about": "mean uncertainty after each pass", "measured": mean}


def arousal_rows(models: Models, scenes: Scenes) -> list[Row]:
    """The entropy of the first map under three questions that differ in what is at stake: of the scorer's sharp maps,
    which leave little to sharpen, and of the blurred ones."""
    rows: list[Row] = []
    for kind, source in (("", scorer_maps(models)), ("blurred, ", scorer_maps(models, BLUR_SEED))):
        with measuring(models):
            maps = source(scenes, 0).float()
        before = _entropy(maps)
        for name, question in STAKES.items():
            level = float(ArousalEstimator()(question).detach())
            after = _entropy(modulate(maps, level))
            change = after - before
            # A calm question must leave the map as it is, the high stakes must sharpen it.
            kept = change < 0 if name == "high stakes" else change == 0
            rows.append(
                {
                    "what": f"arousal, {kind}{name}",
                    "about": f"{question!r}: arousal {level:.2f} ({mood(level)}); mean entropy of the maps",
                    "n": len(scenes),
                    "measured": f"{before:.2f} → {after:.2f} nats",
                    "target": "the entropy falls" if name == "high stakes" else "the map stays",
                    "kept": kept,
                }
            )
    return rows


def _entropy(maps: Tensor) -> float:
    values = [Relevance(one).entropy for one in maps.cpu().numpy()]
    return sum(values) / len(values)


def cost_rows(models: Models, repeats: int, sizes: Sequence[int] = (512, 1024)) -> list[Row]:
    rows: list[Row] = []
    for size in sizes:
        cost = pass_cost(models, size, repeats)
        first, second, whole = (f"{1000 * item.median:.0f}" for item in (cost.first, cost.second, cost.whole))
        rows.append(
            {
                "what": f"cost {size}², second / first",
                "about": f"a second pass, over all that a first pass of as many leaves ({cost.leaves}) must do",
                "measured": f"{cost.ratio:.2f} ({second}/{first} ms)",
                "target": "at most 0.60",
                "kept": cost.ratio <= 0.6,
                "timings": str(asdict(cost)),
            }
        )
        rows.append(
            {
                "what": f"cost {size}², second / both",
                "about": "a second pass, over one pass from scratch with the leaves of both",
                "measured": f"{cost.ratio_to_whole:.2f} ({second}/{whole} ms)",
            }
        )
        alone = (f"{1000 * item.median:.0f}" for item in (cost.encode_second, cost.encode_first))
        rows.append(
            {
                "what": f"cost {size}², networks",
                "about": "the same leaves through tower and language model, after a first look, over without one",
                "measured": f"{cost.ratio_of_models:.2f} ({'/'.join(alone)} ms)",
            }
        )
    same = sameness(models)
    rows.append(
        {
            "what": "logits, with caches",
            "about": "largest difference, pass by pass with caches against one long prompt of the same blocks",
            "measured": f"{same.cached:.1e}",
            "target": "at most 1e-3",
            "kept": same.cached <= 1e-3,
        }
    )
    rows.append(
        {
            "what": "logits, apart",
            "about": "largest difference, looks encoded apart and parents kept, against one tree encoded together; in "
            "brackets: how far another tree of as many tokens moves them",
            "measured": f"{same.together:.2f} ({same.scale:.2f})",
        }
    )
    return rows
