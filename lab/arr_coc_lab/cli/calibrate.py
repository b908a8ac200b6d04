"""`arr-coc calibrate`: measure which attention heads of a model point at the answer, and the letter sizes it reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arr_coc.app.cli.console import print_json, progress, say, wait_asleep, writing
from arr_coc.app.cli.options import Model, OnlyJson
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI
from arr_coc.options import check_device

from .worlds import Device, Seed

if TYPE_CHECKING:
    from arr_coc.core.values import JsonObject


MEASURED = {"without the question": "unasked", "later layers": "before", "best heads": "after"}


def command(
    model: Model = MINI,
    n: Annotated[int, typer.Option("--n", help="Number of pictures: half choose the heads, half test them.")] = 280,
    seed: Seed = 77,
    out: Annotated[Path | None, typer.Option(help="File to write. [default: where attach and ask read it]")] = None,
    only: Annotated[str | None, typer.Option(help="Measure only one: glance (heads) or grip (letter sizes).")] = None,
    texts: Annotated[int, typer.Option(help="For the grip: number of texts of each letter height.")] = 8,
    device: Device = "cpu",
    as_json: OnlyJson = False,
) -> None:
    """Measure which attention heads of a model look at the answer, and which letter sizes it reads.

    relevance="glance", the default for models without a scorer, uses the heads. --set scale=auto uses the letter sizes
    (the model's grip). Pictures and texts are drawn; only the model may be downloaded. Writes small files into the
    model's folder, or into ~/.arr-coc ($ARR_COC_HOME), where attach and ask find them.

    \b
    Examples:
      arr-coc calibrate --model Qwen/Qwen3-VL-2B-Instruct --device cuda
      arr-coc calibrate --model ./my-model --n 560 --out heads.json
      arr-coc calibrate --model ./my-model --only grip --texts 16
    """
    only = "glance" if out is not None and only is None else only  # one file holds one measurement
    if only not in (None, "glance", "grip"):
        raise InputError(f"--only {only} is unknown; choose glance or grip")
    for name, value, least in (("--texts", texts, 2), ("--n", n, 28)):
        if value < least:
            raise InputError(f"{name} {value} is too few; give at least {least}")
    check_device(device)
    wait_asleep()
    from arr_coc.answering.eye import Eye
    from arr_coc.attending.grip import GRIP, grip_model
    from arr_coc.core.folders import measured_path

    from ..calibrate import gripping, pointing

    eye = Eye.from_pretrained(model, device=device)
    name = getattr(eye.model.config, "_name_or_path", "") or model
    document: JsonObject = {}
    if only != "grip":
        place = out or measured_path(name, "glance")
        with progress(n, "looking", hidden=as_json) as advance:
            found = pointing.measure(
                eye.model, eye.processor, seed=seed, number=n, advance=lambda done: advance(done=done)
            )
        document = {**found, "file": write(place, found) if found["points"] else None}
        if not as_json:
            for title, key in MEASURED.items():
                mean, low, high = (100 * found[key][part] for part in ("mean", "low", "high"))
                say(f"{title}: {mean:.1f} % ({low:.1f}–{high:.1f}) of what is needed, n = {found[key]['n']}")
            nothing = "No head looks at the answer; nothing was written"
            say(f"heads {found['heads']}, written to {place}" if found["points"] else nothing)
    if only != "glance":
        place = out or measured_path(name, GRIP)
        kept = place.with_name(f"{place.stem}.{seed}.part.jsonl")  # an interrupted run resumes from it
        called = MINI if model == MINI else grip_model(name)
        with writing(place), progress(gripping.steps(texts), "reading", hidden=as_json) as advance:
            place.parent.mkdir(parents=True, exist_ok=True)
            found = gripping.measure(eye, called, number=texts, seed=seed, kept=kept, advance=lambda: advance())
            kept.unlink(missing_ok=True)
        read = max(found["accuracy"]) > 0  # not by a model that was never trained
        grip = {"read": read, **found, "file": write(place, found) if read else None}
        document = {**document, "grip": grip} if document else grip
        if not as_json:
            best = "reads letters of {:.0f} to {:.0f} px best, written to {}".format(*found["range"], place)
            say(f"{model} {best}" if read else f"{model} read none of the texts: no grip was written")
    if as_json:
        print_json(document)


def write(place: Path, found: JsonObject) -> str:
    """Write measurements to the place where attach and ask look for them."""
    from arr_coc.core.folders import whole_folder, write_json

    with writing(place), whole_folder(place.parent, always=False) as made:
        write_json(made / place.name, found)
    return str(place)
