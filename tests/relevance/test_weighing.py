"""Which source is believed: one alone on pages, several weighed where it is not clear, and what is missing is told."""

from __future__ import annotations

import numpy as np
import pytest
from plain_pages import cloudy

from arr_coc.balancing.choosing import choose_source, promising, relevance_for
from arr_coc.knowing.scene import Scene


def drawn_page() -> np.ndarray:
    """Dark bars in level rows on white: as much a page as plain statistics can tell."""
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (640, 800), "white")
    draw = ImageDraw.Draw(picture)
    for row in range(24):
        draw.text(
            (40, 30 + 30 * row), f"Line {row}: the total of part {row * 37} is 1{row}.50 EUR", "black", font_size=16
        )
    return np.asarray(picture)


def test_a_page_is_read_by_the_scorer_alone():
    scene, query = Scene(drawn_page()), "What is the total of part 37?"
    source, why = choose_source(scene, query)
    assert (source.name, why.split(", and")[0]) == ("scorer", "the picture is drawn or a page")
    found = relevance_for("auto", scene, query)
    assert np.array_equal(found.map, relevance_for("scorer", scene, query).map)


@pytest.mark.parametrize("grey", [False, True], ids=["colour", "grey"])
def test_a_photograph_is_not_left_to_the_scorer(grey):
    """Three of four grey photographs were taken for pages once."""
    pixels = cloudy(401, 613)
    if grey:
        pixels = pixels.mean(2, keepdims=True).round().astype(np.uint8).repeat(3, 2)
    assert promising(Scene(pixels), "Where is the dog?") != ["scorer"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("relevance", ["detail", "words"])
def test_a_picture_where_nothing_is_has_a_map(relevance: str) -> None:
    """The power to which its map is raised divided nothing by nothing."""
    found = relevance_for(relevance, Scene(np.zeros((256, 256, 3), np.uint8)), "What does the sign say?")
    assert np.isfinite(found.map).all()
