"""The loop of every bench that goes question by question: in order, in several processes, and stopped with a table."""

from __future__ import annotations

import os
import signal
from itertools import count

import pytest
from arr_coc_lab.bench.workers import done_by, in_turn

from arr_coc_lab.bench.run import BenchRun
from arr_coc_lab.bench.suite import suite


def squared(number: int) -> tuple[int, int]:
    """Also tells the process."""
    return number * number, os.getpid()


def test_two_workers_give_what_one_gives_in_the_same_order_and_jobs_may_be_without_end():
    found = []
    for job, (square, process) in done_by(count(), squared, 2):
        found.append((job, square))
        assert process != os.getpid()
        if len(found) == 8:
            break
    alone = [(job, made[0]) for job, made in done_by(range(8), squared)]
    assert found == alone == [(number, number * number) for number in range(8)]


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_is_begun_when_it_is_over_and_what_was_begun_is_given(workers):
    seen: list[int] = []
    given = (seen.append(number) or number for number in count())
    found = [job for job, _ in done_by(given, squared, workers, lambda: len(seen) >= 3)]
    assert found == list(range(len(found)))
    assert 0 < len(found) <= 3
    assert len(seen) <= 4


def test_a_first_signal_ends_the_loop_after_what_is_under_way_and_handlers_come_back():
    run = BenchRun(suite("grip"))
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]

    def work(number: int) -> int:
        if number == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return number

    assert [made for _, made in run.each(range(9), work, "working")] == [0, 1, 2]
    assert run.stopped
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
    assert not list(run.each(range(9), work, "working")), "a run that was stopped begins nothing more"


def test_seconds_end_a_run():
    run = BenchRun(suite("grip"), seconds=0.0)
    assert not list(run.each(range(9), squared, "working"))


def test_columns_are_taken_in_turn():
    assert list(in_turn([["a", "b", "d"], ["c"], []])) == ["a", "c", "b", "d"]
