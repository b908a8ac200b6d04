"""The metrics of public sets against worked examples of their papers and official code."""

from __future__ import annotations

import pytest

from arr_coc_lab.bench.scores import (
    anls,
    choice,
    exact,
    normalised,
    relaxed_accuracy,
    textvqa_accuracy,
    vqa_accuracy,
)


@pytest.mark.parametrize(
    ("said", "answers", "score"),
    [
        ("ITC Limited", ["itc limited"], 1.0),  # case does not count
        ("  two   words ", ["two words"], 1 - 0 / 13),  # nor do spaces, though they lengthen
        ("itc limitee", ["ITC Limited"], 1 - 1 / 11),
        ("1/8/93", ["1/8/94", "January 8"], 1 - 1 / 6),  # the nearest of several
        ("abcd", ["abxy"], 0.5),  # a half still counts
        ("abcd", ["axyz"], 0.0),  # less than a half does not
        ("", ["x"], 0.0),
    ],
)
def test_anls(said: str, answers: list[str], score: float) -> None:
    assert anls(said, answers) == pytest.approx(score)


@pytest.mark.parametrize(
    ("said", "answer", "right"),
    [
        ("10.5", "10", True),  # 5 % and no more
        ("10.51", "10", False),
        ("9.5", "10", True),
        ("-9.5", "-10", True),
        ("50%", "0.5", True),  # a percentage is a number
        ("50%", "50", False),
        ("0.01", "0", False),  # nothing is within 5 % of nothing
        ("0", "0", True),
        ("Germany", "germany", True),
        ("Germany.", "germany", False),
        ("10,000", "10000", False),  # as in the official code: no number
    ],
)
def test_relaxed_accuracy(said: str, answer: str, right: bool) -> None:
    assert relaxed_accuracy(said, [answer]) == right


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The two dogs.", "2 dogs"),
        ("dont", "don't"),
        ("couldnt've", "couldn't've"),
        ("a man, a plan", "man plan"),
        ("yes/no", "yes no"),
        ("3,000", "3000"),
        ("1.5 miles", "1.5 miles"),
        ("None", "0"),
        ("twas", "'twas"),
        ("  black-and-white\n", "black and white"),
    ],
)
def test_normalised_as_the_official_evaluation_does_it(text: str, found: str) -> None:
    assert normalised(text) == found


@pytest.mark.parametrize(("agreeing", "score"), [(0, 0.0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1.0), (10, 1.0)])
def test_vqa_accuracy_of_ten_people(agreeing: int, score: float) -> None:
    """With n of ten agreeing, leaving one out leaves n − 1 for those n and n for the others, over three."""
    answers = ["yes"] * agreeing + [f"other {place}" for place in range(10 - agreeing)]
    assert vqa_accuracy("Yes.", answers) == pytest.approx(score)
    assert textvqa_accuracy("yes", answers) == pytest.approx(score)


def test_textvqa_cuts_possessives() -> None:
    assert textvqa_accuracy("denny's", ["denny 's"] * 10) == 1
    assert vqa_accuracy("denny's", ["denny 's"] * 10) == 0


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("B", True),
        ("b", True),
        ("(B)", True),
        ("B.", True),
        ("B) the red one", True),
        ("The answer is B", True),
        ("The answer is (B) red.", True),
        ("Answer: B", True),
        ("A", False),
        ("Because of the light, (A)", False),
        ("Black", False),  # a word is no letter
        ("", False),
    ],
)
def test_choice(said: str, right: bool) -> None:
    assert choice(said, ["B"]) == right


def test_exact() -> None:
    assert exact(" COFFEE ", ["COFFEE"]) == 1
    assert exact("coffee", ["COFFEE"]) == 0
