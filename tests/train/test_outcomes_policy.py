"""Sampled allocations: the law of the draws, their exact log-probability, and the budget."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.quadtree import quadtree
from arr_coc.attending.tree import Tree, build_tree
from arr_coc.core.errors import InputError
from arr_coc_lab.train.policy_gradient import (
    draw_noise,
    leaves_of,
    likelihood,
    node_logits,
    number_of_splits,
    sample_allocations,
)


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
def test_the_log_probability_is_that_of_the_enumeration(rows, cols, budget):
    tree = build_tree(rows, cols, 2)
    logits = torch.randn(1, len(tree.costs), generator=torch.Generator().manual_seed(3))
    wanted = enumerate_draws(logits[0].tolist(), tree, number_of_splits(tree, budget))
    assert sum(wanted.values()) == pytest.approx(1)
    found = likelihood(logits, torch.tensor(list(wanted))[None], tree).log_probability.exp()
    assert torch.allclose(found[0], torch.tensor(list(wanted.values())), atol=1e-6)


@pytest.mark.parametrize(("rows", "cols", "budget"), [(4, 4, 10), (4, 8, 11)])
def test_clocks_draw_with_the_enumerated_probabilities(rows, cols, budget):
    """Chi-square of 40 000 samples against the exact law; a wrong law (all nodes at once, keys that remember) fails."""
    tree = build_tree(rows, cols, 2)
    logits = 1.5 * torch.randn(1, len(tree.costs), generator=torch.Generator().manual_seed(4))
    wanted = enumerate_draws(logits[0].tolist(), tree, number_of_splits(tree, budget))
    number = 40_000
    order = sample_allocations(
        logits, tree, budget, draw_noise(1, number, tree, torch.Generator().manual_seed(0))
    ).order
    seen, counts = order[0].unique(dim=0, return_counts=True)
    found = dict(zip(map(tuple, seen.tolist()), counts.tolist(), strict=True))
    assert set(found) <= set(wanted)
    expected = {draws: chance * number for draws, chance in wanted.items() if chance * number >= 5}
    statistic = sum((found.get(draws, 0) - count) ** 2 / count for draws, count in expected.items())
    freedom = len(expected) - 1
    assert statistic < freedom + 4 * math.sqrt(2 * freedom)


def test_the_gradient_reaches_the_cells_and_is_the_score_function():
    """The expected gradient of a log-probability is zero, and each one equals finite differences."""
    tree = build_tree(4, 8, 2)
    cells = torch.randn(1, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).float()
    cells.requires_grad_()
    logits = node_logits(cells, tree)
    draws = enumerate_draws(logits[0].tolist(), tree, 3)
    order = torch.tensor(list(draws))[None]
    chance = torch.tensor(list(draws.values()))
    (likelihood(logits, order, tree).log_probability[0] * chance).sum().backward()
    assert cells.grad is not None
    assert cells.grad.abs().max() < 1e-5
    one = order[:, :1]
    cells.grad = None
    likelihood(node_logits(cells, tree), one, tree).log_probability.sum().backward()
    for row, col in ((0, 0), (3, 5)):
        moved = []
        for sign in (1, -1):
            shifted = cells.detach().clone()
            shifted[0, row, col] += sign * 1e-2
            moved.append(float(likelihood(node_logits(shifted, tree), one, tree).log_probability))
        assert float(cells.grad[0, row, col]) == pytest.approx((moved[0] - moved[1]) / 2e-2, abs=1e-3)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.sampled_from([4, 8, 16]),
    cols=st.sampled_from([4, 8, 16]),
    keep=st.floats(0.0, 1.0),
    seed=st.integers(0, 999),
)
def test_every_sample_tiles_the_picture_on_the_budget(rows, cols, keep, seed):
    tree = build_tree(rows, cols, 2)
    generator = torch.Generator().manual_seed(seed)
    budget = max(tree.floor, round(keep * tree.full))
    logits = node_logits(3 * torch.randn(2, rows, cols, generator=generator), tree)
    sampled = sample_allocations(logits, tree, budget, draw_noise(2, 3, tree, generator))
    assert sampled.leaves.shape == (2, 3, tree.reach(budget), 3)
    assert budget - 2 <= sampled.leaves.shape[2] <= budget
    side = 1 << sampled.leaves[..., 2]
    assert (side * side).sum(-1).eq(rows * cols).all()
    painted = torch.zeros(6, rows, cols)
    for sample, leaves in enumerate(sampled.leaves.flatten(0, 1).tolist()):
        for row, col, level in leaves:
            painted[sample, row : row + (1 << level), col : col + (1 << level)] += 1
    assert (painted == 1).all()


def most_likely_splits(logits: torch.Tensor, tree: Tree, budget: int) -> torch.Tensor:
    """Each draw takes the likeliest open node: one sort, as no child of `node_logits` exceeds its parent."""
    return logits.argsort(dim=1, descending=True, stable=True)[:, : number_of_splits(tree, budget)]


def test_the_likeliest_tree_is_the_one_that_the_allocator_makes():
    """Two routes: the policy's mode, and the quadtree in use on the sigmoid of the same logits."""
    tree = build_tree(16, 16, 3)
    cells = 2 * torch.randn(5, 16, 16, generator=torch.Generator().manual_seed(2))
    splits = most_likely_splits(node_logits(cells, tree), tree, 64)
    assert torch.equal(leaves_of(splits[:, None], tree)[:, 0], quadtree(cells.sigmoid(), tree, 64).cells)


