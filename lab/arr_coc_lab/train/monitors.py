"""A running record of what a training does to the balance, and the alarm that says when it has collapsed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from arr_coc.attending.quadtree import quadtree
from arr_coc.core.errors import InputError
from arr_coc.core.values import JsonObject

from .allocations import Kind, make_leaves, tree_of
from .evaluate import FAMILIES
from .outcomes import judge
from .pictures import TrainingBatch, family_batches, join

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from ..classic.scorer import Scorer


# One-number quantities that modules of this library may learn; tensions come by name.
LEARNED = ("decay", "boost")


@dataclass
class Monitors:
    """points: one dictionary of plain numbers for each observation, `step` among them.

    share_band: where the share of the budget spent must stay. entropy_band: where the map's entropy (a share of
    log(cells)) must stay. Both are asked of the last half of the record: before that, learning may wander.
    """

    share_band: tuple[float, float] = (0.9, 1.0)
    entropy_band: tuple[float, float] = (0.15, 0.98)
    points: list[dict[str, float]] = field(default_factory=list)

    def observe(self, step: int, modules: Iterable[nn.Module] = (), **values: float) -> dict[str, float]:
        """Add a point: the values given, and every tension, decay and boost found in the modules.

        `budget_share` (tokens spent over budget) and `map_entropy` are the names that the alarm looks at.
        """
        if self.points and step <= self.points[-1]["step"]:
            raise InputError(f"monitors go forward: step {step} after step {self.points[-1]['step']:g}")
        point = {"step": step, **learned_numbers(modules), **{name: float(value) for name, value in values.items()}}
        wrong = [name for name, value in point.items() if not math.isfinite(value)]
        if wrong:
            raise InputError(f"{', '.join(wrong)} at step {step} is not a number; the training has diverged")
        self.points.append(point)
        return point

    def series(self, name: str) -> tuple[list[float], list[float]]:
        """Steps and values of one quantity, for plots."""
        found = [(point["step"], point[name]) for point in self.points if name in point]
        return [step for step, _ in found], [value for _, value in found]

    def alarms(self, last: float = 0.5) -> list[str]:
        """One line for each quantity that left its band in the last share of the record; empty: no collapse."""
        result = []
        bands = (("budget_share", self.share_band), ("map_entropy", self.entropy_band))
        for name, (low, high) in bands:
            steps, values = self.series(name)
            start = int(len(values) * (1 - last))
            outside = [
                (step, value)
                for step, value in zip(steps[start:], values[start:], strict=True)
                if not low - 1e-9 <= value <= high + 1e-9
            ]
            if outside:
                step, value = outside[0]
                result.append(
                    f"{name} left [{low:g}, {high:g}] in {len(outside)} of the last {len(values) - start} "
                    f"observations, first at step {step:g} with {value:.3g}"
                )
        return result

    def to_json(self) -> dict[str, object]:
        return {
            "share_band": list(self.share_band),
            "entropy_band": list(self.entropy_band),
            "points": [dict(point) for point in self.points],
            "alarms": self.alarms(),
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> Monitors:
        """The inverse; alarms are found anew."""
        try:
            share, entropy = data["share_band"], data["entropy_band"]
            return cls((share[0], share[1]), (entropy[0], entropy[1]), [dict(point) for point in data["points"]])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InputError(f"not a record of monitors: {type(error).__name__}: {error}") from error


def learned_numbers(modules: Iterable[nn.Module]) -> dict[str, float]:
    """Every tension (`named_tensions()`) and every decay and boost in the modules and what they contain."""
    result: dict[str, float] = {}
    for module in (part for whole in modules for part in whole.modules()):
        tensions = getattr(module, "named_tensions", None)
        if callable(tensions):
            result |= {name: float(value) for name, value in tensions().items()}
        for name in LEARNED:
            value = getattr(module, name, None)
            if isinstance(value, Tensor | float | int):
                result[name] = float(torch.as_tensor(value).detach().float().mean())
    return result


# ----------------------------------------------------------------------------------------------------------------------
# How the allocation in use fares while a scorer is trained: pictures set aside, read with the tree it would choose.


def run_scorer(scorer: nn.Module, batch: TrainingBatch) -> Tensor:
    """(B, rows, cols) logits; in bfloat16 where that is fast."""
    device = batch.pictures.device
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        pictures = (
            batch.pictures.contiguous(memory_format=torch.channels_last) if device.type == "cuda" else batch.pictures
        )
        return scorer(pictures, batch.question_ids).float()


@dataclass(frozen=True)
class Probe:
    """Pictures set aside to see how the allocation in use fares while training; never trained on."""

    batch: TrainingBatch
    keep: float

    @classmethod
    def render(cls, number: int, size: tuple[int, int], keep: float, device: torch.device) -> Probe:
        each = max(1, number // len(FAMILIES))
        return cls(join([batch for _, batch in family_batches(each, size, 7, "validation", device=device)]), keep)

    @torch.no_grad()
    def accuracy(self, model: PreTrainedModel, scorer: Scorer | None, most: int) -> float:
        """Share of right answers with the scorer's best tree, or with random trees where none is given."""
        size = self.batch.pictures.shape[2], self.batch.pictures.shape[3]
        tree = tree_of(size)
        if scorer is None:
            generator = torch.Generator(device=self.batch.pictures.device).manual_seed(7)
            leaves = make_leaves(Kind("random", self.keep, 1.0), self.batch, tree, generator, None)
        else:
            budget = max(tree.floor, round(self.keep * tree.full))
            leaves = quadtree(run_scorer(scorer, self.batch).sigmoid(), tree, budget).cells
        return float(judge(model, self.batch, leaves[:, None], most).right.float().mean())
