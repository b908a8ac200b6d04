"""The course of a training: which canvases when, which allocations, how large a step, how fast to learn."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from .album import TAIL
from .allocations import KINDS, LOOK_AGAIN, NURSERY_KINDS, SCORER_KINDS, Kind, budget_of, even_tree_of


@dataclass(frozen=True)
class Plan:
    """seconds: of this run. total: of the whole training, over which learning rate and canvases move.

    scale: share of the usual batch and album, for machines with little memory. reuse: how often a rendered picture is
    studied on average. steps: stop after so many instead of after the time, and be exactly repeatable.
    """

    seconds: float = 480
    total: float = 960
    learning_rate: float = 2e-3
    scorer_rate: float = 1e-3
    warm_up: int = 200
    decay_from: float = 0.4
    scale: float = 1.0
    reuse: float = 8.0
    seed: int = 0
    glyph_weight: float = 1.0
    patch_weight: float = 1.0
    point_weight: float = 0.3
    thing_weight: float = 1.0
    scorer_every: int = 3
    checkpoint_every: float = 120
    evaluate: int = 2048
    steps: int = 0
    largest: int = 1024


@dataclass(frozen=True)
class Stage:
    """canvases: {(height, width): weight}. A stage ends when its largest canvas is read this well (share of glyphs read
    right), or at the latest after this share of the training."""

    canvases: dict[tuple[int, int], float]
    read_well: float = 1.1
    at_latest: float = 1.1


# Only canvases without an odd edge in their tree, see `LeafTable`.
STAGES = (
    Stage({(128, 128): 1.0}, read_well=0.93, at_latest=0.08),
    Stage({(128, 128): 0.12, (256, 256): 0.88}, read_well=0.93, at_latest=0.25),
    Stage(
        {
            (128, 128): 0.02,
            (256, 256): 0.12,
            (512, 512): 0.66,
            (256, 512): 0.03,
            (512, 256): 0.03,
            (512, 768): 0.03,
            (768, 512): 0.03,
            (768, 1024): 0.04,
            (1024, 768): 0.04,
        }
    ),
)
# A step reads about so many patches, and its language model about so many tokens: small enough for many steps, large
# enough that the device has more to do than the processor.
PATCHES_A_STEP = 60 * 1024
TOKENS_A_STEP = 50_000
# Pixels printed at once, kept in an album, and looked at by the scorer in one step.
PIXELS_A_PRINT = 256 * 512 * 512
PIXELS_AN_ALBUM = 12_288 * 512 * 512
PIXELS_A_GLANCE = 128 * 512 * 512
QUESTIONS = 2
SAY_EVERY = 10.0
SHARES = (1.0, 1.4, 1.2, 1.2, 1.0, 1.2, 1.0)


def next_stage(stage: int, progress: float, glyphs_right: float) -> int:
    """Small canvases first, until they are read well: a run that left them too early never caught up."""
    here = STAGES[stage]
    return stage + 1 if glyphs_right >= here.read_well or progress >= here.at_latest else stage


def draw_step(stage: int, progress: float, chance: random.Random, largest: int = 1024) -> tuple[tuple[int, int], Kind]:
    """The canvas of a step, no side above `largest`, and the kind of its allocations."""
    weights = {size: weight for size, weight in STAGES[stage].canvases.items() if max(size) <= largest}
    size = chance.choices(list(weights), list(weights.values()))[0]
    return size, kind_at(size, progress, chance)


def kind_at(size: tuple[int, int], progress: float, chance: random.Random) -> Kind:
    kinds: tuple[Kind, ...] = NURSERY_KINDS if min(size) <= 128 else KINDS
    if min(size) >= 256 and progress > 0.4:
        kinds = (*kinds, *SCORER_KINDS, LOOK_AGAIN)
    return chance.choices(kinds, [kind.weight for kind in kinds])[0]


def rate_at(progress: float, step: int, plan: Plan) -> float:
    """Share of the full learning rate: warm-up, plateau, cosine to zero."""
    fall = max(0.0, (progress - plan.decay_from) / (1 - plan.decay_from))
    # A run of a few steps, as tests make it, warms up in a part of them.
    warm_up = min(plan.warm_up, 1 + plan.steps // 4) if plan.steps else plan.warm_up
    return min(1.0, (step + 1) / warm_up) * 0.5 * (1 + math.cos(math.pi * min(1.0, fall)))


def pictures_a_step(size: tuple[int, int], kind: Kind) -> int:
    """So many that a step costs about the same on every canvas and under every allocation."""
    leaves = budget_of(kind, even_tree_of(size))
    questions = QUESTIONS if kind.name == "full" else 1
    return max(1, min(PATCHES_A_STEP // (4 * leaves), TOKENS_A_STEP // (questions * (leaves + TAIL))))
