"""From pictures and leaves to the patches that a vision tower reads, at mixed resolution.

A leaf (row, col, level) covers 2**level × 2**level level-0 cells and becomes one token: the cell's pixels at
1 / 2**level of full resolution, cut into merge × merge patches. All leaves of all pictures, of any size and level, are
fetched by one gather from one table (`PatchPyramid`): every patch row is P neighbouring pixels of some mip level.
Tokens of the classic scale are boxes of any size (`area_patches`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..attending.leaves import tokens_of
from ..core.errors import InputError
from ..core.values import Allocation

if TYPE_CHECKING:
    from transformers import ProcessorMixin

# (B, C, H, W), or a list of pictures (C, H, W) of any sizes.
Pictures = Tensor | Sequence[Tensor]


@dataclass(frozen=True)
class PatchPyramid:
    """The mip levels of a batch of pictures as one table of patch rows.

    rows: (S, P) every run of P neighbouring pixels of every level, channel and picture.
    start: (pictures, levels) int64, the table row at which a level of a picture begins.
    height: (pictures, levels) int64, pixel rows of that level. width: (pictures, levels) int64, its runs per pixel row.
    cell: pixels on the side of a token at level 0. channels: colour channels.
    """

    rows: Tensor
    start: Tensor
    height: Tensor
    width: Tensor
    cell: int
    channels: int

    @property
    def patch_size(self) -> int:
        return self.rows.shape[1]


@dataclass(frozen=True)
class LeafBatch:
    """The leaves of a batch of pictures, packed picture after picture.

    leaves: (M, 3) int64 row, col, level, or (M, 4) float32 top, left, height, width in cells, of any sizes.
    owner: (M,) int64, the picture of each. grid: (pictures, 2) int64 rows and cols of level-0 tokens. counts: leaves of
    each picture, as numbers, so that a GPU need not be asked. levels: more than the coarsest leaf's.
    """

    leaves: Tensor
    owner: Tensor
    grid: Tensor
    counts: tuple[int, ...]
    levels: int

    @classmethod
    def of(cls, allocations: Sequence[Allocation], device: torch.device | str = "cpu") -> LeafBatch:
        """Allocations of any sizes and budgets, in raster order each."""
        return cls.pack([tokens_of(one) for one in allocations], [one.grid for one in allocations], device)

    @classmethod
    def pack(
        cls, parts: Sequence[np.ndarray], grids: Sequence[tuple[int, int]], device: torch.device | str = "cpu"
    ) -> LeafBatch:
        """Return the leaves (N, 3) or (N, 4) and the grid of each picture."""
        counts = tuple(len(part) for part in parts)
        fractional = any(part.shape[1] == 4 for part in parts)
        leaves = [torch.from_numpy(part) for part in parts]
        leaves = torch.cat([leaf_boxes(part) for part in leaves] if fractional else leaves)
        levels = 1 if fractional else int(leaves[:, 2].max()) + 1
        owner = torch.arange(len(parts)).repeat_interleave(torch.tensor(counts))
        tensors = (one.to(device, non_blocking=True) for one in (leaves, owner, torch.tensor(grids)))
        return cls(*tensors, counts=counts, levels=levels)

    @classmethod
    def equal(cls, leaves: Tensor, grid: tuple[int, int], levels: int) -> LeafBatch:
        """Return an equal-length batch that may already be on a GPU: leaves (B, N, 3), all pictures of one grid."""
        batch, number = leaves.shape[:2]
        owner = torch.arange(batch, device=leaves.device).repeat_interleave(number)
        size = torch.tensor(grid, device=leaves.device).expand(batch, 2)
        flat = leaves.flatten(0, 1)
        return cls(flat.long() if flat.shape[1] == 3 else flat, owner, size, (number,) * batch, levels)

    @property
    def fractional(self) -> bool:
        return self.leaves.shape[1] == 4


def unpatchify(
    patches: Tensor, sizes: Sequence[tuple[int, int]], patch_size: int, merge: int, temporal: int
) -> list[Tensor]:
    """Return the pictures (C, H, W) in a processor's `pixel_values`; exact, because level-0 patches tile the picture.

    patches: (sum of rows·cols, C·T·P·P) in merge-block order. sizes: (patch rows, patch cols) of each picture.
    The T temporal copies of a still picture are equal, the first is taken.
    """
    channels, counts = patches.shape[1] // (temporal * patch_size**2), [rows * cols for rows, cols in sizes]
    if sum(counts) != len(patches):
        raise InputError(f"pixel_values has {len(patches)} patches but the grids {list(sizes)} need {sum(counts)}")
    pictures = []
    for part, (rows, cols) in zip(patches.split(counts), sizes, strict=True):
        blocks = part.view(rows // merge, cols // merge, merge, merge, channels, temporal, patch_size, patch_size)
        picture = blocks[:, :, :, :, :, 0].permute(4, 0, 2, 5, 1, 3, 6)  # C, block row, row in it, y, and so across
        pictures.append(picture.reshape(channels, rows * patch_size, cols * patch_size))
    return pictures


def denormalize(pixels: Tensor, processor: ProcessorMixin) -> Tensor:
    """Convert (…, 3, H, W) as the encoder sees them -> float32 in [0, 1]."""
    image_processor = getattr(processor, "image_processor", processor)
    mean, std = getattr(image_processor, "image_mean", None), getattr(image_processor, "image_std", None)
    pixels = pixels.float()
    if getattr(image_processor, "do_normalize", True) and mean is not None and std is not None:
        both = torch.tensor([mean, std], dtype=torch.float32).to(pixels.device, non_blocking=True)
        mean, std = both[..., None, None]
        pixels = pixels * std + mean
    return pixels.clamp(0, 1)


def mip_pyramid(pictures: Pictures, levels: int, cell: int = 32, patch_size: int = 16) -> PatchPyramid:
    """Levels 0 … levels-1 of all pictures, each level the 2×2 average of the one below; edges are replicated."""
    start, height, width = (np.zeros((len(pictures), levels), dtype=np.int64) for _ in range(3))
    tables: list[Tensor] = []
    filled, first = 0, 0
    for plane in [pictures] if isinstance(pictures, Tensor) else [one[None] for one in pictures]:
        members = np.arange(first, first + len(plane))
        first += len(plane)
        for level in range(levels):
            if level:
                # Canvas sides are multiples of the cell, so padding to even only happens beyond level log2(cell).
                plane = F.avg_pool2d(_pad_to_multiple(plane, 2), 2)
            padded = _pad_to_multiple(plane, cell)
            tables.append(padded.reshape(-1, patch_size))
            runs = padded.shape[3] // patch_size
            height[members, level], width[members, level] = padded.shape[2], runs
            start[members, level] = filled + np.arange(len(members)) * padded.shape[1] * padded.shape[2] * runs
            filled += len(tables[-1])
    rows = torch.cat(tables)
    layout = torch.from_numpy(np.stack([start, height, width])).to(rows.device, non_blocking=True)
    return PatchPyramid(rows, *layout, cell, pictures[0].shape[0])


def gather_leaf_patches(
    pyramid: PatchPyramid, leaves: Tensor, owner: Tensor | None = None, *, merge: int = 2, temporal: int = 2
) -> Tensor:
    """Patches of all leaves, in merge-block order, by one gather.

    leaves: (B, N, 3) for an equal-length batch, or (M, 3) packed with owner (M,), the picture of each leaf.
    Returns (leaves·merge², C·T·P·P), the layout of a Qwen processor's `pixel_values`.
    """
    size, device = pyramid.patch_size, pyramid.rows.device
    leaves = leaves.to(device)
    if owner is None:
        owner = torch.arange(len(leaves), device=device)[:, None].expand(leaves.shape[:2]).flatten()
    row, col, level = leaves.reshape(-1, 3).unbind(1)
    owner = owner.to(device)
    first, height, runs = (table[owner, level] for table in (pyramid.start, pyramid.height, pyramid.width))
    # Where the leaf begins at its own level: in pixel rows, and in runs of P pixels.
    top = (row >> level) * pyramid.cell
    left = (col >> level) * (pyramid.cell // size)
    block = torch.arange(merge, device=device)
    line = top[:, None, None] + block[:, None] * size + torch.arange(size, device=device)  # leaf, block row, y
    channel = torch.arange(pyramid.channels, device=device)
    # (leaf, block row, block col, channel, time, y) -> table row; time copies the still picture
    index = (
        first[:, None, None, None, None]
        + (channel[:, None] * height[:, None, None, None, None] + line[:, :, None, None, :])
        * runs[:, None, None, None, None]
        + (left[:, None] + block)[:, None, :, None, None]
    )
    index = index[:, :, :, :, None, :].expand(-1, -1, -1, -1, temporal, -1)
    picked = pyramid.rows.index_select(0, index.reshape(-1))
    return picked.view(-1, pyramid.channels * temporal * size * size)


def leaf_patches(
    pictures: Pictures, batch: LeafBatch, *, merge: int = 2, patch_size: int = 16, temporal: int = 2
) -> Tensor:
    """Cut the patches of the batch from its pictures: by mip levels, or by area where sizes are fractional."""
    if batch.fractional:
        size = {"merge": merge, "patch_size": patch_size, "temporal": temporal}
        return area_patches(pictures, batch.leaves, batch.owner, **size)
    pyramid = mip_pyramid(pictures, batch.levels, cell=merge * patch_size, patch_size=patch_size)
    return gather_leaf_patches(pyramid, batch.leaves, batch.owner, merge=merge, temporal=temporal)


def leaf_boxes(leaves: Tensor) -> Tensor:
    """Leaves (M, 3) as the boxes (M, 4) float32 that they cover; boxes stay what they are."""
    if leaves.shape[1] == 4:
        return leaves.float()
    return torch.cat([leaves[:, :2], (1 << leaves[:, 2:]).expand(-1, 2)], 1).float()


def area_patches(
    pictures: Pictures, boxes: Tensor, owner: Tensor, *, merge: int = 2, patch_size: int = 16, temporal: int = 2
) -> Tensor:
    """Patches of tokens of any size, in the layout of `gather_leaf_patches`: every pixel of a token is the mean of the
    ground under it, exactly, so that a box of one whole cell gives that cell's own pixels.

    boxes: (M, 4) top, left, height, width in cells. owner: (M,). Beyond the edge the edge is repeated.
    """
    cell, made = merge * patch_size, []

    def weights(start: float, length: float, size: int) -> tuple[Tensor, Tensor]:
        """Pixels of one axis under a token, and the share (cell, pixels) of each in the token's own."""
        span = torch.arange(math.ceil(length) + 1)
        edges = start % 1 + torch.arange(cell + 1).double() * (length / cell)
        shared = torch.minimum(edges[1:, None], span + 1.0) - torch.maximum(edges[:-1, None], span.double())
        share = shared.clamp_min(0) / shared.clamp_min(0).sum(1, keepdim=True)
        return (math.floor(start) + span).clamp(0, size - 1).to(picture.device), share.to(picture)

    for number, (top, left, height, width) in zip(owner.tolist(), (boxes.double() * cell).tolist(), strict=True):
        picture = pictures[number]
        rows, down = weights(top, height, picture.shape[1])
        cols, across = weights(left, width, picture.shape[2])
        made.append(down @ picture[:, rows][:, :, cols] @ across.T)
    blocks = torch.stack(made).unflatten(3, (merge, -1)).unflatten(2, (merge, -1)).permute(0, 2, 4, 1, 3, 5)
    return blocks[:, :, :, :, None].expand(-1, -1, -1, -1, temporal, -1, -1).reshape(len(boxes) * merge**2, -1)


def _pad_to_multiple(plane: Tensor, multiple: int) -> Tensor:
    """Replicate the right and bottom edge of (B, C, H, W) up to a multiple; the same tensor where none is needed."""
    bottom, right = -plane.shape[2] % multiple, -plane.shape[3] % multiple
    return F.pad(plane, (0, right, 0, bottom), mode="replicate") if bottom or right else plane
