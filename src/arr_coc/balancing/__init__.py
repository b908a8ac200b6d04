"""BALANCE: three ways of knowing, three tensions, one relevance map.

Names are resolved on first use: `balance` needs no torch, `TensionBalancer` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .arousal import Arousal, arousal_of, contradiction, first_arousal, keyword_stakes, modulate, mood
    from .explain import TensionCurves, explain_history, explain_tensions, tension_curves, tension_maps
    from .learned import AdaptiveConfig, AdaptiveTensionBalancer, ArousalConfig, ArousalEstimator, TensionBalancer
    from .tempering import TemperingConfig, TemperingPolicy, exploration_rule, temper
    from .tension import DEFAULT_TENSIONS, SHARPNESS, TENSION_NAMES, balance, sharpen

HOME = {
    "arousal": ("Arousal", "arousal_of", "contradiction", "first_arousal", "keyword_stakes", "modulate", "mood"),
    "explain": ("TensionCurves", "explain_history", "explain_tensions", "tension_curves", "tension_maps"),
    "learned": ("AdaptiveConfig", "AdaptiveTensionBalancer", "ArousalConfig", "ArousalEstimator", "TensionBalancer"),
    "tempering": ("TemperingConfig", "TemperingPolicy", "exploration_rule", "temper"),
    "tension": ("DEFAULT_TENSIONS", "SHARPNESS", "TENSION_NAMES", "balance", "sharpen"),
}
__all__ = resolve_lazily(__name__, {name: file for file, names in HOME.items() for name in names})
