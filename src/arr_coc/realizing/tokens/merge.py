"""Merging visual tokens after the encoder: one file of maths, no model in it.

    regions of an Allocation ─→ Members         which encoder tokens each output token is made of
    Members                  ─→ MergePlan       by average, by pick, or a plain selection
    MergePlan                ─→ plan.apply(x)   tokens, DeepStack planes and positions, all by the same plan

Everything is flat: the tokens of all pictures and tiles of a batch stand behind one another, and one call serves them
all. Regions may lie on one another: a coarse leaf is made of all of its ground, whether finer leaves cover it or not,
as it would be seen by an encoder that read it at its own resolution. Output tokens stand in the order of their mean
input index, so a sequence stays sorted by position, and keeping every token changes nothing, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ...attending.frame import token_grids
from ...core.errors import InputError
from ...core.plugins import LAB, load_plugin, plugins
from ...core.values import Allocation
from ..base import MERGING, METHODS


class Members(NamedTuple):
    """Which tokens go where. tokens: (M,) int64 indices of input tokens, slots: (M,) int64 the output token of each.

    A token may go to several slots, where regions overlap, the coarse ones first, or to none. Slot numbers may be
    skipped. length: N, all input tokens.
    """

    tokens: Tensor
    slots: Tensor
    length: int

    def seen(self) -> Tensor:
        """(N,) int64: the slot of the finest region over every token, -1 where there is none."""
        slots = np.full(self.length, -1, dtype=np.int64)
        slots[self.tokens.numpy()] = self.slots.numpy()  # with repeated indices numpy keeps the last, finest value
        return torch.from_numpy(slots)

    def placed(self, cells: Tensor) -> Members:
        """Members that are cells, for tokens that stand elsewhere: cells (T,) is the cell of each token, -1 for none.

        A token without a cell gets a slot of its own.
        """
        outside = torch.nonzero(cells < 0).flatten()
        token = torch.full((self.length,), -1, dtype=torch.int64)
        token[cells[cells >= 0]] = torch.nonzero(cells >= 0).flatten()
        there = token[self.tokens] >= 0
        tokens, slots = token[self.tokens[there]], self.slots[there]
        own = torch.arange(len(outside)) + (int(slots.max()) + 1 if len(slots) else 0)
        return Members(torch.cat([tokens, outside]), torch.cat([slots, own]), len(cells))


@dataclass(frozen=True)
class MergePlan:
    """How N tokens become `count` tokens.

    members: (M,) int64: the input tokens that are seen, ascending inside each output token.
    slots: (M,) int64: the output token each of them goes to; every slot has at least one member.
    weights: (M,) float64: the share of each member; they sum to 1 in every slot.
    length: N. count: number of output tokens.
    """

    members: Tensor
    slots: Tensor
    weights: Tensor
    length: int
    count: int

    @property
    def selects(self) -> bool:
        """True where every output token is one input token: applying the plan is a gather, exact in every dtype."""
        return len(self.members) == self.count

    def apply(self, values: Tensor) -> Tensor:
        """(N, ...) -> (count, ...) in the dtype of `values` (averages are summed in float32 at least)."""
        if len(values) != self.length:
            raise InputError(f"this merge plan is for {self.length} tokens, got {len(values)}")
        members, slots = self.members.to(values.device), self.slots.to(values.device)
        if self.selects:
            return values.index_select(0, members)
        wide = torch.promote_types(values.dtype, torch.float32)
        weights = self.weights.to(values.device, wide).reshape(-1, *[1] * (values.ndim - 1))
        merged = torch.zeros((self.count, *values.shape[1:]), dtype=wide, device=values.device)
        merged = merged.index_add(0, slots, values.index_select(0, members).to(wide) * weights)
        return merged.to(values.dtype) if values.is_floating_point() else merged

    def positions(self, positions: Tensor) -> Tensor:
        """(..., N) positions -> (..., count): integers stay integers where every one is, else float32."""
        if self.selects:
            return positions.index_select(-1, self.members.to(positions.device))
        merged = self.apply(positions.movedim(-1, 0).double()).movedim(0, -1)
        whole = merged.round()
        if not positions.is_floating_point() and bool(((merged - whole).abs() < 1e-6).all()):
            return whole.to(positions.dtype)
        return merged.float()


class RegionSlots(NamedTuple):
    """Every region of every picture, in order. start: (R,) the first cell of its picture, counted through all of them.
    across: (R,) columns of that picture. corner, extent: (R, 2) cells. blocks: (R, 2) rows and columns of its tokens.
    first: (R,) its first slot. level, tokens: (R,) as allocated. inside: (R,) whether it begins on the grid."""

    start: np.ndarray
    across: np.ndarray
    corner: np.ndarray
    extent: np.ndarray
    blocks: np.ndarray
    first: np.ndarray
    level: np.ndarray
    tokens: np.ndarray
    inside: np.ndarray


def region_slots(allocations: Sequence[Allocation]) -> RegionSlots:
    """A region of t tokens becomes at most t slots: one for a leaf, a grid of blocks otherwise. Slots are numbered
    region by region."""
    grids = np.array([allocation.grid for allocation in allocations], dtype=np.int64).reshape(-1, 2)
    starts = np.concatenate([[0], np.cumsum(grids.prod(1))])
    picture = np.repeat(np.arange(len(allocations)), [len(allocation) for allocation in allocations])
    leaves = np.concatenate([allocation.leaf_cells() for allocation in allocations] or [np.zeros((0, 3), np.int64)])
    counts = np.concatenate([allocation.counts for allocation in allocations] or [np.zeros(0)]).astype(np.int64)
    corner, level = leaves[:, :2], leaves[:, 2]
    reach = np.concatenate([allocation.extents() for allocation in allocations] or [np.zeros((0, 2), np.int64)])
    # A leaf at the edge may reach beyond the grid: what lies outside holds no token.
    extent = np.clip(np.minimum(reach, grids[picture] - corner), 1, None)
    # A region of several tokens is cut into its grid of tokens where it has as many cells each way, else into blocks of
    # about its own shape, never more blocks than tokens.
    height, width = extent.T
    rows = np.clip(np.rint(np.sqrt(counts * height / width)), 1, np.minimum(height, counts)).astype(np.int64)
    blocks = np.stack([rows, np.clip(counts // np.maximum(rows, 1), 1, width)], axis=1)
    exact = token_grids(counts, extent)
    blocks = np.where((exact <= extent).all(axis=1, keepdims=True), exact, blocks)
    number = blocks.prod(1)
    inside = np.asarray(((corner >= 0) & (corner < grids[picture])).all(axis=1))
    first = np.cumsum(number) - number
    return RegionSlots(starts[picture], grids[picture, 1], corner, extent, blocks, first, level, counts, inside)


def members_of_allocations(allocations: Sequence[Allocation]) -> Members:
    """The level-0 cells of every picture, flat, as members of the allocations' tokens: the slots of `region_slots`, of
    which some may have no cell. A cell belongs to every region over it."""
    one = region_slots(allocations)
    (height, width), (block_rows, block_cols) = one.extent.T, one.blocks.T
    order = np.argsort(-one.level, kind="stable")
    area = np.where(one.inside, height * width, 0)[order]
    owner = np.repeat(order, area)
    local = np.arange(area.sum()) - np.repeat(np.cumsum(area) - area, area)
    row, col = local // width[owner], local % width[owner]
    cell = (one.corner[owner, 0] + row) * one.across[owner] + one.corner[owner, 1] + col
    block = (row * block_rows[owner] // height[owner]) * block_cols[owner] + col * block_cols[owner] // width[owner]
    length = sum(rows * cols for rows, cols in (allocation.grid for allocation in allocations))
    return Members(torch.from_numpy(one.start[owner] + cell), torch.from_numpy(one.first[owner] + block), length)


def plan_average(members: Members) -> MergePlan:
    """Every output token is the mean of its members."""
    tokens, slots, count = _renumber(members)
    share = 1 / torch.bincount(slots, minlength=count).double()
    return MergePlan(tokens, slots, share[slots], members.length, count)


def plan_pick(slots: Tensor, scores: Tensor) -> MergePlan:
    """slots (N,), scores (N,) -> every output token is its slot's best-scored member; ties go to the first."""
    slots, scores = slots.detach().cpu(), scores.detach().cpu().double()
    _check(slots, scores)
    members = torch.nonzero(slots >= 0).flatten()
    # Two stable sorts make one lexicographic order (slot, best score, position); the first of each slot is picked.
    members = members[torch.argsort(-scores[members], stable=True)]
    members = members[torch.argsort(slots[members], stable=True)]
    grouped = slots[members]
    first = torch.ones_like(grouped, dtype=torch.bool)
    first[1:] = grouped[1:] != grouped[:-1]
    return plan_selection(members[first].sort().values, len(slots))


