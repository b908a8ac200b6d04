"""How the benches lay out Needle World, whether what `mini` says is right, and one temperature for how sure it is.

The confidence is the one that `Answer.uncertainty` shows: the probability of the very text that was said, at that
temperature (`decoding.Generated`). The temperature is the one under which "right" or "wrong" is least surprising (log
loss, a proper score), fitted on validation seeds, so that a confidence of 80 % is right four times out of five; the
test split is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from arr_coc.answering.decoding import LONGEST_ANSWER, Generated, generate_greedily
from arr_coc.attending.controls import permute_along_tree
from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import Tree, gather_leaves, select_splits, split_gains
from arr_coc.core.values import JsonObject
from arr_coc.realizing.base import LeafPrompt
from arr_coc.realizing.query import pack, take
from arr_coc.realizing.qwen3_vl.encode import leaf_positions

from ..classic.walks import dense_vision_attention
from ..statistics import BINS, chance_error, expected_calibration_error
from ..worlds.needle import render
from ..worlds.needle.batch import NeedleBatch
from .allocations import LEVELS, Kind, budget_of, fine_cells, target_cells, tree_of
from .mini_model import IMAGE, TURN_END, build_prompt
from .reader import see

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .print_world import PrintWorld

FAMILIES = ("cards", "forms", "receipts", "scenes", "charts", "signs", "zoo")
# What `ask` shows unless told otherwise, and what there is without this library.
ASKED = (("full", 1.0), ("scorer", 0.25))
SEED = 20
COLDEST, HOTTEST = 0.1, 20.0


class MapScorer(Protocol):
    """What says of pictures and questions where detail is needed."""

    def score(self, pictures: Tensor, question_ids: Tensor) -> Tensor: ...


# ---- allocations -----------------------------------------------------------------------------------------------------


def evaluation_leaves(
    strategy: str, keep: float, batch: NeedleBatch, tree: Tree, scorer: MapScorer | None, generator: torch.Generator
) -> Tensor:
    """Leaves of one strategy, laid out as a user would get them: no noise, no hints."""
    truth = target_cells(batch, tree.rows, tree.cols)
    if strategy in ("full", "uniform"):
        torch.randint(2**31, (1,), generator=generator)  # not used: keeps the controls what they were in 0.3.0
        gains = split_gains(torch.ones_like(truth), tree)
        budget = budget_of(Kind(strategy, keep, 1.0), tree)
        return gather_leaves(select_splits(gains, tree, budget), truth, tree).cells
    if strategy == "oracle":
        wanted = truth
    elif strategy == "random":
        wanted = torch.rand(truth.shape, generator=generator).to(truth.device)
    else:
        assert scorer is not None
        wanted = scorer.score(batch.pictures, batch.question_ids).float()
        wanted = permute_along_tree(wanted, tree, generator) if strategy == "shuffled" else wanted
    return overlay(wanted, [max(1, round(keep * tree.full))] * len(truth)).cells


def covered(maps: Tensor, truth: Tensor, keep: float) -> np.ndarray:
    """(B,): the share of the cells that matter (B, rows, cols) which an overlay of these maps, of a share of the
    tokens, sees at level 0."""
    leaves = torch.as_tensor(overlay(maps, [max(1, round(keep * truth[0].numel()))] * len(maps)).cells)
    seen = fine_cells(leaves, truth.shape[1], truth.shape[2]) * truth
    return (seen.sum((1, 2)) / truth.sum((1, 2)).clamp_min(1)).numpy()


# ---- answers ---------------------------------------------------------------------------------------------------------


@contextmanager
def reading(model: PreTrainedModel) -> Generator[None]:
    """How pictures are read in batches: dense attention in the tower, half precision on a GPU."""
    kind = next(model.parameters()).device.type
    with dense_vision_attention(model), torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
        yield


def question_prompt(question_ids: Tensor, visual_tokens: int) -> tuple[Tensor, Tensor]:
    """(B, Q) characters → input_ids and attention_mask (B, L), padded on the left, up to where the answer begins."""
    prompt = build_prompt(question_ids, question_ids[:, :0], visual_tokens)
    index = pack((prompt.input_ids > 0) & ~prompt.answers, "left")
    return take(prompt.input_ids, index), (index >= 0).long()


def answer_batch(
    model: PreTrainedModel, pictures: Tensor, question_ids: Tensor, leaves: Tensor, most: int = LONGEST_ANSWER
) -> Generated:
    """What the model says to every picture (B, 3, H, W) and question (B, Q), seen as leaves (B, N, 3); call it inside
    `reading(model)`."""
    tokens, leaf_batch = see(model, pictures, leaves)
    ids, mask = question_prompt(question_ids, leaves.shape[1])
    positions, following = leaf_positions(ids, leaf_batch, IMAGE, mask)
    return generate_greedily(model, LeafPrompt(ids, tokens, positions, following, mask), most)


def is_right(said: Generated, answer_ids: Tensor) -> Tensor:
    """(B,) bool: exactly the true text, and nothing after it. answer_ids: (B, A) characters, 0 = padding."""
    text = said.ids.masked_fill(~said.within, 0)
    ended = (text == TURN_END).any(1)
    text = text.masked_fill(text == TURN_END, 0)
    width = max(text.shape[1], answer_ids.shape[1])
    text, truth = (torch.nn.functional.pad(ids, (0, width - ids.shape[1])) for ids in (text, answer_ids))
    return (text == truth).all(1) & ended


class SaidAnswers(NamedTuple):
    """What was said to a batch of questions, kept on the CPU. right: (B,) bool."""

    family: str
    strategy: str
    keep: float
    said: Generated
    right: Tensor

    @classmethod
    def of(
        cls, family: str, cell: tuple[str, float], model: PreTrainedModel, asked: Sequence[Tensor], leaves: Tensor
    ) -> SaidAnswers:
        """Ask the model. asked: pictures, questions and true answers."""
        pictures, questions, answers = asked
        said = answer_batch(model, pictures, questions, leaves)
        kept = Generated(said.ids.cpu(), said.logits.cpu(), said.within.cpu())
        return cls(family, *cell, kept, is_right(said, answers).cpu())


@torch.inference_mode()
def needle_answers(
    model: PreTrainedModel,
    scorer: MapScorer | None,
    family: str,
    number: int,
    size: tuple[int, int],
    seed: int,
    at_once: int,
) -> Iterator[SaidAnswers]:
    """What is said about a family's validation pictures in every cell of `ASKED`; pictures are drawn once for all."""
    device = next(model.parameters()).device
    generator, tree = torch.Generator().manual_seed(seed), tree_of(size)
    with reading(model):
        for start in range(0, number, at_once):
            count = min(at_once, number - start)
            batch = render(family, count, size, seed, "validation", device=device, start=start)
            for cell in ASKED:
                leaves = evaluation_leaves(*cell, batch, tree, scorer, generator)
                asked = batch.pictures, batch.question_ids, batch.answer_ids
                yield SaidAnswers.of(family, cell, model, asked, leaves)


