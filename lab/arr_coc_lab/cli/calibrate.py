"""`arr-coc calibrate`: which heads of a model point at what is asked, and letters of which height it reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arr_coc.app.cli.console import print_json, progress, say, wait_asleep, writing
from arr_coc.app.cli.options import Model, OnlyJson, with_options
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI

from .needle import parse_size

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye
    from arr_coc.core.values import JsonObject


@dataclass(frozen=True)
class CalibrateCommand:
    """What is measured of which model."""

    model: Model = MINI
    n: Annotated[int, typer.Option("--n", help="Pictures; half of them choose the heads, half test the choice.")] = 280
    size: Annotated[str, typer.Option(metavar="HEIGHTxWIDTH", help="Size of the pictures, in pixels.")] = "512x512"
    seed: Annotated[int, typer.Option(help="The same seed gives the same pictures.")] = 77
    out: Annotated[Path | None, typer.Option(help="The file to write. [default: where attach and ask look]")] = None
    batch: Annotated[int | None, typer.Option(help="Pictures at once. [default: 4, on a GPU 16]")] = None
    only: Annotated[str | None, typer.Option(help="Measure only glance (heads) or grip (sizes of letters).")] = None
    texts: Annotated[int, typer.Option(help="For the grip: how many texts of each height.")] = 8
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu"
    as_json: OnlyJson = False


@with_options(CalibrateCommand)
def command(options: CalibrateCommand) -> None:
    """Measure two things of a model: which attention heads look at the answer, and which sizes of letters it reads.

    The heads serve relevance="glance": a coarse first look of the model tells where to look closely. It is the default
    for models without a scorer. The sizes of letters (the model's grip) serve --scale auto. Pictures and texts are
    drawn, nothing is downloaded. The results are small files in the model's folder, or in ~/.arr-coc ($ARR_COC_HOME),
    where attach, Eye and ask find them.

    \b
    Examples:
      arr-coc calibrate --model Qwen/Qwen3-VL-2B-Instruct --device cuda
      arr-coc calibrate --model ./my-model --n 560 --out heads.json
      arr-coc calibrate --model ./my-model --only grip --texts 16
    """
    only = "glance" if options.out is not None and options.only is None else options.only  # one file holds one of them
    if only not in (None, "glance", "grip"):
        raise InputError(f"--only {only} is unknown; choose glance or grip")
    for name, value, least in (("--texts", options.texts, 2), ("--n", options.n, 28), ("--batch", options.batch, 1)):
        if value is not None and value < least:
            raise InputError(f"{name} {value} is too few; give at least {least}")
    shape = parse_size(options.size)
    wait_asleep()
    from arr_coc.answering.eye import Eye
    from arr_coc.looking import check_device

    check_device(options.device)
    eye = Eye.from_pretrained(options.model, device=options.device)
    name = getattr(eye.model.config, "_name_or_path", "") or options.model
    found: JsonObject = {} if only == "grip" else calibrate_glance(eye, name, options, shape)
    if only != "glance":
        grip = calibrate_grip(eye, name, options)
        found = {**found, "grip": grip} if found else grip
    if options.as_json:
        print_json(found)


def calibrate_glance(eye: Eye, name: str, options: CalibrateCommand, size: tuple[int, int]) -> JsonObject:
    """Find the heads that point and write them where glances look for them. name: of the model."""
    from arr_coc.core.files import write_json
    from arr_coc.core.folders import changing, measured_path

    from ..calibrate.pointing import measure

    how = {"number": options.n, "batch_size": options.batch}
    with progress(options.n, "looking", hidden=options.as_json) as advance:
        found = measure(eye.model, eye.processor, size, options.seed, advance=lambda n: advance(done=n), **how)
    place = options.out or measured_path(name, "glance")
    if found["points"]:
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            with changing(place):
                write_json(place, found)
    if not options.as_json:
        for title, key in (("without the question", "unasked"), ("later layers", "before"), ("best heads", "after")):
            mean, low, high = (100 * found[key][part] for part in ("mean", "low", "high"))
            say(f"{title}: {mean:.1f} % ({low:.1f}–{high:.1f}) of what is needed, n = {found[key]['n']}")
        none = "No head looks at what is asked more than at what stands out anyway; nothing was written."
        say(f"heads {found['heads']}, written to {place}" if found["points"] else none)
    return {**found, "file": str(place) if found["points"] else None}


def calibrate_grip(eye: Eye, name: str, options: CalibrateCommand) -> JsonObject:
    """Measure the grip, write grip.json; a run that was stopped goes on."""
    from arr_coc.attending.grip import GRIP, grip_model
    from arr_coc.core.files import write_json
    from arr_coc.core.folders import changing, measured_path

    from ..calibrate.gripping import measure, steps

    place = options.out or measured_path(name, GRIP)
    kept = place.with_name(f"{place.stem}.{options.seed}.part.jsonl")
    called = MINI if options.model == MINI else grip_model(name)
    with writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        with progress(steps(options.texts), "reading", hidden=options.as_json) as advance:
            found = measure(eye, called, number=options.texts, seed=options.seed, kept=kept, advance=lambda: advance())
        read = max(found["accuracy"]) > 0  # not by a model that was never trained
        if read:
            with changing(place):
                write_json(place, found)
        kept.unlink(missing_ok=True)
    if not options.as_json:
        sizes = (
            "reads letters of {:.0f} to {:.0f} px best".format(*found["range"]) if read else "read none of the texts"
        )
        say(f"{options.model} {sizes}" + (f", written to {place}" if read else ": no grip was written"))
    return {"read": read, **found, "file": str(place) if read else None}
