"""Every number behind the hypotheses, picture by picture, so that differences can be paired; written as JSON.

`bench.hypotheses` makes the table and the verdicts of it. All rivals of one budget are read in one call on the same
pictures: the test split, whose seeds and typefaces no training saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..attending.controls import permute_along_tree
from ..attending.quadtree import quadtree
from ..attending.tree import Tree
from ..backbones.qwen3_vl_attention import dense_vision_attention
from ..needle.renderer import render
from .allocations import Kind, box_cover, make_leaves, target_cells, tree_of
from .asymmetric import THRESHOLD, expected_tokens
from .evaluate import FAMILIES
from .judging import judge
from .pictures import TrainingBatch, render_family
from .rivals import Rivals, fine_cells, recall, three_ways

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SCHEMA = 1
KEEPS = (1 / 4, 1 / 8, 1 / 16)
MOST_CELLS = (100, 200, 400)
QUESTIONS = 3
Advance = Callable[[str], None]


@dataclass(frozen=True)
class Measuring:
    """number: pictures over all families together. also: the same for the best K cells and for the three questions, as
    many as are read where None. size: of the read pictures; large: of those for the best K cells. at_once: pictures of
    the read size in memory together."""

    number: int = 2100
    also: int | None = None
    families: tuple[str, ...] = FAMILIES
    size: tuple[int, int] = (512, 512)
    large: tuple[int, int] = (1024, 1024)
    seed: int = 11
    split: str = "test"
    at_once: int = 256

    @property
    def each(self) -> int:
        return max(1, -(-self.number // len(self.families)))

    @property
    def each_also(self) -> int:
        return self.each if self.also is None else max(1, -(-self.also // len(self.families)))

    def batches(self, family: str, number: int, size: tuple[int, int], device: torch.device) -> Iterator[TrainingBatch]:
        at_once = max(1, self.at_once * self.size[0] * self.size[1] // (size[0] * size[1]))
        for start in range(0, number, at_once):
            count = min(at_once, number - start)
            yield render_family(family, count, size, self.seed, start, device, None, self.split)


@dataclass
class Cell:
    """One system at one budget: tokens, and for every picture whether the answer was right and what was seen."""

    tokens: int
    right: list[bool] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        found = {"tokens": self.tokens, "recall": [round(value, 3) for value in self.recall]}
        return found | ({"right": "".join("01"[value] for value in self.right)} if self.right else {})


def steps_of(plan: Measuring) -> list[str]:
    """What `measure` will announce, in order."""
    return [f"{part} {family}" for family in plan.families for part in ("reading", "best cells of", "questions about")]


@torch.no_grad()
def measure(model: PreTrainedModel, rivals: Rivals, plan: Measuring, advance: Advance = lambda step: None) -> Any:
    """The document: cells by `system@keep`, families in the order of the pictures, best cells, questions, stakes."""
    device = next(model.parameters()).device
    cells: dict[str, Cell] = {}
    best: dict[str, list[float]] = {}
    stakes: dict[str, dict[str, list[float]]] = {}
    asked: list[dict[str, Any]] = []
    generator = torch.Generator().manual_seed(plan.seed)
    with dense_vision_attention(model):
        for family in plan.families:
            advance(f"reading {family}")
            for batch in plan.batches(family, plan.each, plan.size, device):
                _read_all(model, rivals, batch, cells, stakes, generator)
            advance(f"best cells of {family}")
            for batch in plan.batches(family, plan.each_also, plan.large, device):
                _best_cells(rivals, batch, best, generator)
            advance(f"questions about {family}")
            asked += _three_questions(rivals, family, plan, device)
    return {
        "schema": SCHEMA,
        "families": list(plan.families),
        "each": plan.each,
        "n": plan.each * len(plan.families),
        "size": list(plan.size),
        "large": list(plan.large),
        "full": tree_of(plan.size).full,
        "seed": plan.seed,
        "split": plan.split,
        "powers": rivals.powers,
        "cells": {name: cell.to_json() for name, cell in cells.items()},
        "best_cells": {name: [round(value, 3) for value in values] for name, values in best.items()},
        "questions": asked,
        "stakes": {name: {key: _rounded(values) for key, values in part.items()} for name, part in stakes.items()},
    }


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 3) for value in values]


def _read_all(
    model: PreTrainedModel,
    rivals: Rivals,
    batch: TrainingBatch,
    cells: dict[str, Cell],
    stakes: dict[str, dict[str, list[float]]],
    generator: torch.Generator,
) -> None:
    """Read one batch by every system at every budget, and what the two stakes decide by themselves."""
    tree = tree_of((batch.pictures.shape[2], batch.pictures.shape[3]))
    truth = target_cells(batch, tree.rows, tree.cols)
    maps = rivals.maps(batch, three_ways(batch, rivals.scorer))
    local = torch.Generator(device=batch.pictures.device).manual_seed(
        int(torch.randint(2**31, (1,), generator=generator))
    )
    full = make_leaves(Kind("full", 1, 1), batch, tree, local, None)
    _judge(model, batch, {"full": full}, 1.0, truth, cells)
    for keep in KEEPS:
        budget = max(tree.floor, round(keep * tree.full))
        leaves = {name: make_leaves(Kind(name, keep, 1), batch, tree, local, None) for name in ("uniform", "random")}
        permuted = permute_along_tree(maps["scorer"], tree, generator)
        leaves["shuffled"] = quadtree(permuted, tree, budget).cells
        # The other rivals are compared at the first budget; what does not get fewer tokens there says nothing here.
        wanted = maps if keep == KEEPS[0] else {name: maps[name] for name in ("scorer", "outcomes") if name in maps}
        leaves |= {name: quadtree(one, tree, budget).cells for name, one in wanted.items()}
        if keep == KEEPS[0]:
            leaves["top_k"] = top_cells(maps["scorer"], leaves["uniform"].shape[1])
        _judge(model, batch, leaves, keep, truth, cells)
    for name in ("medical", "casual"):
        if name in rivals.parts:
            tokens = expected_tokens(rivals.parts[name](batch.pictures, batch.question_ids).float())
            many, part = (tokens > THRESHOLD).float(), stakes.setdefault(name, {"recall": [], "waste": []})
            part["recall"] += ((many * truth).sum((1, 2)) / truth.sum((1, 2)).clamp_min(1)).tolist()
            part["waste"] += ((many * (1 - truth)).sum((1, 2)) / (1 - truth).sum((1, 2)).clamp_min(1)).tolist()


def _judge(
    model: PreTrainedModel,
    batch: TrainingBatch,
    leaves: dict[str, Tensor],
    keep: float,
    truth: Tensor,
    cells: dict[str, Cell],
) -> None:
    right = judge(model, batch, torch.stack(list(leaves.values()), dim=1)).right
    for place, (name, one) in enumerate(leaves.items()):
        cell = cells.setdefault(f"{name}@{keep:.4g}", Cell(one.shape[1]))
        cell.right += right[:, place].tolist()
        cell.recall += recall(one, truth).tolist()


def top_cells(scores: Tensor, number: int) -> Tensor:
    """(B, rows, cols) → (B, number, 3): the best cells at level 0, in raster order; the rest is not seen at all."""
    cols = scores.shape[2]
    best = scores.flatten(1).argsort(dim=1, descending=True, stable=True)[:, :number].sort(dim=1).values
    return torch.stack([best // cols, best % cols, torch.zeros_like(best)], dim=-1)


def _best_cells(rivals: Rivals, batch: TrainingBatch, best: dict[str, list[float]], generator: torch.Generator) -> None:
    """H4: how much of what the question needs is among the K best cells; and among K random ones."""
    scores = rivals.scorer.score(batch.pictures, batch.question_ids)
    truth = target_cells(batch, scores.shape[1], scores.shape[2])
    blind = torch.rand(scores.shape, generator=generator).to(scores.device)
    for number in MOST_CELLS:
        count = min(number, scores[0].numel())
        for name, one in (("scorer", scores), ("random", blind)):
            best.setdefault(f"{name}@{number}", []).extend(recall(top_cells(one, count), truth).tolist())


def _three_questions(rivals: Rivals, family: str, plan: Measuring, device: torch.device) -> list[dict[str, Any]]:
    """Three questions about each picture: what each allocation shows of its own target, and of the others'."""
    tree = tree_of(plan.size)
    found: list[dict[str, Any]] = []
    for start in range(0, plan.each_also, plan.at_once):
        count = min(plan.at_once, plan.each_also - start)
        asked = [
            render(family, count, plan.size, plan.seed, plan.split, None, device, start, question)
            for question in range(QUESTIONS)
        ]
        targets = torch.stack(
            [(box_cover(one.boxes, one.box_mask, tree.rows, tree.cols) > 0.02).float() for one in asked]
        )
        scores = [rivals.scorer.score(one.pictures, one.question_ids) for one in asked]
        for keep in KEEPS:
            budget = max(tree.floor, round(keep * tree.full))
            found += _overlaps(scores, targets, tree, budget, family, keep)
    return found


