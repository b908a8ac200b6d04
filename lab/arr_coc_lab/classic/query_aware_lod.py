"""`QueryAwareLOD`, the Phase 2 selector: for each patch, one of the five classic levels of detail, by the question.

In training levels are sampled, and both ways to learn from a sample are kept: its exact log-probability (for a policy
gradient) and its tokens with the gradient of the Gumbel-softmax relaxation. In use the most likely level is taken.
A budget is met twice: the distribution is tilted towards fewer tokens until its expectation fits (so that learning
happens where use will be), and what was chosen is cut until it fits exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.errors import InputError
from arr_coc.core.pretrained import Pretrained

from .patch_trunk import PatchTrunk, TrunkConfig, trunk_shape
from .scale import CLASSIC_TOKENS, LEAST, MOST, check_classic_budget
from .selectors import PatchViews, Selector

# The five classic levels of detail, coarse to fine; `classic.scale` lays them out.
LEVELS = len(CLASSIC_TOKENS)
# Patches beside what is needed are worth a middle level: a box seldom ends where a patch does.
BESIDE = 2
HALVINGS = 60


@dataclass(frozen=True, eq=False)
class LevelChoice:
    """wished: (B, P) int64 levels, 0 (64 tokens) to 4 (400), as sampled or as most likely.

    levels, tokens: (B, P) int64, the wishes cut to the budget, and what they cost. relaxed_tokens: (B, P) float, equal
    to tokens, with a gradient when sampled. log_probability, entropy: (B, P), of the wishes under the distribution that
    they came from. All are zero at padded patches.
    """

    wished: Tensor
    levels: Tensor
    tokens: Tensor
    relaxed_tokens: Tensor
    log_probability: Tensor
    entropy: Tensor


def expected_tokens(logits: Tensor, budget: int | None = None, patch_padding: Tensor | None = None) -> Tensor:
    """(B, P, 5) → (B, P) tokens expected of each patch; with a budget, at most that for each picture together."""
    if budget is not None:
        logits = tilt(logits, budget, patch_padding)
    tokens = logits.softmax(-1) @ _ladder(logits)
    return tokens if patch_padding is None else tokens.masked_fill(patch_padding, 0)


def tilt(logits: Tensor, budget: int, patch_padding: Tensor | None = None) -> Tensor:
    """(B, P, 5) → (B, P, 5): levels pay for their tokens, at the lowest price at which each picture fits its budget.

    The price is one number for each picture, 0 where the budget does not bind. Of all distributions that fit, this is
    the nearest to the one given (in relative entropy), and the gradient knows that the price moves with the logits.
    """
    check_budget(budget, logits, patch_padding)
    share = _ladder(logits) / MOST
    there = torch.ones_like(logits[..., 0]) if patch_padding is None else (~patch_padding).to(logits.dtype)

    def total(price: Tensor, source: Tensor) -> Tensor:
        return (((source - price * share.to(source)).softmax(-1) @ share.to(source)) * there).sum(1)

    with torch.no_grad():
        wide = logits.double()
        free = torch.zeros_like(wide[:, :1, :1])
        binds = total(free, wide) * MOST > budget
        # At the upper end every rung above the lowest is unlikely beyond double precision.
        low, high = free, (wide.amax((1, 2), keepdim=True) - wide.amin((1, 2), keepdim=True) + 40) * (MOST / LEAST)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            over = (total(middle, wide) * MOST > budget)[:, None, None]
            low, high = torch.where(over, middle, low), torch.where(over, high, middle)
        price = high.to(logits)
        chances = (logits - price * share).softmax(-1)
        # How fast the expected total falls as the price rises: the variance of the tokens.
        slope = ((chances @ share.square() - (chances @ share).square()) * there).sum(1)
    # One Newton step of length zero: the value stays, the gradient is that of the price as a function of the logits.
    now = total(price, logits)
    price = price + ((now - now.detach()) / slope.clamp_min(1e-12))[:, None, None]
    return torch.where(binds[:, None, None], logits - price * share, logits)


def fit_levels(wished: Tensor, logits: Tensor, budget: int, patch_padding: Tensor | None = None) -> Tensor:
    """(B, P) int64 wishes → (B, P) int64 levels of at most the wish, at most `budget` tokens for each picture.

    Every patch has its 64. Further rungs are bought one by one, those with the most log-probability per token first,
    ties by position, until the next is beyond the budget: less than one rung (128 tokens) stays unspent.
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
    temperature: float = 1.0,
) -> LevelChoice:
    """(B, P, 5) logits → a choice for each patch: sampled with a generator, the most likely without one.

    temperature: of the relaxation whose gradient relaxed_tokens carries; the lower, the truer and the noisier.
    """
    tilted = logits if budget is None else tilt(logits, budget, patch_padding)
    # Gumbel noise makes the largest logit a fair sample, and the softmax of the same sum its relaxation.
    relaxed = tilted
    if generator is not None:
        relaxed = tilted - torch.empty_like(tilted).exponential_(generator=generator).log()
    # Without noise the wish is the untilted one: which rungs the budget allows is decided exactly, below.
    wished = (logits if generator is None else relaxed).argmax(-1)
    log_chances = tilted.log_softmax(-1)
    log_probability = log_chances.gather(-1, wished[..., None])[..., 0]
    entropy = -(log_chances.exp() * log_chances).sum(-1)
    levels = wished if budget is None else fit_levels(wished, logits, budget, patch_padding)
    tokens = torch.tensor(CLASSIC_TOKENS, device=logits.device)[levels]
    soft = (relaxed / temperature).softmax(-1) @ _ladder(logits)
    parts = [wished, levels, tokens, tokens + (soft - soft.detach()), log_probability, entropy]
    if generator is None:
        parts[3] = tokens.to(logits.dtype)
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
        self,
        patches: Tensor,
        words: Tensor,
        padding: Tensor | None = None,
        patch_padding: Tensor | None = None,
        *,
        budget: int | None = None,
        generator: torch.Generator | None = None,
        temperature: float = 1.0,
    ) -> LevelChoice:
        """In training a sample, which takes a generator; in use (after `.eval()`) the most likely levels."""
        if self.training and generator is None:
            raise InputError("levels are sampled in training: pass generator=torch.Generator(), or call .eval() first")
        return choose_levels(
            self(patches, words, padding, patch_padding),
            patch_padding,
            budget=budget,
            generator=generator if self.training else None,
            temperature=temperature,
        )


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
    row="Phase 2: five levels chosen by the question",
    part="query_aware_lod",
    kind=QueryAwareLOD,
    make=lambda width: QueryAwareLOD(trunk_shape(width)),
    reading=tokens_map,
    loss=levels_loss,
)
SOURCE = SYSTEM.source
