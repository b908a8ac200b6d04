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
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..attending.frame import token_grids
from ..core.errors import InputError, shown
from ..core.plugins import LAB, load_plugin, plugins
from ..core.values import Allocation
from .base import Backbone, Inputs, Realized, VisualGrid
from .query import pack, padding_side, shortened, take
from .tokens.patches import denormalize

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

# What other packages add to the ways of merging.
MERGING = "arr_coc.merging"


@dataclass(frozen=True)
class TokenLayout:
    """Where the visual tokens of a batch come from, in the order in which the prompts show them.

    grids: one per picture or tile. cells: (N,) int64: the level-0 cell of each token, counted through all grids in
    order and row by row; -1 for a token that lies in no grid (a line break, a separator) and is always kept.
    """

    grids: tuple[VisualGrid, ...]
    cells: Tensor


def dense_layout(grids: Sequence[VisualGrid]) -> TokenLayout:
    """Every token lies in a grid, grid after grid, row by row."""
    return TokenLayout(tuple(grids), torch.arange(sum(grid.tokens for grid in grids)))


def square_grid(side: int, pixels: int) -> VisualGrid:
    """`side` × `side` tokens over about `pixels` × `pixels`: the canvas gives every token a whole number of pixels."""
    canvas = side * max(1, round(pixels / side))
    return VisualGrid(side, side, canvas, canvas)


def inner(model: PreTrainedModel) -> Any:
    """The stock model without its language head: where the encoder and the positions are made."""
    return model.base_model


class MergingBackbone(Backbone):
    """The common part. A family implements `layout` and, where its pixels are not plain tiles, `pixels`."""

    before_encoder: ClassVar[bool] = False
    # The stock class wants its visual tokens as one tensor, not as a list of one tensor per picture.
    tensor_features: ClassVar[bool] = False

    @abstractmethod
    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        """Where the tokens lie; the `row` of the grids need not be set."""

    def check(self, model: PreTrainedModel, processor: ProcessorMixin) -> None:
        super().check(model, processor)
        if "mm_encoder_outputs" not in inspect.signature(model.forward).parameters:
            raise InputError(f"{type(model).__name__} takes no ready-made visual tokens (mm_encoder_outputs)")

    def grids(self, model: PreTrainedModel, inputs: Inputs) -> list[VisualGrid]:
        layout = self.layout(model, inputs)
        owners = prompt_rows(self.placeholders(model, inputs), len(layout.cells))
        first = torch.full((sum(grid.tokens for grid in layout.grids),), -1)
        inside = layout.cells >= 0
        first[layout.cells[inside]] = owners[inside]
        starts = np.cumsum([0, *(grid.tokens for grid in layout.grids)])[:-1]
        return [replace(grid, row=int(first[start])) for grid, start in zip(layout.grids, starts, strict=True)]

    def pixels(self, model: PreTrainedModel, processor: ProcessorMixin, inputs: Inputs) -> list[Tensor]:
        tiles = inputs["pixel_values"].flatten(0, -4)
        grids = self.layout(model, inputs).grids
        return [fit(tile, grid) for tile, grid in zip(denormalize(tiles, processor), grids, strict=True)]

    def placeholders(self, model: PreTrainedModel, inputs: Inputs) -> Tensor:
        """(B, L) bool: where the prompts hold a visual token."""
        return inputs["input_ids"] == self.image_token_id(model)

    def encode(self, model: PreTrainedModel, inputs: Inputs) -> object:
        """The stock encoder's output, with `pooler_output` (list of (n, D) or one tensor (tiles, n, D))."""
        given = {name: inputs[name] for name in self.encoder_keys(model) if name in inputs}
        return inner(model).get_image_features(**given, return_dict=True)

    def encoder_keys(self, model: PreTrainedModel) -> set[str]:
        """Inputs that only the encoder reads; they leave the prompt once its tokens are made."""
        return {*self.picture_keys, *inspect.signature(inner(model).get_image_features).parameters} - {"kwargs"}

    def positions(self, model: PreTrainedModel, inputs: Inputs, attention_mask: Tensor) -> Tensor:
        """(P, B, L) positions of the long prompt; P = 1: plain counts of the tokens that are not padding."""
        return (attention_mask.cumsum(-1) - 1).clamp_min(0)[None]

    def prompt_positions(self, positions: Tensor, attention_mask: Tensor) -> Tensor:
        """The `position_ids` that the stock class takes, from merged positions (P, B, L')."""
        return positions[0]

    def realize(
        self,
        model: PreTrainedModel,
        inputs: Inputs,
        allocations: Sequence[Allocation],
        *,
        merge: Any = "average",
        known: Any = None,
    ) -> Realized:
        """Encode in full, merge as allocated, shorten the prompt.

        merge: "average" of each region's tokens, or a compressor of the classic scale ("compressor",
        "compressor:FOLDER", or a `MultiResolutionCompressor`), which averages what is no patch. known: the encoder's
        output for these pictures, from a glance.
        """
        if inputs.get("pixel_values_videos") is not None:
            raise InputError("merging serves pictures only; pass the frames of a video as pictures")
        layout = self.layout(model, inputs)
        prompt_rows(self.placeholders(model, inputs), len(layout.cells))  # refuse before the encoder is paid for
        compressor = find_compressor(merge)
        check_allocations(layout.grids, allocations)
        members = members_of_allocations(allocations).placed(layout.cells)
        plan = plan_average(members)  # tokens outside every grid stay as they are
        encoded = self.encode(model, inputs) if known is None else known
        features = merge_features(encoded, plan, self.tensor_features)
        if compressor is not None:
            tokens = flat_tokens(encoded, self.tensor_features)
            places, made = compressor.compress_patches(tokens, layout.cells, allocations, members)
            pooled = features.pooler_output
            features.pooler_output = pooled.index_copy(0, places.to(pooled.device), made.to(pooled.dtype))
        result = self.splice(model, inputs, plan, features)
        notes = {"tokens": plan.count, "outside_grids": int((layout.cells < 0).sum()), "known": encoded}
        return replace(result, notes={**notes, "cells": token_of_cells(layout, plan)})

    def splice(self, model: PreTrainedModel, inputs: Inputs, plan: MergePlan, features: Tensor) -> Realized:
        """The shortened prompt around the merged tokens."""
        input_ids = inputs["input_ids"]
        placeholder = self.placeholders(model, inputs)
        mask = inputs.get("attention_mask")
        mask = torch.ones_like(input_ids) if mask is None else mask
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

        short = shortened(inputs, index, self.encoder_keys(model), padding_token(model, input_ids, mask))
        short["attention_mask"] = (index >= 0).to(mask.dtype)
        merged = plan.positions(long_positions[:, placeholder])
        positions = take(long_positions, index).to(merged.dtype)
        positions[:, (short["input_ids"] == self.image_token_id(model)) & (index >= 0)] = merged
        short["position_ids"] = self.prompt_positions(positions, short["attention_mask"])
        short["mm_encoder_outputs"] = {"image": self.per_prompt(features, short["input_ids"], model)}
        short.pop("mm_token_type_ids", None)  # only ever read to work out the positions, which are given
        next_position = long_positions.masked_fill(mask[None] == 0, -1).amax((0, 2)) + 1
        return Realized(inputs=short, index=index, next_position=next_position)

    def per_prompt(self, features: Any, input_ids: Tensor, model: PreTrainedModel) -> object:
        """Hand the flat tokens over in the form the stock class reads, cut where one prompt ends and the next begins.

        Beam search and `num_return_sequences` repeat the tokens of each prompt and find its end by counting. One entry
        per prompt (or, where a tensor is wanted, one per token) leaves no doubt; an empty entry would.
        """
        counts = [n for n in (input_ids == self.image_token_id(model)).sum(1).tolist() if n]
        if self.tensor_features:
            features.pooler_output = features.pooler_output[:, None]
            return features
        features.pooler_output = list(features.pooler_output.split(counts))
        if getattr(features, "deepstack_features", None) is not None:
            features.deepstack_features = [list(plane.split(counts)) for plane in features.deepstack_features]
        return features


