"""The mip pyramid of a texture, and a texture on any coarser grid: each channel shrinks by its own reducer.

Any size: the finest level is padded to a multiple of 2^(levels-1), and every level remembers how much of it is
picture. Means are taken over picture only, so averaged x and y are the true centre of what each cell shows. OpenCV
shrinks on a CPU, plane by plane on all threads; torch does it with gradients and on other devices.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F

from ..core.errors import InputError
from . import backend_torch as ops
from .backend import BackendName, get_backend, opencv_installed
from .texture import Layout, Texture

LEVELS = 5


@dataclass(frozen=True, eq=False)
class Pyramid:
    """levels[0] is the finest; level k covers 2^k × 2^k of its pixels with each of its own."""

    levels: tuple[Texture, ...]

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, level: int) -> Texture:
        return self.levels[level]


def pyramid(texture: Texture, levels: int = LEVELS, backend: BackendName = "auto") -> Pyramid:
    """The pyramid by plain reducers: mean, majority (cluster_id), maximum, and renormalised mean (semantic)."""
    padded = pad_to(texture, 1 << (levels - 1)) if levels > 1 else texture
    name = backend
    if name == "auto":
        plain = texture.data.device.type == "cpu" and not texture.data.requires_grad and opencv_installed()
        name = "opencv" if plain else "torch"
    get_backend(name)
    data = zero_padding(padded)
    if name == "opencv":
        reduced = _reduce_opencv(data, padded.layout, levels, padded.height, padded.width)
    else:
        reduced = _reduce_torch(data, padded, levels)
    return Pyramid((padded, *(_finish(padded, level, planes) for level, planes in enumerate(reduced, start=1))))


def pad_to(texture: Texture, multiple: int) -> Texture:
    """The texture with its last row and column repeated until both sides divide by `multiple`."""
    if multiple < 1:
        raise InputError(f"a pyramid needs at least one level, got a multiple of {multiple}")
    texture = texture.cropped()
    below, beside = -texture.height % multiple, -texture.width % multiple
    if not (below or beside):
        return texture
    data = F.pad(texture.batch(), (0, beside, 0, below), mode="replicate")
    return replace(texture, data=data if texture.batched else data[0])


def zero_padding(texture: Texture) -> torch.Tensor:
    """(B, C, H, W) with zeros where the padding is, so that sums are sums over picture."""
    data = texture.batch()
    if texture.padding == (0, 0):
        return data
    data = data.clone()
    data[..., texture.height :, :] = 0
    data[..., texture.width :] = 0
    return data


def _reduce_torch(data: torch.Tensor, finest: Texture, levels: int) -> list[torch.Tensor]:
    """(B, C, H, W) → (B, C, H/2^k, W/2^k) for k = 1, 2, …; `_reduce_opencv` means the same."""
    layout = finest.layout
    voters = voters_of(finest)
    coarser = []
    means = data
    for level in range(1, levels):
        side = 1 << level
        means = F.avg_pool2d(means, 2)
        exchanged = {place: F.max_pool2d(data[:, place], side) for place in layout.having("maximum")}
        votes = block_majority(voters, side).unbind(1)
        exchanged |= dict(zip(layout.having("majority"), votes, strict=True))
        planes = [exchanged.get(place, plane) for place, plane in enumerate(means.unbind(1))]
        coarser.append(torch.stack(planes, dim=1))
    return coarser


def voters_of(texture: Texture) -> torch.Tensor:
    """(B, v, H, W): the channels that shrink by majority, with `NOTHING` where the padding is, so it has no vote."""
    voters = texture.batch().detach()[:, list(texture.layout.having("majority"))].clone()
    voters[..., texture.height :, :] = NOTHING
    voters[..., texture.width :] = NOTHING
    return voters


def _finish(finest: Texture, level: int, data: torch.Tensor) -> Texture:
    """One level: divide the padding out of the means, give semantic vectors their length back, note the size."""
    side = 1 << level
    height, width = -(-finest.height // side), -(-finest.width // side)
    layout = finest.layout
    if finest.padding != (0, 0):
        data = _over_picture(data, finest, side, (height, width))
    vectors = layout.having("unit_mean")
    if vectors:
        first, last = vectors[0], vectors[-1] + 1
        part = data[:, first:last]
        if part.requires_grad:
            data = torch.cat([data[:, :first], ops.unit(part, 1), data[:, last:]], dim=1)
        elif torch.linalg.vector_norm(part) > 0:
            part.div_(torch.linalg.vector_norm(part, dim=1, keepdim=True).clamp_min(1e-10))
    return replace(finest, data=data if finest.batched else data[0], height=height, width=width)


def _over_picture(data: torch.Tensor, finest: Texture, side: int, size: tuple[int, int]) -> torch.Tensor:
    """Averages over picture only; cells that are all padding repeat the last that is not."""
    height, width = size
    rows = _share(finest.height, height, side, data.device)
    columns = _share(finest.width, width, side, data.device)
    share = (rows[:, None] * columns).expand(len(finest.layout), height, width).clone()
    # Only means were diluted by the padding's zeros.
    share[[place for kind in ("majority", "maximum") for place in finest.layout.having(kind)]] = 1
    pad = (0, data.shape[-1] - width, 0, data.shape[-2] - height)
    return F.pad(data[..., :height, :width] / share, pad, mode="replicate")


def _share(pixels: int, cells: int, side: int, device: torch.device) -> torch.Tensor:
    """(cells,): how much of each cell is picture, in (0, 1]."""
    starts = torch.arange(cells, device=device) * side
    return ((pixels - starts).clamp(max=side) / side).float()


# ---- levels by OpenCV -----------------------------------------------------------------------------------------------


# Ballot boxes (cells × clusters) above which sorting needs less memory than counting.
MOST_BALLOTS = 1 << 24


def _reduce_opencv(data: torch.Tensor, layout: Layout, levels: int, height: int, width: int) -> list[torch.Tensor]:
    """(B, C, H, W) → (B, C, H/2^k, W/2^k) for k = 1 … levels-1, each plane by its reducer.

    data has zeros in the padding, beyond `height` and `width`: means are left as sums over picture and padding
    together, for the caller to divide. Maxima are unharmed by zeros; padding gets no vote.
    """
    import cv2

    from .backend_opencv import texture_memory

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


# ---- a texture on any coarser grid ----------------------------------------------------------------------------------


def to_cells(texture: Texture, grid: tuple[int, int]) -> Texture:
    """The texture over `grid` = (rows, columns) cells that cover the picture exactly, any ratio.

    Means are exact area averages, so averaged x and y are the cells' true centres. The grid may not be finer than the
    texture.
    """
    rows, columns = (int(side) for side in grid)
    texture = texture.cropped()
    if not (1 <= rows <= texture.height and 1 <= columns <= texture.width):
        raise InputError(f"cells must be between 1×1 and {texture.height}×{texture.width}, got {rows}×{columns}")
    data = texture.batch()
    layout = texture.layout
    result = ops.shrink(data, (rows, columns))
    replaced: dict[int, torch.Tensor] = {}
    for place in layout.having("maximum"):
        replaced[place] = ops.largest_in_blocks(data[:, place], (rows, columns))
    for place in layout.having("majority"):
        replaced[place] = _majority_in_cells(data[:, place], (rows, columns))
    planes = list(result.unbind(1))
    # Where a cell's border cuts through a pixel, averaging whole pixels misses the centre by a little: say it exactly.
    for name, centres in zip(("y", "x"), ops.position((rows, columns), data), strict=True):
        if name in layout:
            replaced[layout.index(name)] = centres.expand(len(data), rows, columns)
    for place, plane in replaced.items():
        planes[place] = plane
    make_units(planes, layout, 1)
    stacked = torch.stack(planes, dim=1)
    return replace(texture, data=stacked if texture.batched else stacked[0], height=rows, width=columns)


def _majority_in_cells(identifiers: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
    """(B, H, W) → (B, rows, columns): most frequent identifier among the pixels whose centres lie in each cell."""
    batch, height, width = identifiers.shape
    rows, columns = grid
    count = int(identifiers.max()) + 1
    device = identifiers.device
    row = (torch.arange(height, device=device) * 2 + 1) * rows // (2 * height)
    column = (torch.arange(width, device=device) * 2 + 1) * columns // (2 * width)
    cell = row[:, None] * columns + column[None, :]
    codes = (cell * count + identifiers.long()).flatten(1)
    votes = torch.zeros((batch, rows * columns * count), device=device)
    votes.scatter_add_(1, codes, torch.ones_like(codes, dtype=votes.dtype))
    return votes.view(batch, rows, columns, count).argmax(-1).float()


# ---- how each kind of channel shrinks: majority and unit vectors, over blocks ---------------------------------------


NOTHING = -1.0


def majority(blocks: torch.Tensor) -> torch.Tensor:
    """(..., n) identifiers → (...): the most frequent one, the smallest of equals; `NOTHING` (padding) never counts.

    Sorted, equal identifiers stand together, and the length of the run up to each place is its distance from the
    run's start: the longest run wins, and the first longest is the smallest identifier.
    """
    ordered = blocks.sort(dim=-1).values
    places = torch.arange(blocks.shape[-1], device=blocks.device)
    starts_here = torch.ones_like(ordered, dtype=torch.bool)
    starts_here[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    start = torch.where(starts_here, places, 0).cummax(dim=-1).values
    length = torch.where(ordered == NOTHING, -1, places - start)
    return ordered.gather(-1, length.argmax(dim=-1, keepdim=True))[..., 0]


def split_blocks(maps: torch.Tensor, side: int) -> torch.Tensor:
    """(..., H, W) → (..., H/side, W/side, side²), for sizes that divide."""
    height, width = maps.shape[-2:]
    tiles = maps.reshape(*maps.shape[:-2], height // side, side, width // side, side)
    return tiles.transpose(-3, -2).flatten(-2)


def block_majority(maps: torch.Tensor, side: int) -> torch.Tensor:
    """(..., H, W) identifiers → (..., H/side, W/side) true majority over each side×side block.

    Nearly all blocks lie inside one cluster, where the answer needs no counting: only mixed blocks are counted.
    """
    tiles = split_blocks(maps, side)
    result = tiles[..., 0].clone()
    mixed = (tiles != tiles[..., :1]).any(dim=-1)
    result[mixed] = majority(tiles[mixed])
    return result


def make_units(planes: list[torch.Tensor], layout: Layout, dim: int) -> None:
    """Give the vectors of a layout their length back, among its planes; dim: along which they are gathered."""
    vectors = layout.having("unit_mean")
    if vectors:
        units = ops.unit(torch.stack([planes[place] for place in vectors], dim), dim).unbind(dim)
        for place, plane in zip(vectors, units, strict=True):
            planes[place] = plane
