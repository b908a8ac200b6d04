"""`arr-coc train tensions --data`: the three tensions of `look`, fitted to one's own pictures.

    arr-coc train tensions --data photos --out my-tensions        look(…, relevance="look:my-tensions")

The maps that `look` makes of every record are kept; three numbers are learned, by which of their balances most lies on
the boxes, sharpened as `look` does it. They begin at what `look` uses untrained. The folder holds tensions.json: no
torch is needed to look by it. (`train hypotheses` learns tensions on Needle World, over another scorer, to compare.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.looking import prepare
from arr_coc.relevance.look.tension import DEFAULT_TENSIONS, SHARPNESS, TENSION_NAMES, balance
from arr_coc.relevance.look.three_ways import TENSIONS_NAME

from .devices import Devices
from .options import RunOptions, option
from .outcomes import share_loss
from .own_data import HELD_OUT, OwnRecord, ground_of, read_own, split_by_picture, write_records
from .run import Moment, Notes, Schedule, Training, command, door

SIDE = 32  # of the maps that are learned from: pictures of every shape, one batch
WAYS = ("propositional", "perspectival", "participatory")


@dataclass(frozen=True, kw_only=True)
class TensionsOptions(RunOptions):
    """What this training is asked besides."""

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
    """Three maps in, the map that `look` allocates by out: its logarithm, so that its mass can be compared."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.logit(torch.tensor([DEFAULT_TENSIONS[name] for name in TENSION_NAMES])))

    def forward(self, maps: Tensor) -> Tensor:
        """(B, 3, h, w) → (B, h, w)."""
        return SHARPNESS * balance(*maps.unbind(1), self.raw.sigmoid()).clamp_min(1e-3).log()

    def named(self) -> dict[str, float]:
        return dict(zip(TENSION_NAMES, self.raw.detach().sigmoid().tolist(), strict=True))


def seen_ways(records: Sequence[OwnRecord]) -> tuple[Tensor, Tensor]:
    """(N, 3, side, side) what each way of knowing says, and (N, side, side) the share of the truth in each place."""
    maps, shares = [], []
    for record in records:
        found = prepare(record.load()).look(record.query, keep=1.0, relevance="look", photos=False).relevance
        ways = torch.stack([torch.as_tensor(np.array(getattr(found, name)), dtype=torch.float32) for name in WAYS])
        maps.append(F.interpolate(ways[None], (SIDE, SIDE), mode="area")[0])
        ground = torch.from_numpy(ground_of(record.boxes, SIDE, SIDE))
        shares.append(ground / ground.sum())
    return torch.stack(maps), torch.stack(shares)


class TensionsTraining(Training[TensionsOptions]):
    """Three numbers, on maps that are made once."""

    title = "tensions"
    aloud = False

    def __init__(self, options: TensionsOptions, devices: Devices) -> None:
        super().__init__(options, devices)
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
        return share_loss(self.balanced(maps), shares), {}

    @torch.no_grad()
    def judge(self, at: Moment) -> dict[str, Any]:
        """On held-out pictures: the loss, and how much of the map's mass lies on the truth, against an even map."""
        maps, shares = self.aside
        mass = self.balanced(maps)
        on_truth = (mass.flatten(1).softmax(1) * (shares > 0).flatten(1)).sum(1)
        lift = (on_truth / (shares > 0).flatten(1).float().mean(1)).mean()
        return {"held out loss": float(share_loss(mass, shares)), "held out lift": float(lift), **self.balanced.named()}

    def export(self) -> None:
        write_json(self.options.target / TENSIONS_NAME, {"tensions": self.balanced.named()})
        write_json(self.options.target / "record.json", self.record())
        write_records(self.options.target / "held_out.jsonl", self.held)


def main(arguments: Iterable[str] | None = None) -> None:
    command(TensionsTraining, TensionsOptions, arguments, __doc__)


if __name__ == "__main__":
    door(main)
