"""One resumable run that trains every rival the hypotheses need, exports them small, and measures them.

    python -m arr_coc.lab.train.train_hypotheses --reader MINI --scorer SCORER --out weights/hypotheses

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

import argparse
import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...balancing.learned import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from ...balancing.tension import SHARPNESS, TENSION_NAMES
from ...files import write_json
from ...knowing.scorer import RGB, TEXTURE, Scorer, ScorerConfig
from .allocations import target_cells, tree_of
from .checkpoints import load_state, save_state
from .credit import share_loss
from .curriculum import STATIC_ONLY
from .evaluate import FAMILIES
from .hypotheses_rounds import RoundsKept, check_begun, fingerprint
from .judging import load_reader
from .measure import Measuring, Round, document_of, measure
from .monitors import Monitors
from .pictures import TrainingBatch, render_family
from .policy_gradient import LARGEST_GRADIENT, Settings
from .pool import join
from .probe import run_scorer
from .rivals import RECORD, Rivals, Ways, three_ways
from .sources import Sources
from .train_mini import SHARES
from .train_scorer import ScorerPlan, box_loss, rate_at, train

PHASES = {"boxes": 0.16, "stakes": 0.06, "balance": 0.04, "outcomes": 0.74}
MEASURED = "measured.json"


@dataclass(frozen=True)
class Plan:
    """seconds: of training, all phases together, divided by `PHASES`. steps: of each phase instead, where above 0.
    batch: pictures of `size` a step (of smaller ones more). width: of the small scorers. group: allocations sampled for
    a picture. number: test pictures; measure_seconds: what measuring them may take. chosen_on: validation pictures for
    the powers."""

    seconds: float = 220
    steps: int = 0
    batch: int = 96
    size: tuple[int, int] = (512, 512)
    width: int = 64
    group: int = 8
    keeps: tuple[float, ...] = (1 / 4, 1 / 8)
    number: int = 2100
    measure_seconds: float | None = None
    large: tuple[int, int] = (1024, 1024)
    chosen_on: int = 336
    probe: int = 448
    learning_rate: float = 1e-3
    stakes_rate: float = 3e-4
    balance_rate: float = 1e-2
    checkpoint_every: float = 30
    readings_at_once: int = 2048
    seed: int = 0

    def phase(self, name: str, **changes: Any) -> ScorerPlan:
        """The plan of one phase."""
        seconds = self.seconds * PHASES[name]
        plan = ScorerPlan(
            source="boxes", seconds=seconds, total=seconds, steps=self.steps, batch=self.batch, size=self.size
        )
        seed = self.seed + 1000 * list(PHASES).index(name)
        return replace(plan, learning_rate=self.learning_rate, seed=seed, probe=0, warm_up=30, **changes)


Losses = Callable[[TrainingBatch, Tensor], dict[str, Tensor]]


def run_phase(
    name: str,
    modules: dict[str, nn.Module],
    losses: Losses,
    plan: ScorerPlan,
    folder: Path,
    device: torch.device,
    checkpoint_every: float,
    watch: Callable[[int], None] = lambda step: None,
) -> dict[str, Any]:
    """Train several modules on the same batches, each by its own loss; goes on where a checkpoint stands."""
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    for module in modules.values():
        module.to(device).train()
    weights = [list(module.parameters()) for module in modules.values()]
    groups = [{"params": own} for own in weights]
    optimizer = torch.optim.AdamW(groups, lr=plan.learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
    done: dict[str, Any] = {"step": 0, "seconds": 0.0, "pictures": 0, "rendered": {}, "curve": []}
    if (folder / "state.pt").exists():
        done = load_state(folder, modules, [optimizer])
    sources = Sources(STATIC_ONLY, FAMILIES, SHARES, plan.seed, device, done["rendered"])
    chance = random.Random(plan.seed + done["step"])
    before, began, saved, said = done["seconds"], time.time(), 0.0, -10.0
    while True:
        elapsed = time.time() - began
        done["seconds"], step = before + elapsed, done["step"]
        ended = step >= plan.steps if plan.steps else done["seconds"] >= plan.total
        if ended or elapsed - saved >= checkpoint_every:
            saved = elapsed
            save_state(folder, modules, [optimizer], done)
        if ended:
            break
        progress = step / plan.steps if plan.steps else min(1.0, done["seconds"] / plan.total)
        for group in optimizer.param_groups:
            group["lr"] = plan.learning_rate * rate_at(progress, step, plan)
        size, number = plan.canvas(progress, chance)
        batch, importance = sources.take(number, size, progress, chance)
        found = losses(batch, importance)
        torch.stack(list(found.values())).sum().backward()
        for own in weights:
            nn.utils.clip_grad_norm_(own, LARGEST_GRADIENT)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        done["step"] += 1
        done["pictures"] += number
        done["rendered"] = sources.rendered
        if elapsed - said >= 2 or plan.steps:
            said = elapsed
            point = {name: round(float(value.detach()), 5) for name, value in found.items()}
            done["curve"].append({"step": done["step"], "seconds": round(done["seconds"], 1), **point})
            print(json.dumps({"phase": name, **done["curve"][-1]}), flush=True)
            watch(done["step"])
    for module in modules.values():
        module.eval()
    return done


def train_boxes(plan: Plan, shape: ScorerConfig, folder: Path, device: torch.device) -> tuple[dict[str, Any], Any]:
    """H5's pair: the same network, batches and labels; one sees every channel, one RGB alone."""
    torch.manual_seed(plan.seed)
    small = replace(shape, width=plan.width)
    pair: dict[str, nn.Module] = {
        "texture": Scorer(replace(small, channels=TEXTURE)),
        "rgb": Scorer(replace(small, channels=RGB)),
    }

    def losses(batch: TrainingBatch, importance: Tensor) -> dict[str, Tensor]:
        return {
            name: box_loss(run_scorer(one, batch), batch, "cross_entropy", importance) for name, one in pair.items()
        }

    record = run_phase("boxes", pair, losses, plan.phase("boxes"), folder, device, plan.checkpoint_every)
    return pair, record


