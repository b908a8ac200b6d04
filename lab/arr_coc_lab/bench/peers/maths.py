"""Helpers of several ways: gathering, merging, greedy choices. Everything is batched; sums are float32."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def gather(values: Tensor, index: Tensor) -> Tensor:
    """Gather rows (B, K) of (B, N, F): (B, K, F)."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[2]))


def pool(values: Tensor, slot: Tensor, count: int, weight: Tensor | None = None) -> Tensor:
    """Return the weighted mean of each slot's members, (B, count, F), of (B, N, F) by slot (B, N)."""
    wide = values.float()
    weight = torch.ones_like(wide[..., 0]) if weight is None else weight.float()
    total = torch.zeros(len(values), count, device=values.device).scatter_add(1, slot, weight)
    empty = torch.zeros(len(values), count, values.shape[2], device=values.device)
    summed = empty.scatter_add(1, slot[..., None].expand_as(wide), wide * weight[..., None])
    return (summed / total.clamp_min(1e-9)[..., None]).to(values.dtype)


def best(scores: Tensor, number: int) -> Tensor:
    """Return the places of the highest scores of (B, N), (B, number)."""
    return scores.topk(number, dim=1).indices


def others(index: Tensor, count: int) -> Tensor:
    """Return the places not among (B, K) of `count`, ascending: (B, count − K)."""
    left = torch.ones(len(index), count, device=index.device).scatter(1, index, 0)
    return left.argsort(dim=1, descending=True, stable=True)[:, : count - index.shape[1]]


def cosines(values: Tensor, targets: Tensor | None = None) -> Tensor:
    """Return similarities of (B, N, F) and (B, K, F): (B, N, K) float32; without targets, among the values."""
    unit = F.normalize(values.float(), dim=-1)
    return unit @ (unit if targets is None else F.normalize(targets.float(), dim=-1)).transpose(1, 2)


def stages(full: int, tokens: int, number: int = 3) -> list[int]:
    """Return the numbers left after each of `number` cuts by the same share; the last is exactly `tokens`."""
    return [round(full * (tokens / full) ** ((step + 1) / number)) for step in range(number)]


def bipartite(metric: Tensor, number: int) -> Tensor:
    """Match tokens like ToMe, bipartite and soft. metric (B, N, K) → slot (B, N) of N − number output tokens, in order.

    Every even token has its best odd partner; the `number` best of these pairs become one token.
    """
    batch, count = metric.shape[:2]
    even, odd = (torch.arange(first, count, 2, device=metric.device) for first in (0, 1))
    pairs = cosines(metric[:, even], metric[:, odd]).max(-1)
    chosen = best(pairs.values, number)
    gone = torch.zeros(batch, count, dtype=torch.bool, device=metric.device).scatter(1, even[chosen], True)
    own = torch.arange(count, device=metric.device).expand(batch, -1)
    target = own.scatter(1, even[chosen], odd[pairs.indices.gather(1, chosen)])
    return ((~gone).cumsum(1) - 1).gather(1, target)


def max_min(distance: Tensor, number: int) -> Tensor:
    """Choose (B, number) of (B, N, N) by greedy max–min diversity; first the one whose nearest other is farthest."""
    batch, count = distance.shape[:2]
    row = torch.arange(batch, device=distance.device)
    alone = distance + torch.eye(count, device=distance.device) * 1e9
    chosen = [alone.amin(1).argmax(1)]
    least = distance[row, chosen[0]].clone()
    for _ in range(number - 1):
        least[row, chosen[-1]] = -1e9
        chosen.append(least.argmax(1))
        least = torch.minimum(least, distance[row, chosen[-1]])
    return torch.stack(chosen, 1)


def density_clusters(features: Tensor, count: int) -> Tensor:
    """Cluster (B, M, F) by DPC-kNN: (B, M) in [0, count); centres are dense and far from anything denser."""
    distance = torch.cdist(features.float(), features.float()) / features.shape[-1] ** 0.5
    near = distance.topk(count, dim=-1, largest=False).values
    density = (-near.square().mean(-1)).exp()
    density = density + 1e-6 * torch.linspace(0, 1, density.shape[1], device=density.device)  # no ties
    denser = density[:, None, :] > density[:, :, None]
    apart = torch.where(denser, distance, distance.flatten(1).amax(1)[:, None, None]).amin(-1)
    centre = best(apart * density, count)
    cluster = distance.gather(1, centre[..., None].expand(-1, -1, distance.shape[2])).argmin(1)
    return cluster.scatter(1, centre, torch.arange(count, device=centre.device).expand(len(centre), -1))
