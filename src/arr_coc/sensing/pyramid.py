"""The mip pyramid of a texture: each level half the size of the one before, each channel by its own reducer.

Any size: the finest level is padded to a multiple of 2^(levels-1), and every level remembers how much of it is
picture. Means are taken over picture only, so averaged x and y are the true centre of what each cell shows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from ..errors import InputError
from .array import Texture
from .backend import BackendName, get_backend, opencv_installed
from .blocks import NOTHING, block_majority, unit

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
        from .pyramid_opencv import reduce_planes

        reduced = reduce_planes(data, padded.layout, levels, padded.height, padded.width)
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
    """(B, C, H, W) → (B, C, H/2^k, W/2^k) for k = 1, 2, …; `pyramid_opencv.reduce_planes` means the same."""
    layout = finest.layout
    voters = voters_of(finest)
    found = []
    means = data
    for level in range(1, levels):
        side = 1 << level
        means = F.avg_pool2d(means, 2)
        exchanged = {place: F.max_pool2d(data[:, place], side) for place in layout.having("maximum")}
        votes = block_majority(voters, side).unbind(1)
        exchanged |= dict(zip(layout.having("majority"), votes, strict=True))
        planes = [exchanged.get(place, plane) for place, plane in enumerate(means.unbind(1))]
        found.append(torch.stack(planes, dim=1))
    return found


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
            data = torch.cat([data[:, :first], unit(part, 1), data[:, last:]], dim=1)
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
