"""`Packed`: what is sent in place of a picture: ordinary pictures, the text beside them, and the way back."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError, shown, whole
from ..core.files import replacing, write_json, writing
from ..core.values import JsonObject

PACKED_SCHEMA = 1
FORMATS = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}
JPEG_QUALITY = 92


class Pane(NamedTuple):
    """A part of a packed picture. box: y, x, height, width in it. source: the same of the original, in its pixels.
    page: of the original, from 0. letter: by which the text names it; empty for the whole."""

    box: tuple[int, int, int, int]
    source: tuple[int, int, int, int]
    page: int = 0
    letter: str = ""

    @property
    def scale(self) -> float:
        return self.box[2] / self.source[2]


class OriginalPoint(NamedTuple):
    """x, y: pixels of the original. page: from 0."""

    x: float
    y: float
    page: int


@dataclass(frozen=True, eq=False)
class PackedPicture:
    """pixels: (H, W, 3) uint8. tokens: what it costs. panes: what is where in it."""

    pixels: np.ndarray
    tokens: int
    panes: tuple[Pane, ...]

    @property
    def size(self) -> tuple[int, int]:
        return self.pixels.shape[0], self.pixels.shape[1]


@dataclass(frozen=True, eq=False)
class Packed:
    """What is sent in place of a picture.

    Args:
        pictures: In the order in which they are sent; `tokens` is what they cost together.
        text: To put before them.
        full: What the original costs.
        budget: What they may cost.
        model: Whose table counts the tokens.
        layout: whole, overview or crops.
        sizes: (height, width) of every page.
        left_out: What is not seen enlarged, and how small the whole is.
        jpeg: Whether it came as one.
        notes: Whatever else a reader should know.

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
    left_out: JsonObject = field(default_factory=dict)
    jpeg: bool = False
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.pictures)

    def __repr__(self) -> str:
        drawn = ", ".join(f"{one.size[1]}×{one.size[0]}" for one in self.pictures)
        return f"Packed({self.layout}: {self.tokens} of {self.full} tokens for {self.model}, {drawn})"

    def to_original(self, point: Sequence[float], picture: int = 1, *, of: float | None = None) -> OriginalPoint:
        """Where a point of an answer lies in the original.

        Args:
            point: (x, y) in the packed picture.
            picture: Its number, from 1.
            of: Where coordinates run from 0 to this and not in pixels: 1, 100 or 1000 as many models give them.

        Returns:
            (x, y, page), in pixels of the original.

        Example:
            packed.to_original((120, 40), picture=2)
        """
        shown_one = self.pictures[whole(picture, "picture", 1, len(self.pictures)) - 1]
        if len(point) != 2 or not np.isfinite(np.asarray(point, dtype=float)).all():
            raise InputError(f"a point is (x, y), got {shown(point)}")
        height, width = shown_one.size
        x, y = (
            float(value) * (1 if of is None else side / of) for value, side in zip(point, (width, height), strict=True)
        )
        pane = min(shown_one.panes, key=lambda one: outside(one, x, y))
        top, left, tall, wide = pane.box
        first_y, first_x, source_tall, source_wide = pane.source
        page = self.sizes[pane.page]
        found_x = min(max(0.0, first_x + (x - left) * source_wide / wide), float(page[1]))
        found_y = min(max(0.0, first_y + (y - top) * source_tall / tall), float(page[0]))
        return OriginalPoint(found_x, found_y, pane.page)

    def box_to_original(
        self, box: Sequence[float], picture: int = 1, *, of: float | None = None
    ) -> tuple[float, float, float, float]:
        """Where a box of an answer lies in the original.

        Args:
            box: (x0, y0, x1, y1) in the packed picture.
            picture: Its number, from 1.
            of: As for `to_original`.

        Returns:
            (x0, y0, x1, y1), in pixels of the original.
        """
        if len(box) != 4:
            raise InputError(f"a box is (x0, y0, x1, y1), got {shown(box)}")
        first = self.to_original(box[:2], picture, of=of)
        last = self.to_original(box[2:], picture, of=of)
        return min(first.x, last.x), min(first.y, last.y), max(first.x, last.x), max(first.y, last.y)

    def encoded(self, kind: str = "auto") -> list[tuple[bytes, str]]:
        """Every picture as the bytes of a file.

        Args:
            kind: png, jpeg, webp; auto: JPEG where it was one.

        Returns:
            Bytes and media type of each.
        """
        kind = format_of(kind, self.jpeg)
        return [(encode(one.pixels, kind), FORMATS[kind]) for one in self.pictures]

    def save(self, folder: str | os.PathLike[str], kind: str = "auto") -> list[Path]:
        """Write the pictures and pack.json into a folder.

        Args:
            folder: Made if missing.
            kind: As for `encoded`.

        Returns:
            The paths, pack.json last.
        """
        kind, place = format_of(kind, self.jpeg), Path(folder)
        names = [f"picture-{number}.{'jpg' if kind == 'jpeg' else kind}" for number in range(1, len(self.pictures) + 1)]
        with writing(place):
            for name, one in zip(names, self.pictures, strict=True):
                with replacing(place / name) as temporary:
                    temporary.write_bytes(encode(one.pixels, kind))
            write_json(place / "pack.json", self.to_json(names))
        return [place / name for name in (*names, "pack.json")]

    def to_json(self, files: Sequence[str] = ()) -> JsonObject:
        """This packing as JSON.

        Args:
            files: What the pictures are called.

        Returns:
            A JSON-ready dictionary, without the pixels.
        """
        pictures = []
        for number, one in enumerate(self.pictures):
            panes = [{**pane._asdict(), "box": list(pane.box), "source": list(pane.source)} for pane in one.panes]
            named = {"file": files[number]} if files else {}
            pictures.append(
                {**named, "height": one.size[0], "width": one.size[1], "tokens": one.tokens, "panes": panes}
            )
        own: dict[str, object] = {"schema": PACKED_SCHEMA, "layout": self.layout, "model": self.model}
        own |= {
            "budget": self.budget,
            "tokens": self.tokens,
            "full": self.full,
            "text": self.text,
            "pictures": pictures,
        }
        pages = [{"height": height, "width": width} for height, width in self.sizes]
        return {**own, "pages": pages, "left_out": dict(self.left_out), "notes": list(self.notes)}


def outside(pane: Pane, x: float, y: float) -> float:
    """How far a point lies outside a pane; 0 inside."""
    top, left, tall, wide = pane.box
    return max(0.0, left - x, x - left - wide) + max(0.0, top - y, y - top - tall)


def format_of(kind: str, jpeg: bool) -> str:
    kind = {"jpg": "jpeg", "auto": "jpeg" if jpeg else "png"}.get(kind, kind)
    if kind not in FORMATS:
        raise InputError(f"pictures are written as auto, {', '.join(FORMATS)}, not as {shown(kind)}")
    return kind


def encode(pixels: np.ndarray, kind: str) -> bytes:
    if kind == "png":
        import cv2  # several times as quick as Pillow, and it is what a request waits for

        done, data = cv2.imencode(".png", np.ascontiguousarray(pixels[..., ::-1]), [cv2.IMWRITE_PNG_COMPRESSION, 1])
        assert done
        return data.tobytes()
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind.upper(), quality=JPEG_QUALITY)
    return stream.getvalue()
