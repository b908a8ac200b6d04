"""Pictures with more pixels than are ever held: read by regions and reduced on the way, by pyvips where installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..core.errors import InputError

REMEDY = "pip install 'pyvips[binary]' reads it by regions"
Read = TypeVar("Read")


def can_read_regions(file: object) -> bool:
    """Check whether a file can be read by regions on this machine."""
    return isinstance(file, Path) and find_spec("pyvips") is not None


def region_size(file: Path) -> tuple[int, int]:
    """(height, width) by the header alone. Raises `InputError`."""
    return _checked(file, lambda: _vips_size(file))


def reduced_by_regions(file: Path, longest_side: int) -> np.ndarray:
    """(h, w, 3) uint8, its longer side `longest_side` or the picture's own, by area mean. Raises `InputError`."""
    return _checked(file, lambda: _vips_reduced(file, longest_side))


def _checked(file: Path, work: Callable[[], Read]) -> Read:
    try:
        return work()
    except InputError:
        raise
    except Exception as error:  # decoders meet hostile bytes and raise struct.error, ValueError, zlib.error and more
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(f"{file.name} cannot be read by regions ({reason}); save it as a JPEG") from error


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
