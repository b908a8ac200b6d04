"""Draw the pictures of docs/concepts with the library's own pens: budgets, overlays, the grip of `mini`.

    python scripts/draw_concepts.py

Writes docs/images/concept-*.png.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from arr_coc.core.folders import EXAMPLES, WEIGHTS
from arr_coc.draw.grip import grip_picture
from arr_coc.draw.layout import page, resize
from arr_coc.draw.lettering import BOLD, write
from arr_coc.draw.panes import foveated, overlay
from arr_coc.looking import prepare

OUT = Path(__file__).parents[1] / "docs" / "images"
QUESTION = "What does the pink sign say?"
BUDGETS = (16, 64, 192)
WIDTH, GAP, TITLE = 420, 12, 34


def beside_each_other(panes: list[tuple[str, np.ndarray]]) -> Image.Image:
    """Panes in a row, each under its title."""
    height = round(WIDTH * panes[0][1].shape[0] / panes[0][1].shape[1])
    canvas = page(height + TITLE + GAP, len(panes) * (WIDTH + GAP) + GAP)
    for number, (title, pixels) in enumerate(panes):
        left = GAP + number * (WIDTH + GAP)
        write(canvas, title, left, 8, size=16, weight=BOLD)
        canvas[TITLE : TITLE + height, left : left + WIDTH] = resize(pixels, (height, WIDTH))
    return Image.fromarray(canvas)


def main() -> None:
    street = prepare(EXAMPLES / "street.png")
    looks = {budget: street.look(QUESTION, budget) for budget in BUDGETS}
    pens: dict[str, Callable[..., np.ndarray]] = {
        "concept-budget": lambda look: foveated(look.picture, look.allocation, look.picture.pixels.shape[:2]),
        "concept-overlay": lambda look: overlay(look.picture.pixels, look.allocation),
    }
    for name, pen in pens.items():
        panes = [(f"{budget} of {look.allocation.full} tokens", pen(look)) for budget, look in looks.items()]
        beside_each_other(panes).save(OUT / f"{name}.png", optimize=True)
    grip = json.loads((WEIGHTS / "mini" / "grip.json").read_text(encoding="utf-8"))
    grip_picture(grip).save(OUT / "concept-grip.png", optimize=True)


if __name__ == "__main__":
    main()
