"""Teach the selectors of the first phases on the drawn worlds: query_aware_lod, realizer, participatory coupling and
the trunk of patches.

All see the same patches (thirteen channels of the texture, sixteen patches along the longer side) and share a table of
words. Pictures are drawn and sensed once, at the start; a step takes some of one shape. On a processor, in minutes, all
together or one with the words as they are shipped:

    python -m arr_coc_lab.train.train_classic --seconds 480 --device cpu --out src/arr_coc/weights/classic
    python -m arr_coc_lab.train.train_classic --only patch_trunk --device cpu --out src/arr_coc/weights/classic
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.allocation.overlay import overlay
from arr_coc.core.alphabet import decode
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.sensing.batch import sense

from .. import statistics
from ..classic.patch_trunk import TrunkConfig
from ..classic.query_aware_lod import LEVELS, QueryAwareLOD
from ..classic.sources import (
    PARTS,
    PATCH_WIDTH,
    SENSE_SIDE,
    SHARPNESS,
    SUB,
    TAUGHT,
    EdgeLOD,
    QuestionWords,
    RelevanceRealizer,
    SemanticCoupling,
    TrunkMatch,
    as_patches,
    edge_density,
    load_part,
    patch_grid,
)
from ..worlds.needle import FAMILIES
from .allocations import target_cells
from .checkpoints import ship
from .devices import Devices
from .options import RunOptions, option
from .outcomes import share_loss
from .pictures import render_family
from .rivals import recall
from .run import Moment, Notes, Schedule, Training, command, door

SHAPES = ((SENSE_SIDE, SENSE_SIDE), (288, SENSE_SIDE), (SENSE_SIDE, 288))
AT_ONCE = 16
WIDTH, LAYERS, HEADS = 48, 2, 4
TRUNK_WIDTH = 36
# Patches beside what is needed are worth a middle level: a box seldom ends where a patch does.
BESIDE = 2
KEEP = 0.25


@dataclass(frozen=True)
class ClassicBatch:
    """Pictures of one shape as the selectors see them. patches: (N, P, 52) float16. words: (N, 24) rows of the table.
    truth: (N, rows, columns) in {0, 1}. edges: (N, rows, columns) of EdgeLOD."""

    patches: Tensor
    words: Tensor
    truth: Tensor
    edges: Tensor
    grid: tuple[int, int]


@torch.no_grad()
def lay_out(shape: tuple[int, int], number: int, seed: int, split: str, words: QuestionWords) -> ClassicBatch:
    """`number` pictures in equal parts of every family, drawn and sensed."""
    grid, parts = patch_grid(shape), []
    each = -(-number // len(FAMILIES))
    for family in FAMILIES:
        for start in range(0, each, AT_ONCE):
            batch = render_family(family, min(AT_ONCE, each - start), shape, seed, start, "cpu", None, split)
            texture = sense(batch.pictures, "mvp13", backend="torch", clusters=None)
            cells = F.adaptive_avg_pool2d(texture.data, (SUB * grid[0], SUB * grid[1]))
            density = edge_density(texture, grid)
            edges = (EdgeLOD().levels(density) + density) / LEVELS
            rows = words.rows([decode(ids) for ids in batch.question_ids])
            parts.append((as_patches(cells).half(), rows, target_cells(batch, *grid).to(torch.uint8), edges))
    return ClassicBatch(*(torch.cat(items) for items in zip(*parts, strict=True)), grid)


@dataclass(frozen=True, kw_only=True)
class ClassicOptions(RunOptions):
    """How the selectors are taught."""

    folder: Path = option(Path("runs/classic"), "where the checkpoint and the curve are kept")
    pictures: int = option(2100, "drawn for each of three shapes")
    judged: int = option(350, "validation pictures that are judged")
    batch: int = option(48, "pictures a step")
    learning_rate: float = option(2e-3, "of AdamW")
    judge_every: float = option(120.0, "seconds between judgements")
    only: str = option("", "teach this part alone, with the words as they are shipped", choices=("", *tuple(PARTS)[1:]))


class ClassicTraining(Training[ClassicOptions]):
    """The selectors and their words, on the same pictures."""

    title = "classic"

    def __init__(self, options: ClassicOptions, devices: Devices) -> None:
        super().__init__(options, devices)
        if options.pictures < len(FAMILIES):
            raise InputError(f"--pictures {options.pictures} leaves a family out; give {len(FAMILIES)} or more")
        self.words: QuestionWords = load_part("words") if options.only else QuestionWords()
        shape = TrunkConfig(PATCH_WIDTH, self.words.config.width, WIDTH, LAYERS, HEADS)
        self.modules = {
            "words": self.words,
            "realizer": RelevanceRealizer(shape),
            "query_aware_lod": QueryAwareLOD(shape),
            "coupling": SemanticCoupling(),
            "patch_trunk": TrunkMatch(replace(shape, width=TRUNK_WIDTH)),
        }
        if options.only:
            self.words = deepcopy(self.words).requires_grad_(False).to(self.device)  # the loaded one is everybody's
            self.modules = {options.only: self.modules[options.only]}
        for module in self.modules.values():
            module.to(self.device)
        self.optimizers.append(
            torch.optim.AdamW(self.parameters(), lr=options.learning_rate, weight_decay=0.02, betas=(0.9, 0.98))
        )
        self.schedule = Schedule(warm_up=40, decay_from=0.4, floor=0.02)
        self.noise = self.generator("noise", options.seed, torch.device("cpu"))
        self.laid = [lay_out(one, options.pictures, options.seed, "train", self.words) for one in SHAPES]
        self.held = lay_out(SHAPES[0], options.judged, options.seed, "validation", self.words)

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        laid = self.laid[at.step % len(self.laid)]
        chosen = torch.randint(len(laid.patches), (self.options.batch,), generator=self.noise)
        patches, rows, truth = (item[chosen].to(self.device) for item in (laid.patches, laid.words, laid.truth))
        truth, patches = truth.float(), patches.float()
        words, padding = self.words(rows)
        shares = truth / truth.sum((1, 2), keepdim=True).clamp_min(1)
        seen = (patches, words, padding)
        parts: Notes = {}
        for name in ("realizer", "patch_trunk"):
            if name in self.modules:
                logits = self.modules[name](*seen).unflatten(1, laid.grid)
                parts[name] = share_loss(F.logsigmoid(logits), shares) + F.binary_cross_entropy_with_logits(
                    logits, truth, pos_weight=truth.new_tensor(3.0)
                )
        if "query_aware_lod" in self.modules:
            levels = self.modules["query_aware_lod"](*seen)
            near = F.max_pool2d(truth[:, None], 3, stride=1, padding=1)[:, 0]
            wanted = torch.where(truth > 0, LEVELS - 1, torch.where(near > 0, BESIDE, 0)).flatten(1)
            weights = torch.where(wanted > 0, 3.0, 1.0)
            each = F.cross_entropy(levels.flatten(0, 1), wanted.flatten(), reduction="none").view_as(weights)
            parts["query_aware_lod"] = (each * weights).mean()
        if "coupling" in self.modules:
            coupled = self.modules["coupling"](*seen, laid.grid)
            parts["coupling"] = share_loss(SHARPNESS * coupled.clamp_min(1e-3).log(), shares)
        return torch.stack(list(parts.values())).sum(), parts

    @torch.no_grad()
    def maps(self, laid: ClassicBatch, at_once: int = 64) -> dict[str, Tensor]:
        """What each selector says about pictures that were laid out: (N, rows, columns) in [0, 1]."""
        found: dict[str, list[Tensor]] = {}
        for start in range(0, len(laid.patches), at_once):
            patches = laid.patches[start : start + at_once].float().to(self.device)
            words, padding = self.words(laid.words[start : start + at_once].to(self.device))
            for name, (part, reading) in TAUGHT.items():
                if part in self.modules:
                    one = reading(self.modules[part], patches, words, padding, laid.grid)
                    found.setdefault(name, []).append(one.cpu())
        return {**{name: torch.cat(parts) for name, parts in found.items()}, "edge_lod": laid.edges}

    def coverage(self, laid: ClassicBatch) -> dict[str, np.ndarray]:
        """Share of the needed patches that an overlay of a quarter of the tokens sees at level 0, by picture."""
        rows, cols = laid.grid
        budget = max(1, round(KEEP * rows * cols))
        truth = laid.truth.float()
        maps = {**self.maps(laid), "uniform": torch.ones_like(truth), "oracle": truth}
        return {
            name: recall(torch.as_tensor(overlay(one, [budget] * len(one)).cells), truth).numpy()
            for name, one in maps.items()
        }

    def judge(self, at: Moment) -> dict[str, Any]:
        for module in self.modules.values():
            module.eval()
        found = {f"covered {name}": float(values.mean()) for name, values in self.coverage(self.held).items()}
        for module in self.modules.values():
            module.train()
        return found

    def record(self) -> dict[str, Any]:
        for module in self.modules.values():
            module.eval()
        shares = {
            name: [round(value, 4) for value in (one.value, one.low, one.high)]
            for name, one in ((name, statistics.mean(values)) for name, values in self.coverage(self.held).items())
        }
        return {**super().record(), "coverage at 1/4 [value, low, high]": shares, "n": len(self.held.truth)}

    def export(self) -> None:
        """One part alone leaves the record of the others as it is."""
        if not self.options.only:
            return super().export()
        ship(self.exports(), self.options.target)
        return write_json(self.options.target / f"{self.options.only}.json", self.record())


def main(arguments: Iterable[str] | None = None) -> None:
    command(ClassicTraining, ClassicOptions, arguments, __doc__)


if __name__ == "__main__":
    door(main)
