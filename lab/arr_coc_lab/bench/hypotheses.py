"""`bench hypotheses`: test each claim of the design against a rival.

Every rival is a relevance map, allocated by the same overlay at equal tokens and read by `mini` on the same pictures of
Needle World's test split. The 95 % interval of the difference, paired picture by picture, gives the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.overlay import overlay
from arr_coc.balancing.choosing import relevance_for
from arr_coc.core.values import Relevance
from arr_coc.looking import prepare

from ..statistics import mean, paired
from ..train.allocations import seen_share, target_cells, tree_of
from ..train.evaluate import FAMILIES
from ..train.reader import read
from ..worlds.needle.batch import NeedleBatch
from .needle import NeedleWork, RememberedScores, Weights, batch_jobs, device_facts, weights_name
from .report import Quantity, Report, Score, Table, cells_of, share_name
from .rows import BenchRow
from .run import Plan
from .suite import HypothesesBenchOptions

SIZE, QUICK = (512, 512), 6
AT_ONCE = {"cpu": 6, "cuda": 75}
KEEPS = (1 / 4, 1 / 8, 1 / 16)
MOST_CELLS = (100 / 1024, 200 / 1024, 400 / 1024)
ENOUGH_RECALL = 0.9
OTHERS = "scorer, another's question"
WAYS = ("propositional", "perspectival", "participatory")
MAPPED = ("scorer", OTHERS, "look", "adaptive", *WAYS)  # systems with a map of their own
LAID_OUT = ("full", "uniform", "random", "shuffled", "scorer")


class Claim(NamedTuple):
    """A claim: the score of the system is above the other's, by more than the margin."""

    name: str
    words: str
    system: str
    other: str
    keeps: tuple[float, ...] = KEEPS[:1]
    margin: float = 0.0


CLAIMS = (
    Claim("H1", "query-aware beats uniform", "scorer", "uniform", KEEPS),
    Claim("H1", "query-aware beats random", "scorer", "random"),
    Claim("H1", "a shuffled map loses by more than two points", "scorer", "shuffled", margin=0.02),
    Claim("H2", "three ways beat each alone", "look", "propositional"),
    Claim("H2", "three ways beat each alone", "look", "perspectival"),
    Claim("H2", "three ways beat each alone", "look", "participatory"),
    Claim("H2", "three ways beat the learned scorer", "look", "scorer"),
    Claim("H3", "adaptive tensions beat fixed weights", "adaptive", "look"),
    Claim("H6", "variable sizes beat the finest cells only", "scorer", "top_k"),
    Claim("H6", "variable sizes beat one size everywhere", "scorer", "uniform"),
    Claim("questions", "its own question beats another's", "scorer", OTHERS, KEEPS),
)


def cells() -> list[tuple[str, float]]:
    """List every system of a claim with the shares at which it is compared."""
    found: dict[tuple[str, float], None] = {("full", 1.0): None}
    for claim in CLAIMS:
        found |= dict.fromkeys((name, keep) for keep in claim.keeps for name in (claim.system, claim.other))
    return [*found, *(("top_k", keep) for keep in MOST_CELLS)]


def plan(options: HypothesesBenchOptions) -> Plan:
    number, at_once = QUICK if options.quick else options.n, AT_ONCE["cpu" if options.device == "cpu" else "cuda"]
    name = weights_name(options.weights)
    facts = {
        **device_facts(options.device),
        "weights": name,
        "pictures": f"{SIZE[0]}×{SIZE[1]}, split test, seed {options.seed}, read by mini, laid out by overlays",
        "verdicts": "by the 95 % interval of the difference, paired picture by picture (H4: of the recall itself)",
    }
    work = HypothesesWork(SIZE, options.seed, options.device, options.weights)
    settings = {"weights": name, "seed": options.seed, "at_once": at_once}
    jobs = batch_jobs(FAMILIES, number, at_once, cells())
    return Plan(jobs, work, lambda rows: report_of(rows, facts), settings)


class HypothesesWork(NeedleWork):
    """Read one batch with every rival."""

    suite = "hypotheses"

    def maps(self, batch: NeedleBatch, weights: Weights) -> RivalMaps:
        return RivalMaps(batch, RememberedScores(weights.scorer))

    def leaves(self, cell: tuple[str, float], batch: NeedleBatch, maps: RivalMaps, chance: torch.Generator) -> Tensor:
        if cell[0] in LAID_OUT:
            return super().leaves(cell, batch, maps.scorer, chance)
        budget = max(1, round(cell[1] * tree_of(self.size).full))
        if cell[0] == "top_k":
            return top_cells(maps["scorer"], budget)
        return overlay(maps[cell[0]], [budget] * len(batch)).cells

    def judged(
        self, cell: tuple[str, float], batch: NeedleBatch, leaves: Tensor, maps: RivalMaps, weights: Weights
    ) -> tuple[dict[str, list[float]], dict[str, list[list[float]]]]:
        tree = tree_of(self.size)
        truth = target_cells(batch, tree.rows, tree.cols)
        scores = {"recall": seen_share(leaves, truth).tolist()}
        if cell[0] in MAPPED:
            scores["overlap"] = lit_overlap(maps[cell[0]], truth).tolist()
        if cell[1] in MOST_CELLS:
            return scores, {}
        found = read(weights.mini, batch, leaves)
        return scores | {"right": found.right.float().tolist(), "characters": found.characters.tolist()}, {}


