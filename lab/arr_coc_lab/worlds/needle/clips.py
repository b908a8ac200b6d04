"""Moving versions of every family: things wander, and at a cut everything changes its place."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from arr_coc.core.errors import InputError

from .batch import NeedleBatch
from .difficulty import as_difficulty
from .draws import Draws
from .renderer import check, finish_batch, lay_out


@dataclass(frozen=True)
class NeedleClip:
    """N clips of T frames.

    frames: a batch of N * T pictures, clip after clip; the question and the answer of a clip are the same in all its
    frames, its boxes move. cuts: (N, T) bool, true at the first frame after a cut.
    """

    frames: NeedleBatch
    cuts: torch.Tensor

    @property
    def pictures(self) -> torch.Tensor:
        """Return the frames, (N, T, 3, H, W) uint8."""
        return self.frames.pictures.unflatten(0, tuple(self.cuts.shape))

    @property
    def questions(self) -> list[str]:
        return self.frames.questions[:: self.cuts.shape[1]]


@torch.no_grad()
def render_clip(
    family: str,
    numbers: range,
    frames: int = 16,
    size: tuple[int, int] = (256, 256),
    seed: int = 0,
    split: str = "train",
    device: torch.device | str = "cpu",
    cuts: int = 0,
) -> NeedleClip:
    """Draw the clips of these numbers, of normal difficulty, each with the given number of cuts at known frames.

    The first frame of a clip without cuts shows what the still picture of the same number may show: content is drawn
    once per clip, places once per scene. Questions about a place or a relation, which would change, are not asked.
    """
    n = len(numbers)
    check(family, n, size, split)
    if frames < 1 or not 0 <= cuts < frames:
        raise InputError(f"a clip needs at least 1 frame and fewer cuts than frames, got {frames} frames, {cuts} cuts")
    knobs = replace(as_difficulty(None, size), edge=False)
    device = torch.device(device)
    index = torch.tensor(numbers, device=device)
    # Each clip's cuts: the first few of a random order of the frames after the first.
    rank = Draws.of(seed, split, f"{family}/cuts", index).order("cuts", max(1, frames - 1)).argsort(1)
    cut = torch.nn.functional.pad(rank < cuts, (1, 0))[:, :frames]
    scene = cut.long().cumsum(1)
    clock = torch.arange(frames, device=device).expand(n, frames)
    last_cut = torch.where(cut, clock, 0).cummax(1).values
    each = index[:, None].expand(n, frames).reshape(-1)
    with torch.autocast(device.type, enabled=False):
        draws = Draws.of(seed, split, family, each, scene=scene.reshape(-1), time=(clock - last_cut).reshape(-1))
        laid_out = lay_out(family, draws, size, split, knobs, moving=True)
        batch = finish_batch(laid_out, draws, each, family, split, seed, size)
    return NeedleClip(batch, cut)
