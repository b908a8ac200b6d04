"""Where the answer hung on detail: the derivative of a frozen reader's answer, one number for every cell.

A group of sampled allocations tells apart a handful of trees for each picture, at a reading each. One reading of the
whole picture with its derivative tells every cell apart at once. Think of every cell as faded between its own pixels
and a blurred copy of them (what a coarse token would show): the derivative of the right answer's log-likelihood by each
cell's fading says how much the outcome depends on that cell being seen sharply. Its size counts, not its sign: near a
right answer, more and less detail both move it.

It knows the question, the answer and the reader, as any outcome does; it knows no box. It is a first-order guess made
at full detail, not the value of an allocation under a budget, so it opens the training and the policy gradient, which
is unbiased, finishes it (`train_scorer`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...attending.tree import build_tree
from ...realizing.patches import gather_leaf_patches, mip_pyramid
from .judging import answer_chances
from .pictures import TrainingBatch, cut
from .reading import normalise_pictures

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CELL = 32
# Cells fade towards what a leaf of level 2 would show.
BLUR = 4


class Credit(NamedTuple):
    """cells: (B, rows, cols) derivative of the answer's log-likelihood by each cell's detail. log_likelihood: (B,) mean
    over the answer's characters. right: (B,) bool, with the whole picture seen."""

    cells: Tensor
    log_likelihood: Tensor
    right: Tensor


def detail_credit(model: PreTrainedModel, batch: TrainingBatch, most: int = 256, blur: int = BLUR) -> Credit:
    """One reading of the whole pictures, and its derivative.

    most: pictures of 512² at a time (more of smaller ones), for memory.
    """
    height, width = batch.pictures.shape[2:]
    at_once = max(1, most * 512**2 // (height * width))
    parts = [_credit(model, cut(batch, at, at + at_once), blur) for at in range(0, len(batch), at_once)]
    return Credit(*(torch.cat(items) for items in zip(*parts, strict=True)))


def _credit(model: PreTrainedModel, batch: TrainingBatch, blur: int) -> Credit:
    height, width = batch.pictures.shape[2:]
    rows, cols = height // CELL, width // CELL
    pixels = normalise_pictures(batch.pictures)
    blurred = F.interpolate(F.avg_pool2d(pixels, blur), scale_factor=blur, mode="bilinear", align_corners=False)
    with torch.enable_grad():
        sharpness = torch.ones(len(batch), 1, rows, cols, device=pixels.device, requires_grad=True)
        seen = blurred + F.interpolate(sharpness, scale_factor=CELL, mode="nearest") * (pixels - blurred)
        table = torch.from_numpy(build_tree(rows, cols, 0).nodes_table).to(pixels.device)
        leaves = table.expand(len(batch), -1, -1)
        vision = model.config.vision_config
        merge, patch = vision.spatial_merge_size, vision.patch_size
        pyramid = mip_pyramid(seen, 1, cell=CELL, patch_size=patch)
        patches = gather_leaf_patches(pyramid, leaves, merge=merge, temporal=vision.temporal_patch_size)
        said, wanted, chances = answer_chances(
            model, batch.question_ids, batch.answer_ids, patches, leaves, (rows, cols)
        )
        each = chances.gather(1, wanted[:, None])[:, 0]
        (cells,) = torch.autograd.grad(each.sum(), sharpness)
    owner, each = said.nonzero()[:, 0], each.detach()
    total = torch.zeros(len(batch), device=each.device).index_add_(0, owner, each)
    missed = torch.zeros_like(total).index_add_(0, owner, (chances.detach().argmax(-1) != wanted).float())
    return Credit(cells[:, 0].float(), total / said.sum(1), missed == 0)


def credit_shares(cells: Tensor) -> Tensor:
    """(B, rows, cols) derivatives → shares of each picture's credit, summing to 1: squares, so that a few cells that
    matter outweigh many that hardly do. All zero where nothing mattered or the derivative is not a number."""
    energy = torch.nan_to_num(cells.float(), nan=0.0, posinf=0.0, neginf=0.0).square()
    total = energy.sum((1, 2), keepdim=True)
    return torch.where(total > 0, energy / total.clamp_min(torch.finfo(energy.dtype).tiny), torch.zeros_like(energy))


def credit_loss(cell_logits: Tensor, shares: Tensor, weights: Tensor | None = None) -> Tensor:
    """Cross entropy of the map's mass (as `policy.node_logits` and the quadtree read it) against the credit's shares.

    (B, rows, cols) logits, shares of `credit_shares`, (B,) weights of the pictures → scalar, 0 at best up to the
    entropy of the shares. At the optimum a cell's share of the relevance is its expected share of the credit.
    """
    return share_loss(F.logsigmoid(cell_logits.float()), shares, weights)


def share_loss(log_mass: Tensor, shares: Tensor, weights: Tensor | None = None) -> Tensor:
    """The same for any map, given as the logarithm of its mass."""
    each = -(shares.flatten(1) * log_mass.flatten(1).log_softmax(1)).sum(1)
    return (each if weights is None else each * weights).mean()
