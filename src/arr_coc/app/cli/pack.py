"""`arr-coc pack`: the few pictures that a question needs, for a model behind an API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import InputError
from ...packing.pack import pack
from ...packing.prices.tables import TokenTable, own_tables, table_for
from ...pictures.document import load_page
from .console import print_json, say
from .inputs import as_member, expand
from .options import Choices, OnlyJson, OutFolder, Pages, with_options


@dataclass(frozen=True, kw_only=True)
class PackCommand(Choices):
    """What is packed, for whom."""

    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE... QUESTION",
            help="Files, folders, globs or -, then the question. Several are pages, which share the budget.",
        ),
    ]
    model: Annotated[
        str | None, typer.Option("--for", help="Who will see it, such as gpt-4o, claude-opus-4-7 or qwen3-vl.")
    ] = None
    cost: Annotated[
        bool, typer.Option("--cost", help="Only tell what pictures, or sizes such as 1920x1080, cost as they are.")
    ] = False
    pages: Pages = None
    out: OutFolder = Path("out/pack")
    as_json: OnlyJson = False


@with_options(PackCommand)
def command(given: PackCommand) -> None:
    """Draw what a question needs as one to four ordinary pictures of a chosen number of tokens.

    Writes picture-1.png, … and pack.json: the text to put before them, what they cost, what was left out, and where
    everything lies in the original. With --cost nothing is packed: it tells the tokens of pictures as each provider
    counts them, or without --for as all of them do.

    \b
    Examples:
      arr-coc pack page.png "What is the total?" --budget 400 --for qwen3-vl --out packed
      arr-coc pack report.pdf --pages 1-12 "What was the loss in 2021?" --budget 2000 --for claude-opus-4-7
      arr-coc pack --cost page.png --for gpt-4o
      arr-coc pack --cost 1920x1080
    """
    if given.cost:
        return tell_cost(given, own_tables() if given.model is None else (table_for(given.model),))
    if len(given.inputs) < 2 or given.model is None:
        raise InputError(
            'give pictures, a question and a model: arr-coc pack page.png "What is the total?" --for gpt-4o'
        )
    table_for(given.model)
    places = [as_member(source) for source in expand(given.inputs[:-1], given.pages)]
    packed = pack(
        places[0] if len(places) == 1 else places,
        given.inputs[-1],
        model=given.model,
        options=given.options,
    )
    files = packed.save(given.out)
    if given.as_json:
        return print_json({**packed.to_json([path.name for path in files[:-1]]), "out": str(given.out)})
    say(f"{packed.tokens} of {packed.full} tokens for {given.model} ({packed.layout})")
    for path, one in zip(files, packed.pictures, strict=False):
        shows = ", ".join(pane.letter or "whole" for pane in one.panes)
        say(f"  {path.name}, {one.size[1]}×{one.size[0]}: {one.tokens} tokens, shows {shows}")
    say(packed.text, *(f"note: {note}" for note in packed.notes))
    return say(f"written: {files[-1]}")


def tell_cost(given: PackCommand, tables: Sequence[TokenTable]) -> None:
    """Print the tokens of pictures as they are, by one table or by all."""
    sizes: dict[str, tuple[int, int]] = {}
    for text in given.inputs:
        pixels = re.fullmatch(r"(\d{1,6})\s*[x×]\s*(\d{1,6})", text.strip().lower())
        if pixels and not Path(text).exists():
            sizes[text] = int(pixels[2]), int(pixels[1])
        else:
            sizes |= {source.name: load_page(source.place)[0].size for source in expand([text], given.pages)}
    rows = [
        {"file": name, "height": size[0], "width": size[1], "model": one.name, "tokens": one.tokens(size)}
        | {"counted": one.as_told, "source": one.source}
        for name, size in sizes.items()
        for one in tables
    ]
    if given.as_json:
        return print_json({"pictures": rows})
    say(*("{file}, {width}×{height}, {model}: {tokens} tokens, {counted}".format(**row) for row in rows))
    return say(*(f"{one.name}: {one.source} {one.notes}".strip() for one in tables if given.model is not None))
