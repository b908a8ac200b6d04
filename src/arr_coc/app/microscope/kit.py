"""The parts that every tab is built from: the view, its exports, and the inputs that take files.

A PNG or a JSON document is handed to the browser inside the answer, never through a folder: no other visitor can see
what is exported.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

from PIL import Image

from ...core.errors import InputError
from .desk import Desk
from .linking import PageState
from .markup import sentence

Made = TypeVar("Made")
log = logging.getLogger("arr_coc.app.microscope")
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


def gradio() -> ModuleType:
    """The library behind the page."""
    try:
        return import_module("gradio")
    except ImportError as error:
        raise InputError("the microscope needs gradio: pip install 'arr-coc[microscope]'") from error


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


def only_uploads(component: Any) -> Any:
    """A Gradio component that takes uploads only: by itself it also fetches addresses and reads other folders.

    Its own methods are exchanged, because Gradio writes a file beside the source of every class derived from its own.
    """
    folder = component.GRADIO_CACHE

    def move(given: object) -> str | None:
        return None if given is None else checked_path(given, folder)

    async def move_later(given: object) -> str | None:
        return move(given)

    def preprocess(payload: Any) -> str | None:
        """The file's path; it is opened later, under the page's own limits."""
        return None if payload is None or not payload.path else checked_path(payload.path, folder)

    component.move_resource_to_block_cache = move
    component.async_move_resource_to_block_cache = move_later
    component.preprocess = preprocess
    return component


def checked_path(given: object, folder: str) -> str:
    """The absolute path, if it lies in the folder of uploads."""
    path = Path(str(given)).resolve()
    if "://" in str(given) or not path.is_relative_to(Path(folder).resolve()):
        raise import_module("gradio.exceptions").InvalidPathError("this file was not uploaded here")
    return str(path)


class PageEvent(Protocol):
    """What Gradio's events are here."""

    then: Callable[..., PageEvent]


class PageInput(Protocol):
    """A component of Gradio, which gets its events by name when it is made."""

    def __getattr__(self, event: str) -> Callable[..., PageEvent]: ...


class MicroscopePage:
    """What the tabs share: the desk, the inputs of the sidebar, and the hidden field behind the address."""

    picture: PageInput
    source: PageInput
    question: PageInput
    tokens: PageInput
    share: PageInput
    model: PageInput
    passes: PageInput
    address: PageInput
    pdf: PageInput

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.running: list[PageEvent] = []  # that a visitor may cancel
        self.settings: dict[str, PageInput] = {}  # inputs of single tabs, by the key of the link that sets them

    @property
    def common(self) -> list[PageInput]:
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

    def budget(self, common: Sequence[Any]) -> int:
        """The tokens that a visitor allows. Where the count is missing, because the picture is another and was not
        measured yet, the share says it."""
        value = common[3]
        if value is None and common[0]:
            full = self.desk.full_tokens(common[0], common[5] or self.desk.models[0])
            return min(full, max(1, round(float(common[4] or 25) * full / 100)))
        if not isinstance(value, int | float) or not float(value).is_integer() or value < 1:
            raise InputError("the budget must be a whole number of tokens, at least 1")
        return int(value)


@dataclass(frozen=True, eq=False)
class SheetContent:
    """What a tab shows now. name: of its files. picture: drawn when it is wanted. document: JSON-ready. link: the
    query of the address that brings it back."""

    name: str
    html: str
    picture: Callable[[], Image.Image]
    document: Callable[[], Mapping[str, object]]
    link: str


class TabSheet:
    """A tab's view and its exports."""

    def __init__(self, page: MicroscopePage, tab: str) -> None:
        gr = gradio()
        self.page, self.tab = page, tab
        # The page's script presses it, when this tab is open and something changed.
        self.run = gr.Button("run", elem_id=f"run-{tab}", elem_classes="off")
        self.view = gr.HTML(elem_id=f"view-{tab}", padding=False)
        self.shown = gr.State(None, time_to_live=MEMORY_SECONDS)
        self.outputs = [self.view, self.shown, page.address]

    def shows(
        self,
        make: Callable[[str | None, PageState, int], SheetContent],
        controls: Mapping[str, PageInput],
        how: Mapping[str, object] = QUICK,
    ) -> PageEvent:
        """Make the view when the tab is run. controls: more inputs, by the keys of the link."""
        page, number = self.page, len(self.page.common)
        page.settings |= controls

        def shown(*values: Any) -> tuple[object, ...]:
            common, given = values[:number], zip(controls, values[number:], strict=True)
            own = {key: as_setting(key, value) for key, value in given}
            return self.filled(lambda: make(common[0], page.state(self.tab, common, **own), page.budget(common)))

        inputs = [*page.common, *controls.values()]
        # A question asked right after another was cancelled waits for its end instead of being dropped.
        event = self.run.click(
            shown, inputs, self.outputs, api_name=self.tab, show_progress="minimal", trigger_mode="always_last", **how
        )
        page.running.append(event)
        return event.then(None, None, None, js="() => window.arrCoc.done()")

    def exports(self) -> None:
        """The row of exports; placed after everything else of the tab."""
        gr, tab = gradio(), self.tab
        trouble = gr.HTML(elem_id=f"trouble-{tab}", padding=False)
        message = gr.Textbox(visible="hidden", elem_id=f"file-{tab}")
        with gr.Row(elem_classes="export-row"):
            for label, make in (("PNG", png_file), ("JSON", json_file)):
                button = gr.Button(f"Save {label}", size="sm", elem_id=f"save-{label.lower()}-{tab}", min_width=90)
                button.click(exporting(make), [self.shown], [message, trouble], **HIDDEN).then(
                    None, [message], None, js="(message) => window.arrCoc.download(message)"
                )
            copy = gr.Button("Copy link", size="sm", elem_id=f"copy-link-{tab}", min_width=90)
            copy.click(None, None, [trouble], js="() => window.arrCoc.copyLink()")

    def filled(self, make: Callable[[], SheetContent]) -> tuple[object, ...]:
        """Values for `outputs`: the view, or a sentence in its place."""
        shown, trouble = in_a_sentence(make)
        return (trouble, None, gradio().skip()) if shown is None else (shown.html, shown, shown.link)


def as_setting(key: str, value: Any) -> Any:
    """What a control holds, as `PageState` has it under this key."""
    kind = type(getattr(PageState, key))
    return str(value or "").strip() if kind is str else kind(value or 0)


def exporting(make: Callable[[SheetContent], str]) -> Callable[[SheetContent | None], tuple[str, str]]:
    def export(shown: SheetContent | None) -> tuple[str, str]:
        if shown is None:
            return "", sentence("there is nothing to export yet: make a view first", alarm=True)
        message, trouble = in_a_sentence(lambda: make(shown))
        return message or "", trouble

    return export


def png_file(shown: SheetContent) -> str:
    memory = io.BytesIO()
    shown.picture().save(memory, "PNG")
    return file_message(f"{shown.name}.png", "image/png", memory.getvalue())


def json_file(shown: SheetContent) -> str:
    text = json.dumps(shown.document(), indent=1, ensure_ascii=False) + "\n"
    return file_message(f"{shown.name}.json", "application/json", text.encode())


def file_message(name: str, kind: str, data: bytes) -> str:
    """A file as the text that the page's script turns into a download."""
    return json.dumps({"name": name, "kind": kind, "data": base64.b64encode(data).decode()})
