"""The parts that every tab is built from: the view with its exports, and the inputs that take files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import InputError
from .desk import Desk
from .exports import DOWNLOAD, Shown, json_file, lines_file, png_file
from .linking import PageState
from .markup import sentence

log = logging.getLogger("arr_coc.app.microscope")
# What a visitor left is forgotten after an hour.
MEMORY_SECONDS = 3600
# Events that use a model wait for each other: two at once would take twice as long and disturb each other's clocks.
MODEL: dict[str, Any] = {"concurrency_id": "model", "concurrency_limit": 1}
QUICK: dict[str, Any] = {"concurrency_id": "quick", "concurrency_limit": 2}
PRIVATE = {"api_visibility": "private"}


def gradio() -> Any:
    """The library behind the page, or a sentence where it is missing."""
    try:
        return import_module("gradio")
    except ImportError as error:
        raise InputError("the microscope needs gradio: pip install 'arr-coc[microscope]'") from error


def in_a_sentence(make: Callable[[], Any]) -> tuple[Any, str]:
    """What `make` gives, and ""; or None and a sentence for the page where it could not be made."""
    try:
        return make(), ""
    except InputError as error:
        return None, sentence(str(error), alarm=True)
    except Exception as error:
        log.exception("a view could not be made")
        words = f"Something went wrong inside ({type(error).__name__}); the terminal of the microscope has the details."
        return None, sentence(words, alarm=True)


def only_uploads(component: Any) -> Any:
    """A Gradio component that takes uploads only: by itself it also fetches addresses and reads other folders.

    Its own methods are exchanged, because Gradio writes a file beside the source of every class derived from its own.
    """
    folder = component.GRADIO_CACHE

    def move(given: Any) -> str | None:
        return None if given is None else checked_path(given, folder)

    async def move_later(given: Any) -> str | None:
        return move(given)

    def preprocess(payload: Any) -> str | None:
        """The file's path; it is opened later, under the page's own limits."""
        return None if payload is None or not payload.path else checked_path(payload.path, folder)

    component.move_resource_to_block_cache = move
    component.async_move_resource_to_block_cache = move_later
    component.preprocess = preprocess
    return component


def checked_path(given: Any, folder: str) -> str:
    """The absolute path, if it lies in the folder of uploads."""
    path = Path(str(given)).resolve()
    if "://" in str(given) or not path.is_relative_to(Path(folder).resolve()):
        raise import_module("gradio.exceptions").InvalidPathError("this file was not uploaded here")
    return str(path)


@dataclass
class Page:
    """What the tabs share: the desk, the inputs of the sidebar, and the hidden field behind the address."""

    desk: Desk
    picture: Any = None
    source: Any = None
    question: Any = None
    tokens: Any = None
    share: Any = None
    model: Any = None
    passes: Any = None
    address: Any = None
    # Inputs of single tabs, by the key of the link that sets them.
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def common(self) -> list[Any]:
        return [self.picture, self.source, self.question, self.tokens, self.share, self.model, self.passes]

    def state(self, tab: str, common: Sequence[Any], **settings: Any) -> PageState:
        _, source, question, _, share, model, passes = common
        return PageState(
            tab=tab,
            picture=source or "upload",
            q=(question or "").strip(),
            keep=float(share or 25),
            model=model or self.desk.models[0],
            passes=int(passes or 1),
            **settings,
        )


def tokens_of(common: Sequence[Any]) -> int:
    """The tokens that a visitor allows, from the inputs of the sidebar."""
    value = common[3]
    if not isinstance(value, int | float) or not float(value).is_integer() or value < 1:
        raise InputError("the budget must be a whole number of tokens, at least 1")
    return int(value)


class Sheet:
    """A tab's view, its exports, and the Python lines that make it again."""

    def __init__(self, page: Page, tab: str) -> None:
        gr = gradio()
        self.page, self.tab = page, tab
        # What a visitor does not press: the page's script does, when this tab is open and something changed.
        self.run = gr.Button("run", elem_id=f"run-{tab}", elem_classes="off")
        self.view = gr.HTML(elem_id=f"view-{tab}", padding=False)
        self.below = gr.HTML(elem_id=f"below-{tab}", padding=False)
        self.shown = gr.State(None, time_to_live=MEMORY_SECONDS)

    def exports(self) -> None:
        """The row of exports; placed after everything else of the tab."""
        gr, tab = gradio(), self.tab
        trouble = gr.HTML(elem_id=f"trouble-{tab}", padding=False)
        message = gr.Textbox(visible="hidden", elem_id=f"file-{tab}")
        with gr.Row(elem_classes="export-row"):
            for label, make in (("PNG", png_file), ("JSON", json_file), ("Python", lines_file)):
                button = gr.Button(f"Save {label}", size="sm", elem_id=f"save-{label.lower()}-{tab}", min_width=90)
                button.click(
                    _export(make), [self.shown], [message, trouble], show_progress="hidden", **QUICK, **PRIVATE
                ).then(None, [message], None, js=DOWNLOAD)
            copy = gr.Button("Copy link", size="sm", elem_id=f"copy-link-{tab}", min_width=90)
            copy.click(None, None, [trouble], js=COPY_LINK)
        with gr.Accordion("Python lines that make this again", open=False, elem_id=f"lines-{tab}"):
            self.code = gr.Code(language="python", interactive=False, show_label=False, elem_id=f"code-{tab}")

    @property
    def outputs(self) -> list[Any]:
        return [self.view, self.code, self.shown, self.page.address]

    def filled(self, make: Callable[[], Shown]) -> tuple[Any, ...]:
        """Values for `outputs`: the view, or a sentence in its place."""
        shown, trouble = in_a_sentence(make)
        return (trouble, "", None, gradio().skip()) if shown is None else (shown.html, shown.lines, shown, shown.link)


COPY_LINK = """
async () => {
  const say = (words) => `<p class="note" role="status">${words}</p>`;
  try { await navigator.clipboard.writeText(window.location.href); return say("Link copied."); }
  catch { return say("Copy the address from the address bar."); }
}
"""


def _export(make: Callable[[Shown | None], str]) -> Callable[[Shown | None], tuple[str, str]]:
    def export(shown: Shown | None) -> tuple[str, str]:
        message, trouble = in_a_sentence(lambda: make(shown))
        return message or "", trouble

    return export
