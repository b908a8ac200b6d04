"""Merging after the encoder, for every family whose stock class takes ready-made visual tokens.

The vision tower runs in full, its tokens are averaged by region, and the prompt's placeholders are shortened
to match; the language model then pays for fewer tokens. A family says only where its tokens lie (`layout`) and how
its pixels look (`pixels`); everything else is common and stands here.

A tiled family (InternVL, Ovis2, …) has one grid per tile: tokens of two tiles are never merged into one, because
text or a separator may stand between them. Line breaks and separators lie in no grid: they are always kept, and come on
top of the budget (`Realized.notes["outside_grids"]` counts them).
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..attending.leaves import token_grids
from ..core.errors import InputError
from ..core.values import Allocation
from .base import Backbone, Inputs, Realized, VisualGrid, check_allocations
from .patches import denormalize
from .query import mask_of, pack, padding_side, shortened, take

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin


@dataclass(frozen=True)
class TokenLayout:
    """Where the visual tokens of a batch come from, in the order in which the prompts show them.

    grids: one per picture or tile. cells: (N,) int64: the level-0 cell of each token, counted through all grids in
    order and row by row; -1 for a token that lies in no grid (a line break, a separator) and is always kept.
    """

    grids: tuple[VisualGrid, ...]
    cells: Tensor


def dense_layout(grids: Sequence[VisualGrid]) -> TokenLayout:
    """Return a layout where every token lies in a grid, grid after grid, row by row."""
    return TokenLayout(tuple(grids), torch.arange(sum(grid.tokens for grid in grids)))


def square_grid(side: int, pixels: int) -> VisualGrid:
    """`side` × `side` tokens over about `pixels` × `pixels`: the canvas gives every token a whole number of pixels."""
    canvas = side * max(1, round(pixels / side))
    return VisualGrid(side, side, canvas, canvas)


def inner(model: PreTrainedModel) -> Any:
    """Return the stock model without its language head: where the encoder and the positions are made."""
    return model.base_model


class MergingBackbone(Backbone):
    """The common part. A family implements `layout` and, where its pixels are not plain tiles, `pixels`."""

    # The stock class wants its visual tokens as one tensor, not as a list of one tensor per picture.
    tensor_features: ClassVar[bool] = False

    @abstractmethod
    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        """Return where the tokens lie; the `row` of the grids need not be set."""

    def grids(self, model: PreTrainedModel, inputs: Inputs) -> list[VisualGrid]:
        layout = self.layout(model, inputs)
        rows = prompt_rows(self.placeholders(model, inputs), len(layout.cells))[layout.cells >= 0]
        order = layout.cells[layout.cells >= 0].argsort()
        parts = rows[order].split([grid.tokens for grid in layout.grids])
        return [replace(grid, row=int(part[0])) for grid, part in zip(layout.grids, parts, strict=True)]

    def pixels(self, model: PreTrainedModel, processor: ProcessorMixin, inputs: Inputs) -> list[Tensor]:
        tiles = inputs["pixel_values"].flatten(0, -4)
        grids = self.layout(model, inputs).grids
        return [fit(tile, grid) for tile, grid in zip(denormalize(tiles, processor), grids, strict=True)]

    def placeholders(self, model: PreTrainedModel, inputs: Inputs) -> Tensor:
        """Return (B, L) bool: where the prompts hold a visual token."""
        return inputs["input_ids"] == self.image_token_id(model)

    def encoder_keys(self, model: PreTrainedModel) -> set[str]:
        """Inputs that only the encoder reads; they leave the prompt once its tokens are made."""
        return {*self.picture_keys, *inspect.signature(inner(model).get_image_features).parameters} - {"kwargs"}

    def positions(self, model: PreTrainedModel, inputs: Inputs, attention_mask: Tensor) -> Tensor:
        """Return (P, B, L) positions of the long prompt; P = 1: plain counts of the tokens that are not padding."""
        return (attention_mask.cumsum(-1) - 1).clamp_min(0)[None]

    def prompt_positions(self, positions: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the `position_ids` that the stock class takes, from merged positions (P, B, L')."""
        return positions[0]

    def realize(
        self, model: PreTrainedModel, inputs: Inputs, allocations: Sequence[Allocation], *, known: Any = None
    ) -> Realized:
        """Encode in full, merge as allocated, shorten the prompt. known: the encoder's output, from a glance."""
        if inputs.get("pixel_values_videos") is not None:
            raise InputError("merging serves pictures only; pass the frames of a video as pictures")
        layout = self.layout(model, inputs)
        prompt_rows(self.placeholders(model, inputs), len(layout.cells))  # refuse before the encoder is paid for
        check_allocations(allocations, [(grid.rows, grid.cols) for grid in layout.grids])
        plan, encoded = merge_plan(allocations, layout.cells), known
        if encoded is None:
            given = {name: inputs[name] for name in self.encoder_keys(model) if name in inputs}
            encoded = inner(model).get_image_features(**given, return_dict=True)
        pooled = encoded.pooler_output
        tokens = pooled.flatten(0, -2) if self.tensor_features else torch.cat(list(pooled))
        merged = self.merge(tokens, plan)
        # The merged token that shows each level-0 cell.
        shown, member = torch.full_like(plan.tokens, -1), layout.cells[plan.members]
        shown[member[member >= 0]] = plan.slots[member >= 0]
        outside = int((layout.cells < 0).sum())
        notes = {"tokens": plan.count, "outside_grids": outside, "known": encoded, "cells": shown}
        return replace(self.splice(model, inputs, plan, encoded, merged), notes=notes)

    def merge(self, tokens: Tensor, plan: MergePlan) -> Tensor:
        """Return the encoder's tokens (N, D) as the plan's (K, D). `arr_coc_lab.classic.compressor` has another way."""
        return plan.apply(tokens)

    def splice(
        self, model: PreTrainedModel, inputs: Inputs, plan: MergePlan, encoded: object, merged: Tensor
    ) -> Realized:
        """Return the shortened prompt around the merged tokens (K, D), put into a copy of the encoder's output."""
        placeholder, mask = self.placeholders(model, inputs), mask_of(inputs)
        keep = mask.bool() & ~placeholder
        stays = torch.zeros(plan.length, dtype=torch.bool)
        stays[first_members(plan)] = True
        keep[placeholder] = stays.to(keep.device)
        index = pack(keep, padding_side(mask))
        long_positions = self.positions(model, inputs, mask)
        plain = len(long_positions) == 1 and plan.count < plan.length
        if plain and without_cache(model, inputs) and bool((index >= 0).all()):
            # `generate` drops a mask of ones, and without a cache gaps in plain positions then pass for the borders
            # between packed prompts. A column of padding keeps the mask.
            index = F.pad(index, (1, 0), value=-1)

        short = shortened(model, inputs, index, self.encoder_keys(model))
        short["attention_mask"] = (index >= 0).to(mask.dtype)
        visual = self.placeholders(model, short) & (index >= 0)
        places = plan.positions(long_positions[:, placeholder])
        positions = take(long_positions, index).to(places.dtype)
        positions[:, visual] = places
        short["position_ids"] = self.prompt_positions(positions, short["attention_mask"])
        # Beams and several answers repeat the tokens of each prompt and find its end by counting. One entry per prompt
        # (or, where a tensor is wanted, one per token) leaves no doubt; an empty entry would.
        counts = [number for number in visual.sum(1).tolist() if number]
        features: Any = copy(encoded)
        features.pooler_output = merged[:, None] if self.tensor_features else list(merged.split(counts))
        short["mm_encoder_outputs"] = {"image": features}
        short.pop("mm_token_type_ids", None)  # only ever read to work out the positions, which are given
        next_position = long_positions.masked_fill(mask[None] == 0, -1).amax((0, 2)) + 1
        return Realized(inputs=short, index=index, next_position=next_position)


