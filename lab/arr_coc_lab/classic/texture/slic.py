"""Superpixels: SLIC on L*a*b* at a reduced resolution, by scikit-image for one picture or by torch for a batch."""

from __future__ import annotations

import numpy as np
import torch
from skimage import segmentation

from .channels import view_size

COUNT = 50
ITERATIONS = 5
# Weight of place against colour: SLIC's "m". Ten is the paper's middle ground between tidy and faithful.
COMPACTNESS = 10.0


def slic(array: np.ndarray, count: int = COUNT, iterations: int = ITERATIONS) -> np.ndarray:
    """(h, w) int32 labels, 0…n-1, n about `count`, each connected; (h, w) has at most 256 pixels along a side.

    array: (H, W, 3) RGB, uint8 or float32 in [0, 1].
    """
    import cv2

    small = cv2.resize(array, view_size(array.shape[:2])[::-1], interpolation=cv2.INTER_AREA)
    if small.dtype != np.uint8:
        small = cv2.convertScaleAbs(small, alpha=255.0)
    height, width = small.shape[:2]
    side = round((height * width / count) ** 0.5)
    if min(height, width) < 4 or side < 2:
        # Too small to cut up: one label is the honest answer.
        return np.zeros((height, width), dtype=np.int32)
    lab = cv2.cvtColor(small, cv2.COLOR_RGB2Lab).astype(np.float32)
    how = {"compactness": COMPACTNESS, "max_num_iter": iterations, "sigma": 1, "convert2lab": False, "start_label": 0}
    return compact(segmentation.slic(lab, n_segments=count, **how))


def compact(labels: np.ndarray) -> np.ndarray:
    """The same partition with labels 0…n-1, none missing, as int32."""
    used = np.bincount(labels.ravel(), minlength=1) > 0
    return (np.cumsum(used) - 1).astype(np.int32)[labels]


def slic_batch(lab: torch.Tensor, count: int = COUNT, iterations: int = 5) -> torch.Tensor:
    """(B, h, w) int64 labels from (B, 3, h, w) L*a*b*: k-means where each pixel looks at the nine seeds around it.

    Runs on any device, the whole batch at once. Unlike `slic` it does not force every superpixel to be connected.
    """
    batch, _, height, width = lab.shape
    rows = min(height, max(1, round((count * height / width) ** 0.5)))
    columns = min(width, max(1, round(count / rows)))
    seeds = rows * columns
    y = torch.arange(height, device=lab.device)
    x = torch.arange(width, device=lab.device)
    home_row, home_column = y * rows // height, x * columns // width
    spacing = (height * width / seeds) ** 0.5
    place = torch.stack(torch.meshgrid(y.float(), x.float(), indexing="ij")) * (COMPACTNESS / spacing)
    points = torch.cat([lab, place.expand(batch, -1, -1, -1)], dim=1).flatten(2)  # (B, 5, P)
    steps = torch.arange(-1, 2, device=lab.device)
    near_rows = (home_row[:, None] + steps).clamp(0, rows - 1)
    near_columns = (home_column[:, None] + steps).clamp(0, columns - 1)
    candidates = (near_rows[:, None, :, None] * columns + near_columns[None, :, None, :]).flatten(2).flatten(0, 1)
    labels = (home_row[:, None] * columns + home_column[None, :]).flatten().expand(batch, -1)
    for _ in range(iterations):
        centres = _centres(points, labels, seeds)
        best = torch.full_like(labels, torch.iinfo(torch.int64).max, dtype=torch.float32)
        for candidate in candidates.unbind(-1):
            offset = points - centres[:, :, candidate]
            distance = offset.square().sum(1)
            nearer = distance < best
            best = torch.where(nearer, distance, best)
            labels = torch.where(nearer, candidate, labels)
    return labels.unflatten(-1, (height, width))


def _centres(points: torch.Tensor, labels: torch.Tensor, seeds: int) -> torch.Tensor:
    """(B, D, seeds) means of (B, D, P) points by (B, P) labels; an empty seed sits far from all."""
    index = labels[:, None].expand_as(points)
    sums = points.new_zeros((*points.shape[:2], seeds)).scatter_add_(2, index, points)
    counts = torch.zeros_like(sums[:, :1]).scatter_add_(2, labels[:, None], torch.ones_like(points[:, :1]))
    return torch.where(counts > 0, sums / counts.clamp_min(1), 1e6)