def train_stakes(plan: Plan, start: Scorer, folder: Path, device: torch.device) -> tuple[dict[str, Any], Any]:
    """Two copies of one scorer, taught what a mistake costs: much more for missing, or the same for both."""
    pair: dict[str, nn.Module] = {}
    for name in ("medical", "casual"):
        pair[name] = Scorer(start.config)
        pair[name].load_state_dict(start.state_dict())

    def losses(batch: TrainingBatch, importance: Tensor) -> dict[str, Tensor]:
        return {name: box_loss(run_scorer(one, batch), batch, name, importance) for name, one in pair.items()}

    # The pair starts from a scorer that knows its canvases: no small ones first, and steps that do not unlearn them.
    phase = replace(plan.phase("stakes", small_until=0.0), learning_rate=plan.stakes_rate)
    return pair, run_phase("stakes", pair, losses, phase, folder, device, plan.checkpoint_every)


def train_balance(plan: Plan, scorer: Scorer, folder: Path, device: torch.device) -> tuple[dict[str, Any], Any]:
    """The balancers over the three ways, the coupling frozen; their tensions are watched."""
    torch.manual_seed(plan.seed)
    tension = TensionBalancer()
    adaptive = AdaptiveTensionBalancer(AdaptiveConfig(query_width=scorer.config.query_width))
    history = folder / "balance" / "tensions.json"
    monitors = {"tension": Monitors(), "adaptive": Monitors()}
    if history.exists():
        kept = json.loads(history.read_text(encoding="utf-8"))
        monitors = {name: Monitors.from_json(kept[name]) for name in monitors}
    latest: dict[str, Ways] = {}

    def losses(batch: TrainingBatch, importance: Tensor) -> dict[str, Tensor]:
        ways = latest["ways"] = three_ways(batch, scorer)
        truth = target_cells(batch, *ways.participatory.shape[1:])
        shares = truth / truth.sum((1, 2), keepdim=True).clamp_min(1)
        maps = {"tension": tension(*ways.maps), "adaptive": adaptive(*ways.maps, ways.query)}
        # The mass a tree would split by: the balanced map, sharpened as `look` does it.
        return {
            name: share_loss(SHARPNESS * one.clamp_min(1e-3).log(), shares, importance) for name, one in maps.items()
        }

    @torch.no_grad()
    def watch(step: int) -> None:
        if monitors["tension"].points and step <= monitors["tension"].points[-1]["step"]:
            return
        monitors["tension"].observe(step, [tension])
        ways = latest["ways"]
        places = adaptive.tensions(*ways.maps, ways.query).flatten(0, 2).float()
        spread = torch.quantile(places[:100_000], places.new_tensor([0.05, 0.95]), dim=0)
        values = {}
        for place, name in enumerate(TENSION_NAMES):
            values[name] = float(places[:, place].mean())
            values[f"{name} low"], values[f"{name} high"] = (float(bound) for bound in spread[:, place])
        monitors["adaptive"].observe(step, (), **values)
        write_json(history, {name: one.to_json() for name, one in monitors.items()})

    pair: dict[str, nn.Module] = {"tension": tension, "adaptive": adaptive}
    phase = replace(plan.phase("balance", small_until=0.0), learning_rate=plan.balance_rate)
    record = run_phase("balance", pair, losses, phase, folder, device, plan.checkpoint_every, watch)
    return pair, {**record, "tensions": {name: one.to_json() for name, one in monitors.items()}}