def first_members(plan: MergePlan) -> Tensor:
    """Return (count,) the first input token of every output token, or the next free one: its remaining placeholder.

    Leaves of an overlay that lie on one another may begin at the same token; there are never more leaves than tokens
    from any place to the end of a picture.
    """
    first = torch.full((plan.count,), plan.length, dtype=torch.int64)
    first = first.scatter_reduce(0, plan.slots, plan.members, "amin").sort().values
    step = torch.arange(plan.count)
    return (first - step).cummax(0).values + step


def prompt_rows(placeholder: Tensor, expected: int) -> Tensor:
    """Return (N,) int64: the row of the batch that shows each visual token."""
    rows = placeholder.nonzero()[:, 0].cpu()
    if len(rows) != expected:
        raise InputError(
            f"the prompts hold {len(rows)} picture placeholders but their pictures have {expected} tokens: pass "
            "input_ids and pixel values of the same processor call"
        )
    return rows


def without_cache(model: PreTrainedModel, inputs: Inputs) -> bool:
    """Return whether the call, or the generation configuration, says to do without a key-value cache."""
    wanted = inputs.get("use_cache")
    config = inputs.get("generation_config") or getattr(model, "generation_config", None)
    return (getattr(config, "use_cache", None) if wanted is None else wanted) is False


