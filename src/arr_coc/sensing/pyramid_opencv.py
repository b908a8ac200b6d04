"""The levels of a pyramid on a CPU, plane by plane: OpenCV for means, numpy for maxima and votes, on all threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import torch

from .blocks import NOTHING, majority
from .layout import Layout
from .recycling import texture_memory

# Ballot boxes (cells × clusters) above which sorting needs less memory than counting.
MOST_BALLOTS = 1 << 24


def reduce_planes(data: torch.Tensor, layout: Layout, levels: int, height: int, width: int) -> list[torch.Tensor]:
    """(B, C, H, W) → (B, C, H/2^k, W/2^k) for k = 1 … levels-1, each plane by its reducer.

    data has zeros in the padding, beyond `height` and `width`: means are left as sums over picture and padding
    together, for the caller to divide. Maxima are unharmed by zeros; padding gets no vote.
    """
    planes = data.contiguous().numpy().reshape(-1, *data.shape[-2:])
    full = planes.shape[-2:]
    results = [texture_memory.take((len(planes), full[0] >> level, full[1] >> level)) for level in range(1, levels)]
    kinds = [one.reducer for one in layout.channels] * data.shape[0]

    def reduce(place: int) -> None:
        plane = planes[place]
        if kinds[place] == "majority":
            _vote(plane, [result[place] for result in results], height, width)
            return
        for result in results:
            target = result[place]
            if kinds[place] == "maximum":
                extreme(plane, np.maximum, target)
            else:
                cv2.resize(plane, target.shape[::-1], dst=target, interpolation=cv2.INTER_AREA)
            plane = target

    # Votes take longest, so they start first.
    order = sorted(range(len(planes)), key=lambda place: kinds[place] != "majority")
    threads = torch.get_num_threads()
    if threads > 1 and planes.size > 1 << 20:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(reduce, order))
    else:
        list(map(reduce, order))
    return [torch.from_numpy(result).unflatten(0, tuple(data.shape[:2])) for result in results]


def extreme(plane: np.ndarray, which: np.ufunc, out: np.ndarray | None = None) -> np.ndarray:
    """The larger (np.maximum) or smaller (np.minimum) of each 2×2 block: (H, W) → (H/2, W/2)."""
    rows = which(plane[0::2], plane[1::2])
    return which(rows[:, 0::2], rows[:, 1::2], out=out)


def _vote(plane: np.ndarray, results: list[np.ndarray], height: int, width: int) -> None:
    """Write the true majority of every level, counted at the finest one.

    Nearly all blocks lie inside one cluster. They show by their smallest and largest identifier being the same, and
    need no counting.
    """
    if (height, width) != plane.shape:
        plane = plane.copy()
        plane[height:] = NOTHING
        plane[:, width:] = NOTHING
    smallest = largest = plane
    count = int(plane.max()) + 1
    for level, result in enumerate(results, start=1):
        side = 1 << level
        smallest, largest = extreme(smallest, np.minimum), extreme(largest, np.maximum)
        np.copyto(result, largest)
        rows, columns = np.nonzero(smallest != largest)
        if not len(rows):
            continue
        tiles = plane.reshape(result.shape[0], side, result.shape[1], side)[rows, :, columns, :].reshape(len(rows), -1)
        if len(rows) * count > MOST_BALLOTS:
            result[rows, columns] = majority(torch.from_numpy(tiles)).numpy()
            continue
        identifiers = tiles.astype(np.int64)
        ballots = (identifiers + np.arange(len(rows))[:, None] * count)[identifiers >= 0]
        votes = np.bincount(ballots, minlength=len(rows) * count).reshape(len(rows), count)
        result[rows, columns] = votes.argmax(1)
