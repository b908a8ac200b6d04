"""The vision tower's memory: new leaves see the leaves of earlier looks, and none of those is encoded again.

Keys and values of every layer are kept. What was seen first was encoded without what came later, as in a language model
with a cache; a leaf that was encoded alone, without the rest of the picture around it, is read much worse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LOOKING_AGAIN = "arr_coc_looking_again"


@dataclass
class TowerMemory:
    """there: (B, P) bool, which patches of all looks are not padding. seen: keys and values (B, heads, P, head size) of
    each layer's attention."""

    there: Tensor | None = None
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def copy(self) -> TowerMemory:
        """As it is now; what is added to one does not change the other."""
        return TowerMemory(self.there, dict(self.seen))


@dataclass(frozen=True)
class Look:
    """One look on its way through the tower.

    shape: pictures, and patches of each with padding. place: (M,) int64, where the packed patches lie among them; None
    where there is no padding. mask: (B, 1, 1, P) bool over all patches that may be attended; None where all may.
    """

    memory: TowerMemory
    shape: tuple[int, int]
    place: Tensor | None
    mask: Tensor | None

    @classmethod
    def of(cls, memory: TowerMemory, there: Tensor, patches: int) -> Look:
        """there: (B, N) bool, the leaves that are not padding; patches: of one leaf. The memory then knows of them."""
        mask = there.repeat_interleave(patches, 1)
        place = None if bool(mask.all()) else mask.flatten().nonzero()[:, 0]
        memory.there = mask if memory.there is None else torch.cat([memory.there, mask], 1)
        everything = place is None and bool(memory.there.all())
        return cls(memory, (mask.shape[0], mask.shape[1]), place, None if everything else memory.there[:, None, None])

    def spread(self, packed: Tensor) -> Tensor:
        """(1, heads, M, head size) → (B, heads, N, head size), zeros where there is padding."""
        rows = packed[0].transpose(0, 1)
        if self.place is not None:
            padded = rows.new_zeros(self.shape[0] * self.shape[1], *rows.shape[1:])
            rows = padded.index_copy(0, self.place, rows)
        return rows.reshape(*self.shape, *rows.shape[1:]).transpose(1, 2)

    def pack(self, spread: Tensor) -> Tensor:
        """(B, heads, N, head size) → (1, M, heads, head size), as a layer of the tower wants it."""
        rows = spread.transpose(1, 2).flatten(0, 1)
        return (rows if self.place is None else rows[self.place])[None]


def look_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    look: Look,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of a look's patches over themselves and all that was seen before; query: (1, heads, M, head size)."""
    asked, keys, values = (look.spread(item) for item in (query, key, value))
    if module in look.memory.seen:
        before = look.memory.seen[module]
        keys, values = (torch.cat(pair, 2) for pair in zip(before, (keys, values), strict=True))
    look.memory.seen[module] = keys, values
    mixed = F.scaled_dot_product_attention(asked, keys, values, attn_mask=look.mask, dropout_p=dropout, scale=scaling)
    return look.pack(mixed), None