def fit(picture: Tensor, grid: VisualGrid) -> Tensor:
    """Convert (3, h, w) -> (3, height, width) of the grid's canvas; mostly nothing to do."""
    if picture.shape[-2:] == (grid.height, grid.width):
        return picture
    return F.interpolate(picture[None], (grid.height, grid.width), mode="bilinear", antialias=True)[0].clamp(0, 1)


# ---- the maths of merging, without a model ---------------------------------------------------------------------------
#
# The tokens of all pictures and tiles of a batch stand behind one another, and one plan serves them all. Regions may
# lie on one another: a coarse leaf is made of all of its ground, also where finer leaves cover it. Output tokens stand
# in the order of their mean input index, so keeping every token changes nothing, bit for bit.


class Regions(NamedTuple):
    """Every region of every picture, in order. start: (R,) the first cell of its picture, counted through all of them.
    across: (R,) columns of that picture. corner, extent: (R, 2) cells. blocks: (R, 2) rows and columns of its tokens.
    first: (R,) its first slot, counted region by region. tokens: (R,) as allocated."""

    start: np.ndarray
    across: np.ndarray
    corner: np.ndarray
    extent: np.ndarray
    blocks: np.ndarray
    first: np.ndarray
    tokens: np.ndarray


@dataclass(frozen=True)
class MergePlan:
    """How N tokens become `count` tokens, each the mean of its members.

    members: (M,) int64: the input tokens that are seen, by output token. slots: (M,) int64: the output token each of
    them goes to. length: N. regions: what was allocated. numbers: the output token of each slot of the regions, and
    tokens: (C,) the input token of each level-0 cell of all grids; both -1 on ground without tokens.
    """

    members: Tensor
    slots: Tensor
    length: int
    count: int
    regions: Regions
    numbers: Tensor
    tokens: Tensor

    @property
    def selects(self) -> bool:
        """True where every output token is one input token: applying the plan is a gather, exact in every dtype."""
        return len(self.members) == self.count

    def apply(self, values: Tensor) -> Tensor:
        """Convert (N, ...) -> (count, ...) in the dtype of `values` (averages are summed in float32 at least)."""
        members, slots = self.members.to(values.device), self.slots.to(values.device)
        if self.selects:
            return values.index_select(0, members)
        wide = torch.promote_types(values.dtype, torch.float32)
        share = (1 / torch.bincount(self.slots).double())[self.slots].to(values.device, wide)
        merged = torch.zeros((self.count, *values.shape[1:]), dtype=wide, device=values.device)
        parts = values.index_select(0, members).to(wide) * share.reshape(-1, *[1] * (values.ndim - 1))
        return merged.index_add(0, slots, parts).to(values.dtype)

    def positions(self, positions: Tensor) -> Tensor:
        """Convert (..., N) positions -> (..., count): integers stay integers where every one is, else float32."""
        if self.selects:
            return positions.index_select(-1, self.members.to(positions.device))
        merged = self.apply(positions.movedim(-1, 0).double()).movedim(0, -1)
        whole = merged.round()
        if not positions.is_floating_point() and bool(((merged - whole).abs() < 1e-6).all()):
            return whole.to(positions.dtype)
        return merged.float()


