"""Clusters → channels: cluster_id, cluster_distance, cluster_size."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F


def cluster_channels(labels: np.ndarray, size: tuple[int, int]) -> dict[str, np.ndarray]:
    """From (h, w) labels, three (H, W) float32 maps.

    cluster_id: the label itself. cluster_distance: distance to the cluster's centroid over the picture's largest such
    distance. cluster_size: the cluster's share of the area.
    """
    import cv2

    flat = labels.ravel()
    height, width = labels.shape
    sizes = np.bincount(flat)
    y = np.repeat((np.arange(height, dtype=np.float32) + 0.5) * (size[0] / height), width)
    x = np.tile((np.arange(width, dtype=np.float32) + 0.5) * (size[1] / width), height)
    share = (sizes / flat.size).astype(np.float32)
    sizes = np.maximum(sizes, 1)
    centre_y = (np.bincount(flat, y) / sizes).astype(np.float32)
    centre_x = (np.bincount(flat, x) / sizes).astype(np.float32)
    distance = np.hypot(y - centre_y[flat], x - centre_x[flat])
    distance /= max(float(distance.max()), 1e-6)
    maps = {"cluster_id": labels, "cluster_distance": distance, "cluster_size": share[flat]}
    return {
        name: cv2.resize(
            values.reshape(height, width).astype(np.float32), size[::-1], interpolation=cv2.INTER_NEAREST_EXACT
        )
        for name, values in maps.items()
    }


def cluster_channels_batch(labels: torch.Tensor, size: tuple[int, int]) -> dict[str, torch.Tensor]:
    """As `cluster_channels`, for (B, h, w) integer labels → three (B, H, W) maps, any device."""
    batch, height, width = labels.shape
    flat = labels.flatten(1).long()
    count = int(flat.max()) + 1
    y = ((torch.arange(height, device=labels.device) + 0.5) * (size[0] / height)).repeat_interleave(width)
    x = ((torch.arange(width, device=labels.device) + 0.5) * (size[1] / width)).repeat(height)
    values = torch.stack([torch.ones_like(y), y, x]).expand(batch, 3, -1)
    index = flat[:, None].expand_as(values)
    sums = torch.zeros((batch, 3, count), device=labels.device).scatter_add_(2, index, values)
    sizes = sums[:, :1].clamp_min(1)
    centre = (sums[:, 1:] / sizes).gather(2, index[:, 1:])
    distance = (values[:, 1:] - centre).square().sum(1).sqrt()
    distance = distance / distance.amax(1, keepdim=True).clamp_min(1e-6)
    share = sums[:, 0].gather(1, flat) / flat.shape[1]
    maps = torch.stack([flat.float(), distance, share], 1).unflatten(2, (height, width))
    identifier, far, area = F.interpolate(maps, size=size, mode="nearest-exact").unbind(1)
    return {"cluster_id": identifier, "cluster_distance": far, "cluster_size": area}
