"""`arr-coc pages`: pages drawn by a browser, with questions and true boxes, written to a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from arr_coc.core.errors import InputError


def command(
    n: Annotated[int, typer.Option("--n", help="How many pages.")] = 24,
    seed: Annotated[int, typer.Option(help="The same seed gives the same pages.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the records.")] = Path("out/pages"),
    families: Annotated[
        str, typer.Option(help="Like forms,receipts,bars,lines; all where none is named.", show_default=False)
    ] = "",
    split: Annotated[str, typer.Option(help="train, or val: layouts and typefaces kept aside.")] = "train",
    workers: Annotated[int, typer.Option(help="Browsers at once.")] = 1,
    resume: Annotated[bool, typer.Option(help="Go on where an earlier run stopped.")] = True,
    pack: Annotated[bool, typer.Option("--pack", help="Also packs/*.bin, small files for training.")] = False,
    pdf: Annotated[bool, typer.Option("--pdf", help="Also img/*.pdf with a text layer.")] = False,
    wear: Annotated[bool, typer.Option("--wear", help="Scanned, faxed, photographed, …; boxes go along.")] = False,
    documents: Annotated[
        bool, typer.Option("--documents", help="Documents of 2 to 40 pages instead, as PDFs; --n says how many.")
    ] = False,
    scanned: Annotated[
        bool, typer.Option("--scanned", help="With --documents: pages as scans, without a text layer.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Draw forms, letters, receipts, tables, charts, screens and more, with questions and the boxes of their answers.

    Needs Chromium and typefaces from Debian's packages: docs/pages.md. Writes img/*.webp, records.jsonl
    (question, answer, boxes) and contact_sheet.png; a run that was stopped goes on where it was.

    \b
    Examples:
      arr-coc pages --n 24 --seed 5 --out pages
      arr-coc pages --n 500 --families forms,bars --split val --workers 4 --pack --out val
      arr-coc pages --documents --n 20 --seed 5 --out documents
    """
    if scanned and not documents:
        raise InputError("--scanned is for --documents; pages are worn with --wear")
    if documents:
        draw_documents(out, n, seed, scanned, as_json)
        return
    if workers < 1:
        raise InputError(f"--workers {workers} draws nothing; give at least 1")
    from ..worlds.pages.export import Order, check_order, write_dataset

    names = tuple(name.strip() for name in families.split(",") if name.strip())
    order = Order(n, seed, split, names, pdf)
    check_order(order)
    try:
        if as_json:
            written = write_dataset(order, out, workers, resume, pack, wear)
        else:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            with Progress(*parts, console=Console(stderr=True)) as bar:
                task = bar.add_task("pages", total=n)
                written = write_dataset(
                    order, out, workers, resume, pack, wear, lambda done, total: bar.update(task, completed=done)
                )
    except OSError as error:
        raise InputError(
            f"cannot write to {out} ({error.strerror or error}); choose another folder with --out"
        ) from error
    if as_json:
        print(json.dumps(written | {"seed": seed, "split": split}))
    else:
        where = out / "contact_sheet.png"
        print(f"{written['pages']} pages, {written['questions']} questions ({split}, seed {seed}): {where}")


def draw_documents(out: Path, n: int, seed: int, scanned: bool, as_json: bool) -> None:
    """Reports, contracts, statements, manuals and catalogues, with questions that name no page; needs no browser."""
    from ..worlds.documents.export import write_documents

    try:
        written = write_documents(out, n, seed, words=not scanned)
    except OSError as error:
        raise InputError(
            f"cannot write to {out} ({error.strerror or error}); choose another folder with --out"
        ) from error
    if as_json:
        print(json.dumps(written | {"seed": seed, "scanned": scanned}))
    else:
        print(f"{written['documents']} documents, {written['pages']} pages, {written['questions']} questions: {out}")
