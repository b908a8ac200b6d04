"""The engine that needs nothing: processes of this machine, each with a pipe of its own.

A pipe of its own, because a process that is killed while it holds a shared queue's lock stops all the others. A worker
has one batch at a time, so that nothing piles up; the rows of one that died are sent out again, one by one.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from ...core.errors import InputError
from .looker import Columns, Looker, LookerOptions, as_columns, failed
from .rows import BatchRow

# Deaths on one picture after which it is its fault, and deaths at the start after which it is the machine's.
MOST_DEATHS = 2


class RowBatch(NamedTuple):
    rows: tuple[BatchRow, ...]
    deaths: int = 0


class Worker:
    """A fresh interpreter: what a fork shares with its parent does not survive threads."""

    def __init__(self, ways: LookerOptions) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, ways), daemon=True)
        self.process.start()
        theirs.close()  # so that its death is the end of the pipe
        self.batch: RowBatch | None = None
        self.ready = False

    def give(self, batch: RowBatch) -> None:
        self.batch = batch
        self.pipe.send([tuple(row) for row in batch.rows])

    def end(self) -> None:
        self.pipe.close()
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()


def work(pipe: Connection, ways: LookerOptions) -> None:
    """A worker's life: until the pipe ends, which it does when the driver ends, however that came about."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    try:
        looker = Looker(ways)
    except InputError as error:
        pipe.send(error)
        return
    pipe.send(None)
    try:
        while True:
            path, query, data = zip(*pipe.recv(), strict=True)
            pipe.send(looker({"path": path, "query": query, "data": data}))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def look_locally(rows: Iterator[BatchRow], ways: LookerOptions, workers: int, at_once: int) -> Iterator[Columns]:
    """Columns of results, batch by batch, in the order in which they are done."""
    again: deque[RowBatch] = deque()
    crew = [Worker(ways) for _ in range(workers)]
    stillborn = 0
    try:
        while True:
            for worker in crew:
                if worker.ready and worker.batch is None:
                    batch = again.popleft() if again else RowBatch(tuple(islice(rows, at_once)))
                    if batch.rows:
                        give(worker, batch, again)
            if not again and not any(worker.batch for worker in crew) and any(worker.ready for worker in crew):
                return
            by_pipe: dict[object, Worker] = {worker.pipe: worker for worker in crew}
            for pipe in wait([worker.pipe for worker in crew if worker.batch or not worker.ready]):
                worker = by_pipe[pipe]
                try:
                    found = worker.pipe.recv()
                except (EOFError, OSError):
                    stillborn += not worker.ready
                    if stillborn > MOST_DEATHS:
                        raise InputError("workers die as they start; try --workers 1, or a smaller --model") from None
                    yield from mourned(worker, again)
                    worker.end()
                    crew[crew.index(worker)] = Worker(ways)
                    continue
                if isinstance(found, Exception):
                    raise found
                if worker.ready:
                    worker.batch = None
                    yield found
                worker.ready = True
    finally:
        for worker in crew:
            worker.end()


def give(worker: Worker, batch: RowBatch, again: deque[RowBatch]) -> None:
    try:
        worker.give(batch)
    except OSError:  # dead already; the end of its pipe will be noticed
        worker.batch = None
        again.appendleft(batch)
        worker.ready = False


def mourned(worker: Worker, again: deque[RowBatch]) -> Iterator[Columns]:
    """What a dead worker had is done again, one by one; a picture that kills again and again is a row with an error."""
    if worker.batch is None:
        return
    rows, deaths = worker.batch.rows, worker.batch.deaths + (len(worker.batch.rows) == 1)
    if deaths < MOST_DEATHS:
        again.extend(RowBatch((row,), deaths) for row in rows)
        return
    yield as_columns([failed(row.path, row.query, f"workers died {deaths} times on this picture") for row in rows])
