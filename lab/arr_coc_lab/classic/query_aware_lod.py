"""`QueryAwareLOD`, the Phase 2 selector: for each patch, one of the five classic levels of detail, by the question.

In training levels are sampled, with their exact log-probability; in use the most likely level is taken. What was chosen
is cut until it fits a budget exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.errors import InputError
from arr_coc.core.modules import Pretrained

from .patch_trunk import PatchTrunk, TrunkConfig, trunk_shape
from .scale import CLASSIC_TOKENS, LEAST, MOST, check_classic_budget
from .selectors import PatchViews, Selector

# The five classic levels of detail, coarse to fine; `classic.scale` lays them out.
LEVELS = len(CLASSIC_TOKENS)
# Patches beside what is needed are worth a middle level: a box seldom ends where a patch does.
BESIDE = 2


@dataclass(frozen=True, eq=False)
class LevelChoice:
    """wished: (B, P) int64 levels, 0 (64 tokens) to 4 (400), as sampled or as most likely. levels, tokens: (B, P)
    int64, the wishes cut to the budget, and what they cost. log_probability: (B, P), of the wishes. All are zero at
    padded patches."""

    wished: Tensor
    levels: Tensor
    tokens: Tensor
    log_probability: Tensor


def expected_tokens(logits: Tensor) -> Tensor:
    """(B, P, 5) → (B, P) tokens expected of each patch."""
    return logits.softmax(-1) @ _ladder(logits)


def fit_levels(wished: Tensor, logits: Tensor, budget: int, patch_padding: Tensor | None = None) -> Tensor:
    """(B, P) int64 wishes → (B, P) int64 levels of at most the wish, at most `budget` tokens for each picture.

    Every patch has its 64. Further rungs are bought one by one, those with the most log-probability per token first,
    ties by position, until the next is beyond the budget: less than one rung (at most 144 tokens) stays unspent.
    """
    check_budget(budget, logits, patch_padding)
    cost = torch.tensor(CLASSIC_TOKENS, device=logits.device).diff()
    worth = concave_envelope(logits.detach().double()).diff(dim=-1) / cost
    # Concave up to rounding; a rung must never be bought before the one below it.
    worth = worth.cummin(-1).values
    rungs = torch.arange(LEVELS - 1, device=logits.device)
    wanted = wished[..., None] > rungs
    patches = torch.full_like(wished[:, 0], wished.shape[1])
    if patch_padding is not None:
        wanted = wanted & ~patch_padding[..., None]
        patches = (~patch_padding).sum(1)
    order = worth.masked_fill(~wanted, -torch.inf).flatten(1).argsort(dim=1, descending=True, stable=True)
    spent = (cost * wanted).flatten(1).gather(1, order).cumsum(1)
    bought = wanted.flatten(1).gather(1, order) & (spent <= (budget - LEAST * patches)[:, None])
    return torch.zeros_like(bought).scatter(1, order, bought).view_as(wanted).sum(-1)


def concave_envelope(logits: Tensor) -> Tensor:
    """(…, 5) → (…, 5): the lowest concave curve over the levels' logits, as a function of their tokens."""
    tokens = _ladder(logits)
    pairs = torch.tensor(list(combinations(range(LEVELS), 2)), device=logits.device)
    low, high = pairs[:, :1], pairs[:, 1:]
    part = (tokens - tokens[low]) / (tokens[high] - tokens[low])  # (pairs, 5): how far along each chord a level lies
    chords = logits[..., low] * (1 - part) + logits[..., high] * part
    return chords.masked_fill((part < 0) | (part > 1), -torch.inf).amax(-2)


def check_budget(budget: int, logits: Tensor, patch_padding: Tensor | None) -> None:
    check_classic_budget(budget, logits.shape[1] if patch_padding is None else int((~patch_padding).sum(1).max()))


def choose_levels(
    logits: Tensor,
    patch_padding: Tensor | None = None,
    *,
    budget: int | None = None,
    generator: torch.Generator | None = None,
) -> LevelChoice:
    """(B, P, 5) logits → a choice for each patch: sampled with a generator, the most likely without one."""
    noisy = logits
    if generator is not None:  # Gumbel noise makes the largest logit a fair sample
        noisy = logits - torch.empty_like(logits).exponential_(generator=generator).log()
    wished = noisy.argmax(-1)
    log_probability = logits.log_softmax(-1).gather(-1, wished[..., None])[..., 0]
    levels = wished if budget is None else fit_levels(wished, logits, budget, patch_padding)
    parts = [wished, levels, torch.tensor(CLASSIC_TOKENS, device=logits.device)[levels], log_probability]
    if patch_padding is not None:
        parts = [part.masked_fill(patch_padding, 0) for part in parts]
    return LevelChoice(*parts)


class QueryAwareLOD(Pretrained):
    """Patch features and the question's words → a level of detail for each patch."""

    config_class = TrunkConfig
    config: TrunkConfig

    def __init__(self, config: TrunkConfig) -> None:
        super().__init__(config)
        self.trunk = PatchTrunk(config)
        self.head = nn.Linear(config.width, LEVELS)
        # An untrained selector prefers nothing: each level is as likely as any other.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(
        self, patches: Tensor, words: Tensor, padding: Tensor | None = None, patch_padding: Tensor | None = None
    ) -> Tensor:
        """(B, P, F) patches, (B, L, Q) words → (B, P, 5) logits of the levels; see `PatchTrunk.forward`."""
        return self.head(self.trunk(patches, words, padding, patch_padding))

    def choose(
        self, patches: Tensor, words: Tensor, *, budget: int | None = None, generator: torch.Generator | None = None
    ) -> LevelChoice:
        """In training a sample, which takes a generator; in use (after `.eval()`) the most likely levels."""
        if self.training and generator is None:
            raise InputError("levels are sampled in training: pass generator=torch.Generator(), or call .eval() first")
        return choose_levels(self(patches, words), budget=budget, generator=generator if self.training else None)


def _ladder(like: Tensor) -> Tensor:
    return like.new_tensor(CLASSIC_TOKENS)


def tokens_map(module: QueryAwareLOD, views: PatchViews) -> Tensor:
    """The tokens expected of each patch, from 64 (0) to 400 (1)."""
    tokens = expected_tokens(views.read(module))
    return ((tokens - LEAST) / (MOST - LEAST)).clamp(0, 1).unflatten(1, views.grid)


def levels_loss(module: QueryAwareLOD, views: PatchViews, truth: Tensor) -> Tensor:
    """The finest level where something is needed, a middle one beside it, the coarsest elsewhere."""
    levels = views.read(module)
    near = F.max_pool2d(truth[:, None], 3, stride=1, padding=1)[:, 0]
    wanted = torch.where(truth > 0, LEVELS - 1, torch.where(near > 0, BESIDE, 0)).flatten(1)
    weights = torch.where(wanted > 0, 3.0, 1.0)
    each = F.cross_entropy(levels.flatten(0, 1), wanted.flatten(), reduction="none").view_as(weights)
    return (each * weights).mean()


SYSTEM = Selector(
    "query_aware_lod",
    summary="a level of detail for each patch, by the question: the selector of phase 2",
    note="phase 2: a level of detail for each patch, by the question",
    part="query_aware_lod",
    kind=QueryAwareLOD,
    make=lambda width: QueryAwareLOD(trunk_shape(width)),
    reading=tokens_map,
    loss=levels_loss,
)
SOURCE = SYSTEM.source
