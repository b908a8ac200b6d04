"""Where the scorer's examples come from: the curriculum's sources, rendered ahead, mixed into one batch."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor

from ..needle.clips import render_clip
from .curriculum import SOURCES, Curriculum
from .pictures import Glyphs, TrainingBatch, render_family
from .pool import PicturePool, join

FRAMES = 4


@dataclass
class SourcePool(PicturePool):
    """The pictures of one source: `static` (normal and easy), `hard`, or `video` (frames of clips with one cut)."""

    source: str = "static"

    def render(
        self, family: str, number: int, size: tuple[int, int], start: int, chance: random.Random
    ) -> TrainingBatch:
        if self.source == "video":
            return clip_frames(family, -(-number // FRAMES), size, self.seed, start, self.device, self.split)
        difficulty = "hard" if self.source == "hard" else chance.choices((None, "easy"), (0.7, 0.3))[0]
        return render_family(family, number, size, self.seed, start, self.device, difficulty, self.split)


def clip_frames(
    family: str, clips: int, size: tuple[int, int], seed: int, start: int, device: torch.device | str, split: str
) -> TrainingBatch:
    """Frames of clips as single pictures. They carry no glyphs: a reader that is trained on them needs those, the
    scorer does not."""
    frames = render_clip(family, clips, FRAMES, size, seed, split, None, device, start, cuts=1).frames
    none = torch.zeros(len(frames), 0, dtype=torch.int64, device=frames.pictures.device)
    return TrainingBatch.of(frames, Glyphs(none, none, none, none))


class Sources:
    """One pool for each source; `take` mixes them as the curriculum says."""

    def __init__(
        self,
        curriculum: Curriculum,
        families: tuple[str, ...],
        shares: tuple[float, ...],
        seed: int,
        device: torch.device | str,
        rendered: dict[str, int] | None = None,
        split: str = "train",
    ) -> None:
        self.curriculum = curriculum
        self.pools = {
            source: SourcePool(
                families, shares, seed + 101 * place, device, split, (rendered or {}).get(source, 0), source=source
            )
            for place, source in enumerate(SOURCES)
        }

    @property
    def rendered(self) -> dict[str, int]:
        return {source: pool.rendered for source, pool in self.pools.items()}

    def take(
        self, number: int, size: tuple[int, int], progress: float, chance: random.Random
    ) -> tuple[TrainingBatch, Tensor]:
        """Exactly `number` pictures and what each counts in the loss (B,), mean 1."""
        parts, weights = [], []
        for source, count in self.curriculum.counts(progress, number).items():
            parts.append(self.pools[source].take(count, size, chance))
            weights.append(torch.full((len(parts[-1]),), self.curriculum.weights[source]))
        weight = torch.cat(weights).to(parts[0].pictures.device)
        return join(parts), weight / weight.mean()
