"""Draw the homunculus: a picture or clip, its relevance, its leaves, and what the model will see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from PIL import Image

from ..core.answer import Answer, sureness_words
from ..core.errors import InputError
from ..core.values import Allocation, Relevance
from ..pictures.lettering import BOLD, line_height, shorten, wrap, write
from ..pictures.load import Picture, load_picture
from ..video.watching import Watched
from .layout import (
    BAR_HEIGHT,
    GAP,
    MARGIN,
    MUTED,
    TALLEST,
    budget_bar,
    decided_strip,
    fit,
    level_legend,
    page,
    place,
    resize,
    share_words,
    spent_words,
)
from .panes import foveated, heat, overlay

TITLE, TEXT, CAPTION = 26, 15, 14
LEGEND_HEIGHT, STRIP_HEIGHT = 56, 52
LARGE = 22  # of a clip's title


def homunculus(
    picture: Picture,
    allocation: Allocation,
    relevance: Relevance | np.ndarray | None = None,
    query: str = "",
    *,
    width: int = 1280,
    answer: Answer | None = None,
    truth: str | None = None,
) -> Image.Image:
    """Draw one page, `width` pixels wide: question and numbers, panes side by side, the levels, and who decided.

    picture: anything `load_picture` takes, also a reduced `Picture`. relevance: drawn as a pane if given. answer,
    truth: the model's answer with its uncertainty, and the right answer.
    """
    picture = load_picture(picture)
    check_same_picture(picture.size, allocation)
    inner = width - 2 * MARGIN
    captions = ["The picture", *(["Relevance"] if relevance is not None else [])]
    captions += ["Where the tokens go", "What the model sees"]
    columns = len(captions) if picture.width < 0.9 * picture.height else min(len(captions), 2)
    rows = -(-len(captions) // columns)
    pane = (inner - (columns - 1) * GAP) // columns
    shown = fit(picture.height, picture.width, round(TALLEST * width), pane)
    caption_height = line_height(CAPTION) + 8

    lines = wrap(query, inner - 300, TITLE, weight=BOLD, lines=2)
    more = [] if answer is None else wrap(answer_words(answer, truth), inner, TEXT, lines=1)
    top = MARGIN + len(lines) * line_height(TITLE) + (1 + len(more)) * line_height(TEXT) + BAR_HEIGHT + 36
    legend_top = top + rows * (caption_height + shown[0] + GAP)
    strip_top = legend_top + LEGEND_HEIGHT + GAP
    canvas = page((strip_top + STRIP_HEIGHT if allocation.ways else legend_top + LEGEND_HEIGHT) + MARGIN, width)

    heading(
        canvas, lines, f"{picture.name}, {picture.width}×{picture.height} px, {allocation.strategy}", allocation, more
    )
    pixels = resize(picture.pixels, shown)
    panes = [pixels]
    if relevance is not None:
        panes.append(heat(relevance, shown, pixels))
    panes += [overlay(pixels, allocation), foveated(picture, allocation, shown)]
    for number, (caption, image) in enumerate(zip(captions, panes, strict=True)):
        x = MARGIN + (number % columns) * (pane + GAP)
        y = top + (number // columns) * (caption_height + shown[0] + GAP)
        write(canvas, caption, x, y, size=CAPTION, weight=BOLD)
        place(canvas, image, x, y + caption_height, (shown[0], pane))
    level_legend(canvas, allocation, MARGIN, legend_top, inner)
    if allocation.ways:
        decided_strip(canvas, allocation, MARGIN, strip_top, inner)
    return Image.fromarray(canvas)


def answer_words(answer: Answer, truth: str | None = None) -> str:
    """Return one line with an answer, how sure it is, and whether it is right."""
    right = "" if truth is None else f"; truth: {truth}"
    return f"Answer: {answer.text or '(nothing)'} ({sureness_words(answer.uncertainty)}){right}"


def heading(
    canvas: np.ndarray, lines: list[str], details: str, allocation: Allocation, more: Sequence[str] = ()
) -> None:
    """Draw the question on the left, the numbers on the right, then the answer and the budget bar."""
    width = canvas.shape[1]
    y = MARGIN - 6
    for line in lines:
        write(canvas, line, MARGIN, y, size=TITLE, weight=BOLD)
        y += line_height(TITLE)
    write(canvas, details, MARGIN, y, size=TEXT, colour=MUTED)
    write(canvas, share_words(allocation), width - MARGIN, MARGIN - 6, size=TITLE, weight=BOLD, align="right")
    write(canvas, spent_words(allocation), width - MARGIN, y, size=TEXT, colour=MUTED, align="right")
    for line in more:
        y += line_height(TEXT)
        write(canvas, line, MARGIN, y, size=TEXT, weight=BOLD)
    budget_bar(canvas, allocation, MARGIN, y + line_height(TEXT) + 10, width - 2 * MARGIN)


def check_same_picture(size: tuple[int, int], allocation: Allocation) -> None:
    if size != (allocation.height, allocation.width):
        raise InputError(
            f"the allocation is for a picture of {allocation.width}×{allocation.height}, this one is "
            f"{size[1]}×{size[0]}; draw it over the picture it was made for"
        )


def homunculus_frames(watched: Watched, frames: Iterable[np.ndarray], width: int = 1280) -> Iterator[np.ndarray]:
    """Yield (H, W, 3) uint8 for each frame: where its tokens go, and what the model sees."""
    pane = (width - 2 * MARGIN - GAP) // 2
    shown = fit(*watched.size, round(0.6 * width), pane)
    top = MARGIN + line_height(LARGE) + line_height(TEXT) + 12
    height = top + line_height(TEXT) + 6 + shown[0] + MARGIN
    empty = page(height // 2 * 2, width)
    write(empty, shorten(watched.query, width - 2 * MARGIN, LARGE, BOLD), MARGIN, MARGIN - 8, size=LARGE, weight=BOLD)
    for seen, pixels in zip(watched.frames, frames, strict=True):
        canvas, below = empty.copy(), MARGIN - 8 + line_height(LARGE)
        write(canvas, words_of(watched, seen.number), MARGIN, below, size=TEXT, colour=MUTED)
        panes = (overlay(resize(pixels, shown), seen.allocation), foveated(pixels, seen.allocation, shown))
        for number, (caption, image) in enumerate(zip(("What is paid for", "What the model sees"), panes, strict=True)):
            left = MARGIN + number * (pane + GAP)
            write(canvas, caption, left, top, size=TEXT, weight=BOLD)
            place(canvas, image, left, top + line_height(TEXT) + 6, (shown[0], pane))
        yield canvas


def words_of(watched: Watched, number: int) -> str:
    """Return one line about a frame."""
    seen = watched.frames[number]
    parts = [f"frame {number + 1} of {len(watched.frames)}", f"scene {seen.scene + 1}"]
    if watched.seconds:
        parts.insert(1, f"{watched.seconds[number]:.2f} s")
    parts.append(f"{seen.tokens} token{'' if seen.tokens == 1 else 's'}")
    if seen.cut:
        parts.append("CUT")
    return ", ".join(parts) + f"; clip {watched.tokens} of {watched.full} tokens"