def _overlaps(
    scores: list[Tensor], targets: Tensor, tree: Tree, budget: int, family: str, keep: float
) -> list[dict[str, Any]]:
    """One entry for each picture: the mean overlap with its own targets and with others', over pairs of questions whose
    targets share no cell; a picture without such a pair does not count."""
    leaves = [quadtree(one, tree, budget).cells for one in scores]
    fine = torch.stack([fine_cells(one, tree.rows, tree.cols) for one in leaves])
    size = targets.sum((2, 3)).clamp_min(1)
    # (allocation, target, picture)
    overlap = torch.einsum("aphw,tphw->atp", fine, targets) / size
    apart = torch.einsum("aphw,tphw->atp", targets, targets) == 0
    apart &= (targets.sum((2, 3)) > 0)[None] & (targets.sum((2, 3)) > 0)[:, None]
    own = torch.diagonal(overlap, dim1=0, dim2=1).T[:, None].expand_as(overlap)
    pairs = apart.sum((0, 1))
    own_mean = (own * apart).sum((0, 1)) / pairs.clamp_min(1)
    other_mean = (overlap * apart).sum((0, 1)) / pairs.clamp_min(1)
    return [
        {
            "family": family,
            "keep": keep,
            "tokens": leaves[0].shape[1],
            "own": round(mine, 3),
            "others": round(theirs, 3),
        }
        for mine, theirs, count in zip(own_mean.tolist(), other_mean.tolist(), pairs.tolist(), strict=True)
        if count
    ]
