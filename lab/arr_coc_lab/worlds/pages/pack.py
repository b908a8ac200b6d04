"""Drawn pages, and packs of them for a machine that has no browser: WebP pictures and arrays, compressed by numpy."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.folders import replacing


class DrawnQuestion(NamedTuple):
    """A question with boxes in pixels: (N, 4) and (M, 4) uint16, x0 y0 x1 y1; `context` is what it is asked by."""

    kind: str
    text: str
    answer: str
    boxes: np.ndarray
    context: np.ndarray


class DrawnPage(NamedTuple):
    """A drawn page, clean. picture: WebP. word_boxes (W, 4), char_boxes (C, 4) uint16 in pixels; characters stand in
    order, so that word i holds the next len(words[i]) of them."""

    name: str
    family: str
    layout: str
    split: str
    width: int
    height: int
    picture: bytes
    words: list[str]
    word_boxes: np.ndarray
    char_boxes: np.ndarray
    questions: list[DrawnQuestion]


def write_pack(path: str | Path, pages: Sequence[DrawnPage]) -> None:
    """Write pages to one file."""
    header = [
        {
            "about": page[:6],
            "picture": len(page.picture),
            "words": page.words,
            "questions": [(*asked[:3], len(asked.boxes), len(asked.context)) for asked in page.questions],
        }
        for page in pages
    ]
    asked = [boxes for page in pages for one in page.questions for boxes in (one.boxes, one.context)]
    arrays = {"words": [page.word_boxes for page in pages], "letters": [page.char_boxes for page in pages]}
    joined = {name: _joined(boxes) for name, boxes in (arrays | {"asked": asked}).items()}
    texts = {"header": json.dumps(header).encode(), "pictures": b"".join(page.picture for page in pages)}
    joined |= {name: np.frombuffer(raw, np.uint8) for name, raw in texts.items()}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **joined)


def _joined(boxes: Iterable[np.ndarray]) -> np.ndarray:
    """(N, 4) uint16 of all."""
    return np.concatenate([np.zeros((0, 4), np.uint16), *(one.reshape(-1, 4) for one in boxes)])


def read_pack(paths: str | Path | Iterable[str | Path]) -> list[DrawnPage]:
    """The pages of one file or of several, in order. Pictures stay WebP; `decoded` opens them."""
    if isinstance(paths, str | Path):
        return _read_one(Path(paths))
    with ThreadPoolExecutor() as pool:
        return [page for pages in pool.map(_read_one, map(Path, paths)) for page in pages]


def decoded(pages: Sequence[DrawnPage], workers: int = 16) -> Iterator[np.ndarray]:
    """(H, W, 3) uint8 pictures of pages, opened side by side."""
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(picture_of, pages)


def picture_of(page: DrawnPage) -> np.ndarray:
    """(H, W, 3) uint8."""
    from PIL import Image

    return np.array(Image.open(io.BytesIO(page.picture)).convert("RGB"))


def _read_one(path: Path) -> list[DrawnPage]:
    again = "write one with arr-coc pages"
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays["header"].tobytes())
    except OSError as error:
        raise InputError(f"cannot read the pack {path} ({error.strerror or error}); {again}") from error
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a pack of pages, or damaged ({error}); {again}") from error
    pictures = arrays["pictures"].tobytes()
    pages, at, word, letter, box = [], 0, 0, 0, 0
    for entry in header:
        asked = []
        for kind, text, answer, n, m in entry["questions"]:
            boxes, context = arrays["asked"][box : box + n], arrays["asked"][box + n : box + n + m]
            asked.append(DrawnQuestion(kind, text, answer, boxes, context))
            box += n + m
        words, letters = len(entry["words"]), sum(map(len, entry["words"]))
        boxes = arrays["words"][word : word + words], arrays["letters"][letter : letter + letters]
        picture = pictures[at : at + entry["picture"]]
        pages.append(DrawnPage(*entry["about"], picture, entry["words"], *boxes, asked))
        at, word, letter = at + entry["picture"], word + words, letter + letters
    return pages
