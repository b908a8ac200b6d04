"""What a scorer learns by: boxes, the derivative's credit, the policy gradient, the critic. One table, equal seconds.

    python -m arr_coc_lab.bench.credit --weights MINI --rules boxes derivative --seconds 85 --device cuda --out OUT
    python -m arr_coc_lab.bench.credit --weights MINI --rules boxes derivative policy critic --net small --size 256 \\
        --batch 8 --seconds 240 --number 420 --cpu --out OUT --page docs/learning.md

Every rule trains a scorer of its own from the same start (the same weights, seed, pictures and seconds) with the same
frozen reader. Then all read the same test pictures (seeds and typefaces that no training saw) through overlays of the
same tokens, beside the whole picture, a uniform one, leaves by chance, the first scorer's map shuffled, and the boxes
themselves. A rule that is trained already is not trained again: the same --out goes on where it stood.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from arr_coc.allocation.overlay import overlay
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.folders import MINI, part_folder
from arr_coc.models.qwen3_vl.attention import dense_vision_attention
from arr_coc.relevance.scorer.source import load_scorer

from ..statistics import Estimate, paired, proportion, ratio
from ..train.actor_critic import ACTIONS, STATES, HierarchicalActorCritic, own_stops, pass_budgets
from ..train.allocations import tree_of
from ..train.calibration import answer_batch, is_right
from ..train.devices import Devices
from ..train.evaluate import FAMILIES, evaluation_leaves
from ..train.options import option, parse, plain
from ..train.outcomes import judge, load_reader
from ..train.pictures import TrainingBatch, render_family
from ..train.run import door, train
from ..train.train_scorer import CREDITS, CRITIC_PASSES, NETS, ScorerOptions, ScorerTraining
from .needle import RememberedScores
from .table import Quantity, Table, fill_page

OWN_STOPS = "critic, its own stops"
CONTROLS = ("uniform", "random", "shuffled", "oracle")
BAR = 0.95  # of the first rule's accuracy
COLUMNS = {
    "rule": "learned by",
    "seed": "seed",
    "seconds": "seconds",
    "steps": "steps",
    "tokens": "tokens",
    "right": "right",
    "of": "of the first",
    "n": "n",
}


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What is compared, on what, for how long."""

    weights: Path = option(part_folder(MINI), "the frozen reader: mini's folder, or an export of train mini")
    measured: Path | None = option(
        None, "a compared.json: only show it, and write the page; nothing is trained or read"
    )
    rules: tuple[str, ...] = option(
        ("boxes", "derivative"),
        "what to learn by, the first is what others are held against",
        choices=("boxes", *CREDITS),
    )
    seconds: float = option(85.0, "of training, each rule")
    steps: int = option(0, "of each rule, instead of seconds")
    seed: int = option(0, "of the start and of all pictures learned from")
    net: str = option("reading", "small, or reading: the bundled one's, all but what reads letters new", choices=NETS)
    width: int = option(128, "features of the small scorer")
    size: tuple[int, int] = option((512, 512), "canvas in pixels")
    batch: int = option(64, "pictures a step")
    learning_rate: float = option(1.5e-3, "at its highest")
    keeps: tuple[float, ...] = option((1 / 4, 1 / 8), "budgets, shares of all tokens, largest first")
    reward: str = option("outcome", "what an answer is worth to policy and critic: outcome, simple or a file")
    number: int = option(2100, "test pictures, all families together")
    at_once: int = option(75, "test pictures in memory together")
    device: str = option("", "cpu, cuda, cuda:1; empty: a GPU where there is one")
    out: Path = option(Path("runs/credit"), "checkpoints, the scorers, and compared.json")
    page: Path | None = option(None, "a page whose part between the marks `credit` is written anew")

    def __post_init__(self) -> None:
        if len(set(self.rules)) != len(self.rules) or self.number < 1:
            raise InputError("--rules must each be named once, and --number be at least 1")

    def training(self, rule: str) -> ScorerOptions:
        """One rule's training; only what it learns by differs."""
        seconds = 1e9 if self.steps else self.seconds
        return ScorerOptions(
            source="boxes" if rule == "boxes" else "outcomes",
            credit="derivative" if rule == "boxes" else rule,
            reader=self.weights,
            seconds=seconds,
            total=seconds,
            steps=self.steps,
            seed=self.seed,
            device=self.device,
            folder=self.out / rule,
            out=self.out / rule,
            batch=self.batch,
            size=self.size,
            keeps=self.keeps,
            learning_rate=self.learning_rate,
            reward=self.reward,
            net=self.net,
            width=self.width,
            curriculum=False,
            probe=0,
            evaluate=0,
            replays=3,
            small_until=0.3,
            checkpoint_every=1e9,
        )


