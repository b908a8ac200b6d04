"""`arr-coc needle`: write a data set of the synthetic world to a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from arr_coc.app.cli.console import print_json, say, writing
from arr_coc.app.cli.options import OnlyJson, with_options
from arr_coc.core.errors import InputError


@dataclass(frozen=True)
class NeedleCommand:
    """What pictures are made."""

    family: Annotated[
        str, typer.Option(help="Kind of picture: cards, forms, receipts, scenes, signs, zoo, …; all: n of each.")
    ] = "cards"
    n: Annotated[int, typer.Option("--n", help="How many pictures.")] = 16
    seed: Annotated[int, typer.Option(help="The same seed gives the same pictures.")] = 0
    size: Annotated[str, typer.Option(metavar="HEIGHTxWIDTH", help="In pixels.")] = "512x512"
    split: Annotated[str, typer.Option(help="train, or test: typefaces held out.")] = "train"
    difficulty: Annotated[str | None, typer.Option(help="nursery, easy, normal or hard.", show_default=False)] = None
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the records.")] = Path("out/needle")
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = "cpu"
    as_json: OnlyJson = False


@with_options(NeedleCommand)
def command(options: NeedleCommand) -> None:
    """Make pictures with small things in them, questions about these things, and the true boxes.

    Writes img/*.png, records.jsonl (question, answer, boxes) and contact_sheet.png.

    \b
    Examples:
      arr-coc needle --family forms --n 16 --seed 5 --out forms
      arr-coc needle --family scenes --n 100 --size 768x1024 --split test --out scenes
      arr-coc needle --family all --n 30 --split test --out needle
    """
    if options.n < 1:
        raise InputError(f"--n {options.n} makes no picture; give at least 1")
    size = parse_size(options.size)
    from arr_coc.looking import check_device

    from ..worlds.needle.export import write_dataset

    check_device(options.device)
    how = options.split, options.difficulty, options.device
    with writing(options.out):
        records = write_dataset(options.family, range(options.n), options.seed, options.out, size, *how)
    if options.as_json:
        about = {"out": str(options.out), "family": options.family, "seed": options.seed, "split": options.split}
        print_json({**about, "records": records})
    else:
        drawn = f"{options.family} ({options.size}, {options.split}, seed {options.seed})"
        say(f"{len(records)} pictures of {drawn}: {options.out / 'contact_sheet.png'}")


def parse_size(text: str) -> tuple[int, int]:
    """The text "512x768" is (512, 768): height, then width."""
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"--size {text!r} is not a height and a width; write it like 512x512")
    return int(parts[0]), int(parts[1])
