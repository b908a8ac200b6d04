"""Credit that was paid for once is learned from several times: a few batches with their shares, kept for a while.

Reading with its derivative costs several times as much as a step of the scorer. So every freshly judged batch is
followed by steps on some that were judged shortly before; what the reader said about them does not change, since it is
frozen.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from .pictures import TrainingBatch

KEPT = 24


class Judged(NamedTuple):
    """A batch, where its answers hung on detail (B, rows, cols), and what each picture counts (B,)."""

    batch: TrainingBatch
    shares: Tensor
    weights: Tensor


@dataclass
class CreditReplay:
    """The latest batches; explicit state, one for each training. It is not saved: a resumed run fills it anew."""

    kept: deque[Judged] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, judged: Judged) -> None:
        self.kept.append(judged)

    def draw(self, times: int, chance: random.Random) -> list[Judged]:
        """At most `times` of those before the latest, different ones."""
        older = list(self.kept)[:-1]
        return chance.sample(older, min(times, len(older)))