def train_outcomes(plan: Plan, shape: ScorerConfig, reader: Path, folder: Path, cpu: bool) -> tuple[Scorer, Any]:
    """The scorer that never sees a box; same shape as the shipped one, from a random start."""
    folder = folder / "outcomes"
    folder.mkdir(parents=True, exist_ok=True)
    total = plan.seconds * PHASES["outcomes"]
    spent, steps = 0.0, plan.steps
    if (folder / "state.pt").exists():
        state = torch.load(folder / "state.pt", map_location="cpu", weights_only=True)
        progress = state["progress"]
        spent, steps = progress["seconds"], max(0, plan.steps - progress["step"])
        if (plan.steps and not steps) or (not plan.steps and spent >= total - 1):
            scorer = Scorer(shape)
            scorer.load_state_dict(state["modules"]["scorer"])
            return scorer.eval(), progress
    phase = plan.phase(
        "outcomes",
        source="outcomes",
        group=plan.group,
        keeps=plan.keeps,
        curriculum=False,
        settings=Settings(),
        readings_at_once=plan.readings_at_once,
        probe_every=total / 20,
        say_every=3.0,
        checkpoint_every=plan.checkpoint_every,
    )
    phase = replace(phase, seconds=total - spent, steps=steps, probe=plan.probe)
    record = train(phase, shape, reader, folder, None, cpu)
    scorer = record.pop("scorer")
    for name in ("reader", "devices", "is_main"):
        record.pop(name)
    return scorer.eval(), {**record, "plan": asdict(phase)}


def measure_parts(plan: Plan, reader: Path, scorer: Path, rivals: Rivals, folder: Path, out: Path) -> None:
    """Measure in rounds; after each, `measured.json` holds all there is."""
    device = next(rivals.scorer.parameters()).device
    model = load_reader(reader, device)
    at_once, large_at_once = (75, 75) if device.type == "cuda" else (16, None)
    how = Measuring(
        plan.number,
        size=plan.size,
        large=plan.large,
        at_once=at_once,
        large_at_once=large_at_once,
        seconds=plan.measure_seconds,
    )
    kept = RoundsKept.of(folder, how, rivals, fingerprint(reader, scorer, out))

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


