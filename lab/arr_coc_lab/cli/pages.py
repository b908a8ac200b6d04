"""`arr-coc pages`: pages drawn by a browser, with questions and true boxes, written to a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from arr_coc.app.cli.console import progress, writing
from arr_coc.app.cli.options import OnlyJson, with_options
from arr_coc.core.errors import InputError


@dataclass(frozen=True)
class PagesCommand:
    """What pages are drawn."""

    n: Annotated[int, typer.Option("--n", help="How many pages.")] = 24
    seed: Annotated[int, typer.Option(help="The same seed gives the same pages.")] = 0
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the records.")] = Path("out/pages")
    families: Annotated[
        str, typer.Option(help="Kinds of pages, such as forms,receipts,bars. [default: all]", show_default=False)
    ] = ""
    split: Annotated[str, typer.Option(help="train, or val: layouts and typefaces kept aside.")] = "train"
    workers: Annotated[int, typer.Option(help="Browsers at once.")] = 1
    resume: Annotated[bool, typer.Option(help="Go on where an earlier run stopped.")] = True
    pack: Annotated[bool, typer.Option("--pack", help="Also packs/*.bin, small files for training.")] = False
    pdf: Annotated[bool, typer.Option("--pdf", help="Also img/*.pdf with a text layer.")] = False
    wear: Annotated[
        bool, typer.Option("--wear", help="Make them look scanned, faxed, photographed, …; boxes stay right.")
    ] = False
    documents: Annotated[
        bool, typer.Option("--documents", help="Documents of 2 to 40 pages instead, as PDFs; --n says how many.")
    ] = False
    scanned: Annotated[
        bool, typer.Option("--scanned", help="With --documents: pages as scans, without a text layer.")
    ] = False
    as_json: OnlyJson = False


@with_options(PagesCommand)
def command(options: PagesCommand) -> None:
    """Draw forms, letters, receipts, tables, charts, screens and more, with questions and the boxes of their answers.

    Needs Chromium and typefaces from Debian's packages: docs/pages.md. Writes img/*.webp, records.jsonl
    (question, answer, boxes) and contact_sheet.png; a run that was stopped goes on where it was.

    \b
    Examples:
      arr-coc pages --n 24 --seed 5 --out pages
      arr-coc pages --n 500 --families forms,bars --split val --workers 4 --pack --out val
      arr-coc pages --documents --n 20 --seed 5 --out documents
    """
    if options.scanned and not options.documents:
        raise InputError("--scanned is for --documents; pages are worn with --wear")
    if options.documents:
        draw_documents(options)
        return
    if options.workers < 1:
        raise InputError(f"--workers {options.workers} draws nothing; give at least 1")
    from ..worlds.pages.export import Order, check_order, write_dataset

    names = tuple(name.strip() for name in options.families.split(",") if name.strip())
    order = Order(options.n, options.seed, options.split, names, options.pdf)
    check_order(order)
    how = options.workers, options.resume, options.pack, options.wear
    with writing(options.out), progress(options.n, "pages", hidden=options.as_json) as advance:
        written = write_dataset(order, options.out, *how, lambda done: advance(done=done))
    if options.as_json:
        print(json.dumps(written | {"seed": options.seed, "split": options.split}))
    else:
        where = options.out / "contact_sheet.png"
        drawn = f"{written['pages']} pages, {written['questions']} questions"
        print(f"{drawn} ({options.split}, seed {options.seed}): {where}")


def draw_documents(options: PagesCommand) -> None:
    """Reports, contracts, statements, manuals and catalogues, with questions that name no page; needs no browser."""
    from ..worlds.pages.documents import write_documents

    out = options.out
    with writing(out):
        written = write_documents(out, options.n, options.seed, text=not options.scanned)
    if options.as_json:
        print(json.dumps(written | {"seed": options.seed, "scanned": options.scanned}))
    else:
        print(f"{written['documents']} documents, {written['pages']} pages, {written['questions']} questions: {out}")
