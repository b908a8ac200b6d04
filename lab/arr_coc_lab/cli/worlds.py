"""`arr-coc needle` and `arr-coc pages`: write data sets of drawn pictures to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arr_coc.app.cli.console import print_json, progress, say, writing
from arr_coc.app.cli.options import OnlyJson
from arr_coc.core.errors import InputError
from arr_coc.options import check_device

Number = Annotated[int, typer.Option("--n", help="Number of pictures or pages.")]
Seed = Annotated[int, typer.Option(help="Seed; the same seed draws the same pictures.")]
Out = Annotated[Path, typer.Option(help="Folder for the pictures and the records.")]
Size = Annotated[str, typer.Option(metavar="HEIGHTxWIDTH", help="Size of the pictures in pixels.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps.")]


def needle(
    family: Annotated[
        str, typer.Option(help="cards, forms, receipts, scenes, signs, zoo, …; all: --n of each.")
    ] = "cards",
    n: Number = 16,
    seed: Seed = 0,
    size: Size = "512x512",
    split: Annotated[str, typer.Option(help="train, or test with held-out typefaces.")] = "train",
    difficulty: Annotated[str | None, typer.Option(help="nursery, easy, normal or hard.", show_default=False)] = None,
    out: Out = Path("out/needle"),
    device: Device = "cpu",
    as_json: OnlyJson = False,
) -> None:
    """Draw pictures with small things in them, questions about these things, and the boxes of the answers.

    Writes img/*.png, records.jsonl (question, answer, boxes) and contact_sheet.png.

    \b
    Examples:
      arr-coc needle --family forms --n 16 --seed 5 --out forms
      arr-coc needle --family scenes --n 100 --size 768x1024 --split test --out scenes
      arr-coc needle --family all --n 30 --split test --out needle
    """
    if n < 1:
        raise InputError(f"--n {n} makes no picture; give at least 1")
    pixels = parse_size(size)
    check_device(device)
    from ..worlds.needle.export import write_dataset

    with writing(out):
        records = write_dataset(family, range(n), seed, out, pixels, split, difficulty, device)
    if as_json:
        print_json({"out": str(out), "family": family, "seed": seed, "split": split, "records": records})
    else:
        say(f"{len(records)} pictures of {family} ({size}, {split}, seed {seed}): {out / 'contact_sheet.png'}")


def pages(
    n: Number = 24,
    seed: Seed = 0,
    out: Out = Path("out/pages"),
    layouts: Annotated[str, typer.Option(help="Layouts: invoice_boxes,pie. [default: all]", show_default=False)] = "",
    split: Annotated[str, typer.Option(help="train, or val with held-out layouts and typefaces.")] = "train",
    workers: Annotated[int, typer.Option(help="Number of processes that draw pages.")] = 1,
    as_json: OnlyJson = False,
) -> None:
    """Draw forms, letters, bills, tables, charts and screens, with questions and the boxes of their answers.

    Writes img/*.png with the words of each beside it, records.jsonl (question, answer, boxes) and contact_sheet.png.

    \b
    Examples:
      arr-coc pages --n 24 --seed 5 --out pages
      arr-coc pages --n 500 --layouts letter_block,pie --workers 4 --out some
    """
    if workers < 1:
        raise InputError(f"--workers {workers} draws nothing; give at least 1")
    from ..worlds.office.export import write_pages

    names = tuple(filter(None, layouts.split(",")))
    with writing(out), progress(n, "pages", hidden=as_json) as advance:
        written = write_pages(out, n, seed, split, names, workers, lambda done: advance(done=done))
    if as_json:
        print_json(written | {"seed": seed, "split": split})
    else:
        say(f"{written['pages']} pages, {written['questions']} questions: {out}")


def parse_size(text: str) -> tuple[int, int]:
    """Parse the text "512x768" to (512, 768): height, then width."""
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"--size {text!r} is not a height and a width; write it like 512x512")
    return int(parts[0]), int(parts[1])
