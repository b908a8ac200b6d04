"""The systems that the hypotheses compare: from pictures and questions to relevance maps, all by one interface.

A rival makes a map (B, rows, cols) of pictures and questions; every map, or its odds, is raised to a power of its own,
chosen on validation pictures, and allocated by the same quadtree at the same budget. A tree splits by mass, so that a
map needs the right sharpness to be used well, and no rival should lose for want of it: one that is nearly 1 over half
of the picture, as high stakes teach it, is flat by mass, while its odds still tell what matters most.

The three ways on Needle World: propositional and perspectival are the plain functions of `knowing`; participatory, what
the question couples to, is the shipped scorer, the one part here that has learned to read both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from arr_coc.attending.quadtree import quadtree
from arr_coc.attending.tree import Tree
from arr_coc.balancing.tension import SHARPNESS, balance, normalise
from arr_coc.core.alphabet import QUESTION, lower_case
from arr_coc.core.errors import InputError
from arr_coc.core.pretrained import Pretrained
from arr_coc.core.values import JsonObject
from arr_coc.knowing.look.three_ways import perspectival, propositional
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
from arr_coc.texture.batch import sense
from arr_coc.texture.texture import Layout

from .. import LAB_WEIGHTS
from ..classic.balancers import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from ..classic.scorer import Scorer
from ..train.allocations import target_cells
from ..train.evaluate import FAMILIES, recall
from ..train.outcomes import share_loss
from ..train.pictures import TrainingBatch, family_batches

WAYS_LAYOUT = Layout.of("ways", ("red", "green", "blue", "eccentricity", "saliency", "text_regions"))
POWERS = (1.0, 2.0, 4.0, 8.0)
ODDS_POWERS = (0.5, 1.0, 2.0)
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
TRAINED = LAB_WEIGHTS / "hypotheses"


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


def question_vector(scorer: Scorer | ReadingScorer, ids: Tensor) -> Tensor:
    """(B, L) characters → (B, Q): the question as one vector, as this scorer reads it."""
    if not isinstance(scorer, ReadingScorer):
        return scorer.question(ids)[1].float()
    ids = lower_case(ids[:, :QUESTION])
    return scorer.question(ids, torch.where(ids > 0, 0.0, -1e4)[:, None, None, :])[1].float()


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
    query = question_vector(scorer, batch.question_ids)
    return Ways(first.float(), second.float(), scorer.score(batch.pictures, batch.question_ids), query)


@dataclass
class Rivals:
    """scorer: the shipped one. parts: what was trained for the hypotheses, by name. powers: sharpness by rival; odds:
    of whom it is the odds that are raised to it. training: `outcome_story` of the run that made them."""

    scorer: Scorer
    parts: dict[str, Any] = field(default_factory=dict)
    powers: dict[str, float] = field(default_factory=dict)
    odds: frozenset[str] = frozenset()
    training: dict[str, object] = field(default_factory=dict)

    @classmethod
    def load(cls, scorer: Scorer, folder: Path | None = TRAINED, device: torch.device | str = "cpu") -> Rivals:
        """Everything found in a folder of `train_hypotheses`; a missing folder leaves what needs no training."""
        found: dict[str, object] = {}
        powers: dict[str, float] = {}
        odds: frozenset[str] = frozenset()
        training: dict[str, object] = {}
        if folder is not None and os.path.isfile(folder / RECORD):
            try:
                record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
                powers = {name: float(power) for name, power in record["powers"].items()}
                odds = frozenset(record.get("odds", ()))
                training = outcome_story(record)
            except (ValueError, KeyError, AttributeError) as error:
                raise InputError(f"{folder / RECORD} is not a record of train_hypotheses ({error!r})") from error
            there = [name for name in KINDS if os.path.isfile(folder / name / "config.json")]
            found = {name: KINDS[name].from_pretrained(folder / name).to(device) for name in there}
        return cls(scorer.to(device).eval(), found, powers, odds, training)

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
        # Tensions by the question are of the scorer whose vectors they were trained on.
        width = self.scorer.config.query_width
        if "adaptive" in self.parts and self.parts["adaptive"].config.query_width == width:
            makers["adaptive"] = lambda batch, ways: self.parts["adaptive"](*ways.maps, ways.query)
        for name in SCORERS:
            if name in self.parts:
                makers[name] = lambda batch, ways, part=self.parts[name]: finely(part, batch)
        return makers

    @torch.no_grad()
    def maps(self, batch: TrainingBatch, ways: Ways | None = None) -> dict[str, Tensor]:
        """Every rival's map, sharpened by its own power (1 where none was chosen)."""
        ways = three_ways(batch, self.scorer) if ways is None else ways
        made = {name: make(batch, ways) for name, make in self.makers().items()}
        return {name: sharpened(one, self.powers.get(name, 1.0), name in self.odds) for name, one in made.items()}

    @torch.no_grad()
    def choose_powers(self, batch: TrainingBatch, tree: Tree, budget: int) -> dict[str, float]:
        """`best_power` of each rival's tree."""
        truth = target_cells(batch, tree.rows, tree.cols)
        ways = three_ways(batch, self.scorer)
        best = {
            name: best_power(make(batch, ways), truth, lambda one: quadtree(one, tree, budget).cells)
            for name, make in self.makers().items()
        }
        self.powers = {name: power for name, (power, _) in best.items()}
        self.odds = frozenset(name for name, (_, by_odds) in best.items() if by_odds)
        return self.powers


