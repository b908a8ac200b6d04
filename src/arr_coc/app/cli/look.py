"""`arr-coc look`: where would the tokens go?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...attending.strategies import DEFAULT_STRATEGY
from ...core.errors import InputError
from .console import print_json, say, seconds_line, show, table
from .options import (
    Clusters,
    Device,
    Gaze,
    Ocr,
    OnlyJson,
    OutFolder,
    Page,
    Pages,
    Quiet,
    Seed,
    Share,
    Tokens,
    WordsFile,
    with_options,
)

if TYPE_CHECKING:
    from ...looking import Look, LookOptions
    from .inputs import PictureSource
    from .looks import LookReport


@dataclass(frozen=True)
class LookCommand:
    """What pictures are looked at with."""

    inputs: Annotated[
        list[str],
        typer.Argument(metavar="IMAGE... QUERY", help="Files, folders, globs or -, then the question."),
    ]
    query: Annotated[
        list[str] | None,
        typer.Option("--query", "-q", help="A question; may be repeated. All arguments are then pictures."),
    ] = None
    budget: Tokens = None
    keep: Share = None
    strategy: Annotated[str, typer.Option(help="How the tokens are placed: overlay, quadtree, uniform, …")] = (
        DEFAULT_STRATEGY
    )
    clusters: Clusters = "slic"
    gaze: Gaze = None
    relevance: Annotated[
        str,
        typer.Option(
            help="Who says where to look. auto: chosen by the picture; scorer: a network that reads pages; photos: "
            "things in photographs; words: by OCR alone; look: plain words of the question and what stands out; "
            "encoder:FOLDER: your CLIP or SigLIP; detail: wherever there is fine structure; …"
        ),
    ] = "auto"
    words: WordsFile = None
    page: Page = None
    pages: Pages = None
    total: Annotated[
        bool, typer.Option("--total", help="One budget for all pictures together, as pages of one document.")
    ] = False
    photos: Annotated[
        bool,
        typer.Option(help="Use the parts for photographs where they are downloaded (arr-coc setup photos)."),
    ] = True
    ocr: Ocr = True
    compare: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Show two strategies side by side, with the same number of tokens."),
    ] = None
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="auto|TIMES",
            help="Read the picture this many times as large. auto: by its letters. [default: 1, with --grip auto]",
        ),
    ] = None
    grip: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The model that will read it, so that letters get the size it reads best: mini, a folder, a name.",
        ),
    ] = None
    seed: Seed = 0
    out: OutFolder = Path("out")
    draw: Annotated[
        bool, typer.Option(help="Draw the picture as a model would see it; else only the JSON is written.")
    ] = True
    allow_url: Annotated[bool, typer.Option("--allow-url", help="Fetch pictures that are web addresses.")] = False
    device: Device = "cpu"
    quiet: Quiet = False
    lines: Annotated[
        bool, typer.Option("--jsonl", help="Print a line of JSON for each picture as soon as it is done.")
    ] = False
    as_json: OnlyJson = False


@with_options(LookCommand)
def command(options: LookCommand) -> int:
    """Show where the tokens of a picture would go for a question. Needs no model.

    For each picture it prints a line and writes two files: NAME.homunculus.png, the picture as a model would see it,
    and NAME.allocation.json, the decision. A picture that cannot be read is reported, and the others go on. A document
    with several pages has one budget over all of them; NAME.pages.png shows which pages got tokens.

    \b
    Examples:
      arr-coc look street.png "What number is on the red sign?"
      arr-coc look street.png "What number is on the red sign?" --budget 128 --out red
      arr-coc look street.png -q "the red sign" -q "the blue sign"
      arr-coc look street.png "the red sign" --relevance scorer
      arr-coc look scan.png "How much is the total?" --words scan.hocr
      arr-coc look report.pdf "Who signed it?" --budget 256
      arr-coc look report.pdf "Who signed it?" --pages 2-5
      arr-coc look a.png b.png c.pdf "Who signed it?" --total --budget 512
      arr-coc look photos "Where is the clock?" --keep 0.1 --no-photos
      arr-coc look "scans/*.png" "What is the total?" --compare quadtree,uniform
      arr-coc look form.png "What is the date?" --json | jq .looks[0].tokens
      arr-coc look scans "What is the total?" --budget 10% --no-draw --jsonl | jq .tokens
      cat form.png | arr-coc look - "What is the date?"
    """
    from ...attending.distance import check_scale
    from ...attending.grip import as_grip
    from ...attending.request import check_amount
    from .inputs import check_clusters_of, expand, point_of
    from .looks import LookJob, look_at_all, look_entry

    images, queries = split_inputs(options.inputs, options.query)
    strategies = parse_compare(options.compare) if options.compare is not None else [options.strategy]
    if len(queries) > 1 and len(strategies) > 1:
        raise InputError("--compare takes one question; leave out --compare or all but one --query")
    how: LookOptions = {"relevance": options.relevance, "photos": options.photos, "ocr": options.ocr}
    how |= {"words": options.words, "seed": options.seed, "device": options.device}
    amount = check_amount(options.budget, options.keep)
    job = LookJob(
        expand(images, options.allow_url, chosen_pages(options.page, options.pages), options.total),
        queries,
        strategies,
        amount,
        options.out,
        options.draw,
        {**how, "scale": check_scale(options.scale), "grip": as_grip(options.grip)},
        {"clusters": options.clusters, "gaze": None if options.gaze is None else point_of(options.gaze)},
    )
    check_clusters_of([*strategies], options.clusters, options.gaze)
    if options.lines:
        return look_at_all(job, quiet=True, tell=print_json).exit_code
    one = len(job.sources) == 1
    kept = look_entry if options.as_json else None if options.quiet else (lambda *found: found) if one else summary_row
    report = look_at_all(job, quiet=options.as_json or options.quiet, keep=kept)
    if options.as_json:
        print_json(report.to_json())
    elif not options.quiet:
        print_report(report, len(queries) > 1, options.out)
    return report.exit_code


def split_inputs(inputs: list[str], query: list[str] | None) -> tuple[list[str], list[str]]:
    """The last argument is the question, unless questions are given by name."""
    if query:
        return inputs, query
    if len(inputs) < 2:
        raise InputError(f'no question was given for {inputs[0]}; write: arr-coc look {inputs[0]} "your question"')
    return inputs[:-1], inputs[-1:]


def chosen_pages(page: int | None, pages: str | None) -> str | None:
    if page is not None and pages is not None:
        raise InputError(f"both --page {page} and --pages {pages} were given; give one of them")
    return pages if page is None else str(page)


def parse_compare(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise InputError(f"--compare {text!r} does not name two strategies; write it like --compare quadtree,uniform")
    return names


# ---- what is printed ------------------------------------------------------------------------------------------------


def print_report(report: LookReport, several: bool, out: Path) -> None:
    """several: whether there are several questions."""
    if report.pictures == 1:
        for source, look, files in report.kept:
            print_look(source.file, look, files)
    elif report.kept:
        print_summary(report, several, out)
    say(*(f"side by side: {page}" for page in report.pages[:3]))


def print_look(name: str, look: Look, files: Mapping[str, str]) -> None:
    """Tokens by level with their share of the area, then the sums and the seconds."""
    from ...draw.legend import level_rows
    from .documents import DocumentLook, print_document

    if isinstance(look, DocumentLook):
        print_document(name, look, files)
        return

    allocation = look.allocation
    columns = dict.fromkeys(("level", "region", "tokens", "of tokens", "of area"), "right")
    rows = [
        (
            str(row.told),
            f"{row.side}×{row.side} px",
            str(row.tokens),
            f"{100 * row.tokens / max(allocation.tokens, 1):.1f} %",
            f"{100 * row.area:.1f} %",
        )
        for row in level_rows(allocation)
    ]
    rows.append(("all", "", str(allocation.tokens), "100.0 %", ""))
    show(table(f"{name}: {look.relevance.query}", columns, rows, sections=[len(rows) - 2]))
    say(
        f"{allocation.strategy}: {allocation.tokens} tokens of {allocation.full} ({100 * allocation.keep:.1f} %), "
        f"budget {allocation.budget}",
        f"seconds: {seconds_line(look.seconds)}",
        *(f"note: {note}" for note in look.notes),
        f"files: {', '.join(files.values())}",
    )


def summary_row(source: PictureSource, look: Look, files: Mapping[str, str]) -> tuple[str, ...]:
    """A line of the table of many pictures: nothing but texts, so that no picture is kept for it."""
    from ...draw.legend import level_rows
    from .documents import DocumentLook, document_row

    if isinstance(look, DocumentLook):
        return document_row(source, look)
    allocation, finest = look.allocation, level_rows(look.allocation)[0]
    return (
        source.file,
        look.relevance.query,
        allocation.strategy,
        str(allocation.tokens),
        f"{100 * allocation.keep:.1f} %",
        f"level {finest.told}",
        f"{100 * finest.area:.1f} %",
        f"{sum(look.seconds.values()):.2f}",
    )


def print_summary(report: LookReport, several: bool, out: Path) -> None:
    """One row for each picture, question and strategy."""
    columns = {"picture": "fold", **({"question": "left"} if several else {}), "strategy": "left"}
    columns |= dict.fromkeys(("tokens", "of full", "finest", "area finest", "seconds"), "right")
    rows = [row if several else (row[0], *row[2:]) for row in report.kept]
    show(table(f"{report.pictures} pictures", columns, rows))
    say(f"files: {out}")
    if report.errors:
        say(f"{len(report.errors)} of {report.pictures} pictures could not be used; see above")
