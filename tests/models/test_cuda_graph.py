"""Recordings cannot break an answer: by the second use, never twice where one failed, never beside others at work."""

from __future__ import annotations

import gc
import threading
import warnings

import pytest
import torch

from arr_coc.core import modules as cuda_graph
from arr_coc.core.modules import OthersAtWork, Recordings, alone_on_gpu, using_gpu

CARD = torch.device("cuda")  # only its kind is asked


def run(recordings: Recordings, size: int) -> torch.Tensor:
    return recordings.run("double", lambda one: 2 * one, torch.arange(size))


def sizes(recordings: Recordings) -> list[int]:
    return [shape[0] for _, shape in recordings.held]


def test_a_size_is_recorded_when_it_comes_again_and_the_oldest_goes():
    recordings = Recordings(2, "the tower")
    first = run(recordings, 3)
    assert sizes(recordings) == []
    for size in (3, 3, 4, 4, 3, 5, 5):
        assert torch.equal(run(recordings, size), 2 * torch.arange(size))
    assert sizes(recordings) == [3, 5]
    assert torch.equal(first, torch.tensor([0, 2, 4])), "later calls leave it alone"


def test_a_recording_that_fails_is_told_once_and_never_tried_again(monkeypatch):
    recordings, tried = Recordings(2, "the tower"), []

    def fails(*_: object) -> None:
        tried.append(1)
        raise RuntimeError("operation failed due to a previous error during capture\nand more")

    monkeypatch.setattr(cuda_graph, "Recording", fails)
    run(recordings, 3)
    with pytest.warns(UserWarning, match="no CUDA graph of the tower") as told:
        assert torch.equal(run(recordings, 3), 2 * torch.arange(3))
    assert len(told) == 1
    assert "\n" not in str(told[0].message)
    with warnings.catch_warnings(action="error"):
        for _ in range(5):
            run(recordings, 3)
    assert tried == [1]


def test_who_finds_the_recordings_busy_does_without():
    recordings = Recordings(2, "the tower")
    with recordings.busy:
        for _ in range(3):
            assert torch.equal(run(recordings, 3), 2 * torch.arange(3))
    assert not recordings.held


def test_nothing_is_recorded_beside_anothers_work():
    begun, done = threading.Event(), threading.Event()

    def other() -> None:
        with using_gpu(CARD), using_gpu(CARD):
            begun.set()
            done.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    assert begun.wait(30)
    with using_gpu(CARD), pytest.raises(OthersAtWork), alone_on_gpu():
        pass
    done.set()
    thread.join()
    with using_gpu(CARD), alone_on_gpu():  # one's own work is no hindrance
        assert not gc.isenabled()
        with pytest.raises(OthersAtWork), alone_on_gpu():
            pass
    assert gc.isenabled()


def test_what_came_beside_others_is_recorded_another_time(monkeypatch):
    recordings, others = Recordings(2, "the tower"), [True, False]
    real = cuda_graph.Recording

    def record(*given: object) -> object:
        if others.pop(0):
            raise OthersAtWork
        return real(*given)

    monkeypatch.setattr(cuda_graph, "Recording", record)
    with warnings.catch_warnings(action="error"):
        for expected in ([], [], [3]):
            run(recordings, 3)
            assert sizes(recordings) == expected


def test_work_waits_for_a_recording_and_a_processor_waits_for_nobody():
    order: list[str] = []

    def other() -> None:
        with using_gpu(torch.device("cpu")):
            order.append("processor")
        with using_gpu(CARD):
            order.append("card")

    thread = threading.Thread(target=other)
    with alone_on_gpu():
        thread.start()
        while not order:
            pass
        thread.join(0.2)
        assert order == ["processor"]
    thread.join(30)
    assert order == ["processor", "card"]


def test_a_recording_that_failed_lets_others_go_on():
    with pytest.raises(ValueError, match="broken"), using_gpu(CARD), alone_on_gpu():
        raise ValueError("broken")
    with using_gpu(CARD):
        assert gc.isenabled()
    assert not cuda_graph._users
