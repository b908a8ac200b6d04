"""Best-first quadtree: split where relevance gains most, until the budget is spent, exactly.

Every criterion here is monotone (a child never gains more than its parent), so "best first" needs no heap: sorting all
nodes by gain, parents before children on ties, gives the very order in which a heap would pop them. That is what makes
the allocator a handful of batched tensor operations instead of a Python loop. `quadtree_numpy` is the same for one
picture without torch, and settles the few pictures of odd sides that sorting leaves a token short; a test holds the two
equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core import arrays
from ..core.errors import InputError
from .gains import Criterion, leaf_names, node_sums, split_gains
from .quadtree_numpy import settle
from .tree import Leaves, Tree, reach_and_order


def quadtree(
    relevance: Tensor, tree: Tree, budget: int | Sequence[int] | Tensor, criterion: Criterion = "mass"
) -> Leaves:
    """(B, rows, cols) relevance of level-0 cells → the leaves of each picture's tree, on its budget."""
    if relevance.ndim != 3 or relevance.shape[1:] != (tree.rows, tree.cols):
        raise InputError(f"relevance must be (batch, {tree.rows}, {tree.cols}), got {tuple(relevance.shape)}")
    sums = node_sums(relevance, tree)
    gains = sums[:, : len(tree.costs)] if criterion == "mass" else split_gains(relevance, tree, criterion)
    return gather_leaves(select_splits(gains, tree, budget), relevance, tree, sums)


def select_splits(gains: Tensor, tree: Tree, budget: int | Sequence[int] | Tensor) -> Tensor:
    """(B, M) gains → (B, M) bool: which nodes are split so that each picture has exactly `tree.reach(budget)` leaves.

    Gains must be monotone: no child above its parent. Ties go to the coarser node, then to the earlier position.
    """
    batch, device = len(gains), gains.device
    budgets = torch.as_tensor(budget).reshape(-1).tolist()
    if len(budgets) not in (1, batch):
        raise InputError(f"got {len(budgets)} budgets for a batch of {batch}; give one, or one for each picture")
    reached = [reach_and_order(tree, int(one)) for one in budgets]
    if len(budgets) == 1 and not tree.has_odd_edge:
        return _largest(gains, (reached[0][0] - tree.floor) // 3)
    spend = torch.tensor([count - tree.floor for count, _ in reached], device=device).expand(batch)
    costs = torch.from_numpy(tree.costs).to(device)
    order = gains.argsort(dim=1, descending=True, stable=True)
    taken = costs[order].cumsum(1) <= spend[:, None]
    selected = torch.zeros_like(taken).scatter(1, order, taken) | (costs == 0)
    if tree.has_odd_edge:
        for row in ((selected * costs).sum(1) < spend).nonzero()[:, 0].tolist():
            canonical = tree.edge_orders[reached[row % len(reached)][1]]
            known = order[row].cpu().numpy(), taken[row].cpu().numpy(), int(spend[row])
            selected[row] = torch.from_numpy(settle(*known, tree, canonical)).to(device)
    return selected


def _largest(gains: Tensor, count: int) -> Tensor:
    """(B, M) → (B, M) bool: the `count` largest of each row, ties by position.

    Where every split costs 3 that is the whole answer, and finding one rank is much cheaper than sorting all of them.
    """
    if count in (0, gains.shape[1]):
        return torch.full_like(gains, bool(count), dtype=torch.bool)
    below = gains.shape[1] - count + 1
    if count < below:
        least = gains.topk(count, dim=1, sorted=False).values.amin(1, keepdim=True)
    else:
        least = gains.topk(below, dim=1, largest=False, sorted=False).values.amax(1, keepdim=True)
    above, level = gains > least, gains == least
    return above | (level & (level.cumsum(1) <= count - above.sum(1, keepdim=True)))


def gather_leaves(selected: Tensor, relevance: Tensor, tree: Tree, sums: Tensor | None = None) -> Leaves:
    """(B, M) bool splits → the leaves. sums: `node_sums(relevance, tree)`, where they are known already."""
    batch, device = len(selected), selected.device
    names = leaf_names(selected, tree).flatten(1)
    begins = names > 0
    lengths = begins.count_nonzero(1)
    longest = int(lengths.max())
    valid = None
    if int(lengths.min()) == longest:
        node = names.masked_select(begins).view(batch, longest).long() - 1
    else:
        first = (~begins).to(torch.int8).argsort(dim=1, stable=True)[:, :longest]
        valid = torch.arange(longest, device=device) < lengths[:, None]
        node = (names.gather(1, first).long() - 1).clamp_min(0)
    cells = arrays.like(tree.nodes_table, node).index_select(0, node.flatten()).view(batch, longest, 3)
    sums = node_sums(relevance, tree) if sums is None else sums
    scores = sums.gather(1, node) / arrays.like(tree.areas, node).index_select(0, node.flatten()).view_as(node)
    if valid is not None:
        cells, scores = cells.masked_fill(~valid[..., None], -1), scores.masked_fill(~valid, 0)
    return Leaves(cells, scores, lengths)
