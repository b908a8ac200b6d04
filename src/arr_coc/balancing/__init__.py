"""BALANCE: three ways of knowing, three tensions, one relevance map.

Names are resolved on first use: `balance` needs no torch, `TensionBalancer` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .adaptive import AdaptiveConfig, AdaptiveTensionBalancer
    from .arousal import ArousalConfig, ArousalEstimator
    from .balancer import TensionBalancer
    from .explain import TensionCurves, explain_history, explain_tensions, tension_curves, tension_maps
    from .modulation import arousal_of, modulate, mood
    from .stakes import keyword_stakes
    from .tempering import TemperingConfig, TemperingPolicy, exploration_rule, temper
    from .tension import DEFAULT_TENSIONS, SHARPNESS, TENSION_NAMES, balance, sharpen

resolve_lazily(
    __name__,
    {
        "AdaptiveConfig": "adaptive",
        "AdaptiveTensionBalancer": "adaptive",
        "ArousalConfig": "arousal",
        "ArousalEstimator": "arousal",
        "DEFAULT_TENSIONS": "tension",
        "SHARPNESS": "tension",
        "TENSION_NAMES": "tension",
        "TemperingConfig": "tempering",
        "TemperingPolicy": "tempering",
        "TensionBalancer": "balancer",
        "TensionCurves": "explain",
        "arousal_of": "modulation",
        "balance": "tension",
        "explain_history": "explain",
        "explain_tensions": "explain",
        "exploration_rule": "tempering",
        "keyword_stakes": "stakes",
        "modulate": "modulation",
        "mood": "modulation",
        "sharpen": "tension",
        "temper": "tempering",
        "tension_curves": "explain",
        "tension_maps": "explain",
    },
)

__all__ = [
    "DEFAULT_TENSIONS",
    "SHARPNESS",
    "TENSION_NAMES",
    "AdaptiveConfig",
    "AdaptiveTensionBalancer",
    "ArousalConfig",
    "ArousalEstimator",
    "TemperingConfig",
    "TemperingPolicy",
    "TensionBalancer",
    "TensionCurves",
    "arousal_of",
    "balance",
    "explain_history",
    "explain_tensions",
    "exploration_rule",
    "keyword_stakes",
    "modulate",
    "mood",
    "sharpen",
    "temper",
    "tension_curves",
    "tension_maps",
]
