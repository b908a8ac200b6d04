"""Superpixels of one picture: SLIC on L*a*b* at a reduced resolution, by scikit-image; and as channels."""

from __future__ import annotations

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from skimage import segmentation
from torch import Tensor

from arr_coc.core.arrays import sized

# Found on a view of at most this many pixels along the longer side.
VIEW = 256
COUNT, ITERATIONS = 50, 5
# Weight of place against colour: SLIC's "m". Ten is the paper's middle ground between tidy and faithful.
COMPACTNESS = 10.0
# Pieces below this share of the area are merged into a neighbour.
SMALLEST = 0.01


def superpixels(pixels: np.ndarray, count: int = COUNT) -> np.ndarray:
    """Cut a picture (H, W, 3) uint8 into about `count` connected pieces.

    Returns:
        (h, w) int32 labels 0…n-1, none missing, at most `VIEW` along a side; one label where a picture is too small.
    """
    small = cv2.resize(pixels, sized(pixels.shape[:2], VIEW)[::-1], interpolation=cv2.INTER_AREA)
    height, width = small.shape[:2]
    if min(height, width) < 4 or round((height * width / count) ** 0.5) < 2:
        return np.zeros((height, width), dtype=np.int32)
    lab = cv2.GaussianBlur(cv2.cvtColor(small, cv2.COLOR_RGB2Lab), (3, 3), 0).astype(np.float32)
    # scikit-image stretches colours to [0, 1] first: the weight of place shrinks with them.
    compactness = COMPACTNESS / max(float(np.ptp(lab)), 1.0)
    how = {"max_num_iter": ITERATIONS, "convert2lab": False, "start_label": 0}
    return merge_small(segmentation.slic(lab, n_segments=count, compactness=compactness, **how))


def merge_small(labels: np.ndarray) -> np.ndarray:
    """Merge pieces that are too small into their largest neighbour, the smallest first; labels become 0…n-1."""
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    while True:
        _, flat, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        labels = flat.reshape(labels.shape).astype(np.int32)
        if len(sizes) == 1 or sizes.min() >= SMALLEST * labels.size:
            return labels
        inside = labels == sizes.argmin()
        around = np.unique(labels[(cv2.dilate(inside.astype(np.uint8), cross) > 0) & ~inside])
        labels[inside] = around[sizes[around].argmax()]


def cluster_channels(labels: Tensor, size: tuple[int, int]) -> dict[str, Tensor]:
    """Make three maps (B, H, W) of integer labels (B, h, w).

    cluster_id: the label itself. cluster_distance: distance to the cluster's centroid over the picture's largest such
    distance. cluster_size: the cluster's share of the area.
    """
    batch, height, width = labels.shape
    flat = labels.flatten(1).long()
    count = int(flat.max()) + 1
    y = ((torch.arange(height, device=labels.device) + 0.5) * (size[0] / height)).repeat_interleave(width)
    x = ((torch.arange(width, device=labels.device) + 0.5) * (size[1] / width)).repeat(height)
    values = torch.stack([torch.ones_like(y), y, x]).expand(batch, 3, -1)
    index = flat[:, None].expand_as(values)
    sums = torch.zeros((batch, 3, count), device=labels.device).scatter_add_(2, index, values)
    centre = (sums[:, 1:] / sums[:, :1].clamp_min(1)).gather(2, index[:, 1:])
    distance = (values[:, 1:] - centre).square().sum(1).sqrt()
    distance = distance / distance.amax(1, keepdim=True).clamp_min(1e-6)
    share = sums[:, 0].gather(1, flat) / flat.shape[1]
    maps = torch.stack([flat.float(), distance, share], 1).unflatten(2, (height, width))
    names = ("cluster_id", "cluster_distance", "cluster_size")
    return dict(zip(names, F.interpolate(maps, size=size, mode="nearest-exact").unbind(1), strict=True))
