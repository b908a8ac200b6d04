"""Queries and keys turned to their place, values beside them: on a GPU by one kernel, forward and backward.

Compiled from plain operations, the exchange of the two halves of a head reads every number by itself, and its gradient
took a fifth of a step. A test holds the kernel equal to the plain operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

ROWS = 64  # heads of patches that one program turns


def rotated(vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding of (…, size) by `turns`: every half is multiplied, and the other one comes over.

    In the precision of the vectors, whatever that of the turns is."""
    other = vectors.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return (vectors * cosine + other * sine).to(vectors.dtype)


def turns(angles: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Angles (…, half) → cosine and sine (…, size) as `rotated` wants them, the sine with its sign."""
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([cosine, cosine], -1).to(dtype), torch.cat([-sine, sine], -1).to(dtype)


def turned(mixed: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(R, 3, heads, size) → queries, keys, values, (R, heads, size) each. cosine, sine: (R, 1, size), from `turns`."""
    if mixed.is_cuda and kernel() is not None:
        return Turned.apply(mixed, cosine, sine)
    query, key, value = mixed.unbind(1)
    return rotated(query, cosine, sine), rotated(key, cosine, sine), value


class Turned(torch.autograd.Function):
    """`turned` by the kernel; backward is the turn the other way."""

    @staticmethod
    def forward(ctx: Any, mixed: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(cosine, sine)
        made = tuple(torch.empty_like(mixed[:, 0], memory_format=torch.contiguous_format) for _ in range(3))
        launch(mixed.contiguous().unbind(1), made, cosine, sine, 1.0)
        return made[0], made[1], made[2]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        cosine, sine = ctx.saved_tensors
        rows, heads, size = gradients[0].shape
        made = torch.empty(rows, 3, heads, size, dtype=gradients[0].dtype, device=gradients[0].device)
        launch(tuple(each.contiguous() for each in gradients), made.unbind(1), cosine, sine, -1.0)
        return made, None, None


def launch(given: Sequence[Tensor], made: Sequence[Tensor], cosine: Tensor, sine: Tensor, direction: float) -> None:
    """Three tensors (R, heads, size) into three others; only their rows may lie apart."""
    rows, heads, size = given[0].shape
    total = rows * heads
    how = {"HEADS": heads, "HALF": size // 2, "ROWS": ROWS}
    kernel()[(-(-total // ROWS),)](
        *given, *made, cosine, sine, given[0].stride(0), made[0].stride(0), total, direction, **how
    )


@cache
def kernel() -> Any:
    """The kernel, or None where there is no Triton."""
    try:
        from .turn_kernel import turn
    except ImportError:
        return None
    return turn
