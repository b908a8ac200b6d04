"""Video: a clip with its homunculus, frame by frame, the coherence of what is looked at, and the cuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...draw import foveated, heat, overlay
from ...errors import InputError
from ...lab.needle.families import FAMILIES
from ...looking import check_request
from .ask_tab import truth_words
from .desk import Desk
from .exports import Shown, literal, program
from .linking import PageState
from .markup import Figure, figures, meter, notes, shown_pixels, shown_size
from .plots import as_picture, as_svg, coherence

if TYPE_CHECKING:
    from ...values import Answer
    from ...video import Watched

# Frames of a clip that are watched; of a longer one, every so-manieth.
MOST_FRAMES = 48
SIDE = 480
EXAMPLE_FRAMES, EXAMPLE_SIZE, EXAMPLE_CUTS = 20, (384, 384), 1
EXAMPLE_RATE = 6.0


@dataclass(frozen=True, eq=False)
class Clip:
    """A watched clip. frames: (H, W, 3) uint8 each. address: of the homunculus film, for the page."""

    watched: Watched
    frames: list[np.ndarray]
    rate: float
    answer: Answer | None
    address: str
    name: str
    every: int


def draw_example(desk: Desk, family: str, seed: int) -> tuple[str, str, str]:
    """A moving picture of Needle World with one cut: its file, the question, the truth."""
    from ...lab.needle import render_clip
    from ...video import write_clip

    if family not in FAMILIES:
        raise InputError(f"Needle World has no family {family!r}; choose from {', '.join(FAMILIES)}")

    def draw() -> tuple[str, str, str]:
        found = render_clip(family, 1, EXAMPLE_FRAMES, EXAMPLE_SIZE, seed, "test", cuts=EXAMPLE_CUTS)
        path = desk.folder / "clips" / f"{family}-{seed}.mp4"
        path.parent.mkdir(exist_ok=True)
        write_clip(path, found.pictures[0].permute(0, 2, 3, 1).numpy(), EXAMPLE_RATE)
        return str(path), found.questions[0], found.answers[0]

    return desk.remember(("clip", family, seed), draw)


def watch_clip(
    desk: Desk, path: str | None, query: str, keep: float, model: str | None, progress: Callable[..., Any] | None = None
) -> Clip:
    """Watch a clip and, where a model is named, answer from it."""
    if not path:
        raise InputError("no clip yet: drop one, or draw an example")
    if not Path(path).resolve().is_relative_to(desk.folder.resolve()):
        raise InputError("this clip does not belong to the page; drop it here again")
    check_request([query], None, keep)
    from ...video import open_film, watch, write_clip
    from ...video.film import homunculus_frames

    every = frames_between(path, desk.most_pixels)
    eye = desk.eye(model) if model else None
    frames: list[np.ndarray] = []
    seconds: list[float] = []

    def kept(film: Any) -> Any:
        for time, pixels in film:
            seconds.append(time)
            frames.append(pixels)
            if progress is not None:
                progress(len(frames) / MOST_FRAMES, desc=f"frame {len(frames)}")
            yield pixels

    with open_film(path, every, MOST_FRAMES, multiple=1 if eye is None else 32) as film:
        watched = watch(kept(film), query, keep=keep)
        rate = film.per_second / every
        found = tuple(film.notes)
    watched = replace(watched, seconds=tuple(time - seconds[0] for time in seconds), notes=found)
    answer = None
    if eye is not None:
        from ...video import answer_clip

        answer = answer_clip(eye, watched, frames)
    folder = desk.clip_folder()
    write_clip(folder / "homunculus.mp4", homunculus_frames(watched, frames, width=960), min(rate, 12.0))
    return Clip(watched, frames, rate, answer, str(folder / "homunculus.mp4"), Path(path).name, every)


def frames_between(path: str, most_pixels: int) -> int:
    """Every so-manieth frame, so that about `MOST_FRAMES` cover the clip; refuses frames that are too large."""
    from ...video import open_film

    with open_film(path) as film:
        height, width = film.stream.height or 0, film.stream.width or 0
        if height * width > most_pixels:
            raise InputError(f"frames of {width}×{height} are more than {most_pixels / 1e6:.0f} megapixels; resize it")
        return max(1, -(-(film.frames or 1) // MOST_FRAMES))


def show_clip(clip: Clip, truth: str | None) -> str:
    """The film of the homunculus, and what was answered."""
    watched, answer = clip.watched, clip.answer
    inside = watched.coherence["inside"]
    facts = [
        f"{len(watched.frames)} frames",
        f"{len(watched.cuts)} cut{'s' * (len(watched.cuts) != 1)}",
        f"{watched.tokens} of {watched.full} tokens ({100 * watched.tokens / watched.full:.1f} %)",
    ]
    facts += [] if inside is None else [f"similarity inside scenes {inside:.2f}"]
    said = ""
    if answer is not None:
        known = "" if truth is None else truth_words(answer.text, truth)
        bar = meter(answer.uncertainty, f"{answer.uncertainty:.2f}", "uncertainty")
        said = (
            f'<section class="card"><div><p class="label">Answer</p>'
            f'<p class="answer">{escape(answer.text) or "(nothing)"}</p>{known}</div>'
            f'<div><p class="label">Uncertainty</p>{bar}</div></section>'
        )
    film = (
        f'<video controls muted playsinline preload="auto" aria-label="homunculus of the clip" '
        f'src="gradio_api/file={escape(clip.address)}"></video>'
    )
    return f'{said}<p class="summary">{escape("; ".join(facts))}</p>{film}{notes(watched.notes)}'


def show_frame(clip: Clip, number: int, state: PageState, query: str, keep: float) -> Shown:
    """One frame under the scrubber, and the coherence plot with a mark at it."""
    watched = clip.watched
    number = min(max(int(number), 0), len(watched.frames) - 1)
    seen, pixels = watched.frames[number], clip.frames[number]
    size = shown_size(watched.size, SIDE)
    shown = shown_pixels(pixels, size)
    found = [
        Figure(overlay(shown, seen.allocation), "What is paid for", f"{seen.tokens} tokens in this frame."),
        Figure(foveated(pixels, seen.allocation, size), "What the model sees"),
        Figure(heat(seen.relevance, size, shown), "Relevance", "Carried along the motion, looked at again where weak."),
    ]
    words = [
        f"frame {number + 1} of {len(watched.frames)}",
        f"{watched.seconds[number]:.2f} s",
        f"scene {seen.scene + 1}",
    ]
    words += ["a cut"] if seen.cut else []
    words += [] if seen.similarity is None else [f"similarity {seen.similarity:.2f}"]
    plot = coherence(
        watched.seconds,
        [one.similarity for one in watched.frames],
        [one.tokens for one in watched.frames],
        watched.cuts,
        number,
    )
    drawn = as_svg(plot, "coherence of the clip")
    html = f'<p class="summary">{escape(", ".join(words))}</p>{figures(found, "thirds")}{drawn}'
    return Shown(
        "video",
        html,
        lambda: as_picture(plot),
        lambda: {
            "query": query,
            "tokens": watched.tokens,
            "full": watched.full,
            "cuts": watched.cuts,
            "coherence": watched.coherence,
            "frames": [{**one.allocation.to_json(), "cut": one.cut} for one in watched.frames],
        },
        video_lines(clip, query, keep),
        state.link(),
    )


def video_lines(clip: Clip, query: str, keep: float) -> str:
    return program(
        ["from arr_coc.video import read_clip, watch", "from arr_coc.video.film import coherence_plot"],
        [
            f"frames, seconds, _ = read_clip({clip.name!r}, every={clip.every}, limit={MOST_FRAMES})  # your file",
            f"watched = watch(frames, {literal(query)}, keep={keep:g}, seconds=seconds)",
            "print(watched.tokens, watched.cuts, watched.coherence)",
            "coherence_plot('video.png', watched)",
        ],
    )