def merge_features(features: Any, plan: MergePlan, tensor: bool) -> Any:
    """One plan for the encoder's tokens and its DeepStack planes, if it has any. Tokens come out flat, (K, D)."""
    features = copy(features)
    features.pooler_output = plan.apply(flat_tokens(features, tensor))
    planes = getattr(features, "deepstack_features", None)
    if planes is not None:
        features.deepstack_features = [plan.apply(torch.cat(list(plane))) for plane in planes]
    return features


def flat_tokens(features: Any, tensor: bool) -> Tensor:
    """The encoder's tokens (N, D), picture after picture."""
    pooled = features.pooler_output
    return pooled.flatten(0, -2) if tensor else torch.cat(list(pooled))


def token_of_cells(layout: TokenLayout, plan: MergePlan) -> Tensor:
    """(C,) int64: the merged token that shows each level-0 cell of all grids; -1 for a cell that none does."""
    cells = torch.full((sum(grid.tokens for grid in layout.grids),), -1)
    member = layout.cells[plan.members]
    cells[member[member >= 0]] = plan.slots[member >= 0]
    return cells


def check_allocations(grids: Sequence[VisualGrid], allocations: Sequence[Allocation]) -> None:
    if len(allocations) != len(grids):
        raise InputError(f"{len(grids)} pictures or tiles need {len(grids)} allocations, got {len(allocations)}")
    wrong = [i for i, (grid, a) in enumerate(zip(grids, allocations, strict=True)) if a.grid != (grid.rows, grid.cols)]
    if wrong:
        grid, allocation = grids[wrong[0]], allocations[wrong[0]]
        raise InputError(
            f"allocation {wrong[0]} is for a grid of {allocation.grid[0]}×{allocation.grid[1]} tokens, but the encoder "
            f"makes {grid.rows}×{grid.cols}: allocate with cell={grid.cell} and canvas=({grid.height}, {grid.width})"
        )


