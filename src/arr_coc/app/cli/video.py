"""`arr-coc video`: where a clip's tokens go, frame by frame, and what a model makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.errors import InputError
from ...core.values import JsonObject
from .console import print_json, progress, say, show, table, writing
from .options import ModelDevice, OnlyJson, OutFolder, Query, with_options

if TYPE_CHECKING:
    import numpy as np

    from ...answering.eye import Eye
    from ...core.values import Answer
    from ...video.watching import Watched

# A source without an end is watched for so many frames, unless told otherwise.
LIVE_FRAMES = 150
# Rows of the printed table; of longer clips, cuts and evenly spaced frames are shown.
ROWS = 30


@dataclass(frozen=True)
class VideoCommand:
    """What a clip is watched with."""

    clip: Annotated[str, typer.Argument(help="A file, 'webcam', or a stream (rtsp://…).")]
    query: Query
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS", help="Visual tokens for the whole clip: a number such as 2560, or a share such as 25%."
        ),
    ] = None
    keep: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Share of the clip's full count to spend. [default: 0.25]")
    ] = None
    cap: Annotated[int | None, typer.Option(help="The most tokens that one frame may cost.")] = None
    every: Annotated[int, typer.Option(help="Use every Nth frame only.")] = 1
    frames: Annotated[int | None, typer.Option(help="Use so many frames at most.")] = None
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Also answer: mini, a folder, or a name on the hub.")
    ] = None
    reading: Annotated[
        str,
        typer.Option(
            help="How a model reads a clip: video (all frames), sheet (frames side by side), clearest (the best), auto."
        ),
    ] = "auto"
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="auto|TIMES",
            help="From how far all frames are read: so many times as large, or by the model's grip and the size of the "
            "letters. [default: 1]",
        ),
    ] = None
    passes: Annotated[
        int, typer.Option(help="By the clearest frames: look at up to so many, until the answer is sure.")
    ] = 1
    clusters: Annotated[
        str | None,
        typer.Option(
            metavar="slic|sam:FOLDER", help="Tell regions apart by this; tokens go through them with --cascade."
        ),
    ] = None
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Give tokens to the best clusters first; by SLIC unless --clusters says.")
    ] = False
    foresee: Annotated[
        bool, typer.Option("--foresee", help="Tell how well each frame could be foreseen from the motion before it.")
    ] = False
    mips: Annotated[
        float | None,
        typer.Option(help="Share of the relevance that is taken from the last four frames, 0 to 1."),
    ] = None
    relevance: Annotated[
        str,
        typer.Option(help="Who says where to look. auto: by what is there; scorer: a network; look: without a model."),
    ] = "auto"
    numbers: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A folder made by arr-coc train video temporal."),
    ] = None
    out: OutFolder = Path("out")
    device: ModelDevice = "cpu"
    allow_url: Annotated[bool, typer.Option("--allow-url", help="Fetch a clip that is a web address.")] = False
    seed: Annotated[int, typer.Option(help="Has no effect here; accepted for scripts that pass it everywhere.")] = 0
    as_json: OnlyJson = False


@with_options(VideoCommand)
def command(options: VideoCommand) -> int:
    """Show where the tokens of a clip go, frame by frame. With --model, answer the question.

    Writes homunculus.mp4, coherence.png and video.json, and prints a table. One budget covers all frames: a
    new scene gets a full look, and what was shown before costs hardly anything again.

    \b
    Examples:
      arr-coc video street.mp4 "What number is on the red sign?"
      arr-coc video street.mp4 "What number is on the red sign?" --keep 0.1 --every 5 --out red
      arr-coc video clip.mp4 "What is the total?" --model mini --json | jq .answer.text
      arr-coc video clip.mp4 "What is the total?" --model mini --passes 4
      arr-coc video clip.mp4 "What is the total?" --model mini --scale auto
      arr-coc video street.mp4 "Where is the bus?" --cascade --foresee
      arr-coc video webcam "Where is the cup?" --frames 100
      arr-coc video rtsp://camera.local/stream "Who is at the door?" --frames 300
    """
    from ...attending.distance import check_scale
    from ...attending.request import check_amount, check_device, check_request
    from .inputs import check_model, is_url

    tokens, share = check_amount(options.budget, options.keep)
    check_request([options.query], tokens, share)
    if is_url(options.clip) and not options.allow_url:
        raise InputError(
            f"{options.clip} is a web address; add --allow-url to fetch it, or download it and give its path"
        )
    check_device(options.device)
    scale = check_scale(options.scale)
    if options.model is not None:
        check_model(options.model)
    from ...video.answering import READINGS

    if options.reading not in READINGS:
        raise InputError(f"--reading {options.reading} is unknown; choose {', '.join(READINGS)}")
    if options.passes < 1 or (options.passes > 1 and (options.model is None or options.reading == "video")):
        raise InputError(
            f"--passes {options.passes} needs --model and frames one by one; give 1 or more, not --reading video"
        )
    how: dict[str, object] = {
        "clusters": options.clusters or options.cascade,
        "cascade": options.cascade,
        "foresee": options.foresee,
        "mips": options.mips,
        "scale": scale,
    }
    if options.numbers is not None:
        from ...video.settings import load_settings

        how["settings"] = load_settings(options.numbers)
    eye = None
    if options.model is not None:
        from ...answering.eye import Eye

        eye = Eye.from_pretrained(options.model, device=options.device)
    watched, pixels, rate = watch_source(options, (tokens, share), eye, **how)
    answer = None
    if eye is not None:
        from ...video.answering import answer_clip

        reading = "clearest" if options.passes > 1 else options.reading
        answer = answer_clip(eye, watched, pixels, reading, passes=options.passes)
    files = write_files(options.out, watched, pixels, rate, answer, options.clip)
    if options.as_json:
        print_json({**document(watched, answer, options.clip), "files": files})
    else:
        print_watched(options.clip, watched, answer, files)
    return 0


def watch_source(
    options: VideoCommand, amount: tuple[int | None, float | None], eye: Eye | None, **more: object
) -> tuple[Watched, list[np.ndarray], float]:
    """The clip, watched; its frames; frames a second of what was kept."""
    from ...video.decode import open_film
    from ...video.watching import watch_film

    clip, every = options.clip, options.every
    live = clip.partition(":")[0] == "webcam" or "://" in clip
    limit = options.frames if options.frames is not None or not live else LIVE_FRAMES
    with open_film(clip, every, limit, multiple=1 if eye is None else eye_cell(eye)) as film:
        own = {"scorer": getattr(eye, "scorer", None), "grip": getattr(eye, "grip", None), **more}
        with progress(film.frames, "watching", hidden=options.as_json) as advance:
            own |= {"relevance": options.relevance, "cap": options.cap, "advance": lambda seen: advance()}
            watched, pixels = watch_film(film, options.query, *amount, **own)
        return watched, pixels, film.per_second / every


def eye_cell(eye: Eye) -> int:
    images = eye.processor.image_processor
    if not hasattr(images, "merge_size"):
        raise InputError(f"{eye.name} does not take frames in whole tokens; answer with mini or a Qwen3-VL")
    return images.patch_size * images.merge_size


def write_files(
    out: Path, watched: Watched, pixels: list[np.ndarray], rate: float, answer: Answer | None, clip: str
) -> dict[str, str]:
    from ...core.files import write_json
    from ...video.decode import write_clip
    from ...video.film import coherence_plot, homunculus_frames

    paths = {name: out / name for name in ("homunculus.mp4", "coherence.png", "video.json")}
    try:
        with writing(out):
            write_clip(paths["homunculus.mp4"], homunculus_frames(watched, pixels), rate)
            coherence_plot(paths["coherence.png"], watched)
            detail = {**document(watched, answer, clip), "allocations": [one.to_json() for one in watched.allocations]}
            write_json(paths["video.json"], detail)
    except ImportError as error:
        raise InputError("the coherence plot needs matplotlib: pip install 'arr-coc[video]'") from error
    return {name: str(path) for name, path in paths.items()}


def document(watched: Watched, answer: Answer | None, clip: str) -> JsonObject:
    """The JSON: one row for each frame, and the clip's own numbers."""
    rows = [
        {
            "frame": seen.number,
            "seconds": round(time, 4),
            "scene": seen.scene,
            "cut": seen.cut,
            "keyframe": seen.keyframe,
            "tokens": seen.tokens,
            "similarity": seen.similarity,
            **({} if seen.foreseen is None else {"foreseen": seen.foreseen}),
            "looked": seen.looked,
            "finest": min(seen.allocation.tokens_by_level()),
            **seen.features,
        }
        for seen, time in zip(watched.frames, watched.seconds, strict=True)
    ]
    return {
        "schema": 1,
        "clip": clip,
        "query": watched.query,
        "size": {"height": watched.size[0], "width": watched.size[1]},
        "budget": watched.budget,
        "tokens": watched.tokens,
        "full": watched.full,
        "scale": watched.distance.scale,
        "cuts": watched.cuts,
        "coherence": watched.coherence,
        **({} if watched.foreseen is None else {"foreseen": watched.foreseen}),
        "notes": list(watched.notes),
        "frames": rows,
        "answer": None if answer is None else {**answer.to_json(), "passes": len(answer.passes)},
    }


