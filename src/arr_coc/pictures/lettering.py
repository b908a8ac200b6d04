"""Draw text into an array of pixels, with typefaces that come with OpenCV and Pillow.

OpenCV 5 has a sans serif with weights and a fallback for nearly all scripts, so questions in any language can be
drawn. With older OpenCV, Pillow's typeface is used, which has little beyond ASCII: accents are removed.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

import cv2
import numpy as np

Colour = tuple[int, int, int]
INK: Colour = (28, 30, 36)

REGULAR, BOLD = 400, 600
# Letters are drawn this much larger and averaged down, so that their spacing is not rounded to whole pixels.
_OVERSAMPLE = 4


@cache
def _opencv_faces() -> tuple[cv2.FontFace, cv2.FontFace] | None:
    """Return the main typeface and the one for brackets, which the main one draws too wide; None before OpenCV 5."""
    return (cv2.FontFace("sans"), cv2.FontFace("uni")) if hasattr(cv2, "FontFace") else None


def line_height(size: int) -> int:
    return round(size * 1.4)


@lru_cache(maxsize=512)
def letter_mask(text: str, size: int, weight: int = REGULAR) -> np.ndarray:
    """Draw one line of text as (line_height(size), width) uint8 coverage."""
    # A lone surrogate, which a byte of the command line may become, crashes OpenCV with a segmentation fault.
    text = " ".join(text.encode(errors="replace").decode().split())
    faces = _opencv_faces()
    if faces is None:
        return _pillow_mask(text, size)
    large, height = size * _OVERSAMPLE, line_height(size)
    runs = [(run, faces[number % 2]) for number, run in enumerate(re.split(r"([()_]+)", text)) if run]
    # The width of a run is known only after drawing it, so the runs are drawn on a board that is wide enough.
    widest = sum(cv2.getTextSize((0, 0), run, (0, 0), face, large, weight)[2] + large for run, face in runs) + large
    board = np.zeros((height * _OVERSAMPLE, widest, 3), dtype=np.uint8)
    pen = 0
    for run, face in runs:
        (pen, _), _ = cv2.putText(board, run, (pen, round(large * 1.05)), (255, 255, 255), face, large, weight)
    columns = min(-(-max(pen, 1) // _OVERSAMPLE) + 1, widest // _OVERSAMPLE)
    board = np.ascontiguousarray(board[:, : columns * _OVERSAMPLE, 0])
    return cv2.resize(board, (columns, height), interpolation=cv2.INTER_AREA)


def _pillow_mask(text: str, size: int) -> np.ndarray:
    from PIL import Image, ImageDraw, ImageFont

    folded = unicodedata.normalize("NFKD", text.replace("×", "x").replace("–", "-").replace("→", "to"))
    plain = "".join(letter for letter in folded if not unicodedata.combining(letter))
    font = ImageFont.load_default(size)
    board = Image.new("L", (max(1, int(font.getlength(plain)) + 2), line_height(size)))
    ImageDraw.Draw(board).text((0, round(size * 1.05)), plain, fill=255, font=font, anchor="ls")
    return np.asarray(board)


def text_width(text: str, size: int, weight: int = REGULAR) -> int:
    return letter_mask(text, size, weight).shape[1]


def write(
    canvas: np.ndarray,
    text: str,
    x: int,
    y: int,
    *,
    size: int = 14,
    colour: Colour = INK,
    weight: int = REGULAR,
    align: str = "left",
) -> int:
    """Draw one line with its top at `y` into `canvas` (H, W, 3) uint8; `x` is its left, centre or right edge.

    Returns the width drawn. Parts outside the canvas are cut off.
    """
    mask = letter_mask(text, size, weight)
    width = mask.shape[1]
    x -= {"left": 0, "center": width // 2, "right": width}[align]
    top, left = max(y, 0), max(x, 0)
    bottom, right = min(y + mask.shape[0], canvas.shape[0]), min(x + width, canvas.shape[1])
    if top < bottom and left < right:
        alpha = mask[top - y : bottom - y, left - x : right - x, None].astype(np.float32) / 255
        ground = canvas[top:bottom, left:right]
        ground[:] = np.rint(ground + (np.array(colour, dtype=np.float32) - ground) * alpha).astype(np.uint8)
    return width


def shorten(text: str, width: int, size: int, weight: int = REGULAR) -> str:
    """Return `text`, shortened with an ellipsis if it does not fit into `width` pixels."""
    text = " ".join(text.split())
    whole = text_width(text, size, weight)
    if whole <= width:
        return text
    text = text[: round(1.2 * len(text) * width / whole) + 1]
    while text and text_width(text.rstrip() + "…", size, weight) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def wrap(text: str, width: int, size: int, *, weight: int = REGULAR, lines: int = 2) -> list[str]:
    """Wrap `text` into at most `lines` lines of `width` pixels; the last one is shortened if it does not fit."""
    words, result = text.split(), []
    while words and len(result) < lines - 1:
        taken = 1
        while taken < len(words) and text_width(" ".join(words[: taken + 1]), size, weight) <= width:
            taken += 1
        result.append(shorten(" ".join(words[:taken]), width, size, weight))
        words = words[taken:]
    if words:
        result.append(shorten(" ".join(words), width, size, weight))
    return result or [""]
