"""The systems that the hypotheses compare: from pictures and questions to relevance maps, all by one interface.

A rival makes a map (B, rows, cols) of pictures and questions; every map is raised to a power of its own, chosen on
validation pictures (a tree splits by mass, so that a map needs the right sharpness to be used well, and no rival should
lose for want of it), and allocated by the same quadtree at the same budget.

The three ways on Needle World: propositional and perspectival are the plain functions of `knowing`; participatory, what
the question couples to, is the shipped scorer, the one part here that has learned to read both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..attending.quadtree import quadtree
from ..attending.tree import Tree
from ..balancing.adaptive import AdaptiveTensionBalancer
from ..balancing.balancer import TensionBalancer
from ..balancing.tension import balance, normalise
from ..errors import InputError
from ..knowing.perspectival import perspectival
from ..knowing.propositional import propositional
from ..knowing.scorer import Scorer
from ..pretrained import Pretrained
from ..sensing import Layout, sense
from .allocations import target_cells
from .pictures import TrainingBatch

WAYS_LAYOUT = Layout.of("ways", ("red", "green", "blue", "eccentricity", "saliency", "text_regions"))
POWERS = (1.0, 2.0, 4.0, 8.0)
# What each folder of trained parts holds, by name.
KINDS: dict[str, type[Pretrained]] = {
    "texture": Scorer,
    "rgb": Scorer,
    "medical": Scorer,
    "casual": Scorer,
    "outcomes": Scorer,
    "tension": TensionBalancer,
    "adaptive": AdaptiveTensionBalancer,
}
SCORERS = tuple(name for name, kind in KINDS.items() if kind is Scorer)
RECORD = "record.json"
TRAINED = Path(__file__).parents[1] / "weights" / "hypotheses"


@dataclass(frozen=True)
class Ways:
    """The three maps of a batch, each (B, rows, cols) in [0, 1], and the question as one vector (B, Q)."""

    propositional: Tensor
    perspectival: Tensor
    participatory: Tensor
    query: Tensor

    @property
    def maps(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.propositional, self.perspectival, self.participatory


@torch.no_grad()
def three_ways(batch: TrainingBatch, scorer: Scorer, at_once: int = 256) -> Ways:
    """What each way of knowing says about every cell."""
    rows, cols = batch.pictures.shape[2] // 32, batch.pictures.shape[3] // 32
    parts: list[tuple[Tensor, Tensor]] = []
    for pictures in batch.pictures.split(at_once):
        texture = sense(pictures, WAYS_LAYOUT, backend="torch", clusters=None)
        seen = (propositional(texture), perspectival(texture))
        first, second = (one.unflatten(2, (cols, -1)).unflatten(1, (rows, -1)).mean((2, 4)) for one in seen)
        parts.append((first, second))
    first, second = (torch.cat(maps) for maps in zip(*parts, strict=True))
    query = scorer.question(batch.question_ids)[1].float()
    return Ways(first.float(), second.float(), scorer.score(batch.pictures, batch.question_ids), query)


@dataclass
class Rivals:
    """scorer: the shipped one. parts: what was trained for the hypotheses, by name. powers: sharpness by rival."""

    scorer: Scorer
    parts: dict[str, Any] = field(default_factory=dict)
    powers: dict[str, float] = field(default_factory=dict)

    @classmethod
    def load(cls, scorer: Scorer, folder: Path | None = TRAINED, device: torch.device | str = "cpu") -> Rivals:
        """Everything found in a folder of `train_hypotheses`; a missing folder leaves what needs no training."""
        found: dict[str, Any] = {}
        powers: dict[str, float] = {}
        if folder is not None and (folder / RECORD).is_file():
            try:
                record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
                powers = {name: float(power) for name, power in record["powers"].items()}
            except (ValueError, KeyError, AttributeError) as error:
                raise InputError(f"{folder / RECORD} is not a record of train_hypotheses ({error!r})") from error
            there = [name for name in KINDS if (folder / name / "config.json").is_file()]
            found = {name: KINDS[name].from_pretrained(folder / name).to(device) for name in there}
        return cls(scorer.to(device).eval(), found, powers)

    def save(self, folder: Path) -> None:
        """The trained parts as fp16 folders."""
        for name, part in self.parts.items():
            copy = KINDS[name].from_config(part.config)
            copy.load_state_dict(part.state_dict())
            copy.half().save_pretrained(folder / name)

    @property
    def names(self) -> tuple[str, ...]:
        """Rivals that can be compared with what is there."""
        return tuple(self.makers())

    def makers(self) -> dict[str, Callable[[TrainingBatch, Ways], Tensor]]:
        """name → (batch, its three ways) → map (B, rows, cols) in [0, 1], before sharpening."""
        makers: dict[str, Callable[[TrainingBatch, Ways], Tensor]] = {
            "scorer": lambda batch, ways: ways.participatory,
            "propositional": lambda batch, ways: normalise(ways.propositional),
            "perspectival": lambda batch, ways: normalise(ways.perspectival),
            "fixed weights": lambda batch, ways: balance(*ways.maps),
        }
        if "tension" in self.parts:
            makers["tension"] = lambda batch, ways: self.parts["tension"](*ways.maps)
        if "adaptive" in self.parts:
            makers["adaptive"] = lambda batch, ways: self.parts["adaptive"](*ways.maps, ways.query)
        for name in SCORERS:
            if name in self.parts:
                makers[name] = lambda batch, ways, part=self.parts[name]: part.score(batch.pictures, batch.question_ids)
        return makers

    @torch.no_grad()
    def maps(self, batch: TrainingBatch, ways: Ways | None = None) -> dict[str, Tensor]:
        """Every rival's map, sharpened by its own power (1 where none was chosen)."""
        ways = three_ways(batch, self.scorer) if ways is None else ways
        made = {name: make(batch, ways).float() for name, make in self.makers().items()}
        return {name: one.clamp(0, 1) ** self.powers.get(name, 1.0) for name, one in made.items()}

    def choose_powers(self, batch: TrainingBatch, tree: Tree, budget: int) -> dict[str, float]:
        """The power with which each rival's tree shows most of what the question needs; ties to the smaller."""
        truth = target_cells(batch, tree.rows, tree.cols)
        self.powers = {}
        chosen: dict[str, float] = {}
        for name, one in self.maps(batch).items():
            found = [float(recall(quadtree(one**power, tree, budget).cells, truth).mean()) for power in POWERS]
            chosen[name] = POWERS[max(range(len(POWERS)), key=lambda place: (round(found[place], 4), -place))]
        self.powers = chosen
        return chosen


def fine_cells(leaves: Tensor, rows: int, cols: int) -> Tensor:
    """Leaves (B, N, 3) → (B, rows, cols) float: 1 where a cell is seen at level 0."""
    place = (leaves[..., 0] * cols + leaves[..., 1]).clamp_min(0)
    fine = ((leaves[..., 2] == 0) & (leaves[..., 0] >= 0)).float()
    return torch.zeros(len(leaves), rows * cols, device=leaves.device).scatter_add_(1, place, fine).view(-1, rows, cols)


def recall(leaves: Tensor, truth: Tensor) -> Tensor:
    """Leaves (B, N, 3) and the cells that matter (B, rows, cols) → (B,): the share of them seen at level 0."""
    seen = fine_cells(leaves, truth.shape[1], truth.shape[2]) * truth
    return seen.sum((1, 2)) / truth.sum((1, 2)).clamp_min(1)
