"""Links: what is in the address is what a visitor sees."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.app.microscope.kit import LONGEST_QUERY, PageState, read_link


@settings(max_examples=25, deadline=None)
@given(
    st.builds(
        PageState,
        tab=st.sampled_from(("ask", "compare", "clips")),
        picture=st.sampled_from(("street.png", "receipt.png", "upload")),
        q=st.text(max_size=LONGEST_QUERY),
        keep=st.floats(1, 100).map(lambda value: round(value, 1)),
        passes=st.integers(1, 4),
        by=st.sampled_from(("strategies", "questions")),
        q2=st.text(max_size=40),
    )
)
def test_a_link_brings_back_the_whole_state(state):
    found, complaints = read_link(dict(parse_qsl(state.link(), keep_blank_values=True)))
    assert found == state
    assert not complaints


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tab", "settings"),
        ("picture", "../../secret.png"),
        ("picture", "/etc/passwd"),
        ("keep", "0"),
        ("keep", "nan"),
        ("keep", "a lot"),
        ("q", "x" * (LONGEST_QUERY + 1)),
    ],
)
def test_what_a_link_gets_wrong_is_said_and_left_out(key, value):
    found, complaints = read_link({key: value, "passes": "3"})
    assert getattr(found, key) == getattr(PageState(), key)
    assert found.passes == 3
    assert len(complaints) == 1
    assert key in complaints[0]
