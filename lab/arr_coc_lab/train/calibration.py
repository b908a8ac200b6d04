"""One temperature, so that a confidence of 80 % is right four times out of five; and how far from that it is (ECE).

The confidence is the one that `Answer.uncertainty` shows: the probability of the very text that was said, at that
temperature (`decoding.Generated`). The temperature is the one under which "right" or "wrong" is least surprising (log
loss, a proper score), fitted on validation seeds; the test split is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from arr_coc.answering.decoding import LONGEST_ANSWER, Generated, generate_greedily
from arr_coc.core.values import JsonObject
from arr_coc.realizing.base import LeafPrompt
from arr_coc.realizing.query import pack, take
from arr_coc.realizing.qwen3_vl.encode import leaf_positions

from ..classic.walks import dense_vision_attention
from ..statistics import BINS, chance_error, expected_calibration_error
from .allocations import LEVELS, tree_of
from .evaluate import FAMILIES, DrawnPictures, MapScorer, evaluation_leaves
from .mini_model import IMAGE, TURN_END
from .prompts import build_prompt
from .reader import see

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# What `ask` shows unless told otherwise, and what there is without this library.
ASKED = (("full", 1.0), ("scorer", 0.25))
SEED = 20
COLDEST, HOTTEST = 0.1, 20.0


class SaidAnswers(NamedTuple):
    """What was said to a batch of questions. right: (B,) bool."""

    family: str
    strategy: str
    keep: float
    said: Generated
    right: Tensor


# ---- answers --------------------------------------------------------------------------------------------------------


def question_prompt(question_ids: Tensor, visual_tokens: int) -> tuple[Tensor, Tensor]:
    """(B, Q) characters → input_ids and attention_mask (B, L), padded on the left, up to where the answer begins."""
    prompt = build_prompt(question_ids, question_ids[:, :0], visual_tokens)
    index = pack((prompt.input_ids > 0) & ~prompt.answers, "left")
    return take(prompt.input_ids, index), (index >= 0).long()


def answer_batch(
    model: PreTrainedModel, pictures: Tensor, question_ids: Tensor, leaves: Tensor, most: int = LONGEST_ANSWER
) -> Generated:
    """What the model says to every picture (B, 3, H, W) and question (B, Q), seen as leaves (B, N, 3); call it inside
    `dense_vision_attention(model)`, autocast as wanted."""
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


# ---- the temperature ------------------------------------------------------------------------------------------------


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


def calibration_row(confidence: tuple[np.ndarray, np.ndarray], right: np.ndarray) -> dict[str, object]:
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
    cells: Sequence[tuple[str, float]] = ASKED,
    advance: Callable[[str], None] = lambda family: None,
    more: Iterable[SaidAnswers] = (),
    **how: object,
) -> JsonObject:
    """Fit the one temperature on questions of every family in every cell; returns a JSON-ready dictionary.

    how: of `DrawnPictures`; 512 of each family, of the validation split, unless told otherwise. more: answers from
    another world, which count as much as each of these.
    "temperature" and "levels" are what calibration.json needs; "rows" (by family and cell) and "overall" say how well
    it fits, on the same questions.
    """
    shown = replace(DrawnPictures(512, seed=SEED, split="validation"), **how)
    found: list[SaidAnswers] = []
    for family in families:
        advance(family)
        found += (SaidAnswers(family, *one) for one in _answers(model, scorer, family, cells, shown))
    found += more
    temperature = fit_temperature([said for *_, said, _ in found], [right for *_, right in found])

    def row(chosen: list[SaidAnswers]) -> dict[str, object]:
        before, after = (
            torch.cat([said.confidence(heat) for *_, said, _ in chosen]).cpu().numpy() for heat in (1.0, temperature)
        )
        return calibration_row((before, after), torch.cat([right for *_, right in chosen]).cpu().numpy())

    groups: dict[tuple[str, str, float], list[SaidAnswers]] = {}
    for one in found:
        groups.setdefault(one[:3], []).append(one)
    return {
        "temperature": temperature,
        "levels": LEVELS,
        "fitted_on": {
            "split": shown.split,
            "seed": shown.seed,
            "size": list(shown.size),
            "n": shown.number,
            "cells": [list(cell) for cell in cells],
            "families": list(dict.fromkeys(one.family for one in found)),
        },
        "bins": f"{BINS} of equal mass",
        "rows": [
            {"family": family, "strategy": strategy, "keep": keep, **row(members)}
            for (family, strategy, keep), members in groups.items()
        ],
        "overall": row(found),
    }


@torch.inference_mode()
def _answers(
    model: PreTrainedModel,
    scorer: MapScorer | None,
    family: str,
    cells: Sequence[tuple[str, float]],
    shown: DrawnPictures,
) -> Iterator[tuple[str, float, Generated, Tensor]]:
    """What is said in every cell, in pieces of a batch, kept on the CPU; pictures are rendered once for all cells."""
    device = next(model.parameters()).device
    generator, tree = torch.Generator().manual_seed(shown.seed), tree_of(shown.size)
    with dense_vision_attention(model), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        for batch in shown.batches(family, device):
            for strategy, keep in cells:
                leaves = evaluation_leaves(strategy, keep, batch, tree, scorer, generator)
                said = answer_batch(model, batch.pictures, batch.question_ids, leaves)
                right = is_right(said, batch.answer_ids)
                kept = Generated(said.ids.cpu(), said.logits.cpu(), said.within.cpu())
                yield strategy, keep, kept, right.cpu()
