"""Recordings that cannot break an answer: by the second use, never twice where one failed, nothing freed in between."""

from __future__ import annotations

import gc
import threading
import warnings

import pytest
import torch

from arr_coc.core import cuda_graph
from arr_coc.core.cuda_graph import CudaGraph, GraphCache, undisturbed


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
        with undisturbed():
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
