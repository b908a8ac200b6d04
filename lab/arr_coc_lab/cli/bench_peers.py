"""`arr-coc bench peers`: published ways of reducing visual tokens beside ours, on one model in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from arr_coc.app.cli.console import print_json, say, show, wait_asleep, writing


def peers(
    n: Annotated[int | None, typer.Option("--n", help="Pictures of each family. [default: 2048]")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="8 pictures of each family, a few ways: under 2 minutes on 2 cores.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--peers", help="Only ways whose name contains this; may be repeated.")
    ] = None,
    family: Annotated[list[str] | None, typer.Option(help="Only this family; may be repeated.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Folder with mini and scorer. [default: those of the package]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the test pictures.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = "cpu",
    batch: Annotated[int | None, typer.Option(help="Pictures at once. [default: 256 on a GPU, 4 on a CPU]")] = None,
    seconds: Annotated[float | None, typer.Option(help="Begin no further round that would end later.")] = None,
    saved: Annotated[
        Path | None, typer.Option("--from", help="Measure nothing: show a saved peers.json.", show_default=False)
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="A Markdown page whose tables are made anew.", show_default=False)
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Accuracy over GFLOP, as a picture.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for peers.json; a later run goes on there.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Accuracy of ours and of published peers, at equal tokens and at equal compute.

    FastV, PyramidDrop, SparseVLM, DART, VisionZip, DivPrune, CDPruner, VisPruner, HoloV, PruMerge+, ToMe and average
    pooling, rebuilt on the bundled mini, with controls and oracles; every way gets the same pictures.

    \b
    Examples:
      arr-coc bench peers --quick
      arr-coc bench peers --device cuda --out out/peers
      arr-coc bench peers --peers FastV --peers overlay --n 64
      arr-coc bench peers --from out/peers/peers.json --page docs/peers.md --plot docs/images/peers.png
    """
    from ..bench.peers.command import finish
    from ..bench.peers.report import tables

    wait_asleep()
    given: dict[str, Any] = {"n": n, "quick": quick, "peers": only, "family": family, "weights": weights, "seed": seed}
    given |= {"device": device, "batch": batch, "seconds": seconds, "saved": saved, "page": page, "plot": plot}
    with writing(out or page or plot or Path()):
        document = finish({**given, "out": out}, lambda line: typer.echo(line, err=True))
    if as_json:
        print_json(document)
        return
    show(*(table.to_rich() for table in tables(document)))
    say(*(f"{name}: {value}" for name, value in document["facts"].items()))
