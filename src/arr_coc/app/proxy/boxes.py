"""Boxes and points in a model's answer, from the pixels of packed pictures to those of the original."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...packing.packed import Packed

ASKED = "When you give a box or a point, write the number of its picture before it, as in: Picture 2: [x0, y0, x1, y1]."
# What a model's coordinates run to; None: pixels of the picture.
UNITS = {"pixels": None, "1000": 1000.0, "100": 100.0, "1": 1.0}
_NUMBER = r"\s*-?\d+(?:\.\d+)?\s*"
_BOX = rf"(?P<box>\[{_NUMBER},{_NUMBER}(?:,{_NUMBER},{_NUMBER})?\])"
_FOUND = re.compile(rf"(?P<word>[Pp]icture\s+)(?P<picture>\d{{1,3}})|{_BOX}")
# How far before a box the number of its picture may stand.
_REACH = 120


def translated(text: str, sent: Sequence[Packed | None], of: float | None) -> tuple[str, int]:
    """An answer with its boxes and points in pixels of the originals.

    Args:
        text: What the model said. A picture that it names by number becomes the one that the client sent.
        sent: The pictures of the request, in their order; None for those that were left as they are.
        of: What the model's coordinates run to; None: pixels of the picture.

    Returns:
        The text, and the number of boxes and points that were translated. Those of pictures that were left as they are
        stay, and so do those of no picture where several were packed.
    """
    # The model numbers all pictures that it sees: the client's picture of each, and where a packed one shows what.
    originals: list[int] = [0]
    views: dict[int, tuple[Packed, int]] = {}
    for place, packed in enumerate(sent, 1):
        for inside in range(1, 2 if packed is None else len(packed.pictures) + 1):
            if packed is not None:
                views[len(originals)] = packed, inside
            originals.append(place)
    alone = sum(one is not None for one in sent) == 1
    current, named_at, count = min(views, default=0) if alone else 0, None, 0

    def new(found: re.Match[str]) -> str:
        nonlocal current, named_at, count
        if found["picture"]:
            current, named_at = int(found["picture"]), found.end()
            return f"{found['word']}{originals[current]}" if 0 < current < len(originals) else found.group()
        if current not in views or (named_at is not None and found.start() - named_at > _REACH):
            return found.group()
        count += 1
        packed, inside = views[current]
        values = [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", found["box"])]
        place = packed.to_original if len(values) == 2 else packed.box_to_original
        return f"[{', '.join(str(round(one)) for one in place(values, inside, of=of)[: len(values)])}]"

    return _FOUND.sub(new, text), count
