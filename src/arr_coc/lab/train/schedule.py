"""The course of the reader's training: which canvases when, which allocations, how large a step."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .allocations import KINDS, LOOK_AGAIN, NURSERY_KINDS, SCORER_KINDS, Kind, budget_of, even_tree_of
from .reader_examples import TAIL


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
# Pixels rendered at once, kept in a buffer, and looked at by the scorer in one step.
PIXELS_A_RENDERING = 256 * 512 * 512
PIXELS_A_BUFFER = 12_288 * 512 * 512
PIXELS_A_GLANCE = 128 * 512 * 512
QUESTIONS = 2
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


def pictures_a_step(size: tuple[int, int], kind: Kind) -> int:
    """So many that a step costs about the same on every canvas and under every allocation."""
    leaves = budget_of(kind, even_tree_of(size))
    questions = QUESTIONS if kind.name == "full" else 1
    return max(1, min(PATCHES_A_STEP // (4 * leaves), TOKENS_A_STEP // (questions * (leaves + TAIL))))


def choose_difficulty(size: tuple[int, int], chance: random.Random) -> str | None:
    """On nursery canvases the nursery; elsewhere mostly normal, some easier, some hard."""
    if min(size) <= 128:
        return None
    return chance.choices((None, "easy", "hard"), (0.6, 0.25, 0.15))[0]
