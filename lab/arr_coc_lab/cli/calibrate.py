"""`arr-coc calibrate`: which heads of a model point at what is asked, for its glances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from arr_coc.app.cli.console import print_json, progress, say, show, table, wait_asleep, writing
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI

from .needle import parse_size

ROWS = (
    ("without the question", "unasked"),
    ("by the later layers (before)", "before"),
    ("by the best heads (after)", "after"),
)


def command(
    model: Annotated[
        str, typer.Option("--model", "-m", help="mini, which comes with the library; a folder; a name on the hub.")
    ] = MINI,
    n: Annotated[int, typer.Option("--n", help="How many pictures; half of them choose, half of them measure.")] = 280,
    size: Annotated[str, typer.Option(metavar="HEIGHTxWIDTH", help="Of the pictures, in pixels.")] = "512x512",
    seed: Annotated[int, typer.Option(help="The same seed gives the same pictures.")] = 77,
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write. [default: where attach and ask look for it]", show_default=False),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Pictures at once. [default: 4, on a GPU 16]", show_default=False)
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Show a model pictures in which the place of every answer is known, and keep the heads that look there.

    A glance (attach and ask with relevance="glance", the default where no scorer comes with the model) reads where the
    model looks just before it answers. Which heads point is a property of each model. What is found is a small file
    that attach, Eye and ask find by the model's name: in the model's own folder, or in ~/.arr-coc ($ARR_COC_HOME).

    \b
    Examples:
      arr-coc calibrate --model Qwen/Qwen3-VL-2B-Instruct --device cuda
      arr-coc calibrate --model ./my-model --n 560 --out heads.json
    """
    if n < 28:
        raise InputError(f"--n {n} pictures are too few to tell heads apart; give at least 28")
    if batch is not None and batch < 1:
        raise InputError(f"--batch {batch} holds no picture; give at least 1")
    shape = parse_size(size)
    wait_asleep()
    from arr_coc.core.files import write_json
    from arr_coc.core.manifest import changing
    from arr_coc.eye.eye import Eye
    from arr_coc.looking import check_device
    from arr_coc.models.glance import glance_path

    from ..bench.pointing import measure

    check_device(device)
    eye = Eye.from_pretrained(model, device=device)
    with progress(n, "looking", hidden=as_json) as advance:

        def done(pictures: int) -> None:
            for _ in range(pictures):
                advance()

        found = measure(
            eye.model,
            eye.processor,
            number=n,
            size=shape,
            seed=seed,
            batch_size=batch,
            advance=done,
        )
    place = out or glance_path(getattr(eye.model.config, "_name_or_path", "") or model)
    if found["points"]:
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            with changing(place):
                write_json(place, found)
    if as_json:
        print_json({**found, "file": str(place) if found["points"] else None})
        return
    title = f"{model}: relevant cells under the most attended eighth of a coarse view"
    show(
        table(title, {"where it looks": "left", "covered": "right", "95 %": "right", "pictures": "right"}, rows(found))
    )
    if not found["points"]:
        say("No head looks at what is asked more than at what stands out anyway; nothing was written.")
        return
    heads = ", ".join(f"{layer}.{head}" for layer, head in found["heads"])
    say(f"heads (layer.head): {heads}", f"written to {place}")


def rows(found: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [
        (
            title,
            f"{100 * found[key]['mean']:.1f} %",
            f"{100 * found[key]['low']:.1f}–{100 * found[key]['high']:.1f}",
            str(found[key]["n"]),
        )
        for title, key in ROWS
    ]
