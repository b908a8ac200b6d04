"""Boxes and points in a model's answer, from the pixels of packed pictures to those of the original."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ...core.errors import InputError
from ...packing.packed import Packed

ASKED = "When you give a box or a point, write the number of its picture before it, as in: Picture 2: [x0, y0, x1, y1]."
UNITS = {"pixels": None, "1000": 1000.0, "100": 100.0, "1": 1.0}
_NUMBER = r"\s*-?\d+(?:\.\d+)?\s*"
_BOX = rf"(?P<box>\[{_NUMBER},{_NUMBER}(?:,{_NUMBER},{_NUMBER})?\])"
_FOUND = re.compile(rf"(?P<word>[Pp]icture\s+)(?P<picture>\d{{1,3}})|{_BOX}")
# How far before a box the number of its picture may stand.
_REACH = 120


def unit_of(text: str) -> float | None:
    """What coordinates run to; None: pixels."""
    if text.strip().lower() not in UNITS:
        raise InputError(f"x-arr-coc-boxes {text[:40]!r} is unknown; send {', '.join(UNITS)}")
    return UNITS[text.strip().lower()]


class SeenPicture(NamedTuple):
    """A picture of a request as the model saw it. first: the number of the first picture in its place, from 1. count:
    how many stand there. packed: None where it was left as it is."""

    first: int
    count: int
    packed: Packed | None


def translated(text: str, seen: Sequence[SeenPicture], of: float | None) -> tuple[str, int]:
    """An answer with its boxes and points in pixels of the originals, and how many there were.

    Args:
        text: What the model said. A picture that it names by number becomes the one that the client sent.
        seen: The pictures of the request, in their order.
        of: What the model's coordinates run to; None: pixels of the picture.

    Returns:
        The text, and the number of boxes and points that were translated. Those of pictures that were left as they are
        stay, and so do those of no picture where several were packed.
    """
    alone = [one for one in seen if one.packed is not None]
    count, made, done, told = 0, [], 0, (alone[0].first, 0) if len(alone) == 1 else (0, 0)
    for found in _FOUND.finditer(text):
        made.append(text[done : found.start()])
        done, new = found.end(), found.group()
        if found["picture"]:
            told = int(found["picture"]), found.end()
            own = [number for number, one in enumerate(seen, 1) if 0 <= told[0] - one.first < one.count]
            new = f"{found['word']}{own[0]}" if own else new
        elif not told[1] or found.start() - told[1] <= _REACH:
            place = next((one for one in alone if 0 <= told[0] - one.first < one.count), None)
            if place is not None and place.packed is not None:
                values = [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", found["box"])]
                new = f"[{', '.join(str(round(value)) for value in in_original(place, told[0], values, of))}]"
                count += 1
        made.append(new)
    return "".join([*made, text[done:]]), count


def in_original(place: SeenPicture, number: int, values: Sequence[float], of: float | None) -> Sequence[float]:
    """A point or a box of picture `number`."""
    assert place.packed is not None
    if len(values) == 2:
        return place.packed.to_original(values, number - place.first + 1, of=of)[:2]
    return place.packed.box_to_original(values, number - place.first + 1, of=of)