class RivalMaps:
    """Make the maps (B, rows, cols) of every rival on one batch, each once."""

    def __init__(self, batch: NeedleBatch, scorer: RememberedScores) -> None:
        self.batch, self.scorer = batch, scorer
        self._made: dict[str, Tensor] = {}
        self._looked: dict[str, list[Relevance]] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Tensor:
        pictures, ids = self.batch.pictures, self.batch.question_ids
        if name == "scorer":
            return self.scorer.score(pictures, ids).float()
        if name == OTHERS:
            return self.scorer.scorer.score(pictures, ids.roll(1, 0)).float()
        looked = [getattr(one, name) if name in WAYS else one.map for one in self.looked(name)]
        rows, cols = pictures.shape[2] // 32, pictures.shape[3] // 32
        shrunk = [F.adaptive_avg_pool2d(torch.from_numpy(np.array(one))[None], (rows, cols)) for one in looked]
        return torch.cat(shrunk).to(pictures.device)

    def looked(self, name: str) -> list[Relevance]:
        source = "look" if name in WAYS else name
        if source not in self._looked:
            pictures = self.batch.pictures.permute(0, 2, 3, 1).cpu().numpy()
            asked = zip(pictures, self.batch.questions, strict=True)
            self._looked[source] = [relevance_for(source, prepare(one).scene, query) for one, query in asked]
        return self._looked[source]


def lit_overlap(maps: Tensor, truth: Tensor) -> Tensor:
    """Return (B,) intersection over union of the relevant cells and those of relevance (B, rows, cols) with at least
    half the highest value."""
    lit = maps >= 0.5 * maps.amax((1, 2), keepdim=True)
    return (lit & (truth > 0)).sum((1, 2)) / (lit | (truth > 0)).sum((1, 2)).clamp_min(1)


def top_cells(scores: Tensor, number: int) -> Tensor:
    """Return the best cells of (B, rows, cols) at level 0, (B, number, 3), in raster order; the rest gets no token."""
    cols = scores.shape[2]
    best = scores.flatten(1).argsort(dim=1, descending=True, stable=True)[:, :number].sort(dim=1).values
    return torch.stack([best // cols, best % cols, torch.zeros_like(best)], dim=-1)


# ---- verdicts --------------------------------------------------------------------------------------------------------


def report_of(rows: Sequence[BenchRow], facts: Mapping[str, str]) -> Report:
    kinds = [
        Score("right", "Exact match"),
        Score("characters", "Characters"),
        Score("overlap", "Overlap with the boxes"),
    ]
    return Report(rows, cells_of(rows, kinds), [verdict_table(rows)], facts)


def verdict_table(rows: Sequence[BenchRow]) -> Table:
    """Return a line for each claim that the rows can decide."""
    values: dict[tuple[str, str, float], dict[str, float]] = {}
    for row in rows:
        for score, value in row.scores.items():
            values.setdefault((score, row.system, row.keep), {})[row.question] = value
    lines = []
    for claim in CLAIMS:
        for keep in claim.keeps:
            first, second = (values.get(("right", name, keep)) for name in (claim.system, claim.other))
            if first is None or second is None:
                continue
            own, rival = (np.array([found[name] for name in first]) for found in (first, second))
            apart = paired(own, rival)
            lines.append(
                {
                    "id": claim.name,
                    "claim": f"{claim.words}: {claim.system} > {claim.other}",
                    "keep": share_name(keep),
                    "own": f"{100 * own.mean():.1f}",
                    "rival": f"{100 * rival.mean():.1f}",
                    "difference": Quantity.percent(apart),
                    "n": len(own),
                    "verdict": apart.above(claim.margin),
                }
            )
    for keep in MOST_CELLS:
        if found := values.get(("recall", "top_k", keep)):
            share = mean(np.array([*found.values()]))
            words = f"the best {round(1024 * keep)} of 1024 cells show {100 * ENOUGH_RECALL:g} % of what is needed"
            own = {"own": f"{100 * share.value:.1f}", "difference": Quantity.percent(share)}
            verdict = {"n": len(found), "verdict": share.above(ENOUGH_RECALL)}
            lines.append({"id": "H4", "claim": words, "keep": share_name(keep), **own, **verdict})
    columns = {"id": "", "claim": "claim", "keep": "tokens", "own": "%", "rival": "rival's %"}
    columns |= {"difference": "difference", "n": "n", "verdict": "verdict"}
    return Table("Hypotheses", columns, lines)
