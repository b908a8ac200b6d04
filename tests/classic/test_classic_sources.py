"""The selectors of the first phases by name: they read the question, know red from blue, and were taught."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from arr_coc.balancing.choosing import relevance_for
from arr_coc.knowing.scene import Scene
from arr_coc.looking import examine
from arr_coc_lab.classic.phases import TAUGHT, picture_maps
from arr_coc_lab.classic.selectors import SHIPPED, load_part, load_words
from arr_coc_lab.worlds.needle import render

NAMES = ("edge_lod", "query_aware_lod", "realizer", "patch_trunk", "participatory")
ASKING = NAMES[1:]


@pytest.fixture(scope="module")
def signs():
    """Signs in a street, drawn; the questions and where their answers are."""
    batch = render("signs", 12, (384, 384), 5, "validation", None, "cpu")
    pixels = batch.pictures.permute(0, 2, 3, 1).contiguous().numpy()
    middles = (batch.boxes[:, 0, :2] + batch.boxes[:, 0, 2:]) / 2
    return list(zip(pixels, batch.questions, middles.tolist(), strict=True))


@pytest.mark.parametrize("name", ASKING)
def test_two_questions_give_two_maps_and_most_find_their_sign(name: str, signs):
    ranks = []
    for pixels, question, (x, y) in signs:
        found = relevance_for(name, Scene(pixels), question).map
        rows, cols = found.shape
        there = found[min(int(y * rows), rows - 1), min(int(x * cols), cols - 1)]
        ranks.append(float((found < there).mean()))
    assert np.mean(ranks) > 0.8, "what is asked for is among the most relevant places"
    pixels = signs[0][0]
    maps = [relevance_for(name, Scene(pixels), f"What does the {colour} sign say?").map for colour in ("red", "blue")]
    assert not np.allclose(*maps, atol=1e-3)


def test_edges_alone_do_not_hear_the_question(signs):
    pixels = signs[0][0]
    maps = [relevance_for("edge_lod", Scene(pixels), text).map for text in ("the red sign", "the blue car")]
    assert np.array_equal(*maps)
    blank = np.full((64, 96, 3), 200, np.uint8)
    blank[:, 48::6] = 0
    blank[:, 49::6] = 0
    blank[:, 50::6] = 0
    found = relevance_for("edge_lod", Scene(blank), "?").map
    assert found[:, : found.shape[1] // 2 - 1].max() < found[:, found.shape[1] // 2 + 1 :].min()


@pytest.mark.parametrize("name", NAMES)
def test_look_takes_them_by_name_on_any_shape(name: str):
    picture = np.random.default_rng(0).integers(0, 256, (40, 300, 3), dtype=np.uint8)
    seen = examine(picture, "Where is it?", keep=0.5, relevance=name)
    assert f"relevance {name!r}" in seen.notes[0]
    assert 0 <= seen.relevance.map.min() <= seen.relevance.map.max() <= 1


def test_a_batch_by_torch_sees_what_one_picture_by_opencv_does(signs):
    """`bench classic` on a GPU against `look --relevance NAME`."""
    pictures = torch.from_numpy(np.stack([pixels for pixels, *_ in signs[:2]])).permute(0, 3, 1, 2)
    questions = [question for _, question, _ in signs[:2]]
    for name, found in picture_maps(NAMES, pictures, questions).items():
        for number, (pixels, question, _) in enumerate(signs[:2]):
            np.testing.assert_allclose(found[number], relevance_for(name, Scene(pixels), question).map, atol=1e-2)


def test_what_ships_is_small_and_whole():
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < 600_000
    for part in (load_words(), *(load_part(one.kind, one.part) for one in TAUGHT)):
        assert next(part.parameters()).dtype == torch.float32
