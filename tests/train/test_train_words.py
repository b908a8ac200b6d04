"""The ranker of words: its two homes agree, it learns, and misreading keeps words in their place."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from arr_coc.knowing.words.page import word_page
from arr_coc.knowing.words.source import features, ranker_weights, word_logits
from arr_coc_lab.train.run import train
from arr_coc_lab.train.train_words import Ranker, WordsOptions, WordsTraining, collate, rank_report
from arr_coc_lab.train.word_lessons import examples, inside, misread, needle_lessons


@pytest.fixture(scope="module")
def lessons():
    return list(needle_lessons(3, seed=5))


def test_glyphs_become_words_that_hold_the_answers(lessons):
    held = [inside(lesson.words, lesson.questions[0].boxes).any() for lesson in lessons]
    assert np.mean(held) > 0.8
    assert all((lesson.words.boxes <= 1).all() and len(lesson.words) for lesson in lessons)


def test_numpy_and_torch_give_the_same_logits(lessons):
    found = list(examples(lessons, 0, noisy=0.0))
    torch.manual_seed(0)
    model = Ranker(found)
    weights = {name: value.astype(np.float32) for name, value in model.export().items()}
    checked = 0
    for lesson in lessons:
        page = word_page(lesson.words)
        for one in examples([lesson], 0, noisy=0.0):
            mine = word_logits(page, *features(page, lesson.questions[0].query), weights)
            with torch.no_grad():
                theirs = model(collate([one])).numpy()
            np.testing.assert_allclose(mine, theirs, atol=0.01)  # weights and features travel in half precision
            checked += 1
    assert checked > 5


def test_several_pages_at_once_are_the_pages_one_by_one(lessons):
    found = list(islice(examples(lessons, 0, noisy=0.0), 4))
    torch.manual_seed(0)
    model = Ranker(found)
    with torch.no_grad():
        together, single = model(collate(found)), torch.cat([model(collate([one])) for one in found])
    torch.testing.assert_close(together, single, atol=1e-4, rtol=1e-4)


def test_misread_words_stay_where_they_were(lessons):
    words = lessons[0].words
    other = misread(words, np.random.default_rng(1))
    assert 0.8 * len(words) <= len(other) <= len(words)
    middles, before = ((one.boxes[:, :2] + one.boxes[:, 2:]) / 2 for one in (other, words))
    assert np.median(np.abs(middles[:, None] - before[None]).sum(-1).min(1)) < 0.02


def test_a_short_training_learns_and_writes_what_numpy_reads(tmp_path):
    how = {"folder": tmp_path / "run", "out": tmp_path / "out", "device": "cpu", "judge_every": 1e9}
    training = train(WordsTraining, WordsOptions(pages=(), steps=60, needle=4, bills=2, batch=8, **how))
    curve = [point["loss"] for point in training.done["curve"] if "loss" in point]
    assert np.mean(curve[-10:]) < 0.7 * np.mean(curve[:5])
    assert set(ranker_weights(tmp_path / "out" / "ranker.npz")) == set(ranker_weights())
    assert (tmp_path / "out" / "ranker.npz").stat().st_size < 200_000
    assert rank_report(training.aside[:5], training.ranker)
