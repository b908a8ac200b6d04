"""The one runner: options → lock on the folder → measure → JSON, page, tables. Every benchmark goes through it.

A benchmark is a suite (`suite.py`) whose function takes its options and a `BenchRun` and returns a `Report`. `arr-coc
bench NAME` and `python -m arr_coc_lab.bench NAME` call `perform` with the same options; the second needs neither typer
nor rich, which are not on every GPU.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from threading import current_thread, main_thread
from time import monotonic, perf_counter
from typing import Any

from arr_coc.core.errors import InputError
from arr_coc.core.files import locked_folder, same_settings, write_json, write_text, writing

from ..options import flags_of, parse
from .answers import AnswerStore
from .options import BenchOptions
from .report import Report, fill_page
from .suite import Suite, suite
from .workers import Job, Made, done_by

TOLD_EVERY = 25
SAVE_EVERY = 60.0  # seconds between two savings of what is measured so far


class PlainScreen:
    """What is printed where neither typer nor rich is installed."""

    def progress(self, steps: Sequence[str] | int | None, verb: str) -> AbstractContextManager[Callable[..., None]]:
        return nothing_shown()

    def tell(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def show(self, report: Report) -> None:
        print(report.to_markdown(), flush=True)

    def print_json(self, document: Mapping[str, object]) -> None:
        import json

        print(json.dumps(document, ensure_ascii=False), flush=True)


class RichScreen(PlainScreen):
    """The same with bars and coloured tables."""

    def progress(self, steps: Sequence[str] | int | None, verb: str) -> AbstractContextManager[Callable[..., None]]:
        from arr_coc.app.cli.console import progress

        return progress(steps, verb)

    def show(self, report: Report) -> None:
        from arr_coc.app.cli.console import say, show

        show(*(table.to_rich() for table in report.tables))
        say(*report.said())

    def print_json(self, document: Mapping[str, object]) -> None:
        from arr_coc.app.cli.console import print_json

        print_json(document)


@dataclass
class BenchRun:
    """What a benchmark is given beside its options: where to save, and how to say how far it is.

    out: the folder, None where nothing is kept. quiet: only JSON is wanted. seconds: begin nothing after so many.
    """

    suite: Suite
    out: Path | None = None
    quiet: bool = True
    screen: PlainScreen = field(default_factory=PlainScreen)
    began: float = field(default_factory=perf_counter)
    seconds: float | None = None
    stopped: bool = False
    _saved: float = 0.0

    def __post_init__(self) -> None:
        self._saved = monotonic()

    def progress(self, steps: Sequence[str] | int | None, verb: str) -> AbstractContextManager[Callable[..., None]]:
        """A bar; steps as `console.progress` takes them."""
        return nothing_shown() if self.quiet else self.screen.progress(steps, verb)

    def tell(self, line: str) -> None:
        """A line about how far it is, on the standard error."""
        if not self.quiet:
            self.screen.tell(line)

    def timed(self, line: str) -> None:
        """The same with the seconds so far."""
        self.tell(f"{perf_counter() - self.began:6.1f} s  {line}")

    def over(self) -> bool:
        """May nothing more be begun? The seconds are spent, or somebody stopped the run."""
        return self.stopped or (self.seconds is not None and perf_counter() - self.began > self.seconds)

    def each(
        self, jobs: Iterable[Job], work: Callable[[Job], Made], verb: str, workers: int = 1, steps: int | None = None
    ) -> Iterator[tuple[Job, Made]]:
        """What comes of every job, in their order, until the run is over; a first Ctrl-C ends it so, too.

        Args:
            jobs: What is to be done; lists tell how much it is.
            work: Does one of them; with several workers it must be picklable, and so must what it makes.
            verb: For the bar.
            workers: Processes, each on one thread.
            steps: How many steps the bar has, where jobs are no list.
        """
        total = len(jobs) if isinstance(jobs, Sequence) else steps
        with self.progress(total, verb) as advance, self.stoppable():
            for number, (job, made) in enumerate(done_by(jobs, work, workers, self.over), 1):
                yield job, made
                advance()
                if number % TOLD_EVERY == 0 and not sys.stderr.isatty():
                    self.timed(f"{verb}: {number} of {total}")
        if self.over():
            self.timed("stopped: this is what there is, and the same command goes on from it")

    @contextmanager
    def stoppable(self) -> Generator[None]:
        """The first Ctrl-C or SIGTERM lets what is under way end; the second one stops at once."""
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

    @contextmanager
    def answers(
        self, prefix: str, usual: str = "", settings: Mapping[str, object] | None = None
    ) -> Generator[AnswerStore]:
        """What was answered so far, and room for more.

        Args:
            prefix: Of the files `answers.jsonl` and `settings.json`.
            usual: The folder where --out names none.
            settings: What answers depend on; a folder that was begun with others is refused.
        """
        self.out = out = self.out or Path(usual)
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
            if settings is not None:
                same_settings(out / f"{prefix}settings.json", settings)
            yield AnswerStore(out / f"{prefix}answers.jsonl")

    def save(self, document: Mapping[str, object], name: str = "") -> None:
        """Keep what is measured so far. name: of the file, the suite's by default."""
        if self.out is not None:
            with writing(self.out):
                write_json(self.out / f"{name or self.suite.name}.json", document)

    def save_sometimes(self, document: Callable[[], Mapping[str, object]]) -> None:
        """The same once a minute, so that what was measured is not lost when the run is stopped."""
        if self.out is not None and monotonic() - self._saved > SAVE_EVERY:
            self.save(document())
            self._saved = monotonic()


