"""Twice what it can take, for some seconds: `scripts/load_serve.py`, which does the same for half an hour."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from tiny_weights import tiny_weights

from arr_coc import Eye


def test_overloaded_it_answers_right_or_says_later(serving: Callable[..., Any], tmp_path: Path) -> None:
    """On a tiny reader, which answers more often in as many seconds, served from this process. Whether one is told to
    come later hangs on the machine; that it is, once the queue is full, is tested with a gate."""
    load = pytest.importorskip("load_serve")
    eye = Eye.from_pretrained(str(tiny_weights(tmp_path) / "mini"))
    known = load.cases(copy(eye))
    with serving(model=eye, queue=4) as served:
        server = load.StartedServer(int(served.address.rpartition(":")[2]), os.getpid())
        tally, report = load.offer(server, known, 3, 2, queue=4)
    assert not tally.wrong, tally.wrong[:3]
    assert tally.held(), report
    assert sum(tally.statuses.values()) == tally.offered
    first, last = tally.memory[0][1], tally.memory[-1][1]
    assert last < first + 300, "memory grows with the requests"
