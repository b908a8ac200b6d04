"""The loop of every suite: run jobs, store their rows, make a report.

A suite is a module with `plan(options)`, which returns a `Plan`: the jobs with the keys of their rows, the function
that runs one job, and the function that turns rows into a report.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from threading import Thread, current_thread, main_thread
from time import perf_counter, sleep
from typing import Any, Protocol, TypeVar

from arr_coc.app.cli.console import print_json, progress, say
from arr_coc.core.errors import InputError
from arr_coc.core.folders import write_json, writing
from arr_coc.core.runs import locked_folder

from ..options import flags_of
from .report import Report
from .rows import BenchRow, Key, RowStore, complete
from .suite import BenchOptions, Suite, suite

AHEAD = 3  # jobs sent to each process before its first is finished
SAY_EVERY = 25  # jobs between two lines of progress if there is no bar
Item = TypeVar("Item")


@dataclass(frozen=True)
class Job:
    """The input of one piece of work (picklable), and the keys of the rows that it makes."""

    what: Any
    keys: tuple[Key, ...]


class Work(Protocol):
    """Run one job, in any process. With several workers it must be picklable. wanted: the keys without a row."""

    def __call__(self, what: Any, wanted: tuple[Key, ...], /) -> Iterable[BenchRow]: ...


@dataclass(frozen=True)
class Plan:
    """The work of a suite.

    Attributes:
        jobs: All jobs, in an order that leaves a balanced table when the run is interrupted.
        work: Runs one job.
        report: Makes tables from the rows.
        settings: Settings, besides the key, on which rows depend; a folder with other settings is refused.
        name: Name of the files in --out; by default the suite's.
        whole: Report only the questions that every system has answered.
    """

    jobs: Sequence[Job]
    work: Work
    report: Callable[[list[BenchRow]], Report]
    settings: Mapping[str, object] = field(default_factory=dict)
    name: str = ""
    whole: bool = True


class BenchRun:
    """One run of a plan: its time limit, and whether it was interrupted. shown: print lines and a progress bar."""

    def __init__(self, shown: bool, seconds: float | None = None) -> None:
        self.shown, self.seconds = shown, seconds
        self.began, self.stopped = perf_counter(), False

    def over(self) -> bool:
        """Tell whether no further job may begin."""
        return self.stopped or (self.seconds is not None and perf_counter() - self.began > self.seconds)

    def fill(self, store: RowStore, plan: Plan, workers: int) -> None:
        """Run the jobs that the store lacks, and store every row at once."""
        waiting = [(job.what, wanted) for job in plan.jobs if (wanted := store.missing(job.keys))]
        with progress(len(waiting), "measuring", hidden=not self.shown) as advance, self.stoppable():
            for number, rows in enumerate(done_by(waiting, plan.work, workers, self.over), 1):
                for row in rows:
                    store.add(row)
                    if self.over() and workers == 1:
                        break
                advance()
                if self.shown and number % SAY_EVERY == 0 and not sys.stderr.isatty():
                    print(f"{perf_counter() - self.began:6.1f} s  {number} of {len(waiting)}", file=sys.stderr)
        if self.over() and self.shown:
            print("Interrupted. Partial results shown; rerun the same command with --out to resume.", file=sys.stderr)

    @contextmanager
    def stoppable(self) -> Generator[None]:
        """End the run after the current row at the first Ctrl-C or SIGTERM, at once at the second."""
        caught = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
        before = {number: signal.getsignal(number) for number in caught}

        def stop(number: int, frame: object) -> None:
            self.stopped = True
            for one, handler in before.items():
                signal.signal(one, handler)

        for number in caught:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


# ---- processes -------------------------------------------------------------------------------------------------------


def done_by(
    jobs: Sequence[tuple[Any, tuple[Key, ...]]], work: Work, workers: int, over: Callable[[], bool]
) -> Iterator[Iterable[BenchRow]]:
    """Yield the rows of every job, in order, until the run is over. One worker: all in this process, row by row."""
    if workers == 1:
        for what, wanted in jobs:
            if over():
                return
            yield work(what, wanted)
        return
    # A new interpreter each, on one thread: thread pools that share cores only wait for one another.
    context, waiting = multiprocessing.get_context("spawn"), deque[Future[list[BenchRow]]]()
    with ProcessPoolExecutor(workers, context, _alone, (os.getpid(),)) as pool:
        try:
            rest = iter(jobs)
            while True:
                while len(waiting) < AHEAD * workers and not over() and (job := next(rest, None)) is not None:
                    waiting.append(pool.submit(_all_rows, work, *job))
                if not waiting:
                    return
                rows = waiting.popleft()
                if not (over() and rows.cancel()):
                    yield rows.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _all_rows(work: Work, what: Any, wanted: tuple[Key, ...]) -> list[BenchRow]:
    return list(work(what, wanted))


def _alone(parent: int) -> None:
    """Set up a worker: one thread, ignore Ctrl-C, and exit when the parent process has ended."""
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            sleep(2)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def in_turn(columns: Iterable[Iterable[Item]]) -> Iterator[Item]:
    """Yield the first item of every column, then the second of every column, …"""
    rest = [iter(column) for column in columns]
    while rest:
        for one in tuple(rest):
            try:
                yield next(one)
            except StopIteration:
                rest.remove(one)


# ---- a whole run -----------------------------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path | None) -> Generator[None]:
    """Lock a folder for one run: two would measure everything twice. The lock ends with the process."""
    if folder is None:
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; give a folder")
    new = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked_folder(folder, "bench"):
            yield
    finally:
        if new and not any(folder.iterdir()):  # a refused request leaves no trace
            folder.rmdir()


def check(options: BenchOptions) -> None:
    """Refuse numbers that measure nothing, and a device that is missing."""
    for item in fields(options):
        least, value = item.metadata.get("least"), getattr(options, item.name)
        if least is not None and value is not None and value < least:
            raise InputError(f"{flags_of(item)[0]} {value:g} measures nothing; give at least {least:g}")
    from arr_coc.looking import check_device

    check_device(options.device)


def perform(chosen: Suite, options: BenchOptions, shown: bool = False) -> Report:
    """Run a suite: measure, write, and show.

    Args:
        chosen: The suite.
        options: An instance of `chosen.options`.
        shown: Print tables, or JSON with --json.

    Returns:
        The report, with the rows of its tables.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads sleep instead of spin
    check(options)
    with locked(options.out):
        plan = chosen.plan()(options)
        name = plan.name or chosen.name
        store = RowStore(None if options.out is None else options.out / f"{name}.jsonl", plan.settings)
        BenchRun(shown and not options.as_json, options.seconds).fill(store, plan, options.workers)
        rows = store.found(key for job in plan.jobs for key in job.keys)
        rows = complete(rows) if plan.whole else rows
        if not rows:
            raise InputError("no question was answered by every system; raise --seconds")
        report = plan.report(rows)
        document = {"suite": chosen.name, "settings": dict(plan.settings), **report.document()}
        if options.out is not None:
            write_json(options.out / f"{name}.json", document)
    if shown and options.as_json:
        print_json(document)
    elif shown:
        say(report.to_markdown())
    return report


def bench(name: str, **given: Any) -> Report:
    """Run a suite from a program: `bench("needle", n=8, out=Path("out"))`."""
    chosen = suite(name)
    return perform(chosen, chosen.options(**given))
