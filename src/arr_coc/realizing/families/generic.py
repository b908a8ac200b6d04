"""Merging after the encoder, for every family whose stock class takes ready-made visual tokens.

The vision tower runs in full, its tokens are averaged or picked by region, and the prompt's placeholders are shortened
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
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.errors import InputError
from ...core.values import Allocation, Relevance
from ..base import Backbone, Inputs, Realized, VisualGrid
from ..tokens.merge import MergePlan, find_compressor, members_of_allocations, plan_members
from ..tokens.patches import denormalize
from ..tokens.splice import pack, padding_side, shorten, take

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

FILLS = {"labels": -100}  # what padding holds in the tensors that run along the prompt; everywhere else 0


@dataclass(frozen=True)
class TokenLayout:
    """Where the visual tokens of a batch come from, in the order in which the prompts show them.

    grids: one per picture or tile. cells: (N,) int64: the level-0 cell of each token, counted through all grids in
    order and row by row; -1 for a token that lies in no grid (a line break, a separator) and is always kept.
    """

    grids: tuple[VisualGrid, ...]
    cells: Tensor

    def places(self) -> Tensor:
        """(N, 2) int64: row and column of every token inside its grid, 0 where it lies in none."""
        columns = torch.tensor([grid.cols for grid in self.grids])
        sizes = torch.tensor([grid.tokens for grid in self.grids])
        local = torch.arange(int(sizes.sum())) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        width = columns.repeat_interleave(sizes)
        places = torch.stack([local // width, local % width], dim=1)
        return torch.where(self.cells[:, None] >= 0, places[self.cells.clamp_min(0)], 0)


def dense_layout(grids: Sequence[VisualGrid]) -> TokenLayout:
    """Every token lies in a grid, grid after grid, row by row."""
    return TokenLayout(tuple(grids), torch.arange(sum(grid.tokens for grid in grids)))


def square_grid(side: int, pixels: int) -> VisualGrid:
    """`side` × `side` tokens over about `pixels` × `pixels`: the canvas gives every token a whole number of pixels."""
    canvas = side * max(1, round(pixels / side))
    return VisualGrid(side, side, canvas, canvas)


def square_grids(count: int, side: int, pixels: int) -> list[VisualGrid]:
    return [square_grid(side, pixels)] * count


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
        relevance: Sequence[np.ndarray | Relevance] | None = None,
        known: object = None,
        **unknown: object,
    ) -> Realized:
        """Encode in full, merge as allocated, shorten the prompt.

        merge: "average" of each region's tokens, "pick" of one, or a compressor of the classic scale ("compressor",
        "compressor:FOLDER", or a `MultiResolutionCompressor`), which averages what is no patch. relevance: one map per
        grid, any resolution, by which "pick" takes the most relevant token; without it, the most central one. known:
        the encoder's output for these pictures, from a glance.
        """
        if unknown:
            raise InputError(
                f"{', '.join(sorted(unknown))}: no such option for a family that is merged after its encoder"
            )
        if inputs.get("pixel_values_videos") is not None:
            raise InputError("merging serves pictures only; pass the frames of a video as pictures")
        layout = self.layout(model, inputs)
        prompt_rows(self.placeholders(model, inputs), len(layout.cells))  # refuse before the encoder is paid for
        compressor = find_compressor(merge)
        plan = self.plan(layout, allocations, merge if compressor is None else "average", relevance)
        encoded = self.encode(model, inputs) if known is None else known
        features = merge_features(encoded, plan, self.tensor_features)
        if compressor is not None:
            tokens = flat_tokens(encoded, self.tensor_features)
            members = members_of_allocations(allocations).placed(layout.cells)
            places, made = compressor.compress_patches(tokens, layout.cells, allocations, members)
            pooled = features.pooler_output
            features.pooler_output = pooled.index_copy(0, places.to(pooled.device), made.to(pooled.dtype))
        result = self.splice(model, inputs, plan, features)
        notes = {"tokens": plan.count, "outside_grids": int((layout.cells < 0).sum()), "known": encoded}
        return replace(result, notes={**notes, "cells": token_of_cells(layout, plan)})

    def plan(
        self,
        layout: TokenLayout,
        allocations: Sequence[Allocation],
        merge: str = "average",
        relevance: Sequence[np.ndarray | Relevance] | None = None,
    ) -> MergePlan:
        """Which tokens become one; tokens outside every grid stay as they are."""
        check_allocations(layout.grids, allocations)
        members = members_of_allocations(allocations).placed(layout.cells)
        scores = None
        if relevance is not None:
            scores = torch.from_numpy(cell_scores(layout.grids, relevance))[layout.cells.clamp_min(0)]
        return plan_members(members, merge, scores=scores, places=layout.places())

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

        along = {
            name: value
            for name, value in inputs.items()
            if isinstance(value, Tensor) and value.shape == input_ids.shape and name not in self.encoder_keys(model)
        }
        fills = {**FILLS, "input_ids": padding_token(model, input_ids, mask)}
        short = shorten({**along, "attention_mask": mask}, index, fills)

        merged = plan.positions(long_positions[:, placeholder])
        positions = take(long_positions, index).to(merged.dtype)
        positions[:, (short["input_ids"] == self.image_token_id(model)) & (index >= 0)] = merged
        short["position_ids"] = self.prompt_positions(positions, short["attention_mask"])
        rest = {
            name: value for name, value in inputs.items() if name not in along and name not in self.encoder_keys(model)
        }
        next_position = long_positions.masked_fill(mask[None] == 0, -1).amax((0, 2)) + 1
        prepared = {
            **rest,
            **short,
            "mm_encoder_outputs": {"image": self.per_prompt(features, short["input_ids"], model)},
        }
        prepared.pop("mm_token_type_ids", None)  # only ever read to work out the positions, which are given
        return Realized(inputs=prepared, index=index, next_position=next_position)

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


def cell_scores(grids: Sequence[VisualGrid], relevance: Sequence[np.ndarray | Relevance]) -> np.ndarray:
    """(cells of all grids,) float32: each map brought to its grid by area, flat."""
    import cv2

    if len(relevance) != len(grids):
        raise InputError(f"{len(grids)} pictures or tiles need {len(grids)} relevance maps, got {len(relevance)}")
    maps = [np.asarray(one.map if isinstance(one, Relevance) else one, dtype=np.float32) for one in relevance]
    sized = [
        cv2.resize(one, (grid.cols, grid.rows), interpolation=cv2.INTER_AREA).ravel()
        for one, grid in zip(maps, grids, strict=True)
    ]
    return np.concatenate(sized)


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
