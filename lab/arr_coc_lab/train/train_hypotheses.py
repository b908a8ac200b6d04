"""One resumable run that trains every rival the hypotheses need, exports them small, and measures them.

    python -m arr_coc_lab.train.train_hypotheses --reader MINI --scorer SCORER --out lab/arr_coc_lab/weights/hypotheses

Four phases, each with its own checkpoint; a phase that is done is not done again:

- boxes: two small scorers on the same batches with the same labels, one sees the texture, one RGB alone (H5);
- stakes: two copies of the first go on under the asymmetric loss, `medical` and `casual`;
- balance: `TensionBalancer` and `AdaptiveTensionBalancer` over the three ways, the shipped scorer frozen (H2, H3);
- outcomes: a scorer of the shipped shape learns from the frozen reader's outcomes alone (`train_scorer`).

Then each rival's sharpness is chosen on validation pictures, and all are measured on the test split. Writes a folder
for each part (fp16), `record.json` (plan, curves, monitors, powers) and `measured.json`, which `arr-coc bench
hypotheses --measured` turns into the table. The measurement goes in rounds over all families: `measured.json` is there
after each of them, `--measure-seconds` ends it with the last that fits, and a later call goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from arr_coc.balancing.tension import SHARPNESS, TENSION_NAMES
from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing, write_json
from arr_coc.core.values import JsonObject

from ..classic.balancers import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from ..classic.scorer import RGB, TEXTURE, Scorer, ScorerConfig
from .allocations import target_cells, tree_of
from .devices import Devices
from .evaluate import FAMILIES
from .measure import Measuring, Round, document_of, measure
from .monitors import Monitors, run_scorer
from .options import RunOptions, option, parse, plain
from .outcomes import load_reader, share_loss
from .pictures import TrainingBatch, family_batches, join
from .reader_examples import SHARES
from .rivals import RECORD, Rivals, Ways, three_ways
from .run import Moment, Notes, Training, door, torch_scope, train
from .scorer_examples import STATIC_ONLY, Sources
from .train_scorer import ScorerOptions, ScorerTraining, box_loss

PHASES = {"boxes": 0.16, "stakes": 0.06, "balance": 0.04, "outcomes": 0.74}
MEASURED, BEGUN, ROUNDS = "measured.json", "begun.json", "rounds.json"
WEIGHT_FILES = "*.safetensors"
# The modules that were taught, and the record of their phase.
Trained = tuple[JsonObject, JsonObject]


@dataclass(frozen=True, kw_only=True)
class HypothesesOptions(RunOptions):
    """What all phases share; `seconds` are divided by `PHASES`."""

    reader: Path = option(help="the frozen reader: a stock folder such as mini")
    scorer: Path = option(help="the shipped scorer's folder")
    seconds: float = option(220.0, "of training, all phases together")
    steps: int = option(0, "of each phase, instead of seconds")
    folder: Path = option(Path("runs/hypotheses"), "where checkpoints are kept")
    batch: int = option(96, "pictures of the full size a step")
    size: tuple[int, int] = option((512, 512), "side of the canvas in pixels")
    large: tuple[int, int] = option((1024, 1024), "side of the canvas for the best K cells")
    width: int = option(64, "of the small scorers")
    group: int = option(8, "allocations sampled for each picture")
    keeps: tuple[float, ...] = option((1 / 4, 1 / 8), "budgets practised, largest first")
    number: int = option(2100, "test pictures; 0 measures nothing")
    measure_seconds: float | None = option(None, "begin no round of the measurement that ends later")
    chosen_on: int = option(336, "validation pictures for the powers")
    probe: int = option(448, "pictures of the learning curve's probe")
    learning_rate: float = option(1e-3, "of the scorers")
    stakes_rate: float = option(3e-4, "learning rate of the phase `stakes`")
    balance_rate: float = option(1e-2, "learning rate of the phase `balance`")
    checkpoint_every: float = option(30.0, "seconds between checkpoints")
    readings_at_once: int = option(2048, "for memory")

    def phase(self, name: str, **changes: Any) -> ScorerOptions:
        """The options of one phase."""
        # Steps, where they are counted, are not cut short by the time.
        seconds = 1e9 if self.steps else self.seconds * PHASES[name]
        same = ("reader", "steps", "batch", "size", "learning_rate", "device", "checkpoint_every", "log")
        given = {one: getattr(self, one) for one in same}
        given |= {"seconds": seconds, "total": seconds, "folder": self.folder / name, "source": "boxes"}
        given |= {"seed": self.seed + 1000 * list(PHASES).index(name), "say_every": 2.0, "probe": 0, "warm_up": 30}
        return ScorerOptions(**given | changes)


Losses = Callable[[TrainingBatch, Tensor], Notes]


class PairTraining(Training[ScorerOptions]):
    """Several modules on the same batches, each by its own loss. watch: told of every point of the curve; what it
    returns is kept in the record."""

    apart = True

    def __init__(
        self,
        options: ScorerOptions,
        devices: Devices,
        modules: dict[str, nn.Module],
        losses: Losses,
        watch: Callable[[int, Mapping[str, object]], Mapping[str, object]] | None = None,
    ) -> None:
        super().__init__(options, devices)
        self.title = options.folder.name
        self.modules = {name: module.to(self.device).train() for name, module in modules.items()}
        groups = [{"params": list(module.parameters())} for module in modules.values()]
        optimizer = torch.optim.AdamW(groups, lr=options.learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
        self.optimizers.append(optimizer)
        self.schedule, self.losses, self.watch = options.schedule, losses, watch
        self.sources = Sources(STATIC_ONLY, FAMILIES, SHARES, options.seed, self.device)
        self.done |= {"pictures": 0, "rendered": {}}

    def step(self, at: Moment) -> Notes:
        chance = self.chance["chance"]
        size, number = self.options.canvas(at.progress, chance)
        losses = self.losses(*self.sources.take(number, size, at.progress, chance))
        self.update(torch.stack(list(losses.values())).sum())
        self.done |= {"pictures": self.done["pictures"] + number, "rendered": dict(self.sources.rendered)}
        return losses

    def point(self, at: Moment, means: dict[str, float]) -> JsonObject:
        if self.watch is not None:
            self.done |= self.watch(at.step, self.done)
        return means

    def data_state(self) -> dict[str, object]:
        return self.sources.state()

    def load_data_state(self, state: dict[str, object]) -> None:
        self.sources.load_state(state)


def train_pair(options: ScorerOptions, modules: dict[str, nn.Module], losses: Losses, watch: object = None) -> Trained:
    """The trained modules and the record of their phase; goes on where a checkpoint stands."""
    training = train(partial(PairTraining, modules=modules, losses=losses, watch=watch), options, ships=False)
    return training.modules, training.done


def train_boxes(plan: HypothesesOptions, shape: ScorerConfig) -> Trained:
    """H5's pair: the same network, batches and labels; one sees every channel, one RGB alone."""
    small = replace(shape, width=plan.width)
    with torch_scope(plan.seed):
        pair: dict[str, nn.Module] = {
            "texture": Scorer(replace(small, channels=TEXTURE)),
            "rgb": Scorer(replace(small, channels=RGB)),
        }

    def losses(batch: TrainingBatch, importance: Tensor) -> Notes:
        return {
            name: box_loss(run_scorer(one, batch), batch, "cross_entropy", importance) for name, one in pair.items()
        }

    return train_pair(plan.phase("boxes"), pair, losses)


