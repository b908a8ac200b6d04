"""Draw an overview and crops as pictures, and say in words what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .packed import PackedPicture, Pane
from .prices.tables import TokenTable

LETTERS = "ABCDEFGHIJ"
FRAME, INK = (214, 40, 40), (255, 255, 255)
# Frames and letters are drawn on overviews whose shorter side has so many pixels; on smaller ones they would hide more
# than they show.
LEAST_MARKED = 192


class PackPart(NamedTuple):
    """Ground of a page and the size at which it is drawn. source: y, x, height, width. letter: "" for the whole."""

    source: tuple[int, int, int, int]
    size: tuple[int, int]
    letter: str = ""


def drawn(pixels: np.ndarray, page: tuple[int, int], part: PackPart) -> np.ndarray:
    """(H, W, 3): a part of a page at its size. pixels: of the page, which has (height, width) `page` as given."""
    import cv2

    scale = pixels.shape[0] / page[0], pixels.shape[1] / page[1]
    y, x, height, width = part.source
    top, left = int(y * scale[0]), int(x * scale[1])
    bottom = max(top + 1, round((y + height) * scale[0]))
    right = max(left + 1, round((x + width) * scale[1]))
    ground = np.ascontiguousarray(pixels[top:bottom, left:right])
    tall, wide = part.size
    if ground.shape[:2] == (tall, wide):
        return ground
    smaller = tall < ground.shape[0] or wide < ground.shape[1]
    return cv2.resize(ground, (wide, tall), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_CUBIC)


def padded(pixels: np.ndarray, canvas: tuple[int, int]) -> np.ndarray:
    """On a white canvas, in its upper left corner."""
    if pixels.shape[:2] == canvas:
        return pixels
    sheet = np.full((*canvas, 3), 255, np.uint8)
    sheet[: pixels.shape[0], : pixels.shape[1]] = pixels
    return sheet


def marked(pixels: np.ndarray, whole: PackPart, parts: Sequence[PackPart]) -> np.ndarray:
    """An overview with a frame and a letter for every part of it, where it is large enough for them."""
    if min(pixels.shape[:2]) < LEAST_MARKED or not parts:
        return pixels
    import cv2

    from ..pictures.lettering import letter_mask

    pixels = pixels.copy()
    scale = whole.size[0] / whole.source[2], whole.size[1] / whole.source[3]
    size = max(11, min(pixels.shape[:2]) // 24)
    for part in parts:
        y, x, height, width = part.source
        top, left = int((y - whole.source[0]) * scale[0]), int((x - whole.source[1]) * scale[1])
        bottom, right = int(top + height * scale[0]) - 1, int(left + width * scale[1]) - 1
        cv2.rectangle(pixels, (left, top), (right, bottom), FRAME, 1 if size < 20 else 2)
        mask = letter_mask(part.letter, size)
        # Above the frame where there is room, else below it: inside it would stand on what it names.
        tag_top = top - mask.shape[0] if top >= mask.shape[0] else min(bottom + 1, pixels.shape[0] - mask.shape[0])
        tag_left = min(left, pixels.shape[1] - mask.shape[1])
        place = pixels[tag_top : tag_top + mask.shape[0], tag_left : tag_left + mask.shape[1]]
        cover = mask[: place.shape[0], : place.shape[1], None] / 255
        place[:] = (np.array(FRAME) * (1 - cover) + np.array(INK) * cover).astype(np.uint8)
    return pixels


@dataclass(frozen=True, eq=False)
class PackSheet:
    """One page that is being packed: its pixels, (height, width) as given, and its number from 0."""

    pixels: np.ndarray
    size: tuple[int, int]
    page: int = 0

    def picture(
        self, part: PackPart, canvas: tuple[int, int], table: TokenTable, marks: Sequence[PackPart] = ()
    ) -> PackedPicture:
        """One part as a picture of its own."""
        pixels = marked(drawn(self.pixels, self.size, part), part, marks)
        pane = Pane((0, 0, *part.size), part.source, self.page, part.letter)
        return PackedPicture(padded(pixels, canvas), table.tokens(canvas), (pane,))


# ---- words -----------------------------------------------------------------------------------------------------------


def where(part: PackPart, page: tuple[int, int]) -> str:
    """A part's place in words: shares of the page."""
    y, x, height, width = part.source
    left, right = round(100 * x / page[1]), round(100 * (x + width) / page[1])
    top, bottom = round(100 * y / page[0]), round(100 * (y + height) / page[0])
    return f"from {left} to {right} % of its width and {top} to {bottom} % of its height"


def told(pictures: Sequence[PackedPicture], sizes: Sequence[tuple[int, int]], first: int = 1) -> str:
    """What to say beside the pictures. first: the number of the first of them in a request."""
    lines, several = [], len(sizes) > 1
    for number, picture in enumerate(pictures, first):
        for pane in picture.panes:
            size, page = sizes[pane.page], f"page {pane.page + 1}" if several else "the whole picture"
            if pane.letter:
                of = f"of page {pane.page + 1}" if several else "of it"
                part = PackPart(pane.source, pane.box[2:], pane.letter)
                lines.append(f"Picture {number} shows area {pane.letter} {of}, enlarged: {where(part, size)}.")
            else:
                reduced = pane.source[2:] == size and pane.scale < 0.97
                lines.append(f"Picture {number} is {page}{', reduced' if reduced else ''}.")
    return " ".join(lines)
