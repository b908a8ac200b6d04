"""Pictures made on the spot for the tests of the command line."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw


class Outcome(NamedTuple):
    """What one call of the command line came to."""

    code: int
    out: str
    err: str


def street(height: int = 192, width: int = 256) -> np.ndarray:
    """(height, width, 3) uint8: plain ground and three signs with numbers."""
    image = Image.new("RGB", (width, height), (150, 170, 190))
    draw = ImageDraw.Draw(image)
    for number, (colour, place) in enumerate((("red", 0.1), ("blue", 0.4), ("green", 0.75))):
        left, top = int(place * width), int((0.2 + 0.15 * number) * height)
        draw.rectangle((left, top, left + width // 6, top + height // 5), fill=colour)
        draw.text((left + 6, top + 8), str(37 * (number + 1)), fill="white")
    return np.asarray(image)


def png_chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def bomb(path: Path, side: int = 50_000) -> Path:
    """A PNG whose header promises side × side pixels, with hardly any data behind it."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    data = png_chunk(b"IDAT", zlib.compress(bytes(1000))) + png_chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + data)
    return path
