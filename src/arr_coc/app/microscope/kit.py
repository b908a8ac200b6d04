"""What every tab is built from: the settings of the page and their link, pieces of HTML, and a view.

Everything that a visitor wrote is escaped here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from html import escape
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import cv2
import numpy as np

from ...core.errors import InputError
from ...core.values import Allocation
from ...draw.layout import fit, level_colour, level_rows, resize, share_words, spent_words
from .desk import FIRST_PICTURE, FIRST_QUERY, UPLOAD, Desk, example_questions, log

Made = TypeVar("Made")
LONGEST_QUERY = 400
# What a visitor left is forgotten after an hour.
MEMORY_SECONDS = 3600
# Events that use a model wait for each other: two at once would take twice as long.
MODEL = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}
QUICK = {"concurrency_id": "quick", "concurrency_limit": 2, "api_visibility": "private"}
HIDDEN = {"show_progress": "hidden", **QUICK}
# For what follows an input as it moves: only the last value counts.
LIVE = {"trigger_mode": "always_last", **HIDDEN}
# The page's script runs the open tab: because something changed, or because a visitor asked for it.
RUN_BY_ITSELF = "() => window.arrCoc.run(true)"
RUN = "() => window.arrCoc.run(false)"
# The longer side of a picture in the page. Exports are made at their own size.
SHOWN_SIDE = 512
JPEG = [cv2.IMWRITE_JPEG_QUALITY, 92]


def gradio() -> ModuleType:
    """The library behind the page."""
    try:
        return import_module("gradio")
    except ImportError as error:
        raise InputError("the microscope needs gradio: pip install 'arr-coc[microscope]'") from error


# ---- settings and links ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PageState:
    """The settings of the page; each field is a key of its link. picture: the name of an example, or "upload", which
    only its visitor has. keep: per cent of all tokens of the picture."""

    tab: str = "ask"
    picture: str = FIRST_PICTURE
    q: str = FIRST_QUERY
    keep: float = 25.0
    model: str = ""
    passes: int = 1
    by: str = "strategies"
    first: str = "quadtree"
    second: str = "uniform"
    q2: str = ""

    @property
    def budget(self) -> float:
        """The share of all tokens."""
        return self.keep / 100

    def link(self) -> str:
        """The query of the address: what differs from the defaults, and always tab, picture and question."""
        default, always = PageState(), ("tab", "picture", "q")
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        kept = {key: value for key, value in own.items() if key in always or value != getattr(default, key)}
        return urlencode({key: f"{value:g}" if isinstance(value, float) else value for key, value in kept.items()})


def read_link(query: Mapping[str, object]) -> tuple[PageState, list[str]]:
    """Read the settings of a query; also return a sentence for everything in it that cannot be used."""
    state, complaints = PageState(), []
    for name, allowed in LINK.items():
        text = str(query.get(name, ""))
        if name not in query:
            continue
        try:
            value = type(getattr(state, name))(text)
            usable = allowed(value)
        except ValueError:
            value, usable = None, False
        if usable:
            state = replace(state, **{name: value})
        else:
            complaints.append(f"The link's {name}={text[:60]!r} cannot be used.")
    return state, complaints


# key of a link → whether a value can be used
LINK: dict[str, Callable[[Any], bool]] = {
    "tab": lambda value: value in ("ask", "compare", "clips"),
    "picture": lambda value: value == UPLOAD or value in example_questions(),
    "keep": lambda value: 1 <= value <= 100,
    "passes": lambda value: 1 <= value <= 4,
    "by": lambda value: value in ("strategies", "questions"),
    **dict.fromkeys(("q", "q2", "model", "first", "second"), lambda value: len(value) <= LONGEST_QUERY),
}


# ---- pieces of HTML --------------------------------------------------------------------------------------------------


def shown_size(size: tuple[int, int], side: int = SHOWN_SIDE) -> tuple[int, int]:
    """(height, width) of a picture of `size` in the page; a small one is enlarged no further than twice."""
    return fit(*size, min(side, 2 * size[0]), min(side, 2 * size[1]))


def shown_pixels(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return np.ascontiguousarray(resize(pixels, size))


@dataclass(frozen=True)
class Figure:
    """pixels: (H, W, 3) uint8 RGB. title: above it. caption: below it."""

    pixels: np.ndarray
    title: str
    caption: str = ""

    def html(self) -> str:
        """The picture is inside the page as a data address, so that no file of a visitor's is written for it."""
        height, width = self.pixels.shape[:2]
        _, data = cv2.imencode(".jpeg", np.ascontiguousarray(self.pixels[..., ::-1]), JPEG)
        address = f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode()}"
        image = f'<img src="{address}" alt="{escape(self.title)}" width="{width}" height="{height}">'
        caption = f"<p>{escape(self.caption)}</p>" if self.caption else ""
        return f"<figure><figcaption>{escape(self.title)}</figcaption>{image}{caption}</figure>"


