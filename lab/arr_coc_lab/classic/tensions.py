"""`arr-coc train tensions`: learn how `look` balances its three ways of knowing.

    arr-coc train tensions --seconds 240 --device cpu --out runs/tensions
    arr-coc train tensions --data photos --out my-tensions        look(…, relevance="look:my-tensions")

The three ways are those of `look` itself (what can be read, what stands out, what the question's plain words couple
to), found once for every picture; only the balance between them is learned, by how much of the balanced map, sharpened
as `look` does it, lies where something is needed. On drawn pictures two balancers learn: three numbers, and three for
every place by the question. With `--data` three numbers, from the boxes of your own records; they begin at what `look`
uses untrained, and no torch is needed to look by their tensions.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.balancing.tensions import DEFAULT_TENSIONS, SHARPNESS, TENSION_NAMES, TENSIONS_NAME, balance
from arr_coc.core.errors import InputError
from arr_coc.core.folders import write_json
from arr_coc.core.values import JsonObject, Relevance
from arr_coc.looking import prepare
from arr_coc.options import Options
from arr_coc.pictures.load import load_picture

from ..options import option
from ..statistics import mean_intervals
from ..train.allocations import target_cells
from ..train.evaluate import covered
from ..train.mini_model import ship
from ..train.outcomes import share_loss
from ..train.own_data import HELD_OUT, OwnRecord, ground_of, read_own, split_by_picture, write_records
from ..train.pictures import every_family
from ..train.run import Moment, Notes, RunOptions, Schedule, Training, command, door
from .balancers import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from .selectors import QuestionWords, shares_of

if TYPE_CHECKING:
    from accelerate import Accelerator

WAYS = ("propositional", "perspectival", "participatory")
SIDE, CELLS, EACH = 384, 12, 2
OWN_SIDE = 32  # of the maps of own pictures: of every shape, one batch
KEEPS = (1 / 16, 1 / 4)
ARMS = ("hand-set", "tension", "adaptive")


def ways_of(picture: object, query: str, size: int) -> Tensor:
    """(3, size, size): what each way of knowing of `look` finds in a picture."""
    found: Relevance = prepare(picture).look(query, Options(budget=1.0, relevance="look", photos=False)).relevance
    ways = [torch.as_tensor(np.array(getattr(found, name)), dtype=torch.float32) for name in WAYS]
    return F.adaptive_avg_pool2d(torch.stack(ways), size)


def balanced_loss(found: Tensor, shares: Tensor) -> Tensor:
    """How much of a balance (B, h, w), sharpened as `look` does it, lies where something is needed."""
    return share_loss(SHARPNESS * found.clamp_min(1e-3).log(), shares)


# ---- drawn pictures --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensionBatch:
    """ways: (N, 3, 24, 24). words: (N, 24) rows of the table. truth: (N, 12, 12) in {0, 1}."""

    ways: Tensor
    words: Tensor
    truth: Tensor

    @classmethod
    @torch.no_grad()
    def draw(cls, number: int, seed: int, split: str, words: QuestionWords) -> TensionBatch:
        """The three ways of `look` about drawn pictures of every family."""
        parts = []
        for batch in every_family(number, (SIDE, SIDE), seed, split):
            asked = zip(batch.pictures.permute(0, 2, 3, 1).numpy(), batch.questions, strict=True)
            ways = torch.stack([ways_of(picture, query, CELLS * EACH) for picture, query in asked])
            parts.append((ways, words.rows(batch.questions), target_cells(batch, CELLS, CELLS)))
        return cls(*(torch.cat(items) for items in zip(*parts, strict=True)))


@dataclass(frozen=True, kw_only=True)
class TensionOptions(RunOptions):
    """Options of the tensions on drawn pictures."""

    folder: Path = option(Path("runs/tensions"), "where the checkpoint and the curve are kept")
    pictures: int = option(1400, "drawn to learn from")
    judged: int = option(700, "validation pictures that are judged")
    batch: int = option(64, "pictures a step")
    learning_rate: float = option(1e-2, "of AdamW")


class TensionTraining(Training[TensionOptions]):
    """Two balancers over the same three ways; the words' table belongs to the adaptive one."""

    def __init__(self, options: TensionOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        self.words, self.fixed = QuestionWords(), TensionBalancer()
        adaptive = AdaptiveTensionBalancer(AdaptiveConfig(self.words.config.width, hidden=16))
        self.modules = {"tension_words": self.words, "tension": self.fixed, "adaptive": adaptive}
        for module in self.modules.values():
            module.to(self.device)
        self.optimizers.append(torch.optim.AdamW(self.parameters(), lr=options.learning_rate, weight_decay=0.02))
        self.schedule = Schedule(warm_up=20, decay_from=0.4, floor=0.02)
        self.noise = self.generator("noise", options.seed, torch.device("cpu"))
        self.drawn = TensionBatch.draw(options.pictures, options.seed, "train", self.words)
        self.held = TensionBatch.draw(options.judged, options.seed, "validation", self.words)

    def maps(self, drawn: TensionBatch, chosen: Tensor | slice) -> dict[str, Tensor]:
        ways = drawn.ways[chosen].to(self.device).unbind(1)
        query = self.words.mean(drawn.words[chosen].to(self.device))
        learned = (self.modules["tension"](*ways), self.modules["adaptive"](*ways, query))
        return dict(zip(ARMS, (balance(*ways), *learned), strict=True))

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        chosen = torch.randint(len(self.drawn.ways), (self.options.batch,), generator=self.noise)
        truth = self.drawn.truth[chosen].float().to(self.device)
        shares = shares_of(truth.repeat_interleave(EACH, 1).repeat_interleave(EACH, 2))
        notes = {name: balanced_loss(one, shares) for name, one in self.maps(self.drawn, chosen).items()}
        return notes["tension"] + notes["adaptive"], notes

    @torch.no_grad()
    def coverage(self) -> dict[str, np.ndarray]:
        """Share of the needed cells that an overlay shows in full, by picture; by arm and share of the tokens."""
        found: dict[str, np.ndarray] = {}
        for name, one in self.maps(self.held, slice(None)).items():
            cells = F.avg_pool2d(one.cpu()[:, None] ** SHARPNESS, EACH)[:, 0]
            found |= {f"{name} {keep:g}": covered(cells, self.held.truth.float(), keep) for keep in KEEPS}
        return found

    def judge(self, at: Moment) -> JsonObject:
        return {f"covered {name}": float(values.mean()) for name, values in self.coverage().items()}

    def export(self) -> None:
        ship(self.modules, self.options.target)
        found = self.coverage()
        for keep in KEEPS:
            for name in ARMS[1:]:
                found[f"{name} − {ARMS[0]} {keep:g}"] = found[f"{name} {keep:g}"] - found[f"{ARMS[0]} {keep:g}"]
        shares = {"coverage [value, low, high]": mean_intervals(found), "n": len(self.held.truth)}
        record = {**self.record(), **shares, "tensions": self.fixed.named_tensions()}
        write_json(self.options.target / TENSIONS_NAME, record)


# ---- own records -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OwnTensionOptions(RunOptions):
    """Options of the tensions on own records."""

    data: Path = option(help="one's own records: a folder with records.jsonl, a .jsonl or a .parquet file")
    source: str = option("boxes", "what is learned from", flag="--from", choices=("boxes", "words"))
    strict: bool = option(False, "refuse the data where one record cannot be used, instead of skipping it")
    held_out: float = option(HELD_OUT, "share of the pictures that are judged on and never learned from")
    steps: int = option(200, "end after so many steps, each over all records")
    rate: float = option(0.05, "of Adam, on the log-odds of the tensions")
    folder: Path = option(Path("runs/tensions"), "where the checkpoint and the curve are kept")

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise InputError(f"--held-out {self.held_out} must be between 0 and 1")


class Balanced(nn.Module):
    """Three maps (B, 3, h, w) in, their balance (B, h, w) out."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.logit(torch.tensor([DEFAULT_TENSIONS[name] for name in TENSION_NAMES])))

    def forward(self, maps: Tensor) -> Tensor:
        return balance(*maps.unbind(1), self.raw.sigmoid())

    def named(self) -> dict[str, float]:
        return dict(zip(TENSION_NAMES, self.raw.detach().sigmoid().tolist(), strict=True))


def seen_ways(records: Sequence[OwnRecord]) -> tuple[Tensor, Tensor]:
    """(N, 3, side, side) what each way of knowing finds, and (N, side, side) the share of the truth in each place."""
    maps = torch.stack([ways_of(load_picture(record.pixels), record.query, OWN_SIDE) for record in records])
    ground = torch.stack([torch.from_numpy(ground_of(record.boxes, OWN_SIDE, OWN_SIDE)) for record in records])
    return maps, ground / ground.sum((1, 2), keepdim=True)


class OwnTensionTraining(Training[OwnTensionOptions]):
    """Three numbers, on maps that are made once."""

    def __init__(self, options: OwnTensionOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        data = read_own(options.data, options.source, strict=options.strict)
        learned, self.held = split_by_picture(data.records, options.held_out, options.seed)
        self.lessons, self.aside = (
            tuple(one.to(self.device) for one in seen_ways(part)) for part in (learned, self.held)
        )
        self.balanced = Balanced().to(self.device)
        self.modules["tensions"] = self.balanced
        self.optimizers.append(torch.optim.Adam(self.parameters(), lr=options.rate))
        self.schedule = Schedule(decay_from=0.5)
        self.done |= {"records": len(data.records), "skipped": len(data.bad), "held_out": len(self.held)}

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        maps, shares = self.lessons
        return balanced_loss(self.balanced(maps), shares), {}

    @torch.no_grad()
    def judge(self, at: Moment) -> JsonObject:
        """On held-out pictures: the loss, and how much of the map's mass lies on the truth, against an even map."""
        maps, shares = self.aside
        found, truth = self.balanced(maps), (shares > 0).flatten(1).float()
        mass = (found.clamp_min(1e-3) ** SHARPNESS).flatten(1)
        lift = ((mass * truth).sum(1) / mass.sum(1) / truth.mean(1)).mean()
        loss = float(balanced_loss(found, shares))
        return {"held out loss": loss, "held out lift": float(lift), **self.balanced.named()}

    def export(self) -> None:
        write_json(self.options.target / TENSIONS_NAME, {"tensions": self.balanced.named()})
        write_json(self.options.target / "record.json", self.record())
        write_records(self.options.target / "held_out.jsonl", self.held)


own_main = command(OwnTensionTraining, OwnTensionOptions, __doc__)

main = command(TensionTraining, TensionOptions, __doc__, own=own_main)

if __name__ == "__main__":
    door(main)
