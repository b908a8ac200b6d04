"""`arr-coc video`: where a clip's tokens go, frame by frame, and what a model makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.errors import InputError
from ...core.values import JsonObject
from .console import print_json, progress, say, show, table, writing
from .options import AnsweringModel, Choices, OnlyJson, OutFolder, Query, with_options

if TYPE_CHECKING:
    import numpy as np

    from ...answering.eye import Eye
    from ...core.values import Answer
    from ...options import Options
    from ...video.watching import Watched

# Frames that are watched of a source without an end, unless --frames says otherwise.
LIVE_FRAMES = 150
# Rows of the printed table; of longer clips, cuts and evenly spaced frames are shown.
ROWS = 30


@dataclass(frozen=True, kw_only=True)
class VideoCommand(Choices):
    """What a clip is watched with."""

    clip: Annotated[str, typer.Argument(help="A file, 'webcam', or a stream (rtsp://…).")]
    query: Query
    every: Annotated[int, typer.Option(help="Use every Nth frame only.")] = 1
    frames: Annotated[int | None, typer.Option(help="The most frames that are used.")] = None
    model: AnsweringModel = None
    out: OutFolder = Path("out")
    as_json: OnlyJson = False


@with_options(VideoCommand)
def command(given: VideoCommand) -> int:
    """Show where the tokens of a clip go, frame by frame. With --model, answer the question.

    Writes homunculus.mp4 and video.json, and prints a table. One budget covers all frames: a
    new scene gets a full look, and what was shown before costs hardly anything again.

    \b
    Examples:
      arr-coc video street.mp4 "What number is on the red sign?"
      arr-coc video street.mp4 "What number is on the red sign?" --budget 10% --every 5 --out red
      arr-coc video clip.mp4 "What is the total?" --model mini --json | jq .answer.text
      arr-coc video webcam "Where is the cup?" --frames 100
      arr-coc video rtsp://camera.local/stream "Who is at the door?" --frames 300
    """
    from ...options import check_question
    from .inputs import check_model, is_url

    options = given.options.default(relevance="auto")
    check_question(given.query)
    if is_url(given.clip):
        raise InputError(f"{given.clip} is a web address; download the clip and give its path")
    eye = answer = None
    if given.model is not None:
        from ...answering.eye import Eye

        check_model(given.model)
        eye = Eye.from_pretrained(given.model, device=options.device)
        options = options.default(grip=eye.grip)
    watched, pixels, rate = watch_source(given, options, eye)
    if eye is not None:
        from ...video.answering import answer_clip

        answer = answer_clip(eye, watched, pixels)
    files = write_files(given.out, watched, pixels, rate, answer, given.clip)
    if given.as_json:
        print_json({**document(watched, answer, given.clip), "files": files})
    else:
        print_watched(given.clip, watched, answer, files)
    return 0


def watch_source(given: VideoCommand, options: Options, eye: Eye | None) -> tuple[Watched, list[np.ndarray], float]:
    """The clip, watched; its frames; and how many of them are in a second."""
    from ...video.decode import open_film
    from ...video.watching import watch_film

    live = given.clip.partition(":")[0] == "webcam" or "://" in given.clip
    limit = given.frames if given.frames is not None or not live else LIVE_FRAMES
    scorer = None if eye is None else eye.scorer
    with open_film(given.clip, given.every, limit, multiple=1 if eye is None else eye_cell(eye)) as film:
        with progress(film.frames, "watching", hidden=given.as_json) as advance:
            watched, pixels = watch_film(film, given.query, options, scorer=scorer, advance=lambda seen: advance())
        return watched, pixels, film.per_second / given.every


def eye_cell(eye: Eye) -> int:
    images = eye.processor.image_processor
    if not hasattr(images, "merge_size"):
        raise InputError(f"{eye.name} does not take frames in whole tokens; answer with mini or a Qwen3-VL")
    return images.patch_size * images.merge_size


def write_files(
    out: Path, watched: Watched, pixels: list[np.ndarray], rate: float, answer: Answer | None, clip: str
) -> dict[str, str]:
    from ...core.files import write_json
    from ...draw.homunculus import homunculus_frames
    from ...video.decode import write_clip

    paths = {name: out / name for name in ("homunculus.mp4", "video.json")}
    with writing(out):
        write_clip(paths["homunculus.mp4"], homunculus_frames(watched, pixels), rate)
        detail = {**document(watched, answer, clip), "allocations": [one.to_json() for one in watched.allocations]}
        write_json(paths["video.json"], detail)
    return {name: str(path) for name, path in paths.items()}


def document(watched: Watched, answer: Answer | None, clip: str) -> JsonObject:
    """The JSON: one row for each frame, and the numbers of the clip."""
    rows = [
        {
            "frame": seen.number,
            "seconds": round(time, 4),
            "scene": seen.scene,
            "cut": seen.cut,
            "keyframe": seen.keyframe,
            "tokens": seen.tokens,
            "similarity": seen.similarity,
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
        "notes": list(watched.notes),
        "frames": rows,
        "answer": None if answer is None else {**answer.to_json(), "passes": len(answer.passes)},
    }


def print_watched(clip: str, watched: Watched, answer: Answer | None, files: dict[str, str]) -> None:
    number = len(watched.frames)
    shown = sorted({*range(0, number, max(1, -(-number // ROWS))), *watched.cuts, number - 1})
    rows = [
        (
            str(place),
            f"{watched.seconds[place]:.2f}",
            str(seen.scene),
            str(seen.tokens),
            f"level {min(seen.allocation.tokens_by_level())}",
            "–" if seen.similarity is None else f"{seen.similarity:.2f}",
            f"{100 * seen.looked:.0f} %",
            "cut" if seen.cut else "keyframe" if seen.keyframe else "",
        )
        for place, seen in ((place, watched.frames[place]) for place in shown)
    ]
    headings = ("frame", "seconds", "scene", "tokens", "finest", "similarity", "looked", "")
    show(table(f"{Path(clip).name}: {watched.query}", dict.fromkeys(headings, "right"), rows))
    inside, share = watched.coherence["inside"], 100 * watched.tokens / watched.full
    say(
        f"{number} frames, cuts: {len(watched.cuts)}, {watched.tokens} tokens of {watched.full} "
        f"({share:.1f} %), budget {watched.budget}"
    )
    say(*(() if inside is None else (f"similarity inside scenes: {inside:.2f}",)))
    say(*(f"note: {note}" for note in watched.notes))
    if answer is not None:
        unsure = f"uncertainty {answer.uncertainty:.2f}, {answer.tokens} tokens"
        say(f"answer: {answer.text or '(nothing)'} ({unsure})")
    say(f"files: {', '.join(files.values())}")
