"""Looking at one picture or many: one that fails is reported, the others go on, files are written as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ...core.arrays import torch_threads
from ...core.errors import InputError
from ...core.files import write_json
from ...core.values import JsonObject
from ...looking import Look, check_relevance, check_request, check_strategies, import_rooms, prepare
from ...pictures.document import Document
from ...pictures.pdf import PdfPlace
from .console import INTERRUPTED, USAGE_ERROR, complain, progress, save_png, writing
from .documents import DocumentLook, write_document
from .inputs import PictureSource, quiet_decoder, result_names

if TYPE_CHECKING:
    from ...looking import LookOptions, Prepared, PreparedDocument

Looks = list[Look | DocumentLook]
Keep = Callable[[PictureSource, Any, dict[str, str]], Any]


@dataclass(frozen=True)
class LookJob:
    """amount: budget and keep. draw: whether pages are drawn beside the allocations. how: keywords of `look` that all
    pictures share. clusters: more of them, for the strategy of that name."""

    sources: list[PictureSource]
    queries: list[str]
    strategies: list[str]
    amount: tuple[int | None, float | None]
    out: Path
    draw: bool
    how: LookOptions
    clusters: LookOptions


@dataclass
class LookReport:
    """What came of a job. kept: what `keep` made of each look, which must not hold its picture: there may be thousands.

    keep: called with source, look and the files written for it; None keeps nothing. tell: called with each entry of the
    JSON as soon as there is one.
    """

    pictures: int
    keep: Keep | None = None
    tell: Callable[[JsonObject], None] | None = None
    number: int = 0
    kept: list[Any] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return INTERRUPTED
        return USAGE_ERROR if self.errors else 0

    def failed(self, source: PictureSource, error: InputError) -> None:
        self.errors.append((source.name, str(error)))
        complain(str(error))
        if self.tell is not None:
            self.tell(error_entry(*self.errors[-1]))

    def succeeded(self, source: PictureSource, look: Look | DocumentLook, files: dict[str, str]) -> None:
        self.number += 1
        if self.keep is not None:
            self.kept.append(self.keep(source, look, files))
        if self.tell is not None:
            self.tell(look_entry(source, look, files))

    def to_json(self) -> JsonObject:
        """Where `look_entry` was kept."""
        return {"looks": self.kept, "comparisons": self.pages, "errors": [error_entry(*one) for one in self.errors]}


def look_entry(source: PictureSource, look: Look | DocumentLook, files: dict[str, str]) -> JsonObject:
    """A look at a picture or at a document, for JSON."""
    allocation = look.allocation
    if isinstance(look, DocumentLook):
        query, said = look.query, allocation.notes
        spent = {"pages": {str(page.number): page.tokens for page in look.allocation.pages}}
    else:
        query, said = look.relevance.query, look.relevance.notes
        spent = {"tokens_by_level": {str(level): n for level, n in look.allocation.tokens_by_level().items()}}
    return {
        "image": source.name,
        "query": query,
        "strategy": allocation.strategy,
        "budget": allocation.budget,
        "tokens": allocation.tokens,
        "full": allocation.full,
        **spent,
        "seconds": dict(look.seconds),
        "relevance": said[0] if said else "",
        "notes": list(look.notes),
        "files": files,
        "allocation": allocation.to_json(),
    }


def error_entry(name: str, line: str) -> dict[str, str]:
    return {"image": name, "error": line}


def look_at_all(
    job: LookJob, *, quiet: bool = False, keep: Keep | None = None, tell: Callable[[JsonObject], None] | None = None
) -> LookReport:
    """Look at every picture of `job`. quiet: no progress bar. keep, tell: see `LookReport`."""
    check_request(job.queries, *job.amount)
    words, relevance = job.how["words"], job.how["relevance"]
    known = words is not None or any(isinstance(source.place, PdfPlace | Document) for source in job.sources)
    check_relevance(relevance, ("pixels", "texture", *(("words",) if known else ())))
    if words is not None and len(job.sources) > 1:
        raise InputError(f"--words {words} is of one picture, not of {len(job.sources)}; give one picture")
    if relevance == "words" and not known and not quiet:
        complain("reading words by OCR: some seconds for every picture that was not read before")
    report = LookReport(len(job.sources), keep, tell)
    many = len(job.sources) > 1
    with progress(len(job.sources), "looking", hidden=quiet or not many) as advance:
        try:
            for source, name in zip(job.sources, result_names(job.sources), strict=True):
                _one_picture(job, source, name, report)
                advance()
        except KeyboardInterrupt:
            report.interrupted = True
            complain(f"stopped; {report.number} results are in {job.out}")
    return report


def _one_picture(job: LookJob, source: PictureSource, name: str, report: LookReport) -> None:
    """Look, draw and write; a picture that cannot be used is reported, a job that cannot be done stops everything."""
    try:
        with quiet_decoder(source):
            prepared = prepare(source.place)
    except InputError as error:
        report.failed(source, error)
        return
    started = perf_counter()
    check_strategies(job.strategies, job.how["device"])
    for strategy in job.strategies:
        import_rooms(strategy, job.how["device"], job.how["relevance"])
    importing = perf_counter() - started
    try:
        with torch_threads(1):
            looks = [look.timed("import", importing + look.seconds["import"]) for look in _looks(job, prepared)]
    except InputError as error:
        report.failed(source, error)
        return
    _write_results(job, source, name, looks, report)


def _write_results(job: LookJob, source: PictureSource, name: str, looks: Looks, report: LookReport) -> None:
    """Named after the picture, so that a second picture does not take the place of the first."""
    for number, look in enumerate(looks, start=1):
        # Several questions are told apart by number, several strategies by name.
        tag = "" if len(looks) == 1 else f".{look.allocation.strategy}" if len(job.strategies) > 1 else f".{number}"
        files = {}
        if isinstance(look, DocumentLook):
            report.succeeded(source, *write_document(job.out, name, tag, look, job.draw))
            continue
        if job.draw:
            from ...draw import homunculus

            page = job.out / f"{name}.homunculus{tag}.png"
            started = perf_counter()
            drawn = homunculus(look.picture, look.allocation, look.relevance, look.relevance.query)
            look = look.timed("draw", perf_counter() - started)
            files["homunculus"] = str(page)
        started = perf_counter()
        with writing(job.out):
            if job.draw:
                save_png(drawn, page)
            document = job.out / f"{name}.allocation{tag}.json"
            write_json(document, look.allocation.to_json())
        files["allocation"] = str(document)
        look = look.timed("save", perf_counter() - started)
        report.succeeded(source, look, files)
    pictured = [look for look in looks if isinstance(look, Look)]
    if len(pictured) == 2 and job.draw:
        from ...draw import comparison

        by_strategy = len(job.strategies) > 1
        page = job.out / f"{name}.comparison.png"
        drawn = comparison(
            pictured[0].picture,
            [look.allocation for look in pictured],
            job.strategies if by_strategy else job.queries,
            job.queries[0] if by_strategy else "",
        )
        with writing(job.out):
            save_png(drawn, page)
        report.pages.append(str(page))


def _looks(job: LookJob, prepared: Prepared | PreparedDocument) -> Looks:
    """Every question with every strategy; strategies that are compared get what the first of them spent."""
    looks: Looks = []
    for query in job.queries:
        for number, strategy in enumerate(job.strategies):
            amount = (looks[-1].allocation.tokens, None) if number else job.amount
            how: LookOptions = {**job.how, "strategy": strategy}
            how |= job.clusters if strategy == "clusters" else {}
            looks.append(prepared.look(query, *amount, **how))
    return looks
