"""Rendering ahead: a family's next few steps are rendered in one go, and every step takes a slice of each family.

The renderer's cost is mostly launching small operations, the same for ten pictures as for a thousand; so few large
calls, one family at a time, make it vanish beside the reading.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, fields
from itertools import accumulate, pairwise

import torch
from torch.nn import functional as F

from ..needle.difficulty import Difficulty
from .pictures import Glyphs, TrainingBatch, render_family

AHEAD = 8
# Rendering ahead is worth nothing on large canvases, where painting dominates, and would only take memory.
PIXELS_AHEAD = 2048 * 256 * 256


@dataclass
class PicturePool:
    """Rendered but not yet used pictures, by family and canvas. Explicit state: one pool for each training."""

    families: tuple[str, ...]
    shares: tuple[float, ...]
    seed: int
    device: torch.device | str
    split: str = "train"
    rendered: int = 0
    waiting: dict[tuple[int, tuple[int, int]], tuple[TrainingBatch, int]] = field(default_factory=dict)

    def take(self, number: int, size: tuple[int, int], chance: random.Random) -> TrainingBatch:
        """Exactly `number` fresh pictures, so that they divide among processes; the families' shares hold on average.

        Borders between families stand at the cumulated shares, all shifted by one random offset before rounding.
        """
        offset, total = chance.random(), sum(self.shares)
        borders = [int(number * share / total + offset) for share in accumulate(self.shares, initial=0.0)]
        # The last border is the number itself, whatever rounding made of the sum.
        borders[-1] = number
        parts = []
        for index, (start, stop) in enumerate(pairwise(borders)):
            if stop > start:
                batch, used = self.waiting.get((index, size), (None, 0))
                if batch is None or len(batch) - used < stop - start:
                    batch, used = self._ahead(index, stop - start, size, chance), 0
                self.waiting[index, size] = batch, used + stop - start
                parts.append(cut(batch, used, used + stop - start))
        return join(parts)

    def _ahead(self, index: int, count: int, size: tuple[int, int], chance: random.Random) -> TrainingBatch:
        number = max(count, min(count * AHEAD, PIXELS_AHEAD // (size[0] * size[1])))
        start = self.rendered
        self.rendered += number
        return self.render(self.families[index], number, size, start, chance)

    def render(
        self, family: str, number: int, size: tuple[int, int], start: int, chance: random.Random
    ) -> TrainingBatch:
        """At least `number` pictures of one family."""
        difficulty = choose_difficulty(size, chance)
        return render_family(family, number, size, self.seed, start, self.device, difficulty, self.split)


def choose_difficulty(size: tuple[int, int], chance: random.Random) -> Difficulty | str | None:
    """On nursery canvases the nursery; elsewhere mostly normal, some easier, some hard."""
    if min(size) <= 128:
        return None
    return chance.choices((None, "easy", "hard"), (0.6, 0.25, 0.15))[0]


def cut(batch: TrainingBatch, start: int, stop: int) -> TrainingBatch:
    """Pictures start … stop − 1."""
    glyphs = Glyphs(*(getattr(batch.glyphs, item.name)[start:stop] for item in fields(Glyphs)))
    names = [item.name for item in fields(TrainingBatch) if item.name != "glyphs"]
    return TrainingBatch(glyphs=glyphs, **{name: getattr(batch, name)[start:stop] for name in names})


def join(parts: list[TrainingBatch]) -> TrainingBatch:
    """Batches of one canvas as one; families may have different numbers of glyphs."""
    widest = max(part.glyphs.y.shape[1] for part in parts)
    glyphs = Glyphs(
        *(
            torch.cat([F.pad(getattr(p.glyphs, f.name), (0, widest - p.glyphs.y.shape[1])) for p in parts])
            for f in fields(Glyphs)
        )
    )
    names = [item.name for item in fields(TrainingBatch) if item.name != "glyphs"]
    return TrainingBatch(glyphs=glyphs, **{name: torch.cat([getattr(p, name) for p in parts]) for name in names})
