"""Cache small tables on a device: every transfer would make the processor wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor


def constant(values: Sequence[object] | float, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor of these numbers. Never change it in place."""
    return _constant(_frozen(values), device, dtype)


def _frozen(values: object) -> object:
    return tuple(map(_frozen, values)) if isinstance(values, list | tuple) else values


@cache
def _constant(values: object, device: torch.device, dtype: torch.dtype | None) -> Tensor:
    return torch.tensor(values, device=device, dtype=dtype)
