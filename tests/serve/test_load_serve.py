"""Twice what it can take, for some seconds: `scripts/load_serve.py`, which does the same for half an hour."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))


def test_overloaded_it_answers_right_or_says_later(eye: Any) -> None:
    """eye: only for its skips."""
    load = pytest.importorskip("load_serve")
    tally, report = load.overload(8, 2, queue=4)
    assert not tally.wrong, tally.wrong[:3]
    assert tally.held(), report
    assert tally.statuses[200] >= 8
    assert tally.statuses[429] > 0
    assert sum(tally.statuses.values()) == tally.offered
    first, last = tally.memory[0][1], tally.memory[-1][1]
    assert last < first + 300, "memory grows with the requests"
