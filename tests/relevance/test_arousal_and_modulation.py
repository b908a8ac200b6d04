"""Arousal: whole words, the weights, the sign of sharpening, and what fear keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.allocate import allocate
from arr_coc.balancing.arousal import (
    ALERT,
    FEAR,
    TOP,
    arousal_of,
    aroused,
    contradiction,
    feared_regions,
    first_arousal,
    hearts,
    keyword_stakes,
    modulate,
)
from arr_coc.core.errors import InputError
from arr_coc.core.values import Relevance, compare
from arr_coc.looking import examine
from arr_coc.options import Options


def a_map(seed: int = 0) -> torch.Tensor:
    return torch.rand(1, 8, 8, generator=torch.Generator().manual_seed(seed))


def entropy(relevance: torch.Tensor) -> float:
    """Of a map taken as a distribution: low is sharp."""
    shares = np.asarray(relevance).ravel() / max(float(np.asarray(relevance).sum()), 1e-9)
    return float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())


def test_a_question_of_high_stakes_sharpens_and_a_casual_one_leaves_the_map_alone():
    relevance = a_map()
    casual, grave, panic = (
        arousal_of(keyword_stakes(question).value, unsure, failures)
        for question, unsure, failures in (
            ("describe the mood", 0.2, 0.0),
            ("is there a fracture?", 0.1, 0.0),
            ("is there a fracture?", 0.9, 4.0),
        )
    )
    assert casual < ALERT <= grave < FEAR <= panic
    assert torch.equal(modulate(relevance, casual), relevance)
    assert entropy(modulate(relevance, grave)) < entropy(relevance) - 0.01
    assert entropy(modulate(relevance, panic)) < entropy(modulate(relevance, grave))
    # The sign: the inverse exponent would have flattened.
    below = relevance < TOP * relevance.max()
    torch.testing.assert_close(modulate(relevance, grave)[below], relevance[below] ** 1.5)
    assert entropy(relevance ** (1 / 1.5)) > entropy(relevance)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2, 4, 100]))
def test_alarm_never_flattens_and_keeps_the_order(seed: int, rows: int, cols: int, steps: int):
    relevance = np.random.default_rng(seed).random((1, rows, cols), dtype=np.float32)
    relevance = np.rint(relevance * steps) / steps
    alert = modulate(relevance, 0.5)
    assert entropy(alert) <= entropy(relevance) + 1e-5
    top = relevance >= TOP * relevance.max()
    np.testing.assert_array_equal(hearts(relevance)[~top], relevance[~top])
    if not top.all():
        assert alert[top].min() >= alert[~top].max()


def two_spots() -> torch.Tensor:
    """A field of lukewarm ground with three spots, each weaker than the one before."""
    relevance = torch.full((1, 32, 32), 0.2)
    for (row, col), value in (((4, 4), 0.8), ((26, 26), 0.7), ((4, 26), 0.6)):
        relevance[0, row - 1 : row + 2, col - 1 : col + 2] = value
    return relevance


def test_fear_moves_tokens_at_an_exact_budget_and_narrows_them_to_few_regions():
    relevance = two_spots()[0].numpy()
    calm, afraid = (allocate(modulate(relevance[None], value)[0], 24, image_size=(512, 512)) for value in (0.1, 0.9))
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
    assert 0.2 < contradiction(ways) < 0.3, "as on the example pictures, they agree in part"
    assert first_arousal(question, ways).mood == "fear"
    assert first_arousal("What is the title?", ways).mood == "calm"
    agreed = [ways[0]] * 3
    assert first_arousal(question, agreed).mood == "alert"
    unsure, sure = 0.6 * two_spots()[0].numpy(), np.clip(2 * two_spots()[0].numpy(), 0, 1)
    changed, felt = aroused(unsure, question)
    assert felt.mood == "fear"
    assert not np.array_equal(changed, unsure)
    assert aroused(sure, question)[0] is sure, "who is sure is not afraid"
    assert aroused(unsure, "What is the title?")[0] is unsure


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 1), st.floats(0, 1))
def test_numpy_and_torch_agree_each_picture_by_its_own_arousal(seed: int, first: float, second: float):
    relevance = np.random.default_rng(seed).random((2, 4, 5), dtype=np.float32)
    levels = np.array([first, second], dtype=np.float32)
    in_numpy = modulate(relevance, levels)
    in_torch = modulate(torch.from_numpy(relevance), torch.from_numpy(levels))
    assert in_numpy.dtype == np.float32
    np.testing.assert_allclose(in_numpy, in_torch.numpy(), atol=1e-6)
    assert in_numpy.min() >= 0
    assert in_numpy.max() <= 1
    for place, level in enumerate((first, second)):
        alone = modulate(relevance[place : place + 1], float(np.float32(level)))
        np.testing.assert_allclose(in_numpy[place], alone[0], atol=1e-6)


def test_bad_input_is_named():
    with pytest.raises(InputError, match=r"\(B, h, w\)"):
        modulate(torch.zeros(4, 4), 0.5)
    with pytest.raises(InputError, match="arousal must be one number"):
        modulate(torch.zeros(2, 4, 4), torch.zeros(3))


# ---- the first look -------------------------------------------------------------------------------------------------


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
    inside = feared_regions(found[None])[0]
    assert inside.mean() < 0.15
    assert found[inside].mean() > 3 * found[~inside].mean()


def test_a_doubtful_scorer_is_narrowed_by_grave_words_and_by_no_others():
    from arr_coc.balancing.choosing import maps_of
    from arr_coc.knowing.registry import Maps, Source
    from arr_coc.knowing.scene import Scene

    doubtful = 0.6 * two_spots()[0].numpy()
    source = Source("doubtful", lambda scene, query: Relevance(doubtful, query=query), narrows=True)
    scene = Scene(np.zeros((64, 64, 3), np.uint8))

    def found(query: str, by: Source = source) -> Relevance:
        maps: Maps = maps_of(by, [scene], [query])
        return maps.relevance[0]

    assert np.array_equal(found("What is the title?").map, doubtful)
    grave = found("Is there a gun?")
    assert not np.array_equal(grave.map, doubtful)
    assert "fear" in grave.notes[-1]
    plain = Source("mine", lambda scene, query: Relevance(doubtful, query=query))
    assert np.array_equal(found("Is there a gun?", plain).map, doubtful), "a caller's own map is left alone"
