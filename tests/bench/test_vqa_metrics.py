"""The metrics of public sets against worked examples of their papers and official code."""

from __future__ import annotations

import pytest

from arr_coc_lab.bench.scores import anls, relaxed_accuracy


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
