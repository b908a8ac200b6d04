"""`arr-coc look`: show where the tokens of a picture would go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ... import looking
from ...core.errors import InputError
from ...core.folders import write_json
from ...core.runs import torch_threads
from ...core.values import Allocation, DocumentAllocation, JsonObject
from ...decide_document import DocumentLook
from .console import print_json, progress, save_png, say, seconds_line, writing
from .inputs import expand, result_names
from .options import Choices, OnlyJson, OutFolder, Pages, with_options

if TYPE_CHECKING:
    from PIL.Image import Image

AnyLook = looking.Look | DocumentLook
# Maximum number of pages that are listed.
LISTED = 12


@dataclass(frozen=True, kw_only=True)
class LookCommand(Choices):
    """Arguments and options of `arr-coc look`."""

    inputs: Annotated[
        list[str],
        typer.Argument(metavar="IMAGE... QUERY", help="Files, folders, globs or -, then the question."),
    ]
    pages: Pages = None
    out: OutFolder = Path("out")
    as_json: OnlyJson = False


@with_options(LookCommand)
def command(given: LookCommand) -> None:
    """Show where the tokens of a picture would go for a question. Needs no model.

    Prints a summary for each picture and writes two files: NAME.homunculus.png, the picture as a model would see it,
    and NAME.allocation.json, the decision. A document with several pages has one budget over all of them;
    NAME.pages.png shows which pages get tokens. For many files, or some that may be broken, use arr-coc batch.

    \b
    Examples:
      arr-coc look street.png "What number is on the red sign?"
      arr-coc look street.png "the red sign" --budget 128 --set relevance=scorer --out red
      arr-coc look scan.png "How much is the total?" --set words=scan.hocr
      arr-coc look report.pdf "Who signed it?" --pages 2-5 --budget 256
      arr-coc look a.png b.png c.pdf "Who signed it?" --set total=true --budget 512
      arr-coc look "scans/*.png" "What is the total?" --json | jq .looks[0].tokens
      cat form.png | arr-coc look - "What is the date?"
    """
    *images, query = given.inputs
    if not images:
        raise InputError(f'no question after {query}; write: arr-coc look {query} "your question"')
    options = given.options
    sources = expand(images, given.pages, options.total)
    looking.check_look(query, options)
    if options.words is not None and len(sources) > 1:
        raise InputError(f"words={options.words} apply to one picture, not to {len(sources)}; give one picture")
    entries: list[JsonObject] = []
    with progress(len(sources), "looking", hidden=given.as_json or len(sources) == 1) as advance:
        for source, name in zip(sources, result_names(sources), strict=True):
            advance()
            prepared = looking.prepare(source.place, source.pages)
            with torch_threads(1):
                look = prepared.look(query, options)
            files = write_drawn(given.out, name, drawings(look), look.allocation)
            if given.as_json:
                entries.append(look_entry(source.name, query, look, files))
            else:
                print_look(source.file, query, look, files)
    if given.as_json:
        print_json({"looks": entries})


def write_drawn(
    out: Path, name: str, drawn: Mapping[str, Image], allocation: Allocation | DocumentAllocation
) -> dict[str, str]:
    """Write an allocation and its drawings, by kind; return the paths by kind."""
    files = {kind: out / f"{name}.{kind}.png" for kind in drawn} | {"allocation": out / f"{name}.allocation.json"}
    with writing(out):
        for kind, image in drawn.items():
            save_png(image, files[kind])
        write_json(files["allocation"], allocation.to_json())
    return {kind: str(path) for kind, path in files.items()}


def drawings(look: AnyLook) -> dict[str, Image]:
    """Draw the homunculus of a picture, or all pages of a document on one sheet."""
    from ...draw import document_sheet, homunculus

    if not isinstance(look, DocumentLook):
        return {"homunculus": homunculus(look.picture, look.allocation, look.relevance, look.relevance.query)}
    return {"pages": document_sheet(look.document, look.allocation, look.query)}


def look_entry(name: str, query: str, look: AnyLook, files: Mapping[str, str]) -> JsonObject:
    """Return the look at a picture or document as JSON."""
    allocation = look.allocation
    relevance = next((note for note in look.notes if note.startswith("relevance")), "")
    numbers = {"budget": allocation.budget, "tokens": allocation.tokens, "full": allocation.full}
    details = {"seconds": dict(look.seconds), "notes": list(look.notes), "files": dict(files)}
    entry = {"image": name, "query": query, "relevance": relevance, **numbers, **details}
    return {**entry, "allocation": allocation.to_json()}


def print_look(name: str, query: str, look: AnyLook, files: Mapping[str, str]) -> None:
    """Print tokens by level or by page, then sums, seconds and notes."""
    from ...draw.layout import decided_words, level_rows

    laid, pages, decided = look.allocation, "", []
    if isinstance(look, DocumentLook):
        pages = f" on {len(look.allocation.funded)} of {look.allocation.of_pages} pages"
        best = sorted(look.allocation.ranked[:LISTED], key=lambda page: page.number)
        rows = [f"page {page.number}: {page.tokens} tokens, {page.why}" for page in best]
    else:
        rows = [
            f"level {row.level}, {row.side}×{row.side} px: {row.tokens} tokens on {100 * row.area:.1f} % of the area"
            for row in level_rows(look.allocation)
        ]
        decided = decided_words(look.allocation)
    say(
        f"{name}: {query}",
        *(f"  {row}" for row in rows),
        f"{laid.strategy}: {laid.tokens} tokens of {laid.full} ({100 * laid.keep:.1f} %){pages}, budget {laid.budget}",
        *decided,
        seconds_line(look.seconds),
        *(f"note: {note}" for note in look.notes),
        f"files: {', '.join(files.values())}",
    )
