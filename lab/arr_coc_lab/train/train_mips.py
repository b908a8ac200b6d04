"""Learned mips against averages, and against averages weighted by attention, at equal size.

Three arms see the same pictures and questions: the texture of 128 × 128 cells goes down three levels, to 16 × 16, by
plain reducers, by the learned downsampler, or weighted by the map of the first arm; then a small network of its own
finds the patches that the question needs. Only what the mips keep can be found. On a processor, in minutes:

    python -m arr_coc_lab.train.train_mips --layout mvp13 --seconds 300 --device cpu --out src/arr_coc/weights/classic
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.allocation.overlay import overlay
from arr_coc.core.alphabet import decode
from arr_coc.core.files import write_json
from arr_coc.sensing.batch import sense
from arr_coc.sensing.pyramid import pyramid, to_cells
from arr_coc.sensing.reducers import LearnedDownsampler, attention_weighted
from arr_coc.sensing.texture import Texture, get_layout

from .. import statistics
from ..classic.patch_trunk import TrunkConfig, patch_features
from ..classic.sources import QuestionWords, RelevanceRealizer
from ..worlds.needle import FAMILIES
from .allocations import target_cells
from .checkpoints import ship
from .devices import Devices
from .options import RunOptions, option
from .outcomes import share_loss
from .pictures import render_family
from .rivals import recall
from .run import Moment, Notes, Schedule, Training, command, door

FINE, LEVELS = 128, 4
GRID = (FINE >> (LEVELS - 1), FINE >> (LEVELS - 1))
AT_ONCE = 14
ARMS = ("average", "learned", "attention")
KEEP = 0.25


@dataclass(frozen=True)
class MipBatch:
    """cells: (N, C, 128, 128) uint8, channels in 255ths of their range, identifiers as they are. words: (N, 24) rows of
    the words' table. truth: (N, 16, 16) uint8."""

    cells: Tensor
    words: Tensor
    truth: Tensor


@dataclass(frozen=True, kw_only=True)
class MipsOptions(RunOptions):
    """How the downsampler is taught."""

    folder: Path = option(Path("runs/mips"), "where the checkpoint and the curve are kept")
    layout: str = option("mvp13", "of the texture", choices=("mvp13", "full40"))
    size: int = option(384, "pixels along a picture's side")
    pictures: int = option(1400, "drawn to learn from")
    judged: int = option(700, "validation pictures that are judged")
    batch: int = option(12, "pictures a step")
    learning_rate: float = option(2e-3, "of AdamW")
    judge_every: float = option(120.0, "seconds between judgements")