def test_batches(plan: CompareOptions, device: torch.device) -> Iterator[tuple[str, TrainingBatch]]:
    each = -(-plan.number // len(FAMILIES))
    for family in FAMILIES:
        for start in range(0, each, plan.at_once):
            count = min(plan.at_once, each - start)
            yield family, render_family(family, count, plan.size, 11, start, device, None, "test")


@torch.no_grad()
def read_all(plan: CompareOptions, scorers: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """{"RULE@KEEP": right (n,), tokens} of every rule and control, the pictures of one family after the other."""
    model, tree = load_reader(plan.weights, device), tree_of(plan.size)
    found: dict[str, list[np.ndarray]] = {}
    tokens: dict[str, float] = {}
    generator = torch.Generator().manual_seed(11)
    families: list[str] = []
    stops: list[np.ndarray] = []
    speaker: Any = copy.deepcopy(model).float()  # who answers in its own words, as `bench needle` asks it
    with dense_vision_attention(model), dense_vision_attention(speaker):
        for family, batch in test_batches(plan, device):
            families += [family] * len(batch)
            maps = {rule: RememberedScores(scorer) for rule, scorer in scorers.items()}
            first: Any = next(iter(maps.values()))
            for keep in (1.0, *plan.keeps):
                several: dict[str, tuple[str, Any]] = {"full": ("full", None)}
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


def stopped(plan: CompareOptions, model: Any, scorer: Any, batch: TrainingBatch) -> tuple[np.ndarray, np.ndarray]:
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


def percent(found: Estimate, unit: str = "%") -> Quantity:
    return Quantity(100 * found.value, unit, 100 * found.low, 100 * found.high)


def table_of(plan: CompareOptions, read: dict[str, Any], records: dict[str, dict[str, Any]], where: str) -> Table:
    """A row for every rule and control at every budget."""
    right, tokens, base = read["right"], read["tokens"], plan.rules[0]
    rows: list[dict[str, Any]] = []
    for key, values in right.items():
        name, keep = key.split("@")
        own = records.get("critic" if name == OWN_STOPS else name, {})
        row = {"rule": name, "keep": float(keep), "tokens": tokens[key], "right": percent(proportion(values))}
        row |= {"n": len(values), "seed": plan.seed if own else None}
        row |= {"seconds": float(own["seconds"]) if own else None, "steps": own.get("step")}
        if own and name != base:
            row["of"] = percent(ratio(values.astype(float), right[f"{base}@{keep}"].astype(float)))
            row["above the bar"] = paired(values.astype(float), right[f"{base}@{keep}"].astype(float), BAR).above()
        for family in FAMILIES:
            row[family] = round(100 * float(values[read["families"] == family].mean()), 1)
        rows.append(row)
    facts = {
        "pictures": f"{plan.size[0]}×{plan.size[1]} of the test split, {len(read['families'])}, all families alike",
        "machine": where,
        "start": f"{plan.net} scorer, seed {plan.seed}, never taught where to look; batches of {plan.batch}",
        "%": "exact match with a 95 % interval; of the first: accuracy over that of the first rule",
    }
    return Table("What is learned by what", COLUMNS, tuple(rows), facts)


def compare(plan: CompareOptions) -> Table:
    """Train what is not trained yet, read, write compared.json."""
    device = Devices(plan.device).device
    records: dict[str, dict[str, Any]] = {}
    scorers: dict[str, Any] = {}
    for rule in plan.rules:
        records[rule] = train(ScorerTraining, plan.training(rule)).done
        scorers[rule] = load_scorer(plan.out / rule / "scorer", str(device)).eval()
    read = read_all(plan, scorers, device)
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} threads, CPU"
    made = table_of(plan, read, records, where)
    kept = {key: "".join("01"[value] for value in values.astype(int)) for key, values in read["right"].items()}
    write_json(plan.out / "compared.json", {**made.to_json(), "plan": plain(plan), "answers": kept})
    return made


def measured(path: Path) -> Table:
    """The table of an earlier run."""
    try:
        return Table.from_json(json.loads(path.read_text(encoding="utf-8")), COLUMNS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no compared.json of this bench ({error})") from error


def main(arguments: Iterable[str] | None = None) -> None:
    plan = parse(CompareOptions, arguments, __doc__)
    made = compare(plan) if plan.measured is None else measured(plan.measured)
    print(made.section())
    for row in made.rows:
        cells = ", ".join(f"{family} {row[family]}" for family in FAMILIES)
        print(f"{row['rule']} {row['tokens']} tokens: {cells}; bar {BAR}: {row.get('above the bar', '–')}")
    if plan.page is not None:
        fill_page(plan.page, "credit", made)


if __name__ == "__main__":
    door(main)
