"""The lean loop says what `generate` says, and confidence is what it is defined to be."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tiny_models import picture
from tiny_weights import tiny_weights
from transformers import GenerationConfig

from arr_coc import Eye
from arr_coc.answering.decoding import Sureness, is_plain
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
from arr_coc.options import Options
from arr_coc_lab.classic.walks import dense_vision_attention
from arr_coc_lab.train.allocations import tree_of
from arr_coc_lab.train.evaluate import answer_batch, evaluation_leaves, until_end
from arr_coc_lab.worlds.needle import decode, render


@pytest.fixture(scope="module")
def eye(tmp_path_factory) -> Eye:
    return Eye.from_pretrained(str(tiny_weights(tmp_path_factory.mktemp("weights"), seed=3) / "mini"))


def test_the_lean_loop_says_what_generate_says(eye, monkeypatch):
    eye.set_image(picture(128, 192))
    lean = eye.ask("What is it?", budget=0.5, options=Options(max_new_tokens=12))
    called = []
    stock = type(eye.model).generate
    monkeypatch.setattr("arr_coc.answering.decoding.is_plain", lambda config: False)
    monkeypatch.setattr(type(eye.model), "generate", lambda self, **how: called.append(1) or stock(self, **how))
    plain = eye.ask("What is it?", budget=0.5, options=Options(max_new_tokens=12))
    assert called
    assert lean.text == plain.text
    assert lean.uncertainty == pytest.approx(plain.uncertainty, abs=1e-5)
    for name in ("entropy", "margin"):
        assert getattr(lean.passes[0], name) == pytest.approx(getattr(plain.passes[0], name), abs=1e-4)


def test_a_batch_says_what_its_rows_say_alone(eye):
    """Questions of different lengths are padded; the eye asks them one by one, from pixels."""
    batch = render("scenes", 3, (128, 192), 1, "validation")
    assert len({len(decode(row)) for row in batch.question_ids}) > 1
    scorer = ReadingScorer.from_pretrained(eye.scorer.folder).float()
    with torch.inference_mode(), dense_vision_attention(eye.model):
        leaves = evaluation_leaves("scorer", 0.5, batch, tree_of((128, 192)), scorer, torch.Generator())
        shown = batch.pictures, batch.question_ids, leaves
        said = answer_batch(eye.model, *shown, most=10)
        single = [
            answer_batch(eye.model, *(part[row : row + 1] for part in shown), most=10) for row in range(len(batch))
        ]
    for row, one in enumerate(single):
        torch.testing.assert_close(said.logits[row, : one.logits.shape[1]], one.logits[0], atol=1e-5, rtol=0)
    for row, question in enumerate(map(decode, batch.question_ids)):
        eye.set_image(batch.pictures[row].permute(1, 2, 0).numpy())
        alone = eye.ask(question, 0.5, Options(max_new_tokens=10))
        text = eye.processor.tokenizer.decode(said.ids[row][said.within[row]], skip_special_tokens=True).strip()
        assert text == alone.text
        assert 1 - float(said.confidence()[row]) == pytest.approx(alone.uncertainty, abs=1e-5)


@pytest.mark.parametrize("library", [torch.tensor, np.array])
def test_confidence_entropy_and_margin_by_hand(library):
    """Two tokens of three: what follows the end does not count."""

    def said(temperature: float = 1.0) -> dict[str, float]:
        sureness = Sureness(temperature)
        steps = ([0.7, 0.2, 0.1], True), ([0.5, 0.1, 0.4], True), ([0.1, 0.1, 0.8], False)
        for shares, within in steps:
            sureness.add(library([int(np.argmax(shares))]), library(np.log([shares])), library([within]))
        return sureness.row(0)

    assert said()["confidence"] == pytest.approx(0.7 * 0.5, abs=1e-6)
    assert said()["margin"] == pytest.approx(0.1, abs=1e-6)
    entropies = [-sum(p * math.log(p) for p in row) for row in ((0.7, 0.2, 0.1), (0.5, 0.1, 0.4))]
    assert said()["entropy"] == pytest.approx(sum(entropies) / 2, abs=1e-6)
    assert said(2.0)["confidence"] < said()["confidence"]
    squared = [0.49 / (0.49 + 0.04 + 0.01), 0.25 / (0.25 + 0.01 + 0.16)]
    assert said(0.5)["confidence"] == pytest.approx(squared[0] * squared[1], abs=1e-6)


def test_an_answer_ends_with_its_first_end():
    ids = torch.tensor([[5, 9, 5, 9], [9, 1, 1, 1], [1, 2, 3, 4]])
    wanted = [[True, True, False, False], [True, False, False, False], [True] * 4]
    assert until_end(ids, [9]).tolist() == wanted


def test_settings_that_change_words_are_left_to_generate():
    assert is_plain(GenerationConfig(eos_token_id=3, do_sample=True, temperature=0.7, repetition_penalty=1.0))
    assert not is_plain(GenerationConfig(repetition_penalty=1.2))
    assert not is_plain(GenerationConfig(no_repeat_ngram_size=3))
