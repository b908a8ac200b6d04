"""The families of Needle World: each is one function from a `Stage` to a `NeedleScene`."""

from __future__ import annotations

from collections.abc import Callable

from ..scene import NeedleScene, Stage
from .papers import cards, charts, forms, receipts
from .places import scenes, signs, zoo

FAMILIES: dict[str, Callable[[Stage], NeedleScene]] = {
    "cards": cards,
    "forms": forms,
    "receipts": receipts,
    "scenes": scenes,
    "charts": charts,
    "signs": signs,
    "zoo": zoo,
}