def train_stakes(plan: HypothesesOptions, start: Scorer) -> Trained:
    """Two copies of one scorer, taught what a mistake costs: much more for missing, or the same for both."""
    pair: dict[str, nn.Module] = {}
    for name in ("medical", "casual"):
        pair[name] = Scorer(start.config)
        pair[name].load_state_dict(start.state_dict())

    def losses(batch: TrainingBatch, importance: Tensor) -> Notes:
        return {name: box_loss(run_scorer(one, batch), batch, name, importance) for name, one in pair.items()}

    # The pair starts from a scorer that knows its canvases: no small ones first, and steps that do not unlearn them.
    return train_pair(plan.phase("stakes", small_until=0.0, learning_rate=plan.stakes_rate), pair, losses)


def train_balance(plan: HypothesesOptions, scorer: Scorer) -> Trained:
    """The balancers over the three ways, the coupling frozen; their tensions are watched."""
    with torch_scope(plan.seed):
        tension = TensionBalancer()
        adaptive = AdaptiveTensionBalancer(AdaptiveConfig(query_width=scorer.config.query_width))
    latest: dict[str, Ways] = {}

    def losses(batch: TrainingBatch, importance: Tensor) -> Notes:
        ways = latest["ways"] = three_ways(batch, scorer)
        truth = target_cells(batch, *ways.participatory.shape[1:])
        shares = truth / truth.sum((1, 2), keepdim=True).clamp_min(1)
        maps = {"tension": tension(*ways.maps), "adaptive": adaptive(*ways.maps, ways.query)}
        # The mass a tree would split by: the balanced map, sharpened as `look` does it.
        return {
            name: share_loss(SHARPNESS * one.clamp_min(1e-3).log(), shares, importance) for name, one in maps.items()
        }

    @torch.no_grad()
    def watch(step: int, done: JsonObject) -> dict[str, object]:
        kept = done.get("tensions")
        monitors = {name: Monitors.from_json(kept[name]) if kept else Monitors() for name in ("tension", "adaptive")}
        monitors["tension"].observe(step, [tension])
        ways = latest["ways"]
        places = adaptive.tensions(*ways.maps, ways.query).flatten(0, 2).float()
        spread = torch.quantile(places[:100_000], places.new_tensor([0.05, 0.95]), dim=0)
        values = {}
        for place, name in enumerate(TENSION_NAMES):
            values[name] = float(places[:, place].mean())
            values[f"{name} low"], values[f"{name} high"] = (float(bound) for bound in spread[:, place])
        monitors["adaptive"].observe(step, (), **values)
        return {"tensions": {name: one.to_json() for name, one in monitors.items()}}

    pair: dict[str, nn.Module] = {"tension": tension, "adaptive": adaptive}
    phase = plan.phase("balance", small_until=0.0, learning_rate=plan.balance_rate)
    return train_pair(phase, pair, losses, watch)


