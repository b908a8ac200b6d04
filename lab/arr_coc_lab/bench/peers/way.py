"""A way of spending fewer visual tokens, as the comparison knows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .model import PeerScene, PrunableMini, Told

Make = Callable[[PrunableMini, PeerScene, int], Told]
# before: the tower reads less. tower: it reads less as it goes. after: tokens go behind it. inside: in the language
# model. Only the first two spare the tower anything.
Where = Literal["before", "tower", "after", "inside"]
Group = Literal["ours", "peer", "control", "oracle"]


@dataclass(frozen=True)
class Way:
    """make: (mini, scene, tokens) → what the language model is told, with that many visual tokens in its last layer.
    asks: does it know the question? paper: where it was published. more: is it also read at larger budgets, so that
    there is something to set beside what others spend on the whole tower?"""

    name: str
    group: Group
    where: Where
    asks: bool
    make: Make
    paper: str = ""
    more: bool = False

    @property
    def spares_tower(self) -> bool:
        return self.where in ("before", "tower")
