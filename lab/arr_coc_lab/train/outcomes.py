"""What came of an allocation: a frozen reader answers from it, and the answer is right, partly right or wrong.

The reader's log-likelihood of the right answer may be added to the reward: it says how far from right a wrong answer
was, and whether a right one was luck. It knows the answer, as any reward does, but no box.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import build_tree
from arr_coc.core.errors import InputError
from arr_coc.core.manifest import verify
from arr_coc.realizing.tokens.patches import LeafBatch, gather_leaf_patches, leaf_patches, mip_pyramid

from .pictures import TrainingBatch, cut
from .prompts import chat_tail
from .reader import normalise_pictures
from .rewards import Outcome
from .swift import run_language, run_tower

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# A wrong answer with at least this share of its characters right is partly right.
PARTLY_FROM = 0.5


@dataclass(frozen=True)
class Judgement:
    """All (B, G). right: every character of the answer. share: of its characters that are right. log_likelihood: of
    the right answer, mean over its characters. confidence: geometric mean of the likeliest characters' chances."""

    right: Tensor
    share: Tensor
    log_likelihood: Tensor
    confidence: Tensor

    @property
    def outcome(self) -> Tensor:
        """(B, G) int64 of `Outcome`."""
        partly = (self.share >= PARTLY_FROM) & ~self.right
        return self.right.long() * int(Outcome.RIGHT) + partly.long() * int(Outcome.PARTLY)


def answer_chances(
    model: PreTrainedModel,
    question_ids: Tensor,
    answer_ids: Tensor,
    patches: Tensor,
    leaves: Tensor,
    grid: tuple[int, int],
) -> tuple[Tensor, Tensor, Tensor]:
    """The right answers, teacher forced, by the swift path and with gradients: said (B, T − 1) bool, where their
    characters stand; wanted (C,), which they are; log-chances (C, vocabulary) of every character there.

    patches: of the leaves (B, N, 3) on a grid of (rows, cols) level-0 cells, in the order of `gather_leaf_patches`.
    """
    core = model.model
    tails, said = chat_tail(question_ids, answer_ids)
    seen = run_tower(core.visual, patches, leaves, grid)
    hidden = run_language(core, seen, tails[:, None], leaves, grid).said
    said = said[:, 1:]
    chances = model.lm_head(hidden[:, :-1][said]).float().log_softmax(-1)
    return said, tails[:, 1:][said], chances


