"""`arr-coc pages`: pages drawn by a browser, with questions and true boxes, written to a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from arr_coc.app.cli.console import print_json, progress, say, writing
from arr_coc.app.cli.options import OnlyJson, with_options
from arr_coc.core.errors import InputError


@dataclass(frozen=True)
class PagesCommand:
    """What pages are drawn."""

    n: Annotated[int, typer.Option("--n", help="How many pages, or how many documents.")] = 24
    seed: Annotated[int, typer.Option(help="The same seed gives the same pages.")] = 0
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the records.")] = Path("out/pages")
    families: Annotated[
        str, typer.Option(help="Kinds of pages, such as forms,receipts,bars. [default: all]", show_default=False)
    ] = ""
    split: Annotated[str, typer.Option(help="train, or val: layouts and typefaces kept aside.")] = "train"
    workers: Annotated[int, typer.Option(help="Browsers at once.")] = 1
    resume: Annotated[bool, typer.Option(help="Go on where an earlier run stopped.")] = True
    documents: Annotated[bool, typer.Option("--documents", help="Documents of 2 to 40 pages instead, as PDFs.")] = False
    scanned: Annotated[bool, typer.Option("--scanned", help="With --documents: scans, without a text layer.")] = False
    as_json: OnlyJson = False


@with_options(PagesCommand)
def command(options: PagesCommand) -> None:
    """Draw forms, letters, bills, tables, charts and screens, with questions and the boxes of their answers.

    Needs Chromium and typefaces from Debian's packages: docs/pages.md. Writes img/*.webp, records.jsonl
    (question, answer, boxes), packs/*.bin for training and contact_sheet.png; a stopped run goes on where it was.
    Documents need no browser.

    \b
    Examples:
      arr-coc pages --n 24 --seed 5 --out pages
      arr-coc pages --n 500 --families forms,bars --split val --workers 4 --out val
      arr-coc pages --documents --n 20 --seed 5 --out documents
    """
    if options.scanned and not options.documents:
        raise InputError("--scanned is for --documents")
    if options.workers < 1:
        raise InputError(f"--workers {options.workers} draws nothing; give at least 1")
    from ..worlds.pages.documents import write_documents
    from ..worlds.pages.export import Order, check_order, write_dataset

    order = Order(options.n, options.seed, options.split, tuple(filter(None, options.families.split(","))))
    check_order(order)
    with writing(options.out), progress(options.n, "pages", hidden=options.as_json or options.documents) as advance:
        if options.documents:
            written = write_documents(options.out, options.n, options.seed, text=not options.scanned)
        else:
            written = write_dataset(order, options.out, options.workers, options.resume, lambda n: advance(done=n))
    if options.as_json:
        print_json(written | {"seed": options.seed, "split": options.split, "scanned": options.scanned})
    else:
        say(f"{written['pages']} pages, {written['questions']} questions: {options.out}")
