"""Allocate Needle World for the benchmarks, judge `mini`'s answers, and fit the temperature of its confidence.

The confidence is the one behind `Answer.uncertainty`: the probability of the generated text at that temperature
(`Generated`). The temperature minimises the log loss of "this answer is right" (a proper score) on validation seeds, so
that four of five answers with a confidence of 80 % are right. It never uses the test split.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from arr_coc.answering.decoding import LONGEST_ANSWER, end_tokens, greedy_steps, speaking
from arr_coc.attending.allocate import surrounded
from arr_coc.attending.frame import as_maps
from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import Tree, gather_leaves, select_splits, split_gains
from arr_coc.balancing.choosing import balanced
from arr_coc.core.values import JsonObject, Relevance
from arr_coc.knowing.registry import BUILT_IN
from arr_coc.knowing.scene import Scene
from arr_coc.realizing.base import LeafPrompt
from arr_coc.realizing.query import pack, take
from arr_coc.realizing.qwen3_vl.encode import leaf_positions

from ..classic.controls import permute_along_tree
from ..classic.walks import dense_vision_attention
from ..statistics import BINS, chance_error, expected_calibration_error
from ..worlds.needle import render
from ..worlds.needle.batch import NeedleBatch
from .allocations import Kind, budget_of, seen_share, target_cells, tree_of
from .mini_model import IMAGE, TURN_END, build_prompt
from .reader import see

if TYPE_CHECKING:
    from transformers import PreTrainedModel


FAMILIES = ("cards", "forms", "receipts", "scenes", "charts", "signs", "zoo")
# The default of `ask`, and the stock model without this library.
ASKED = (("full", 1.0), ("scorer", 0.25))
SEED = 20
COLDEST, HOTTEST = 0.1, 20.0


class MapScorer(Protocol):
    """A scorer: says for pictures and questions where detail is needed."""

    def score(self, pictures: Tensor, question_ids: Tensor) -> Tensor: ...


# ---- allocations -----------------------------------------------------------------------------------------------------


def evaluation_leaves(
    strategy: str, keep: float, batch: NeedleBatch, tree: Tree, scorer: MapScorer | None, generator: torch.Generator
) -> Tensor:
    """Allocate by one strategy as a user would: no noise, no hints, and the scorer's maps balanced as in `ask`."""
    truth = target_cells(batch, tree.rows, tree.cols)
    if strategy in ("full", "uniform"):
        gains = split_gains(torch.ones_like(truth), tree)
        budget = budget_of(Kind(strategy, keep, 1.0), tree)
        return gather_leaves(select_splits(gains, tree, budget), truth, tree).cells
    if strategy == "oracle":
        wanted = truth
    elif strategy == "random":
        wanted = torch.rand(truth.shape, generator=generator).to(truth.device)
    else:
        assert scorer is not None
        wanted = balanced_maps(scorer.score(batch.pictures, batch.question_ids).float(), batch, keep)
        wanted = permute_along_tree(wanted, tree, generator) if strategy == "shuffled" else wanted
    return overlay(wanted, [max(1, round(keep * tree.full))] * len(truth)).cells


def balanced_maps(maps: Tensor, batch: NeedleBatch, keep: float) -> Tensor:
    """Balance the scorer's maps (B, rows, cols) as `allocate` does: for each picture, question and share of the tokens,
    with the surroundings of the best places."""
    pixels, found = batch.pictures.permute(0, 2, 3, 1).cpu().numpy(), []
    for own, query, plane in zip(pixels, batch.questions, maps.cpu().numpy(), strict=True):
        one = balanced(Relevance(plane, query), BUILT_IN["scorer"], Scene(own, share=keep))
        found.append(as_maps(surrounded(one))[0])
    return torch.as_tensor(np.stack(found), device=maps.device)


def covered(maps: Tensor, truth: Tensor, keep: float) -> np.ndarray:
    """Return the share (B,) of relevant cells (B, rows, cols) that an overlay of these maps, with a share of the
    tokens, shows at level 0."""
    leaves = torch.as_tensor(overlay(maps, [max(1, round(keep * truth[0].numel()))] * len(maps)).cells)
    return seen_share(leaves, truth).numpy()


# ---- answers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Generated:
    """Answers in rows. ids: (B, T) int64. logits: (B, T, vocabulary) float32. within: (B, T) bool, the tokens of each
    answer, including the one that ends it."""

    ids: Tensor
    logits: Tensor
    within: Tensor

    def confidence(self, temperature: float = 1.0) -> Tensor:
        """Return the model's probability of each text, (B,) in [0, 1]."""
        logs = (self.logits / temperature).log_softmax(-1).gather(-1, self.ids[..., None])[..., 0]
        return (logs * self.within).sum(1).exp().clip(0, 1)


def until_end(ids: Tensor, ends: Sequence[int]) -> Tensor:
    """Return a mask (B, T) of every token up to and including the first of `ends`."""
    ended = torch.isin(ids, torch.tensor(ends, device=ids.device))
    return ended.cumsum(1) == ended * 1


