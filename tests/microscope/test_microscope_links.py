"""Links: what is in the address is what a visitor sees."""

from __future__ import annotations

from dataclasses import fields
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.app.microscope.linking import LONGEST_QUERY, TABS, PageState, check_source, open_source, read_link
from arr_coc.core.errors import InputError

SOURCES = ("example:street.png", "example:receipt.png", "needle:zoo:5", "upload")
shares = st.floats(0, 1).map(lambda value: round(value, 2))


@settings(max_examples=25, deadline=None)
@given(
    st.builds(
        PageState,
        tab=st.sampled_from(TABS),
        picture=st.sampled_from(SOURCES),
        q=st.text(max_size=LONGEST_QUERY),
        keep=st.floats(1, 100).map(lambda value: round(value, 1)),
        passes=st.integers(1, 4),
        compress=shares,
        explore=shares,
        diversify=shares,
        by=st.sampled_from(("strategies", "questions")),
        q2=st.text(max_size=40),
        seed=st.integers(0, 2**31 - 1),
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
        ("picture", "example:../../secret.png"),
        ("picture", "/etc/passwd"),
        ("picture", "needle:zoo:-1"),
        ("picture", "needle:none:1"),
        ("keep", "0"),
        ("keep", "nan"),
        ("keep", "a lot"),
        ("scale", "9"),
        ("compress", "2"),
        ("q", "x" * (LONGEST_QUERY + 1)),
    ],
)
def test_what_a_link_gets_wrong_is_told_and_left_out(key, value):
    found, complaints = read_link({key: value, "passes": "3"})
    assert getattr(found, key) == getattr(PageState(), key)
    assert found.passes == 3
    assert len(complaints) == 1
    assert key in complaints[0]


def test_every_setting_has_a_default_that_a_link_can_leave_out():
    assert read_link({}) == (PageState(), [])
    assert {one.name for one in fields(PageState)} >= {"tab", "picture", "q", "keep", "model", "passes"}


@pytest.mark.parametrize("name", ["example:nothing.png", "street.png", "needle:zoo:x", "", "upload"])
def test_unknown_pictures_are_refused_without_touching_a_file(name, tmp_path):
    for call in (lambda: check_source(name), lambda: open_source(name, tmp_path)):
        with pytest.raises(InputError):
            call()
    assert not list(tmp_path.iterdir())


def test_a_drawn_picture_comes_with_its_question_and_truth(tmp_path):
    source = open_source("needle:cards:3", tmp_path)
    (query, truth) = source.questions[0]
    assert source.path.is_relative_to(tmp_path)
    assert query
    assert truth
