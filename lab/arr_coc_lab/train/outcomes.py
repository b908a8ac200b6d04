"""What answers alone tell about where to look: a frozen reader says which cells its right answer depends on.

    arr-coc train scorer --data answers.jsonl --from outcomes --out my-scorer

`Creditor` finds boxes for own records with answers: windows of the picture are shown alone, and the one from which the
answer is likeliest is the box. `detail_credit` is the derivative: think of each cell as faded between its own pixels
and a blurred copy (what a coarse token would show); the derivative of the right answer's log-likelihood by each cell's
fading tells how much the outcome depends on seeing it sharply. It is a first-order guess, so `proven_credit` puts it to
the proof: leaves are laid where it points, and the reader answers from them alone. The policy gradient and the critic
are in `classic.learning`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import build_tree
from arr_coc.core.alphabet import IDS
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, part_folder, verify
from arr_coc.realizing.patches import LeafBatch, gather_leaf_patches, leaf_patches, mip_pyramid

from ..worlds.needle.batch import NeedleBatch
from .mini_model import chat_tail
from .own_data import OwnRecord
from .reader import normalise_pictures
from .swift import run_language, run_tower

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CELL = 32

# ---- what a frozen reader answers ------------------------------------------------------------------------------------


def load_reader(name: str | Path, device: torch.device) -> PreTrainedModel:
    """Load a frozen reader: "mini", a stock checkpoint, or a training's export; bfloat16 on a GPU."""
    from transformers import Qwen3VLForConditionalGeneration

    folder = part_folder(MINI) if str(name) == MINI else Path(name)
    found = next((one for one in (folder, folder / MINI) if os.path.isfile(one / "config.json")), None)
    if found is None:
        raise InputError(f"no reader in {folder}: expected an export of `train mini` or a checkpoint with config.json")
    verify(found)
    loaded = Qwen3VLForConditionalGeneration.from_pretrained(found, dtype=torch.float32)
    model = loaded.to(device).eval().requires_grad_(False)
    if device.type == "cuda":
        for parameter in model.parameters():  # buffers stay float32: rotary frequencies among them
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


class AskedPictures(NamedTuple):
    """Pictures (B, 3, H, W) uint8 of whole cells, questions (B, Q) and true answers (B, A), 0 = padding."""

    pictures: Tensor
    question_ids: Tensor
    answer_ids: Tensor

    @classmethod
    def of(cls, batch: NeedleBatch) -> AskedPictures:
        return cls(batch.pictures, batch.question_ids, batch.answer_ids)

    def split(self, number: int) -> list[AskedPictures]:
        """As parts of at most `number` pictures."""
        return [AskedPictures(*part) for part in zip(*(value.split(number) for value in self), strict=True)]