class MipsTraining(Training[MipsOptions]):
    """The downsampler, and for each arm a network and its words, which begin alike."""

    title = "mips"

    def __init__(self, options: MipsOptions, devices: Devices) -> None:
        super().__init__(options, devices)
        self.layout = get_layout(options.layout)
        self.down = LearnedDownsampler(self.layout).to(self.device)
        channels = len(self.layout) - len(self.layout.having("majority"))
        self.modules["downsampler"] = self.down
        first: dict[str, nn.Module] = {}
        for arm in ARMS:
            words = QuestionWords()
            parts: dict[str, nn.Module] = {
                "words": words,
                "head": RelevanceRealizer(TrunkConfig(channels, words.config.width, 32, 1, 4)),
            }
            for name, part in parts.items():
                part.load_state_dict(first.setdefault(name, part).state_dict())
                self.modules[f"{arm} {name}"] = part.to(self.device)
        rows = QuestionWords().rows
        self.laid = self.lay_out(options.pictures, "train", rows)
        self.held = self.lay_out(options.judged, "validation", rows)
        for name, places in self.down.groups.items():
            # Averaged x and y are the true centres of the cells; channels that are silent here teach nothing.
            if name == "position" or not bool(self.laid.cells[:, places].any()):
                self.down.convolutions[name].requires_grad_(False)
        learned = [one for one in self.parameters() if one.requires_grad]
        self.optimizers.append(
            torch.optim.AdamW(learned, lr=options.learning_rate, weight_decay=0.0, betas=(0.9, 0.98))
        )
        self.schedule = Schedule(warm_up=30, decay_from=0.4, floor=0.02)
        self.noise = self.generator("noise", options.seed, torch.device("cpu"))

    @torch.no_grad()
    def lay_out(self, number: int, split: str, rows: Any) -> MipBatch:
        parts, side = [], self.options.size
        each = -(-number // len(FAMILIES))
        for family in FAMILIES:
            for start in range(0, each, AT_ONCE):
                count = min(AT_ONCE, each - start)
                batch = render_family(family, count, (side, side), self.options.seed, start, self.device, None, split)
                clusters = "slic" if "cluster_id" in self.layout else None
                texture = to_cells(sense(batch.pictures, self.layout, backend="torch", clusters=clusters), (FINE, FINE))
                # Semantic channels are zero in drawn worlds without an encoder; all others lie in [0, 1].
                cells = (texture.data * self.steps_of()).round().clamp(0, 255).to(torch.uint8)
                asked = rows([decode(ids) for ids in batch.question_ids.cpu()])
                parts.append((cells.cpu(), asked, target_cells(batch, *GRID).cpu()))
        return MipBatch(*(torch.cat(items) for items in zip(*parts, strict=True)))

    def steps_of(self) -> Tensor:
        """(C, 1, 1): how many steps of a byte a channel's unit has; identifiers are whole numbers already."""
        names = set(self.layout.having("majority"))
        steps = [1.0 if place in names else 255.0 for place in range(len(self.layout))]
        return torch.tensor(steps, device=self.device)[:, None, None]

    def texture(self, cells: Tensor) -> Texture:
        return Texture(cells.to(self.device).float() / self.steps_of(), self.layout, FINE, FINE)

    def logits(self, cells: Tensor, rows: Tensor) -> dict[str, Tensor]:
        """(B, 16, 16) of each arm, from the coarse level of its own mips."""
        fine, found = self.texture(cells), {}

        def find(arm: str, coarse: Texture) -> Tensor:
            words, padding = self.modules[f"{arm} words"](rows.to(self.device))
            return self.modules[f"{arm} head"](patch_features(coarse, GRID), words, padding).unflatten(1, GRID)

        found["average"] = find("average", pyramid(fine, LEVELS, backend="torch")[-1])
        found["learned"] = find("learned", self.down.pyramid(fine, LEVELS)[-1])
        weights = F.interpolate(found["average"].detach().sigmoid()[:, None], size=(FINE, FINE), mode="bilinear")[:, 0]
        found["attention"] = find("attention", attention_weighted(fine, weights, LEVELS)[-1])
        return found

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        chosen = torch.randint(len(self.laid.cells), (self.options.batch,), generator=self.noise)
        truth = self.laid.truth[chosen].to(self.device).float()
        shares = truth / truth.sum((1, 2), keepdim=True).clamp_min(1)
        logits = self.logits(self.laid.cells[chosen], self.laid.words[chosen])
        notes = {name: share_loss(F.logsigmoid(one), shares) for name, one in logits.items()}
        return torch.stack(list(notes.values())).sum(), notes

    @torch.no_grad()
    def coverage(self, laid: MipBatch, at_once: int = 32) -> dict[str, np.ndarray]:
        """Share of the needed patches that an overlay of a quarter of the tokens sees at level 0, by picture."""
        budget, found = round(KEEP * GRID[0] * GRID[1]), {name: [] for name in ARMS}
        for start in range(0, len(laid.cells), at_once):
            part = slice(start, start + at_once)
            truth = laid.truth[part].float()
            for name, one in self.logits(laid.cells[part], laid.words[part]).items():
                leaves = overlay(one.sigmoid().cpu(), [budget] * len(one))
                found[name].append(recall(torch.as_tensor(leaves.cells), truth).numpy())
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def judge(self, at: Moment) -> dict[str, Any]:
        return {f"covered {name}": float(values.mean()) for name, values in self.coverage(self.held).items()}

    def export(self) -> None:
        name = f"mips_{self.layout.name}"
        ship({name: self.down}, self.options.target)
        covered = self.coverage(self.held)
        estimates = {name: statistics.mean(values) for name, values in covered.items()}
        estimates |= {f"{name} − average": statistics.mean(covered[name] - covered["average"]) for name in ARMS[1:]}
        shares = {
            name: [round(value, 4) for value in (one.value, one.low, one.high)] for name, one in estimates.items()
        }
        record = {**self.record(), "coverage at 1/4 [value, low, high]": shares, "n": len(self.held.truth)}
        write_json(self.options.target / f"{name}.json", record)


def main(arguments: Iterable[str] | None = None) -> None:
    command(MipsTraining, MipsOptions, arguments, __doc__)


if __name__ == "__main__":
    door(main)
