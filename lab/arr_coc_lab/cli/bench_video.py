"""`arr-coc bench video`: what a clip's tokens buy, how steady allocations are, which cuts are found, what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arr_coc.app.cli.console import print_json, say, show
from arr_coc.core.errors import InputError

if TYPE_CHECKING:
    from ..bench.video import VideoRequest

QUICK_EVERY, QUICK_REPEATS = 8, 2


def command(
    n: Annotated[int | None, typer.Option("--n", help="Needle clips. [default: 512]")] = None,
    frames: Annotated[int | None, typer.Option(help="Frames of each clip. [default: 8]")] = None,
    quick: Annotated[bool, typer.Option(help="A few clips: only to see that it runs.")] = False,
    part: Annotated[list[str] | None, typer.Option(help="Only clips, real or speed; may be repeated.")] = None,
    family: Annotated[list[str] | None, typer.Option(help="Of Needle World; in turn. [default: cards]")] = None,
    reading: Annotated[list[str] | None, typer.Option(help="clearest, pooled, video; may be repeated.")] = None,
    keep: Annotated[
        list[float] | None, typer.Option(help="Shares of the full tokens; may be repeated. [default: 1/32 … 1/4]")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with records.jsonl and real clips.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Folder with mini, scorer and video.")] = None,
    batch: Annotated[int, typer.Option(help="Clips at a time.")] = 8,
    threads: Annotated[int, typer.Option(help="For the optical flow.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the test clips.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = "cpu",
    saved: Annotated[
        Path | None, typer.Option("--from", help="Measure nothing: show a saved video.json.", show_default=False)
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the tables there.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="A Markdown page whose tables are made anew.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for video.json; parts measured earlier stay.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Clips: exact match by system and budget, coherence, cuts; real clips where given; the cost of a frame.

    \b
    Examples:
      arr-coc bench video --quick --part speed
      arr-coc bench video --device cuda --batch 64 --threads 16 --out out/bench
      arr-coc bench video --part real --data DIR
      arr-coc bench video --from out/bench/video.json --page docs/video.md
    """
    from arr_coc.core.files import read_text, write_json, write_text
    from arr_coc.looking import check_device

    from ..bench.table import fill_page
    from ..bench.video import VideoRequest
    from ..bench.video_report import PARTS, document, page_part, tables, verdicts, with_the_rest

    parts = check_parts(part, data)
    if saved is not None:
        try:
            found = json.loads(read_text(saved))
        except (OSError, ValueError) as error:
            raise InputError(f"{saved} is not a document of `bench video` ({error})") from error
    else:
        check_device(device)
        request = VideoRequest(
            n, frames, quick, tuple(family or ("cards",)), tuple(reading or ()), tuple(keep or ()), weights, batch,
            threads, seed, device=device,
        )  # fmt: skip
        request.check()
        found = document(
            clips=measure_needle(request, out, as_json) if "clips" in parts else None,
            real=measure_real(data, quick, as_json) if "real" in parts and data is not None else None,
            speed=measure_speed(quick) if "speed" in parts else None,
        )
    try:
        if out is not None:
            found = with_the_rest(out / "video.json", found)
            write_json(out / "video.json", found)
        if page is not None:
            fill_page(page, "video", page_part(found))
        if markdown is not None:
            text = "\n\n".join(f"### {table.title}\n\n{table.to_markdown()}" for table in tables(found))
            write_text(markdown, text + "\n")
    except OSError as error:
        raise InputError(f"cannot write there ({error.strerror or error}: {error.filename}); choose another") from error
    if as_json:
        print_json(found)
        return
    show(*(table.to_rich() for table in tables(found)))
    for name in PARTS:
        if found.get(name):
            facts = ", ".join(f"{key} {value}" for key, value in found[name]["machine"].items())
            say(f"{name} measured on: {facts}")
    kept = verdicts(found)
    if kept:
        say(f"{sum(kept)} of {len(kept)} bars kept")


def check_parts(part: list[str] | None, data: Path | None) -> list[str]:
    from ..bench.video_report import PARTS

    parts = list(part or PARTS)
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        raise InputError(f"unknown part {', '.join(unknown)}; choose from {', '.join(PARTS)}")
    if part and "real" in part and data is None:
        raise InputError("--part real needs --data, a folder with records.jsonl and its pictures")
    return parts


def measure_needle(request: VideoRequest, out: Path | None, quiet: bool) -> dict[str, Any]:
    """With a bar; what is found so far is written after every batch."""
    from arr_coc.app.cli.console import progress
    from arr_coc.core.files import write_json

    from ..bench.video import measure_needle as measure
    from ..bench.video_report import document, with_the_rest

    done = 0
    with progress(request.clips, "watching", hidden=quiet) as advance:

        def ahead(until: int, found: dict[str, Any]) -> None:
            nonlocal done
            for _ in range(until - done):
                advance()
            done = until
            if out is not None:
                path = out / "video.json"
                write_json(path, with_the_rest(path, document(clips=found)))

        return measure(request, ahead)


def measure_real(data: Path, quick: bool, quiet: bool) -> dict[str, Any]:
    from arr_coc.app.cli.console import progress
    from arr_coc.video.settings import load_settings

    from ..bench.video_streams import measure_real_clips, real_clips

    clips = real_clips(data, QUICK_EVERY if quick else 1)
    with progress(list(clips), "following", hidden=quiet) as advance:
        found = measure_real_clips(clips, load_settings(), advance)
    return {"clips": found, "every": QUICK_EVERY if quick else 1}


def measure_speed(quick: bool) -> dict[str, Any]:
    from ..bench.table import Quantity
    from ..bench.video_streams import speed_rows

    rows, facts = speed_rows(QUICK_REPEATS if quick else 5)
    plain = [{key: cell.to_json() if isinstance(cell, Quantity) else cell for key, cell in row.items()} for row in rows]
    return {"rows": plain, "facts": facts}