def merge_plan(allocations: Sequence[Allocation], cells: Tensor) -> MergePlan:
    """Return the plan of what was allocated.

    A region of t tokens becomes at most t: one for a leaf, else a grid of blocks. A cell is in every region over it.

    cells: (N,) the cell of each token, counted through all grids; -1 for a token outside of all grids, which stays.
    """
    grids = np.array([allocation.grid for allocation in allocations], dtype=np.int64)
    starts = np.cumsum(grids.prod(1)) - grids.prod(1)
    picture = np.repeat(np.arange(len(allocations)), [len(allocation) for allocation in allocations])
    leaves = np.concatenate([allocation.leaf_cells() for allocation in allocations])
    counts = np.concatenate([allocation.counts for allocation in allocations]).astype(np.int64)
    corner, reach = leaves[:, :2], np.concatenate([allocation.extents() for allocation in allocations])
    # A leaf at the edge may reach beyond the grid: what lies outside holds no token.
    extent = np.clip(np.minimum(reach, grids[picture] - corner), 1, None)
    inside = ((corner >= 0) & (corner < grids[picture])).all(axis=1)
    blocks = _blocks(counts, extent)
    number = blocks.prod(1)
    regions = Regions(starts[picture], grids[picture, 1], corner, extent, blocks, np.cumsum(number) - number, counts)
    # Every cell of every region, and the slot it goes to; of regions with one middle the coarse one comes first.
    order = np.argsort(-leaves[:, 2], kind="stable")
    (height, width), (block_rows, block_cols) = extent.T, blocks.T
    area = np.where(inside, height * width, 0)[order]
    owner = np.repeat(order, area)
    local = np.arange(area.sum()) - np.repeat(np.cumsum(area) - area, area)
    row, col = local // width[owner], local % width[owner]
    cell = regions.start[owner] + (corner[owner, 0] + row) * regions.across[owner] + corner[owner, 1] + col
    block = (row * block_rows[owner] // height[owner]) * block_cols[owner] + col * block_cols[owner] // width[owner]
    # From cells to tokens; a token without a cell gets a slot of its own.
    token = torch.full((int(grids.prod(1).sum()),), -1)
    token[cells[cells >= 0]] = torch.nonzero(cells >= 0).flatten()
    found, outside = token[torch.from_numpy(cell)], torch.nonzero(cells < 0).flatten()
    slots = torch.from_numpy(regions.first[owner] + block)[found >= 0]
    tokens = torch.cat([found[found >= 0], outside])
    slots = torch.cat([slots, int(number.sum()) + torch.arange(len(outside))])
    groups, inverse = torch.unique(slots, return_inverse=True)
    middle = torch.zeros(len(groups), dtype=torch.float64).index_add(0, inverse, tokens.double())
    rank = torch.argsort(torch.argsort(middle / torch.bincount(inverse), stable=True))
    numbers = torch.full((int(number.sum()) + len(outside),), -1)
    numbers[groups] = rank
    order = torch.argsort(rank[inverse], stable=True)
    return MergePlan(tokens[order], rank[inverse][order], len(cells), len(groups), regions, numbers, token)


def _blocks(counts: np.ndarray, extent: np.ndarray) -> np.ndarray:
    """Return (R, 2) rows and columns of each region's tokens: its grid of tokens where it has as many cells each way,
    else blocks of about its own shape, never more than tokens."""
    height, width = extent.T
    rows = np.clip(np.rint(np.sqrt(counts * height / width)), 1, np.minimum(height, counts)).astype(np.int64)
    blocks = np.stack([rows, np.clip(counts // np.maximum(rows, 1), 1, width)], axis=1)
    exact = token_grids(counts, extent)
    return np.where((exact <= extent).all(axis=1, keepdims=True), exact, blocks)
