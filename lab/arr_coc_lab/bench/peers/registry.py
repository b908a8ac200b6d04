"""Every way of the comparison, in the order of the tables."""

from __future__ import annotations

from collections.abc import Sequence

from arr_coc.core.errors import InputError

from . import average_pooling, controls, divprune, fastv, ours, pyramid_drop, sparse_vlm, tome, visionzip
from .model import Told, Way

FULL = Way("full", "control", "after", True, lambda mini, scene, tokens: Told(mini.full(scene)))
PEERS = (fastv, pyramid_drop, sparse_vlm, visionzip, divprune, average_pooling, tome)
WAYS: tuple[Way, ...] = tuple(way for module in (ours, *PEERS, controls) for way in module.WAYS)


def chosen_ways(names: Sequence[str] | None) -> tuple[Way, ...]:
    """Those that are called so, or else whose name contains one of these words; all of them without any."""
    chosen: set[str] = set()
    for name in names or ():
        found = {way.name for way in WAYS if way.name.lower() == name.lower()}
        found = found or {way.name for way in WAYS if name.lower() in way.name.lower()}
        if not found:
            raise InputError(f"no way is called {name!r}; choose from {', '.join(way.name for way in WAYS)}")
        chosen |= found
    return tuple(way for way in WAYS if not names or way.name in chosen)
