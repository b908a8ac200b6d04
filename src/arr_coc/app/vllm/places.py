"""Positions of leaves inside vLLM, whose positions are integers: rows of a table of rotations. Needs no vLLM.

The centre of a leaf is a multiple of ½. The table of the language model gets a second part, for p + ½, so that a half
position is a row like any other; text and decoding use the first part as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.errors import InputError
from ...realizing.positions import (
    axial_angles,
    language_positions,
    position_taps,
    prompt_positions,
    rotary_speeds,
    vision_positions,
)

# Minimum number of rows beyond the longest prompt: a picture of few tokens spans the positions of its full grid, so a
# prompt ends at a higher position than its number of tokens.
LEAST_ROOM = 4096


@dataclass(frozen=True)
class PromptPicture:
    """A picture in a prompt. offset: of its first token. leaves: (N, 3), one token each. grid: (2,) rows and cols."""

    offset: int
    leaves: Tensor
    grid: Tensor


def rotations(places: Tensor, base: float, size: int) -> Tensor:
    """Compute rotations: (N,) positions → (N, size), cosines and then sines, in vLLM's layout."""
    angles = places.float()[:, None] * torch.from_numpy(rotary_speeds(base, size))
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def halved_table(table: Tensor, base: float, rows: int) -> Tensor:
    """Return the rotations of 0 … rows - 1 and then of ½ … rows - ½. table: (R, size), the rotations of 0 … R - 1.

    The rows of the table are kept. Raises `InputError` if they do not follow the plain formula, because halves by
    another formula than wholes would be wrong without an error.
    """
    size = table.shape[1]
    wholes = torch.arange(rows, device=table.device)
    ours = rotations(wholes[: len(table)].cpu(), base, size).to(table)
    if not torch.allclose(ours, table[:rows], atol=1e-2 if table.dtype.itemsize < 4 else 1e-3):
        raise InputError("this model scales its rotary positions (YaRN or the like); serve it without rope scaling")
    more = rotations(wholes[len(table) :].cpu(), base, size).to(table)
    halves = rotations(wholes.cpu() + 0.5, base, size).to(table)
    return torch.cat([table, more, halves])


def prompt_places(length: int, pictures: Sequence[PromptPicture], half: int, spare: int) -> tuple[Tensor, int]:
    """Return (3, length) int64 rows of the table for every token of a prompt, and how far it ends beyond its length.

    pictures: in any order. half: the row at which the halves begin. spare: rows beyond the longest prompt. If gaps need
    more, which takes hundreds of pictures, the span of every picture is cut, so that no position leaves the table.
    """
    shown = sorted(pictures, key=lambda picture: picture.offset)
    counts = torch.tensor([len(picture.leaves) for picture in shown])
    most = counts + spare // len(shown)
    spans = torch.minimum(torch.stack([picture.grid.amax() for picture in shown]), most)
    offsets = torch.cat([language_positions(one.leaves, one.grid) for one in shown], dim=1)
    offsets = torch.minimum(offsets, (spans - 1).repeat_interleave(counts))
    here = torch.zeros(1, length, dtype=torch.bool)
    for picture in shown:
        here[0, picture.offset : picture.offset + len(picture.leaves)] = True
    positions, after = prompt_positions(here, counts, spans, offsets, torch.ones(1, length))
    twice = (2 * positions[1:, 0]).long()
    return twice // 2 + twice % 2 * half, int(after) - length


def tower_places(leaves: Tensor, grids: Tensor, merge: int, side: int, base: float, size: int) -> tuple[Tensor, ...]:
    """Compute the positions for the vision tower of every patch of leaves (N, 3) on grids (N, 2) of level-0 tokens.

    side: of its learned table of positions. base, size: of its rotary positions. Returns indices and weights of four
    taps into the learned table, (N·merge², 4) each, and cosines and sines (N·merge², size).
    """
    positions = vision_positions(leaves, merge).view(-1, 2)
    indices, weights = position_taps(positions, (grids * merge).repeat_interleave(merge**2, dim=0), side)
    angles = axial_angles(positions, torch.from_numpy(rotary_speeds(base, size)))
    return indices, weights, angles.cos(), angles.sin()
