"""How the uncertainty fell from pass to pass, and what that cost: a small plot drawn on any page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np
from PIL import Image

from ..draw.layout import MARGIN, page
from ..draw.lettering import BOLD, line_height, write
from ..draw.palette import FIRST, INK, MUTED, RULE, SECOND

if TYPE_CHECKING:
    from .story import Story

PLOT_HEIGHT = 210
TEXT = 14
_LEFT, _RIGHT, _BOTTOM = 56, 64, 30


def convergence_plot(story: Story, *, width: int = 720) -> Image.Image:
    """The plot alone, as a picture."""
    canvas = page(PLOT_HEIGHT + 2 * MARGIN, width)
    draw_convergence(canvas, story, MARGIN, MARGIN, width - 2 * MARGIN)
    return Image.fromarray(canvas)


def draw_convergence(canvas: np.ndarray, story: Story, x: int, y: int, width: int) -> None:
    """Uncertainty after each pass as a line (left axis, with the mark to stop at), tokens so far as bars (right)."""
    steps = story.answer.passes
    top, left = y + line_height(TEXT) + 12, x + _LEFT
    right, bottom = x + width - _RIGHT, y + PLOT_HEIGHT - _BOTTOM
    high = bottom - top
    write(canvas, "uncertainty", x, y, size=TEXT, weight=BOLD, colour=SECOND)
    write(canvas, "visual tokens so far, of full", x + width, y, size=TEXT, weight=BOLD, colour=FIRST, align="right")
    for value in (0.0, 0.5, 1.0):
        at = bottom - round(value * high)
        canvas[at, left:right] = RULE
        write(canvas, f"{value:g}", left - 10, at - 10, size=TEXT, colour=MUTED, align="right")
        write(canvas, f"{100 * value:.0f} %", right + 8, at - 10, size=TEXT, colour=MUTED)
    middle = left + ((np.arange(len(steps)) + 0.5) * (right - left) / len(steps)).astype(int)
    spent = np.cumsum([step.tokens for step in steps]) / max(story.answer.full, 1)
    half = max(4, (right - left) // (10 * len(steps)))
    for at, share, step in zip(middle, spent, steps, strict=True):
        canvas[bottom - round(min(share, 1.0) * high) : bottom, at - half : at + half] = FIRST
        write(canvas, f"+{step.tokens} tokens", int(at), bottom + 6, size=TEXT, colour=MUTED, align="center")
    stop = bottom - round(story.stop * high)
    for start in range(left, right, 14):
        canvas[stop : stop + 2, start : min(start + 7, right)] = MUTED
    write(canvas, f"sure enough: {story.stop:g}", left + 6, stop - line_height(TEXT), size=TEXT, colour=MUTED)
    heights = [bottom - round((step.uncertainty or 0.0) * high) for step in steps]
    points = np.stack([middle, np.array(heights)], axis=1).astype(np.int32)
    cv2.polylines(canvas, [points[:, None]], False, SECOND, 2, cv2.LINE_AA)
    for (at, height), step in zip(points.tolist(), steps, strict=True):
        cv2.circle(canvas, (at, height), 5, SECOND, -1, cv2.LINE_AA)
        write(canvas, f"{step.uncertainty or 0.0:.2f}", at + half + 6, height - 26, size=TEXT, colour=INK, weight=BOLD)
