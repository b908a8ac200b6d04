"""Pictures with more pixels than are ever held: read by regions and reduced on the way, by a library for it.

pyvips reads nearly every format so; tifffile reads TIFFs and slides, whose smaller copies inside the file are used.
The extra `[slides]` brings the second; where neither is installed, one line says so.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..core.arrays import sized
from ..core.errors import InputError
from ..core.stopping import check_stop

REMEDY = "pip install 'arr-coc[slides]' reads it by regions"
# Pixels that are decoded, one region after another.
MOST_READ = 1_500_000_000
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
Read = TypeVar("Read")


def region_reader(file: object) -> str | None:
    """The library that can read this file by regions: "pyvips", "tifffile", or None."""
    if not isinstance(file, Path):
        return None
    if find_spec("pyvips") is not None:
        return "pyvips"
    with file.open("rb") as opened:
        return "tifffile" if opened.read(4) in _TIFF and find_spec("tifffile") is not None else None


def region_size(file: Path) -> tuple[int, int]:
    """(height, width) by the header alone. Raises `InputError`."""
    return _told(file, lambda: _vips_size(file) if region_reader(file) == "pyvips" else _tiff_size(file))


def reduced_by_regions(file: Path, longest_side: int) -> np.ndarray:
    """(h, w, 3) uint8, its longer side `longest_side` or the picture's own, by area mean. Raises `InputError`."""
    by_vips = region_reader(file) == "pyvips"
    return _told(file, lambda: _vips_reduced(file, longest_side) if by_vips else _tiff_reduced(file, longest_side))


def _told(file: Path, work: Callable[[], Read]) -> Read:
    try:
        return work()
    except InputError:
        raise
    except Exception as error:  # decoders meet hostile bytes and raise struct.error, ValueError, zlib.error and more
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(f"{file.name} cannot be read by regions ({reason}); save it as a JPEG") from error


# ---- pyvips ----------------------------------------------------------------------------------------------------------


def _vips_size(file: Path) -> tuple[int, int]:
    image = import_module("pyvips").Image.new_from_file(str(file), access="sequential")
    return image.height, image.width


def _vips_reduced(file: Path, longest_side: int) -> np.ndarray:
    vips = import_module("pyvips")
    image = vips.Image.thumbnail(str(file), longest_side, height=longest_side, size="down", no_rotate=True)
    if image.hasalpha():
        image = image.flatten(background=[255, 255, 255])
    image = image.colourspace("srgb").cast("uchar")
    return np.ndarray(buffer=image.write_to_memory(), dtype=np.uint8, shape=(image.height, image.width, 3)).copy()


# ---- tifffile --------------------------------------------------------------------------------------------------------


def _tiff_size(file: Path) -> tuple[int, int]:
    with import_module("tifffile").TiffFile(file) as opened:
        page = opened.series[0].pages[0]
        return int(page.imagelength), int(page.imagewidth)


def _tiff_reduced(file: Path, longest_side: int) -> np.ndarray:
    with import_module("tifffile").TiffFile(file) as opened:
        levels = [level.pages[0] for level in opened.series[0].levels]
        # Of the copies that a slide holds, the smallest that is large enough.
        large = [page for page in levels if max(page.imagelength, page.imagewidth) >= longest_side] or levels[:1]
        page = min(large, key=lambda one: one.imagelength * one.imagewidth)
        height, width, samples = int(page.imagelength), int(page.imagewidth), int(page.samplesperpixel)
        if height * width > MOST_READ:
            raise InputError(f"{file.name} is {width}×{height}, more than {MOST_READ // 1_000_000} megapixels")
        if page.dtype not in (np.uint8, np.uint16) or samples not in (1, 3, 4) or int(page.planarconfig) != 1:
            raise InputError(f"{file.name} holds {samples} samples of {page.dtype}; save it as 8-bit RGB or grey")
        rows, cols = sized((height, width), longest_side)
        total, count = np.zeros((rows, cols, 3), np.float32), np.zeros((rows, cols, 1), np.float32)
        down, across = (np.arange(n) * m // n for n, m in ((height, rows), (width, cols)))
        for data, index, _ in page.segments():
            check_stop()
            if data is None:  # a region that the file leaves out is empty
                continue
            top, left = int(index[-3]), int(index[-2])
            part = np.asarray(data).reshape(*data.shape[-3:])[: height - top, : width - left]
            _add(total, count, part, down[top : top + part.shape[0]], across[left : left + part.shape[1]])
        found = total / np.maximum(count, 1)
        if page.dtype == np.uint16:
            found /= 257
        if int(page.photometric) == 0:  # white is zero
            found = 255 - found
    return np.rint(np.where(count > 0, found, 255)).astype(np.uint8)


def _add(total: np.ndarray, count: np.ndarray, part: np.ndarray, down: np.ndarray, across: np.ndarray) -> None:
    """Add a region's pixels to the reduced ones that they fall into. down, across: where each row and column falls."""
    rows, cols = (np.flatnonzero(np.diff(places, prepend=places[0] - 1)) for places in (down, across))
    sums = np.add.reduceat(part.astype(np.float32), cols, axis=1)
    sums = np.add.reduceat(sums, rows, axis=0)[..., : 3 if part.shape[2] >= 3 else 1]
    tall = np.diff(rows, append=len(down)).astype(np.float32)
    wide = np.diff(cols, append=len(across)).astype(np.float32)
    place = np.ix_(down[rows], across[cols])
    total[place] += sums
    count[place] += (tall[:, None] * wide)[..., None]
