"""The values that travel: round trips, derived maps, comparisons."""

from __future__ import annotations

import dataclasses
import json
import random

import numpy as np
import pytest

from arr_coc.core.compare import compare, token_density
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation, Relevance


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
    assert document["schema"] == 2
    assert document["image"] == {"height": 64, "width": 96}


@pytest.mark.parametrize("extra", [{"sparse": True}, {"cell": 28}, {"canvas": (128, 192)}])
def test_what_differs_from_the_default_survives_the_round_trip(extra):
    allocation = make(MIXED, **extra)
    restored = Allocation.from_json(allocation.to_json())
    assert restored == allocation
    for name, value in extra.items():
        assert getattr(restored, name) == value


@pytest.mark.parametrize(
    "document", ["{}", "[]", "not json", '{"schema": 3, "regions": []}', '{"schema": 1, "regions": [{"y": 0}]}']
)
def test_a_document_that_is_no_allocation_is_refused_in_one_line(document):
    with pytest.raises(InputError) as caught:
        Allocation.from_json(document)
    assert "\n" not in str(caught.value)


def mutated(document: dict, chance: random.Random) -> object:
    """A copy with one thing in it replaced by something else, removed, or put somewhere it does not belong."""
    wrong = [None, True, -1, 0, 1.5, float("nan"), float("inf"), 10**30, "", "x", [], {}, [1], {"a": 1}, [[]], -(10**9)]
    copy = json.loads(json.dumps(document))
    places: list[tuple[object, object]] = []

    def collect(item: object) -> None:
        for key, value in list(item.items() if isinstance(item, dict) else enumerate(item)):
            places.append((item, key))
            if isinstance(value, dict | list):
                collect(value)

    collect(copy)
    item, key = chance.choice(places)
    if chance.random() < 0.15:
        del item[key]
    else:
        item[key] = chance.choice(wrong)
    return copy


def test_a_mutated_document_is_an_allocation_or_one_clear_line():
    chance = random.Random(0)
    base = make(MIXED, canvas=(128, 192), cell=28, sparse=True, notes=("hm",)).to_json()
    refused: list[str] = []
    for _ in range(1000):
        document = mutated(base, chance)
        try:
            found = Allocation.from_json(document)
        except InputError as error:
            refused.append(str(error))
        else:
            assert Allocation.from_json(found.to_json()) == found
            assert found.height >= 1
            assert found.full >= 0
            assert (found.boxes[:, :2] + found.boxes[:, 2:] <= (found.height, found.width)).all()
            found.level_map()
    assert len(refused) > 700
    assert not any("\n" in line for line in refused)


@pytest.mark.parametrize("document", [b"\xff\xfe", "[" * 100_000, 5, None, "null", '"x"', {"schema": True}])
def test_what_is_not_even_a_document_is_refused_too(document):
    with pytest.raises(InputError):
        Allocation.from_json(document)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"height": 0}, {"width": -5}, {"full": -1}, {"budget": 1.5}, {"cell": 0}, {"canvas": (0, 3)}, {"canvas": 5}),
        *({"strategy": 5}, {"sparse": "no"}, {"levels": [0, 0, -1]}, {"levels": [0, 0, 0.5]}, {"counts": [1, 1, 0]}),
        *({"scores": [0, 1, np.nan]}, {"scores": ["a", "b", "c"]}, {"boxes": np.zeros((3, 3))}, {"height": 63}),
    ],
)
def test_nonsense_is_no_allocation(wrong):
    fields = {name: getattr(make(MIXED), name) for name in Allocation.__dataclass_fields__}
    with pytest.raises(InputError):
        Allocation(**(fields | wrong))


def test_values_are_frozen_to_the_last_number_and_the_callers_arrays_are_not():
    levels, plane = np.array([1, 0, 0], dtype=np.int32), np.ones((2, 2), dtype=np.float32)
    allocation = dataclasses.replace(make(MIXED), levels=levels)
    relevance = Relevance(plane, propositional=plane)
    for array in (allocation.boxes, allocation.levels, allocation.counts, allocation.scores, relevance.map):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert not relevance.propositional.flags.writeable
    levels[0], plane[0, 0] = 3, 0
    assert allocation.levels[0] == 1
    assert relevance.map.min() == 1
    assert dataclasses.replace(allocation, budget=11).levels is allocation.levels, "what is frozen is not copied again"


def test_values_show_themselves_in_one_line():
    allocation, relevance = make(MIXED), Relevance(np.eye(4), query="where?")
    assert repr(allocation) == "Allocation(quadtree: 3 of 6 tokens for 64×96 pixels, 3 regions, levels 0–1)"
    assert repr(relevance) == "Relevance(4×4 of 'where?', 0.00 to 1.00)"


def test_overlapping_regions_are_seen_by_the_finest_and_spent_where_they_lie():
    allocation = make([(0, 0, 64, 64, 1), (32, 32, 32, 32, 0)], sparse=True)
    assert allocation.level_map().tolist() == [[1, 1, -1], [1, 0, -1]]
    assert allocation.leaf_map().tolist() == [[0, 0, -1], [0, 1, -1]]
    assert token_density(allocation).tolist() == [[0.25, 0.25, 0], [0.25, 1.25, 0]]
    assert Allocation.from_json(json.dumps(allocation.to_json())) == allocation


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


@pytest.mark.parametrize("bad", [np.full((2, 2), np.nan), np.zeros(3), np.zeros((0, 2)), np.array([[np.inf, 0]])])
def test_relevance_refuses_what_is_no_map(bad):
    with pytest.raises(InputError):
        Relevance(bad)
