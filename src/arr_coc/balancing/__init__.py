"""BALANCE: three ways of knowing, three tensions, one relevance map."""

from .tension import DEFAULT_TENSIONS, TENSION_NAMES, TensionBalancer, balance

__all__ = ["DEFAULT_TENSIONS", "TENSION_NAMES", "TensionBalancer", "balance"]
