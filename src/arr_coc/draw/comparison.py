"""Two allocations of one picture side by side (two strategies, or two questions), and where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import cv2
import numpy as np
from PIL import Image

from ..core.values import Allocation, compare, token_density
from ..pictures.lettering import BOLD, line_height, shorten, wrap, write
from ..pictures.load import load_picture
from .homunculus import CAPTION, TEXT, TITLE, check_same_picture
from .layout import GAP, MARGIN, TALLEST, fit, page, place, resize
from .legend import BAR_HEIGHT, budget_bar, share_words, spent_words
from .palette import FIRST, MUTED, SECOND, difference_scale
from .panes import foveated, lens, overlay, places_apart

if TYPE_CHECKING:
    from ..pictures.load import Picture


def difference_map(
    first: Allocation, second: Allocation, size: tuple[int, int], pixels: np.ndarray | None = None
) -> np.ndarray:
    """(H, W, 3) uint8 RGB: orange where the first spends more tokens, blue where the second does, paper where neither.

    Tokens per cell are compared by their logarithm, because one level of detail is a factor of four.
    """
    densities = [np.log2(np.maximum(token_density(allocation), 4.0**-6)) / 2 for allocation in (first, second)]
    change = densities[1] - densities[0]
    strongest = max(float(np.abs(change).max()), 1.0)
    at = np.rint((change / strongest + 1) * 127.5).astype(np.uint8)
    cells = difference_scale()[at]
    scale = np.array(first.canvas or (first.height, first.width)) / np.array(size) / first.cell
    row = np.minimum(((np.arange(size[0]) + 0.5) * scale[0]).astype(int), cells.shape[0] - 1)
    col = np.minimum(((np.arange(size[1]) + 0.5) * scale[1]).astype(int), cells.shape[1] - 1)
    colours = cells[row[:, None], col[None, :]]
    if pixels is None:
        return colours
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)[..., None] / 255
    return np.rint(colours * (0.6 + 0.4 * grey)).astype(np.uint8)


def comparison(
    picture: Picture,
    allocations: Sequence[Allocation],
    titles: Sequence[str],
    query: str = "",
    *,
    width: int = 1280,
) -> Image.Image:
    """One page: two columns, each with its title, leaves and what the model sees; beneath, where they differ.

    titles: what tells the two apart: two questions, or two strategies. query: the question both share, if they do.
    """
    first, second = allocations
    picture = load_picture(picture)
    for allocation in allocations:
        check_same_picture(picture.size, allocation)
    result = compare(first, second)
    inner = width - 2 * MARGIN
    pane = (inner - GAP) // 2
    shown = fit(picture.height, picture.width, round(TALLEST * width), pane)
    caption_height = line_height(CAPTION) + 8
    wrapped = [wrap(title, pane, TITLE - 4, weight=BOLD, lines=2) for title in titles]
    header = wrap(query, inner, TITLE, weight=BOLD, lines=2) if query else []
    column_top = MARGIN - 6 + len(header) * line_height(TITLE) + (10 if header else 0)
    column_head = max(map(len, wrapped)) * line_height(TITLE - 4) + line_height(TEXT) + 10 + BAR_HEIGHT + 18
    top = column_top + column_head
    row_height = caption_height + shown[0] + GAP
    quarter = (inner - 3 * GAP) // 4
    close_up = (round(0.62 * quarter), quarter)
    small = fit(picture.height, picture.width, shown[0], quarter)
    close_top = top + 2 * row_height
    small_top = close_top + caption_height + close_up[0] + GAP
    canvas = page(small_top + caption_height + small[0] + MARGIN, width)

    for number, line in enumerate(header):
        write(canvas, line, MARGIN, MARGIN - 6 + number * line_height(TITLE), size=TITLE, weight=BOLD)
    pixels = resize(picture.pixels, shown)
    for side, (allocation, lines, colour) in enumerate(zip(allocations, wrapped, (FIRST, SECOND), strict=True)):
        x, y = MARGIN + side * (pane + GAP), column_top
        for line in lines:
            write(canvas, line, x, y, size=TITLE - 4, weight=BOLD, colour=colour)
            y += line_height(TITLE - 4)
        y = top - 18 - BAR_HEIGHT - 10 - line_height(TEXT)
        details = f"{allocation.strategy}, {spent_words(allocation)}, {share_words(allocation)}"
        write(canvas, details, x, y, size=TEXT, colour=MUTED)
        budget_bar(canvas, allocation, x, y + line_height(TEXT) + 10, pane)
        panes = (overlay(pixels, allocation), foveated(picture, allocation, shown))
        for row, (caption, image) in enumerate(zip(("Where the tokens go", "What the model sees"), panes, strict=True)):
            write(canvas, caption, x, top + row * row_height, size=CAPTION, weight=BOLD)
            place(canvas, image, x, top + row * row_height + caption_height, (shown[0], pane))

    places = places_apart(first, second)
    for number in range(4):  # two places, each as the left and as the right one sees it
        side, where = divmod(number, 2)
        x = MARGIN + number * (quarter + GAP)
        caption = ("Close-up where the left sees more", "Close-up where the right sees more")[where]
        write(canvas, shorten(caption, quarter, CAPTION, BOLD), x, close_top, size=CAPTION, weight=BOLD)
        _, seen = lens(picture, allocations[side], places[where], close_up)
        place(canvas, seen, x, close_top + caption_height, close_up)

    reduced = resize(pixels, small)
    bottom = (("The picture", reduced), ("Where they differ", difference_map(first, second, small, reduced)))
    for number, (caption, image) in enumerate(bottom):
        x = MARGIN + number * (quarter + GAP)
        write(canvas, caption, x, small_top, size=CAPTION, weight=BOLD)
        place(canvas, image, x, small_top + caption_height, (small[0], quarter))
    x, y = MARGIN + pane + GAP, small_top + caption_height
    for colour, words in ((FIRST, "more detail on the left"), (SECOND, "more detail on the right")):
        canvas[y + 4 : y + 18, x : x + 14] = colour
        write(canvas, words, x + 24, y, size=TEXT)
        y += line_height(TEXT) + 4
    for words in (
        f"{result.moved:.0f} tokens moved",
        f"{100 * result.overlap:.0f} % of the tokens in the same places",
        f"similarity {result.similarity:.2f}",
    ):
        write(canvas, words, x, y + 8, size=TEXT, colour=MUTED)
        y += line_height(TEXT)
    return Image.fromarray(canvas)