def outcome_story(record: JsonObject) -> dict[str, object]:
    """How the training from outcomes went, of the record of `train_hypotheses`: where it started and what random trees
    reach on the same pictures, where it ended, what the monitors say of its last half. Empty where there is none."""
    phase = record.get("phases", {}).get("outcomes", {})
    probes = [point for point in phase.get("curve", ()) if "probe right" in point]
    if not probes or "monitors" not in phase:
        return {}
    return {
        "pictures": probes[0]["probe number"],
        "keep": probes[0]["probe keep"],
        "random": probes[0].get("probe random"),
        "start": probes[0]["probe right"],
        "end": probes[-1]["probe right"],
        "observations": len(phase["monitors"]["points"]),
        "bands": {name: phase["monitors"][name] for name in ("share_band", "entropy_band")},
        "alarms": phase["monitors"]["alarms"],
    }


def finely(scorer: Scorer, batch: TrainingBatch) -> Tensor:
    """(B, rows, cols) relevance in double precision: in single, everything above a logit of 17 is exactly 1."""
    return scorer(batch.pictures, batch.question_ids).double().sigmoid()


def sharpened(one: Tensor, power: float, by_odds: bool = False) -> Tensor:
    """A map (B, rows, cols) in [0, 1], or its odds as shares of the picture's greatest, raised to a power; float32."""
    one = one.double().clamp(0, 1)
    if by_odds:
        one = one / (1 - one).clamp_min(1e-15)
        one = one / one.amax((1, 2), keepdim=True).clamp_min(1e-15)
    return (one**power).float()


def best_power(maps: Tensor, truth: Tensor, leaves: Callable[[Tensor], Tensor]) -> tuple[float, bool]:
    """The power, of the map (False) or of its odds (True), with which its leaves show most of what the questions need;
    ties to the map and to the smaller."""
    ladder = [*((power, False) for power in POWERS), *((power, True) for power in ODDS_POWERS)]
    found = [float(recall(leaves(sharpened(maps, *step)), truth).mean()) for step in ladder]
    return ladder[max(range(len(ladder)), key=lambda place: (round(found[place], 4), -place))]


@dataclass(frozen=True)
class BalancerPlan:
    """What tensions are learned from: `each` training pictures of every family, for so many steps."""

    size: tuple[int, int] = (512, 512)
    seed: int = 21
    device: str = "cpu"
    families: tuple[str, ...] = FAMILIES
    each: int = 24
    steps: int = 300


def fit_balancers(rivals: Rivals, plan: BalancerPlan, folder: Path | None = None) -> None:
    """Learn the tensions, fixed and by question and place, over the three ways with the shipped scorer frozen, on
    training pictures; those of the package belong to an earlier scorer. folder: where they are kept from run to run."""
    kinds = {"tension": TensionBalancer, "adaptive": AdaptiveTensionBalancer}
    if folder is not None and all((folder / name / "config.json").is_file() for name in kinds):
        loaded = {name: kind.from_pretrained(folder / name) for name, kind in kinds.items()}
        rivals.parts |= {name: part.float().to(plan.device) for name, part in loaded.items()}
        return
    parts: list[tuple[Tensor, ...]] = []
    for _, batch in family_batches(
        plan.each, plan.size, plan.seed, "train", device=plan.device, families=plan.families
    ):
        ways = three_ways(batch, rivals.scorer)
        parts.append((*ways.maps, ways.query, target_cells(batch, *ways.participatory.shape[1:])))
    first, second, third, query, truth = (torch.cat(one) for one in zip(*parts, strict=True))
    shares = truth / truth.sum((1, 2), keepdim=True).clamp_min(1)
    with torch.enable_grad(), torch.random.fork_rng():
        torch.manual_seed(plan.seed)
        made = {
            "tension": TensionBalancer(),
            "adaptive": AdaptiveTensionBalancer(AdaptiveConfig(query_width=query.shape[1])),
        }
        made = {name: module.to(plan.device) for name, module in made.items()}
        for name, module in made.items():
            optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
            for _ in range(plan.steps):
                found = module(first, second, third) if name == "tension" else module(first, second, third, query)
                loss = share_loss(SHARPNESS * found.clamp_min(1e-3).log(), shares)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            rivals.parts[name] = module.eval()
            if folder is not None:
                module.save_pretrained(folder / name)