def first_members(plan: MergePlan) -> Tensor:
    """(count,) the first input token of every output token, or the next one free: the placeholder that stays for it.

    Leaves of an overlay that lie on one another may begin at the same token; there are never more leaves than tokens
    from any place to the end of a picture.
    """
    first = torch.full((plan.count,), plan.length, dtype=torch.int64)
    first = first.scatter_reduce(0, plan.slots, plan.members, "amin").sort().values
    step = torch.arange(plan.count)
    return (first - step).cummax(0).values + step


def prompt_rows(placeholder: Tensor, expected: int) -> Tensor:
    """(N,) int64: the row of the batch that shows each visual token."""
    rows = placeholder.nonzero()[:, 0].cpu()
    if len(rows) != expected:
        raise InputError(
            f"the prompts hold {len(rows)} picture placeholders but their pictures have {expected} tokens: pass "
            "input_ids and pixel values of the same processor call"
        )
    return rows


def without_cache(model: PreTrainedModel, inputs: Inputs) -> bool:
    """Whether the call was told, or the generation configuration says, to do without a key-value cache."""
    wanted = inputs.get("use_cache")
    config = inputs.get("generation_config") or getattr(model, "generation_config", None)
    return (getattr(config, "use_cache", None) if wanted is None else wanted) is False


def padding_token(model: PreTrainedModel, input_ids: Tensor, mask: Tensor) -> int:
    """What the batch is padded with; where it is not padded, the language model's own padding token."""
    padded = input_ids[mask == 0]
    if len(padded):
        return int(padded[0])
    configured = getattr(model.config.get_text_config(), "pad_token_id", None)
    return 0 if configured is None else int(configured)


def whole_patches(pixels: Tensor, patch: int) -> Tensor:
    """(..., H, W) without the last rows and columns that fill no patch: the encoder never sees them."""
    height, width = pixels.shape[-2:]
    return pixels[..., : height // patch * patch, : width // patch * patch]


def fit(picture: Tensor, grid: VisualGrid) -> Tensor:
    """(3, h, w) -> (3, height, width) of the grid's canvas; mostly nothing to do."""
    if picture.shape[-2:] == (grid.height, grid.width):
        return picture
    return F.interpolate(picture[None], (grid.height, grid.width), mode="bilinear", antialias=True)[0].clamp(0, 1)


# ---- the maths of merging, without a model ---------------------------------------------------------------------------
#
#     regions of an Allocation ─→ Members         which encoder tokens each output token is made of
#     Members                  ─→ MergePlan       every output token is the mean of its members
#     MergePlan                ─→ plan.apply(x)   tokens, DeepStack planes and positions, all by the same plan
#
# Everything is flat: the tokens of all pictures and tiles of a batch stand behind one another, and one call serves them
# all. Regions may lie on one another: a coarse leaf is made of all of its ground, whether finer leaves cover it or not,
# as it would be seen by an encoder that read it at its own resolution. Output tokens stand in the order of their mean
# input index, so a sequence stays sorted by position, and keeping every token changes nothing, bit for bit.


class Members(NamedTuple):
    """Which tokens go where. tokens: (M,) int64 indices of input tokens, slots: (M,) int64 the output token of each.

    A token may go to several slots, where regions overlap, the coarse ones first, or to none. Slot numbers may be
    skipped. length: N, all input tokens.
    """

    tokens: Tensor
    slots: Tensor
    length: int

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


# ---- compressors ----------------------------------------------------------------------------------------------------


class PatchCompressor(Protocol):
    """Makes the tokens of large patches from an encoder's tokens, in place of their average."""

    def compress_patches(
        self, tokens: Tensor, cells: Tensor, allocations: Sequence[Allocation], members: Members
    ) -> tuple[Tensor, Tensor]:
        """(K,) places in the averaging plan and (K, D) the tokens that belong there."""
        ...


def find_compressor(merge: Any) -> PatchCompressor | None:
    """What `merge=` names: a compressor, "compressor" or "compressor:FOLDER"; None for the plain average."""
    if hasattr(merge, "compress_patches"):
        return merge
    name, _, folder = merge.partition(":") if isinstance(merge, str) else ("", "", "")
    if name == "average":
        return None
    if name in plugins(MERGING):
        return load_plugin(plugins(MERGING)[name])(folder)
    if name == "compressor":
        raise InputError(f"merge={merge!r} is part of the laboratory; install it: {LAB}")
    raise InputError(f"merge={shown(merge)} is unknown; choose average, compressor, or give a compressor")
