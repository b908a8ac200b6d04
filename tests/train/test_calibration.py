"""The temperature, the calibration error, and whether an answer is right."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tiny_models import characters
from tiny_weights import needs_weights, tiny_weights

from arr_coc.core.errors import InputError
from arr_coc_lab.bench.needle import Weights
from arr_coc_lab.classic.walks import dense_vision_attention
from arr_coc_lab.statistics import chance_error, expected_calibration_error
from arr_coc_lab.train.allocations import tree_of
from arr_coc_lab.train.evaluate import (
    Generated,
    answer_batch,
    calibrate,
    evaluation_leaves,
    fit_temperature,
    is_right,
    question_prompt,
    surprise,
)
from arr_coc_lab.train.mini_model import IMAGE, TURN_END, build_tokenizer
from arr_coc_lab.train.reader import read
from arr_coc_lab.worlds.needle import render


def test_the_calibration_error_by_hand():
    confidence = np.array([0.9, 0.9, 0.1, 0.1])
    assert expected_calibration_error(confidence, np.array([1, 1, 0, 0]), bins=2) == pytest.approx(0.1)
    assert expected_calibration_error(confidence, np.array([0, 0, 1, 1]), bins=2) == pytest.approx(0.9)
    # One bin sees only the means, which agree; two bins of equal mass do not.
    assert expected_calibration_error(np.array([1.0, 0.0]), np.array([0, 1]), bins=1) == pytest.approx(0)
    assert expected_calibration_error(np.array([1.0, 0.0]), np.array([0, 1]), bins=2) == pytest.approx(1)
    # Bins go by confidence, whatever the order of the answers.
    assert expected_calibration_error(np.array([1.0, 0.0] * 2), np.array([0, 1] * 2), bins=2) == pytest.approx(1)
    with pytest.raises(InputError, match="one outcome"):
        expected_calibration_error(np.zeros(0), np.zeros(0))


def test_true_confidences_err_by_chance_alone_and_boasts_by_more():
    generator = np.random.default_rng(0)
    confidence = generator.random(3000)
    right = generator.random(3000) < confidence
    error = expected_calibration_error(confidence, right)
    assert error < 0.04
    assert error == pytest.approx(chance_error(confidence), abs=0.015)
    assert expected_calibration_error(confidence**0.3, right) > 0.15
    assert chance_error(confidence[:60]) > 2 * chance_error(confidence)


def one_word(logits: torch.Tensor) -> Generated:
    """Answers of one token, the likeliest."""
    ids = logits.argmax(-1, keepdim=True)
    return Generated(ids, logits[:, None], torch.ones_like(ids, dtype=torch.bool))


@pytest.mark.parametrize("true", [0.5, 1.0, 2.5])
def test_the_temperature_that_made_the_outcomes_is_found(true):
    generator = torch.Generator().manual_seed(1)
    said = one_word(3 * torch.randn(6000, 5, generator=generator))
    right = torch.rand(6000, generator=generator) < said.confidence(true)
    found = fit_temperature([said], [right])
    assert found == pytest.approx(true, rel=0.12)
    assert surprise([said], [right], found) <= surprise([said], [right], true) + 1e-6
    calibrated = expected_calibration_error(said.confidence(found).numpy(), right.numpy())
    assert calibrated < 0.03
    if true != 1:
        assert expected_calibration_error(said.confidence().numpy(), right.numpy()) > 2 * calibrated


def test_an_answer_is_right_when_it_is_the_text_and_ends():
    truth = characters("42", "42", "42", "7", "42")
    ids = characters("42", "421", "4", "7", "42")
    ends = torch.tensor([[0, 0, TURN_END, 0], [0, 0, 0, TURN_END], [0, TURN_END, 0, 0], [0, TURN_END, 0, 0], [0] * 4])
    ids = torch.nn.functional.pad(ids, (0, 1)) + ends
    spoken = (ids > 0) & (ids.cumsum(1) > 0)
    said = Generated(ids, torch.zeros(*ids.shape, 106), spoken)
    assert is_right(said, truth).tolist() == [True, False, False, True, False]


def test_prompts_are_padded_on_the_left_and_end_where_the_answer_begins():
    ids, mask = question_prompt(characters("How much?", "Total"), visual_tokens=3)
    tokenizer = build_tokenizer()
    for row, question in enumerate(("How much?", "Total")):
        content = [{"type": "image"}, {"type": "text", "text": question}]
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        wanted = tokenizer(text.replace("<|image_pad|>", "<|image_pad|>" * 3))["input_ids"]
        assert ids[row][mask[row].bool()].tolist() == wanted
        assert mask[row, -1] == 1
    assert int((ids == IMAGE).sum()) == 6


def test_calibrating_gives_what_the_file_needs(tmp_path):
    weights = Weights.load(tiny_weights(tmp_path))
    how = {"families": ("cards", "scenes"), "number": 3, "batch_size": 2, "size": (128, 128)}
    found = calibrate(weights.mini, weights.scorer, **how)
    assert found["temperature"] > 0
    assert found["overall"]["n"] == 12
    assert found["fitted_on"]["split"] == "validation"


@needs_weights
def test_speaking_finds_right_what_teaching_finds_right():
    """Two routes to exact match: the greedy answer, and the truth given a character at a time."""
    weights = Weights.load()
    batch = render("scenes", 6, (256, 256), 4, "validation")
    with torch.inference_mode(), dense_vision_attention(weights.mini):
        leaves = evaluation_leaves("uniform", 0.25, batch, tree_of((256, 256)), None, torch.Generator())
        said = answer_batch(weights.mini, batch.pictures, batch.question_ids, leaves)
        assert torch.equal(is_right(said, batch.answer_ids), read(weights.mini, batch, leaves).right)
        # Declare what it said to be the truth: then it is right, however badly it was trained.
        text = said.ids.masked_fill(~said.within | (said.ids == TURN_END), 0)
        ended = ((said.ids == TURN_END) & said.within).any(1)
        assert ended.any()
        width = batch.answer_ids.shape[1]
        text = torch.nn.functional.pad(text, (0, max(0, width - text.shape[1])))[:, :width]
        agreed = dataclasses.replace(batch, answer_ids=text)
        assert is_right(said, text)[ended].all()
        assert read(weights.mini, agreed, leaves).right[ended].all()
        text = text.clone()
        text[:, 0] = torch.where(text[:, 0] == 40, 41, 40)
        assert not is_right(said, text).any()
        assert not read(weights.mini, dataclasses.replace(batch, answer_ids=text), leaves).right.any()
