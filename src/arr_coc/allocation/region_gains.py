"""What regions are worth: relevance pooled by cluster, so that clusters and not single places decide."""

from __future__ import annotations

import numpy as np

# Of a cluster's score: its relevance, its saliency, its size, each beside the best cluster's.
WEIGHTS = (0.7, 0.2, 0.1)


def region_scores(
    relevance: np.ndarray, labels: np.ndarray, saliency: np.ndarray | None = None, count: int = 0
) -> np.ndarray:
    """Maps (h, w) → (n,) in [0, 1]: what a token gains in each cluster; −inf for a label that does not occur."""
    flat = labels.ravel()
    sizes = np.bincount(flat, minlength=count)
    shares = np.maximum(sizes, 1)
    parts = [np.bincount(flat, relevance.ravel(), len(sizes)) / shares]
    parts.append(0 * parts[0] if saliency is None else np.bincount(flat, saliency.ravel(), len(sizes)) / shares)
    parts.append(sizes.astype(np.float64))
    beside = [np.clip(part, 0, None) / max(float(part.max()), 1e-12) for part in parts]
    return np.where(sizes > 0, sum(weight * part for weight, part in zip(WEIGHTS, beside, strict=True)), -np.inf)
