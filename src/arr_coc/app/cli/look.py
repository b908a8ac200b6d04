"""`arr-coc look`: where would the tokens go?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.errors import InputError
from ...core.values import JsonObject
from .console import INTERRUPTED, complain, print_json, progress, say
from .options import Choices, OnlyJson, OutFolder, Pages, with_options

if TYPE_CHECKING:
    from ...decide_document import DocumentLook
    from ...looking import Look
    from ...options import Options
    from .inputs import PictureSource


@dataclass(frozen=True, kw_only=True)
class LookCommand(Choices):
    """What pictures are looked at with."""

    inputs: Annotated[
        list[str],
        typer.Argument(metavar="IMAGE... QUERY", help="Files, folders, globs or -, then the question."),
    ]
    query: Annotated[
        list[str] | None,
        typer.Option("--query", "-q", help="A question; may be repeated. All arguments are then pictures."),
    ] = None
    pages: Pages = None
    out: OutFolder = Path("out")
    as_json: OnlyJson = False


@with_options(LookCommand)
def command(given: LookCommand) -> int:
    """Show where the tokens of a picture would go for a question. Needs no model.

    For each picture it prints a line and writes two files: NAME.homunculus.png, the picture as a model would see it,
    and NAME.allocation.json, the decision. A picture that cannot be read is reported, and the others go on. A document
    with several pages has one budget over all of them; NAME.pages.png shows which pages got tokens.

    \b
    Examples:
      arr-coc look street.png "What number is on the red sign?"
      arr-coc look street.png "What number is on the red sign?" --budget 128 --out red
      arr-coc look street.png -q "the red sign" -q "the blue sign"
      arr-coc look street.png "the red sign" --set relevance=scorer
      arr-coc look scan.png "How much is the total?" --set words=scan.hocr
      arr-coc look report.pdf "Who signed it?" --pages 2-5 --budget 256
      arr-coc look a.png b.png c.pdf "Who signed it?" --set total=true --budget 512
      arr-coc look "scans/*.png" "What is the total?" --set strategy=quadtree
      arr-coc look form.png "What is the date?" --json | jq .looks[0].tokens
      cat form.png | arr-coc look - "What is the date?"
    """
    from ...looking import check_look
    from ...pictures.document import Document
    from ...pictures.pdf import PdfPlace
    from .inputs import expand, result_names
    from .results import look_entry, print_look, print_summary, summary_row, write_look

    images, queries = split_inputs(given.inputs, given.query)
    options = given.options
    sources = expand(images, given.pages, options.total)
    known = options.words is not None or any(isinstance(source.place, PdfPlace | Document) for source in sources)
    for query in queries:
        check_look(query, options, known)
    if options.words is not None and len(sources) > 1:
        raise InputError(f"words={options.words} are of one picture, not of {len(sources)}; give one picture")
    entries: list[JsonObject] = []
    rows: list[tuple[str, ...]] = []
    errors: list[dict[str, str]] = []
    code = 0
    with progress(len(sources), "looking", hidden=given.as_json or len(sources) == 1) as advance:
        try:
            for source, name in zip(sources, result_names(sources), strict=True):
                try:
                    looks = looks_at(source, queries, options)
                except InputError as error:
                    errors.append({"image": source.name, "error": str(error)})
                    code = complain(str(error))
                    looks = []
                for number, look in enumerate(looks, start=1):
                    look, files = write_look(given.out, name, f".{number}" if len(looks) > 1 else "", look)
                    if given.as_json:
                        entries.append(look_entry(source, look, files))
                    elif len(sources) == 1:
                        print_look(source.file, look, files)
                    else:
                        rows.append(summary_row(source, look))
                advance()
        except KeyboardInterrupt:
            code = INTERRUPTED
            complain(f"interrupted; what is done is in {given.out}")
    if given.as_json:
        print_json({"looks": entries, "errors": errors})
        return code
    if rows:
        print_summary(rows, len(sources), len(queries) > 1)
        say(f"files: {given.out}")
    if errors and rows:
        say(f"{len(errors)} of {len(sources)} pictures could not be used; see above")
    return code


def split_inputs(inputs: list[str], query: list[str] | None) -> tuple[list[str], list[str]]:
    """The last argument is the question, unless questions are given by name."""
    if query:
        return inputs, query
    if len(inputs) < 2:
        raise InputError(f'no question was given for {inputs[0]}; write: arr-coc look {inputs[0]} "your question"')
    return inputs[:-1], inputs[-1:]


def looks_at(source: PictureSource, queries: list[str], options: Options) -> list[Look | DocumentLook]:
    """Look at one picture with every question."""
    from ...core.arrays import torch_threads
    from ...looking import prepare
    from .inputs import quiet_decoder

    with quiet_decoder(source):
        prepared = prepare(source.place)
    with torch_threads(1):
        return [prepared.look(query, options) for query in queries]
