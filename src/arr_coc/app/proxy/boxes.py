"""Boxes and points in a model's answer, from the pixels of packed pictures to those of the original."""

from __future__ import annotations

import re

from ...core.errors import InputError
from ...packing.packed import Packed

ASKED = "When you give a box or a point, write the number of its picture before it, as in: Picture 2: [x0, y0, x1, y1]."
UNITS = {"pixels": None, "1000": 1000.0, "100": 100.0, "1": 1.0}
_NUMBER = r"\s*(-?\d+(?:\.\d+)?)\s*"
_LIST = re.compile(rf"\[{_NUMBER},{_NUMBER}(?:,{_NUMBER},{_NUMBER})?\]")
_PICTURE = re.compile(r"[Pp]icture\s+(\d{1,2})")
# How far before a box the number of its picture may stand.
_REACH = 120


def unit_of(text: str) -> float | None:
    """What coordinates run to; None: pixels."""
    if text.strip().lower() not in UNITS:
        raise InputError(f"x-arr-coc-boxes {text[:40]!r} is unknown; send {', '.join(UNITS)}")
    return UNITS[text.strip().lower()]


def translated(text: str, packed: Packed, first: int, of: float | None) -> tuple[str, int]:
    """An answer with its boxes and points in pixels of the original, and how many there were.

    Args:
        text: What the model said.
        packed: What it saw.
        first: The number of the first packed picture in the request.
        of: What the model's coordinates run to; None: pixels of the picture.

    Returns:
        The text, and the number of boxes and points that were translated.
    """
    count = 0

    def turned(found: re.Match[str]) -> str:
        nonlocal count
        named = _PICTURE.findall(text[max(0, found.start() - _REACH) : found.start()])
        number = int(named[-1]) - first + 1 if named else 1
        if not 1 <= number <= len(packed.pictures):
            return found.group()
        values = [float(one) for one in found.groups() if one is not None]
        if len(values) == 2:
            place = packed.to_original(values, number, of=of)
            new = [place.x, place.y]
        else:
            new = list(packed.box_to_original(values, number, of=of))
        count += 1
        return f"[{', '.join(str(round(value)) for value in new)}]"

    return _LIST.sub(turned, text), count
