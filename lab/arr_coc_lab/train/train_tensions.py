"""Learn the tensions of `look`: three numbers, or three for every place by the question, against those set by hand.

The three ways are those of `look` itself (what can be read, what stands out, what the question's plain words couple
to), found once for drawn pictures; only the balance between them is learned. On a processor, in minutes:

    python -m arr_coc_lab.train.train_tensions --seconds 240 --device cpu --out src/arr_coc/weights/classic
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.allocation.overlay import overlay
from arr_coc.core.alphabet import decode
from arr_coc.core.files import write_json
from arr_coc.relevance.look.learned import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from arr_coc.relevance.look.tension import SHARPNESS, balance
from arr_coc.relevance.look.three_ways import relevance_of
from arr_coc.relevance.scene import CHANNELS
from arr_coc.sensing.one_picture import sense_one
from arr_coc.sensing.texture import Layout

from .. import statistics
from ..classic.sources import QuestionWords
from ..worlds.needle import FAMILIES
from .allocations import target_cells
from .checkpoints import ship
from .devices import Devices
from .options import RunOptions, option
from .outcomes import share_loss
from .pictures import render_family
from .rivals import recall
from .run import Moment, Notes, Schedule, Training, command, door

SIDE, CELLS, EACH = 384, 12, 2
KEEPS = (1 / 16, 1 / 4)
ARMS = ("hand-set", "tension", "adaptive")


@dataclass(frozen=True)
class TensionBatch:
    """ways: (N, 3, 24, 24). words: (N, 24) rows of the table. truth: (N, 12, 12) in {0, 1}."""

    ways: Tensor
    words: Tensor
    truth: Tensor


@torch.no_grad()
def lay_out(number: int, seed: int, split: str, words: QuestionWords) -> TensionBatch:
    """The three ways of `look` about drawn pictures of every family."""
    parts, layout = [], Layout.of("look", CHANNELS)
    for family in FAMILIES:
        batch = render_family(family, -(-number // len(FAMILIES)), (SIDE, SIDE), seed, 0, "cpu", None, split)
        for index, picture in enumerate(batch.pictures):
            query = decode(batch.question_ids[index])
            found = relevance_of(sense_one(picture.permute(1, 2, 0).numpy(), layout), query)
            maps = np.stack([np.asarray(one) for one in (found.propositional, found.perspectival, found.participatory)])
            small = F.adaptive_avg_pool2d(torch.from_numpy(maps), CELLS * EACH)
            parts.append((small, words.rows([query])[0]))
        parts[-1] = (*parts[-1], target_cells(batch, CELLS, CELLS))
    truth = torch.cat([part[2] for part in parts if len(part) == 3])
    return TensionBatch(torch.stack([part[0] for part in parts]), torch.stack([part[1] for part in parts]), truth)


@dataclass(frozen=True, kw_only=True)
class TensionOptions(RunOptions):
    """How the tensions are learned."""

    folder: Path = option(Path("runs/tensions"), "where the checkpoint and the curve are kept")
    pictures: int = option(1400, "drawn to learn from")
    judged: int = option(700, "validation pictures that are judged")
    batch: int = option(64, "pictures a step")
    learning_rate: float = option(1e-2, "of AdamW")
    judge_every: float = option(60.0, "seconds between judgements")


class TensionTraining(Training[TensionOptions]):
    """Two balancers over the same three ways; the words' table belongs to the adaptive one."""

    title = "tensions"

    def __init__(self, options: TensionOptions, devices: Devices) -> None:
        super().__init__(options, devices)
        words = self.words = QuestionWords()
        self.fixed = TensionBalancer()
        self.modules = {
            "tension_words": words,
            "tension": self.fixed,
            "adaptive": AdaptiveTensionBalancer(AdaptiveConfig(words.config.width, hidden=16)),
        }
        for module in self.modules.values():
            module.to(self.device)
        self.optimizers.append(torch.optim.AdamW(self.parameters(), lr=options.learning_rate, weight_decay=0.02))
        self.schedule = Schedule(warm_up=20, decay_from=0.4, floor=0.02)
        self.noise = self.generator("noise", options.seed, torch.device("cpu"))
        self.laid = lay_out(options.pictures, options.seed, "train", words)
        self.held = lay_out(options.judged, options.seed, "validation", words)

    def maps(self, laid: TensionBatch, chosen: Tensor | slice) -> dict[str, Tensor]:
        ways = laid.ways[chosen].to(self.device).unbind(1)
        query = self.words.mean(laid.words[chosen].to(self.device))
        return {
            "hand-set": balance(*ways),
            "tension": self.modules["tension"](*ways),
            "adaptive": self.modules["adaptive"](*ways, query),
        }

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        chosen = torch.randint(len(self.laid.ways), (self.options.batch,), generator=self.noise)
        truth = self.laid.truth[chosen].float().to(self.device)
        truth = truth.repeat_interleave(EACH, 1).repeat_interleave(EACH, 2)
        shares = truth / truth.sum((1, 2), keepdim=True).clamp_min(1)
        maps = self.maps(self.laid, chosen)
        notes = {name: share_loss(SHARPNESS * maps[name].clamp_min(1e-3).log(), shares) for name in ARMS}
        return notes["tension"] + notes["adaptive"], notes

    @torch.no_grad()
    def coverage(self) -> dict[str, np.ndarray]:
        """Share of the needed cells that an overlay shows in full, by picture; by arm and share of the tokens."""
        found: dict[str, np.ndarray] = {}
        truth = self.held.truth.float()
        for name, one in self.maps(self.held, slice(None)).items():
            cells = F.avg_pool2d(one.cpu()[:, None] ** SHARPNESS, EACH)[:, 0]
            for keep in KEEPS:
                leaves = overlay(cells, [round(keep * CELLS * CELLS)] * len(cells))
                found[f"{name} {keep:g}"] = recall(torch.as_tensor(leaves.cells), truth).numpy()
        return found

    def judge(self, at: Moment) -> dict[str, Any]:
        return {f"covered {name}": float(values.mean()) for name, values in self.coverage().items()}

    def export(self) -> None:
        ship(self.modules, self.options.target)
        covered = self.coverage()
        estimates = {name: statistics.mean(values) for name, values in covered.items()}
        for keep in KEEPS:
            for name in ARMS[1:]:
                difference = covered[f"{name} {keep:g}"] - covered[f"{ARMS[0]} {keep:g}"]
                estimates[f"{name} − {ARMS[0]} {keep:g}"] = statistics.mean(difference)
        shares = {
            name: [round(value, 4) for value in (one.value, one.low, one.high)] for name, one in estimates.items()
        }
        tensions = self.fixed.named_tensions()
        record = {
            **self.record(),
            "coverage [value, low, high]": shares,
            "n": len(self.held.truth),
            "tensions": tensions,
        }
        write_json(self.options.target / "tensions.json", record)


def main(arguments: Iterable[str] | None = None) -> None:
    command(TensionTraining, TensionOptions, arguments, __doc__)


if __name__ == "__main__":
    door(main)
