"""The values that travel: round trips, derived maps, comparisons."""

from __future__ import annotations

import json

import numpy as np
import pytest

from arr_coc.errors import InputError
from arr_coc.values import Allocation, Answer, Pass, Relevance, compare, token_density


def make(cells: list[tuple[int, int, int, int, int]], counts=None, size=(64, 96), **more) -> Allocation:
    """regions as y, x, height, width, level."""
    array = np.array(cells)
    return Allocation(
        boxes=array[:, :4],
        levels=array[:, 4],
        counts=np.ones(len(array)) if counts is None else counts,
        scores=np.linspace(0, 1, len(array)),
        height=size[0],
        width=size[1],
        budget=10,
        full=6,
        strategy="quadtree",
        **more,
    )


MIXED = [(0, 0, 64, 64, 1), (0, 64, 32, 32, 0), (32, 64, 32, 32, 0)]


def test_json_round_trip_through_text():
    allocation = make(MIXED)
    assert Allocation.from_json(json.dumps(allocation.to_json())) == allocation


def test_json_has_exactly_the_documented_keys():
    document = make(MIXED).to_json()
    assert list(document) == ["schema", "strategy", "budget", "full", "image", "regions"]
    assert list(document["regions"][0]) == ["y", "x", "height", "width", "level", "tokens", "score"]
    assert document["schema"] == 1
    assert document["image"] == {"height": 64, "width": 96}


@pytest.mark.parametrize("extra", [{"sparse": True}, {"cell": 28}, {"canvas": (128, 192)}])
def test_what_differs_from_the_default_survives_the_round_trip(extra):
    allocation = make(MIXED, **extra)
    restored = Allocation.from_json(allocation.to_json())
    assert restored == allocation
    for name, value in extra.items():
        assert getattr(restored, name) == value


@pytest.mark.parametrize(
    "document", ["{}", "[]", "not json", '{"schema": 2, "regions": []}', '{"schema": 1, "regions": [{"y": 0}]}']
)
def test_a_document_that_is_no_allocation_is_refused_in_one_line(document):
    with pytest.raises(InputError) as caught:
        Allocation.from_json(document)
    assert "\n" not in str(caught.value)


def test_level_map_and_density_agree_with_the_regions():
    allocation = make(MIXED)
    assert allocation.level_map().tolist() == [[1, 1, 0], [1, 1, 0]]
    assert token_density(allocation).tolist() == [[0.25, 0.25, 1], [0.25, 0.25, 1]]
    assert allocation.tokens == 3
    assert allocation.tokens_by_level() == {0: 2, 1: 1}


def test_density_of_an_edge_leaf_is_spread_over_what_is_visible():
    allocation = make([(0, 0, 32, 96, 2)], size=(32, 96))
    assert token_density(allocation).sum() == pytest.approx(1)


def test_leaf_cells_follow_the_canvas():
    """A picture of 50×75 seen as 64×96: boxes are in the picture's pixels, cells in the canvas'."""
    allocation = make([(0, 0, 50, 50, 1), (0, 50, 25, 25, 0), (25, 50, 25, 25, 0)], size=(50, 75), canvas=(64, 96))
    assert allocation.leaf_cells().tolist() == [[0, 0, 1], [0, 2, 0], [1, 2, 0]]


def test_compare_counts_what_moved():
    first, same = make(MIXED), make(MIXED)
    assert compare(first, same).moved == 0
    assert compare(first, same).overlap == 1
    mirrored = make([(0, 32, 64, 64, 1), (0, 0, 32, 32, 0), (32, 0, 32, 32, 0)])
    result = compare(first, mirrored)
    assert result.moved == pytest.approx(1.5)  # two cells of 1 become ¼ and two of ¼ become 1
    assert 0 < result.overlap < 1
    assert compare(mirrored, first) == result


def test_compare_refuses_different_pictures():
    with pytest.raises(InputError, match="different pictures"):
        compare(make(MIXED), make(MIXED, size=(64, 128)))


def test_wrong_shapes_are_refused():
    with pytest.raises(InputError, match="3 regions"):
        make(MIXED, counts=np.ones(2))


@pytest.mark.parametrize("bad", [np.full((2, 2), np.nan), np.zeros(3), np.zeros((0, 2)), np.array([[np.inf, 0]])])
def test_relevance_refuses_what_is_no_map(bad):
    with pytest.raises(InputError):
        Relevance(bad)


def test_entropy_falls_as_a_map_sharpens():
    flat, sharp = np.ones((4, 4)), np.eye(4) ** 2
    assert Relevance(flat).entropy == pytest.approx(np.log(16))
    assert Relevance(sharp).entropy == pytest.approx(np.log(4))
    assert Relevance(np.zeros((4, 4))).entropy == pytest.approx(np.log(16))


def test_answer_counts_every_pass():
    allocation = make(MIXED)
    answer = Answer("42", 0.1, passes=(Pass(allocation, 3), Pass(allocation, 2, exploration=0.3)))
    assert answer.tokens == 5
    assert answer.to_json()["passes"][1]["exploration"] == 0.3
