"""Recordings that cannot break an answer: by the second use, never twice where one failed, nothing freed in between."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import pytest
import torch

from arr_coc.core import cuda_graph
from arr_coc.core.cuda_graph import CudaGraph, GraphCache, OthersAtWork, gpu_lock, undisturbed, using_gpu


class Counted:
    """Counts how often each key is recorded."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def maker(self, key: str):
        def make() -> str:
            self.made.append(key)
            return f"graph of {key}"

        return make


def test_a_size_is_recorded_when_it_comes_again_and_the_oldest_goes():
    cache, counted = GraphCache[str](2, "the tower"), Counted()
    assert cache.get("a", counted.maker("a")) is None
    assert cache.get("a", counted.maker("a")) == "graph of a"
    assert cache.get("a", counted.maker("a")) == "graph of a"
    assert cache.get("b", counted.maker("b"), at_once=True) == "graph of b"
    cache.get("a", counted.maker("a"))
    assert cache.get("c", counted.maker("c"), at_once=True) == "graph of c"
    assert len(cache) == 2
    assert cache.get("b", counted.maker("b")) is None, "it fell out, and has to come twice again"
    assert counted.made == ["a", "b", "c"]


def test_a_recording_that_fails_is_told_once_and_never_tried_again():
    cache, tried = GraphCache[str](2, "the tower"), []

    def fails() -> str:
        tried.append(1)
        raise RuntimeError("operation failed due to a previous error during capture\nand more")

    assert cache.get("a", fails) is None
    with pytest.warns(UserWarning, match="no CUDA graph of the tower") as told:
        assert cache.get("a", fails) is None
    assert len(told) == 1
    assert "\n" not in str(told[0].message)
    with warnings.catch_warnings(action="error"):
        assert all(cache.get("a", fails, at_once=True) is None for _ in range(5))
    assert tried == [1]


def test_keys_that_came_once_are_not_remembered_for_ever():
    cache, counted = GraphCache[str](2, "the tower", seen=4), Counted()
    for number in range(100):
        assert cache.get(f"{number}", counted.maker("")) is None
    assert len(cache.once) == 4


def test_nothing_is_freed_or_collected_while_one_is_recorded():
    freed: list[int] = []

    class Graph:
        def __del__(self) -> None:
            freed.append(1)

    work = CudaGraph(lambda: 3, torch.device("cpu"))
    assert work() == 3
    work.graph = Graph()  # type: ignore[assignment]
    with undisturbed():
        assert not gc.isenabled()
        del work
        with undisturbed():
            pass
        assert not gc.isenabled(), "the inner one leaves the outer one alone"
        assert not freed
    assert freed
    assert gc.isenabled()
    assert cuda_graph._waiting is None
    later = CudaGraph(lambda: 3, torch.device("cpu"))
    later.graph = Graph()  # type: ignore[assignment]
    del later
    assert len(freed) == 2, "at any other time it goes at once"


def test_two_threads_never_record_at_once():
    inside, most = [], []

    def record() -> None:
        with suppress(OthersAtWork), undisturbed():
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=record) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert max(most) == 1
    assert gc.isenabled()


CARD = torch.device("cuda")  # only its kind is asked


@pytest.fixture(autouse=True)
def rested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waited in vain before, and nobody does so for long."""
    monkeypatch.setattr(cuda_graph, "_tired", 0.0)
    monkeypatch.setattr(cuda_graph, "PATIENCE", 0.2)


def started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_who_wants_to_record_waits_for_the_others_and_nobody_new_begins(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda_graph, "PATIENCE", 30.0)
    order, begun, done = [], threading.Event(), threading.Event()

    def other() -> None:
        with using_gpu(CARD):
            begun.set()
            done.wait(30)
            with using_gpu(CARD):  # who works already is not held up
                order.append("work")

    def late() -> None:
        with using_gpu(CARD):
            order.append("late")

    def record() -> None:
        with using_gpu(CARD), undisturbed():
            order.append("recorded")

    threads = [started(other)]
    assert begun.wait(30)
    threads.append(started(record))
    until = monotonic() + 30
    while cuda_graph._recorder is None:
        assert monotonic() < until, "nobody waits to record"
    threads.append(started(late))
    threads[-1].join(0.1)
    assert order == []
    done.set()
    for one in threads:
        one.join(30)
    assert order == ["work", "recorded", "late"]


def test_who_waited_in_vain_does_not_wait_again_at_once():
    begun, done = threading.Event(), threading.Event()

    def other() -> None:
        with using_gpu(CARD):
            begun.set()
            done.wait(30)

    thread = started(other)
    assert begun.wait(30)
    for _ in range(2):
        with pytest.raises(OthersAtWork), undisturbed():
            pass
    tired = cuda_graph._tired
    with pytest.raises(OthersAtWork), undisturbed():
        pass
    assert cuda_graph._tired == tired > 0, "the later ones did not wait"
    done.set()
    thread.join()
    assert recorded() == "graph", "alone, there is nothing to wait for"


def test_who_waits_for_the_recorders_lock_does_not_hinder_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda_graph, "PATIENCE", 30.0)
    lock, order = threading.Lock(), []

    def other() -> None:
        with using_gpu(CARD), gpu_lock(lock):
            order.append("other")
            assert cuda_graph._users[threading.get_ident()] == 1

    with using_gpu(CARD), gpu_lock(lock):
        thread = started(other)
        thread.join(0.1)
        with undisturbed():
            order.append("recorded")
    thread.join(30)
    assert order == ["recorded", "other"]
    assert not cuda_graph._users
    assert not lock.locked()


def recorded() -> str:
    with undisturbed():
        return "graph"


def test_nothing_is_recorded_beside_anothers_work_and_it_is_tried_again():
    cache, begun, done = GraphCache[str](2, "the tower"), threading.Event(), threading.Event()

    def other() -> None:
        with using_gpu(CARD), using_gpu(CARD):
            begun.set()
            done.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    assert begun.wait(30)
    with warnings.catch_warnings(action="error"), using_gpu(CARD):  # one's own work is no hindrance
        assert [cache.get("a", recorded, at_once=True) for _ in range(3)] == [None] * 3
    done.set()
    thread.join()
    with using_gpu(CARD):
        assert cache.get("a", recorded) == "graph"


def test_work_waits_for_a_recording_and_a_processor_waits_for_nobody():
    order: list[str] = []

    def other() -> None:
        with using_gpu(torch.device("cpu")):
            order.append("processor")
        with using_gpu(CARD):
            order.append("card")

    thread = threading.Thread(target=other)
    with undisturbed():
        thread.start()
        while not order:
            pass
        thread.join(0.2)
        assert order == ["processor"]
    thread.join(30)
    assert order == ["processor", "card"]
    assert not cuda_graph._users
    assert cuda_graph._recorder is None


def test_a_recording_that_failed_lets_others_go_on():
    with pytest.raises(ValueError, match="broken"), using_gpu(CARD), undisturbed():
        raise ValueError("broken")
    assert not cuda_graph._users
    assert cuda_graph._recorder is None
