"""The homunculus: a picture, its relevance, the leaves it earned, and what the model will see; of a clip too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from PIL import Image

from ..core.errors import InputError
from ..core.values import Allocation, Answer, Relevance, sureness_words
from ..pictures.lettering import BOLD, line_height, shorten, wrap, write
from ..pictures.load import Picture, load_picture
from ..pictures.words import Words
from ..video.watching import Watched
from .layout import GAP, MARGIN, MUTED, RULE, TALLEST, fit, level_colour, page, place, resize
from .legend import BAR_HEIGHT, budget_bar, level_legend, relevance_bar, share_words, spent_words
from .panes import foveated, heat, overlay

TITLE, TEXT, CAPTION = 26, 15, 14
LEGEND_HEIGHT = 56
# Of a clip: the title, the strip of bars below, and a bar where a scene begins.
LARGE, STRIP, CUT = 22, 64, (196, 60, 40)


def homunculus(
    picture: Picture,
    allocation: Allocation,
    relevance: Relevance | np.ndarray | None = None,
    query: str = "",
    *,
    width: int = 1280,
    answer: Answer | None = None,
    truth: str | None = None,
    words: Words | None = None,
) -> Image.Image:
    """One page, `width` pixels wide: question and numbers, the panes side by side, the legend of levels.

    picture: anything `load_picture` takes; a reduced `Picture` will do. relevance: shown as a pane where given. answer,
    truth: what was said, how sure that is, and what is right. words: of the picture; those that earned the finest
    tokens are named.
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
    told = [] if answer is None else [answer_words(answer, truth)]
    earned = [] if words is None else words_seen(allocation, words)
    told += [f"Words with the finest tokens: {', '.join(earned)}"] if earned else []
    told = [line for one in told for line in wrap(one, inner, TEXT, lines=1)]
    top = (
        len(told) * line_height(TEXT)
        + MARGIN
        + len(lines) * line_height(TITLE)
        + line_height(TEXT)
        + 14
        + BAR_HEIGHT
        + 22
    )
    legend_top = top + rows * (caption_height + shown[0] + GAP)
    canvas = page(legend_top + LEGEND_HEIGHT + MARGIN, width)

    heading(
        canvas, lines, f"{picture.name}, {picture.width}×{picture.height} px, {allocation.strategy}", allocation, told
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
        if relevance is not None and number == 1:
            relevance_bar(canvas, x + pane, y, width=min(120, pane // 3))
        place(canvas, image, x, y + caption_height, (shown[0], pane))
    level_legend(canvas, allocation, MARGIN, legend_top, inner)
    return Image.fromarray(canvas)


def answer_words(answer: Answer, truth: str | None = None) -> str:
    """An answer, how sure it is, and whether it is right, in one line."""
    right = "" if truth is None else f"; truth: {truth}"
    return f"Answer: {answer.text or '(nothing)'} ({sureness_words(answer.uncertainty)}){right}"


def words_seen(allocation: Allocation, words: Words, most: int = 8) -> list[str]:
    """The words whose middle lies in a leaf of the finest level, those of the best-scored leaves first."""
    middle = (words.boxes[:, :2] + words.boxes[:, 2:]) / 2 * (allocation.width, allocation.height)
    found: dict[str, float] = {}
    for (top, left, high, wide), level, score in zip(
        allocation.boxes.tolist(), allocation.levels.tolist(), allocation.scores.tolist(), strict=True
    ):
        if level == allocation.levels.min():
            inside = (middle >= (left, top)).all(1) & (middle < (left + wide, top + high)).all(1)
            for place in np.flatnonzero(inside):
                found[words.texts[place]] = max(score, found.get(words.texts[place], 0.0))
    return sorted(found, key=lambda text: -found[text])[:most]


def heading(
    canvas: np.ndarray, lines: list[str], details: str, allocation: Allocation, told: Sequence[str] = ()
) -> None:
    """The question on the left, the numbers on the right, what was answered, the budget bar beneath."""
    width = canvas.shape[1]
    y = MARGIN - 6
    for line in lines:
        write(canvas, line, MARGIN, y, size=TITLE, weight=BOLD)
        y += line_height(TITLE)
    write(canvas, details, MARGIN, y, size=TEXT, colour=MUTED)
    write(canvas, share_words(allocation), width - MARGIN, MARGIN - 6, size=TITLE, weight=BOLD, align="right")
    write(canvas, spent_words(allocation), width - MARGIN, y, size=TEXT, colour=MUTED, align="right")
    for line in told:
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
    """(H, W, 3) uint8 for each frame: where the tokens go, what the model sees, and the whole clip as a strip below."""
    pane = (width - 2 * MARGIN - GAP) // 2
    shown = fit(*watched.size, round(0.6 * width), pane)
    top = MARGIN + line_height(LARGE) + line_height(TEXT) + 12
    height = top + line_height(TEXT) + 6 + shown[0] + GAP + STRIP + line_height(TEXT) + MARGIN
    empty = page(height // 2 * 2, width)
    write(
        empty,
        shorten(watched.query, width - 2 * MARGIN, LARGE, BOLD),
        MARGIN,
        MARGIN - 8,
        size=LARGE,
        weight=BOLD,
    )
    strip = strip_of(watched, width - 2 * MARGIN)
    strip_top = top + line_height(TEXT) + 6 + shown[0] + GAP
    for seen, pixels in zip(watched.frames, frames, strict=True):
        canvas = empty.copy()
        write(
            canvas,
            words_of(watched, seen.number),
            MARGIN,
            MARGIN - 8 + line_height(LARGE),
            size=TEXT,
            colour=MUTED,
        )
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
