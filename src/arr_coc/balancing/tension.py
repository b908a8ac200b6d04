"""Opponent processing: each tension pulls between two ways of spending attention; none of them ever wins for good.

- compress ↔ particularize: what is there to be read, against what this question couples to;
- exploit ↔ explore: what stands out, against what does not (or was not examined yet);
- focus ↔ diversify: the score itself, against the score plus a bonus for being far from the places already on top.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

TENSION_NAMES = ("compress_particularize", "exploit_explore", "focus_diversify")
# What `look` uses without training. Exploring and diversifying are kept small: at one half, a map and its complement
# cancel, which is the right start for learning and a poor choice for use.
DEFAULT_TENSIONS: Mapping[str, float] = {
    "compress_particularize": 0.6,
    "exploit_explore": 0.15,
    "focus_diversify": 0.1,
}
WEIGHTS = (0.4, 0.3, 0.3)
DIVERSITY = 0.3
TOP_PLACES = 8


def balance(
    propositional: Tensor,
    perspectival: Tensor,
    participatory: Tensor,
    tensions: Mapping[str, float] | Tensor | None = None,
    *,
    examined: Tensor | None = None,
    correction: Tensor | None = None,
) -> Tensor:
    """Three maps (B, h, w) in [0, 1] → one relevance map (B, h, w), normalised to [0, 1] for each picture.

    tensions: by name, or a tensor whose last dimension is the three of them (broadcast over the maps, so that they may
    differ from place to place). examined: (B, h, w) in [0, 1]; given, exploring seeks what it has not covered instead
    of what does not stand out. correction: (B, h, w), added before normalisation (a learned residual).
    """
    if tensions is None:
        tensions = DEFAULT_TENSIONS
    if isinstance(tensions, Tensor):
        particularize, explore, diversify = tensions.unbind(-1)
    else:
        particularize, explore, diversify = (
            propositional.new_tensor(float(tensions.get(name, DEFAULT_TENSIONS[name]))) for name in TENSION_NAMES
        )
    first = (1 - particularize) * propositional + particularize * participatory
    unexplored = 1 - (perspectival if examined is None else examined)
    second = (1 - explore) * perspectival + explore * unexplored
    combined = (WEIGHTS[0] * first + WEIGHTS[1] * second) / (WEIGHTS[0] + WEIGHTS[1])
    third = combined + diversify * DIVERSITY * distance_to_top(combined)
    score = WEIGHTS[0] * first + WEIGHTS[1] * second + WEIGHTS[2] * third
    return normalise(score if correction is None else score + correction)


def normalise(maps: Tensor) -> Tensor:
    """(B, h, w) → each picture stretched to [0, 1]; a flat picture becomes all zero."""
    low = maps.amin((1, 2), keepdim=True)
    return (maps - low) / (maps.amax((1, 2), keepdim=True) - low).clamp_min(1e-6)


@torch.no_grad()
def distance_to_top(scores: Tensor, places: int = TOP_PLACES) -> Tensor:
    """(B, h, w) → distance to the nearest of the top-scored places, in units of the picture's diagonal.

    Which places are on top is a choice, not a quantity, so no gradient flows through it.
    """
    _, height, width = scores.shape
    best = scores.flatten(1).topk(min(places, height * width), dim=1).indices
    y, x = torch.meshgrid(
        torch.arange(height, device=scores.device), torch.arange(width, device=scores.device), indexing="ij"
    )
    cells = torch.stack([y, x], dim=-1).view(1, -1, 2).to(scores.dtype)
    tops = torch.stack([best // width, best % width], dim=-1).to(scores.dtype)
    nearest = torch.cdist(cells.expand(len(scores), -1, -1), tops).amin(-1)
    return nearest.view_as(scores) / max(height**2 + width**2, 1) ** 0.5


class TensionBalancer(nn.Module):
    """The three tensions as learned numbers, each starting at exactly one half, plus a small network of the scores.

    The network's last layer starts at zero, so an untrained balancer is `balance` at one half.
    """

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        # A sigmoid of zero is one half; a raw parameter of one half would not be.
        self.raw = nn.Parameter(torch.zeros(len(TENSION_NAMES)))
        last = nn.Linear(hidden, 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(nn.Linear(3, hidden), nn.GELU(), last)

    @property
    def tensions(self) -> Tensor:
        return torch.sigmoid(self.raw)

    def named_tensions(self) -> dict[str, float]:
        return dict(zip(TENSION_NAMES, self.tensions.detach().tolist(), strict=True))

    def forward(
        self, propositional: Tensor, perspectival: Tensor, participatory: Tensor, examined: Tensor | None = None
    ) -> Tensor:
        """Three maps (B, h, w) → relevance (B, h, w) in [0, 1], differentiable."""
        scores = torch.stack([propositional, perspectival, participatory], dim=-1)
        correction = self.network(scores)[..., 0]
        return balance(
            propositional, perspectival, participatory, self.tensions, examined=examined, correction=correction
        )
