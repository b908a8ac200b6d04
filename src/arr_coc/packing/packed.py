"""`Packed`: the ordinary pictures sent in place of a picture, their text, and the map back to its coordinates.

Parts of a page are drawn by `drawn` and `marked`, and described in words by `caption`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError, shown, whole
from ..core.folders import replacing, write_json, writing
from ..core.values import JsonObject

PACKED_SCHEMA = 2
JPEG_QUALITY = 92


class OriginalPoint(NamedTuple):
    """A point. x, y: pixels of the original. page: from 0."""

    x: float
    y: float
    page: int


@dataclass(frozen=True, eq=False)
class PackedPicture:
    """A packed picture. pixels: (H, W, 3) uint8. tokens: its cost. source: y, x, height, width of the area shown in the
    original. drawn: height and width of that area in this picture; the rest is white. page: of the original, from 0.
    letter: its name in the text; empty for the whole."""

    pixels: np.ndarray
    tokens: int
    source: tuple[int, int, int, int]
    drawn: tuple[int, int]
    page: int = 0
    letter: str = ""

    @property
    def size(self) -> tuple[int, int]:
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def scale(self) -> float:
        """Return the magnification of the original."""
        return self.drawn[0] / self.source[2]


@dataclass(frozen=True, eq=False)
class Packed:
    """The pictures sent in place of a picture.

    Args:
        pictures: The pictures, in the order in which they are sent; `tokens` is their total cost.
        text: The text to put before them.
        full: Tokens of the original.
        budget: Maximum tokens of the pictures.
        model: Name of the token table.
        layout: whole, overview or crops.
        sizes: (height, width) of every page.
        left_out: Numbers of the pages that are not shown.
        jpeg: Whether the original is a JPEG.
        most_bytes: Maximum size of each picture in base64; larger ones become JPEGs.
        notes: Further information for the user.

    Example:
        >>> pack("invoice.png", "What is the total?", budget=400).save("packed")  # doctest: +SKIP
    """

    pictures: tuple[PackedPicture, ...]
    text: str
    full: int
    budget: int
    model: str
    layout: str
    sizes: tuple[tuple[int, int], ...]
    left_out: tuple[int, ...] = ()
    jpeg: bool = False
    most_bytes: float = math.inf
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.pictures)

    def __repr__(self) -> str:
        drawn = ", ".join(f"{one.size[1]}×{one.size[0]}" for one in self.pictures)
        return f"Packed({self.layout}: {self.tokens} of {self.full} tokens for {self.model}, {drawn})"

    def to_original(self, point: Sequence[float], picture: int = 1, *, of: float | None = None) -> OriginalPoint:
        """Map a point (x, y) of an answer to the pixels of the original.

        Args:
            point: The point in the packed picture.
            picture: Number of that picture, from 1.
            of: Upper end of the coordinates if they are not pixels: 1, 100 or 1000, as many models give them.
        """
        shown_one = self.pictures[whole(picture, "picture", 1, len(self.pictures)) - 1]
        if len(point) != 2 or not np.isfinite(np.asarray(point, dtype=float)).all():
            raise InputError(f"a point is (x, y), got {shown(point)}")
        height, width = shown_one.size
        x, y = (
            float(value) * (1 if of is None else side / of) for value, side in zip(point, (width, height), strict=True)
        )
        top, left, tall, wide = shown_one.source
        page = self.sizes[shown_one.page]
        found_x = min(max(0.0, left + x * wide / shown_one.drawn[1]), float(page[1]))
        found_y = min(max(0.0, top + y * tall / shown_one.drawn[0]), float(page[0]))
        return OriginalPoint(found_x, found_y, shown_one.page)

    def encoded(self) -> list[tuple[bytes, str]]:
        """Return bytes and media type of every picture as a file: PNG, or JPEG if the original is one."""
        return [encoded(one.pixels, self.jpeg, self.most_bytes) for one in self.pictures]

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the pictures and pack.json into a folder; return the paths, pack.json last."""
        files, place = self.encoded(), Path(folder)
        names = [f"picture-{number}.{media[6:].replace('jpeg', 'jpg')}" for number, (_, media) in enumerate(files, 1)]
        with writing(place):
            for name, (data, _) in zip(names, files, strict=True):
                with replacing(place / name) as temporary:
                    temporary.write_bytes(data)
            write_json(place / "pack.json", self.to_json(names))
        return [place / name for name in (*names, "pack.json")]

    def to_json(self, files: Sequence[str] = ()) -> JsonObject:
        """Return a dictionary for JSON, without the pixels. files: names of the pictures."""
        pictures = []
        for number, one in enumerate(self.pictures):
            shows = {"source": list(one.source), "drawn": list(one.drawn), "page": one.page, "letter": one.letter}
            named = {"file": files[number]} if files else {}
            pictures.append({**named, "height": one.size[0], "width": one.size[1], "tokens": one.tokens, **shows})
        own = {name: getattr(self, name) for name in ("layout", "model", "budget", "tokens", "full", "text")}
        pages = [{"height": height, "width": width} for height, width in self.sizes]
        rest = {"pages": pages, "left_out": list(self.left_out), "notes": list(self.notes)}
        return {"schema": PACKED_SCHEMA, **own, "pictures": pictures, **rest}


