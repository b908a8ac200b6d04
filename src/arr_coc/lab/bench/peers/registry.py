"""Every way of the comparison, in the order of the tables."""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import InputError
from . import (
    average_pooling,
    cdpruner,
    controls,
    dart,
    divprune,
    fastv,
    holov,
    ours,
    prumerge,
    pyramid_drop,
    sparse_vlm,
    tome,
    visionzip,
    vispruner,
)
from .model import Told
from .way import Way

FULL = Way("full", "control", "after", True, lambda mini, scene, tokens: Told(mini.full(scene)))
PEERS = (fastv, pyramid_drop, sparse_vlm, dart, visionzip, divprune, cdpruner, vispruner, holov, prumerge)
WAYS: tuple[Way, ...] = tuple(way for module in (ours, *PEERS, average_pooling, tome, controls) for way in module.WAYS)
QUICK = ("scorer + overlay", "FastV, K = 2", "VisionZip", "DivPrune", "average pooling", "uniform down-sampling")


def chosen_ways(names: Sequence[str] | None) -> tuple[Way, ...]:
    """Those whose name contains one of these words, whatever the case; all of them without any."""
    if not names:
        return WAYS
    for name in names:
        if not any(name.lower() in way.name.lower() for way in WAYS):
            raise InputError(f"no way is called {name!r}; choose from {', '.join(way.name for way in WAYS)}")
    return tuple(way for way in WAYS if any(name.lower() in way.name.lower() for name in names))
