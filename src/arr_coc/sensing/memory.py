"""Channels that come from outside the picture: what was relevant, salient, fixated or attended to before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import is_tensor
from ..errors import InputError
from .backend import Backend, BackendMap

MEMORY_CHANNELS = (
    "previous_relevance",
    "previous_saliency",
    "fixation_history",
    "previous_attention",
    "current_attention",
)


def memory_channels(
    ops: Backend, memory: Mapping[str, Any], size: tuple[int, int], like: BackendMap
) -> dict[str, BackendMap]:
    """The memory channels that were given, at the wanted size; those that were not stay zero."""
    unknown = set(memory) - set(MEMORY_CHANNELS)
    if unknown:
        raise InputError(f"no memory channel is called {sorted(unknown)[0]!r}; choose of {', '.join(MEMORY_CHANNELS)}")
    return {name: given_map(ops, given, size, like, name) for name, given in memory.items() if given is not None}


def given_map(ops: Backend, given: Any, size: tuple[int, int], like: BackendMap, name: str) -> BackendMap:
    """A caller's map (numpy or torch; (H, W) or (B, H, W), any resolution) in the back end's type, in [0, 1]."""
    if ops.name == "torch":
        import torch

        values = given if is_tensor(given) else torch.from_numpy(np.asarray(given, dtype=np.float32))
        values = values.to(like)
        values = values[None] if values.ndim == 2 else values
        fits = values.ndim == 3 and values.shape[0] in (1, like.shape[0])
    else:
        values = given.detach().cpu().numpy() if is_tensor(given) else np.asarray(given)
        values = np.ascontiguousarray(values, dtype=np.float32)
        values = values[0] if values.ndim == 3 and len(values) == 1 else values
        fits = values.ndim == 2
    if not fits:
        raise InputError(f"{name} must be a map (H, W), or one per picture (B, H, W), got {tuple(np.shape(given))}")
    # NaN makes every comparison false.
    if not bool(values.min() <= values.max()):
        raise InputError(f"{name} contains NaN; every value must be a number in [0, 1]")
    return ops.clip(ops.resize(values, size))
