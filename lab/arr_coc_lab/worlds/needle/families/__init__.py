"""The families of Needle World: each is one function from a `Stage` to a `NeedleScene`."""

from __future__ import annotations

from collections.abc import Callable

from ..scene import NeedleScene, Stage
from .cards import cards
from .charts import charts
from .forms import forms
from .receipts import receipts
from .scenes import scenes
from .signs import signs
from .zoo import zoo

FAMILIES: dict[str, Callable[[Stage], NeedleScene]] = {
    "cards": cards,
    "forms": forms,
    "receipts": receipts,
    "scenes": scenes,
    "charts": charts,
    "signs": signs,
    "zoo": zoo,
}
