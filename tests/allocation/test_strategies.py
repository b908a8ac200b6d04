"""The other strategies and the controls: each does what its one line says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.allocate import allocate
from arr_coc.attending.strategies import strategy_names
from arr_coc.attending.tree import build_tree
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation
from arr_coc.packing.prices.tables import tokens_for
from arr_coc_lab.classic.controls import permute_along_tree
from arr_coc_lab.classic.strategies import cluster_scores, labels_on, mixed_map

SPOT = np.zeros((32, 32), dtype=np.float32)
SPOT[4:7, 20:26] = 1
LABELS = np.arange(64)[:, None] // 8 * 8 + np.arange(64)[None, :] // 8


def extras(strategy: str) -> dict:
    return {
        "oracle": {"boxes": [[0.6, 0.1, 0.8, 0.25]]},
        "clusters": {"labels": LABELS},
    }.get(strategy, {})


BUDGET = 256


@pytest.mark.parametrize("strategy", strategy_names())
@pytest.mark.parametrize("size", [(1024, 1024), (1000, 700)])
def test_every_strategy_keeps_the_contract(strategy, size):
    allocation = allocate(SPOT, BUDGET, image_size=size, strategy=strategy, strategy_options=extras(strategy))
    assert allocation.strategy == strategy
    assert allocation.tokens <= allocation.budget
    assert (allocation.counts >= 1).all()
    boxes = allocation.boxes
    assert (boxes >= 0).all()
    assert (boxes[:, 0] + boxes[:, 2] <= size[0]).all()
    assert (boxes[:, 1] + boxes[:, 3] <= size[1]).all()
    covered = np.zeros(size, dtype=np.int32)
    for y, x, height, width in boxes:
        covered[y : y + height, x : x + width] += 1
    assert allocation.sparse == (covered == 0).any()
    if strategy in ("quadtree", "uniform", "full"):
        assert (covered == 1).all()
    assert Allocation.from_json(allocation.to_json()) == allocation


@pytest.mark.parametrize("strategy", strategy_names())
def test_one_seed_gives_one_allocation(strategy):
    once, again = (allocate(SPOT, BUDGET, strategy=strategy, seed=5, strategy_options=extras(strategy)) for _ in "ab")
    assert once == again


@pytest.mark.parametrize("strategy", strategy_names())
def test_an_option_that_a_strategy_does_not_take_is_refused(strategy):
    with pytest.raises(InputError, match="budegt= is not an option"):
        allocate(SPOT, BUDGET, strategy=strategy, strategy_options={"budegt": 3, **extras(strategy)})


@pytest.mark.parametrize(
    "wrong",
    [
        *({"levels": "a"}, {"levels": -1}, {"levels": 1.5}, {"seed": "a"}, {"seed": None}, {"cell": 0}, {"cell": "x"}),
        *({"canvas": "x"}, {"canvas": (3,)}, {"canvas": (0, 9)}, {"image_size": (768,)}, {"image_size": 5}),
        {"image_size": (768.5, 1024)},
    ],
)
@pytest.mark.parametrize("strategy", ["overlay", "quadtree", "uniform"])
def test_a_wrong_argument_is_one_clear_line(strategy, wrong):
    with pytest.raises(InputError) as caught:
        allocate(SPOT, 100, strategy=strategy, **wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("boxes", [[(1, 2)], [(0, 0, 1)], "box", [["a", "b", "c", "d"]], [[0.5, 0, 0.1, 1]], 3])
def test_boxes_that_are_none_are_one_clear_line(boxes):
    with pytest.raises(InputError, match="boxes"):
        allocate(SPOT, 100, strategy="oracle", strategy_options={"boxes": boxes})


@pytest.mark.parametrize("size", [(768,), (768.5, 1024), "ab", (0, 5), None, 7])
def test_tokens_for_refuses_what_is_no_size(size):
    with pytest.raises(InputError):
        tokens_for(size)
    with pytest.raises(InputError):
        tokens_for((64, 64), cell=0)
    with pytest.raises(InputError):
        tokens_for((64, 64), levels="a")


def test_unknown_strategy_and_missing_extras_say_what_would_do():
    with pytest.raises(InputError, match="quadtree"):
        allocate(SPOT, 256, strategy="wishful")
    with pytest.raises(InputError, match="boxes="):
        allocate(SPOT, 256, strategy="oracle")
    with pytest.raises(InputError, match="labels="):
        allocate(SPOT, 256, strategy="clusters")


def seen_finely(allocation: Allocation) -> float:
    """Share of the spot that is seen at level 0."""
    return float((allocation.level_map()[4:7, 20:26] == 0).mean())


def test_controls_spend_alike_and_look_elsewhere():
    own = allocate(SPOT + 0.01, 256)
    assert seen_finely(own) == 1
    assert (
        seen_finely(
            allocate(SPOT, 256, strategy="oracle", strategy_options={"boxes": [[20 / 32, 4 / 32, 26 / 32, 7 / 32]]})
        )
        == 1
    )
    uniform = allocate(SPOT, 256, strategy="uniform")
    assert set(uniform.levels.tolist()) == {1}
    center = allocate(SPOT, 256, strategy="center").level_map()
    assert center[15:17, 15:17].max() == 0 < center[0, 0]
    assert allocate(SPOT, 256, strategy="full").tokens == 1024
    hits = [seen_finely(allocate(SPOT, 256, strategy="random", seed=seed)) for seed in range(40)]
    assert 0.02 < np.mean(hits) < 0.5
    assert len({tuple(allocate(SPOT, 256, strategy="random", seed=s).levels.tolist()) for s in range(5)}) == 5


def test_shuffled_has_the_same_sizes_in_other_places():
    own = allocate(SPOT + 0.01, 256)
    moved = [allocate(SPOT + 0.01, 256, strategy="shuffled", seed=seed) for seed in range(20)]
    for one in moved:
        assert one.tokens_by_level() == own.tokens_by_level()
    assert np.mean([seen_finely(one) for one in moved]) < 0.3


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 3), st.integers(0, 999))
def test_permuting_along_the_tree_only_moves_cells(rows, cols, levels, seed):
    cells = torch.arange(2 * rows * cols, dtype=torch.float32).view(2, rows, cols)
    moved = permute_along_tree(cells, build_tree(rows, cols, levels), torch.Generator().manual_seed(seed))
    assert torch.equal(moved.flatten(1).sort(1).values, cells.flatten(1))


def test_top_k_takes_the_best_cells_and_breaks_ties_by_position():
    relevance = np.zeros((32, 32), dtype=np.float32)
    relevance[10, 3:6] = (0.5, 0.9, 0.7)
    allocation = allocate(relevance, 200, strategy="top_k")
    cells = {tuple(cell) for cell in allocation.leaf_cells()[:, :2].tolist()}
    assert {(10, 3), (10, 4), (10, 5)} <= cells
    assert (0, 0) in cells  # the other 197 are ties: from the top
    assert (31, 31) not in cells
    coarse = allocate(relevance, 16, strategy="top_k", strategy_options={"level": 2})
    assert set(coarse.levels.tolist()) == {2}


def fine_cells(allocation: Allocation) -> np.ndarray:
    return allocation.level_map() == 0


def test_a_cluster_is_funded_as_a_whole_by_its_mean():
    labels = labels_on(LABELS, (32, 32))
    assert labels.shape == (32, 32)
    assert labels[:4, :4].tolist() == [[0] * 4] * 4
    relevance = np.full((32, 32), 0.01, dtype=np.float32)
    relevance[4:8, 8:12] = 0.5  # all of cluster 10
    relevance[20, 20] = 1.0  # the best place of all, in a poor cluster
    scores = cluster_scores(relevance, labels)
    assert scores.argmax() == 10
    assert scores[10] == pytest.approx(0.8)
    mixed = mixed_map(relevance, labels)
    assert mixed[20, 20] == pytest.approx(0.8 + 0.2 * scores[labels[20, 20]])
    fine = fine_cells(allocate(relevance, 24, strategy="clusters", strategy_options={"labels": LABELS}))
    assert fine[20, 20], "a place counts by itself first"
    poor = np.where(labels == 10, 0.01, relevance)
    poor[5, 9] = 0.5  # as good a place, in a cluster that is poor now
    assert mixed_map(poor, labels)[5, 9] < mixed[5, 9]
    with pytest.raises(InputError, match="must match"):
        mixed_map(relevance[:4], labels)