def train_outcomes(plan: HypothesesOptions, shape: ScorerConfig) -> Trained:
    """The scorer that never sees a box; same shape as the shipped one, from a random start."""
    phase = plan.phase(
        "outcomes",
        source="outcomes",
        group=plan.group,
        keeps=plan.keeps,
        curriculum=False,
        readings_at_once=plan.readings_at_once,
        judge_every=plan.seconds * PHASES["outcomes"] / 20,
        say_every=3.0,
        probe=plan.probe,
    )
    training = train(partial(ScorerTraining, config=shape), phase, ships=False)
    return training.modules, {**training.done, "plan": plain(phase)}


# ---- the measurement, in rounds --------------------------------------------------------------------------------------


def fingerprint(*folders: Path) -> str:
    """Of all weights in these folders: other weights, another fingerprint."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob(WEIGHT_FILES)):
            digest.update(str(path.relative_to(folder)).encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def check_begun(folder: Path, reader: Path, scorer: Path) -> None:
    """A folder goes on with the reader and the scorer it began with: parts trained beside others cannot be compared."""
    own = {"reader": fingerprint(reader), "scorer": fingerprint(scorer)}
    path = folder / BEGUN
    if path.is_file():
        begun = json.loads(path.read_text(encoding="utf-8"))
        for name, value in own.items():
            if begun.get(name) != value:
                raise InputError(f"{folder} holds a run that began with another {name}; give a new --folder")
    else:
        write_json(path, own)


@dataclass(frozen=True)
class RoundsKept:
    """The finished rounds in a file, valid for one measurement (plan, powers, weights) and no other."""

    path: Path
    key: dict[str, object]

    @classmethod
    def of(cls, folder: Path, plan: Measuring, rivals: Rivals, weights: str) -> RoundsKept:
        # How long it may take and how much fits into memory at once change no number; the size of a round does.
        pictures = {name: value for name, value in asdict(plan).items() if name not in ("seconds", "large_at_once")}
        key = {"plan": pictures, "powers": rivals.powers, "odds": sorted(rivals.odds), "weights": weights}
        return cls(folder / ROUNDS, json.loads(json.dumps(key)))

    def load(self) -> list[Round]:
        """Those of this measurement; none where the file is of another, or is not there."""
        if not self.path.is_file():
            return []
        found = json.loads(self.path.read_text(encoding="utf-8"))
        return found["rounds"] if found["key"] == self.key else []

    def save(self, rounds: Sequence[Round]) -> None:
        with replacing(self.path) as temporary:
            temporary.write_text(json.dumps({"key": self.key, "rounds": list(rounds)}), encoding="utf-8")


def measure_parts(plan: HypothesesOptions, rivals: Rivals) -> None:
    """Measure in rounds; after each, `measured.json` holds all there is."""
    out, device = plan.target, next(rivals.scorer.parameters()).device
    model = load_reader(plan.reader, device)
    at_once, large_at_once = (75, 75) if device.type == "cuda" else (16, None)
    how = Measuring(
        plan.number,
        size=plan.size,
        large=plan.large,
        at_once=at_once,
        large_at_once=large_at_once,
        seconds=plan.measure_seconds,
    )
    kept = RoundsKept.of(plan.folder, how, rivals, fingerprint(plan.reader, plan.scorer, out))

    def keep(rounds: list[Round]) -> None:
        kept.save(rounds)
        write_json(out / MEASURED, document_of(how, rivals, rounds))
        print(
            json.dumps({"round": len(rounds), "of": how.rounds, "seconds": round(time.time() - began, 1)}), flush=True
        )

    began = time.time()
    document = measure(model, rivals, how, lambda step: None, keep, kept.load())
    write_json(out / MEASURED, document)
    print(json.dumps({"measured": document["n"], "wanted": how.each * len(how.families)}), flush=True)


def run(plan: HypothesesOptions) -> dict[str, object]:
    """All phases, the export, the measurement; returns the record."""
    with torch_scope(plan.seed, matmul="high"):
        return _run(plan, Devices(plan.device).device)


def _run(plan: HypothesesOptions, device: torch.device) -> dict[str, object]:
    out, shipped = plan.target, Scorer.from_pretrained(plan.scorer).to(device)
    check_begun(plan.folder, plan.reader, plan.scorer)
    phases: dict[str, object] = {}
    parts, phases["boxes"] = train_boxes(plan, shipped.config)
    pair, phases["stakes"] = train_stakes(plan, parts["texture"])
    parts |= pair
    pair, phases["balance"] = train_balance(plan, shipped)
    parts |= pair
    scorer, phases["outcomes"] = train_outcomes(plan, shipped.config)
    parts["outcomes"] = scorer["scorer"]
    rivals = Rivals(shipped.eval(), {name: part.to(device) for name, part in parts.items()})
    each = max(1, plan.chosen_on // len(FAMILIES))
    chosen_on = join([batch for _, batch in family_batches(each, plan.size, 3, "validation", device=device)])
    tree = tree_of(plan.size)
    record: dict[str, object] = {
        "plan": plain(plan),
        "device": str(device),
        "torch": torch.__version__,
        "phases": phases,
    }
    record["powers"] = rivals.choose_powers(chosen_on, tree, max(tree.floor, round(tree.full / 4)))
    record["odds"] = sorted(rivals.odds)
    out.mkdir(parents=True, exist_ok=True)
    rivals.save(out)
    write_json(out / RECORD, record)
    for line in phases["outcomes"]["monitors"]["alarms"]:
        print(f"alarm: {line}", flush=True)
    if plan.number:
        # What ships is fp16: measure that, not what training held.
        measure_parts(plan, Rivals.load(shipped, out, device))
    return record


def main(arguments: Iterable[str] | None = None) -> None:
    run(parse(HypothesesOptions, arguments, __doc__))


if __name__ == "__main__":
    door(main)
