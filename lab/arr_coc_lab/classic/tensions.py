"""The tensions of `look`: three numbers, or three for every place by the question, learned against those set by hand.

The three ways are those of `look` itself (what can be read, what stands out, what the question's plain words couple
to), found once for every picture; only the balance between them is learned. On drawn pictures, in minutes on a
processor:

    python -m arr_coc_lab.classic.tensions --seconds 240 --device cpu --out src/arr_coc/weights/classic

With `--data` on one's own records: three numbers, by which of the balances most lies on the boxes, sharpened as `look`
does it. They begin at what `look` uses untrained. The folder holds tensions.json: no torch is needed to look by it.
(`train hypotheses` learns tensions on Needle World, over another scorer, to compare.)

    arr-coc train tensions --data photos --out my-tensions        look(…, relevance="look:my-tensions")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.balancing.tension import DEFAULT_TENSIONS, SHARPNESS, TENSION_NAMES, balance
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.values import Relevance
from arr_coc.balancing.look import TENSIONS_NAME, relevance_of
from arr_coc.knowing.scene import CHANNELS
from arr_coc.looking import prepare
from arr_coc.texture.one_picture import sense_one
from arr_coc.texture.texture import Layout

from ..statistics import mean_intervals
from ..train.allocations import target_cells
from ..train.checkpoints import ship
from ..train.devices import Devices
from ..train.drawn import DrawnOptions, DrawnTraining
from ..train.options import RunOptions, option
from ..train.outcomes import share_loss
from ..train.own_data import HELD_OUT, OwnRecord, ground_of, read_own, split_by_picture, write_records
from ..train.pictures import every_family
from ..train.rivals import covered
from ..train.run import Moment, Notes, Schedule, Training, command, door
from .balancers import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from .selectors import QuestionWords, shares_of

WAYS = ("propositional", "perspectival", "participatory")
SIDE, CELLS, EACH = 384, 12, 2
OWN_SIDE = 32  # of the maps of one's own pictures: of every shape, one batch
KEEPS = (1 / 16, 1 / 4)
ARMS = ("hand-set", "tension", "adaptive")


def ways_of(found: Relevance) -> Tensor:
    """(3, h, w): what each way of knowing says."""
    return torch.stack([torch.as_tensor(np.array(getattr(found, name)), dtype=torch.float32) for name in WAYS])


def balanced_loss(found: Tensor, shares: Tensor) -> Tensor:
    """How much of a balance (B, h, w), sharpened as `look` does it, lies where something is needed."""
    return share_loss(SHARPNESS * found.clamp_min(1e-3).log(), shares)


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
        parts, layout = [], Layout.of("look", CHANNELS)
        for batch in every_family(number, (SIDE, SIDE), seed, split):
            pictures = batch.pictures.permute(0, 2, 3, 1).numpy()
            asked = zip(pictures, batch.questions, strict=True)
            found = [ways_of(relevance_of(sense_one(one, layout), query)) for one, query in asked]
            small = F.adaptive_avg_pool2d(torch.stack(found), CELLS * EACH)
            parts.append((small, words.rows(batch.questions), target_cells(batch, CELLS, CELLS)))
        return cls(*(torch.cat(items) for items in zip(*parts, strict=True)))


@dataclass(frozen=True, kw_only=True)
class TensionOptions(DrawnOptions):
    """How the tensions are learned."""

    folder: Path = option(Path("runs/tensions"), "where the checkpoint and the curve are kept")
    learning_rate: float = option(1e-2, "of AdamW")
    judge_every: float = option(60.0, "seconds between judgements")


class TensionTraining(DrawnTraining[TensionOptions]):
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
        self.begin(Schedule(warm_up=20, decay_from=0.4, floor=0.02), weight_decay=0.02)
        self.drawn = TensionBatch.draw(options.pictures, options.seed, "train", words)
        self.held = TensionBatch.draw(options.judged, options.seed, "validation", words)

    def maps(self, drawn: TensionBatch, chosen: Tensor | slice) -> dict[str, Tensor]:
        ways = drawn.ways[chosen].to(self.device).unbind(1)
        query = self.words.mean(drawn.words[chosen].to(self.device))
        return {
            "hand-set": balance(*ways),
            "tension": self.modules["tension"](*ways),
            "adaptive": self.modules["adaptive"](*ways, query),
        }

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        chosen = self.choose(len(self.drawn.ways))
        truth = self.drawn.truth[chosen].float().to(self.device)
        shares = shares_of(truth.repeat_interleave(EACH, 1).repeat_interleave(EACH, 2))
        maps = self.maps(self.drawn, chosen)
        notes = {name: balanced_loss(maps[name], shares) for name in ARMS}
        return notes["tension"] + notes["adaptive"], notes

    @torch.no_grad()
    def coverage(self) -> dict[str, np.ndarray]:
        """Share of the needed cells that an overlay shows in full, by picture; by arm and share of the tokens."""
        found: dict[str, np.ndarray] = {}
        for name, one in self.maps(self.held, slice(None)).items():
            cells = F.avg_pool2d(one.cpu()[:, None] ** SHARPNESS, EACH)[:, 0]
            found |= {f"{name} {keep:g}": covered(cells, self.held.truth.float(), keep) for keep in KEEPS}
        return found

    def export(self) -> None:
        ship(self.modules, self.options.target)
        found = self.coverage()
        for keep in KEEPS:
            for name in ARMS[1:]:
                found[f"{name} − {ARMS[0]} {keep:g}"] = found[f"{name} {keep:g}"] - found[f"{ARMS[0]} {keep:g}"]
        record = {
            **self.record(),
            "coverage [value, low, high]": mean_intervals(found),
            "n": len(self.held.truth),
            "tensions": self.fixed.named_tensions(),
        }
        write_json(self.options.target / TENSIONS_NAME, record)


# ---- one's own records -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OwnTensionOptions(RunOptions):
    """What is asked where one's own records are learned from."""

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
        maps.append(F.interpolate(ways_of(found)[None], (OWN_SIDE, OWN_SIDE), mode="area")[0])
        ground = torch.from_numpy(ground_of(record.boxes, OWN_SIDE, OWN_SIDE))
        shares.append(ground / ground.sum())
    return torch.stack(maps), torch.stack(shares)


class OwnTensionTraining(Training[OwnTensionOptions]):
    """Three numbers, on maps that are made once."""

    title = "tensions"
    aloud = False

    def __init__(self, options: OwnTensionOptions, devices: Devices) -> None:
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
    def judge(self, at: Moment) -> dict[str, object]:
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


own_main = command(OwnTensionTraining, OwnTensionOptions, __doc__)

main = command(TensionTraining, TensionOptions, __doc__, own=own_main)

if __name__ == "__main__":
    door(main)