@torch.no_grad()
def judge(model: PreTrainedModel, batch: TrainingBatch, leaves: Tensor, most: int = 2048) -> Judgement:
    """Leaves (B, G, N, 3), or boxes in cells (B, G, N, 4), G allocations of each picture → what the reader makes of
    each.

    The same as `reading.read` on pictures repeated G times, but the pictures and their mip levels are held once, and
    they are read by the swift path. most: readings at a time, for memory.
    """
    pictures = max(1, most // leaves.shape[1])
    if len(batch) > pictures:
        starts = range(0, len(batch), pictures)
        parts = [judge(model, cut(batch, at, at + pictures), leaves[at : at + pictures], most) for at in starts]
        return Judgement(*(torch.cat([getattr(part, name) for part in parts]) for name in Judgement.__annotations__))
    group = leaves.shape[1]
    vision = model.config.vision_config
    merge, size = vision.spatial_merge_size, vision.patch_size
    grid = batch.pictures.shape[2] // (merge * size), batch.pictures.shape[3] // (merge * size)
    levels = int(leaves[..., 2].max()) + 1 if leaves.shape[-1] == 3 else 1
    owner = torch.arange(len(batch), device=leaves.device).repeat_interleave(group * leaves.shape[2])
    size_of_grid = torch.tensor(grid, device=leaves.device).expand(len(batch), 2)
    each = LeafBatch(leaves.flatten(0, 2), owner, size_of_grid, (group * leaves.shape[2],) * len(batch), levels)
    cutter = leaf_patches(
        normalise_pictures(batch.pictures), each, merge=merge, patch_size=size, temporal=vision.temporal_patch_size
    )
    patches = cutter(each)
    questions, answers = (ids.repeat_interleave(group, dim=0) for ids in (batch.question_ids, batch.answer_ids))
    said, wanted, chances = answer_chances(model, questions, answers, patches, leaves.flatten(0, 1), grid)
    best = chances.max(-1)
    owner = said.nonzero()[:, 0]

    def mean(values: Tensor) -> Tensor:
        total = torch.zeros(len(said), device=values.device).index_add_(0, owner, values)
        return (total / said.sum(1)).unflatten(0, (-1, group))

    good = best.indices == wanted
    wrong = torch.zeros(len(said), device=good.device).index_add_(0, owner, (~good).float())
    return Judgement(
        right=(wrong == 0).unflatten(0, (-1, group)),
        share=mean(good.float()),
        log_likelihood=mean(chances.gather(1, wanted[:, None])[:, 0]),
        confidence=mean(best.values).exp(),
    )


def load_reader(folder: Path, device: torch.device) -> PreTrainedModel:
    """A frozen reader: a stock checkpoint, or a training's export with one in `mini`; bfloat16 on a GPU, buffers
    float32."""
    from transformers import Qwen3VLForConditionalGeneration

    found = next((one for one in (folder, folder / "mini") if os.path.isfile(one / "config.json")), None)
    if found is None:
        raise InputError(f"no reader in {folder}: expected an export of `train mini` or a checkpoint with config.json")
    verify(found)
    loaded = Qwen3VLForConditionalGeneration.from_pretrained(found, dtype=torch.float32)
    model = loaded.to(device).eval().requires_grad_(False)
    if device.type == "cuda":
        for parameter in model.parameters():
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


# ----------------------------------------------------------------------------------------------------------------------
# Where the answer hung on detail: the derivative of a frozen reader's answer, one number for every cell.
#
# A group of sampled allocations tells apart a handful of trees for each picture, at a reading each. One reading of the
# whole picture with its derivative tells every cell apart at once. Think of every cell as faded between its own pixels
# and a blurred copy of them (what a coarse token would show): the derivative of the right answer's log-likelihood by
# each cell's fading says how much the outcome depends on that cell being seen sharply. Its size counts, not its sign:
# near a right answer, more and less detail both move it.
#
# It knows the question, the answer and the reader, as any outcome does; it knows no box. It is a first-order guess made
# at full detail, not the value of an allocation under a budget. So it is put to the proof (`proven_credit`): leaves are
# laid where it points, over an overview, and the reader answers from them alone. Of readings that are wrong the
# derivative points anywhere (on forms a quarter of it lies on label and value, where a right one has three quarters);
# those that cannot be proven hardly count.

CELL = 32
# Cells fade towards what a leaf of level 2 would show.
BLUR = 4


class Credit(NamedTuple):
    """cells: (B, rows, cols) derivative of the answer's log-likelihood by each cell's detail. log_likelihood: (B,) mean
    over the answer's characters. right: (B,) bool, with the whole picture seen."""

    cells: Tensor
    log_likelihood: Tensor
    right: Tensor


def detail_credit(model: PreTrainedModel, batch: TrainingBatch, most: int = 256) -> Credit:
    """One reading of the whole pictures, and its derivative.

    most: pictures of 512² at a time (more of smaller ones), for memory.
    """
    height, width = batch.pictures.shape[2:]
    at_once = max(1, most * 512**2 // (height * width))
    several = zip(
        *(part.split(at_once) for part in (batch.pictures, batch.question_ids, batch.answer_ids)), strict=True
    )
    parts = [picture_credit(model, *part) for part in several]
    return Credit(*(torch.cat(items) for items in zip(*parts, strict=True)))


def picture_credit(model: PreTrainedModel, pictures: Tensor, question_ids: Tensor, answer_ids: Tensor) -> Credit:
    """The same for pictures (B, 3, H, W) uint8 of whole cells, questions (B, Q) and answers (B, A), 0 = padding."""
    height, width = pictures.shape[2:]
    rows, cols = height // CELL, width // CELL
    pixels = normalise_pictures(pictures)
    blurred = F.interpolate(F.avg_pool2d(pixels, BLUR), scale_factor=BLUR, mode="bilinear", align_corners=False)
    with torch.enable_grad():
        sharpness = torch.ones(len(pictures), 1, rows, cols, device=pixels.device, requires_grad=True)
        seen = blurred + F.interpolate(sharpness, scale_factor=CELL, mode="nearest") * (pixels - blurred)
        table = torch.from_numpy(build_tree(rows, cols, 0).nodes_table).to(pixels.device)
        leaves = table.expand(len(pictures), -1, -1)
        vision = model.config.vision_config
        merge, patch = vision.spatial_merge_size, vision.patch_size
        pyramid = mip_pyramid(seen, 1, cell=CELL, patch_size=patch)
        patches = gather_leaf_patches(pyramid, leaves, merge=merge, temporal=vision.temporal_patch_size)
        said, wanted, chances = answer_chances(model, question_ids, answer_ids, patches, leaves, (rows, cols))
        each = chances.gather(1, wanted[:, None])[:, 0]
        (cells,) = torch.autograd.grad(each.sum(), sharpness)
    owner, each = said.nonzero()[:, 0], each.detach()
    total = torch.zeros(len(pictures), device=each.device).index_add_(0, owner, each)
    missed = torch.zeros_like(total).index_add_(0, owner, (chances.detach().argmax(-1) != wanted).float())
    return Credit(cells[:, 0].float(), total / said.sum(1), missed == 0)


def credit_shares(cells: Tensor) -> Tensor:
    """(B, rows, cols) derivatives → shares of each picture's credit, summing to 1: squares, so that a few cells that
    matter outweigh many that hardly do. All zero where nothing mattered or the derivative is not a number."""
    energy = torch.nan_to_num(cells.float(), nan=0.0, posinf=0.0, neginf=0.0).square()
    total = energy.sum((1, 2), keepdim=True)
    return torch.where(total > 0, energy / total.clamp_min(torch.finfo(energy.dtype).tiny), torch.zeros_like(energy))


# Of the tokens, what the proof of a credit may spend; and what a picture counts whose credit is not proven.
PROOF_KEEP, UNPROVEN = 1 / 8, 0.1


class Proven(NamedTuple):
    """shares: (B, rows, cols) of each picture's credit. weights: (B,), 1 where the answer is right with leaves laid by
    these shares alone. right: (B,) bool, with everything seen."""

    shares: Tensor
    weights: Tensor
    right: Tensor


def proven_credit(model: PreTrainedModel, batch: TrainingBatch, keep: float = PROOF_KEEP, most: int = 2048) -> Proven:
    """The derivative as it is, spread along its row (print runs along it), and spread all around (things are round):
    leaves are laid by each, and the one from which the answer is likeliest is the credit."""
    found = detail_credit(model, batch)
    plain = credit_shares(found.cells)[:, None]
    several = torch.cat([plain, F.avg_pool2d(plain, (1, 3), 1, (0, 1)), F.avg_pool2d(plain, 3, 1, 1)], 1)
    budget = max(1, round(keep * several[0, 0].numel()))
    leaves = overlay(several.flatten(0, 1), [budget] * (3 * len(plain))).cells.unflatten(0, (-1, 3))
    judged = judge(model, batch, leaves, most)
    best = judged.log_likelihood.argmax(1)
    each = torch.arange(len(best), device=best.device)
    shares, right = several[each, best], judged.right[each, best]
    shares = shares / shares.sum((1, 2), keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)
    return Proven(shares, torch.where(right, 1.0, UNPROVEN), found.right)


def credit_loss(cell_logits: Tensor, shares: Tensor, weights: Tensor | None = None) -> Tensor:
    """Cross entropy of the map's mass (as `policy.node_logits` and the quadtree read it) against the credit's shares.

    (B, rows, cols) logits, shares of `credit_shares`, (B,) weights of the pictures → scalar, 0 at best up to the
    entropy of the shares. At the optimum a cell's share of the relevance is its expected share of the credit.
    """
    return share_loss(F.logsigmoid(cell_logits.float()), shares, weights)


# What one cell by itself counts beside all of them as one distribution.
EACH_WEIGHT = 3.0
# A derivative this much smaller than the picture's greatest is noise: half of all credit would lie on such cells.
SLIGHT = 0.1


def marked_loss(cell_logits: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
    """Logits and what is wanted of every cell (B, rows, cols) in [0, 1], (B,) weights of the pictures → scalar: the
    mass of the map as shares of the picture, and every cell by itself."""
    shares = wanted / wanted.sum((1, 2), keepdim=True).clamp_min(1e-6)
    each = F.binary_cross_entropy_with_logits(cell_logits.float(), wanted, reduction="none").mean((1, 2))
    return credit_loss(cell_logits, shares, weights) + EACH_WEIGHT * (each * weights).mean()


def credit_marks(shares: Tensor) -> Tensor:
    """(B, rows, cols) shares of the credit → what is wanted of each cell: 1 for the cell that matters most, and by the
    size of the derivative, not its square, so that an answer's other cells are wanted too; nothing of those that matter
    but slightly, which are many."""
    size = (shares / shares.amax((1, 2), keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)).sqrt()
    return torch.where(size < SLIGHT, 0.0, size)


def share_loss(log_mass: Tensor, shares: Tensor, weights: Tensor | None = None) -> Tensor:
    """The same for any map, given as the logarithm of its mass."""
    each = -(shares.flatten(1) * log_mass.flatten(1).log_softmax(1)).sum(1)
    return (each if weights is None else each * weights).mean()
