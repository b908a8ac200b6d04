"""BALANCE: three ways of knowing, three tensions, one relevance map.

Names are resolved on first use: `balance` needs no torch, `TensionBalancer` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .balancer import TensionBalancer
    from .tension import DEFAULT_TENSIONS, SHARPNESS, TENSION_NAMES, balance, sharpen

resolve_lazily(
    __name__,
    {
        "DEFAULT_TENSIONS": "tension",
        "SHARPNESS": "tension",
        "TENSION_NAMES": "tension",
        "TensionBalancer": "balancer",
        "balance": "tension",
        "sharpen": "tension",
    },
)

__all__ = ["DEFAULT_TENSIONS", "SHARPNESS", "TENSION_NAMES", "TensionBalancer", "balance", "sharpen"]
