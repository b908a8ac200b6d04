"""What happened, pass by pass: the record, its statistics, and its places in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ..balancing.arousal import mood
from ..core.values import Answer, JsonObject, Pass
from ..pictures.load import Picture


@dataclass(frozen=True, eq=False)
class PassNote:
    """One pass of one picture.

    step: where, at what cost, and what came out; its allocation is all that has been seen by then, the finest leaf at
    each place. steered: (rows, cols) float32, the map that this look followed. uncertainty_map: (rows, cols) float32,
    how unsure the answer's tokens were of the places they looked at; None where the model does not show its attention.
    added: (N, 4) int32 y, x, height, width of the leaves that this look added, in pixels as given. point: y, x of the
    fixation in pixels as given, None where the look was spread.
    """

    step: Pass
    steered: np.ndarray
    uncertainty_map: np.ndarray | None
    added: np.ndarray
    point: tuple[int, int] | None
    arousal: float
    seconds: Mapping[str, float]

    @property
    def mood(self) -> str:
        return mood(self.arousal)


@dataclass(frozen=True, eq=False)
class Story:
    """One question about one picture: the answer, and the passes that led to it.

    stop: below this uncertainty it is sure enough. most: passes that it might have taken.
    """

    query: str
    picture: Picture
    answer: Answer
    passes: tuple[PassNote, ...]
    stop: float
    most: int = 4

    @property
    def ended(self) -> str:
        """Why it looked no further."""
        if self.converged:
            return "sure enough"
        return "all passes used" if len(self.passes) >= self.most else "no surer by looking"

    @property
    def converged(self) -> bool:
        """Did it end because it was sure enough?"""
        return self.answer.uncertainty < self.stop

    @property
    def statistics(self) -> JsonObject:
        return pass_statistics([self.answer])

    def to_json(self) -> JsonObject:
        """The answer's JSON with the fixation, arousal and seconds of each pass, and the statistics."""
        document = self.answer.to_json()
        for step, note in zip(document["passes"], self.passes, strict=True):
            step |= {"point": note.point, "arousal": note.arousal, "mood": note.mood, "seconds": dict(note.seconds)}
        return {
            **document,
            "query": self.query,
            "converged": self.converged,
            "ended": self.ended,
            "stop": self.stop,
            "statistics": self.statistics,
        }


def convergence_rate(uncertainties: Sequence[float]) -> float | None:
    """The share of the uncertainty that a further pass removes, on average; negative where it grows; None for one."""
    if len(uncertainties) < 2:
        return None
    first, last = (max(value, 1e-6) for value in (uncertainties[0], uncertainties[-1]))
    return 1 - (last / first) ** (1 / (len(uncertainties) - 1))


def pass_statistics(answers: Sequence[Answer]) -> dict[str, object]:
    """Means over answers: passes, and by pass uncertainty, tokens, exploration and levels; the convergence rate.

    levels: share of the tree's leaves at each level, by pass. Means by pass are over the answers that came so far.
    """
    longest = max(len(answer.passes) for answer in answers)
    by_pass = [
        [answer.passes[number] for answer in answers if len(answer.passes) > number] for number in range(longest)
    ]
    rates = [convergence_rate([step.uncertainty or 0.0 for step in answer.passes]) for answer in answers]
    known = [rate for rate in rates if rate is not None]

    def levels(steps: Sequence[Pass]) -> dict[str, float]:
        sums: dict[int, int] = {}
        for step in steps:
            for level, count in step.allocation.tokens_by_level().items():
                sums[level] = sums.get(level, 0) + count
        return {str(level): count / sum(sums.values()) for level, count in sorted(sums.items())}

    return {
        "answers": len(answers),
        "passes": fmean(len(answer.passes) for answer in answers),
        "tokens": fmean(answer.tokens for answer in answers),
        "convergence_rate": fmean(known) if known else None,
        "by_pass": [
            {
                "pass": number,
                "answers": len(steps),
                "uncertainty": fmean(step.uncertainty or 0.0 for step in steps),
                "tokens": fmean(step.tokens for step in steps),
                "exploration": fmean(step.exploration for step in steps),
                "levels": levels(steps),
            }
            for number, steps in enumerate(by_pass, start=1)
        ],
    }


def place_words(story: Story, point: tuple[int, int] | None) -> str:
    """Where a fixation lies, in the words a person would use: "top left", "center"."""
    if point is None:
        return "by the map"
    down = min(2, 3 * point[0] // max(story.picture.height, 1))
    across = min(2, 3 * point[1] // max(story.picture.width, 1))
    words = [("top", "", "bottom")[down], ("left", "", "right")[across]]
    return " ".join(word for word in words if word) or "center"
