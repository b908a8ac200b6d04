"""`arr-coc pack`: the few pictures that a question needs, for a model that nobody can touch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import InputError
from .console import print_json, say, show, table
from .options import AsLook, Crops, DrawnGrip, DrawnScale, Ocr, OnlyJson, OwnTables, PictureFormat, with_options


@dataclass(frozen=True)
class PackCommand:
    """What is packed, for whom."""

    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE... QUESTION",
            help="Files, folders, globs or -, then the question. Several are pages, which share the budget.",
            show_default=False,
        ),
    ]
    model: Annotated[str, typer.Option("--for", help="Who will see it, such as gpt-4o, claude-opus-4-7 or qwen3-vl.")]
    budget: Annotated[
        str | None, typer.Option(metavar="TOKENS", help="As that model counts them, 400 or 25%. [default: 25%]")
    ] = None
    layout: Annotated[
        str, typer.Option(help="crops: an overview and parts; collage: all in one; overview; or auto.")
    ] = "auto"
    crops: Crops = 3
    scale: DrawnScale = "auto"
    grip: DrawnGrip = None
    marks: Annotated[bool, typer.Option(help="Frames and letters in the overview.")] = True
    kind: PictureFormat = "auto"
    own: OwnTables = None
    relevance: AsLook = "auto"
    ocr: Ocr = True
    pages: Annotated[str | None, typer.Option(help="Pages of a PDF: 1-3,7 or all. [default: the first]")] = None
    allow_url: Annotated[bool, typer.Option(help="Fetch pictures from web addresses.")] = False
    out: Annotated[Path, typer.Option(help="Folder for the pictures and pack.json.")] = Path("out/pack")
    as_json: OnlyJson = False


@with_options(PackCommand)
def command(options: PackCommand) -> None:
    """Draw what a question needs as one to four ordinary pictures of a chosen number of tokens.

    Writes picture-1.png, … and pack.json: the text to put before them, what they cost, what was left out, and where
    everything lies in the original.

    \b
    Examples:
      arr-coc pack page.png "What is the total?" --budget 400 --for qwen3-vl --out packed
      arr-coc pack scan.jpg "Who signed?" --budget 25% --for gpt-4o --layout collage
      arr-coc pack report.pdf --pages 1-12 "What was the loss in 2021?" --budget 2000 --for claude-opus-4-7
    """
    if len(options.inputs) < 2:
        raise InputError('give pictures and a question: arr-coc pack page.png "What is the total?" --for gpt-4o')
    from ...packing.pack import LAYOUTS, pack
    from ...packing.packed import format_of
    from ...packing.prices.tables import load_tables, table_for
    from .inputs import expand

    table_for(options.model, load_tables(options.own))
    format_of(options.kind, False)
    if options.layout not in LAYOUTS:
        raise InputError(f"--layout {options.layout} is unknown; choose from {', '.join(LAYOUTS)}")
    sources = expand(options.inputs[:-1], options.allow_url, options.pages)
    places = [source.place for source in sources]
    packed = pack(
        places[0] if len(places) == 1 else places,
        options.inputs[-1],
        options.budget,
        model=options.model,
        table=options.own,
        layout=options.layout,
        crops=options.crops,
        scale=options.scale,
        grip=options.grip,
        marks=options.marks,
        relevance=options.relevance,
        ocr=options.ocr,
    )
    files = packed.save(options.out, options.kind)
    if options.as_json:
        print_json({**packed.to_json([path.name for path in files[:-1]]), "out": str(options.out)})
        return
    rows = [
        (path.name, f"{one.size[1]}×{one.size[0]}", str(one.tokens), ", ".join(p.letter or "whole" for p in one.panes))
        for path, one in zip(files, packed.pictures, strict=False)
    ]
    columns = {"picture": "left", "size": "right", "tokens": "right", "shows": "left"}
    title = f"{packed.tokens} of {packed.full} tokens for {options.model} ({packed.layout})"
    show(table(title, columns, rows, narrow=True))
    say(packed.text, *(f"note: {note}" for note in packed.notes))
    if packed.left_out.get("pages"):
        say(f"not shown: page {', '.join(map(str, packed.left_out['pages']))}")
    say(f"written: {files[-1]}")
