"""`bench credit`: what a scorer learns by: boxes, the derivative's credit, the policy gradient, the critic.

Every rule trains a scorer of its own from the same start (the same weights, seed, pictures and seconds) with the same
frozen reader. Then all read the same test pictures (seeds and typefaces that no training saw) through overlays of the
same tokens, beside the whole picture, a uniform one, leaves by chance, the first scorer's map shuffled, and the boxes
themselves. A rule that is trained already is not trained again: the same --out goes on where it stood.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.realizing.qwen3_vl.encode import dense_vision_attention
from safetensors.torch import load_file

from arr_coc.attending.overlay import overlay
from arr_coc.core.errors import InputError
from arr_coc.core.values import JsonObject

from ..options import plain
from ..statistics import paired, proportion, ratio
from ..train.actor_critic import ACTIONS, STATES, HierarchicalActorCritic, own_stops, pass_budgets
from ..train.allocations import tree_of
from ..train.calibration import answer_batch, is_right
from ..train.devices import Devices
from ..train.evaluate import FAMILIES, MapScorer, evaluation_leaves
from ..train.outcomes import judge, load_reader
from ..train.pictures import TrainingBatch, family_batches
from ..train.policy_gradient import Baseline, PolicySettings
from ..train.run import door, train
from ..train.train_scorer import CREDITS, CRITIC_PASSES, NETS, ScorerOptions, ScorerTraining
from .needle import RememberedScores
from .options import CreditOptions
from .report import Quantity, Report, Table
from .run import BenchRun, program
from .suite import suite

if TYPE_CHECKING:
    from transformers import PreTrainedModel

START = "start"
OWN_STOPS = "critic, its own stops"
CONTROLS = ("uniform", "random", "shuffled", "oracle")
BAR = 0.95  # of the first rule's accuracy
COLUMNS: Mapping[str, str] = suite("credit")["columns"]


def measure(options: CreditOptions, run: BenchRun) -> Report:
    """Train what is not trained yet, read, and compare; or show what an earlier run compared."""
    unknown = [name for name in options.rules if name not in ("boxes", *CREDITS)]
    if unknown or len(set(options.rules)) != len(options.rules):
        known = ", ".join(("boxes", *CREDITS))
        raise InputError(f"--rules must each be named once, of {known}; got {' '.join(options.rules)}")
    if options.net not in NETS:
        raise InputError(f"unknown --net {options.net!r}; choose from {', '.join(NETS)}")
    if options.saved is None:
        made, more = compare(options)
    else:
        made, more = measured(options.saved), {}
    lines = []
    for row in made.rows:
        cells = ", ".join(f"{family} {row[family]}" for family in FAMILIES)
        lines.append(f"{row['rule']} {row['tokens']} tokens: {cells}; bar {BAR}: {row.get('above the bar', '–')}")
    return Report({**made.to_json(), **more}, (made,), lines=lines, name="compared", keep=options.saved is None)


def training_of(plan: CreditOptions, rule: str) -> ScorerOptions:
    """One rule's training; only what it learns by differs."""
    seconds = 1e9 if plan.steps or rule == START else plan.seconds
    same = ("steps", "seed", "device", "batch", "size", "keeps", "learning_rate", "reward", "net", "width")
    given = {name: getattr(plan, name) for name in same}
    given |= {"folder": plan.out / rule, "out": plan.out / rule, "seconds": seconds, "total": seconds}
    given |= {"source": "boxes", "credit": "derivative"} if rule == "boxes" else {"source": "outcomes", "credit": rule}
    (baseline,) = (one for one in get_args(Baseline) if one == plan.baseline)
    given |= {"settings": PolicySettings(baseline=baseline)}
    if rule == START:
        given |= {"source": "boxes", "credit": "derivative", "steps": plan.start, "warm_up": plan.start // 4}
    elif plan.start and rule != "boxes":
        given |= {"start_from": plan.out / START}
    given |= {"curriculum": False, "probe": 0, "evaluate": 0, "replays": 3, "small_until": 0.3, "checkpoint_every": 1e9}
    return ScorerOptions(reader=plan.weights, **given)


@torch.no_grad()
def read_all(plan: CreditOptions, scorers: Mapping[str, MapScorer], device: torch.device) -> JsonObject:
    """{"RULE@KEEP": right (n,), tokens} of every rule and control, the pictures of one family after the other."""
    model, tree = load_reader(plan.weights, device), tree_of(plan.size)
    found: dict[str, list[np.ndarray]] = {}
    tokens: dict[str, float] = {}
    generator = torch.Generator().manual_seed(11)
    families: list[str] = []
    stops: list[np.ndarray] = []
    speaker = copy.deepcopy(model).float()  # who answers in its own words, as `bench needle` asks it
    with dense_vision_attention(model), dense_vision_attention(speaker):
        each = -(-plan.number // len(FAMILIES))
        for family, batch in family_batches(each, plan.size, 11, "test", device=device, at_once=plan.at_once):
            families += [family] * len(batch)
            maps = {rule: RememberedScores(scorer) for rule, scorer in scorers.items()}
            first = next(iter(maps.values()))
            for keep in (1.0, *plan.keeps):
                several: dict[str, tuple[str, RememberedScores | None]] = {"full": ("full", None)}
                if keep < 1:
                    several = {name: (name, first) for name in CONTROLS}
                    several |= {rule: ("scorer", scorer) for rule, scorer in maps.items()}
                for name, (strategy, scorer) in several.items():
                    leaves = evaluation_leaves(strategy, keep, batch, tree, scorer, generator)
                    key = f"{name}@{keep:.4g}"
                    tokens[key] = leaves.shape[1]
                    found.setdefault(key, []).append(judge(model, batch, leaves[:, None]).right[:, 0].cpu().numpy())
            if "critic" in scorers:
                good, spent = stopped(plan, speaker, scorers["critic"], batch)
                found.setdefault(f"{OWN_STOPS}@{plan.keeps[0]:.4g}", []).append(good)
                stops.append(spent)
    if stops:
        tokens[f"{OWN_STOPS}@{plan.keeps[0]:.4g}"] = float(np.concatenate(stops).mean())
    right = {key: np.concatenate(parts) for key, parts in found.items()}
    return {"right": right, "tokens": tokens, "families": np.array(families)}


def stopped(
    plan: CreditOptions, model: PreTrainedModel, scorer: Any, batch: TrainingBatch
) -> tuple[np.ndarray, np.ndarray]:
    """Right (B,) and tokens (B,) where the actor that the critics taught decides behind which pass to stop. It hears
    how sure the reader is of what it said, and no right answer."""
    actor = HierarchicalActorCritic(STATES, ACTIONS)
    actor.load_state_dict(load_file(plan.out / "critic" / "actor.safetensors"))
    device, tree = batch.pictures.device, tree_of(plan.size)
    logits = scorer(batch.pictures, batch.question_ids).float()
    budgets = pass_budgets(tree, round(plan.keeps[0] * tree.full), CRITIC_PASSES)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        shown = model, batch.pictures, batch.question_ids
        said = [answer_batch(*shown, overlay(logits.sigmoid(), [one] * len(batch)).cells) for one in budgets]
    sure = [one.log_probabilities().sum(1) / one.within.sum(1).clamp_min(1) for one in said]
    last = own_stops(actor.float().to(device), torch.stack(sure, -1).exp(), budgets, tree.full, logits)
    right = torch.stack([is_right(one, batch.answer_ids) for one in said], -1).gather(1, last[:, None])[:, 0]
    spent = torch.tensor(budgets, device=device).cumsum(0)[last]
    return right.cpu().numpy(), spent.cpu().numpy()


def table_of(plan: CreditOptions, read: JsonObject, records: dict[str, JsonObject], where: str) -> Table:
    """A row for every rule and control at every budget."""
    right, tokens, base = read["right"], read["tokens"], plan.rules[0]
    rows: list[JsonObject] = []
    for key, values in right.items():
        name, keep = key.split("@")
        own = records.get("critic" if name == OWN_STOPS else name, {})
        row = {
            "rule": name,
            "keep": float(keep),
            "tokens": tokens[key],
            "right": Quantity.percent(proportion(values), "%"),
        }
        row |= {"n": len(values), "seed": plan.seed if own else None}
        row |= {"seconds": float(own["seconds"]) if own else None, "steps": own.get("step")}
        if own and name != base:
            row["of"] = Quantity.percent(ratio(values.astype(float), right[f"{base}@{keep}"].astype(float)), "%")
            row["above the bar"] = paired(values.astype(float), right[f"{base}@{keep}"].astype(float), BAR).above()
        for family in FAMILIES:
            row[family] = round(100 * float(values[read["families"] == family].mean()), 1)
        rows.append(row)
    taught = f"{plan.start} steps by boxes before outcomes" if plan.start else "never taught where to look"
    facts = {
        "pictures": f"{plan.size[0]}×{plan.size[1]} of the test split, {len(read['families'])}, all families alike",
        "machine": where,
        "start": f"{plan.net} scorer, seed {plan.seed}, {taught}; batches of {plan.batch}; baseline: {plan.baseline}",
        "%": "exact match with a 95 % interval; of the first: accuracy over that of the first rule",
    }
    return Table("What is learned by what", COLUMNS, tuple(rows), facts)


def compare(plan: CreditOptions) -> tuple[Table, dict[str, object]]:
    """Train what is not trained yet and read: the table, and the plan and answers that stand beside it in the JSON."""
    device = Devices(plan.device).device
    records: dict[str, dict[str, object]] = {}
    scorers: dict[str, MapScorer] = {}
    if plan.start:
        train(ScorerTraining, training_of(plan, START))
    for rule in plan.rules:
        records[rule] = train(ScorerTraining, training_of(plan, rule)).done
        scorers[rule] = load_scorer(plan.out / rule / "scorer", str(device)).eval()
    read = read_all(plan, scorers, device)
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} threads, CPU"
    made = table_of(plan, read, records, where)
    kept = {key: "".join("01"[value] for value in values.astype(int)) for key, values in read["right"].items()}
    asked = {name: value for name, value in plain(plan).items() if name not in ("as_json", "saved")}
    return made, {"plan": {**asked, "measured": None}, "answers": kept}


def measured(path: Path) -> Table:
    """The table of an earlier run."""
    return Table.load(path, COLUMNS, "is no compared.json of this bench")


if __name__ == "__main__":
    door(program("credit"))