@contextmanager
def nothing_shown() -> Generator[Callable[..., None]]:
    yield lambda name="", done=1: None


@contextmanager
def locked(folder: Path | None) -> Generator[None]:
    """One run at a time in a folder: two would measure everything twice. The lock goes with the process."""
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
        if new and not any(folder.iterdir()):  # what was asked for cannot be: leave no trace
            folder.rmdir()


def check(options: BenchOptions) -> None:
    """Refuse numbers that measure nothing, and a device that is not there."""
    for item in fields(options):
        least, value = item.metadata.get("least"), getattr(options, item.name)
        if least is not None and value is not None and value < least:
            raise InputError(f"{flags_of(item)[0]} {value:g} measures nothing; give at least {least:g}")
    device = getattr(options, "device", "")
    if device and not getattr(options, "saved", None):
        from arr_coc.looking import check_device

        check_device(device)


def perform(chosen: Suite, options: BenchOptions, screen: PlainScreen | None = None) -> list[Report]:
    """Run a benchmark: measure, write, and show.

    Args:
        chosen: The benchmark.
        options: What it is asked, an instance of `chosen.options`.
        screen: Where it is shown; nowhere by default.

    Returns:
        What was measured: one report, or one for each file that is only shown.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: threads that wait sleep, and do not spin
    check(options)
    run = BenchRun(chosen, options.out, options.as_json or screen is None, screen or PlainScreen())
    run.seconds = getattr(options, "seconds", None)
    with locked(options.out):
        found = chosen.measuring()(options, run)
        reports: list[Report] = [found] if isinstance(found, Report) else found
        for report in reports:
            if report.keep:
                run.save(report.document, report.name)
    if options.page is not None:
        write_page(options.page, reports, chosen.mark)
    for report in reports:
        if screen is None:
            continue
        if options.as_json:
            screen.print_json(report.document)
        else:
            written = () if run.out is None or not report.keep else (run.out / f"{report.name or chosen.name}.json",)
            screen.show(replace(report, files=(*written, *report.files)))
    return reports


def write_page(page: Path, reports: Sequence[Report], mark: str) -> None:
    """The whole page, or what stands between its marks."""
    with writing(page):
        if reports[0].page_text is not None:
            write_text(page, reports[0].page_text)
            return
        parts = [part for report in reports for part in report.page_parts()]
        fill_page(page, reports[0].mark or mark, *parts)


def bench(name: str, **given: Any) -> Report:
    """A benchmark from a program: `bench("needle", n=8, out=Path("out"))`."""
    chosen = suite(name)
    return perform(chosen, chosen.options(**given))[0]


def program(name: str, **instead: object) -> Callable[..., None]:
    """The `main` of `python -m`: the same benchmark without typer and rich. instead: of the options' defaults."""

    def main(arguments: Iterable[str] | None = None) -> None:
        chosen = suite(name)
        about = chosen.help(f"python -m arr_coc_lab.bench {name}").replace("\b\n", "")
        options = parse(chosen.options, arguments, about)
        usual = {item.name: item.default for item in fields(options)}
        changed = {key: value for key, value in instead.items() if getattr(options, key) == usual[key]}
        perform(chosen, replace(options, **changed), PlainScreen())

    return main
