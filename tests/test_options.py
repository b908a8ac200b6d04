"""One `Options`: what may be asked is checked in one place, and a budget is a ceiling."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arr_coc import InputError, Options, look
from arr_coc.app.cli import main
from arr_coc.app.cli.options import described, from_text
from arr_coc.options import FOR_CLIENTS, NAMES


@given(full=st.integers(1, 5000), budget=st.integers(1, 10_000))
def test_a_budget_is_a_ceiling(full, budget):
    options = Options(budget=budget)
    assert options.tokens(full) == min(budget, full)
    assert bool(options.notes(full)) == (budget > full)


@given(full=st.integers(1, 5000), percent=st.integers(1, 100))
def test_a_share_is_never_exceeded_however_it_is_written(full, percent):
    written = [percent / 100, f"{percent}%", f" {percent} %", str(percent / 100)]
    assert {Options(budget=one).tokens(full) for one in written} == {max(1, percent * full // 100)}


def test_what_is_given_replaces_and_what_is_not_is_filled():
    options = Options(budget=64).override(budget=0.5, levels=None)
    assert (options.budget, options.levels) == (0.5, None)
    assert options.default(budget=3, levels=2).levels == 2
    assert options.default(budget=3).budget == 0.5


WRONG = [
    ({"budget": "3 %x"}, "budget .* whole number"),
    ({"budget": "0%"}, "percentage"),
    ({"budget": 1.5}, "whole number"),
    ({"budget": True}, "whole number"),
    ({"budget": [3, 0]}, "at least 1"),
    ({"cell": 0}, "cell must be at least 1, got 0"),
    ({"cell": "x"}, "cell must be a whole number, got 'x'"),
    ({"canvas": "x"}, "canvas must be"),
    ({"canvas": (1, 0)}, "canvas: the width"),
    ({"levels": "a"}, "levels must be a whole number, got 'a'"),
    ({"levels": -1}, "levels must be at least 0"),
    ({"seed": "a"}, "seed must be a whole number"),
    ({"strategy": "magic"}, "unknown strategy"),
    ({"hints": "loud"}, "hints"),
    ({"ceiling": 0}, "ceiling"),
    ({"budegt": 3}, "did you mean budget"),
    ({"lvels": 3}, "did you mean levels"),
    ({"strategy": "oracle", "boxs": []}, "did you mean boxes"),
    ({"strategy": "uniform", "boxes": []}, "strategy 'uniform' takes no options"),
    ({"strategy": "oracle", "labels": []}, "strategy 'oracle' takes boxes"),
    ({"strategy": "oracle", "strategy_options": {"labels": []}}, "strategy 'oracle' takes boxes"),
    ({"strategy_options": 3}, "strategy_options must map"),
]


@pytest.mark.parametrize(("given_options", "words"), WRONG)
def test_what_makes_no_sense_gets_one_line_from_python_and_the_command_line(given_options, words, capsys):
    with pytest.raises(InputError, match=words) as caught:
        Options.of(given_options)
    assert "\n" not in str(caught.value)
    pairs = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given_options.items()
    ]
    with pytest.raises(SystemExit) as ended:
        main(["look", "missing.png", "what?", *(word for pair in pairs for word in ("--set", pair))])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_every_option_is_explained_and_can_be_written_as_text():
    assert tuple(described()) == NAMES == tuple(one.name for one in fields(Options))
    assert from_text(["levels=2", "ocr=false", "strategy=quadtree", "canvas=[64, 96]"]) == {
        "levels": 2,
        "ocr": False,
        "strategy": "quadtree",
        "canvas": [64, 96],
    }
    with pytest.raises(InputError, match="NAME=VALUE"):
        from_text(["levels"])


def test_options_of_a_strategy_stand_among_the_others_or_by_themselves():
    inside, beside = {"strategy_options": {"boxes": [1]}}, {"boxes": [1]}
    for given_options in (inside, beside, {"strategy_options": {"boxes": [2]}, **beside}):
        options = Options.of({"strategy": "oracle", **given_options})
        assert options.strategy_options == {"boxes": [1]}


def test_a_client_may_set_few_and_name_no_file():
    options = Options.for_client({"budget": "25%", "relevance": [[0.0, 1.0]], "ocr": False})
    assert options.budget == 0.25
    assert np.array_equal(options.relevance.map, [[0.0, 1.0]])
    for wrong in ({"device": "cuda"}, {"relevance": "/etc/passwd"}, {"words": "/etc/passwd"}, {"allocation": [3]}):
        with pytest.raises(InputError, match=rf"arr_coc\.{next(iter(wrong))}"):
            Options.for_client(wrong)
    assert set(FOR_CLIENTS) < set(NAMES)


def test_a_ceiling_lowers_every_way_of_asking_and_says_so():
    for asked in (64, 0.5, "50%", None):
        options = Options(budget=asked, ceiling=10)
        assert options.tokens(100) == 10
        assert "10 tokens" in options.notes(100)[0]
        assert options.tokens(8) == Options(budget=asked).tokens(8), "a picture that costs less is left alone"
    assert Options(budget=[4, 64], ceiling=10).notes(100)
    assert not Options(budget=[4, 6], ceiling=10).notes(100)


def test_keywords_of_look_are_options_too():
    picture = np.random.default_rng(0).integers(0, 255, (96, 128, 3), dtype=np.uint8)
    one = look(picture, "what?", 6, relevance="detail", strategy="quadtree")
    same = look(picture, "what?", options=Options(budget=6, relevance="detail", strategy="quadtree"))
    assert one == same
