"""The selectors of the first phases together: one batch of pictures seen by all, and the training that teaches them.

All see the same patches (thirteen channels of the texture, sixteen patches along the longer side) and share a table of
words. Pictures are drawn and sensed once, at the start; a step takes some of one shape, and every system adds its own
loss. On a processor, in minutes:

    arr-coc train classic --seconds 480 --device cpu --out lab/arr_coc_lab/weights/classic
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.core.errors import InputError
from arr_coc.core.values import JsonObject

from ..options import option
from ..statistics import mean_intervals
from ..train.allocations import target_cells
from ..train.evaluate import covered
from ..train.pictures import every_family
from ..train.run import Moment, Notes, RunOptions, Schedule, Training, command
from ..worlds.needle import FAMILIES
from . import edge_lod, participatory, patch_trunk, query_aware_lod
from .selectors import SENSE_SIDE, SUB, Grid, PatchViews, QuestionWords, Selector, as_patches, patch_grid
from .texture.channels40 import sense

if TYPE_CHECKING:
    from accelerate import Accelerator

TAUGHT: tuple[Selector, ...] = (query_aware_lod.SYSTEM, patch_trunk.REALIZER, patch_trunk.SYSTEM, participatory.SYSTEM)
BY_PART = {one.part: one for one in TAUGHT}
# The order in which chance is drawn for their weights, and that in which their losses are added: a training that is
# repeated to the bit needs both.
PARTS = ("realizer", "query_aware_lod", "coupling", "patch_trunk")
LOSSES = ("realizer", "patch_trunk", "query_aware_lod", "coupling")
SHAPES = ((SENSE_SIDE, SENSE_SIDE), (288, SENSE_SIDE), (SENSE_SIDE, 288))
AT_ONCE = 16
KEEP = 0.25


@dataclass(frozen=True)
class ClassicBatch:
    """Pictures of one shape as the selectors see them. patches: (N, P, 52) float16. words: (N, 24) rows of the table.
    truth: (N, rows, columns) in {0, 1}. edges: (N, rows, columns) of EdgeLOD."""

    patches: Tensor
    words: Tensor
    truth: Tensor
    edges: Tensor
    grid: Grid

    @classmethod
    @torch.no_grad()
    def draw(cls, shape: tuple[int, int], number: int, seed: int, split: str, words: QuestionWords) -> ClassicBatch:
        """Draw and sense `number` pictures in equal parts of every family."""
        grid, parts = patch_grid(shape), []
        for batch in every_family(number, shape, seed, split, at_once=AT_ONCE):
            texture = sense(batch.pictures, "mvp13")
            cells = F.adaptive_avg_pool2d(texture.data, (SUB * grid[0], SUB * grid[1]))
            truth = target_cells(batch, *grid).to(torch.uint8)
            edges = edge_lod.edge_map(texture, grid)
            parts.append((as_patches(cells).half(), words.rows(batch.questions), truth, edges))
        return cls(*(torch.cat(items) for items in zip(*parts, strict=True)), grid)

    def views(self, chosen: Tensor | slice, words: QuestionWords, device: torch.device) -> PatchViews:
        """Return some of the pictures, as the systems read them."""
        patches = self.patches[chosen].to(device).float()
        return PatchViews(patches, *words(self.words[chosen].to(device)), self.grid)


@dataclass(frozen=True, kw_only=True)
class ClassicOptions(RunOptions):
    """How the selectors are taught."""

    folder: Path = option(Path("runs/classic"), "Folder for the checkpoint and the curve.")
    pictures: int = option(2100, "Pictures to draw for each of three shapes.")
    judged: int = option(350, "Validation pictures.")
    batch: int = option(48, "Pictures a step.")
    learning_rate: float = option(2e-3, "Learning rate of AdamW.")


class ClassicTraining(Training[ClassicOptions]):
    """The selectors and their words, on the same pictures."""

    def __init__(self, options: ClassicOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        if options.pictures < len(FAMILIES):
            raise InputError(f"--pictures {options.pictures} leaves a family out; give {len(FAMILIES)} or more")
        self.words = QuestionWords()
        made = {part: BY_PART[part].make(self.words.config.width) for part in PARTS}
        self.modules = {"words": self.words, **made}
        for module in self.modules.values():
            module.to(self.device)
        rate = options.learning_rate
        self.optimizers.append(torch.optim.AdamW(self.parameters(), lr=rate, weight_decay=0.02, betas=(0.9, 0.98)))
        self.schedule = Schedule(warm_up=40, decay_from=0.4, floor=0.02)
        self.noise = self.generator("noise", options.seed, torch.device("cpu"))
        self.taught = {BY_PART[part]: self.modules[part] for part in LOSSES}
        self.drawn = [ClassicBatch.draw(one, options.pictures, options.seed, "train", self.words) for one in SHAPES]
        self.held = ClassicBatch.draw(SHAPES[0], options.judged, options.seed, "validation", self.words)

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        drawn = self.drawn[at.step % len(self.drawn)]
        chosen = torch.randint(len(drawn.patches), (self.options.batch,), generator=self.noise)
        truth = drawn.truth[chosen].to(self.device).float()
        views = drawn.views(chosen, self.words, self.device)
        parts = {one.part: one.loss(module, views, truth) for one, module in self.taught.items()}
        return torch.stack(list(parts.values())).sum(), parts

    @torch.no_grad()
    def coverage(self, at_once: int = 64) -> dict[str, np.ndarray]:
        """Share of the needed patches that an overlay of a quarter of the tokens sees at level 0, by picture."""
        held, found = self.held, {one.name: [] for one in self.taught}
        for start in range(0, len(held.patches), at_once):
            views = held.views(slice(start, start + at_once), self.words, self.device)
            for one, module in self.taught.items():
                found[one.name].append(one.reading(module, views).cpu())
        truth = held.truth.float()
        maps = {name: torch.cat(parts) for name, parts in found.items()}
        maps |= {"edge_lod": held.edges, "uniform": torch.ones_like(truth), "oracle": truth}
        return {name: covered(one, truth, KEEP) for name, one in maps.items()}

    def judge(self, at: Moment) -> JsonObject:
        return {f"covered {name}": float(values.mean()) for name, values in self.coverage().items()}

    def record(self) -> JsonObject:
        shares = mean_intervals(self.coverage())
        return {**super().record(), "coverage at 1/4 [value, low, high]": shares, "n": len(self.held.truth)}


main = command(ClassicTraining, ClassicOptions, __doc__)
