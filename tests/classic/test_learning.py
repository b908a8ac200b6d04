"""The policy of the source: its exact law, its budget, and the sign of its gradient."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.tree import Tree, build_tree
from arr_coc_lab.classic.learning import leaves_of, log_chances, node_logits, policy_loss, sample_splits


def enumerate_draws(logits: list[float], tree: Tree, count: int) -> dict[tuple[int, ...], float]:
    """Every ordered sequence of draws with its probability, by the definition: choose among the open, one by one."""
    parents = tree.parents.tolist()
    result: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(count):
        longer = {}
        for before, chance in result.items():
            is_open = [
                node
                for node in range(len(parents))
                if node not in before and (parents[node] < 0 or parents[node] in before)
            ]
            total = sum(math.exp(logits[node]) for node in is_open)
            for node in is_open:
                longer[(*before, node)] = chance * math.exp(logits[node]) / total
        result = longer
    return result


@pytest.mark.parametrize(("rows", "cols", "budget"), [(4, 4, 10), (4, 8, 11)])
def test_draws_follow_the_enumerated_law(rows, cols, budget):
    """Exact log-probabilities, and a chi-square of 40 000 samples against the law."""
    tree = build_tree(rows, cols, 2)
    logits = 1.5 * torch.randn(1, len(tree.costs), generator=torch.Generator().manual_seed(4))
    wanted = enumerate_draws(logits[0].tolist(), tree, (budget - tree.floor) // 3)
    found = log_chances(logits, torch.tensor(list(wanted))[None], tree).sum(-1).exp()
    assert torch.allclose(found[0], torch.tensor(list(wanted.values())), atol=1e-6)
    number = 40_000
    order = sample_splits(logits, tree, budget, number, torch.Generator().manual_seed(0))
    seen, counts = order[0].unique(dim=0, return_counts=True)
    drawn = dict(zip(map(tuple, seen.tolist()), counts.tolist(), strict=True))
    assert set(drawn) <= set(wanted)
    expected = {draws: chance * number for draws, chance in wanted.items() if chance * number >= 5}
    statistic = sum((drawn.get(draws, 0) - count) ** 2 / count for draws, count in expected.items())
    assert statistic < len(expected) - 1 + 4 * math.sqrt(2 * len(expected))


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([4, 8]), st.sampled_from([4, 8, 16]), st.floats(0, 1), st.integers(0, 999))
def test_every_sample_tiles_the_picture_on_the_budget(rows, cols, keep, seed):
    tree, generator = build_tree(rows, cols, 2), torch.Generator().manual_seed(seed)
    budget = max(tree.floor, round(keep * tree.full))
    logits = node_logits(3 * torch.randn(2, rows, cols, generator=generator), tree)
    leaves = leaves_of(sample_splits(logits, tree, budget, 3, generator), tree)
    assert leaves.shape == (2, 3, tree.reach(budget), 3)
    side = 1 << leaves[..., 2]
    assert (side * side).sum(-1).eq(rows * cols).all()


def test_the_policy_gradient_raises_what_paid():
    tree, cells = build_tree(8, 8, 2), torch.zeros(1, 8, 8, requires_grad=True)
    order = sample_splits(node_logits(cells.detach(), tree), tree, 22, 64, torch.Generator().manual_seed(0))
    leaves = leaves_of(order, tree)
    policy_loss(cells, tree, order, ((leaves[..., 2] == 0) & (leaves[..., 0] < 4)).float().mean(-1)).backward()
    assert cells.grad[0, :4].mean() < 0 < cells.grad[0, 4:].mean()