@torch.inference_mode()
def print_answers(
    model: PreTrainedModel, scorer: MapScorer, world: PrintWorld, number: int, at_once: int = 16
) -> Iterator[SaidAnswers]:
    """What is said to one question about each of `number` printed pages, in the same cells."""
    with reading(model):
        for start in range(0, number, at_once):
            batch = world.render(min(at_once, number - start), (512, 512), start)
            which = torch.arange(start, start + len(batch), device=batch.pictures.device)
            batch = batch.one_question(which % batch.questions.shape[1])
            questions, tails = batch.questions[:, 0].long(), batch.tails[:, 0].long()
            answers = take(tails, pack(batch.said[:, 0] & (tails != TURN_END), "right"))
            scores = scorer.score(batch.pictures, questions).float()
            for cell in ASKED:
                shown = torch.ones_like(scores) if cell[0] == "full" else scores
                leaves = overlay(shown, [max(1, round(cell[1] * scores[0].numel()))] * len(scores)).cells
                yield SaidAnswers.of("print", cell, model, (batch.pictures, questions, answers), leaves)


# ---- the temperature -------------------------------------------------------------------------------------------------


def surprise(said: Sequence[Generated], right: Sequence[Tensor], temperature: float) -> float:
    """Mean log loss of "this answer is right", over all answers."""
    confidence = torch.cat([one.confidence(temperature) for one in said]).double().clamp(1e-6, 1 - 1e-6)
    truth = torch.cat(list(right)).to(confidence)
    return float(torch.nn.functional.binary_cross_entropy(confidence, truth))


def fit_temperature(said: Sequence[Generated], right: Sequence[Tensor]) -> float:
    """The one temperature with the least log loss."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda logarithm: surprise(said, right, float(np.exp(logarithm))),
        bounds=(np.log(COLDEST), np.log(HOTTEST)),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return float(np.exp(found.x))


def calibration_row(confidence: Sequence[np.ndarray], right: np.ndarray) -> dict[str, object]:
    """n, accuracy, mean confidence and ECE, before and after dividing by the temperature; chance: of the latter."""
    before, after = confidence
    return {
        "n": len(right),
        "accuracy": float(np.mean(right)),
        "confidence_before": float(np.mean(before)),
        "confidence_after": float(np.mean(after)),
        "ece_before": expected_calibration_error(before, right),
        "ece_after": expected_calibration_error(after, right),
        "ece_chance": chance_error(after),
    }


def calibrate(
    model: PreTrainedModel,
    scorer: MapScorer | None,
    *,
    families: Sequence[str] = FAMILIES,
    number: int = 512,
    size: tuple[int, int] = (512, 512),
    seed: int = SEED,
    batch_size: int = 256,
    advance: Callable[[str], None] = lambda family: None,
    more: Iterable[SaidAnswers] = (),
) -> JsonObject:
    """Fit the one temperature on `number` questions of every family in every cell; returns a JSON-ready dictionary.

    more: answers from another world, which count as much as each of these. "temperature" and "levels" are what
    calibration.json needs; "rows" (by family and cell) and "overall" say how well it fits, on the same questions.
    """
    answers: list[SaidAnswers] = []
    for family in families:
        advance(family)
        answers += needle_answers(model, scorer, family, number, size, seed, batch_size)
    answers += more
    temperature = fit_temperature([one.said for one in answers], [one.right for one in answers])

    def row(chosen: list[SaidAnswers]) -> dict[str, object]:
        confidence = [torch.cat([one.said.confidence(heat) for one in chosen]).numpy() for heat in (1.0, temperature)]
        return calibration_row(confidence, torch.cat([one.right for one in chosen]).numpy())

    groups: dict[tuple[str, str, float], list[SaidAnswers]] = {}
    for one in answers:
        groups.setdefault(one[:3], []).append(one)
    return {
        "temperature": temperature,
        "levels": LEVELS,
        "fitted_on": {
            "split": "validation",
            "seed": seed,
            "size": list(size),
            "n": number,
            "cells": [list(cell) for cell in ASKED],
            "families": list(dict.fromkeys(one.family for one in answers)),
        },
        "bins": f"{BINS} of equal mass",
        "rows": [
            {"family": family, "strategy": strategy, "keep": keep, **row(members)}
            for (family, strategy, keep), members in groups.items()
        ],
        "overall": row(answers),
    }
