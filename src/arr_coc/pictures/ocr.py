"""Words of a picture by OCR (RapidOCR, extra `[ocr]`), remembered by the picture's content.

Reading a page costs seconds; so what was read is kept in the user's cache folder, named by a hash of the pixels, and
the second question about a picture costs nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.folders import write_json
from ..core.values import JsonObject
from .words import OCR, Words, make_words

# The cache forgets the pages that were used longest ago: about so many of them, 10 to 50 kB each.
MOST_PAGES = 1000
FORMAT = 1
_reading = Lock()  # the engine keeps settings from call to call
# RapidOCR asks for the OpenCV with windows, which a server lacks libraries for; so it is installed by itself.
REMEDY = "pip install 'arr-coc[ocr]' && pip install --no-deps rapidocr"


def ocr_missing(_offers: frozenset[str] = frozenset()) -> str | None:
    """One line that says how OCR can be had; None where it is there."""
    absent = [name for name in ("rapidocr", "onnxruntime") if find_spec(name) is None]
    return f"reading words needs {', '.join(absent)}; run: {REMEDY}" if absent else None


@lru_cache(maxsize=1)
def ocr_engine() -> Callable[..., Any]:
    """RapidOCR with the models of its wheel, made once; silent but for errors."""
    line = ocr_missing()
    if line is not None:
        raise InputError(line)
    try:
        return import_module("rapidocr").RapidOCR(params={"Global.log_level": "error"})
    except ImportError as error:  # one of its own packages, where it was installed without them
        raise InputError(f"reading words needs {error.name}; run: {REMEDY}") from error


def cache_folder() -> Path:
    """Where pages that were read are kept: $ARR_COC_CACHE, else the user's cache folder."""
    given = os.environ.get("ARR_COC_CACHE")
    home = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arr-coc"
    return home / "ocr"


def ocr_words(
    pixels: np.ndarray, *, cache: Path | None = None, say: Callable[[str], None] = lambda line: None
) -> Words:
    """(H, W, 3) uint8 RGB → its words. cache: the folder to remember in; the user's own where None. say: told once
    before a page is read."""
    pixels = np.ascontiguousarray(pixels, dtype=np.uint8)
    folder = cache_folder() if cache is None else cache
    path = folder / f"{page_key(pixels)}.json"
    held, seconds = _remembered(path), 0.0
    if held is None:
        ocr_engine()  # what it lacks is told first
        say("reading the words of the picture by OCR: some seconds, once for every picture")
        with _reading:
            started = perf_counter()
            held = _read(pixels)
            seconds = perf_counter() - started
        _remember(path, held)
    size = (pixels.shape[0], pixels.shape[1])
    words = make_words(held["texts"], held["boxes"], size=size, lines=held["lines"], source=OCR)
    return replace(words, seconds=seconds)


def page_key(pixels: np.ndarray) -> str:
    """A name for a picture's content and for who reads it."""
    reader = version("rapidocr") if find_spec("rapidocr") else "none"
    digest = hashlib.sha256(f"{FORMAT}/{reader}/{pixels.shape}".encode())
    digest.update(pixels.tobytes())
    return digest.hexdigest()[:40]


def _read(pixels: np.ndarray) -> JsonObject:
    """Every word of every line that was recognised, in pixels; the first and the last reach the line's ends."""
    picture = np.ascontiguousarray(pixels[..., ::-1])
    # Every step is asked for by name: the engine remembers what the call before it left out.
    result = ocr_engine()(picture, use_det=True, use_cls=True, use_rec=True, return_word_box=True)
    texts: list[str] = []
    boxes: list[list[float]] = []
    lines: list[int] = []
    found = zip(result.txts, result.word_results, result.boxes, strict=True) if result.boxes is not None else ()
    for number, (whole, line, quad) in enumerate(found):
        end = _upright(quad)
        parts = [(part[0], _upright(np.array(part[2]))) for part in line if part[2] is not None and part[0].strip()]
        # Where the line stands upright its words' boxes are no better than the line's.
        parts = parts if parts and end[2] - end[0] > 0.5 * (end[3] - end[1]) else [(whole, end)]
        parts[0][1][0] = min(parts[0][1][0], end[0])
        parts[-1][1][2] = max(parts[-1][1][2], end[2])
        for text, box in parts:
            texts.append(text)
            boxes.append([round(float(value), 1) for value in box])
            lines.append(number)
    return {"texts": texts, "boxes": boxes, "lines": lines}


def _upright(quad: object) -> list[float]:
    corners = np.asarray(quad, dtype=np.float64).reshape(-1, 2)
    return [*corners.min(0).tolist(), *corners.max(0).tolist()]


def _remembered(path: Path) -> JsonObject | None:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        os.utime(path)
    except (OSError, ValueError):
        return None
    lengths = {len(held.get(name, ())) for name in ("texts", "boxes", "lines")} if isinstance(held, dict) else set()
    return held if len(lengths) == 1 else None


def _remember(path: Path, held: JsonObject) -> None:
    """Keep a page; a cache that cannot be written is no reason to fail."""
    try:
        write_json(path, held)
        pages = sorted(path.parent.glob("*.json"), key=lambda page: page.stat().st_mtime)
        for page in pages[:-MOST_PAGES]:
            page.unlink(missing_ok=True)
    except OSError:
        return
