"""The same work on many things, in several processes of one thread each, until it is done or must end."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from threading import Thread
from time import sleep
from typing import TypeVar

Job = TypeVar("Job")
Made = TypeVar("Made")
AHEAD = 3  # jobs of each process that are sent to it before the first is done


def done_by(
    jobs: Iterable[Job], work: Callable[[Job], Made], workers: int = 1, over: Callable[[], bool] = lambda: False
) -> Iterator[tuple[Job, Made]]:
    """What comes of every job, in their order.

    Args:
        jobs: What is to be done; taken one by one, so they may be without end.
        work: Does one of them. With several workers it and what it makes must be picklable.
        workers: Processes. One: all is done here, and when it is asked for.
        over: Whether nothing more may be begun; what was begun is still given.
    """
    if workers == 1:
        for job in jobs:
            if over():
                return
            yield job, work(job)
        return
    # A fresh interpreter each, on one thread: pools of threads that share the cores only wait for one another.
    context, waiting = multiprocessing.get_context("spawn"), deque[tuple[Job, Future[Made]]]()
    with ProcessPoolExecutor(workers, context, _alone, (os.getpid(),)) as pool:
        try:
            rest = iter(jobs)
            while True:
                while len(waiting) < AHEAD * workers and not over():
                    try:
                        job = next(rest)
                    except StopIteration:
                        break
                    waiting.append((job, pool.submit(work, job)))
                if not waiting:
                    return
                job, made = waiting.popleft()
                if not (over() and made.cancel()):
                    yield job, made.result()
        finally:
            pool.shutdown(cancel_futures=True)


def in_turn(columns: Iterable[Iterable[Job]]) -> Iterator[Job]:
    """The first of every column, then the second of every column, …"""
    rest = [iter(column) for column in columns]
    while rest:
        for one in tuple(rest):
            try:
                yield next(one)
            except StopIteration:
                rest.remove(one)


def _alone(parent: int) -> None:
    """One thread, no Ctrl-C of its own, and an end when the one who asked has ended."""
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            sleep(2)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
