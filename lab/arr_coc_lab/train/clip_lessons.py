"""Clips of several frames for the reader, in video prompts: few steps, so that it knows them when they come."""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

import torch

from arr_coc.attending.tree import Leaves

from ..worlds.needle.clips import NeedleClip, render_clip
from .allocations import Kind, LeafTable, even_tree_of, target_cells
from .checkpoints import TrainingState
from .clip_reader import Clips, read_video
from .evaluate import FAMILIES
from .reader import AnswerReading

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FRAMES = (2, 3, 4, 6)
KEEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
# Clips are read a few times each, under other allocations.
KEPT, READ = 8, 4
Origin = tuple[str, int, int, int]  # family, frames, number of the first clip, cuts


class ClipLessons:
    """Batches of clips, of which the last few are kept, with the plain data that they were made from."""

    def __init__(self, device: torch.device, seed: int, largest: int, clips: int) -> None:
        self.device, self.seed, self.clips = device, seed, clips
        self.side = min(512, largest)
        self.table = LeafTable(even_tree_of((self.side, self.side)), device)
        self.kept: deque[tuple[Origin, NeedleClip]] = deque(maxlen=KEPT)
        self.made = self.read_so_far = 0

    def render(self, origin: Origin) -> NeedleClip:
        family, frames, start, cuts = origin
        size = self.side, self.side
        numbers = range(start, start + self.clips)
        return render_clip(family, numbers, frames, size, self.seed, "train", self.device, cuts=cuts)

    def next(self, chance: random.Random) -> NeedleClip:
        if self.read_so_far % READ == 0:
            frames = chance.choice(FRAMES)
            family, start = FAMILIES[self.made % len(FAMILIES)], self.made * self.clips
            origin = family, frames, start, chance.randint(0, frames - 1)
            self.kept.append((origin, self.render(origin)))
            self.made += 1
        self.read_so_far += 1
        return chance.choice(self.kept)[1]

    def read(self, mini: PreTrainedModel, chance: random.Random, generator: torch.Generator) -> AnswerReading:
        """What the reader makes of one batch: in every frame leaves around what is asked for, and distractions."""
        clip = self.next(chance)
        tree = self.table.tree
        truth = target_cells(clip.frames, tree.rows, tree.cols)
        cells = self.table.leaves(Kind("overlay", chance.choice(KEEPS), 1.0), truth, generator)
        lengths = torch.full((len(cells),), cells.shape[1], device=cells.device)
        leaves = Leaves(cells, torch.zeros(cells.shape[:2], device=cells.device), lengths)
        return read_video(mini, Clips.of(clip), leaves)

    def state(self) -> dict[str, object]:
        """Plain data."""
        origins = [list(origin) for origin, _ in self.kept]
        return {"origins": origins, "made": self.made, "read": self.read_so_far}

    def load_state(self, state: TrainingState) -> None:
        origins = [(family, frames, start, cuts) for family, frames, start, cuts in state["origins"]]
        self.kept.extend((origin, self.render(origin)) for origin in origins)
        self.made, self.read_so_far = state["made"], state["read"]
