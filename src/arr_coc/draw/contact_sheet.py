"""Many pictures on one page, each with a caption."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from ..errors import InputError
from .layout import GAP, MARGIN, fit, page, place, resize
from .lettering import line_height, shorten, write
from .palette import MUTED

CAPTION = 13


def contact_sheet(
    pictures: Sequence[np.ndarray | Image.Image],
    captions: Sequence[str] | None = None,
    *,
    columns: int = 4,
    width: int = 1280,
    shape: float = 0.75,
) -> Image.Image:
    """pictures: (H, W, 3) uint8 arrays or PIL images of any sizes. shape: height of a place over its width."""
    if not pictures:
        raise InputError("a contact sheet needs at least one picture; none was given")
    captions = list(captions) if captions is not None else [""] * len(pictures)
    columns = max(1, min(columns, len(pictures)))
    pane = (width - 2 * MARGIN - (columns - 1) * GAP) // columns
    room = (round(pane * shape), pane)
    row_height = room[0] + 6 + line_height(CAPTION) + GAP
    canvas = page(2 * MARGIN + -(-len(pictures) // columns) * row_height - GAP, width)
    for number, (picture, caption) in enumerate(zip(pictures, captions, strict=True)):
        pixels = np.asarray(picture.convert("RGB") if isinstance(picture, Image.Image) else picture)
        x = MARGIN + (number % columns) * (pane + GAP)
        y = MARGIN + (number // columns) * row_height
        place(canvas, resize(pixels, fit(*pixels.shape[:2], *room)), x, y, room)
        write(canvas, shorten(caption, pane, CAPTION), x, y + room[0] + 6, size=CAPTION, colour=MUTED)
    return Image.fromarray(canvas)
