"""A tiny stock Qwen3-VL, a tiny scorer and two pictures, for the tests of the comparison."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from tiny_weights import tiny_scorer

from arr_coc_lab.bench.needle import Weights
from arr_coc_lab.bench.peers.model import PeerScene, PrunableMini
from arr_coc_lab.train.mini_model import MiniConfig, build_mini
from arr_coc_lab.worlds.needle import NeedleBatch, render

SIZE = (256, 256)
SHAPE = MiniConfig(width=64, vision_layers=4, language_layers=4, heads=2, widening=2, deepstack=(0, 1))


@cache
def tiny_weights() -> Weights:
    torch.manual_seed(3)
    model: Any = build_mini(SHAPE).eval().requires_grad_(False)
    for parameter in model.parameters():  # fresh weights hardly attend to anything: let differences show
        parameter.mul_(2) if parameter.ndim > 1 else None
    scorer = (
        tiny_scorer(2.0).eval().requires_grad_(False)
    )  # a flat map would be down-sampled evenly wherever it is moved
    return Weights(model, scorer, 1.0, "tiny")


@cache
def pictures() -> NeedleBatch:
    return render("forms", 2, SIZE, 77, "test")


def tiny_mini() -> PrunableMini:
    weights = tiny_weights()
    return PrunableMini(weights.mini, weights.scorer)


def scene(seed: int = 5, answers: bool = True) -> PeerScene:
    return PeerScene(pictures(), torch.float32, seed, answers)


@cache
def shared_scene(answers: bool = True, wrong: bool = False) -> PeerScene:
    """For tests that try many ways on one. wrong: with other answers than the right ones."""
    batch = pictures()
    batch = replace(batch, answer_ids=(batch.answer_ids > 0) * 17) if wrong else batch
    return PeerScene(batch, torch.float32, 5, answers)
