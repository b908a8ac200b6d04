"""The sign of every way of knowing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from arr_coc.knowing.language.lexical import coupled_words, lexical
from arr_coc.knowing.ways import perspectival, propositional
from arr_coc.texture.channels import Texture, sense


def signs() -> np.ndarray:
    """A red sign left, a blue one right, a line of print at the bottom, on plain grey."""
    image = Image.new("RGB", (320, 240), (150, 150, 150))
    draw = ImageDraw.Draw(image)
    draw.rectangle((30, 40, 110, 110), fill=(205, 30, 35))
    draw.rectangle((210, 40, 290, 110), fill=(35, 80, 200))
    for line in range(2):
        draw.text((30, 185 + 20 * line), "net price 42.90 total", fill=(10, 10, 10), font=ImageFont.load_default(14))
    return np.asarray(image)


RED, BLUE, PRINT, BLANK = np.s_[50:100, 40:100], np.s_[50:100, 220:280], np.s_[186:218, 34:150], np.s_[130:170, 20:300]


@pytest.fixture(scope="module")
def texture() -> Texture:
    return sense(signs())


def test_propositional_prefers_print_to_plain_surfaces_and_to_faint_noise(texture: Texture):
    score = propositional(texture)
    assert score[PRINT].mean() > 0.5
    assert score[PRINT].mean() > 5 * score[RED].mean()
    assert score[BLANK].mean() < 0.02
    noisy = np.clip(128 + np.random.default_rng(0).normal(0, 2, (240, 320, 3)), 0, 255).astype(np.uint8)
    assert propositional(sense(noisy)).mean() < 0.25 * score[PRINT].mean()


def test_colour_words_couple_to_colours(texture: Texture):
    red, blue = (lexical(texture, f"Where is the {colour} sign?") for colour in ("red", "blue"))
    assert red.map[RED].mean() > 0.8 > 0.2 > red.map[BLUE].mean()
    assert blue.map[BLUE].mean() > 0.8 > 0.2 > blue.map[RED].mean()
    assert red.map[BLANK].mean() < 0.2
    assert "red" in red.notes[0]


@pytest.mark.parametrize(
    ("question", "high", "low"),
    [
        ("what is at the top?", np.s_[:60], np.s_[180:]),
        ("what is at the bottom?", np.s_[180:], np.s_[:60]),
        ("the thing on the left", np.s_[:, :80], np.s_[:, 240:]),
        ("the thing on the right", np.s_[:, 240:], np.s_[:, :80]),
        ("in the centre", np.s_[90:150, 120:200], np.s_[:40, :40]),
        ("in the top left corner", np.s_[:60, :80], np.s_[180:, 240:]),
        ("in a corner", np.s_[:30, :40], np.s_[100:140, 140:180]),
    ],
)
def test_place_words_couple_to_places(texture: Texture, question: str, high: tuple, low: tuple):
    found = lexical(texture, question).map
    assert found[high].mean() > 2 * found[low].mean()


def test_reading_words_couple_to_text_and_combine_with_colour(texture: Texture):
    found = lexical(texture, "What is the total price?").map
    assert found[PRINT].mean() > 0.4
    assert found[BLANK].mean() < 0.05
    both = lexical(texture, "the number on the red sign").map
    assert both[RED].mean() > 5 * both[BLUE].mean() + 0.1


def test_only_whole_words_couple_and_a_question_without_any_gives_zero(texture: Texture):
    assert not coupled_words("Who scored, hundred by hundred, in a greenhouse with a topic and a leftover?")
    assert coupled_words("RED? how much").colours == {"red": "red"}
    assert coupled_words("how  much is it").reading == ("how much",)
    nothing = lexical(texture, "is anybody happy")
    assert nothing.map.max() == 0


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60))
def test_every_map_is_in_range_for_every_size(height: int, width: int):
    picture = np.random.default_rng(height * 61 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    sensed = sense(picture)
    for score in (
        propositional(sensed),
        perspectival(sensed),
        lexical(sensed, "red top price").map,
    ):
        assert score.shape == (height, width)
        assert np.isfinite(score).all()
        assert score.min() >= 0
        assert score.max() <= 1
