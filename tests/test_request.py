"""One request: what may be asked is checked in one place, and a budget is a ceiling."""

from __future__ import annotations

import ast
from pathlib import Path

import arr_coc.attending.request
import pytest
from arr_coc.attending.request import Request
from hypothesis import given
from hypothesis import strategies as st

from arr_coc import InputError, look
from arr_coc.attending.strategies import find_strategy, strategy_names
from arr_coc.options import Options


@given(full=st.integers(1, 5000), budget=st.integers(1, 10_000))
def test_a_budget_is_a_ceiling(full, budget):
    request = Request(budget)
    assert request.tokens(full) == min(budget, full)
    assert bool(request.notes(full)) == (budget > full)


@given(full=st.integers(1, 5000), percent=st.integers(1, 100))
def test_a_share_is_never_exceeded_however_it_is_written(full, percent):
    written = [Request(keep=percent / 100), Request.of(budget=f"{percent}%"), Request.of(keep=f" {percent} %")]
    written += [Request.of(keep=str(percent / 100))]
    assert {one.tokens(full) for one in written} == {max(1, percent * full // 100)}


def test_one_call_may_answer_in_either_unit():
    assert Request(64).override(keep=0.5) == Request(keep=0.5)
    assert Request(keep=0.5).override(budget=64) == Request(64)
    assert Request(64).override(budget=None) == Request(64)
    with pytest.raises(InputError, match="one of them"):
        Request(64).override(budget=3, keep=0.5)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"budget": 3, "keep": 0.5}, "one of them"),
        ({"budget": "3 %x"}, "budget .* whole number"),
        ({"budget": "0%"}, "percentage"),
        ({"keep": "x%"}, "percentage"),
        ({"keep": "x"}, "share"),
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
        ({"budegt": 3}, "did you mean budget"),
        ({"lvels": 3}, "did you mean levels"),
        ({"strategy": "quadtree", "criterium": "peak"}, "did you mean criterion"),
        ({"strategy": "uniform", "criterion": "peak"}, "strategy 'uniform' takes no options"),
        ({"strategy": "quadtree", "boxes": []}, "strategy 'quadtree' takes criterion"),
    ],
)
def test_what_makes_no_sense_gets_one_line(how, words):
    with pytest.raises(InputError, match=words) as told:
        Request.of(**how)
    assert "\n" not in str(told.value)
    with pytest.raises(InputError):
        look("missing.png", "what?", **how)


def test_a_misspelt_keyword_of_the_caller_is_found_too():
    with pytest.raises(InputError, match="did you mean relevance"):
        look("missing.png", "what?", options=Options(strategy_options={"relevence": "look"}))  # type: ignore[call-arg]


def test_type_checkers_know_the_options_that_strategies_take():
    tree = ast.parse(Path(arr_coc.attending.request.__file__).read_text(encoding="utf-8"))
    kinds = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    typed = [item.target.id for item in kinds["AnyOptions"].body if isinstance(item, ast.AnnAssign)]
    assert sorted(typed) == sorted({name for one in strategy_names() for name in find_strategy(one).options})


def test_a_ceiling_lowers_every_way_of_asking_and_says_so():
    for asked in ({"budget": 64}, {"keep": 0.5}, {"budget": "50%"}, {}):
        request = Request.of(**asked, ceiling=10)
        assert request.tokens(100) == 10
        assert "10 tokens" in request.notes(100)[0]
        assert request.tokens(8) == Request.of(**asked).tokens(8), "a picture that costs less is left alone"
        assert Request.of(**asked, ceiling=8).notes(8) == Request.of(**asked).notes(8)
    assert Request.of([4, 64], ceiling=10).notes(100)
    assert not Request.of([4, 6], ceiling=10).notes(100)
    with pytest.raises(InputError, match="ceiling"):
        Request.of(4, ceiling=0)
