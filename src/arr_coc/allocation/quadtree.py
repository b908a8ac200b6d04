"""Best-first quadtree: split where relevance gains most, until the budget is spent, exactly.

Every criterion here is monotone (a child never gains more than its parent), so "best first" needs no heap: sorting all
nodes by gain, parents before children on ties, gives the very order in which a heap would pop them. That is what makes
the allocator a handful of batched tensor operations instead of a Python loop. `quadtree_numpy` is the same for one
picture without torch; a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ..core import arrays
from ..core.errors import InputError
from .gains import Criterion, leaf_names, node_sums, split_gains
from .tree import Leaves, Tree


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
    reached = [tree.reach_and_order(int(one)) for one in budgets]
    if len(budgets) == 1 and not tree.has_odd_edge:
        return _largest(gains, (reached[0][0] - tree.floor) // 3)
    spend = torch.tensor([count - tree.floor for count, _ in reached], device=device).expand(batch)
    costs = torch.from_numpy(tree.costs).to(device)
    order = gains.argsort(dim=1, descending=True, stable=True)
    taken = costs[order].cumsum(1) <= spend[:, None]
    selected = torch.zeros_like(taken).scatter(1, order, taken) | (costs == 0)
    if tree.has_odd_edge:
        short = ((selected * costs).sum(1) < spend).nonzero()[:, 0]
        if len(short):
            choice = torch.tensor([index for _, index in reached]).expand(batch)[short.cpu()]
            selected[short] = _settle(order[short], taken[short], spend[short], costs, tree, choice)
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


def _settle(order: Tensor, taken: Tensor, spend: Tensor, costs: Tensor, tree: Tree, choice: Tensor) -> Tensor:
    """Hit the count exactly where best-first stopped one or two tokens short because only splits of 3 were next.

    The number of edge splits (cost 1) decides which counts are possible. So: keep relevance's order among edge splits,
    take the number of them nearest to what best-first took that lets splits of 3 fill the rest, and fill in order.
    """
    device, (batch, number) = order.device, order.shape
    rank = torch.empty_like(order).scatter_(1, order, torch.arange(number, device=device).expand(batch, -1))
    edge = torch.from_numpy(tree.edge_orders[0]).to(device)
    place = torch.argsort(torch.argsort(rank[:, edge], dim=1), dim=1)
    wanted = (taken & (costs[order] == 1)).sum(1)
    selected, feasible = _fill(place, edge, wanted, order, spend, costs, tree)
    if not bool(feasible.all()):
        # The order of relevance cannot hit this count; a canonical order can (that is how `reach` chose it).
        stuck = (~feasible).nonzero()[:, 0]
        canonical = torch.stack([torch.from_numpy(tree.edge_orders[index].argsort()) for index in choice[stuck.cpu()]])
        place = canonical.to(device)
        selected[stuck], _ = _fill(place, edge, wanted[stuck], order[stuck], spend[stuck], costs, tree)
    return selected


def _fill(
    place: Tensor, edge: Tensor, wanted: Tensor, order: Tensor, spend: Tensor, costs: Tensor, tree: Tree
) -> tuple[Tensor, Tensor]:
    """Edge splits by `place` (B, E), their number nearest to `wanted` (B,), splits of 3 in `order` (B, M) for the rest.

    Returns the selection (B, M) and whether a number of edge splits existed that fits (B,).
    """
    batch, edges = place.shape
    need, seed = _edge_dependencies(place, edge, tree, order.shape[1])
    interior = costs == 3
    steps = torch.arange(edges + 1, device=place.device)

    def histogram(values: Tensor) -> Tensor:
        counts = values.new_zeros(batch, edges + 2)
        return counts.scatter_add_(1, values, interior.long().expand_as(values))

    forced = F.pad(histogram(seed).cumsum(1), (1, 0))[:, : edges + 1]
    allowed = histogram(need).cumsum(1)[:, : edges + 1]
    rest = spend[:, None] - steps
    filling = rest.div(3, rounding_mode="floor")
    fits = (rest % 3 == 0) & (filling >= forced) & (filling <= allowed)
    distance = (steps - wanted[:, None]).abs() * 2 + (steps > wanted[:, None])
    number = distance.masked_fill(~fits, torch.iinfo(torch.int64).max).argmin(1, keepdim=True)
    must = interior & (seed < number)
    may = interior & (need <= number) & ~must
    extra = filling.gather(1, number) - must.sum(1, keepdim=True)
    in_order = may.gather(1, order)
    filled = in_order & (in_order.cumsum(1) <= extra)
    selected = torch.zeros_like(may).scatter(1, order, filled) | must | (costs == 0)
    selected[:, edge] = place < number
    return selected, fits.any(1)


def _edge_dependencies(place: Tensor, edge: Tensor, tree: Tree, number: int) -> tuple[Tensor, Tensor]:
    """`tree.edge_dependencies` for a batch of orders: need and seed, both (B, M)."""
    batch, edges = place.shape
    parents = torch.from_numpy(tree.parents).to(place.device)
    own = place.new_full((batch, number), -1)
    own[:, edge] = place
    need, seed = place.new_zeros(batch, number), place.new_full((batch, number), edges)
    for level in range(tree.levels - 1, 0, -1):
        above = parents[tree.nodes(level)]
        need[:, tree.nodes(level)] = torch.maximum(need[:, above], own[:, above] + 1)
    for level in range(1, tree.levels):
        nodes = tree.nodes(level)
        below = torch.minimum(seed[:, nodes], own[:, nodes].masked_fill(own[:, nodes] < 0, edges))
        seed.scatter_reduce_(1, parents[nodes].expand(batch, -1), below, reduce="amin")
    return need, seed


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