def test_cold_draws_are_the_likeliest_and_hot_draws_are_blind():
    tree = build_tree(8, 8, 2)
    cells = 2 * torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(5))
    noise = draw_noise(1, 200, tree, torch.Generator().manual_seed(0))
    for temperature, low, high in ((0.003, 0, 0.02), (100.0, 0.999, 1.0001)):
        logits = node_logits(cells, tree, temperature)
        order = sample_allocations(logits, tree, 16, noise).order
        entropy = likelihood(logits, order, tree).entropy
        assert entropy.min() >= -1e-5
        assert low - 1e-5 <= float(entropy.mean()) <= high
        if temperature < 1:
            assert torch.isfinite(likelihood(logits, order, tree).log_probability).all()
            assert (order[0] == most_likely_splits(logits, tree, 16)).float().mean() > 0.97


def test_extreme_logits_stay_finite():
    tree = build_tree(8, 8, 3)
    cells = torch.full((1, 8, 8), -200.0)
    cells[0, 5, 2] = 200.0
    cells.requires_grad_()
    logits = node_logits(cells, tree)
    sampled = sample_allocations(logits.detach(), tree, 16, draw_noise(1, 4, tree, torch.Generator().manual_seed(0)))
    found = likelihood(logits, sampled.order, tree)
    (found.log_probability.sum() + found.entropy.sum()).backward()
    assert torch.isfinite(found.log_probability).all()
    assert torch.isfinite(cells.grad).all()  # type: ignore[arg-type]
    levels = {tuple(leaf[:2]): leaf[2] for leaf in sampled.leaves[0, 0].tolist()}
    assert levels[5, 2] == 0


def test_the_seed_decides_and_slices_of_the_noise_fit_together():
    tree = build_tree(8, 8, 2)
    logits = node_logits(torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(0)), tree)
    noise = draw_noise(4, 2, tree, torch.Generator().manual_seed(9))
    whole = sample_allocations(logits, tree, 22, noise).order
    halves = [sample_allocations(logits[part], tree, 22, noise[part]).order for part in (slice(0, 2), slice(2, 4))]
    assert torch.equal(whole, torch.cat(halves))
    assert torch.equal(noise, draw_noise(4, 2, tree, torch.Generator().manual_seed(9)))
    assert not torch.equal(noise, draw_noise(4, 2, tree, torch.Generator().manual_seed(8)))


def test_odd_edges_and_wrong_shapes_are_refused_in_one_line():
    for rows, cols in itertools.product((6, 8), (6, 8)):
        tree = build_tree(rows, cols, 2)
        if (rows, cols) == (8, 8):
            node_logits(torch.zeros(1, rows, cols), tree)
            continue
        with pytest.raises(InputError, match="odd edge"):
            node_logits(torch.zeros(1, rows, cols), tree)
        with pytest.raises(InputError, match="odd edge"):
            sample_allocations(torch.zeros(1, len(tree.costs)), tree, 20, torch.ones(1, 1, len(tree.costs)))
    tree = build_tree(8, 8, 2)
    with pytest.raises(InputError, match=r"\(batch, 8, 8\)"):
        node_logits(torch.zeros(1, 4, 4), tree)
    with pytest.raises(InputError, match="temperature"):
        node_logits(torch.zeros(1, 8, 8), tree, 0.0)
