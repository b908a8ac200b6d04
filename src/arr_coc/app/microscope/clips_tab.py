"""Clips: a clip with its homunculus, frame by frame, and the cuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from ...core.errors import InputError
from ...draw import foveated, heat, overlay
from ...options import Options, check_question
from . import kit
from .desk import Desk
from .linking import LONGEST_QUERY, PageState
from .markup import Figure, card, figures, notes, shown_pixels, shown_size
from .worlds import families, needle

if TYPE_CHECKING:
    from ...core.values import Answer
    from ...video.stream import SeenFrame
    from ...video.watching import Watched

# Frames of a clip that are watched; a longer one is thinned to about this number.
MOST_FRAMES = 48
SIDE = 480
EXAMPLE_FRAMES, EXAMPLE_SIZE, EXAMPLE_CUTS, EXAMPLE_RATE = 20, (384, 384), 1, 6.0


@dataclass(frozen=True, eq=False)
class Clip:
    """A watched clip. frames: (H, W, 3) uint8 each. film: the file of its homunculus."""

    watched: Watched
    frames: list[np.ndarray]
    answer: Answer
    film: str


def draw_example(desk: Desk, family: str, seed: int) -> tuple[str, str, str]:
    """Draw a clip of Needle World with one cut: its file, the question, the true answer."""
    from ...video.decode import write_clip

    drawn = needle(family).clip(family, seed, EXAMPLE_SIZE, EXAMPLE_FRAMES, EXAMPLE_CUTS)
    path = desk.folder / "clips" / f"{family}-{seed}.mp4"
    path.parent.mkdir(exist_ok=True)
    write_clip(path, drawn.frames, EXAMPLE_RATE)
    return str(path), drawn.question, drawn.answer


def watch_clip(desk: Desk, path: str | None, query: str, keep: float, progress: Callable[..., object]) -> Clip:
    """Watch a clip, and let the first model answer."""
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

        watched, frames = watch_film(film, query, Options(budget=keep), advance=seen)
        rate = film.per_second / every
    answer = answer_clip(eye, watched, frames)
    folder = desk.clip_folder()
    write_clip(folder / "homunculus.mp4", homunculus_frames(watched, frames, width=960), min(rate, 12.0))
    return Clip(watched, frames, answer, str(folder / "homunculus.mp4"))


def show_film(clip: Clip, truth: str | None) -> str:
    """The film of the homunculus, and what was answered."""
    watched, answer = clip.watched, clip.answer
    inside = watched.coherence["inside"]
    facts = [
        f"{len(watched.frames)} frames",
        f"{len(watched.cuts)} cut{'s' * (len(watched.cuts) != 1)}",
        f"{watched.tokens} of {watched.full} tokens ({100 * watched.tokens / watched.full:.1f} %)",
        *([] if inside is None else [f"similarity inside scenes {inside:.2f}"]),
    ]
    film = (
        '<video controls muted playsinline preload="auto" aria-label="homunculus of the clip" '
        f'src="gradio_api/file={escape(clip.film)}"></video>'
    )
    said = card(answer.text, answer.uncertainty, truth)
    return f'{said}<p class="summary">{escape("; ".join(facts))}</p>{film}{notes(watched.notes)}'


def show_frame(clip: Clip, number: int, state: PageState) -> kit.SheetContent:
    """One frame under the scrubber."""
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
    words += [] if seen.similarity is None else [f"similarity {seen.similarity:.2f}"]
    html = f'<p class="summary">{escape(", ".join(words))}</p>{figures(panes, "thirds")}'
    facts = {"query": watched.query, "tokens": watched.tokens, "full": watched.full, "cuts": watched.cuts}
    frames = [{**one.allocation.to_json(), "cut": one.cut} for one in watched.frames]
    document = {**facts, "coherence": watched.coherence, "frames": frames}
    drawn = np.hstack([pane.pixels for pane in panes])
    return kit.SheetContent("clips", html, lambda: Image.fromarray(drawn), lambda: document, state.link())


def clips_tab(page: kit.MicroscopePage) -> None:
    gr, drawable = kit.gradio(), families()
    with gr.Row():
        with gr.Column(min_width=280):
            clip = kit.only_uploads(gr.File(label="Clip", file_types=["video"], height=120, elem_id="clip"))
            with gr.Row(visible=bool(drawable)):
                family = gr.Dropdown(list(drawable), value="cards", label="Or draw one", min_width=110)
                seed = gr.Number(0, label="Seed", precision=0, minimum=0, min_width=80)
                draw = gr.Button("Draw an example clip", size="sm", elem_id="draw-clip")
        with gr.Column(min_width=280):
            query = gr.Textbox(label="Question", elem_id="clip-question", max_length=LONGEST_QUERY)
            keep = gr.Slider(1, 100, 25, step=0.5, label="Budget, % of all tokens of the clip", elem_id="clip-share")
            go = gr.Button("Watch", variant="primary", elem_id="watch")
    page.settings |= {"family": family, "seed": seed}
    truth, held = gr.State(None), gr.State(None, time_to_live=kit.MEMORY_SECONDS)
    trouble = gr.HTML(padding=False, elem_id="clip-trouble")
    film = gr.HTML(padding=False, elem_id="film")
    scrubber = gr.Slider(0, 1, 0, step=1, label="Frame", elem_id="scrubber", visible=False)
    sheet = kit.TabSheet(page, "clips")
    sheet.exports()

    def example(name: str, number: float) -> tuple[object, ...]:
        made, words = kit.in_a_sentence(lambda: draw_example(page.desk, name, int(number or 0)))
        return (*made, "") if made is not None else (gr.skip(), gr.skip(), None, words)

    def watch(
        path: str | None, words: str, share: float, known: str | None, progress: Callable[..., object]
    ) -> tuple[object, ...]:
        seen, complaint = kit.in_a_sentence(
            lambda: watch_clip(page.desk, path, (words or "").strip(), float(share) / 100, progress)
        )
        if seen is None:
            return None, "", gr.Slider(visible=False), complaint
        last = len(seen.watched.frames) - 1
        return seen, show_film(seen, known), gr.Slider(maximum=max(last, 1), value=0, visible=last > 0), ""

    def frame(one: Clip | None, number: float, name: str, start: float) -> tuple[object, ...]:
        if one is None:
            return "", None, gr.skip()
        return sheet.filled(lambda: show_frame(one, int(number), PageState("clips", family=name, seed=int(start or 0))))

    watch.__defaults__ = (gr.Progress(),)  # how Gradio hands over its progress bar
    draw.click(example, [family, seed], [clip, query, truth, trouble], show_progress="minimal", **kit.QUICK)
    clip.upload(lambda: None, None, [truth], **kit.LIVE)
    scrubbed, outputs = [held, scrubber, family, seed], [held, film, scrubber, trouble]
    events = [go.click, query.submit]
    done = gr.on(events, watch, [clip, query, keep, truth], outputs, show_progress="minimal", **kit.MODEL)
    done.then(frame, scrubbed, sheet.outputs, **kit.LIVE)
    scrubber.input(frame, scrubbed, sheet.outputs, **kit.LIVE)
