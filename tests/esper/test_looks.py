"""Looks: a tree that only grows, leaves that are never encoded twice, budgets that hold."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.quadtree import quadtree
from arr_coc.attending.tree import build_tree
from arr_coc.errors import InputError
from arr_coc.esper.looks import Looks, first_look, look_again


def maps(seed: int, batch: int, rows: int, cols: int) -> torch.Tensor:
    return torch.rand(batch, rows, cols, generator=torch.Generator().manual_seed(seed)).pow(3)


def leaves_of(block: torch.Tensor) -> list[tuple[int, ...]]:
    return [tuple(leaf) for leaf in block.tolist() if leaf[2] >= 0]


def painted(leaves: list[tuple[int, ...]], rows: int, cols: int) -> torch.Tensor:
    """The level of each cell, and a check that nothing is covered twice."""
    result = torch.full((rows, cols), -1)
    for row, col, level in leaves:
        ground = result[row : row + (1 << level), col : col + (1 << level)]
        assert (ground == -1).all()
        ground[:] = level
    return result


@settings(max_examples=25, deadline=None)
@given(
    st.integers(3, 19), st.integers(3, 19), st.integers(0, 9999), st.lists(st.integers(0, 30), min_size=1, max_size=3)
)
def test_looks_grow_one_tree_and_never_see_a_leaf_twice(rows, cols, seed, budgets):
    tree = build_tree(rows, cols, 3)
    looks = first_look(maps(seed, 2, rows, cols), tree, max(tree.floor, rows * cols // 8))
    for step, budget in enumerate(budgets):
        before = looks.levels()
        looks = look_again(looks, maps(seed + 1 + step, 2, rows, cols), budget)
        assert (looks.levels() <= before).all()
        assert (looks.counts[:, -1] <= budget).all()
        for number in range(2):
            every = [leaf for block in looks.blocks for leaf in leaves_of(block[number])]
            finest = leaves_of(looks.finest()[number])
            assert len(every) == len(set(every))
            assert set(finest) <= set(every)
            assert painted(finest, rows, cols).tolist() == looks.levels()[number].tolist()


def test_a_first_look_is_an_ordinary_tree():
    tree = build_tree(16, 16, 3)
    relevance = maps(1, 3, 16, 16)
    assert torch.equal(first_look(relevance, tree, 40).blocks[0], quadtree(relevance, tree, 40).cells)
    several = first_look(relevance, tree, torch.tensor([40, 13, 64]))
    assert several.counts[:, 0].tolist() == [40, 13, 64]


def test_detail_goes_where_the_second_map_says():
    tree = build_tree(16, 16, 3)
    first, second = torch.zeros(1, 16, 16), torch.zeros(1, 16, 16)
    first[0, 0, 0] = second[0, 15, 15] = 1
    looks = look_again(first_look(first, tree, 13), second, 10)
    assert looks.levels()[0, 0, 0] == looks.levels()[0, 15, 15] == 0
    # Three splits in a row: four leaves, then twice three more.
    assert looks.counts.tolist() == [[13, 10]]
    assert look_again(looks, second, 3).counts[0, -1] == 0  # a seen leaf has four children: three do not pay for it


def test_all_of_the_budget_is_spent_up_to_what_a_split_costs():
    tree = build_tree(16, 16, 3)
    looks: Looks = first_look(maps(3, 20, 16, 16), tree, 31)
    for budget in (12, 16, 25):
        counts = look_again(looks, maps(budget, 20, 16, 16), budget).counts[:, -1]
        assert ((counts <= budget) & (counts > budget - 3)).all()


def test_what_is_left_over_goes_to_a_cheaper_split():
    tree = build_tree(16, 16, 3)
    looks = first_look(torch.ones(1, 16, 16), tree, 4)
    second = torch.full((1, 16, 16), 0.1)
    second[0, :8, :8], second[0, :8, 8:] = 0.5, 0.4
    # The best leaf's four children, then not the next leaf's four, but three more below the first.
    assert look_again(looks, second, 7).counts[0, -1] == 7


def test_a_picture_that_has_stopped_gets_nothing():
    tree = build_tree(8, 8, 2)
    looks = look_again(first_look(maps(0, 2, 8, 8), tree, 10), maps(1, 2, 8, 8), torch.tensor([9, 0]))
    assert 0 < looks.counts[0, -1] <= 9
    assert looks.counts[1, -1] == 0
    with pytest.raises(InputError, match="relevance must be"):
        look_again(looks, torch.zeros(2, 4, 4), 4)
