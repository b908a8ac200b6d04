"""The sign of every scorer, and that batches equal single pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from arr_coc.core.errors import InputError
from arr_coc.knowing.language.lexical import coupled_words, lexical
from arr_coc.knowing.look.three_ways import perspectival, propositional
from arr_coc.texture.batch import sense
from arr_coc.texture.texture import Texture
from arr_coc_lab.classic.edge_lod import EdgeLOD, edge_density
from arr_coc_lab.classic.participatory import participatory
from arr_coc_lab.classic.query_aware_lod import CLASSIC_TOKENS


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
    return sense(signs(), "full40")


def with_semantic(texture: Texture, vectors: torch.Tensor) -> Texture:
    """The texture with (16, H, W) semantic channels."""
    return texture.replacing(**{f"semantic_{number}": plane for number, plane in enumerate(vectors)})


def test_propositional_prefers_print_to_plain_surfaces_and_to_faint_noise(texture: Texture):
    score = propositional(texture)
    assert score[PRINT].mean() > 0.5
    assert score[PRINT].mean() > 5 * score[RED].mean()
    assert score[BLANK].mean() < 0.02
    noisy = np.clip(128 + np.random.default_rng(0).normal(0, 2, (240, 320, 3)), 0, 255).astype(np.uint8)
    assert propositional(sense(noisy, "mvp13")).mean() < 0.25 * score[PRINT].mean()


def test_propositional_prefers_many_directions_to_one():
    stripes = np.zeros((128, 128, 3), np.uint8)
    stripes[:, ::8] = stripes[:, 1::8] = 255
    many = np.array(Image.new("RGB", (128, 128)))
    checks = np.random.default_rng(0).integers(0, 2, (32, 32), dtype=np.uint8).repeat(4, 0).repeat(4, 1) * 255
    many[:] = checks[:, :, None]
    assert propositional(sense(many)).mean() > propositional(sense(stripes)).mean()


def test_perspectival_prefers_the_salient_the_near_and_the_moving(texture: Texture):
    score = perspectival(texture)
    salient = texture["saliency"] > 0.6
    assert score[salient].mean() > 3 * score[~salient].mean()
    left, right = perspectival(texture, gaze=(0.3, 0.1)), perspectival(texture, gaze=(0.3, 0.9))
    assert left[RED].mean() > right[RED].mean()
    assert left[BLUE].mean() < right[BLUE].mean()
    expected = texture["saliency"] * (1 - 0.5 * texture["eccentricity"])
    torch.testing.assert_close(score, expected)
    moving = torch.zeros(240, 320)
    moving[BLANK] = 0.9
    moved = perspectival(texture.replacing(motion=moving))
    assert moved[BLANK].mean() > score[BLANK].mean() + 0.5


def test_participatory_prefers_what_the_query_points_at(texture: Texture):
    vectors = torch.zeros(16, 240, 320)
    vectors[0] = 1
    vectors[:, :120, :160] = torch.eye(16)[3][:, None, None]
    scene = with_semantic(texture, vectors)
    score = participatory(scene, torch.eye(16)[3])
    assert score[10:100, 10:150].mean() > 0.7 > 0.4 > score[140:, 180:].mean()
    # The opposite query gives the opposite map.
    opposite = participatory(scene, -torch.eye(16)[3])
    assert opposite[10:100, 10:150].mean() < opposite[140:, 180:].mean()


def test_a_token_that_points_nowhere_does_not_drown_one_that_does(texture: Texture):
    vectors = torch.zeros(16, 240, 320)
    vectors[0] = 1
    vectors[:, :120, :160] = torch.nn.functional.normalize(torch.eye(16)[3] + torch.eye(16)[0], dim=0)[:, None, None]
    scene = with_semantic(texture, vectors)
    pointing, idle = torch.eye(16)[3], torch.eye(16)[9]
    contrast = []
    for sharpness in (0.0, 4.0):
        score = participatory(scene, torch.stack([idle, idle, idle, pointing]), sharpness=sharpness)
        contrast.append(float(score[10:100, 10:150].mean() - score[140:, 180:].mean()))
    assert contrast[1] > 2 * contrast[0] > 0
    masked = participatory(scene, torch.stack([idle, pointing]), mask=torch.tensor([False, True]))
    torch.testing.assert_close(masked, participatory(scene, pointing), atol=1e-5, rtol=0)


def test_participatory_is_zero_without_semantics_and_refuses_wrong_widths(texture: Texture):
    assert participatory(texture, torch.eye(16)[:2]).max() == 0
    with pytest.raises(InputError, match="16"):
        participatory(texture, torch.zeros(3, 7))
    with pytest.raises(InputError, match="mask"):
        participatory(texture, torch.eye(16)[:2], mask=torch.tensor([False, False]))


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
    without = lexical(sense(signs(), "mvp13"), "What is the total?")
    assert without.map.max() == 0
    assert "text_regions" in without.notes[0]


def test_only_whole_words_couple_and_a_question_without_any_gives_zero(texture: Texture):
    assert not coupled_words("Who scored, hundred by hundred, in a greenhouse with a topic and a leftover?")
    assert coupled_words("RED? how much").colours == ("red",)
    assert coupled_words("how  much is it").reading == ("how much",)
    nothing = lexical(texture, "is anybody happy")
    assert nothing.map.max() == 0
    assert "zero" in nothing.notes[0]


def test_edge_density_thresholds_give_the_classic_levels(texture: Texture):
    levels = EdgeLOD().levels(torch.tensor([0.0, 0.14, 0.15, 0.3, 0.5, 0.7, 1.0]))
    assert levels.tolist() == [0, 0, 1, 2, 3, 4, 4]
    tokens = EdgeLOD()(texture, (12, 16))
    assert set(tokens.unique().tolist()) <= set(CLASSIC_TOKENS)
    assert tokens[9:11, 2:7].float().mean() > tokens[7, :].float().mean()
    assert edge_density(texture)[PRINT].mean() > edge_density(texture)[BLANK].mean() + 0.2
    with pytest.raises(InputError, match="rising"):
        EdgeLOD((0.5, 0.3, 0.2, 0.1))


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.sampled_from(["mvp13", "full40"]))
def test_every_map_is_in_range_for_every_size(height: int, width: int, layout: str):
    picture = np.random.default_rng(height * 61 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    sensed = sense(picture, layout)
    for score in (
        propositional(sensed),
        perspectival(sensed),
        lexical(sensed, "red top price").map,
        edge_density(sensed),
    ):
        assert score.shape == (height, width)
        assert torch.isfinite(score).all()
        assert score.min() >= 0
        assert score.max() <= 1


def test_a_batch_is_its_pictures_one_by_one():
    first = torch.from_numpy(signs().copy()).permute(2, 0, 1)
    batch = sense(torch.stack([first, first.flip(2)]), "full40", clusters=None)
    alone = sense(first.flip(2), "full40", backend="torch", clusters=None)
    for together, single in (
        (propositional(batch), propositional(alone)),
        (perspectival(batch, gaze=(0.2, 0.2)), perspectival(alone, gaze=(0.2, 0.2))),
        (lexical(batch, ["red", "blue"]).map, lexical(alone, "blue").map),
        (edge_density(batch), edge_density(alone)),
        (EdgeLOD()(batch, (6, 8)).float(), EdgeLOD()(alone, (6, 8)).float()),
    ):
        torch.testing.assert_close(together[1], single, atol=1e-4, rtol=0)
    with pytest.raises(InputError, match="one query"):
        lexical(batch, ["a", "b", "c"])
