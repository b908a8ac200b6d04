"""Several readings: the surest wins, agreement lowers the uncertainty, disagreement raises it, tokens are counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_weights import signs, spoken

import arr_coc
from arr_coc.answering.chat import Turn
from arr_coc.answering.light import quick_eye
from arr_coc.answering.readings import joined_answer, read_several
from arr_coc.core.errors import InputError
from arr_coc.core.unsure import comparable
from arr_coc.core.values import Allocation, Answer, Pass

SIGNS, QUERY = signs(), "What does the pink sign say?"


def answer(text: str, uncertainty: float, tokens: int = 4, scale: float = 1.0) -> Answer:
    boxes = np.array([[0, 32 * number, 32, 32] for number in range(tokens)])
    laid = Allocation(
        boxes,
        np.zeros(tokens),
        np.ones(tokens),
        np.zeros(tokens),
        32,
        32 * tokens,
        tokens,
        tokens,
        "overlay",
        scale=scale,
    )
    return Answer(text, uncertainty, (Pass(laid, tokens, text=text, uncertainty=uncertainty),), {"answer": 1.0}, 99)


def test_one_reading_is_left_as_it_is():
    only = answer("12", 0.3)
    assert joined_answer([only]) is only


def test_the_surest_wins_and_is_shown_last_with_all_tokens_counted():
    found = joined_answer([answer("12", 0.4), answer("13", 0.2), answer("14", 0.9)])
    assert found.text == found.passes[-1].text == "13"
    assert found.tokens == 12
    assert len(found.passes) == 3
    assert found.seconds == {"answer": 3.0}
    assert "3 readings, 1 of them agree" in found.notes


def test_agreement_lowers_and_disagreement_raises():
    agree, differ = (joined_answer([answer("12", 0.4), answer(other, 0.5)]) for other in (" 1 2", "77"))
    assert agree.uncertainty < 0.4 < differ.uncertainty
    assert comparable("EUR 12 ") == comparable("eur12")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), min_size=2, max_size=5))
def test_the_uncertainty_stays_in_its_range_whatever_was_read(pairs):
    found = joined_answer([answer(text, unsure) for text, unsure in pairs])
    assert 0 <= found.uncertainty <= 1
    assert found.text == min(pairs, key=lambda pair: pair[1])[0]


def test_readings_go_on_while_unsure_from_distance_to_distance_and_share_the_budget():
    asked = []

    def ask(query, budget, scale=None, **how):
        asked.append((budget, scale))
        return answer("x", 0.9 if len(asked) < 3 else 0.05, budget, scale or 1.0)

    found = read_several(ask, 4, "what?", 50, None, None, 400, {})
    assert [budget for budget, _ in asked] == [14, 12, 12]
    assert [scale for _, scale in asked] == [None, pytest.approx(2**0.5), pytest.approx(2**-0.5)]
    assert found.tokens == 38
    asked.clear()
    assert read_several(lambda *_, **__: answer("x", 0.01), 3, "what?", 30, None, None, 400, {}).text == "x"


def test_ask_reads_again_within_the_budget_and_says_so():
    eye = quick_eye().set_image(SIGNS)
    found = eye.ask(QUERY, 48, readings=3)
    assert found.tokens <= 48
    assert all(step.tokens == 16 for step in found.passes)
    if len(found.passes) > 1:
        assert any("readings" in note for note in found.notes)
        assert len({step.allocation.scale for step in found.passes}) == len(found.passes)


def test_a_stream_says_the_surest_of_several_readings_at_once():
    eye = quick_eye().set_image(SIGNS)
    pieces, answer = spoken(eye.stream(QUERY, 12, readings=3))
    assert pieces == [answer.text]
    assert answer.tokens <= 12
    assert [step.tokens for step in answer.passes] == [4] * len(answer.passes)


def test_readings_share_a_budget_that_is_given_as_a_list_and_a_ceiling_holds_for_all_of_them():
    asked = []

    def ask(query, budget, scale=None, **how):
        asked.append(budget)
        return answer("x", 0.9, budget)

    read_several(ask, 2, "what?", [50], None, None, 400, {})
    assert asked == [25, 25]
    asked.clear()
    found = read_several(ask, 3, "what?", 90, None, None, 400, {"ceiling": 30})
    assert asked == [10, 10, 10]
    assert any("more than 30 tokens" in note for note in found.notes)
    with pytest.raises(InputError, match="got 2 budgets"):
        read_several(ask, 2, "what?", [50, 60], None, None, 400, {})


def test_several_readings_are_of_one_picture():
    eye = quick_eye().set_image(SIGNS)
    two = [Turn("user", (SIGNS, SIGNS, QUERY))]
    with pytest.raises(InputError, match="one picture, and 2 are shown"):
        eye.ask(two, 48, readings=2)


@pytest.mark.parametrize("wrong", [0, 9, 1.5, "three"])
def test_a_number_of_readings_that_cannot_be_is_told(wrong):
    with pytest.raises(InputError, match="readings must be"):
        arr_coc.ask(SIGNS, QUERY, 48, readings=wrong)


def test_an_allocation_says_where_to_look_and_is_read_once():
    laid = arr_coc.ask(SIGNS, QUERY, 32).allocation
    with pytest.raises(InputError, match="leave out readings="):
        arr_coc.ask(SIGNS, QUERY, allocation=laid, readings=2)
