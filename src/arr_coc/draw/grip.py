"""The grip of a model as a curve: how well it reads letters of each height."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from PIL import Image

from ..core.values import JsonObject
from ..pictures.lettering import BOLD, write
from .layout import page
from .palette import INK, MUTED, RULE, level_colour

TICKS = (4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 96)
LEFT, TOP, BELOW = 64, 64, 56


def grip_picture(found: JsonObject, width: int = 960, seen: Sequence[float] = ()) -> Image.Image:
    """A grip.json as a picture.

    Args:
        found: What `arr-coc calibrate` wrote.
        width: Of the picture, in pixels.
        seen: Heights of letters to mark on the curve, such as those of a picture.

    Returns:
        The curve, its best range, what was read at each height, and the largest canvas.
    """
    height = round(width * 0.5)
    canvas = page(height, width)
    heights, accuracy = np.array(found["heights"]), np.array(found["accuracy"])
    low, high = found["range"]
    across, down = width - LEFT - 24, height - TOP - BELOW

    def point(tall: float, share: float) -> tuple[int, int]:
        place = np.log(np.clip(tall, 4, 96) / 4) / np.log(96 / 4)
        return round(LEFT + place * across), round(TOP + (1 - share) * down)

    left, right = point(low, 1)[0], point(high, 1)[0]
    canvas[TOP : TOP + down, left:right] = np.array(RULE) * 0.5 + canvas[TOP : TOP + down, left:right] * 0.5
    for share in (0, 0.5, 1):
        cv2.line(canvas, point(4, share), point(96, share), RULE, 1)
        write(
            canvas, f"{share:.0%}".replace("%", " %"), LEFT - 10, point(4, share)[1] - 10, colour=MUTED, align="right"
        )
    for tick in TICKS:
        write(canvas, str(tick), point(tick, 0)[0] - 6, TOP + down + 8, size=13, colour=MUTED)
    write(canvas, "height of a capital as the model sees it, in pixels", LEFT, TOP + down + 28, size=13, colour=MUTED)
    line = np.array([point(tall, share) for tall, share in zip(heights, accuracy, strict=True)], dtype=np.int32)
    cv2.polylines(canvas, [line.reshape(-1, 1, 2)], False, level_colour(0).tolist(), 3, cv2.LINE_AA)
    if "right" in found:
        for tall, right_ones, asked in zip(heights, found["right"], found["asked"], strict=True):
            cv2.circle(canvas, point(tall, right_ones / max(asked, 1)), 4, INK, -1, cv2.LINE_AA)
    for tall in seen:
        cv2.line(canvas, point(tall, 0), point(tall, 1), level_colour(2).tolist(), 2)
    title = f"{found['model']}: reads letters of {low:.0f} to {high:.0f} pixels best ({found['best']:.0f})"
    write(canvas, title, LEFT, 14, size=18, weight=BOLD)
    if found.get("largest"):
        write(canvas, f"canvases up to {found['largest']} pixels are read", LEFT, 38, size=13, colour=MUTED)
    return Image.fromarray(canvas)
