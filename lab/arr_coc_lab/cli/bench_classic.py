"""`arr-coc bench classic`: the line of the source, phase by phase, against what is shipped, at equal tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from arr_coc.app.cli.console import print_json, say, show, wait_asleep

RECORD = "classic.json"


def classic(
    each: Annotated[int, typer.Option(help="Pictures of each of the seven families. 147: 1029 in all.")] = 147,
    large: Annotated[
        int, typer.Option(help="Pictures of 2048×2048 of each family for the scale of 64 to 400 tokens a patch.")
    ] = 0,
    relevance: Annotated[
        list[str] | None,
        typer.Option(help="Only this source of the registry beside ours; may be repeated. [default: all phases]"),
    ] = None,
    rivals: Annotated[
        Path | None, typer.Option(help="Folder of train_hypotheses whose parts are read as well.", show_default=False)
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Begin no batch after so many.", show_default=False)] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option(help=f"Folder for {RECORD}; a run goes on from what is there.", show_default=False)
    ] = None,
    saved: Annotated[
        Path | None, typer.Option("--from", help=f"Measure nothing: show a saved {RECORD}.", show_default=False)
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--markdown", "--page", help="A page whose tables are made anew.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Phase 1 (edges), Phase 2 (query-aware), Phase 3 (from outcomes) and the parts, against ours, at equal tokens.

    Sources that the registry lacks are left out with a line. Hours on two cores, minutes on a GPU; a run that was
    stopped goes on with the same --out. Without typer and rich: python -m arr_coc_lab.bench.classic.

    \b
    Examples:
      arr-coc bench classic --each 3
      arr-coc bench classic --out out/classic --markdown docs/classic.md
      arr-coc bench classic --device cuda --large 42 --seconds 600 --out out/classic
      arr-coc bench classic --relevance edge_lod --out out/classic
    """
    from ..bench.classic.__main__ import finish

    wait_asleep()
    given: dict[str, Any] = {"each": each, "large": large, "relevance": relevance, "rivals": rivals, "seconds": seconds}
    given |= {"device": device, "out": out, "saved": saved, "page": page}
    made = finish(given, lambda line: None if as_json else typer.echo(line, err=True))
    if as_json:
        print_json({"schema": 1, "tables": [table.to_json() for table in made]})
        return
    show(*(table.to_rich() for table in made))
    say(*dict.fromkeys(f"{key}: {value}" for table in made for key, value in table.facts.items()))
