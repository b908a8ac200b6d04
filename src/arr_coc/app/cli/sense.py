"""`arr-coc sense`: the texture array of a picture or of a clip, channel by channel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.errors import InputError
from .console import print_json, say, show, table, writing
from .options import ModelDevice, OnlyJson, with_options

if TYPE_CHECKING:
    from ...texture.pyramid import Pyramid
    from ...texture.texture import Texture

SUFFIXES = (".npz", ".png")


@dataclass(frozen=True)
class SenseCommand:
    """What a picture is sensed with."""

    image: Annotated[str, typer.Argument(metavar="IMAGE|CLIP", help="A picture, or a clip with --video.")]
    query: Annotated[str, typer.Option("--query", "-q", help="The question, for maps that depend on one.")] = ""
    layout: Annotated[str, typer.Option(help="mvp13, full40, or page15 (with the heights of letters).")] = "mvp13"
    video: Annotated[
        bool, typer.Option("--video", help="The file is a clip: maps of its last frame, and of its history.")
    ] = False
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A model whose attention is shown: mini, a folder, a name on the hub."),
    ] = None
    encoder: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="A folder with your CLIP or SigLIP, for maps of meaning.")
    ] = None
    clusters: Annotated[str, typer.Option(help="slic, sam, the folder of a SAM, or none.")] = "slic"
    mips: Annotated[
        str | None, typer.Option(help="Also write reduced copies, made by: average, learned, attention.")
    ] = None
    levels: Annotated[int, typer.Option(help="How many reduced copies.")] = 5
    gaze: Annotated[
        str | None, typer.Option(metavar="Y,X", help="Where one looks, 0 to 1. [default: where the model looks]")
    ] = None
    size: Annotated[
        int | None, typer.Option(help="Longer side in pixels at which the picture is sensed. [default: up to 1024]")
    ] = None
    projection: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of the projection for maps of meaning: read if it exists, else made."),
    ] = None
    every: Annotated[int, typer.Option(help="Of a clip, use every Nth frame only.")] = 1
    frames: Annotated[int, typer.Option(help="Of a clip, use so many frames at most.")] = 8
    text: Annotated[str, typer.Option(help="Text regions by: strokes, ocr, auto.")] = "strokes"
    out: Annotated[
        list[Path] | None,
        typer.Option(help="texture.npz or a sheet, texture.png; may be repeated. [default: texture.npz]"),
    ] = None
    device: ModelDevice = "cpu"
    as_json: OnlyJson = False


@with_options(SenseCommand)
def command(options: SenseCommand) -> int:
    """What is sensed of a picture, as maps with names: colours, edges, what stands out, text, motion and more.

    Writes the maps with their names (npz) or a sheet of all of them (png), and prints their ranges. Maps that need
    something that is missing are zero, and a note says what they need.

    \b
    Examples:
      arr-coc sense street.png --out texture.png
      arr-coc sense street.png --layout full40 --model mini -q "the red sign" --out texture.npz --out texture.png
      arr-coc sense street.mp4 --video --layout full40 --model mini -q "the red sign" --out texture.png
      arr-coc sense photo.jpg --layout full40 --encoder ./siglip --clusters sam
      arr-coc sense street.png --layout full40 --mips learned --out texture.npz
      arr-coc sense scan.png --layout page15 --out letters.png
    """
    from ...attending.request import check_device
    from ...texturing import MIPS, QUESTION, mips_of, save_texture, sense, silent_channels
    from .inputs import check_model, open_source, point_of

    out = options.out or [Path("texture.npz")]
    for path in out:
        if path.suffix.lower() not in SUFFIXES:
            raise InputError(f"--out {path} must end in .npz (numbers) or .png (a sheet)")
    if options.mips is not None and options.mips not in MIPS:
        raise InputError(f"--mips {options.mips} is unknown; choose {', '.join(MIPS)}")
    if not 1 <= options.levels <= 12:
        raise InputError(f"--levels {options.levels} is no height of a pyramid; give 1 to 12")
    check_device(options.device)
    if options.model is not None:
        check_model(options.model)
    place = options.image if options.video else open_source(options.image).place
    texture = sense(
        place,
        options.query or QUESTION,
        options.layout,
        video=options.video,
        model=options.model,
        encoder=options.encoder,
        clusters=None if options.clusters == "none" else options.clusters,
        gaze=None if options.gaze is None else point_of(options.gaze),
        size=options.size,
        text=options.text,
        projection=options.projection,
        every=options.every,
        frames=options.frames,
        device=options.device,
    )
    pyramid = None if options.mips is None else mips_of(texture, options.mips, options.levels)
    for path in out:
        with writing(path.parent):
            if path.suffix.lower() == ".npz":
                save_texture(path, texture, pyramid)
            else:
                from ...core.files import replacing
                from ...draw.channels import texture_sheet

                with replacing(path) as temporary:
                    texture_sheet(texture).save(temporary, format="png")
    silent = silent_channels(texture)
    if options.as_json:
        print_json(document(texture, silent, pyramid, out))
        return 0
    rows = [
        (name, *(f"{value:.3g}" for value in ranges_of(texture, name)), "says nothing" if name in silent else "")
        for name in texture.names
    ]
    columns = {"channel": "left", **dict.fromkeys(("low", "mean", "high", ""), "right")}
    show(table(f"{options.image}: {options.layout}", columns, rows))
    say(
        f"{len(texture.names) - len(silent)} of {len(texture.names)} channels of {texture.width}×{texture.height} live",
        *(f"note: {note}" for note in texture.notes),
        f"files: {', '.join(map(str, out))}",
    )
    return 0


def ranges_of(texture: Texture, name: str) -> tuple[float, float, float]:
    values = texture[name]
    return float(values.min()), float(values.mean()), float(values.max())


def document(texture: Texture, silent: tuple[str, ...], pyramid: Pyramid | None, out: list[Path]) -> dict[str, object]:
    ranges = {name: dict(zip(("low", "mean", "high"), ranges_of(texture, name), strict=True)) for name in texture.names}
    sizes = [] if pyramid is None else [{"height": one.height, "width": one.width} for one in pyramid.levels]
    return {
        "schema": 1,
        "layout": texture.layout.name,
        "size": {"height": texture.height, "width": texture.width},
        "channels": ranges,
        "silent": list(silent),
        "levels": sizes,
        "notes": list(texture.notes),
        "files": [str(path) for path in out],
    }
