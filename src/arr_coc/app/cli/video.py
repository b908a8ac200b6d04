"""`arr-coc video`: show where the tokens of a clip go, frame by frame, and answer with a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.answer import Answer
from ...core.errors import InputError
from ...core.folders import write_json
from ...core.values import JsonObject
from ...options import check_question
from .console import print_json, progress, say, writing
from .inputs import check_model
from .options import AnsweringModel, Choices, OnlyJson, OutFolder, Query, with_options

if TYPE_CHECKING:
    from ...video.watching import Watched


@dataclass(frozen=True, kw_only=True)
class VideoCommand(Choices):
    """Arguments and options of `arr-coc video`."""

    clip: Annotated[str, typer.Argument(help="A video file.")]
    query: Query
    every: Annotated[int, typer.Option(help="Use only every Nth frame.")] = 1
    frames: Annotated[int | None, typer.Option(help="Maximum number of frames. [default: all]")] = None
    model: AnsweringModel = None
    out: OutFolder = Path("out")
    as_json: OnlyJson = False


@with_options(VideoCommand)
def command(given: VideoCommand) -> None:
    """Show where the tokens of a clip go, frame by frame. With --model, answer the question.

    Writes homunculus.mp4 and video.json. One budget covers all frames: parts that earlier frames showed get few
    tokens again, until a cut begins a new scene.

    \b
    Examples:
      arr-coc video street.mp4 "What number is on the red sign?"
      arr-coc video street.mp4 "What number is on the red sign?" --budget 10% --every 5 --out red
      arr-coc video clip.mp4 "What is the total?" --model mini --json | jq .answer.text
    """
    options = given.options.default(relevance="auto")
    check_question(given.query)
    from ...draw.homunculus import homunculus_frames
    from ...video.decode import open_film, write_clip
    from ...video.watching import watch_film

    eye = answer = scorer = None
    cell = 1
    if given.model is not None:
        from ...answering.eye import Eye

        check_model(given.model)
        eye = Eye.from_pretrained(given.model, device=options.device)
        options, scorer, images = options.default(grip=eye.engine.grip), eye.scorer, eye.processor.image_processor
        if not hasattr(images, "merge_size"):
            raise InputError(f"{eye.engine.name} does not take frames in whole tokens; answer with mini or a Qwen3-VL")
        cell = images.patch_size * images.merge_size
    with open_film(given.clip, given.every, given.frames, multiple=cell) as film:
        with progress(film.frames, "watching", hidden=given.as_json) as advance:
            watched, pixels = watch_film(film, given.query, options, scorer=scorer, advance=lambda seen: advance())
        rate = film.per_second / given.every
    if eye is not None:
        from ...video.answering import answer_clip

        answer = answer_clip(eye, watched, pixels)
    found = document(watched, answer, given.clip)
    files = {name: str(given.out / name) for name in ("homunculus.mp4", "video.json")}
    with writing(given.out):
        write_clip(given.out / "homunculus.mp4", homunculus_frames(watched, pixels), rate)
        allocations = [one.to_json() for one in watched.allocations]
        write_json(given.out / "video.json", {**found, "allocations": allocations})
    if given.as_json:
        print_json({**found, "files": files})
    else:
        print_watched(given.clip, watched, answer, files)


def document(watched: Watched, answer: Answer | None, clip: str) -> JsonObject:
    """Return the JSON: one row for each frame, and the totals of the clip."""
    rows = [
        {"frame": seen.number, "seconds": round(time, 4), "scene": seen.scene, "cut": seen.cut, "tokens": seen.tokens}
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
        "scale": watched.frames[0].allocation.scale,
        "cuts": watched.cuts,
        "notes": list(watched.notes),
        "frames": rows,
        "answer": None if answer is None else {**answer.to_json(), "passes": len(answer.passes)},
    }


def print_watched(clip: str, watched: Watched, answer: Answer | None, files: dict[str, str]) -> None:
    """Print the tokens of the clip, the notes and the answer."""
    say(
        f"{Path(clip).name}: {watched.query}",
        f"{len(watched.frames)} frames, cuts: {len(watched.cuts)}, {watched.tokens} tokens of {watched.full} "
        f"({100 * watched.tokens / watched.full:.1f} %), budget {watched.budget}",
        *(f"note: {note}" for note in watched.notes),
    )
    if answer is not None:
        say(f"answer: {answer.text or '(nothing)'} (uncertainty {answer.uncertainty:.2f}, {answer.tokens} tokens)")
    say(f"files: {', '.join(files.values())}")
