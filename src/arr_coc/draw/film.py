"""The homunculus as a clip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ..pictures.lettering import BOLD, line_height, shorten, write
from ..video.watching import Watched
from .layout import GAP, MARGIN, fit, page, place, resize
from .palette import MUTED, RULE, level_colour
from .panes import foveated, overlay

WIDTH = 1280
TITLE, TEXT = 22, 15
STRIP = 64
CUT = (196, 60, 40)


def homunculus_frames(watched: Watched, frames: Iterable[np.ndarray], width: int = WIDTH) -> Iterator[np.ndarray]:
    """(H, W, 3) uint8 for each frame: where the tokens go, what the model sees, and the whole clip as a strip below."""
    pane = (width - 2 * MARGIN - GAP) // 2
    shown = fit(*watched.size, round(0.6 * width), pane)
    top = MARGIN + line_height(TITLE) + line_height(TEXT) + 12
    height = top + line_height(TEXT) + 6 + shown[0] + GAP + STRIP + line_height(TEXT) + MARGIN
    empty = page(height // 2 * 2, width)
    write(empty, shorten(watched.query, width - 2 * MARGIN, TITLE, BOLD), MARGIN, MARGIN - 8, size=TITLE, weight=BOLD)
    strip = strip_of(watched, width - 2 * MARGIN)
    strip_top = top + line_height(TEXT) + 6 + shown[0] + GAP
    for seen, pixels in zip(watched.frames, frames, strict=True):
        canvas = empty.copy()
        write(canvas, words_of(watched, seen.number), MARGIN, MARGIN - 8 + line_height(TITLE), size=TEXT, colour=MUTED)
        panes = (overlay(resize(pixels, shown), seen.allocation), foveated(pixels, seen.allocation, shown))
        for number, (caption, image) in enumerate(zip(("What is paid for", "What the model sees"), panes, strict=True)):
            left = MARGIN + number * (pane + GAP)
            write(canvas, caption, left, top, size=TEXT, weight=BOLD)
            place(canvas, image, left, top + line_height(TEXT) + 6, (shown[0], pane))
        canvas[strip_top : strip_top + STRIP, MARGIN : MARGIN + strip.shape[1]] = strip
        at = MARGIN + round((seen.number + 0.5) * strip.shape[1] / len(watched.frames))
        canvas[strip_top : strip_top + STRIP, at - 1 : at + 1] = 0
        yield canvas


def words_of(watched: Watched, number: int) -> str:
    """One line about a frame."""
    seen = watched.frames[number]
    parts = [f"frame {number + 1} of {len(watched.frames)}", f"scene {seen.scene + 1}"]
    if watched.seconds:
        parts.insert(1, f"{watched.seconds[number]:.2f} s")
    parts.append(f"{seen.tokens} token{'' if seen.tokens == 1 else 's'}")
    if seen.similarity is not None:
        parts.append(f"similarity {seen.similarity:.2f}")
    if seen.cut:
        parts.append("CUT")
    return ", ".join(parts) + f"; clip {watched.tokens} of {watched.full} tokens"


def strip_of(watched: Watched, width: int) -> np.ndarray:
    """(STRIP, width, 3): a bar of tokens for each frame, red where a scene begins."""
    strip = np.full((STRIP, width, 3), RULE, dtype=np.uint8)
    number = len(watched.frames)
    tallest = max(max(frame.tokens for frame in watched.frames), 1)
    edges = np.linspace(0, width, number + 1).round().astype(int)
    for frame, left, right in zip(watched.frames, edges[:-1], edges[1:], strict=True):
        tall = max(1, round((STRIP - 4) * frame.tokens / tallest))
        colour = np.array(CUT, dtype=np.uint8) if frame.cut else level_colour(0)
        strip[STRIP - tall :, left : max(left + 1, right - (right - left > 3))] = colour
    return strip
