"""The selectors of the first phases: they read the question, and know red from blue."""

from __future__ import annotations

import numpy as np
import pytest

from arr_coc.balancing.choosing import relevance_for
from arr_coc.knowing.scene import Scene
from arr_coc_lab.worlds.needle import render

ASKING = ("query_aware_lod", "realizer", "patch_trunk", "participatory")


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
