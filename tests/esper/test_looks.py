"""Looking again lays new cells on top of what was seen, never one twice."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arr_coc import InputError
from arr_coc.answering.passes import Looks, first_look, look_again
from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import build_tree


def maps(seed: int, batch: int, rows: int, cols: int) -> torch.Tensor:
    return torch.rand(batch, rows, cols, generator=torch.Generator().manual_seed(seed)) ** 3


def leaves_of(block: torch.Tensor) -> list[tuple[int, int, int]]:
    return [tuple(leaf) for leaf in block.tolist() if leaf[2] >= 0]


@given(
    rows=st.integers(2, 12),
    cols=st.integers(2, 12),
    first=st.integers(1, 40),
    budgets=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_no_leaf_twice_every_look_on_its_budget(rows, cols, first, budgets, seed):
    tree = build_tree(rows, cols, 3)
    looks = first_look(maps(seed, 2, rows, cols), tree, min(first, rows * cols))
    for step, budget in enumerate(budgets):
        before = looks.levels()
        looks = look_again(looks, maps(seed + 1 + step, 2, rows, cols), budget)
        left = (before > 0).sum((1, 2))
        assert looks.counts[:, -1].tolist() == torch.minimum(left, torch.tensor(budget)).tolist()
        assert (looks.levels() <= before).all()
    for number in range(2):
        every = [leaf for block in looks.blocks for leaf in leaves_of(block[number])]
        assert len(every) == len(set(every))
        assert every
        assert sorted(every) == sorted(leaves_of(looks.leaves()[number]))
        finest = {}
        for row, col, level in every:
            for y in range(row, min(row + (1 << level), rows)):
                for x in range(col, min(col + (1 << level), cols)):
                    finest[y, x] = min(finest.get((y, x), tree.levels), level)
        levels = looks.levels()[number]
        assert all(int(levels[y, x]) == finest.get((y, x), tree.levels) for y in range(rows) for x in range(cols))


def test_a_first_look_is_the_overlay_of_its_budget():
    tree, relevance = build_tree(16, 16, 3), maps(0, 3, 16, 16)
    assert torch.equal(first_look(relevance, tree, 40).blocks[0], overlay(relevance, [40] * 3, levels=3).cells)
    assert first_look(relevance, tree, torch.tensor([40, 13, 64])).counts[:, 0].tolist() == [40, 13, 64]


def test_the_new_cells_are_the_best_that_were_not_seen():
    tree = build_tree(8, 8, 2)
    looks = first_look(torch.eye(8)[None], tree, 10)
    wanted = torch.zeros(1, 8, 8)
    wanted[0, 7, 0], wanted[0, 2, 5], wanted[0, 5, 1] = 3, 2, 1
    again = look_again(looks, wanted, 2)
    assert leaves_of(again.blocks[-1][0]) == [(2, 5, 0), (7, 0, 0)]
    more = look_again(again, wanted, 1)
    assert leaves_of(more.blocks[-1][0]) == [(5, 1, 0)]


def test_each_picture_has_its_own_budget_and_nothing_may_be_left():
    tree = build_tree(8, 8, 2)
    looks = look_again(first_look(maps(0, 2, 8, 8), tree, 10), maps(1, 2, 8, 8), torch.tensor([9, 0]))
    assert looks.counts[:, -1].tolist() == [9, 0]
    done: Looks = first_look(maps(0, 1, 4, 4), build_tree(4, 4, 2), 16)
    assert look_again(done, maps(1, 1, 4, 4), 5).counts[0, -1] == 0
    with pytest.raises(InputError, match="relevance must be"):
        look_again(looks, torch.zeros(2, 4, 4), 4)
