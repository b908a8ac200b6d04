"""The tab Clips: a clip with its homunculus, frame by frame, and its cuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import gradio as gr
import numpy as np

from ...core.errors import InputError
from ...draw import foveated, heat, overlay
from ...options import Options, check_question
from . import kit
from .desk import Desk
from .kit import Figure, card, figures, notes, shown_pixels, shown_size

if TYPE_CHECKING:
    from ...core.answer import Answer
    from ...video.stream import SeenFrame
    from ...video.watching import Watched

# Maximum number of frames to watch; of longer clips every Nth frame is used.
MOST_FRAMES = 48
SIDE = 480


@dataclass(frozen=True, eq=False)
class Clip:
    """A watched clip. frames: (H, W, 3) uint8 each. film: the file of its homunculus."""

    watched: Watched
    frames: list[np.ndarray]
    answer: Answer
    film: str


def watch_clip(desk: Desk, path: str | None, query: str, share: float, progress: Callable[..., object]) -> Clip:
    """Watch a clip and answer with the first model."""
    file = desk.own_file(path, "clip")
    check_question(query)
    from ...draw.homunculus import homunculus_frames
    from ...video.answering import answer_clip
    from ...video.decode import open_film, write_clip
    from ...video.watching import watch_film

    with open_film(str(file)) as film:
        height, width = film.stream.height or 0, film.stream.width or 0
        if height * width > desk.most_pixels:
            most = f"{desk.most_pixels / 1e6:.0f} megapixels"
            raise InputError(f"frames of {width}×{height} are more than {most}; resize it")
        every = max(1, -(-(film.frames or 1) // MOST_FRAMES))
    eye = desk.eye(desk.models[0])
    with open_film(str(file), every, MOST_FRAMES, multiple=32) as film:

        def seen(one: SeenFrame) -> None:
            progress((one.number + 1) / MOST_FRAMES, desc=f"frame {one.number + 1}")

        watched, frames = watch_film(film, query, Options(budget=share), advance=seen)
        rate = film.per_second / every
    answer = answer_clip(eye, watched, frames)
    made = desk.new_folder() / "homunculus.mp4"
    write_clip(made, homunculus_frames(watched, frames, width=960), min(rate, 12.0))
    return Clip(watched, frames, answer, str(made))


def show_film(clip: Clip) -> str:
    """Show the video of the homunculus, and the answer."""
    watched, answer = clip.watched, clip.answer
    facts = f"{len(watched.frames)} frames; {len(watched.cuts)} cut{'s' * (len(watched.cuts) != 1)}"
    film = (
        '<video controls muted playsinline preload="auto" aria-label="homunculus of the clip" '
        f'src="gradio_api/file={escape(clip.film)}"></video>'
    )
    spent = f"{watched.tokens} of {watched.full} tokens ({100 * watched.tokens / watched.full:.1f} %)"
    said = card(answer.text, answer.uncertainty, spent)
    return f'{said}<p class="summary">{facts}</p>{film}{notes(watched.notes)}'


def show_frame(clip: Clip, number: int) -> str:
    """Show the frame that the slider selects."""
    watched = clip.watched
    number = min(max(number, 0), len(watched.frames) - 1)
    seen, pixels = watched.frames[number], clip.frames[number]
    size = shown_size(watched.size, SIDE)
    shown = shown_pixels(pixels, size)
    panes = [
        Figure(overlay(shown, seen.allocation), "What is paid for", f"{seen.tokens} tokens in this frame."),
        Figure(foveated(pixels, seen.allocation, size), "What the model sees"),
        Figure(heat(seen.relevance, size, shown), "Relevance", "Carried along the motion, looked at again where weak."),
    ]
    words = [f"frame {number + 1} of {len(watched.frames)}", f"{watched.seconds[number]:.2f} s"]
    words += [f"scene {seen.scene + 1}", *(["a cut"] if seen.cut else [])]
    return f'<p class="summary">{escape(", ".join(words))}</p>{figures(panes, "thirds")}'


def clips_tab(page: kit.MicroscopePage) -> None:
    with gr.Row():
        clip = kit.only_uploads(gr.File(label="Clip", file_types=["video"], height=120, elem_id="clip"))
        with gr.Column(min_width=280):
            query = gr.Textbox(label="Question", elem_id="clip-question", max_length=kit.LONGEST_QUERY)
            share = gr.Slider(1, 100, 25, step=0.5, label="Budget, % of all tokens of the clip", elem_id="clip-share")
            go = gr.Button("Watch", variant="primary", elem_id="watch")
    held = gr.State(None, time_to_live=kit.MEMORY_SECONDS)
    trouble = gr.HTML(padding=False, elem_id="clip-trouble")
    film = gr.HTML(padding=False, elem_id="film")
    scrubber = gr.Slider(0, 1, 0, step=1, label="Frame", elem_id="scrubber", visible=False)
    view = gr.HTML(elem_id="view-clips", padding=False)

    def watch(path: str | None, words: str, part: float, progress: Callable[..., object]) -> tuple[object, ...]:
        seen, complaint = kit.in_a_sentence(
            lambda: watch_clip(page.desk, path, (words or "").strip(), float(part) / 100, progress)
        )
        if seen is None:
            return None, "", gr.Slider(visible=False), complaint
        last = len(seen.watched.frames) - 1
        return seen, show_film(seen), gr.Slider(maximum=max(last, 1), value=0, visible=last > 0), ""

    def frame(one: Clip | None, number: float) -> str:
        return "" if one is None else show_frame(one, int(number))

    watch.__defaults__ = (gr.Progress(),)  # how Gradio hands over its progress bar
    outputs = [held, film, scrubber, trouble]
    events = [go.click, query.submit]
    done = gr.on(events, watch, [clip, query, share], outputs, show_progress="minimal", **kit.MODEL)
    for event in (done.then, scrubber.input):
        event(frame, [held, scrubber], [view], **kit.LIVE)
