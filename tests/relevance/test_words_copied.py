"""Answers that are copied from the words of a page: which words, in which order, and how sure that is."""

from __future__ import annotations

import numpy as np
import pytest

from arr_coc.knowing.words.answer import copied_answer
from arr_coc.pictures.words import make_words
from arr_coc_lab.worlds.bills import LAYOUTS, bills

LINES = (("Subtotal", "USD 120.00"), ("VAT 20%", "USD 24.00"), ("Total due", "USD 144.00"), ("Paid", "USD 44.00"))


def page(lines: tuple[tuple[str, str], ...] = LINES, order: int = 1):
    """A column of labels and a column of values."""
    texts, boxes = [], []
    for row, (label, value) in enumerate(lines):
        for left, text in ((60, label), (420, value)):
            for word in text.split():
                texts.append(word)
                boxes.append([left, 100 + 30 * row, left + 9 * len(word), 114 + 30 * row])
                left += 9 * len(word) + 5
    return make_words(texts[::order], np.array(boxes[::order], float), size=(800, 600), source="a test")


@pytest.mark.parametrize("order", [1, -1])
def test_the_total_is_not_the_subtotal_and_its_currency_is_part_of_it(order: int) -> None:
    found = copied_answer(page(order=order), "What is the total?")
    assert found is not None
    assert found.text == "USD 144.00"
    assert found.boxes.shape == (2, 4)
    other = copied_answer(page(order=order), "What is the subtotal?")
    assert other is not None
    assert other.text == "USD 120.00"


def test_a_page_without_words_has_nothing_to_copy() -> None:
    assert copied_answer(make_words([], np.zeros((0, 4)), size=(10, 10), source="a scan"), "What is the total?") is None


def test_what_is_not_on_the_page_is_less_sure() -> None:
    there, missing = (copied_answer(page(), f"What is the {name}?") for name in ("total", "name of the dog"))
    assert there is not None
    assert missing is not None
    assert there.sureness > missing.sureness + 0.1


def test_drawn_bills_repeat_and_their_answers_stand_among_their_words() -> None:
    first, second = ([*bills(12, seed=5)] for _ in range(2))
    assert [one.words.texts for one in first] == [one.words.texts for one in second]
    assert next(bills(12, seed=6)).words.texts != first[0].words.texts
    for bill in first:
        for question in bill.questions:
            apart = np.abs(bill.words.boxes[:, None] - question.answer.boxes[None]).max(-1)
            assert (apart.min(0) < 1e-4).all(), f"every word of the answer to {question.query!r} is on the page"
    assert len({*LAYOUTS}) == 5


def test_the_bundled_chooser_finds_the_sums_of_bills_that_it_has_not_seen() -> None:
    """It took the subtotal for the total in half of them, at a sureness of .97 to 1."""
    right = asked = 0
    for bill in bills(40, seed=2024, split="validation"):
        for question in bill.questions:
            if "total" in question.query.lower():
                found = copied_answer(bill.words, question.query)
                assert found is not None
                centres = (question.answer.boxes[:, :2] + question.answer.boxes[:, 2:]) / 2
                inside = (found.boxes[:, None, :2] <= centres) & (centres <= found.boxes[:, None, 2:])
                right += bool(inside.all(-1).any(0).all()) and len(found.boxes) == len(question.answer.boxes)
                asked += 1
    assert asked > 40
    assert right / asked > 0.8
