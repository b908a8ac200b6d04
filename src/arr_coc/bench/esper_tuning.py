"""Before `bench esper` measures: settings chosen on validation pictures, tempering trained on training pictures."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from ..balancing.tempering import TemperingPolicy
from ..esper.settings import EsperSettings
from ..esper.train_tempering import Lesson, train_tempering
from .esper_runs import (
    BLUR_SEED,
    FIRST,
    LATER,
    LONGEST_ANSWER,
    TRAINING_SEED,
    VALIDATION_SEED,
    Advance,
    Models,
    hard_scenes,
    lesson_of,
    measuring,
    run,
    scorer_maps,
    share,
)


def tuning_grid() -> list[EsperSettings]:
    """How much attention counts, which layers it is read from, how wide the fovea is."""
    return [
        EsperSettings(attention=attention, question=question, fovea=fovea, layers=layers)
        for attention, question in ((0.0, 0.0), (0.5, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 3.0))
        for fovea in (1.5, 2.5)
        for layers in ((1 / 3, 2 / 3), (1 / 3, 1.0))
        if attention or question or layers[1] == 1.0  # without attention it does not matter which layers
    ]


def tune(models: Models, number: int, advance: Advance) -> tuple[EsperSettings, list[dict[str, Any]]]:
    """The best of a small grid on validation pictures, by accuracy with early stopping; ties go to fewer tokens."""
    scenes = hard_scenes(number, VALIDATION_SEED, "validation", models.device)
    maps, tried = scorer_maps(models, BLUR_SEED + 1), []
    grid = tuning_grid()
    for settings in grid:
        advance(f"tuning {len(tried) + 1} of {len(grid)}")
        right, tokens, _ = run(models, scenes, maps, (FIRST, LATER), settings).stopped(settings)
        found = share(right) | {"tokens": float(tokens.float().mean())}
        tried.append({"settings": asdict(settings), **found})
    best = max(range(len(tried)), key=lambda index: (tried[index]["accuracy"], -tried[index]["tokens"]))
    return grid[best], tried


def train(
    models: Models, settings: EsperSettings, steps: int, batch: int, advance: Advance = lambda name: None
) -> tuple[TemperingPolicy, list[float]]:
    """Learned tempering, from training pictures of the hard families with the blurred scorer."""

    def lessons(step: int) -> Lesson:
        scenes = hard_scenes(batch, TRAINING_SEED, "train", models.device, start=step)
        return lesson_of(models, scenes, scorer_maps(models, TRAINING_SEED + step * batch)(scenes, 0))

    with measuring(models), torch.enable_grad():
        return train_tempering(
            models.reader,
            lessons,
            (FIRST, LATER),
            settings,
            steps=steps,
            temperature=models.temperature,
            most=LONGEST_ANSWER,
            watch=lambda step, reward: advance(f"training step {step + 1}: reward {reward:.3f}"),
        )
