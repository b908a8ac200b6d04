"""`Words` from whatever a caller gives, and the phrases that stand together in a line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.core.errors import InputError
from arr_coc.pictures.words import as_words, chains, make_words, neighbours_right


def test_what_a_caller_may_give():
    pixels = as_words([("Total", (20, 10, 60, 20)), ("9.50", (70, 10, 90, 20))], (100, 200))
    shares = as_words(
        [{"text": "Total", "box": (0.1, 0.1, 0.3, 0.2)}, {"text": "9.50", "bbox": [0.35, 0.1, 0.45, 0.2]}], (100, 200)
    )
    np.testing.assert_allclose(pixels.boxes, shares.boxes, atol=1e-6)
    assert as_words(pixels, (1, 1)) is pixels
    assert len(as_words([], (10, 10))) == 0
    for wrong in (["Total"], [("Total",)], [("Total", (1, 2, 3))], [(3, (0, 0, 1, 1))], 7, {"words": "no"}):
        with pytest.raises(InputError):
            as_words(wrong, (100, 200))


def test_one_line_for_too_many_words():
    with pytest.raises(InputError, match="one page at a time"):
        make_words(["x"] * 20_001, np.zeros((20_001, 4)))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(*[st.floats(0, 1, width=32)] * 4), max_size=40))
def test_nothing_follows_two_words_and_chains_end(boxes):
    words = make_words([f"w{number}" for number in range(len(boxes))], np.array(boxes).reshape(-1, 4))
    following = neighbours_right(words.scaled, 1.1)
    taken = following[following >= 0]
    assert len(set(taken.tolist())) == len(taken)
    numbers = chains(following)
    assert all(numbers[place] == numbers[after] for place, after in enumerate(following) if after >= 0)
    assert set(numbers.tolist()) == set(range(numbers.max(initial=-1) + 1))
