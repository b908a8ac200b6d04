"""From what was seen and said to where to look next.

A pass leaves two traces: how finely every place has been seen, and which places the tokens of the answer looked at, and
how sure they were. The next map is relevance, plus these places, sharpened by arousal, blended with ground that nobody
examined, without the ground that is already seen in full detail, and gathered around one place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..relevance.look.arousal import modulate
from ..relevance.look.tempering import temper
from .pass_answers import LookAnswer
from .pass_settings import SURE_UP_TO, UNSURE_ABOVE, EsperSettings

# Outside the fovea the map keeps this much, so that tokens left over go to the next best place and not just anywhere.
OUTSIDE = 1e-3
# The map is smoothed by this share of the fovea before its best place is taken.
FINDING = 1 / 3


@dataclass(frozen=True)
class Traces:
    """What the answers of B pictures tell about places, each (B, rows, cols).

    uncertainty: in [0, 1], how unsure the answer's tokens were that looked there, 0 where none did. doubt: the
    attention of unsure tokens beyond what any token spends there. asked: the same for the question's tokens.
    """

    uncertainty: Tensor
    doubt: Tensor
    asked: Tensor


def traces(spoken: LookAnswer, temperature: float, grid: tuple[int, int]) -> Traces:
    """Per-place uncertainty and attention, from the answer's and the question's attention over the visual tokens."""
    unsure = (1 - spoken.generated.log_probabilities(temperature).exp()) * spoken.generated.within  # (B, T)
    length = spoken.generated.within.sum(1, keepdim=True).clamp_min(1)
    looked = spoken.looked.sum(1) / length
    doubted = (spoken.looked * unsure[..., None]).sum(1) / length
    there = spoken.leaves[..., 2] >= 0
    # What draws attention whatever is asked or said: where the token that ends the picture looks.
    plain = spoken.plain * there

    def beyond(values: Tensor) -> Tensor:
        values = values * there
        scale = values.sum(1, keepdim=True) / plain.sum(1, keepdim=True).clamp_min(1e-9)
        return (values - scale * plain).clamp_min(0)

    ground = paint(looked * there, spoken.leaves, grid)
    uncertainty = paint(doubted * there, spoken.leaves, grid) / ground.clamp_min(1e-12)
    doubt, asked = (paint(beyond(values), spoken.leaves, grid) for values in (doubted, spoken.asked))
    return Traces(uncertainty.clamp(0, 1), doubt, asked)


def paint(values: Tensor, leaves: Tensor, grid: tuple[int, int]) -> Tensor:
    """Values (B, V) of leaves (B, V, 3), spread evenly over their cells and summed → (B, rows, cols)."""
    rows, cols = grid
    result = values.new_zeros(len(values), rows, cols)
    row, col = leaves[..., :2].clamp_min(0).unbind(-1)
    for depth in range(int(leaves[..., 2].max()) + 1):
        high, wide = -(-rows >> depth), -(-cols >> depth)
        chosen = leaves[..., 2] == depth
        place = (row >> depth) * wide + (col >> depth)
        board = values.new_zeros(len(values), high * wide)
        board.scatter_add_(1, torch.where(chosen, place, 0), torch.where(chosen, values, 0) / 4**depth)
        side = 1 << depth
        spread = board.view(-1, high, wide).repeat_interleave(side, 1).repeat_interleave(side, 2)
        result = result + spread[:, :rows, :cols]
    return result


def examined(levels: Tensor) -> Tensor:
    """(B, rows, cols) finest levels → how far each cell was examined: 1 at full detail, a quarter a level above."""
    return torch.exp2(-2.0 * levels)


def peak(values: Tensor) -> Tensor:
    """Each map (B, rows, cols) scaled so that its highest place is 1; a map of zeros stays one."""
    return values / values.amax((1, 2), keepdim=True).clamp_min(1e-12)


def next_map(
    relevance: Tensor,
    levels: Tensor,
    found: Traces,
    exploration: Tensor,
    arousal: Tensor,
    fixated: Tensor,
    settings: EsperSettings,
) -> tuple[Tensor, Tensor]:
    """Where the next look goes: (B, rows, cols) and the point (B, 2) it is gathered around, -1 where it is spread.

    relevance, levels, fixated: (B, rows, cols); fixated: how well earlier fixations have covered each place, in [0, 1].
    exploration, arousal: (B,).
    """
    open_ground = (levels > 0).to(relevance)
    weights = settings.attention, settings.question
    mixed = relevance + sum(
        weight * peak(part * open_ground) for weight, part in zip(weights, (found.doubt, found.asked), strict=True)
    )
    mixed = mixed / (1 + sum(weights))
    factor = torch.where(found.uncertainty > UNSURE_ABOVE, settings.more, 1.0)
    factor = torch.where(found.uncertainty <= SURE_UP_TO, settings.less, factor)
    mixed = (mixed * factor).clamp(0, 1)
    if settings.aroused:
        mixed = modulate(mixed, arousal)
    # Ground that is seen in full detail cannot be seen better; among the rest, the fresh counts for exploration.
    mixed = temper(mixed, examined(levels), exploration) * open_ground
    mixed = mixed * (1 - settings.inhibition * fixated)
    if settings.fovea is None:
        return mixed, torch.full((len(mixed), 2), -1, device=mixed.device)
    return gather_around(mixed, settings.fovea)


def gather_around(maps: Tensor, fovea: float) -> tuple[Tensor, Tensor]:
    """The same maps around their best place, and that place (B, 2) row, col; ties go to the earlier one.

    The best place is found on a map smoothed by a third of the fovea: one hot cell does not outweigh a warm spot, and
    wide even ground, which is what exploration looks like, does not outweigh either.
    """
    rows, cols = maps.shape[1:]
    within = smooth(maps, fovea * FINDING)
    place = within.flatten(1).argmax(1)
    point = torch.stack([place // cols, place % cols], dim=1)
    return maps * (OUTSIDE + glimpse(point, (rows, cols), fovea)), point


def smooth(maps: Tensor, sigma: float) -> Tensor:
    """(B, h, w) blurred by a Gaussian of `sigma` cells; beyond the edge lies what lies on it."""
    reach = max(1, round(3 * sigma))
    offset = torch.arange(-reach, reach + 1, device=maps.device)
    kernel = torch.exp(-((offset / sigma) ** 2) / 2).to(maps)
    kernel = kernel / kernel.sum()
    padded = F.pad(maps[:, None], (reach, reach, reach, reach), mode="replicate")
    return F.conv2d(F.conv2d(padded, kernel.view(1, 1, -1, 1)), kernel.view(1, 1, 1, -1))[:, 0]


def glimpse(point: Tensor, grid: tuple[int, int], fovea: float) -> Tensor:
    """(B, 2) fixated cells → (B, rows, cols) in [0, 1]: a Gaussian of `fovea` cells."""
    y = torch.arange(grid[0], device=point.device)[:, None] - point[:, 0, None, None]
    x = torch.arange(grid[1], device=point.device)[None, :] - point[:, 1, None, None]
    return torch.exp(-(y**2 + x**2) / (2 * fovea**2))
