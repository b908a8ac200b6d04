"""Draw a document on one sheet: all pages small, those with tokens bright, framed, and with their leaves."""

from __future__ import annotations

import math

import cv2
import numpy as np
from PIL import Image

from ..core.errors import InputError
from ..core.values import DocumentAllocation, PageShare
from ..pictures.document import Document, DocumentPage
from ..pictures.lettering import BOLD, INK, REGULAR, line_height, shorten, wrap, write
from .layout import GAP, MARGIN, MUTED, PAPER, RULE, fit, level_colour, page, place, resize
from .panes import overlay

TITLE, TEXT, CAPTION = 24, 15, 13
# Maximum number of pages shown: those with most tokens, in page order.
MOST_SHOWN = 60
# How far pages fade: those with an overview only, and those without tokens.
FADED, GONE = 0.55, 0.82
FRAME, BAR = 5, 6


def document_sheet(
    document: Document, allocation: DocumentAllocation, query: str = "", *, width: int = 1280, shown: int = MOST_SHOWN
) -> Image.Image:
    """Draw a contact sheet of a document on which the pages with tokens stand out.

    Args:
        document: The document; its pages are drawn small.
        allocation: Its allocation.
        query: The question, for the heading.
        width: Width of the sheet, in pixels.
        shown: Maximum number of pages; those with most tokens are kept.

    Returns:
        The sheet.
    """
    pages = {one.number: one for one in document.pages}
    if any(one.number not in pages for one in allocation.pages):
        raise InputError("the allocation belongs to another document (its pages differ); draw it over its own")
    chosen = sorted(allocation.ranked[: max(1, shown)], key=lambda one: one.number)
    most = max(1, max(one.tokens for one in chosen))
    columns = min(len(chosen), 3 if len(chosen) <= 3 else 4 if len(chosen) <= 8 else 6 if len(chosen) <= 24 else 8)
    inner = width - 2 * MARGIN
    pane = (inner - (columns - 1) * GAP) // columns
    shapes = [pages[one.number].size for one in chosen]
    space = (round(pane * float(np.clip(np.median([high / wide for high, wide in shapes]), 0.5, 1.5))), pane)
    lines = wrap(query, inner - 320, TITLE, weight=BOLD, lines=2) if query else []
    top = MARGIN + len(lines) * line_height(TITLE) + line_height(TEXT) + 16
    step = space[0] + BAR + 8 + line_height(CAPTION) + GAP
    rows = math.ceil(len(chosen) / columns)
    canvas = page(top + rows * step + MARGIN - GAP + 8, width)
    _heading(canvas, lines, allocation, len(chosen))
    for number, share in enumerate(chosen):
        x, y = MARGIN + number % columns * (pane + GAP), top + number // columns * step
        _tile(canvas, pages[share.number], share, (x, y), space, most)
    return Image.fromarray(canvas)


def _heading(canvas: np.ndarray, lines: list[str], allocation: DocumentAllocation, shown: int) -> None:
    width, y = canvas.shape[1], MARGIN - 6
    for line in lines:
        write(canvas, line, MARGIN, y, size=TITLE, weight=BOLD)
        y += line_height(TITLE)
    funded = sum(one.tokens > 1 for one in allocation.pages)
    headline = f"{allocation.name}: {allocation.of_pages} pages, {funded} with more than an overview"
    if left_out := len(allocation.pages) - len(allocation.funded):
        headline += f", {left_out} without a token"
    if shown < len(allocation.pages):
        headline += f"; showing the {shown} with most tokens"
    write(canvas, shorten(headline, width - 2 * MARGIN - 320, TEXT), MARGIN, y, size=TEXT, colour=MUTED)
    spent = f"{allocation.tokens} tokens"
    if allocation.full:
        spent = f"{allocation.tokens} of {allocation.full} tokens ({100 * allocation.keep:.1f} %)"
    write(canvas, spent, width - MARGIN, MARGIN - 6, size=TEXT, weight=BOLD, align="right")


def _tile(
    canvas: np.ndarray, one: DocumentPage, share: PageShare, corner: tuple[int, int], space: tuple[int, int], most: int
) -> None:
    x, y = corner
    size = fit(*one.size, space[0] - 2 * FRAME, space[1] - 2 * FRAME)
    try:
        # Twice the size, so that small print stays smooth; leaves are drawn at the size shown.
        pixels = resize(one.draw(2 * max(size)).pixels, size)
    except InputError:
        pixels = np.full((*size, 3), RULE, dtype=np.uint8)
    best = share.tokens > 1
    if best and share.allocation is not None:
        pixels = overlay(pixels, share.allocation)
    strength = share.tokens / most
    fade = FADED * (1 - strength) if best else FADED if share.tokens else GONE
    pixels = np.rint(pixels * (1 - fade) + np.array(PAPER) * fade).astype(np.uint8)
    place(canvas, pixels, x, y, space)
    if best:
        top, left = y + (space[0] - size[0]) // 2, x + (space[1] - size[1]) // 2
        colour = tuple(level_colour(0).tolist())
        cv2.rectangle(canvas, (left - 2, top - 2), (left + size[1] + 1, top + size[0] + 1), colour, FRAME - 2)
    bar = y + space[0] + 2
    canvas[bar : bar + BAR, x : x + space[1]] = RULE
    if best:
        canvas[bar : bar + BAR, x : x + max(2, round(space[1] * share.tokens / most))] = level_colour(0)
    spent = "no token" if not share.tokens else "overview" if share.tokens == 1 else f"{share.tokens} tokens"
    caption = shorten(f"page {share.number}: {spent}", space[1], CAPTION)
    weight, colour = (BOLD, INK) if best else (REGULAR, MUTED)
    write(canvas, caption, x, bar + BAR + 4, size=CAPTION, weight=weight, colour=colour)
