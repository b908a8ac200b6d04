"""A story in pictures and files: a strip with a column for each pass, how the uncertainty fell, and what that cost."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from ..core.files import replacing, write_json
from ..draw import foveated, heat, overlay
from ..draw.layout import GAP, MARGIN, covered, fit, page, place, resize
from ..draw.lettering import BOLD, line_height, shorten, wrap, write
from ..draw.palette import FIRST, INK, MUTED, PAPER, RULE, SECOND
from .story import PassNote, Story

TITLE, HEAD, TEXT, CAPTION = 26, 17, 14, 14
LEFT = 132
PLOT_HEIGHT = 210
_LEFT, _RIGHT, _BOTTOM = 56, 64, 30


def strip(story: Story, *, width: int = 1400) -> Image.Image:
    """One page: the question, a column for each pass, and the convergence of the uncertainty beneath."""
    picture, passes = story.picture, story.passes
    columns = max(len(passes), 2)
    inner = width - 2 * MARGIN - LEFT
    pane = (inner - (columns - 1) * GAP) // columns
    shown = fit(picture.height, picture.width, round(0.4 * width), pane)
    rows = ["what the model\nsees by then", "where this\nlook went", "what it\nfollowed"]
    if all(note.uncertainty_map is not None for note in passes):
        rows.append("unsure of\nthis place")
    lines = wrap(story.query, width - 2 * MARGIN, TITLE, weight=BOLD)
    top = MARGIN + len(lines) * line_height(TITLE) + line_height(TEXT) + 16
    head = line_height(HEAD) + 3 * line_height(TEXT) + 10
    plot_top = top + head + len(rows) * (shown[0] + GAP)
    canvas = page(plot_top + PLOT_HEIGHT + MARGIN, width)

    for number, line in enumerate(lines):
        write(canvas, line, MARGIN, MARGIN - 6 + number * line_height(TITLE), size=TITLE, weight=BOLD)
    answer = story.answer
    total = f"{answer.tokens} of {answer.full} visual tokens in {len(passes)} passes, all of them counted"
    write(canvas, total, MARGIN, top - line_height(TEXT) - 12, size=TEXT, colour=MUTED)
    pixels = resize(picture.pixels, shown)
    for row, caption in enumerate(rows):
        for number, line in enumerate(caption.split("\n")):
            y = top + head + row * (shown[0] + GAP) + number * line_height(CAPTION)
            write(canvas, line, MARGIN, y, size=CAPTION, weight=BOLD)
    for number, note in enumerate(passes):
        x = MARGIN + LEFT + number * (pane + GAP)
        _heading(canvas, note, number, x, top, pane)
        panes = [
            foveated(picture, note.step.allocation, shown),
            mark_look(overlay(pixels, note.step.allocation), note, picture.size),
            heat(note.steered / max(float(note.steered.max()), 1e-9), shown, pixels),
        ]
        if len(rows) == 4 and note.uncertainty_map is not None:
            panes.append(heat(note.uncertainty_map, shown, pixels))
        for row, image in enumerate(panes):
            place(canvas, image, x, top + head + row * (shown[0] + GAP), (shown[0], pane))
    draw_convergence(canvas, story, MARGIN, plot_top, width - 2 * MARGIN)
    return Image.fromarray(canvas)


def _heading(canvas: np.ndarray, note: PassNote, number: int, x: int, top: int, pane: int) -> None:
    step = note.step
    write(canvas, f"Pass {number + 1}", x, top, size=HEAD, weight=BOLD)
    y = top + line_height(HEAD)
    said = f"“{step.text}”" if step.text else "(nothing said)"
    write(canvas, shorten(said, pane, TEXT, BOLD), x, y, size=TEXT, weight=BOLD, colour=SECOND)
    details = (
        f"uncertainty {step.uncertainty or 0:.2f}, {note.mood}",
        f"{step.tokens} {'tokens' if number == 0 else 'new tokens'}, {100 * step.exploration:.0f} % exploring",
    )
    for line, words in enumerate(details, start=1):
        write(canvas, shorten(words, pane, TEXT), x, y + line * line_height(TEXT), size=TEXT, colour=MUTED)


def mark_look(pixels: np.ndarray, note: PassNote, size: tuple[int, int]) -> np.ndarray:
    """The leaves that this look added, outlined together, and a ring at the fixation."""
    scale = np.array(pixels.shape[:2]) / np.array(size)
    boxes = note.added.astype(np.float64) * np.tile(scale, 2)
    corners = np.rint(np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)).astype(np.int64)
    result = pixels.copy()
    inside = covered(corners, result.shape[:2]).astype(np.uint8)
    if note.point is not None:
        outlines, _ = cv2.findContours(inside, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(result, outlines, -1, PAPER, 3)
        cv2.drawContours(result, outlines, -1, FIRST, 1)
        y, x = (round(value * factor) for value, factor in zip(note.point, scale, strict=True))
        for colour, thickness in ((PAPER, 5), (INK, 2)):
            cv2.circle(result, (x, y), max(6, result.shape[1] // 40), colour, thickness, cv2.LINE_AA)
    return result


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


def write_story(story: Story, out: Path) -> dict[str, str]:
    """Write strip.png, convergence.png and story.json into a folder; returns their paths by name."""
    paths = {name: out / name for name in ("strip.png", "convergence.png", "story.json")}
    for name, picture in (("strip.png", strip(story)), ("convergence.png", convergence_plot(story))):
        with replacing(paths[name]) as temporary:
            picture.save(temporary)
    write_json(paths["story.json"], story.to_json())
    return {name: str(path) for name, path in paths.items()}
