"""Video: a clip with its homunculus, frame by frame, the coherence of what is looked at, and the cuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.errors import InputError
from ...draw import foveated, heat, overlay
from ...looking import check_request
from . import kit, markup
from .ask_tab import truth_words
from .desk import Desk
from .linking import PageState
from .worlds import check_family, families, needle

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

    from ...core.values import Answer
    from ...video.stream import SeenFrame
    from ...video.watching import Watched

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
    from ...video.decode import write_clip

    check_family(family)

    def draw() -> tuple[str, str, str]:
        drawn = needle().clip(family, seed, EXAMPLE_SIZE, EXAMPLE_FRAMES, EXAMPLE_CUTS)
        path = desk.folder / "clips" / f"{family}-{seed}.mp4"
        path.parent.mkdir(exist_ok=True)
        write_clip(path, drawn.frames, EXAMPLE_RATE)
        return str(path), drawn.question, drawn.answer

    return desk.remember(("clip", family, seed), draw)


def watch_clip(
    desk: Desk,
    path: str | None,
    query: str,
    keep: float,
    model: str | None,
    progress: Callable[..., object] | None = None,
) -> Clip:
    """Watch a clip and, where a model is named, answer from it."""
    if not path:
        raise InputError("no clip yet: drop one, or draw an example")
    if not Path(path).resolve().is_relative_to(desk.folder.resolve()):
        raise InputError("this clip does not belong to the page; drop it here again")
    check_request([query], None, keep)
    from ...video.decode import open_film, write_clip
    from ...video.film import homunculus_frames
    from ...video.watching import watch_film

    every = frames_between(path, desk.most_pixels)
    eye = desk.local_eye(model) if model else None

    def advance(seen: SeenFrame) -> None:
        if progress is not None:
            progress((seen.number + 1) / MOST_FRAMES, desc=f"frame {seen.number + 1}")

    with open_film(path, every, MOST_FRAMES, multiple=1 if eye is None else 32) as film:
        watched, frames = watch_film(film, query, keep=keep, advance=advance)
        rate = film.per_second / every
    answer = None
    if eye is not None:
        from ...video.answering import answer_clip

        answer = answer_clip(eye, watched, frames)
    folder = desk.clip_folder()
    write_clip(folder / "homunculus.mp4", homunculus_frames(watched, frames, width=960), min(rate, 12.0))
    return Clip(watched, frames, rate, answer, str(folder / "homunculus.mp4"), Path(path).name, every)


def frames_between(path: str, most_pixels: int) -> int:
    """Every so-manieth frame, so that about `MOST_FRAMES` cover the clip; refuses frames that are too large."""
    from ...video.decode import open_film

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
        bar = markup.meter(answer.uncertainty, f"{answer.uncertainty:.2f}", "uncertainty")
        said = (
            f'<section class="card"><div><p class="label">Answer</p>'
            f'<p class="answer">{escape(answer.text) or "(nothing)"}</p>{known}</div>'
            f'<div><p class="label">Uncertainty</p>{bar}</div></section>'
        )
    film = (
        f'<video controls muted playsinline preload="auto" aria-label="homunculus of the clip" '
        f'src="gradio_api/file={escape(clip.address)}"></video>'
    )
    return f'{said}<p class="summary">{escape("; ".join(facts))}</p>{film}{markup.notes(watched.notes)}'


def show_frame(clip: Clip, number: int, state: PageState, query: str, keep: float) -> kit.SheetContent:
    """One frame under the scrubber, and the coherence plot with a mark at it."""
    watched = clip.watched
    number = min(max(int(number), 0), len(watched.frames) - 1)
    seen, pixels = watched.frames[number], clip.frames[number]
    size = markup.shown_size(watched.size, SIDE)
    shown = markup.shown_pixels(pixels, size)
    panes = [
        markup.Figure(overlay(shown, seen.allocation), "What is paid for", f"{seen.tokens} tokens in this frame."),
        markup.Figure(foveated(pixels, seen.allocation, size), "What the model sees"),
        markup.Figure(
            heat(seen.relevance, size, shown), "Relevance", "Carried along the motion, looked at again where weak."
        ),
    ]
    words = [
        f"frame {number + 1} of {len(watched.frames)}",
        f"{watched.seconds[number]:.2f} s",
        f"scene {seen.scene + 1}",
    ]
    words += ["a cut"] if seen.cut else []
    words += [] if seen.similarity is None else [f"similarity {seen.similarity:.2f}"]
    plot = coherence(watched, number)
    drawn = markup.as_svg(plot, "coherence of the clip")
    html = f'<p class="summary">{escape(", ".join(words))}</p>{markup.figures(panes, "thirds")}{drawn}'
    return kit.SheetContent(
        "video",
        html,
        lambda: markup.as_picture(plot),
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
    return kit.program(
        [
            "from arr_coc.video.decode import read_clip",
            "from arr_coc.video.watching import watch",
            "from arr_coc.video.film import coherence_plot",
        ],
        [
            f"frames, seconds, _ = read_clip({clip.name!r}, every={clip.every}, limit={MOST_FRAMES})  # your file",
            f"watched = watch(frames, {kit.literal(query)}, keep={keep:g}, seconds=seconds)",
            "print(watched.tokens, watched.cuts, watched.coherence)",
            "coherence_plot('video.png', watched)",
        ],
    )


def coherence(watched: Watched, at: int) -> Plot:
    """Similarity to the frame before, tokens of each frame, the cuts in red, and a mark at the frame that is shown."""
    from ...video.film import draw_coherence

    figure, times = markup.new_figure(height=3.2), watched.seconds
    colours = (markup.COLOURS["scorer"], markup.FAINT, markup.COLOURS["uniform"], markup.BAD)
    top, bottom = draw_coherence(figure, watched, *colours)
    for number in watched.cuts:
        top.annotate(
            "cut", (times[number], 1.0), color=markup.BAD, fontsize=9.5, xytext=(3, 0), textcoords="offset points"
        )
    for axes in (top, bottom):
        axes.axvline(times[at], color=markup.INK, linewidth=0.8, linestyle="--")
        markup.dress(axes)
    return figure


def video_tab(page: kit.MicroscopePage) -> None:
    gr = kit.gradio()
    with gr.Row():
        with gr.Column(min_width=280):
            clip = kit.only_uploads(gr.File(label="Clip", file_types=["video"], height=120, elem_id="clip"))
            with gr.Row():
                family = gr.Dropdown(list(families()), value="cards", label="Or draw one", min_width=110)
                seed = gr.Number(0, label="Seed", precision=0, minimum=0, min_width=80)
            draw = gr.Button("Draw an example clip", size="sm", elem_id="draw-clip")
        with gr.Column(min_width=280):
            query = gr.Textbox(label="Question", elem_id="clip-question", max_length=400)
            keep = gr.Slider(1, 100, 25, step=0.5, label="Budget, % of all tokens of the clip", elem_id="clip-share")
            go = gr.Button("Watch", variant="primary", elem_id="watch")
    page.settings |= {"family": family, "seed": seed}
    truth, held = gr.State(None), gr.State(None, time_to_live=kit.MEMORY_SECONDS)
    trouble = gr.HTML(padding=False, elem_id="video-trouble")
    film = gr.HTML(padding=False, elem_id="film")
    scrubber = gr.Slider(0, 1, 0, step=1, label="Frame", elem_id="scrubber", visible=False)
    sheet = kit.TabSheet(page, "video")
    sheet.exports()

    def example(name: str, number: float) -> tuple[object, ...]:
        example, words = kit.in_a_sentence(lambda: draw_example(page.desk, name, int(number or 0)))
        return (*example, "") if example is not None else (gr.skip(), gr.skip(), None, words)

    def watched(
        path: str | None, words: str, share: float, known: str | None, progress: Callable[..., object]
    ) -> tuple[object, ...]:
        model = page.desk.local[0] if page.desk.local else None  # a server answers about pictures
        clip_seen, complaint = kit.in_a_sentence(
            lambda: watch_clip(page.desk, path, (words or "").strip(), float(share) / 100, model, progress)
        )
        if clip_seen is None:
            return None, "", gr.Slider(visible=False), complaint
        last = len(clip_seen.watched.frames) - 1
        return clip_seen, show_clip(clip_seen, known), gr.Slider(maximum=max(last, 1), value=0, visible=last > 0), ""

    def frame(one: Clip | None, number: float, words: str, share: float, name: str, start: float) -> tuple[object, ...]:
        if one is None:
            return "", "", None, gr.skip()
        state = PageState(tab="video", family=name, seed=int(start or 0))
        return sheet.filled(lambda: show_frame(one, int(number), state, words, float(share) / 100))

    # A default of this kind is how Gradio hands over its progress bar.
    watched.__defaults__ = (gr.Progress(),)
    draw.click(
        example, [family, seed], [clip, query, truth, trouble], show_progress="minimal", **kit.QUICK, **kit.PRIVATE
    )
    clip.upload(lambda: None, None, [truth], **kit.LIVE)
    scrubbed = [held, scrubber, query, keep, family, seed]
    done = gr.on(
        [go.click, query.submit],
        watched,
        [clip, query, keep, truth],
        [held, film, scrubber, trouble],
        show_progress="minimal",
        **kit.MODEL,
        **kit.PRIVATE,
    )
    done.then(frame, scrubbed, sheet.outputs, **kit.LIVE)
    scrubber.input(frame, scrubbed, sheet.outputs, **kit.LIVE)
