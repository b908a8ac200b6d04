"""Building blocks of the tabs: the settings of the page, pieces of HTML, and a view.

All text of visitors is escaped here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import cv2
import gradio as gr
import numpy as np
from gradio.components import Component
from gradio.exceptions import InvalidPathError

from ...core.errors import InputError
from ...core.values import Allocation, JsonObject
from ...draw.layout import MUTED, WAY_COLOURS, deciders, fit, level_colour, level_rows, resize, share_words, spent_words
from ...pictures.lettering import Colour
from .desk import Desk, log

Made = TypeVar("Made")
LONGEST_QUERY = 400
# State of a visitor is removed after an hour.
MEMORY_SECONDS = 3600
# Events that use a model wait for each other: two at once would take twice as long.
MODEL: JsonObject = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
QUICK: JsonObject = {"concurrency_id": "quick", "concurrency_limit": 2, "api_visibility": "private"}
HIDDEN: JsonObject = {"show_progress": "hidden", **QUICK}
# For events of a moving slider, and for a question after a cancelled one: only the last counts.
LAST: JsonObject = {"trigger_mode": "always_last", "show_progress": "minimal"}
LIVE: JsonObject = {"trigger_mode": "always_last", **HIDDEN}
# Run the open tab by the page's script: because an input changed, or because the visitor asked for it.
RUN_BY_ITSELF = "() => window.arrCoc.run(true)"
RUN = "() => window.arrCoc.run(false)"
BEGIN = "(...values) => { window.arrCoc.begin('ask'); return values; }"
# Longer side in pixels of pictures on the page.
SHOWN_SIDE = 512
JPEG = [cv2.IMWRITE_JPEG_QUALITY, 92]


# ---- settings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PageState:
    """The settings of a visitor. keep: budget in per cent of all tokens. first, second, q2: for Compare, the two
    strategies and the question of the right side."""

    q: str
    keep: float = 25.0
    model: str = "mini"
    passes: int = 1
    first: str = "quadtree"
    second: str = "uniform"
    q2: str = ""

    @property
    def budget(self) -> float:
        """Return the budget as a share of all tokens."""
        return self.keep / 100


# ---- pieces of HTML --------------------------------------------------------------------------------------------------


def shown_size(size: tuple[int, int], side: int = SHOWN_SIDE) -> tuple[int, int]:
    """Return (height, width) on the page of a picture of `size`; small ones are at most doubled."""
    return fit(*size, min(side, 2 * size[0]), min(side, 2 * size[1]))


def shown_pixels(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return np.ascontiguousarray(resize(pixels, size))


@dataclass(frozen=True)
class Figure:
    """A picture on the page. pixels: (H, W, 3) uint8 RGB. title: above it. caption: below it."""

    pixels: np.ndarray
    title: str
    caption: str = ""

    def html(self) -> str:
        """Return HTML with the picture as a data: URL, so that no file is written for it."""
        height, width = self.pixels.shape[:2]
        _, data = cv2.imencode(".jpeg", np.ascontiguousarray(self.pixels[..., ::-1]), JPEG)
        address = f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode()}"
        image = f'<img src="{address}" alt="{escape(self.title)}" width="{width}" height="{height}">'
        caption = f"<p>{escape(self.caption)}</p>" if self.caption else ""
        return f"<figure><figcaption>{escape(self.title)}</figcaption>{image}{caption}</figure>"


def figures(each: Iterable[Figure], kind: str = "") -> str:
    """Lay figures out in a grid. kind: "pairs", "thirds" or "one", for its number of columns."""
    return f'<div class="figures {kind}">{"".join(figure.html() for figure in each)}</div>'


def alarm(text: str) -> str:
    """Show an error in a box; screen readers announce it at once."""
    return f'<p class="sentence alarm" role="alert">{escape(text)}</p>'


def notes(lines: Sequence[str]) -> str:
    return "".join(f'<p class="note">{escape(note)}</p>' for note in dict.fromkeys(lines))


def meter(uncertainty: float) -> str:
    """Draw an uncertainty as a bar from 0 to 1, with its number."""
    words, filled = f"{uncertainty:.2f}", f"{100 * min(max(uncertainty, 0.0), 1.0):.1f}"
    return (
        f'<div class="meter" role="img" aria-label="uncertainty {words}">'
        f'<span class="track"><span style="width:{filled}%"></span></span><b>{words}</b></div>'
    )


def card(text: str, uncertainty: float, spent: str, unsure: str = "") -> str:
    """Show an answer in large letters, its uncertainty as a bar, and its cost."""
    return (
        '<section class="card"><div><p class="label">Answer</p>'
        f'<p class="answer" id="answer">{escape(text) or "(nothing)"}</p></div>'
        f'<div><p class="label">Uncertainty</p>{notes([unsure] if unsure else [])}{meter(uncertainty)}'
        f'<p class="label">Spent</p><p class="spent">{escape(spent)}</p></div></section>'
    )


def budget(allocation: Allocation) -> str:
    """Draw the share of the full cost that is spent, level by level."""
    parts = []
    whole = max(allocation.full, allocation.tokens, 1)
    for row in level_rows(allocation):
        fine = "full detail" if row.level == 0 else f"1/{1 << row.level} of it"
        tokens = f"{row.tokens} token{'s' * (row.tokens != 1)} on {100 * row.area:.1f} % of the area"
        colour = tuple(level_colour(row.level).tolist())
        parts.append((row.tokens / whole, colour, f"level {row.level}", f", {fine}: {tokens}"))
    return bar(f"{spent_words(allocation)} ({share_words(allocation)})", parts)


def decided(allocation: Allocation) -> str:
    """Draw the weight of every source and its way of knowing; "" if the allocation has no such weights."""
    parts = [
        (weight, WAY_COLOURS.get(way, MUTED), source, f": {100 * weight:.0f} %, {way}")
        for source, way, weight in deciders(allocation)
    ]
    return bar("Who decided", parts) if parts else ""


def bar(title: str, parts: Sequence[tuple[float, Colour, str, str]]) -> str:
    """Draw a bar of shares, with 1 as its full length, and a legend. parts: share, colour, name, text after it."""
    spans, legend = [], []
    for share, colour, name, words in parts:
        shade = "#{:02x}{:02x}{:02x}".format(*colour)
        spans.append(f'<span style="width:{100 * share:.2f}%;background:{shade}"></span>')
        legend.append(f'<li><i style="background:{shade}"></i><b>{escape(name)}</b>{escape(words)}</li>')
    return (
        f'<div class="shares"><p><b>{title}</b></p><div class="bar" role="img" aria-label="{title}">'
        f'{"".join(spans)}</div><ul class="legend">{"".join(legend)}</ul></div>'
    )


def in_a_sentence(make: Callable[[], Made]) -> tuple[Made | None, str]:
    """Return the result of `make` and ""; or None and an error message for the page."""
    try:
        return make(), ""
    except InputError as error:
        return None, alarm(without_folders(str(error)))
    except Exception as error:
        log.exception("a view could not be made")
        words = f"Internal error ({type(error).__name__}); the terminal in which the microscope runs has the details."
        return None, alarm(words)


def without_folders(words: str) -> str:
    """Remove folders from paths in a message: visitors know their files by name only."""
    return re.sub(r"(?<![\w:/\\])(?:[A-Za-z]:)?[/\\](?:[^\s/\\'\"]+[/\\])+(?=[^\s/\\'\"])", "", words)


# ---- inputs ----------------------------------------------------------------------------------------------------------


def only_uploads(component: Any) -> Any:
    """Make a Gradio component accept uploads only; by default it also downloads URLs and reads other folders.

    Its methods are replaced on the instance, because Gradio writes a file beside the source of every subclass.
    """
    folder = Path(component.GRADIO_CACHE).resolve()

    def move(given: object) -> str | None:
        """Return the absolute path, if it is in the folder of uploads."""
        if given is None:
            return None
        path = Path(str(given)).resolve()
        if "://" in str(given) or not path.is_relative_to(folder):
            raise InvalidPathError("this file was not uploaded here")
        return str(path)

    async def move_later(given: object) -> str | None:
        return move(given)

    component.move_resource_to_block_cache = move
    component.async_move_resource_to_block_cache = move_later
    # The file is opened later, under the page's own limits.
    component.preprocess = lambda payload: move(payload.path or None) if payload is not None else None
    return component


class MicroscopePage:
    """State that tabs share: the desk, and the inputs of the sidebar."""

    picture: gr.Image
    question: gr.Textbox
    share: gr.Slider
    model: gr.Dropdown
    passes: gr.Slider
    pdf: gr.File

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.running: list[JsonObject] = []  # events that a visitor may cancel

    @property
    def common(self) -> list[Component]:
        return [self.picture, self.question, self.share, self.model, self.passes]

    def runs(self, event: Any) -> None:
        """Let visitors cancel an event, and show when it is finished."""
        self.running.append(event)
        event.then(None, None, None, js="() => window.arrCoc.done()")

    def state(self, common: Sequence[Any], **settings: Any) -> PageState:
        """Build the settings from the values of `common` and of a tab's own inputs."""
        _, question, share, model, passes = common
        own = {key: str(value or "").strip() for key, value in settings.items()}
        asked, model = (question or "").strip(), model or self.desk.models[0]
        return PageState(asked, float(share or 25), model, int(passes or 1), **own)


def run_button(tab: str) -> gr.Button:
    """Make the hidden button that the page's script presses to run a tab."""
    return gr.Button("run", elem_id=f"run-{tab}", elem_classes="off")


def tab_view(
    page: MicroscopePage,
    tab: str,
    make: Callable[[str | None, PageState], str],
    controls: Mapping[str, Component],
) -> None:
    """Add the view of a tab, updated whenever the tab is run. controls: its own inputs, by the names of settings."""
    run, view = run_button(tab), gr.HTML(elem_id=f"view-{tab}", padding=False)

    def shown(*values: Any) -> str:
        common, given = values[: len(page.common)], values[len(page.common) :]
        own = dict(zip(controls, given, strict=True))
        html, trouble = in_a_sentence(lambda: make(common[0], page.state(common, **own)))
        return html or trouble

    inputs = [*page.common, *controls.values()]
    page.runs(run.click(shown, inputs, [view], api_name=tab, **{**QUICK, **LAST}))