@contextmanager
def reading(model: PreTrainedModel) -> Generator[None]:
    """Set up reading in batches: dense attention in the tower, half precision on a GPU."""
    kind = next(model.parameters()).device.type
    with dense_vision_attention(model), torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
        yield


def question_prompt(question_ids: Tensor, visual_tokens: int) -> tuple[Tensor, Tensor]:
    """Return input_ids and attention_mask (B, L) of questions (B, Q), padded on the left, up to the answer."""
    prompt = build_prompt(question_ids, question_ids[:, :0], visual_tokens)
    index = pack((prompt.input_ids > 0) & ~prompt.answers, "left")
    return take(prompt.input_ids, index), (index >= 0).long()


def answer_batch(
    model: PreTrainedModel, pictures: Tensor, question_ids: Tensor, leaves: Tensor, most: int = LONGEST_ANSWER
) -> Generated:
    """Decode answers to pictures (B, 3, H, W) and questions (B, Q), seen as leaves (B, N, 3); call it inside
    `reading(model)`."""
    tokens, leaf_batch = see(model, pictures, leaves)
    ids, mask = question_prompt(question_ids, leaves.shape[1])
    positions, following = leaf_positions(ids, leaf_batch, IMAGE, mask)
    prompt, ends = LeafPrompt(ids, tokens, positions, following, mask), end_tokens(model)
    with torch.inference_mode(), speaking(model, prompt, most) as speaker:
        said, logits = (torch.stack(part, 1) for part in zip(*greedy_steps(speaker, ends, most), strict=True))
    return Generated(said, logits, until_end(said, ends))


def is_right(said: Generated, answer_ids: Tensor) -> Tensor:
    """Return an exact match for each answer, (B,) bool. answer_ids: (B, A) characters of the right one, 0 = padding."""
    text = said.ids.masked_fill(~said.within, 0)
    ended = (text == TURN_END).any(1)
    text = text.masked_fill(text == TURN_END, 0)
    width = max(text.shape[1], answer_ids.shape[1])
    text, truth = (torch.nn.functional.pad(ids, (0, width - ids.shape[1])) for ids in (text, answer_ids))
    return (text == truth).all(1) & ended


# ---- the temperature -------------------------------------------------------------------------------------------------


def surprise(said: Sequence[Generated], right: Sequence[Tensor], temperature: float) -> float:
    """Return the mean log loss of "this answer is right", over all answers."""
    confidence = torch.cat([one.confidence(temperature) for one in said]).double().clamp(1e-6, 1 - 1e-6)
    truth = torch.cat(list(right)).to(confidence)
    return float(torch.nn.functional.binary_cross_entropy(confidence, truth))


def fit_temperature(said: Sequence[Generated], right: Sequence[Tensor]) -> float:
    """Return the temperature with the least log loss."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda logarithm: surprise(said, right, float(np.exp(logarithm))),
        bounds=(np.log(COLDEST), np.log(HOTTEST)),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return float(np.exp(found.x))


def calibration_row(confidence: Sequence[np.ndarray], right: np.ndarray) -> dict[str, object]:
    """Return n, accuracy, mean confidence and ECE, before and after the temperature; chance: expected ECE after it."""
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


@torch.inference_mode()
def calibrate(
    model: PreTrainedModel,
    scorer: MapScorer | None,
    *,
    families: Sequence[str] = FAMILIES,
    number: int = 512,
    size: tuple[int, int] = (512, 512),
    seed: int = SEED,
    batch_size: int = 256,
) -> JsonObject:
    """Fit the temperature on `number` validation questions of every family in every cell of `ASKED`; return it for
    JSON, with its fit on the same questions."""
    said, right = list[Generated](), list[Tensor]()
    device, tree = next(model.parameters()).device, tree_of(size)
    for family in families:
        generator = torch.Generator().manual_seed(seed)
        for start in range(0, number, batch_size):
            count = min(batch_size, number - start)
            batch = render(family, count, size, seed, "validation", device=device, start=start)
            for cell in ASKED:
                leaves = evaluation_leaves(*cell, batch, tree, scorer, generator)
                with reading(model):
                    answers = answer_batch(model, batch.pictures, batch.question_ids, leaves)
                said.append(Generated(answers.ids.cpu(), answers.logits.cpu(), answers.within.cpu()))
                right.append(is_right(answers, batch.answer_ids).cpu())
    temperature = fit_temperature(said, right)
    confidence = [torch.cat([one.confidence(heat) for one in said]).numpy() for heat in (1.0, temperature)]
    cells = [list(cell) for cell in ASKED]
    fitted_on = {"split": "validation", "seed": seed, "size": list(size), "n": number, "cells": cells}
    return {
        "temperature": temperature,
        "fitted_on": {**fitted_on, "families": list(families)},
        "bins": f"{BINS} of equal mass",
        "overall": calibration_row(confidence, torch.cat(right).numpy()),
    }