def figures(each: Iterable[Figure], kind: str = "") -> str:
    """A grid of figures. kind: "pairs", "thirds" or "one" for that many columns."""
    return f'<div class="figures {kind}">{"".join(figure.html() for figure in each)}</div>'


def sentence(text: str, alarm: bool = False) -> str:
    """What a visitor should know, in a box; an alarm is read out at once."""
    role = "alert" if alarm else "status"
    return f'<p class="sentence{" alarm" if alarm else ""}" role="{role}">{escape(text)}</p>'


def notes(lines: Sequence[str]) -> str:
    return "".join(f'<p class="note">{escape(note)}</p>' for note in dict.fromkeys(lines))


def meter(uncertainty: float) -> str:
    """An uncertainty as a bar from 0 to 1 with its number beside it."""
    words, filled = f"{uncertainty:.2f}", f"{100 * min(max(uncertainty, 0.0), 1.0):.1f}"
    return (
        f'<div class="meter" role="img" aria-label="uncertainty {words}">'
        f'<span class="track"><span style="width:{filled}%"></span></span><b>{words}</b></div>'
    )


def card(text: str, uncertainty: float, truth: str | None, spent: str, unsure: str = "") -> str:
    """An answer in large letters, the truth where it is known, its uncertainty as a bar, and what it cost."""
    known = ""
    if truth is not None:
        kind, words = ("right", "right") if text == truth else ("wrong", f"in truth: {truth}")
        known = f'<p class="truth {kind}">{escape(words)}</p>'
    return (
        '<section class="card"><div><p class="label">Answer</p>'
        f'<p class="answer" id="answer">{escape(text) or "(nothing)"}</p>{known}</div>'
        f'<div><p class="label">Uncertainty</p>{notes([unsure] if unsure else [])}{meter(uncertainty)}'
        f'<p class="label">Spent</p><p class="spent">{escape(spent)}</p></div></section>'
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """The first column is the row's heading. Wide tables scroll."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in columns)
    body = []
    for row in rows:
        first, *others = (escape(str(cell)) for cell in row)
        body.append(f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>')
    # A region that scrolls must be reachable by keyboard.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def budget(allocation: Allocation) -> str:
    """How much of the full count is spent, level by level: a bar and its legend."""
    parts, legend = [], []
    whole = max(allocation.full, allocation.tokens, 1)
    for row in level_rows(allocation):
        colour = "#{:02x}{:02x}{:02x}".format(*level_colour(row.level).tolist())
        parts.append(f'<span style="width:{100 * row.tokens / whole:.2f}%;background:{colour}"></span>')
        fine = "full detail" if row.level == 0 else f"1/{1 << row.level} of it"
        tokens = f"{row.tokens} token{'s' * (row.tokens != 1)}"
        legend.append(
            f'<li><i style="background:{colour}"></i><b>level {row.level}</b>, {fine}: {tokens} on '
            f"{100 * row.area:.1f} % of the area</li>"
        )
    words = f"{spent_words(allocation)} ({share_words(allocation)})"
    return (
        f'<div class="budget"><p><b>{words}</b></p><div class="bar" role="img" aria-label="{words}">'
        f'{"".join(parts)}</div><ul class="legend">{"".join(legend)}</ul></div>'
    )


def in_a_sentence(make: Callable[[], Made]) -> tuple[Made | None, str]:
    """What `make` gives, and ""; or None and a sentence for the page where it could not be made."""
    try:
        return make(), ""
    except InputError as error:
        return None, sentence(without_folders(str(error)), alarm=True)
    except Exception as error:
        log.exception("a view could not be made")
        words = f"Something went wrong inside ({type(error).__name__}); the terminal of the microscope has the details."
        return None, sentence(words, alarm=True)


def without_folders(words: str) -> str:
    """A sentence for visitors: they know their files by name, not where the server keeps them."""
    return re.sub(r"(?<![\w:/\\])(?:[A-Za-z]:)?[/\\](?:[^\s/\\'\"]+[/\\])+(?=[^\s/\\'\"])", "", words)


# ---- inputs ----------------------------------------------------------------------------------------------------------


def only_uploads(component: Any) -> Any:
    """A Gradio component that takes uploads only: by itself it also fetches addresses and reads other folders.

    Its own methods are exchanged, because Gradio writes a file beside the source of every class derived from its own.
    """
    folder = Path(component.GRADIO_CACHE).resolve()

    def move(given: object) -> str | None:
        """The absolute path, if it lies in the folder of uploads."""
        if given is None:
            return None
        path = Path(str(given)).resolve()
        if "://" in str(given) or not path.is_relative_to(folder):
            raise import_module("gradio.exceptions").InvalidPathError("this file was not uploaded here")
        return str(path)

    async def move_later(given: object) -> str | None:
        return move(given)

    component.move_resource_to_block_cache = move
    component.async_move_resource_to_block_cache = move_later
    # The file is opened later, under the page's own limits.
    component.preprocess = lambda payload: move(payload.path or None) if payload is not None else None
    return component


class PageInput(Protocol):
    """A component of Gradio, which gets its events by name when it is made; an event has `then`."""

    def __getattr__(self, event: str) -> Callable[..., PageInput]: ...


class MicroscopePage:
    """What the tabs share: the desk, the inputs of the sidebar, and the hidden field behind the address."""

    picture: PageInput
    source: PageInput
    question: PageInput
    share: PageInput
    model: PageInput
    passes: PageInput
    address: PageInput
    pdf: PageInput

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.running: list[PageInput] = []  # events that a visitor may cancel
        self.settings: dict[str, PageInput] = {}  # inputs of single tabs, by the key of the link that sets them

    @property
    def common(self) -> list[PageInput]:
        return [self.picture, self.source, self.question, self.share, self.model, self.passes]

    def state(self, tab: str, common: Sequence[Any], **settings: Any) -> PageState:
        """The settings that the values of `common` and of a tab's own inputs make."""
        _, source, question, share, model, passes = common
        own = {key: str(value or "").strip() for key, value in settings.items()}
        asked, model = (question or "").strip(), model or self.desk.models[0]
        return PageState(tab, source or UPLOAD, asked, float(share or 25), model, int(passes or 1), **own)


# ---- views -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SheetContent:
    """What a tab shows now. link: the query of the address that brings it back."""

    html: str
    link: str


class TabSheet:
    """A tab's view."""

    def __init__(self, page: MicroscopePage, tab: str) -> None:
        gr = gradio()
        self.page, self.tab = page, tab
        # The page's script presses it, when this tab is open and something changed.
        self.run = gr.Button("run", elem_id=f"run-{tab}", elem_classes="off")
        self.view = gr.HTML(elem_id=f"view-{tab}", padding=False)
        self.outputs = [self.view, page.address]

    def shows(
        self,
        make: Callable[[str | None, PageState], SheetContent],
        controls: Mapping[str, PageInput] | None = None,
        how: Mapping[str, object] = QUICK,
    ) -> None:
        """Make the view when the tab is run. controls: more inputs, by the keys of the link."""
        page, controls = self.page, dict(controls or {})
        page.settings |= controls

        def shown(*values: Any) -> tuple[object, ...]:
            common, given = values[: len(page.common)], values[len(page.common) :]
            own = dict(zip(controls, given, strict=True))
            return self.filled(lambda: make(common[0], page.state(self.tab, common, **own)))

        inputs = [*page.common, *controls.values()]
        # A question asked right after another was cancelled waits for its end instead of being dropped.
        event = self.run.click(
            shown, inputs, self.outputs, api_name=self.tab, show_progress="minimal", trigger_mode="always_last", **how
        )
        page.running.append(event)
        event.then(None, None, None, js="() => window.arrCoc.done()")

    def filled(self, make: Callable[[], SheetContent]) -> tuple[object, ...]:
        """Values for `outputs`: the view, or a sentence in its place."""
        shown, trouble = in_a_sentence(make)
        return (trouble, gradio().skip()) if shown is None else (shown.html, shown.link)
