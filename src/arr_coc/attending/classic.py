"""The classic scale: 64 to 400 tokens for each selected patch, at five levels of detail.

The five levels are grids of 8×8, 8×16, 16×16, 16×24 and 20×20 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..errors import InputError

CLASSIC_GRIDS: tuple[tuple[int, int], ...] = ((8, 8), (8, 16), (16, 16), (16, 24), (20, 20))
# height × width of each grid; the selectors in `knowing`, a lower room, count in the same steps.
# The five classic levels of detail, coarse to fine: grids of 8×8, 8×16, 16×16, 16×24, 20×20.
CLASSIC_TOKENS = (64, 128, 256, 384, 400)
LEAST, MOST = CLASSIC_TOKENS[0], CLASSIC_TOKENS[-1]


@dataclass(frozen=True)
class ClassicPreset:
    """patches: how many places are selected. budget: tokens for all of them together."""

    patches: int
    budget: int


# v02's total of 5 120 cannot give 273 patches their least 64 each, so it selects 40, 128 tokens apiece on average.
PRESETS = {"classic": ClassicPreset(patches=273, budget=100_000), "v02": ClassicPreset(patches=40, budget=5_120)}


def mip_level(tokens: Tensor) -> Tensor:
    """Classic token count → mip level: at least 300 → 0, at least 200 → 1, at least 100 → 2, else 3."""
    return 3 - (tokens >= 100).long() - (tokens >= 200).long() - (tokens >= 300).long()


def select_patches(cells: Tensor, patches: int) -> tuple[Tensor, Tensor]:
    """(B, rows, cols) → index (B, K) in raster order and scores (B, K) of the K best cells; ties by position."""
    flat = cells.flatten(1)
    count = min(patches, flat.shape[1])
    index = flat.argsort(dim=1, descending=True, stable=True)[:, :count].sort(dim=1).values
    return index, flat.gather(1, index)


def check_classic_budget(budget: int, patches: int) -> None:
    if budget < patches * LEAST:
        raise InputError(
            f"a budget of {budget} tokens cannot give {patches} patches their least {LEAST} each; "
            f"ask for at least {patches * LEAST} tokens or at most {budget // LEAST} patches"
        )
