"""Every number behind the hypotheses, picture by picture, so that differences can be paired; written as JSON.

`bench.hypotheses` makes the table and the verdicts of it. All rivals of one budget are read in one call on the same
pictures: the test split, whose seeds and typefaces no training saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from arr_coc.attending.controls import permute_along_tree
from arr_coc.attending.quadtree import quadtree
from arr_coc.attending.tree import Tree
from arr_coc.core.values import JsonObject
from arr_coc.realizing.qwen3_vl.encode import dense_vision_attention

from ..classic.learning import THRESHOLD, expected_tokens
from ..train.allocations import Kind, box_cover, fine_cells, make_leaves, target_cells, tree_of
from ..train.evaluate import FAMILIES, recall
from ..train.outcomes import judge
from ..train.pictures import TrainingBatch, render_family
from ..worlds.needle.difficulty import as_difficulty
from ..worlds.needle.draws import Draws
from ..worlds.needle.renderer import Asked, asked_of, lay_out, plan_of, render
from .rivals import Rivals, three_ways

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
    the read size in memory together, and of each family in a round; large_at_once: of the large ones, as many pixels
    where None. seconds: no further round begins that would probably not end in time; the first always does."""

    number: int = 2100
    also: int | None = None
    families: tuple[str, ...] = FAMILIES
    size: tuple[int, int] = (512, 512)
    large: tuple[int, int] = (1024, 1024)
    seed: int = 11
    split: str = "test"
    at_once: int = 75
    large_at_once: int | None = None
    seconds: float | None = None

    @property
    def each(self) -> int:
        return max(1, -(-self.number // len(self.families)))

    @property
    def each_also(self) -> int:
        return self.each if self.also is None else max(1, -(-self.also // len(self.families)))

    @property
    def rounds(self) -> int:
        """Every round takes the next pictures of every family, so that whatever is done is balanced over them."""
        return -(-max(self.each, self.each_also) // self.at_once)

    def span(self, turn: int, number: int) -> range:
        """Which of a family's `number` pictures a round takes; none where they are used up."""
        return range(min(number, turn * self.at_once), min(number, (turn + 1) * self.at_once))

    def large_batches(self, family: str, span: range, device: torch.device) -> Iterator[TrainingBatch]:
        fitting = self.at_once * self.size[0] * self.size[1] // (self.large[0] * self.large[1])
        step = max(1, self.large_at_once or fitting)
        for start in span[::step]:
            count = min(step, span.stop - start)
            yield render_family(family, count, self.large, self.seed, start, device, None, self.split)


@dataclass
class Cell:
    """One system at one budget: tokens, and for every picture whether the answer was right and what was seen."""

    tokens: int
    right: list[bool] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)

    def to_json(self) -> JsonObject:
        found = {"tokens": self.tokens, "recall": _rounded(self.recall)}
        return found | ({"right": "".join("01"[value] for value in self.right)} if self.right else {})


@dataclass
class Findings:
    """What one round found about one family's pictures."""

    cells: dict[str, Cell] = field(default_factory=dict)
    best: dict[str, list[float]] = field(default_factory=dict)
    stakes: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    asked: list[dict[str, object]] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        stakes = {name: {key: _rounded(values) for key, values in part.items()} for name, part in self.stakes.items()}
        return {
            "cells": {name: cell.to_json() for name, cell in self.cells.items()},
            "best_cells": {name: _rounded(values) for name, values in self.best.items()},
            "questions": self.asked,
            "stakes": stakes,
        }


Round = dict[str, dict[str, object]]
PARTS = ("reading", "best cells of", "questions about")


def step_name(plan: Measuring, turn: int, part: str, family: str) -> str:
    return f"{part} {family}" + (f", round {turn + 1} of {plan.rounds}" if plan.rounds > 1 else "")


def steps_of(plan: Measuring) -> list[str]:
    """What `measure` will announce, in order."""
    turns = range(plan.rounds)
    return [step_name(plan, turn, part, family) for turn in turns for family in plan.families for part in PARTS]


@torch.no_grad()
def measure(
    model: PreTrainedModel,
    rivals: Rivals,
    plan: Measuring,
    advance: Advance = lambda step: None,
    keep: Callable[[list[Round]], None] = lambda rounds: None,
    done: Sequence[Round] = (),
) -> dict[str, object]:
    """The document of all rounds, those already `done` among them. keep: called with all rounds after each of them, so
    that what was measured outlives whatever ends the run."""
    device = next(model.parameters()).device
    rounds = list(done)
    began, longest = perf_counter(), 0.0
    with dense_vision_attention(model):
        for turn in range(len(rounds), plan.rounds):
            started = perf_counter()
            if rounds and plan.seconds is not None and started - began + longest > plan.seconds:
                break
            rounds.append(_one_round(model, rivals, plan, turn, device, advance))
            longest = max(longest, perf_counter() - started)
            keep(rounds)
    return document_of(plan, rivals, rounds)


def _one_round(
    model: PreTrainedModel, rivals: Rivals, plan: Measuring, turn: int, device: torch.device, advance: Advance
) -> Round:
    result: Round = {}
    for place, family in enumerate(plan.families):
        found = Findings()
        # Chance of its own for every round and family: a run that goes on later draws the same.
        generator = torch.Generator().manual_seed(plan.seed + 1009 * (turn * len(plan.families) + place))
        advance(step_name(plan, turn, PARTS[0], family))
        span = plan.span(turn, plan.each)
        if span:
            batch = render_family(family, len(span), plan.size, plan.seed, span.start, device, None, plan.split)
            _read_all(model, rivals, batch, found, generator)
        advance(step_name(plan, turn, PARTS[1], family))
        also = plan.span(turn, plan.each_also)
        for batch in plan.large_batches(family, also, device):
            _best_cells(rivals, batch, found.best, generator)
        advance(step_name(plan, turn, PARTS[2], family))
        if also:
            found.asked = _three_questions(rivals, family, plan, also, device)
        result[family] = found.to_json()
    return result


def document_of(plan: Measuring, rivals: Rivals, rounds: Sequence[Round]) -> dict[str, object]:
    """The document: cells by `system@keep` with the pictures of one family after the other, best cells, questions,
    stakes. `each`: pictures of each family that were read; `wanted`: that should have been."""
    joined: dict[str, object] = {}
    for family in plan.families:
        for one in rounds:
            joined = _appended(joined, one[family])
    each = len(plan.span(0, plan.each)) + sum(len(plan.span(turn, plan.each)) for turn in range(1, len(rounds)))
    return {
        "schema": SCHEMA,
        "families": list(plan.families),
        "each": each,
        "wanted": plan.each,
        "n": each * len(plan.families),
        "size": list(plan.size),
        "large": list(plan.large),
        "full": tree_of(plan.size).full,
        "seed": plan.seed,
        "split": plan.split,
        "powers": rivals.powers,
        "odds": sorted(rivals.odds),
        "training": rivals.training,
        **joined,
    }


def _appended(first: Any, second: Any) -> Any:
    """Two pieces of JSON of one shape: lists and strings one after the other, numbers the same in both."""
    if isinstance(second, dict):
        old = first or {}
        return {**old, **{key: _appended(old.get(key), value) for key, value in second.items()}}
    if isinstance(second, list | str):
        return second if first is None else first + second
    assert first is None or first == second, f"{first} and {second} should be one number"
    return second


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 3) for value in values]


def _read_all(
    model: PreTrainedModel,
    rivals: Rivals,
    batch: TrainingBatch,
    found: Findings,
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
    _judge(model, batch, {"full": full}, 1.0, truth, found.cells)
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
        _judge(model, batch, leaves, keep, truth, found.cells)
    half = max(tree.floor, round(tree.full / 2))
    for name in ("medical", "casual"):
        if name in rivals.parts:
            leaves = quadtree(maps[name], tree, half).cells
            found.cells.setdefault(f"{name}@0.5", Cell(leaves.shape[1])).recall += recall(leaves, truth).tolist()
            tokens = expected_tokens(rivals.parts[name](batch.pictures, batch.question_ids).float())
            many, part = (tokens > THRESHOLD).float(), found.stakes.setdefault(name, {"recall": [], "waste": []})
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
    right = judge(model, batch, torch.stack(list(leaves.values()), dim=1)).right.T.tolist()
    # All systems' numbers come from the device in one go: each fetch waits for everything queued before it.
    seen = torch.stack([recall(one, truth) for one in leaves.values()]).tolist()
    for (name, one), answers, shares in zip(leaves.items(), right, seen, strict=True):
        cell = cells.setdefault(f"{name}@{keep:.4g}", Cell(one.shape[1]))
        cell.right += answers
        cell.recall += shares


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


def _three_questions(
    rivals: Rivals, family: str, plan: Measuring, span: range, device: torch.device
) -> list[dict[str, object]]:
    """Three questions about each picture: what each allocation shows of its own target, and of the others'."""
    tree = tree_of(plan.size)
    first = render(family, len(span), plan.size, plan.seed, plan.split, None, device, span.start)
    asked = [first, *_other_questions(family, plan, span, device)]
    targets = torch.stack([(box_cover(one.boxes, one.box_mask, tree.rows, tree.cols) > 0.02).float() for one in asked])
    scores = [rivals.scorer.score(first.pictures, one.question_ids) for one in asked]
    found: list[dict[str, object]] = []
    for keep in KEEPS:
        budget = max(tree.floor, round(keep * tree.full))
        found += _overlaps(scores, targets, tree, budget, family, keep)
    return found


def _other_questions(family: str, plan: Measuring, span: range, device: torch.device) -> list[Asked]:
    """Further questions about the pictures of `render`, which need not be painted again for them."""
    knobs = as_difficulty(None, plan.size)
    with torch.autocast(device.type, enabled=False):
        index = torch.arange(span.start, span.stop, device=device)
        layout = plan_of(family, plan.size, knobs, False)
        drawn = [
            Draws.of(plan.seed, plan.split, family, index, question=question, plan=layout)
            for question in range(1, QUESTIONS)
        ]
        return [asked_of(lay_out(family, one, plan.size, plan.split, knobs), plan.size) for one in drawn]


def _overlaps(
    scores: list[Tensor], targets: Tensor, tree: Tree, budget: int, family: str, keep: float
) -> list[dict[str, object]]:
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