class Judgement(NamedTuple):
    """Both (B, G). right: every character of the answer. log_likelihood: of the right answer, mean over characters."""

    right: Tensor
    log_likelihood: Tensor


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
def judge(model: PreTrainedModel, asked: AskedPictures, leaves: Tensor, most: int = 2048) -> Judgement:
    """Leaves (B, G, N, 3), or boxes in cells (B, G, N, 4), G allocations of each picture → the reader's answers.

    The same as `reader.read` on pictures repeated G times, but pictures and their mip levels are held once, and are
    read by the swift path. most: readings at a time, for memory.
    """
    at_once = max(1, most // leaves.shape[1])
    if len(asked.pictures) > at_once:
        parts = [judge(model, *one, most) for one in zip(asked.split(at_once), leaves.split(at_once), strict=True)]
        return Judgement(*map(torch.cat, zip(*parts, strict=True)))
    pictures = asked.pictures
    group = leaves.shape[1]
    vision = model.config.vision_config
    merge, size = vision.spatial_merge_size, vision.patch_size
    grid = pictures.shape[2] // (merge * size), pictures.shape[3] // (merge * size)
    levels = int(leaves[..., 2].max()) + 1 if leaves.shape[-1] == 3 else 1
    owner = torch.arange(len(pictures), device=leaves.device).repeat_interleave(group * leaves.shape[2])
    size_of_grid = torch.tensor(grid, device=leaves.device).expand(len(pictures), 2)
    each = LeafBatch(leaves.flatten(0, 2), owner, size_of_grid, (group * leaves.shape[2],) * len(pictures), levels)
    cutter = leaf_patches(
        normalise_pictures(pictures), each, merge=merge, patch_size=size, temporal=vision.temporal_patch_size
    )
    patches = cutter(each)
    questions, answers = (ids.repeat_interleave(group, dim=0) for ids in asked[1:])
    said, wanted, chances = answer_chances(model, questions, answers, patches, leaves.flatten(0, 1), grid)
    right, log_likelihood = answers_of(said, wanted, chances)
    return Judgement(right.unflatten(0, (-1, group)), log_likelihood.unflatten(0, (-1, group)))


def answers_of(said: Tensor, wanted: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    """What `answer_chances` gives → (B,) whether every character is right, (B,) the mean log-likelihood of the right
    ones."""
    owner, chances = said.nonzero()[:, 0], chances.detach()
    nothing = torch.zeros(len(said), device=chances.device)
    missed = nothing.index_add(0, owner, (chances.argmax(-1) != wanted).float())
    total = nothing.index_add(0, owner, chances.gather(1, wanted[:, None])[:, 0])
    return missed == 0, total / said.sum(1)


BLUR = 4  # cells fade towards what a leaf of level 2 would show
# Share of the tokens that the proof of a credit may spend; and what a picture counts whose credit is not proven.
PROOF_KEEP, UNPROVEN = 1 / 8, 0.1


class Credit(NamedTuple):
    """cells: (B, rows, cols) derivative of the answer's log-likelihood by each cell's detail. right: (B,) bool, with
    the whole picture seen."""

    cells: Tensor
    right: Tensor


def detail_credit(model: PreTrainedModel, asked: AskedPictures, most: int = 256) -> Credit:
    """Read whole pictures once, with the derivative. most: pictures of 512² at a time (more of smaller ones)."""
    pictures, question_ids, answer_ids = asked
    height, width = pictures.shape[2:]
    at_once = max(1, most * 512**2 // (height * width))
    if len(pictures) > at_once:
        parts = [detail_credit(model, part, most) for part in asked.split(at_once)]
        return Credit(*map(torch.cat, zip(*parts, strict=True)))
    rows, cols = height // CELL, width // CELL
    pixels = normalise_pictures(pictures)
    blurred = F.interpolate(F.avg_pool2d(pixels, BLUR), scale_factor=BLUR, mode="bilinear", align_corners=False)
    with torch.enable_grad():
        sharpness = torch.ones(len(pictures), 1, rows, cols, device=pixels.device, requires_grad=True)
        seen = blurred + F.interpolate(sharpness, scale_factor=CELL, mode="nearest") * (pixels - blurred)
        table = torch.from_numpy(build_tree(rows, cols, 0).nodes_table).to(pixels.device)
        leaves = table.expand(len(pictures), -1, -1)
        vision = model.config.vision_config
        pyramid = mip_pyramid(seen, 1, cell=CELL, patch_size=vision.patch_size)
        patches = gather_leaf_patches(
            pyramid, leaves, merge=vision.spatial_merge_size, temporal=vision.temporal_patch_size
        )
        said, wanted, chances = answer_chances(model, question_ids, answer_ids, patches, leaves, (rows, cols))
        each = chances.gather(1, wanted[:, None])[:, 0]
        (cells,) = torch.autograd.grad(each.sum(), sharpness)
    return Credit(cells[:, 0].float(), answers_of(said, wanted, chances)[0])


def credit_shares(cells: Tensor) -> Tensor:
    """(B, rows, cols) derivatives → shares of each picture's credit, summing to 1: squares, so that a few cells that
    matter outweigh many that hardly do. All zero where nothing mattered or the derivative is not a number."""
    energy = torch.nan_to_num(cells.float(), nan=0.0, posinf=0.0, neginf=0.0).square()
    total = energy.sum((1, 2), keepdim=True)
    return torch.where(total > 0, energy / total.clamp_min(torch.finfo(energy.dtype).tiny), torch.zeros_like(energy))


class Proven(NamedTuple):
    """shares: (B, rows, cols) of each picture's credit. weights: (B,), 1 where the answer is right with leaves laid by
    these shares alone. right: (B,) bool, with everything seen."""

    shares: Tensor
    weights: Tensor
    right: Tensor


def proven_credit(model: PreTrainedModel, asked: AskedPictures) -> Proven:
    """Try the derivative as it is, spread along its row (as print runs), and spread all around (as things are): leaves
    are laid by each, and the one from which the answer is likeliest is the credit."""
    found = detail_credit(model, asked)
    plain = credit_shares(found.cells)[:, None]
    several = torch.cat([plain, F.avg_pool2d(plain, (1, 3), 1, (0, 1)), F.avg_pool2d(plain, 3, 1, 1)], 1)
    budget = max(1, round(PROOF_KEEP * several[0, 0].numel()))
    leaves = overlay(several.flatten(0, 1), [budget] * (3 * len(plain))).cells.unflatten(0, (-1, 3))
    judged = judge(model, asked, leaves)
    best = judged.log_likelihood.argmax(1)
    each = torch.arange(len(best), device=best.device)
    shares, right = several[each, best], judged.right[each, best]
    shares = shares / shares.sum((1, 2), keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)
    return Proven(shares, torch.where(right, 1.0, UNPROVEN), found.right)


def share_loss(log_mass: Tensor, shares: Tensor, weights: Tensor | None = None) -> Tensor:
    """Cross-entropy of a map, given as the logarithm of its mass, against shares of what its picture needs."""
    each = -(shares.flatten(1) * log_mass.flatten(1).log_softmax(1)).sum(1)
    return (each if weights is None else each * weights).mean()


# ---- own records with answers only -----------------------------------------------------------------------------------

# Cells across of the windows that the reader is shown; at `mini`'s type a cell holds two characters or more.
WIDTHS = (4, 12)
NOTHING = -20.0  # the log-likelihood of an answer on blank paper
BLANK = 16  # of 255: a cell whose pixels differ by less is blank
# What a cell of a window costs, in the answer's log-likelihood; and the share of all likelihood that must lie on
# windows that meet the best one.
CELL_PRICE, SURE = 0.5, 0.5


class Creditor:
    """Records → the same with boxes, each found once. likelihood: of the right answers, mean over those asked."""

    def __init__(self, reader: str, device: torch.device) -> None:
        self.reader = load_reader(reader, device)
        self.found: dict[tuple[str, str, str], tuple[list[list[float]], float]] = {}

    def placed(self, record: OwnRecord) -> OwnRecord:
        key = record.picture, record.query, record.answer
        if key not in self.found:
            boxes, log = window_boxes(self.reader, record.pixels, record.query, record.answer)
            self.found[key] = boxes.tolist(), log
        boxes = np.array(self.found[key][0]).reshape(-1, 4)
        return replace(record, boxes=boxes, context=np.zeros((0, 4)))

    @property
    def likelihood(self) -> float:
        """Geometric mean over the characters of the answers."""
        return float(np.exp(np.mean([log for _, log in self.found.values()]))) if self.found else 0.0


def window_boxes(reader: PreTrainedModel, pixels: np.ndarray, query: str, answer: str) -> tuple[np.ndarray, float]:
    """(K, 4) box in 0–1 of the cells from which, and from nothing else, the answer is likeliest, and its mean
    log-likelihood there. No box where several places would do.

    Windows of two rows, as wide as the answer may be long, are each shown alone, all over the picture. Of the best one
    every smaller window is tried, and cells are left out as long as the answer does not lose more than they cost."""
    device = next(reader.parameters()).device
    rows, cols = (max(1, round(side / CELL)) for side in pixels.shape[:2])
    picture = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].to(device)
    if picture.shape[2:] != (rows * CELL, cols * CELL):
        resized = F.interpolate(picture.float(), (rows * CELL, cols * CELL), mode="bilinear", antialias=True)
        picture = resized.round().clamp(0, 255).to(torch.uint8)
    asked = (torch.tensor([[IDS.get(letter, IDS["?"]) for letter in text]]) for text in (query, answer))
    batch = AskedPictures(picture, *(ids.to(device) for ids in asked))
    said = len(answer) + 1  # and the end of the turn

    def worth(windows: np.ndarray) -> np.ndarray:
        """(W, 4) windows of one size → (W,): log-likelihood of the whole answer, each of them seen alone."""
        leaves = torch.from_numpy(window_leaves(windows)).to(device)[None]
        return judge(reader, batch, leaves).log_likelihood[0].float().cpu().numpy() * said

    high, wide = min(2, rows), min(cols, int(np.clip(2 + -(-len(answer) // 2), *WIDTHS)))
    lefts = np.unique(np.append(np.arange(0, cols - wide + 1, max(1, wide // 2)), cols - wide))
    windows = windows_at(np.arange(rows - high + 1), lefts, high, wide)
    cells = window_leaves(windows)
    windows = windows[marked_cells(picture)[cells[..., 0], cells[..., 1]].any(1)]
    if not len(windows):
        return np.zeros((0, 4)), NOTHING
    logs = worth(windows)
    best = windows[logs.argmax()]
    chances = np.exp(logs - logs.max())
    meets = (windows[:, :2] < best[2:]).all(1) & (best[:2] < windows[:, 2:]).all(1)
    if chances[meets].sum() < SURE * chances.sum():
        return np.zeros((0, 4)), float(logs.max()) / said
    inside = windows_inside(best)
    prices = [worth(part) - CELL_PRICE * np.prod(part[0, 2:] - part[0, :2]) for part in inside]
    top, left, bottom, right = np.concatenate(inside)[np.concatenate(prices).argmax()]
    return np.array([[left / cols, top / rows, right / cols, bottom / rows]]), float(logs.max()) / said


def marked_cells(picture: Tensor) -> np.ndarray:
    """(rows, cols) bool: where (1, 3, H, W) bytes are not all alike; on blank paper there is nothing to read."""
    grey = picture.float().mean(1, keepdim=True)
    spread = F.max_pool2d(grey, CELL) + F.max_pool2d(-grey, CELL)
    return (spread[0, 0] > BLANK).cpu().numpy()


def windows_at(tops: np.ndarray, lefts: np.ndarray, high: int, wide: int) -> np.ndarray:
    """(W, 4) top, left, bottom, right in cells: a window of this size at each of the places."""
    top, left = (grid.ravel() for grid in np.meshgrid(tops, lefts, indexing="ij"))
    return np.stack([top, left, top + high, left + wide], 1)


def windows_inside(window: np.ndarray) -> list[np.ndarray]:
    """(W, 4) for each size: every window of that size inside one."""
    top, left, bottom, right = window.tolist()
    return [
        windows_at(np.arange(top, bottom - high + 1), np.arange(left, right - wide + 1), high, wide)
        for high in range(1, bottom - top + 1)
        for wide in range(1, right - left + 1)
    ]


def window_leaves(windows: np.ndarray) -> np.ndarray:
    """(W, 4) windows of one size → (W, N, 3) their cells, in raster order."""
    high, wide = windows[0, 2:] - windows[0, :2]
    down, across = (grid.ravel() for grid in np.meshgrid(np.arange(high), np.arange(wide), indexing="ij"))
    row, col = windows[:, :1] + down, windows[:, 1:2] + across
    return np.stack([row, col, np.zeros_like(row)], -1)