def plan_selection(members: Tensor, length: int) -> MergePlan:
    """members (K,): indices of the tokens to keep, in the order in which they will stand."""
    count = len(members)
    return MergePlan(members, torch.arange(count), torch.ones(count), length, count)


def plan_members(
    members: Members, method: str, *, scores: Tensor | None = None, places: Tensor | None = None
) -> MergePlan:
    """The plan of one method.

    average: plain mean of each slot's members; what finer regions cover counts for the coarser one as well.
    pick: the member with the highest score (N,); without scores the one nearest its slot's middle, by places (N, 2).
    Only what is seen of a region is picked from: a token that a finer region has is not given twice.
    """
    if method == "average":
        return plan_average(members)
    if method != "pick":
        raise InputError(f"merge method {method!r} is not known; use one of {', '.join(METHODS)}")
    slots = members.seen()
    if scores is None:
        if places is None:
            raise InputError("merging by pick needs a score or a place for every token")
        scores = centrality(slots, places)
    return plan_pick(slots, scores)


def centrality(slots: Tensor, places: Tensor) -> Tensor:
    """slots (N,), places (N, P) -> (N,) float64: minus the squared distance to the middle of the token's slot."""
    slots, places = slots.detach().cpu(), places.detach().cpu().double()
    seen = torch.nonzero(slots >= 0).flatten()
    groups, inverse = torch.unique(slots[seen], return_inverse=True)
    middle = torch.zeros(len(groups), places.shape[1], dtype=torch.float64).index_add(0, inverse, places[seen])
    middle = middle / torch.bincount(inverse, minlength=len(groups))[:, None]
    result = torch.full((len(slots),), -torch.inf, dtype=torch.float64)
    result[seen] = -(places[seen] - middle[inverse]).square().sum(1)
    return result