def encoded(pixels: np.ndarray, jpeg: bool, most: float = math.inf) -> tuple[bytes, str]:
    """Encode a picture, and return its media type; a JPEG of decreasing quality if it exceeds `most` bytes."""
    data = encode(pixels, JPEG_QUALITY if jpeg else None)
    for quality in (JPEG_QUALITY, 80, 60, 40):
        if 4 * -(-len(data) // 3) <= most:
            break
        data, jpeg = encode(pixels, quality), True
    return data, "image/jpeg" if jpeg else "image/png"


def encode(pixels: np.ndarray, jpeg_quality: int | None = None) -> bytes:
    """Encode a picture as PNG, or as JPEG of a quality up to 100."""
    import cv2  # several times faster than Pillow, and requests wait for it

    kind, how = (".png", [cv2.IMWRITE_PNG_COMPRESSION, 1])
    if jpeg_quality is not None:
        kind, how = (".jpg", [cv2.IMWRITE_JPEG_QUALITY, jpeg_quality])
    done, data = cv2.imencode(kind, np.ascontiguousarray(pixels[..., ::-1]), how)
    assert done
    return data.tobytes()


# ---- drawing parts ---------------------------------------------------------------------------------------------------

LETTERS = "ABCDEFGHIJ"
FRAME, INK = (214, 40, 40), (255, 255, 255)
# Frames and letters are drawn on overviews whose shorter side has this many pixels; on smaller ones they would hide
# more than they show.
LEAST_MARKED = 192


class PackPart(NamedTuple):
    """An area of a page and the size at which it is drawn. source: y, x, height, width. letter: "" for the whole."""

    source: tuple[int, int, int, int]
    size: tuple[int, int]
    letter: str = ""

    @property
    def window(self) -> tuple[slice, slice]:
        """Return its area in the page's pixels."""
        y, x, height, width = self.source
        return slice(y, y + height), slice(x, x + width)


def drawn(pixels: np.ndarray, page: tuple[int, int], part: PackPart) -> np.ndarray:
    """Draw a part of a page at its size, (H, W, 3). pixels: of the page, whose original size is `page`."""
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
    """Place pixels in the upper left corner of a white canvas."""
    if pixels.shape[:2] == canvas:
        return pixels
    sheet = np.full((*canvas, 3), 255, np.uint8)
    sheet[: pixels.shape[0], : pixels.shape[1]] = pixels
    return sheet


def marked(pixels: np.ndarray, whole: PackPart, parts: Sequence[PackPart]) -> np.ndarray:
    """Draw a frame and a letter for every part on an overview, if it is large enough."""
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
        # Above the frame if there is space, else below it: inside, it would cover the part.
        tag_top = top - mask.shape[0] if top >= mask.shape[0] else min(bottom + 1, pixels.shape[0] - mask.shape[0])
        tag_left = min(left, pixels.shape[1] - mask.shape[1])
        place = pixels[tag_top : tag_top + mask.shape[0], tag_left : tag_left + mask.shape[1]]
        cover = mask[: place.shape[0], : place.shape[1], None] / 255
        place[:] = (np.array(FRAME) * (1 - cover) + np.array(INK) * cover).astype(np.uint8)
    return pixels


# ---- words -----------------------------------------------------------------------------------------------------------


def where(source: tuple[int, int, int, int], page: tuple[int, int]) -> str:
    """Describe the place of a part as shares of the page."""
    y, x, height, width = source
    left, right = round(100 * x / page[1]), round(100 * (x + width) / page[1])
    top, bottom = round(100 * y / page[0]), round(100 * (y + height) / page[0])
    return f"from {left} to {right} % of its width and {top} to {bottom} % of its height"


def caption(pictures: Sequence[PackedPicture], sizes: Sequence[tuple[int, int]], first: int = 1) -> str:
    """Describe the pictures in words. first: number of the first one in a request."""
    lines, several = [], len(sizes) > 1
    for number, one in enumerate(pictures, first):
        size, page = sizes[one.page], f"page {one.page + 1}" if several else "the whole picture"
        if one.letter:
            of = f"of page {one.page + 1}" if several else "of it"
            lines.append(f"Picture {number} shows area {one.letter} {of}, enlarged: {where(one.source, size)}.")
        else:
            reduced = one.source[2:] == size and one.scale < 0.97
            lines.append(f"Picture {number} is {page}{', reduced' if reduced else ''}.")
    return " ".join(lines)
