"""What is practised when: static pictures first, then frames of clips, then hard cases, which count double.

Hard cases are tiny text at the edge, low contrast and many objects: Needle World's `hard` setting. What was learned
stays in the mixture, so that it is not forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import InputError

SOURCES = ("static", "video", "hard")
HARD_WEIGHT = 2.0


@dataclass(frozen=True)
class Stage:
    """name; since: the share of the training from which on it holds; shares: of each source in a batch."""

    name: str
    since: float
    shares: Mapping[str, float]


STAGES = (
    Stage("static", 0.0, {"static": 1.0}),
    Stage("video", 0.4, {"static": 0.5, "video": 0.5}),
    Stage("hard", 0.7, {"static": 0.4, "video": 0.2, "hard": 0.4}),
)


@dataclass(frozen=True)
class Curriculum:
    """Stages by progress, and what an example of each source counts in the loss."""

    stages: tuple[Stage, ...] = STAGES
    weights: Mapping[str, float] = field(default_factory=lambda: {"static": 1.0, "video": 1.0, "hard": HARD_WEIGHT})

    def __post_init__(self) -> None:
        starts = [stage.since for stage in self.stages]
        if not starts or starts[0] != 0 or starts != sorted(starts):
            raise InputError(f"the stages of a curriculum must begin at 0 and go up, got {starts}")
        unknown = {source for stage in self.stages for source in stage.shares} - set(self.weights)
        if unknown:
            raise InputError(f"no weight for the source {', '.join(sorted(unknown))}; give one in weights")

    def at(self, progress: float) -> Stage:
        """The stage at a share of the training in [0, 1]."""
        return [stage for stage in self.stages if max(0.0, progress) >= stage.since][-1]

    def counts(self, progress: float, number: int) -> dict[str, int]:
        """How many of `number` examples come from each source: the shares, rounded so that they sum to number."""
        shares = self.at(progress).shares
        total = sum(shares.values())
        exact = {name: number * share / total for name, share in shares.items()}
        result = {name: int(value) for name, value in exact.items()}
        # What rounding left over goes to the largest remainders.
        by_remainder = sorted(exact, key=lambda name: result[name] - exact[name])
        for name in by_remainder[: number - sum(result.values())]:
            result[name] += 1
        return {name: count for name, count in result.items() if count}


STATIC_ONLY = Curriculum(stages=STAGES[:1])
