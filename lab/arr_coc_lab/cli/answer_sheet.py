"""Many questions on one page: each picture with what was asked, said and true of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from arr_coc.core.errors import InputError
from arr_coc.core.values import Answer
from arr_coc.draw.layout import GAP, MARGIN, MUTED, fit, page, place, resize
from arr_coc.draw.panes import overlay
from arr_coc.pictures.lettering import BOLD, Colour, line_height, shorten, wrap, write
from arr_coc.pictures.load import Picture

QUESTION, TEXT = 15, 14
RIGHT: Colour = (24, 118, 72)
WRONG: Colour = (186, 44, 44)
TITLE = 24


@dataclass(frozen=True)
class AnswerPanel:
    """One question about one picture, the answer to it, and the truth."""

    picture: Picture
    query: str
    answer: Answer
    truth: str

    @property
    def right(self) -> bool:
        return self.answer.text == self.truth


def answer_sheet(asked: Sequence[AnswerPanel], title: str, *, columns: int = 4, width: int = 1440) -> Image.Image:
    """One tile for each question: the leaves over the picture, then question, answer, truth and cost in words."""
    if not asked:
        raise InputError("a page of answers needs at least one of them; none was given")
    columns = max(1, min(columns, len(asked)))
    pane = (width - 2 * MARGIN - (columns - 1) * GAP) // columns
    room = (round(0.8 * pane), pane)
    words = 2 * line_height(QUESTION) + 2 * line_height(TEXT) + 14
    step = room[0] + words + GAP
    top = MARGIN + line_height(TITLE) + 14
    canvas = page(top + -(-len(asked) // columns) * step + MARGIN - GAP, width)
    write(canvas, shorten(title, width - 2 * MARGIN, TITLE, BOLD), MARGIN, MARGIN - 6, size=TITLE, weight=BOLD)
    for number, one in enumerate(asked):
        x, y = MARGIN + number % columns * (pane + GAP), top + number // columns * step
        pixels = resize(one.picture.pixels, fit(one.picture.height, one.picture.width, *room))
        place(canvas, overlay(np.ascontiguousarray(pixels), one.answer.allocation), x, y, room)
        _words(canvas, one, x, y + room[0] + 8, pane)
    return Image.fromarray(canvas)


def _words(canvas: np.ndarray, one: AnswerPanel, x: int, y: int, pane: int) -> None:
    for line in wrap(one.query, pane, QUESTION, weight=BOLD, lines=2):
        write(canvas, line, x, y, size=QUESTION, weight=BOLD)
        y += line_height(QUESTION)
    said = one.answer.text or "(nothing)"
    verdict = f"{said}: right" if one.right else f"{said}: wrong, it is {one.truth}"
    write(canvas, shorten(verdict, pane, TEXT), x, y, size=TEXT, colour=RIGHT if one.right else WRONG)
    answer = one.answer
    cost = f"{answer.tokens} of {answer.full} tokens, {sum(answer.seconds.values()):.2f} s"
    cost += f", uncertainty {answer.uncertainty:.2f}"
    write(canvas, shorten(cost, pane, TEXT), x, y + line_height(TEXT), size=TEXT, colour=MUTED)
