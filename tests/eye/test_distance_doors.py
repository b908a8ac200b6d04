"""From how far a picture is read reaches every door: as many tokens, on the grid of the scale, which is told."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

import arr_coc
from arr_coc.answering.chat import Turn
from arr_coc.answering.esper import Esper
from arr_coc.answering.light import quick_eye
from arr_coc.core.errors import InputError
from arr_coc.draw.layout import spent_words

QUERY, TOKENS = "What is the total amount due?", 24


@pytest.fixture(scope="module")
def eye():
    return arr_coc.Eye.from_pretrained("mini")


@pytest.fixture(scope="module")
def page() -> np.ndarray:
    """Letters of half the height that mini reads best."""
    picture = Image.new("RGB", (384, 256), (250, 250, 246))
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(8)
    for number, line in enumerate(("Invoice 4821 of March", "Total amount due 91.20", "Reference HX 20391") * 4):
        pen.text((20, 16 + number * 18), line, (20, 20, 20), font)
    return np.asarray(picture)


DOORS = {
    "look": lambda eye, page, scale: arr_coc.look(
        page, QUERY, TOKENS, scale=scale, options=arr_coc.Options(grip="mini")
    ),
    "ask": lambda eye, page, scale: arr_coc.ask(page, QUERY, TOKENS, scale=scale).allocation,
    "quick eye": lambda eye, page, scale: (
        quick_eye().set_image(page).ask(QUERY, TOKENS, options=arr_coc.Options(scale=scale)).allocation
    ),
    "eye": lambda eye, page, scale: (
        eye.set_image(page).ask(QUERY, TOKENS, options=arr_coc.Options(scale=scale)).allocation
    ),
    "turns": lambda eye, page, scale: (
        eye.ask([Turn("user", (page, QUERY))], TOKENS, options=arr_coc.Options(scale=scale)).allocation
    ),
    "chat": lambda eye, page, scale: eye.chat(page).ask(QUERY, TOKENS, options=arr_coc.Options(scale=scale)).allocation,
    "passes": lambda eye, page, scale: (
        Esper(eye).set_image(page).ask(QUERY, TOKENS, passes=2, options=arr_coc.Options(scale=scale)).allocation
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("scale", [1, 2, "auto"])
def test_the_scale_reaches_every_door(eye, page, door, scale):
    found = DOORS[door](eye, page, scale)
    times = found.scale
    assert times == scale if scale != "auto" else 1.2 < times < 3
    assert found.tokens <= TOKENS
    assert found.full == 8 * 12
    rows, cols = found.grid
    assert (rows, cols) == pytest.approx((8 * times, 12 * times), abs=1)  # look has cells that reach over the edge
    # The record tells it, and so do drawings.
    assert arr_coc.Allocation.from_json(found.to_json()) == found
    assert found.to_json().get("scale", 1) == found.scale
    assert ("read ×" in spent_words(found)) == (found.scale != 1)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("wrong", [0, float("nan"), 1000])
def test_a_scale_that_cannot_be_is_one_line_at_every_door(eye, page, door, wrong):
    with pytest.raises(InputError, match=r"^[^\n]*scale=.* is not possible; give auto[^\n]*$"):
        DOORS[door](eye, page, wrong)
