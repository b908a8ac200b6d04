"""What leaves the page: a PNG, a JSON document, and the Python lines that make the view again.

Files are handed to the browser inside the answer, never through a folder: what is exported is seen by nobody else.
The lines are a whole program; tests run them and hold what they print against the page.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pprint import pformat
from typing import Any

from PIL import Image

from ...errors import InputError
from .sources import NEEDLE_SIZE, UPLOAD, needle_parts


@dataclass(frozen=True, eq=False)
class Shown:
    """What a tab shows now. name: of its files. picture: drawn when it is wanted. document: JSON-ready. lines: Python.
    link: the query of the address that brings it back. kept: what the tab needs for its next step."""

    name: str
    html: str
    picture: Callable[[], Image.Image]
    document: Callable[[], Mapping[str, Any]]
    lines: str
    link: str
    kept: Any = None


def png_file(shown: Shown | None) -> str:
    """The view as a PNG, as `file_message`."""
    shown = _something(shown)
    memory = io.BytesIO()
    shown.picture().save(memory, "PNG")
    return file_message(f"{shown.name}.png", "image/png", memory.getvalue())


def json_file(shown: Shown | None) -> str:
    shown = _something(shown)
    text = json.dumps(shown.document(), indent=1, ensure_ascii=False) + "\n"
    return file_message(f"{shown.name}.json", "application/json", text.encode())


def lines_file(shown: Shown | None) -> str:
    shown = _something(shown)
    return file_message(f"{shown.name}.py", "text/x-python", shown.lines.encode())


def file_message(name: str, kind: str, data: bytes) -> str:
    """A file as the text that the page's script turns into a download."""
    return json.dumps({"name": name, "kind": kind, "data": base64.b64encode(data).decode()})


def _something(shown: Shown | None) -> Shown:
    if shown is None:
        raise InputError("there is nothing to export yet: make a view first")
    return shown


# ---- Python lines ---------------------------------------------------------------------------------------------------


def picture_lines(source: str, file_name: str) -> tuple[list[str], list[str]]:
    """Imports, and lines that bind `picture`, for wherever the picture came from."""
    kind, _, rest = source.partition(":")
    if source == UPLOAD or kind not in ("example", "needle"):
        return [], [f"picture = {file_name!r}  # your file"]
    if kind == "example":
        return ["from importlib.resources import files"], [
            f"picture = files('arr_coc') / 'examples' / {rest!r}",
        ]
    family, seed = needle_parts(rest)
    return ["from arr_coc.lab.needle import render"], [
        f"drawn = render({family!r}, 1, {NEEDLE_SIZE}, {seed}, 'test')",
        "picture = drawn.pictures[0].permute(1, 2, 0).numpy()",
    ]


def program(imports: Sequence[str], body: Sequence[str]) -> str:
    """A whole program: imports first, sorted, none twice."""
    return "\n".join([*sorted(dict.fromkeys(imports)), "", *body]) + "\n"


def literal(value: Any) -> str:
    return pformat(value, width=100, sort_dicts=False)


# ---- the page's side ------------------------------------------------------------------------------------------------

# Runs in the browser with the message of `file_message`; empty where there was nothing to export.
DOWNLOAD = """
(message) => {
  if (!message) return;
  const file = JSON.parse(message);
  const bytes = Uint8Array.from(atob(file.data), (letter) => letter.charCodeAt(0));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes], {type: file.kind}));
  link.download = file.name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
"""
