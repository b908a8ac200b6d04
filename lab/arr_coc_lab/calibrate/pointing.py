"""Measure which attention heads of a language model point at the answer, on Needle World, where boxes are known.

The model glances at pictures with small things and a question about each. A head points if the tokens it attends to
most, just before the answer begins, show what the question needs. The best few heads are chosen on one half of the
pictures and measured on the other. Works for every family with readable attention, and needs no training: any real
vision-language model can read these pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.grip import grip_model
from arr_coc.core.errors import InputError
from arr_coc.core.values import JsonObject
from arr_coc.realizing.base import backbone_for
from arr_coc.realizing.glance import Glance, glance_layers, read_view, spread_over_cells, view_levels

from ..statistics import mean
from ..train.pictures import every_family
from ..worlds.needle.batch import NeedleBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

NUMBER, SIZE, SEED = 280, (512, 512), 77
SHARE = 1 / 8  # share of the cells: the most attended ones, which should show what the question needs
MOST_HEADS, CANDIDATES, GAIN = 8, 48, 0.003
BATCH = {"cuda": 16, "cpu": 4}


@dataclass(frozen=True)
class HeadAttention:
    """Attention of every head in N pictures of one size.

    weights: (N, layers, heads, K) float32, attention of the last token of the prompt over the K visual tokens; plain:
    (N, K), of the token after the picture, which has not read the question, mean of all heads. layers: their numbers.
    truth: (N, C) in {0, 1}, cells that the question needs. there: (C,) bool, cells that show some of the picture.
    cells, sizes, levels: the layout of the coarse view, as `spread_over_cells` takes it.
    """

    weights: Tensor
    plain: Tensor
    truth: Tensor
    layers: tuple[int, ...]
    there: Tensor
    cells: Tensor
    sizes: list[tuple[int, int]]
    levels: list[int]

    def part(self, chosen: Tensor) -> HeadAttention:
        return replace(self, weights=self.weights[chosen], plain=self.plain[chosen], truth=self.truth[chosen])

    def covered(self, scores: Tensor) -> Tensor:
        """Return the share of relevant cells among the highest eighth, (N, …), by scores (N, …, K)."""
        maps = spread_over_cells(scores, self.cells, self.sizes, self.levels)
        flat = torch.cat([one.flatten(-2) for one in maps], -1).masked_fill(~self.there, -1.0)
        best = flat.topk(max(1, round(SHARE * int(self.there.sum()))), dim=-1).indices
        middle = [1] * (flat.ndim - 2)
        truth = self.truth.view(len(self.truth), *middle, -1).expand(flat.shape)
        return truth.gather(-1, best).sum(-1) / self.truth.sum(1).view(-1, *middle)


def measure(
    model: PreTrainedModel, processor: ProcessorMixin, size: tuple[int, int] = SIZE, seed: int = SEED, **how: Any
) -> JsonObject:
    """Choose the heads that point best; return them with the scores before and after as JSON. how: of `look`."""
    found = look(model, processor, size=size, seed=seed, **how)
    half = torch.arange(len(found.truth)) % 2 == 0
    learning, testing = found.part(half), found.part(~half)
    heads = select_heads(learning)
    usual = [found.layers.index(layer) for layer in glance_layers(model, Glance())]
    at = [(found.layers.index(layer), head) for layer, head in heads]
    before = testing.covered(testing.weights[:, usual].mean((1, 2)))
    after = testing.covered(torch.stack([testing.weights[:, layer, head] for layer, head in at]).mean(0))
    plain = testing.covered(testing.plain)
    result = {name: interval(values) for name, values in (("before", before), ("after", after), ("unasked", plain))}
    gained = interval(after - plain)
    return {
        "schema": 1,
        "kind": "glance",
        "model": grip_model(getattr(model.config, "_name_or_path", "") or ""),
        "model_type": model.config.model_type,
        "heads": [list(head) for head in heads],
        "points": gained["low"] > 0,
        "share": SHARE,
        "pictures": len(found.truth),
        "size": list(size),
        "seed": seed,
        **result,
        "asked_minus_unasked": gained,
    }


@torch.no_grad()
def look(
    model: PreTrainedModel,
    processor: ProcessorMixin,
    *,
    number: int = NUMBER,
    size: tuple[int, int] = SIZE,
    seed: int = SEED,
    batch_size: int | None = None,
    advance: Callable[[int], None] = lambda done: None,
) -> HeadAttention:
    """Glance at `number` pictures of the validation split, equally many of each family, in batches."""
    backbone = backbone_for(model)
    if not backbone.can_glance:
        raise InputError(f"{'/'.join(backbone.model_types)} cannot glance; there is nothing to calibrate")
    step = batch_size or BATCH.get(model.device.type, BATCH["cpu"])
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    edges: tuple[Tensor, Tensor] | None = None
    layout: dict[str, Any] = {}
    for batch in every_family(number, size, seed, "validation", at_once=step):
        inputs = prompts(processor, batch.pictures, batch.questions, model.device)
        edges = edges or cell_edges(model, processor, size)
        grids = backbone.grids(model, inputs)
        levels = view_levels(grids, Glance(), backbone.tiled)
        view = read_view(backbone, model, inputs, levels)
        weights = view.weights.float().cpu()  # (B, layers, heads, 2, K)
        parts.append((weights[..., 0, :], weights[..., 1, :].mean((1, 2)), needed_cells(batch, *edges)))
        # Pictures of one size have one layout: that of the first.
        count = len(grids) // len(batch)
        layout = {
            "layers": view.layers,
            "there": (edges[0] >= 0).all(1),
            "cells": view.cells[: len(edges[0])].cpu(),
            "sizes": [(grid.rows, grid.cols) for grid in grids[:count]],
            "levels": levels[:count],
        }
        advance(len(batch))
    weights, plain, truth = (torch.cat(column) for column in zip(*parts, strict=True))
    known = truth.sum(1) > 0
    return HeadAttention(weights[known], plain[known], truth[known], **layout)


def chat_inputs(processor: Any, pictures: Sequence[Sequence[np.ndarray]], questions: Sequence[str]) -> Any:
    """Return the processor's inputs for pictures (H, W, 3) uint8 with a question each, padded on the left."""
    from PIL import Image

    texts = []
    for several, question in zip(pictures, questions, strict=True):
        content = [*({"type": "image"} for _ in several), {"type": "text", "text": question}]
        chat = [{"role": "user", "content": content}]
        texts.append(processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
    images = [[Image.fromarray(pixels) for pixels in several] for several in pictures]
    return processor(text=texts, images=images, padding=True, padding_side="left", return_tensors="pt")


def prompts(
    processor: Any, pictures: Tensor, questions: Sequence[str], device: torch.device | str
) -> dict[str, object]:
    """Return `chat_inputs` of pictures (B, 3, H, W) uint8 with one question each, on a device."""
    inputs = chat_inputs(processor, [[one] for one in pictures.permute(0, 2, 3, 1).cpu().numpy()], questions)
    return {name: value.to(device) if hasattr(value, "to") else value for name, value in inputs.items()}


def cell_edges(model: PreTrainedModel, processor: ProcessorMixin, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return the places of the cells of all grids in a picture: (C, 2) top left and (C, 2) bottom right, y and x in
    0–1; -1 for cells that show none of it.

    Families crop, pad and resize pictures in different ways. So the processor gets a picture whose colours are its
    coordinates, and the place of each cell is read from its colours.
    """
    y, x = (torch.arange(side).add(0.5).div(side) for side in size)
    colours = torch.stack([y[:, None].expand(size), x.expand(size), torch.ones(size)])
    backbone = backbone_for(model)
    inputs = prompts(processor, colours[None].mul(255).round().byte(), ["where"], model.device)
    tops, ends = [], []
    seen = backbone.pixels(model, processor, inputs)
    for grid, pixels in zip(backbone.grids(model, inputs), seen, strict=True):
        cells = F.adaptive_avg_pool2d(pixels.float().cpu(), (grid.rows, grid.cols))
        there = cells[2] > 0.9
        first, last = [], []
        for axis, along in ((0, cells[0].masked_fill(~there, np.nan)), (1, cells[1].masked_fill(~there, np.nan))):
            middle = along.nanmean(1 - axis)  # cells of a row have one height, cells of a column one width
            step = middle.diff()[~middle.diff().isnan()]
            half = float(step.median()) / 2 if len(step) else 0.5
            shape = (-1, 1) if axis == 0 else (1, -1)
            first.append((middle - half).view(shape).expand(grid.rows, grid.cols))
            last.append((middle + half).view(shape).expand(grid.rows, grid.cols))
        for into, edge in ((tops, first), (ends, last)):
            into.append(torch.stack(edge, -1).masked_fill(~there[..., None], -1).view(-1, 2))
    return torch.cat(tops), torch.cat(ends)


def needed_cells(batch: NeedleBatch, top: Tensor, end: Tensor) -> Tensor:
    """Return (B, C) in {0, 1}: the cells that the question needs, the answer and what identifies it."""
    boxes = torch.cat([batch.boxes, batch.ctx_boxes], 1).cpu()[:, :, None]  # (B, boxes, 1, 4): x0, y0, x1, y1
    there = torch.cat([batch.box_mask, batch.ctx_mask], 1).cpu()
    first, last = boxes[..., [1, 0]], boxes[..., [3, 2]]
    overlap = (torch.minimum(last, end) - torch.maximum(first, top)).clamp_min(0).prod(-1)
    cover = overlap / (end - top).prod(-1).clamp_min(1e-9) * there[..., None]
    return (cover.amax(1) > 0.02).float()


def select_heads(found: HeadAttention, most: int = MOST_HEADS) -> tuple[tuple[int, int], ...]:
    """Choose the heads whose mean points best, greedily: add the head that helps most, while one helps."""
    number, layers, heads = found.weights.shape[:3]
    flat = found.weights.flatten(1, 2)
    # One picture at a time: the maps of all heads of a large model would not fit into memory.
    alone = torch.stack(
        [found.part(torch.tensor([one])).covered(flat[one : one + 1])[0] for one in range(number)]
    ).mean(0)
    candidates = alone.topk(min(CANDIDATES, len(alone))).indices
    chosen: list[int] = []
    total, best = torch.zeros(number, flat.shape[-1]), 0.0
    for _ in range(min(most, layers * heads)):
        left = torch.tensor([one for one in candidates.tolist() if one not in chosen])
        if not len(left):
            break
        reached = found.covered(total[:, None] + flat[:, left]).mean(0)
        if float(reached.max()) < best + GAIN:
            break
        best = float(reached.max())
        chosen.append(int(left[reached.argmax()]))
        total = total + flat[:, chosen[-1]]
    return tuple(sorted((found.layers[one // heads], one % heads) for one in chosen))


def interval(values: Tensor) -> dict[str, float]:
    """Return the mean with its 95 % interval, and n."""
    found = mean(values.double().numpy())
    return {"mean": found.value, "low": found.low, "high": found.high, "n": len(values)}