def shown_rows(watched: Watched) -> list[int]:
    """Which frames the table shows: all of a short clip; of a long one the cuts and evenly spaced others."""
    number = len(watched.frames)
    step = max(1, -(-number // ROWS))
    return sorted({*range(0, number, step), *watched.cuts, number - 1})


def print_watched(clip: str, watched: Watched, answer: Answer | None, files: dict[str, str]) -> None:
    headings = ("frame", "seconds", "scene", "tokens", "finest", "similarity", "looked", "")
    rows = []
    for number in shown_rows(watched):
        seen = watched.frames[number]
        rows.append(
            (
                str(number),
                f"{watched.seconds[number]:.2f}",
                str(seen.scene),
                str(seen.tokens),
                f"level {min(seen.allocation.tokens_by_level())}",
                "–" if seen.similarity is None else f"{seen.similarity:.2f}",
                f"{100 * seen.looked:.0f} %",
                "cut" if seen.cut else "keyframe" if seen.keyframe else "",
            )
        )
    show(table(f"{Path(clip).name}: {watched.query}", dict.fromkeys(headings, "right"), rows))
    inside = watched.coherence["inside"]
    share = 100 * watched.tokens / watched.full
    lines = [
        f"{len(watched.frames)} frames, cuts: {len(watched.cuts)}, {watched.tokens} tokens of {watched.full} "
        f"({share:.1f} %), budget {watched.budget}"
    ]
    lines += [] if inside is None else [f"similarity inside scenes: {inside:.2f}"]
    lines += [] if watched.foreseen is None else [f"foreseen from the frame before: {100 * watched.foreseen:.0f} %"]
    lines += [f"note: {note}" for note in watched.notes]
    if answer is not None:
        lines.append(
            f"answer: {answer.text or '(nothing)'} (uncertainty {answer.uncertainty:.2f}, {answer.tokens} tokens)"
        )
    say(*lines, f"files: {', '.join(files.values())}")
