"""`arr-coc calibrate`: which heads of a model point at what is asked, and letters of which height it reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arr_coc.app.cli.console import print_json, progress, say, wait_asleep, writing
from arr_coc.app.cli.options import OnlyJson, with_options
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI

from .needle import parse_size
from .tables import show, table

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye
    from arr_coc.core.values import JsonObject

ROWS = (
    ("without the question", "unasked"),
    ("by the later layers (before)", "before"),
    ("by the best heads (after)", "after"),
)


@dataclass(frozen=True)
class CalibrateCommand:
    """What is measured of which model."""

    model: Annotated[
        str, typer.Option("--model", "-m", help="mini, which comes with the library; a folder; a name on the hub.")
    ] = MINI
    n: Annotated[
        int, typer.Option("--n", help="How many pictures; half of them choose the heads, half of them test the choice.")
    ] = 280
    size: Annotated[str, typer.Option(metavar="HEIGHTxWIDTH", help="Size of the pictures, in pixels.")] = "512x512"
    seed: Annotated[int, typer.Option(help="The same seed gives the same pictures.")] = 77
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write. [default: where attach and ask look for it]", show_default=False),
    ] = None
    batch: Annotated[
        int | None, typer.Option(help="Pictures at once. [default: 4, on a GPU 16]", show_default=False)
    ] = None
    only: Annotated[
        str | None,
        typer.Option(
            metavar="glance|grip",
            help="Measure only one: glance (heads) or grip (sizes of letters).",
            show_default=False,
        ),
    ] = None
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
    if options.only not in (None, "glance", "grip"):
        raise InputError(f"--only {options.only} is unknown; choose glance or grip")
    if options.texts < 2:
        raise InputError(f"--texts {options.texts} are too few to tell heights apart; give at least 2")
    only = "glance" if options.out is not None and options.only is None else options.only  # one file holds one of them
    if options.n < 28:
        raise InputError(f"--n {options.n} pictures are too few to tell heads apart; give at least 28")
    if options.batch is not None and options.batch < 1:
        raise InputError(f"--batch {options.batch} holds no picture; give at least 1")
    shape = parse_size(options.size)
    wait_asleep()
    from arr_coc.looking import check_device

    check_device(options.device)
    eye = reader_of(options.model, options.device, only)
    name = (getattr(eye.model.config, "_name_or_path", "") or options.model) if hasattr(eye, "model") else options.model
    found: dict[str, object] = {}
    if only != "grip":
        found = calibrate_glance(eye, name, options, shape)
    if only != "glance":
        grip = calibrate_grip(eye, name, options)
        found = {**found, "grip": grip} if found else grip
    if options.as_json:
        print_json(found)


def reader_of(model: str, device: str, only: str | None) -> Eye:
    """The model; `mini` without torch where it only has to read."""
    if only == "grip" and model == MINI and device == "cpu":
        from arr_coc.answering.light import quick_eye

        return quick_eye()
    from arr_coc.answering.eye import Eye

    return Eye.from_pretrained(model, device=device)


def calibrate_glance(eye: Eye, name: str, options: CalibrateCommand, size: tuple[int, int]) -> dict[str, object]:
    """Find the heads that point, write them where glances look for them, and tell how well they do.

    name: under which the model is found again."""
    from arr_coc.core.files import write_json
    from arr_coc.core.manifest import changing
    from arr_coc.realizing.glance import glance_path

    from ..calibrate.pointing import measure

    with progress(options.n, "looking", hidden=options.as_json) as advance:

        def done(pictures: int) -> None:
            for _ in range(pictures):
                advance()

        found = measure(
            eye.model,
            eye.processor,
            size,
            options.seed,
            number=options.n,
            batch_size=options.batch,
            advance=done,
        )
    place = options.out or glance_path(name)
    if found["points"]:
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            with changing(place):
                write_json(place, found)
    if options.as_json:
        return {**found, "file": str(place) if found["points"] else None}
    title = f"{options.model}: relevant cells under the most attended eighth of a coarse view"
    show(
        table(title, {"where it looks": "left", "covered": "right", "95 %": "right", "pictures": "right"}, rows(found))
    )
    if found["points"]:
        heads = ", ".join(f"{layer}.{head}" for layer, head in found["heads"])
        say(f"heads (layer.head): {heads}", f"written to {place}")
    else:
        say("No head looks at what is asked more than at what stands out anyway; nothing was written.")
    return found


def calibrate_grip(eye: Eye, name: str, options: CalibrateCommand) -> dict[str, object]:
    """Measure the grip, write grip.json and a picture of the curve beside it; a run that was stopped goes on.

    Args:
        eye: The model.
        name: Under which it is found again.
        options: As the user gave them.
    """
    from arr_coc.draw.grip import grip_picture

    from arr_coc.attending.grip import GRIP, grip_model
    from arr_coc.core.files import replacing, write_json
    from arr_coc.core.folders import measured_path
    from arr_coc.core.manifest import changing

    from ..calibrate.gripping import measure as measure_grip
    from ..calibrate.gripping import steps

    place = options.out or measured_path(name, GRIP)
    kept = place.with_name(f"{place.stem}.{options.seed}.part.jsonl")
    with writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        with progress(steps(options.texts), "reading", hidden=options.as_json) as advance:
            called = MINI if options.model == MINI else grip_model(name)
            found = measure_grip(
                eye, called, number=options.texts, seed=options.seed, kept=kept, advance=lambda: advance()
            )
        if not max(found["accuracy"]) > 0:  # as of a model that was never trained
            kept.unlink(missing_ok=True)
            if not options.as_json:
                say(f"{options.model} read none of the texts, at any height: no grip was written")
            return {"read": False, **found}
        with changing(place):
            write_json(place, found)
        with replacing(place.with_suffix(".png")) as temporary:
            grip_picture(found).save(temporary, format="png")
        kept.unlink(missing_ok=True)
    if not options.as_json:
        low, high, best, largest = *found["range"], found["best"], found["largest"]
        say(
            f"{options.model} reads letters of {low:.0f} to {high:.0f} px best ({best:.0f}), "
            f"canvases up to {largest} px",
            f"written to {place}, and the curve to {place.with_suffix('.png')}",
        )
    return {**found, "file": str(place)} if options.as_json else found


def rows(found: JsonObject) -> list[tuple[str, str, str, str]]:
    return [
        (
            title,
            f"{100 * found[key]['mean']:.1f} %",
            f"{100 * found[key]['low']:.1f}–{100 * found[key]['high']:.1f}",
            str(found[key]["n"]),
        )
        for title, key in ROWS
    ]
