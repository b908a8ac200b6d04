"""`arr-coc cost`: what pictures cost before they are sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.errors import InputError
from ...core.values import JsonObject
from .console import print_json, say, show, table
from .options import OnlyJson, OwnTables

if TYPE_CHECKING:
    from ...packing.prices.tables import TokenTable
    from .inputs import PictureSource


def command(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE...", help="Files, folders, globs or -; or sizes such as 1920x1080."),
    ] = None,
    models: Annotated[
        list[str] | None, typer.Option("--for", help="A model, such as gpt-4o or qwen3-vl; may be repeated.")
    ] = None,
    price: Annotated[
        float | None, typer.Option(help="Price of a million input tokens, in any currency: the cost is shown too.")
    ] = None,
    own: OwnTables = None,
    listed: Annotated[bool, typer.Option("--list", help="Only list the tables, with their sources.")] = False,
    pages: Annotated[str | None, typer.Option(help="Pages of a PDF: 1-3,7 or all. [default: the first]")] = None,
    as_json: OnlyJson = False,
) -> None:
    """Tell the visual tokens of pictures, as each provider counts them; nothing is sent anywhere.

    Open models are counted as their processors count. The others as documented, on the date that is told.

    \b
    Examples:
      arr-coc cost page.png --for gpt-4o --for claude-opus-4-7 --for qwen3-vl
      arr-coc cost scans/ --for gpt-4.1-mini --price 0.40
      arr-coc cost 1920x1080 --for gemini-2.5-flash
      arr-coc cost --list
    """
    from ...core.checks import positive
    from ...packing.prices.tables import load_tables, money, table_for

    tables = load_tables(own)
    if listed:
        list_tables(tables, as_json)
        return
    if not inputs or not models:
        raise InputError("name pictures and a model: arr-coc cost page.png --for gpt-4o; arr-coc cost --list shows all")
    if price is not None:
        positive(price, "--price")
    chosen = {model: table_for(model, tables) for model in models}
    sizes = {name: size for text in inputs for name, size in sizes_of(text, pages)}
    rows: list[JsonObject] = []
    for name, size in sizes.items():
        for model, one in chosen.items():
            tokens = one.tokens(size)
            row = {"file": name, "height": size[0], "width": size[1], "model": model, "tokens": tokens}
            rows.append(row if price is None else {**row, "cost": money(tokens, price)})
    totals = {model: sum(row["tokens"] for row in rows if row["model"] == model) for model in chosen}
    if as_json:
        facts = {model: {"table": one.name, "told": one.as_told, "source": one.source} for model, one in chosen.items()}
        cost = {} if price is None else {"cost": {model: money(count, price) for model, count in totals.items()}}
        print_json({"pictures": rows, "tokens": totals, **cost, "tables": facts})
        return
    columns = {"picture": "fold", "size": "right", "model": "left", "tokens": "right"}
    columns |= {} if price is None else {"cost": "right"}

    def cells(row: JsonObject) -> list[str]:
        told = [row["file"], f"{row['width']}×{row['height']}", row["model"], str(row["tokens"])]
        return told if price is None else [*told, f"{row['cost']:.6f}"]

    show(table("What pictures cost", columns, [cells(row) for row in rows], narrow=True))
    for model, one in chosen.items():
        sent = "" if price is None else f", {money(totals[model], price):.6f}"
        say(f"{model}: {totals[model]} tokens{sent}, {one.as_told} ({one.source})")
        if one.notes:
            say(f"  {one.notes}")


def sizes_of(text: str, pages: str | None) -> list[tuple[str, tuple[int, int]]]:
    """The names and sizes that a text stands for: one it tells itself, such as 1920x1080, or those of files."""
    import re

    from .inputs import expand

    found = re.fullmatch(r"(\d{1,6})\s*[x×]\s*(\d{1,6})", text.strip().lower())
    if found and not Path(text).exists():
        width, height = map(int, found.groups())
        return [(text, (height, width))]
    return [(source.name, size_of(source)) for source in expand([text], pages=pages)]


def size_of(source: PictureSource) -> tuple[int, int]:
    """(height, width) of a picture, by its header where it has one, upright as models see it."""
    from PIL import ExifTags, Image

    from ...pictures.document import Document
    from ...pictures.load import load_picture
    from ...pictures.pdf import PdfPlace, load_page

    place = source.place
    if isinstance(place, PdfPlace | Document):
        return load_page(place)[0].size
    try:
        with Image.open(place) as image:
            turned = int(image.getexif().get(ExifTags.Base.Orientation, 1)) >= 5
            return (image.width, image.height) if turned else (image.height, image.width)
    except Exception:  # another kind of file, or a broken one: read it, or say in one line what is wrong with it
        if not isinstance(place, Path):
            place.seek(0)
        return load_picture(place).size


def list_tables(tables: tuple[TokenTable, ...], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "models": list(one.models),
                    "provider": one.provider,
                    "rule": one.rule,
                    "numbers": dict(one.numbers),
                    "exact": one.exact,
                    "resized_by": one.resized_by,
                    "source": one.source,
                    "date": one.date,
                }
                for one in tables
            ]
        )
        return
    columns = {"table": "left", "models": "fold", "a page of 1654×2339": "right", "counted": "left"}
    rows = [(one.name, ", ".join(one.models), str(one.tokens((2339, 1654))), one.as_told) for one in tables]
    show(table("Token tables", columns, rows, narrow=True))
