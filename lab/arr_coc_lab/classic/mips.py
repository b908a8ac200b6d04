"""Learned mips against averages, and against averages weighted by attention, at equal size.

Three arms see the same pictures and questions: the texture of 128 × 128 cells goes down three levels, to 16 × 16, by
plain reducers, by the learned downsampler, or weighted by the map of the first arm; then a small network of its own
finds the patches that the question needs. Only what the mips keep can be found. On a processor, in minutes:

    python -m arr_coc_lab.classic.mips --layout mvp13 --seconds 300 --device cpu --out src/arr_coc/weights/classic
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.files import write_json
from arr_coc.texture.batch import sense
from arr_coc.texture.pyramid import pyramid, to_cells
from arr_coc.texture.reducers import LearnedDownsampler, attention_weighted
from arr_coc.texture.texture import Texture, get_layout

from ..statistics import mean_intervals
from ..train.allocations import target_cells
from ..train.checkpoints import ship
from ..train.devices import Devices
from ..train.drawn import DrawnOptions, DrawnTraining
from ..train.options import option
from ..train.outcomes import share_loss
from ..train.pictures import every_family
from ..train.rivals import covered
from ..train.run import Moment, Notes, Schedule, command, door
from .patch_trunk import TrunkConfig, patch_features
from .realizer import RelevanceRealizer
from .selectors import QuestionWords, shares_of

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
class MipsOptions(DrawnOptions):
    """How the downsampler is taught."""

    folder: Path = option(Path("runs/mips"), "where the checkpoint and the curve are kept")
    layout: str = option("mvp13", "of the texture", choices=("mvp13", "full40"))
    size: int = option(384, "pixels along a picture's side")
    batch: int = option(12, "pictures a step")


class MipsTraining(DrawnTraining[MipsOptions]):
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
        self.drawn = self.draw(options.pictures, "train", rows)
        self.held = self.draw(options.judged, "validation", rows)
        for name, places in self.down.groups.items():
            # Averaged x and y are the true centres of the cells; channels that are silent here teach nothing.
            if name == "position" or not bool(self.drawn.cells[:, places].any()):
                self.down.convolutions[name].requires_grad_(False)
        self.begin(Schedule(warm_up=30, decay_from=0.4, floor=0.02), weight_decay=0.0, betas=(0.9, 0.98))

    @torch.no_grad()
    def draw(self, number: int, split: str, rows: Callable[[Sequence[str]], Tensor]) -> MipBatch:
        parts, size = [], (self.options.size, self.options.size)
        clusters = "slic" if "cluster_id" in self.layout else None
        for batch in every_family(number, size, self.options.seed, split, device=self.device, at_once=AT_ONCE):
            texture = to_cells(sense(batch.pictures, self.layout, backend="torch", clusters=clusters), (FINE, FINE))
            # Semantic channels are zero in drawn worlds without an encoder; all others lie in [0, 1].
            cells = (texture.data * self.steps_of()).round().clamp(0, 255).to(torch.uint8)
            parts.append((cells.cpu(), rows(batch.questions), target_cells(batch, *GRID).cpu()))
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
        chosen = self.choose(len(self.drawn.cells))
        shares = shares_of(self.drawn.truth[chosen].to(self.device).float())
        logits = self.logits(self.drawn.cells[chosen], self.drawn.words[chosen])
        notes = {name: share_loss(F.logsigmoid(one), shares) for name, one in logits.items()}
        return torch.stack(list(notes.values())).sum(), notes

    @torch.no_grad()
    def coverage(self, at_once: int = 32) -> dict[str, np.ndarray]:
        """Share of the needed patches that an overlay of a quarter of the tokens sees at level 0, by picture."""
        held, found = self.held, {name: [] for name in ARMS}
        for start in range(0, len(held.cells), at_once):
            part = slice(start, start + at_once)
            for name, one in self.logits(held.cells[part], held.words[part]).items():
                found[name].append(covered(one.sigmoid().cpu(), held.truth[part].float(), KEEP))
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def export(self) -> None:
        name = f"mips_{self.layout.name}"
        ship({name: self.down}, self.options.target)
        found = self.coverage()
        found |= {f"{name} − average": found[name] - found["average"] for name in ARMS[1:]}
        shares = mean_intervals(found)
        record = {**self.record(), "coverage at 1/4 [value, low, high]": shares, "n": len(self.held.truth)}
        write_json(self.options.target / f"{name}.json", record)


main = command(MipsTraining, MipsOptions, __doc__)

if __name__ == "__main__":
    door(main)
