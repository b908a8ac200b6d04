"""Before `bench esper` measures: settings chosen on validation pictures, tempering trained on training pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch

from ...balancing.tempering import TemperingPolicy
from ...esper.settings import EsperSettings
from ..train.train_tempering import Task, TemperingExamples, TemperingOptions, train_tempering
from .esper_runs import (
    BLUR_SEED,
    FIRST,
    LATER,
    LONGEST_ANSWER,
    TRAINING_SEED,
    VALIDATION_SEED,
    Advance,
    Models,
    Outcome,
    Sheet,
    hard_scenes,
    measuring,
    paired,
    run,
    scorer_maps,
    share,
)

# When it is sure enough; and when a further pass is not worth trying, because one lowered the uncertainty by less than
# this (None: always worth it).
STOPS, GAINS = (0.15, 0.3), (None, 0.0, 0.02, 0.05)
# How much accuracy early stopping may cost on validation pictures: half of what the target allows.
LOSS = 0.005


def tuning_grid() -> list[list[dict[str, Any]]]:
    """What is tried, one thing after the other, each with the best of what was tried before."""
    eyes = ((0.0, 0.0), (0.5, 0.0), (0.0, 1.0), (0.0, 3.0), (1.0, 1.0))
    return [
        [{"attention": attention, "question": question} for attention, question in eyes],
        [{"fovea": fovea} for fovea in (1.5, 2.5, 3.0)],
        [{"layers": (1 / 3, 2 / 3)}, {"inhibition": 0.5}, {"layout": "apart"}],
    ]


def tune(
    models: Models,
    number: int,
    advance: Advance,
    in_time: Callable[[], bool] = lambda: True,
    watch: Callable[[EsperSettings, list[dict[str, Any]]], None] = lambda best, tried: None,
) -> tuple[EsperSettings, list[dict[str, Any]]]:
    """The best settings on validation pictures: by accuracy with early stopping, ties go to fewer tokens; then when to
    give up, which is read off the best run.

    in_time: whether to try another one. watch: told of the best so far, and of all that were tried.
    """
    scenes = hard_scenes(number, VALIDATION_SEED, "validation", models.device)
    sheet = Sheet.of(models, scenes, scorer_maps(models, BLUR_SEED + 1))
    tried: list[dict[str, Any]] = []
    best = chosen = EsperSettings()
    most = (-1.0, 0.0)
    for group in [[{}], *tuning_grid()]:
        start = best
        for change in group if not tried or in_time() else []:
            settings = replace(start, **change)
            found = run(models, sheet, (FIRST, LATER), settings)
            right, tokens, _ = found.stopped(settings)
            worth = float(right.float().mean()), -float(tokens.float().mean())
            stopping = choose_stopping(found, settings)
            tried.append({"settings": asdict(stopping), **share(right), "tokens": -worth[1]})
            advance(f"tuning {len(tried)}: {100 * worth[0]:.1f} % at {-worth[1]:.0f} tokens with {change}")
            if worth > most:
                best, chosen, most = settings, stopping, worth
            watch(chosen, tried)
            if not in_time():
                break
    return chosen, tried


def choose_stopping(found: Outcome, settings: EsperSettings) -> EsperSettings:
    """The stop and gain that save most tokens, of those that cost at most `LOSS` of the accuracy of all passes; ties go
    to the first, and where none keeps it, the first is taken."""
    always = found.at(settings.passes - 1)[0]
    options = [replace(settings, stop=stop, gain=gain) for stop in STOPS for gain in GAINS]
    worth = []
    for option in options:
        right, tokens, _ = found.stopped(option)
        worth.append(float("inf") if paired(right, always)["difference"] < -LOSS else float(tokens.sum()))
    return options[worth.index(min(worth))]


def train(
    models: Models,
    settings: EsperSettings,
    batch: int,
    options: TemperingOptions,
    advance: Advance = lambda name: None,
    watch: Callable[[TemperingPolicy, list[float]], None] = lambda policy, rewards: None,
) -> tuple[TemperingPolicy, list[float]]:
    """Learned tempering, from training pictures of the hard families with the blurred scorer.

    watch: told of the policy and all rewards, after every step.
    """

    def examples(step: int) -> TemperingExamples:
        scenes = hard_scenes(batch, TRAINING_SEED, "train", models.device, start=step)
        return Sheet.of(models, scenes, scorer_maps(models, TRAINING_SEED + step * batch)).examples(models)

    def after(policy: TemperingPolicy, rewards: list[float]) -> None:
        advance(f"training step {len(rewards)}: reward {rewards[-1]:.3f}")
        watch(policy, rewards)

    how = {"temperature": models.temperature, "most": LONGEST_ANSWER}
    task = Task(models.reader, examples, (FIRST, LATER), settings, how)
    with measuring(models), torch.enable_grad():
        return train_tempering(task, options, watch=after)


def compare(models: Models, policy: TemperingPolicy, settings: EsperSettings, number: int) -> dict[str, Any]:
    """The learned tempering against the rule on validation pictures, stopping early: shares, and points between."""
    scenes = hard_scenes(number, VALIDATION_SEED, "validation", models.device)
    sheet = Sheet.of(models, scenes, scorer_maps(models, BLUR_SEED + 1))
    learned, rule = (
        run(models, sheet, (FIRST, LATER), settings, tempering).stopped(settings)[0] for tempering in (policy, None)
    )
    return {"learned": share(learned), "rule": share(rule), "points": paired(learned, rule)}