def _renumber(members: Members) -> tuple[Tensor, Tensor, int]:
    """Tokens, their new slots and the number of slots: unused numbers vanish, order = mean index of the members.

    Of regions with one middle the earlier in the list comes first, and there coarse regions stand before fine ones.
    """
    groups, inverse = torch.unique(members.slots, return_inverse=True)
    rank = _ranks(members, inverse, len(groups))
    numbered = rank[inverse]
    order = torch.argsort(numbered, stable=True)
    return members.tokens[order], numbered[order], len(groups)


def new_numbers(members: Members) -> Tensor:
    """(largest slot + 1,) int64: where `plan_average` puts each slot; -1 for a number that has no member."""
    groups, inverse = torch.unique(members.slots, return_inverse=True)
    numbers = torch.full((int(groups.max()) + 1 if len(groups) else 0,), -1)
    numbers[groups] = _ranks(members, inverse, len(groups))
    return numbers


def _ranks(members: Members, inverse: Tensor, count: int) -> Tensor:
    """(count,) the place of each group in the order of its members' mean index."""
    middle = torch.zeros(count, dtype=torch.float64).index_add(0, inverse, members.tokens.double())
    middle = middle / torch.bincount(inverse, minlength=count)
    rank = torch.empty(count, dtype=torch.int64)
    rank[torch.argsort(middle, stable=True)] = torch.arange(count)
    return rank


def _check(slots: Tensor, scores: Tensor) -> None:
    if slots.shape != scores.shape or slots.ndim != 1:
        raise InputError(f"merging needs one score per token: slots {tuple(slots.shape)}, scores {tuple(scores.shape)}")
    if bool(torch.isnan(scores[slots >= 0]).any()):
        raise InputError("merging scores contain NaN; every token needs a number")


# ---- compressors ----------------------------------------------------------------------------------------------------


class PatchCompressor(Protocol):
    """Makes the tokens of large patches from an encoder's tokens, in place of their average."""

    def compress_patches(
        self, tokens: Tensor, cells: Tensor, allocations: Sequence[Allocation], members: Members
    ) -> tuple[Tensor, Tensor]:
        """(K,) places in the averaging plan and (K, D) the tokens that belong there."""
        ...


def find_compressor(merge: Any) -> PatchCompressor | None:
    """What `merge=` names: a compressor, "compressor" or "compressor:FOLDER"; None for the plain methods."""
    if hasattr(merge, "compress_patches"):
        return merge
    name, _, folder = merge.partition(":") if isinstance(merge, str) else ("", "", "")
    if name in plugins(MERGING):
        return load_plugin(plugins(MERGING)[name])(folder)
    if name == "compressor":
        raise InputError(f"merge={merge!r} is part of the laboratory; install it: {LAB}")
    return None
