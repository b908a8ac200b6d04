"""A picture resized for a model's grip before any processor sees it: for prompts that others make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from ..allocation.distance import check_scale, choose_distance, scaled_size
from ..allocation.tree import tokens_for
from ..pictures.load import resized
from ..sensing.type_height import letters_of

if TYPE_CHECKING:
    from ..allocation.grip import Grip
    from ..allocation.request import Request
    from ..pictures.load import Picture


def picture_at(picture: Picture, scale: float | str | None, grip: Grip | None, request: Request) -> Image.Image:
    """The picture at a scale; `auto` asks all of its letters, for nobody knows yet what the question needs.

    Args:
        picture: As given.
        scale: As `Eye.ask` takes it.
        grip: The model's, or None.
        request: What may be spent on it.
    """
    full = tokens_for(picture.size)
    found = choose_distance(
        check_scale(scale),
        grip,
        lambda: letters_of(picture.pixels, size=picture.size),
        np.ones((1, 1), np.float32),
        size=picture.size,
        canvas=picture.size,
        full=full,
        tokens=request.tokens(full),
    )
    if found.times == 1:
        return Image.fromarray(picture.pixels)
    return Image.fromarray(resized(picture, scaled_size(picture.size, found.times)).pixels)