def run(plan: Plan, reader: Path, scorer_folder: Path, folder: Path, out: Path, cpu: bool = False) -> dict[str, Any]:
    """All phases, the export, the measurement; returns the record."""
    device = torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")
    torch.set_float32_matmul_precision("high")
    shipped = Scorer.from_pretrained(scorer_folder).to(device)
    check_begun(folder, reader, scorer_folder)
    record: dict[str, Any] = {"plan": asdict(plan), "device": str(device), "torch": torch.__version__, "phases": {}}
    phases = record["phases"]
    parts: dict[str, Any] = {}
    pair, phases["boxes"] = train_boxes(plan, shipped.config, folder, device)
    parts |= pair
    pair, phases["stakes"] = train_stakes(plan, parts["texture"], folder, device)
    parts |= pair
    pair, phases["balance"] = train_balance(plan, shipped, folder, device)
    parts |= pair
    parts["outcomes"], phases["outcomes"] = train_outcomes(plan, shipped.config, reader, folder, cpu)
    rivals = Rivals(shipped.eval(), {name: part.to(device) for name, part in parts.items()})
    each = max(1, plan.chosen_on // len(FAMILIES))
    chosen_on = join([render_family(one, each, plan.size, 3, 0, device, None, "validation") for one in FAMILIES])
    tree = tree_of(plan.size)
    record["powers"] = rivals.choose_powers(chosen_on, tree, max(tree.floor, round(tree.full / 4)))
    record["odds"] = sorted(rivals.odds)
    out.mkdir(parents=True, exist_ok=True)
    rivals.save(out)
    write_json(out / RECORD, record)
    for line in phases["outcomes"]["monitors"]["alarms"]:
        print(f"alarm: {line}", flush=True)
    if plan.number:
        # What ships is fp16: measure that, not what training held.
        measure_parts(plan, reader, scorer_folder, Rivals.load(shipped, out, device), folder, out)
    return record


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", type=Path, required=True, help="the frozen reader: a stock folder such as mini")
    parser.add_argument("--scorer", type=Path, required=True, help="the shipped scorer's folder")
    parser.add_argument("--seconds", type=float, default=Plan.seconds, help="of training, all phases together")
    parser.add_argument("--steps", type=int, default=0, help="of each phase, instead of seconds")
    parser.add_argument("--batch", type=int, default=Plan.batch, help="pictures of the full size a step")
    parser.add_argument("--size", type=int, default=Plan.size[0], help="side of the canvas in pixels")
    parser.add_argument("--large", type=int, default=Plan.large[0], help="side of the canvas for the best K cells")
    parser.add_argument("--width", type=int, default=Plan.width, help="of the small scorers")
    parser.add_argument("--group", type=int, default=Plan.group, help="allocations sampled for each picture")
    parser.add_argument("--number", type=int, default=Plan.number, help="test pictures; 0 measures nothing")
    parser.add_argument("--measure-seconds", type=float, help="begin no round of the measurement that ends later")
    parser.add_argument("--chosen-on", type=int, default=Plan.chosen_on, help="validation pictures for the powers")
    parser.add_argument("--probe", type=int, default=Plan.probe, help="pictures of the learning curve's probe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("runs/hypotheses"), help="where checkpoints are kept")
    parser.add_argument("--out", type=Path, default=Path("runs/hypotheses/export"))
    return parser


def main(arguments: list[str] | None = None) -> None:
    given = arguments_parser().parse_args(arguments)
    plan = Plan(
        seconds=given.seconds,
        steps=given.steps,
        batch=given.batch,
        size=(given.size, given.size),
        large=(given.large, given.large),
        width=given.width,
        group=given.group,
        number=given.number,
        measure_seconds=given.measure_seconds,
        chosen_on=given.chosen_on,
        probe=given.probe,
        seed=given.seed,
    )
    run(plan, given.reader, given.scorer, given.folder, given.out, given.cpu)


if __name__ == "__main__":
    main()
