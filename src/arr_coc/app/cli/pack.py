"""`arr-coc pack`: make the few small pictures that a question needs, for a model behind an API."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import InputError
from ...packing.pack import pack
from ...packing.prices.tables import table_for
from .console import print_json, say
from .inputs import as_member, expand
from .options import Choices, OnlyJson, OutFolder, Pages, with_options


@dataclass(frozen=True, kw_only=True)
class PackCommand(Choices):
    """Arguments and options of `arr-coc pack`."""

    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE... QUERY",
            help="Files, folders, globs or -, then the question. Several files are pages that share the budget.",
        ),
    ]
    model: Annotated[str, typer.Option("--for", help="The model that gets the pictures, such as gpt-4o.")]
    pages: Pages = None
    out: OutFolder = Path("out/pack")
    as_json: OnlyJson = False


@with_options(PackCommand)
def command(given: PackCommand) -> None:
    """Make the few small pictures that a question needs, for a model behind an API.

    Writes picture-1.png, picture-2.png, … and pack.json. Send the pictures in this order, after the text in pack.json,
    which also has their cost and their places in the original. The default budget is a quarter of the full cost.

    \b
    Examples:
      arr-coc pack page.png "What is the total?" --budget 400 --for qwen3-vl --out packed
      arr-coc pack report.pdf --pages 1-12 "What was the loss in 2021?" --budget 2000 --for claude-opus-4-7
    """
    if len(given.inputs) < 2:
        raise InputError('give pictures and a question: arr-coc pack page.png "What is the total?" --for gpt-4o')
    table_for(given.model)
    places = [as_member(source) for source in expand(given.inputs[:-1], given.pages)]
    image = places[0] if len(places) == 1 else places
    packed = pack(image, given.inputs[-1], model=given.model, options=given.options)
    files = packed.save(given.out)
    if given.as_json:
        return print_json({**packed.to_json([path.name for path in files[:-1]]), "out": str(given.out)})
    say(f"{packed.tokens} of {packed.full} tokens for {given.model} ({packed.layout})")
    for path, one in zip(files, packed.pictures, strict=False):
        shows = f"area {one.letter}" if one.letter else "the whole"
        say(f"  {path.name}, {one.size[1]}×{one.size[0]}: {one.tokens} tokens, shows {shows}")
    say(packed.text, *(f"note: {note}" for note in packed.notes))
    return say(f"written: {files[-1]}")
