"""REALIZE: from regions to tokens. Foveate before the encoder, or merge after it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# public name -> module that defines it; resolved on first use, because torch is heavy
_PUBLIC = {
    "LeafBatch": "patches",
    "Pyramid": "patches",
    "check_grid": "patches",
    "gather_leaf_patches": "patches",
    "leaves_of": "patches",
    "match_leaves": "patches",
    "mip_pyramid": "patches",
    "unpatchify": "patches",
    "language_positions": "positions",
    "position_taps": "positions",
    "prompt_positions": "positions",
    "vision_positions": "positions",
    "pack": "splice",
    "padding_side": "splice",
    "placeholder_owner": "splice",
    "shorten": "splice",
    "take": "splice",
    "DepthRouting": "depth",
    "HierarchicalRelevance": "depth",
    "route_planes": "depth",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_PUBLIC[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
