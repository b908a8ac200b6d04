"""Arousal: whole words, the weights, the sign of sharpening, and what fear keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.allocate import allocate
from arr_coc.balancing.arousal import ALERT, FEAR, arousal_of, feared_regions, first_arousal, keyword_stakes, modulate
from arr_coc.core.compare import compare
from arr_coc.looking import examine
from arr_coc.options import Options


def entropy(relevance: np.ndarray) -> float:
    """In nats, of a map taken as shares of attention."""
    share = relevance[relevance > 0] / max(float(relevance.sum()), 1e-9)
    return float(-(share * np.log(share)).sum())


def test_a_question_of_high_stakes_sharpens_and_a_casual_one_leaves_the_map_alone():
    relevance = np.random.default_rng(0).random((8, 8), dtype=np.float32)
    casual, grave, panic = (
        arousal_of(keyword_stakes(question)[0], unsure)
        for question, unsure in (
            ("describe the mood", 0.2),
            ("is there a fracture?", 0.1),
            ("is there a fracture?", 0.9),
        )
    )
    assert casual < ALERT <= grave < FEAR <= panic
    entropies = [entropy(modulate(relevance, value)) for value in (casual, grave, panic)]
    assert entropies[0] == entropy(relevance) > entropies[1] + 0.01 > entropies[2]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2, 4, 100]))
def test_alarm_never_flattens_and_stays_in_range(seed: int, rows: int, cols: int, steps: int):
    relevance = np.random.default_rng(seed).random((rows, cols), dtype=np.float32)
    relevance = np.rint(relevance * steps) / steps
    assert entropy(modulate(relevance, 0.5)) <= entropy(relevance) + 1e-5
    afraid = modulate(relevance, 0.9)
    assert 0 <= afraid.min() <= afraid.max() <= 1


def spots() -> np.ndarray:
    """A field of lukewarm ground with three spots, each weaker than the one before."""
    relevance = np.full((32, 32), 0.2)
    for (row, col), value in (((4, 4), 0.8), ((26, 26), 0.7), ((4, 26), 0.6)):
        relevance[row - 1 : row + 2, col - 1 : col + 2] = value
    return relevance


def test_fear_moves_tokens_at_an_exact_budget_and_narrows_them_to_few_regions():
    relevance = spots()
    inside = feared_regions(relevance)
    assert (inside[4, 4], inside[26, 26], inside[4, 26]) == (True, True, False), "two regions, not three"
    assert 40 < int(inside.sum()) < 120, "regions, not places"
    calm, afraid = (allocate(modulate(relevance, value), 24, image_size=(512, 512)) for value in (0.1, 0.9))
    assert calm.tokens == afraid.tokens == 24
    assert compare(calm, afraid).moved > 3
    fine = [one.level_map() == 0 for one in (calm, afraid)]
    corner = np.s_[:6, 10:]
    assert fine[1][corner].sum() < fine[0][corner].sum(), "the third spot is given up"


@pytest.mark.parametrize("word", ["gun", "tumor", "danger", "bomb"])
def test_fear_is_reached_by_one_look(word: str):
    question = f"Is there a {word}?"
    shared, *own = (np.random.default_rng(seed).random((32, 32)) for seed in range(4))
    ways = [shared + one for one in own]
    assert first_arousal(question, ways)[0] >= FEAR
    assert first_arousal("What is the title?", ways) == (pytest.approx(0.2, abs=0.05), ())
    assert ALERT <= first_arousal(question, [ways[0]] * 3)[0] < FEAR, "who agrees is not afraid"


def test_the_first_look_is_aroused_by_question_and_picture():
    picture = np.full((128, 192, 3), 245, np.uint8)
    picture[24:104:6, 8:80] = 20  # print on the left, nothing on the right
    picture[24:104, 8:80:9] = 240
    calm = examine(picture, "What is on the left?", Options(relevance="look"))
    afraid = examine(picture, "Is there danger on the right?", Options(relevance="look"))
    assert not any("arousal" in note for note in calm.notes)
    assert any("(fear)" in note and "'danger'" in note for note in afraid.notes), afraid.notes
    # Tunnel vision: two regions, and little of everything else.
    found = afraid.relevance.map
    inside = feared_regions(found)
    assert inside.mean() < 0.15
    assert found[inside].mean() > 3 * found[~inside].mean()
