"""Which parts of a frame are looked at again: bands along its longer side, the weakest first, never too many."""

from __future__ import annotations

import numpy as np

# The frame is cut into so many bands across its shorter side, of which so many may be looked at again in one frame:
# what is left waits a frame, so that no frame costs much more than another.
BANDS = 8
MOST = 1
# A band is looked at again if this share of it is weak.
SHARE = 0.02


def weak_bands(trust: np.ndarray, weak: float) -> list[tuple[slice, slice]]:
    """(h, w) trust → windows (rows, cols), each as long as the longer side; neighbouring bands are one window."""
    height, width = trust.shape
    across_rows = height <= width
    shares = (trust < weak).mean(axis=1 if across_rows else 0)
    number = min(BANDS, len(shares))
    edges = np.linspace(0, len(shares), number + 1).astype(int)
    weakness = np.add.reduceat(shares, edges[:-1]) / np.diff(edges)
    chosen = np.sort(np.argsort(-weakness, kind="stable")[:MOST])
    chosen = chosen[weakness[chosen] > SHARE]
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1) if len(chosen) else []
    spans = [slice(int(edges[run[0]]), int(edges[run[-1] + 1])) for run in runs]
    if across_rows:
        return [(span, slice(0, width)) for span in spans]
    return [(slice(0, height), span) for span in spans]
