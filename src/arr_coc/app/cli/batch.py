"""Looking at one picture or many: one that fails is reported, the others go on, files are written as they come."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any
from zlib import Z_RLE

from ...errors import InputError
from ...files import replacing, write_json
from ...looking import Look, Prepared, check_relevance, check_request, check_strategies, import_rooms, prepare
from . import INTERRUPTED, USAGE_ERROR, complain
from .targets import result_names, writing

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Job:
    paths: list[Path]
    queries: list[str]
    strategies: list[str]
    budget: int | None
    keep: float | None
    seed: int
    device: str
    out: Path
    relevance: str = "look"
    photos: bool = True


@dataclass
class Report:
    """What came of a job. looks: one for each picture, question and strategy, with the files written for it."""

    pictures: int
    looks: list[tuple[Path, Look, dict[str, str]]] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return INTERRUPTED
        return USAGE_ERROR if self.errors else 0

    def failed(self, path: Path, error: InputError) -> None:
        self.errors.append((str(path), str(error)))
        complain(str(error))

    def to_json(self) -> dict[str, Any]:
        return {
            "looks": [
                {
                    "image": str(path),
                    "query": look.relevance.query,
                    "strategy": look.allocation.strategy,
                    "budget": look.allocation.budget,
                    "tokens": look.allocation.tokens,
                    "full": look.allocation.full,
                    "tokens_by_level": {str(level): n for level, n in look.allocation.tokens_by_level().items()},
                    "seconds": dict(look.seconds),
                    "notes": list(look.notes),
                    "files": files,
                    "allocation": look.allocation.to_json(),
                }
                for path, look, files in self.looks
            ],
            "comparisons": self.pages,
            "errors": [{"image": name, "error": line} for name, line in self.errors],
        }


def run_batch(job: Job, *, quiet: bool = False) -> Report:
    """Look at every picture of `job`. quiet: no progress bar."""
    check_request(job.queries, job.budget, job.keep)
    check_relevance(job.relevance)
    report = Report(pictures=len(job.paths))
    many = len(job.paths) > 1
    with _progress(len(job.paths), quiet or not many) as advance:
        try:
            for path, name in zip(job.paths, result_names(job.paths), strict=True):
                _one_picture(job, path, f"{name}." if many else "", report)
                advance()
        except KeyboardInterrupt:
            report.interrupted = True
            complain(f"stopped; {len(report.looks)} results are in {job.out}")
    return report


def _one_picture(job: Job, path: Path, prefix: str, report: Report) -> None:
    """Look, draw and write; a picture that cannot be used is reported, a job that cannot be done stops everything."""
    try:
        prepared = prepare(path)
    except InputError as error:
        report.failed(path, error)
        return
    started = perf_counter()
    check_strategies(job.strategies, job.device)
    for strategy in job.strategies:
        import_rooms(strategy, job.device, job.relevance)
    _one_thread()
    importing = perf_counter() - started
    try:
        looks = [look.timed("import", importing + look.seconds["import"]) for look in _looks(job, prepared)]
    except InputError as error:
        report.failed(path, error)
        return
    _write_results(job, path, prefix, looks, report)


def _one_thread() -> None:
    """Maps of a few hundred pixels a side take a millisecond; waking and waiting for threads takes longer than that.

    Says nothing to a torch that was not imported: one picture's quadtree does without.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _write_results(job: Job, path: Path, prefix: str, looks: list[Look], report: Report) -> None:
    from ...draw import comparison, homunculus

    for number, look in enumerate(looks, start=1):
        # Several questions are told apart by number, several strategies by name.
        tag = "" if len(looks) == 1 else f".{look.allocation.strategy}" if len(job.strategies) > 1 else f".{number}"
        page, document = job.out / f"{prefix}homunculus{tag}.png", job.out / f"{prefix}allocation{tag}.json"
        started = perf_counter()
        drawn = homunculus(look.picture, look.allocation, look.relevance, look.relevance.query)
        look = look.timed("draw", perf_counter() - started)
        started = perf_counter()
        with writing(page):
            save_png(drawn, page)
        with writing(document):
            write_json(document, look.allocation.to_json())
        look = look.timed("save", perf_counter() - started)
        report.looks.append((path, look, {"homunculus": str(page), "allocation": str(document)}))
    if len(looks) == 2:
        by_strategy = len(job.strategies) > 1
        page = job.out / f"{prefix}comparison.png"
        drawn = comparison(
            looks[0].picture,
            [look.allocation for look in looks],
            job.strategies if by_strategy else job.queries,
            job.queries[0] if by_strategy else "",
        )
        with writing(page):
            save_png(drawn, page)
        report.pages.append(str(page))


def _looks(job: Job, prepared: Prepared) -> list[Look]:
    """Every question with every strategy; strategies that are compared get what the first of them spent."""
    looks: list[Look] = []
    for query in job.queries:
        for number, strategy in enumerate(job.strategies):
            budget, keep = (job.budget, job.keep) if not number else (looks[-1].allocation.tokens, None)
            how: dict[str, Any] = {"seed": job.seed, "device": job.device, "relevance": job.relevance}
            how["photos"] = job.photos
            looks.append(prepared.look(query, budget=budget, keep=keep, strategy=strategy, **how))
    return looks


def save_png(image: Image, path: Path) -> None:
    with replacing(path) as temporary:
        # Run lengths at level 1 take a fraction of the default's time, and the file is hardly larger.
        image.save(temporary, compress_level=1, compress_type=Z_RLE)


@contextmanager
def _progress(total: int, hidden: bool) -> Generator[Any]:
    """A bar on the standard error, only where somebody watches."""
    if hidden or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("looking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("looking", total=total)
        yield lambda: bar.advance(task)
