"""`bench classic`: the line of the source, phase by phase, against what is shipped, at equal tokens.

Every row is a map of relevance, from `knowing`'s registry or trained for the hypotheses, laid out by the same overlay
at the same budget and read by the same reader on the same pictures; maps are sharpened by a power of their own, chosen
on validation pictures. A second part reads large pictures by the classic scale, 64 to 400 tokens a patch. What was read
is kept picture by picture, so that a run goes on where it stopped, also with rows that were not there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...alphabet import decode
from ...attending import allocate_batch, overlay
from ...attending.frame import Frame, to_cells, tokens_of
from ...backbones.qwen3_vl_attention import dense_vision_attention
from ...balancing.learned import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from ...balancing.tension import SHARPNESS
from ...errors import InputError
from ...knowing.registry import BUILT_IN, find_source, source_names
from ...knowing.scene import Scene
from ...realizing.patches import as_boxes
from ..train.allocations import target_cells
from ..train.evaluate import FAMILIES
from ..train.outcomes import judge, share_loss
from ..train.pictures import TrainingBatch, render_family
from ..train.rivals import ODDS_POWERS, POWERS, Rivals, recall, sharpened, three_ways

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# The phases of the source, by the names that the registry gives their parts.
PHASES: Mapping[str, str] = {
    "edge_lod": "Phase 1: edge density alone",
    "query_aware_lod": "Phase 2: five levels chosen by the question",
    "realizer": "Phase 3: three ways realised, trained from outcomes",
    "participatory": "the question coupled to the picture",
    "patch_trunk": "the trunk of patches",
}
# Rivals of `train_hypotheses`, which H2, H3, H5 and the stakes are decided with.
TRAINED: Mapping[str, str] = {
    "outcomes": "Phase 3: the scorer, trained from outcomes alone",
    "propositional": "what is there",
    "perspectival": "what stands out",
    "fixed weights": "three ways at .4/.3/.3",
    "tension": "three ways, learned tensions",
    "adaptive": "three ways, tensions by question and place",
    "texture": "a small scorer of the texture",
    "rgb": "the same of the colours alone",
    "medical": "trained at 1000:1",
    "casual": "trained at 1:1",
}
CONTROLS = ("uniform", "random", "shuffled", "full")
OURS = "scorer"
SCALES = ("classic", "overlay")


@dataclass(frozen=True)
class ClassicPlan:
    """each: pictures of every family. keeps: shares of the tokens. at_once: pictures in memory. large: pictures of
    every family for the classic scale, of size `large_size`, at `large_budgets` tokens. seconds: no further batch is
    begun after them. names: only these rows of the registry, beside ours and the controls; all phases where empty."""

    each: int = 147
    keeps: tuple[float, ...] = (1 / 4,)
    size: tuple[int, int] = (512, 512)
    large: int = 0
    large_size: tuple[int, int] = (2048, 2048)
    large_budgets: tuple[int, ...] = (1024,)
    families: tuple[str, ...] = FAMILIES
    seed: int = 21
    split: str = "test"
    at_once: int = 21
    seconds: float | None = None
    names: tuple[str, ...] = ()
    device: str = "cpu"

    def batches(self) -> Iterator[tuple[bool, str, int, int]]:
        """(large, family, first picture, how many): every family in turn, so that what is done is balanced."""
        for start in range(0, self.each, self.at_once):
            for family in self.families:
                yield False, family, start, min(self.at_once, self.each - start)
        for start in range(self.large):
            for family in self.families:
                yield True, family, start, 1

    def steps(self) -> list[str]:
        return [step_name(*one[:3]) for one in self.batches()]


def step_name(large: bool, family: str, start: int) -> str:
    return f"{'large ' if large else ''}{family} from {start}"


@dataclass
class Record:
    """What was read so far. cells: "NAME@TOKENS" → family → number of the first picture of a batch → "0110…"."""

    powers: dict[str, tuple[float, bool]] = field(default_factory=dict)
    cells: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any], plan: ClassicPlan) -> Record:
        """Of a file of an earlier run, which must have read the same pictures."""
        if document.get("kind") != "classic":
            raise InputError("this is no record of `bench classic`; give another folder with --out")
        same = ("size", "seed", "split", "at_once", "large_size")
        differing = [name for name in same if document["plan"].get(name) != _plain(asdict(plan)[name])]
        if differing:
            raise InputError(f"the record was made with another {differing[0]}; give another folder with --out")
        powers = {name: (float(power), bool(odds)) for name, (power, odds) in document["powers"].items()}
        return cls(powers, document["cells"], dict(document.get("missing", {})), _plain(asdict(plan)))

    def to_json(self) -> dict[str, Any]:
        return {"schema": 1, "kind": "classic", **_plain(asdict(self))}

    def has(self, cell: str, family: str, start: int) -> bool:
        return str(start) in self.cells.get(cell, {}).get(family, {})

    def add(self, cell: str, family: str, start: int, right: Tensor) -> None:
        text = "".join("01"[int(one)] for one in right.tolist())
        self.cells.setdefault(cell, {}).setdefault(family, {})[str(start)] = text

    def pictures(self, cells: Sequence[str]) -> list[tuple[str, str, int]]:
        """(family, batch, place in it) of every picture that all these cells have read."""
        places = [
            {
                (family, start, place)
                for family, batches in self.cells.get(cell, {}).items()
                for start, text in batches.items()
                for place in range(len(text))
            }
            for cell in cells
        ]
        return sorted(set.intersection(*places)) if places else []

    def right(self, cell: str, pictures: Sequence[tuple[str, str, int]]) -> np.ndarray:
        return np.array([self.cells[cell][family][start][place] == "1" for family, start, place in pictures], float)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


# ---- maps -----------------------------------------------------------------------------------------------------------


def wanted_names(names: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Registry names that can be used here with what they are, and those that cannot with the reason in one line."""
    usable, missing = {}, {}
    for name in names or PHASES:
        if name.partition(":")[0] not in source_names():
            missing[name] = "not in the registry"
            continue
        source = find_source(name)
        line = source.missing(("pixels", "texture"))
        if line is None:
            usable[name] = PHASES.get(name, source.summary)
        else:
            missing[name] = line
    return usable, missing


def registry_map(name: str, batch: TrainingBatch) -> Tensor:
    """(B, rows, cols) of a source of relevance, on level-0 cells."""
    frame = Frame((batch.pictures.shape[2], batch.pictures.shape[3]))
    scenes = [Scene(one.permute(1, 2, 0).contiguous().numpy()) for one in batch.pictures.cpu()]
    found = find_source(name).maps(scenes, [decode(ids) for ids in batch.question_ids]).relevance
    maps = [np.array(getattr(one, "map", one), dtype=np.float32) for one in found]
    return (
        torch.cat([torch.from_numpy(to_cells(one[None], frame)) for one in maps]).clamp(0, 1).to(batch.pictures.device)
    )


def maps_of(batch: TrainingBatch, rivals: Rivals, names: Sequence[str]) -> dict[str, Tensor]:
    """Every map (B, rows, cols) that is asked for, as it is."""
    ways = three_ways(batch, rivals.scorer)
    makers = rivals.makers()
    return {
        name: makers[name](batch, ways) if (name in makers and name not in BUILT_IN) or name == OURS
        else registry_map(name, batch)
        for name in names
    }  # fmt: skip


def fit_balancers(
    rivals: Rivals, plan: ClassicPlan, folder: Path | None = None, each: int = 24, steps: int = 300
) -> None:
    """Learn the tensions, fixed and by question and place, over the three ways with the shipped scorer frozen, on
    training pictures; those of the package belong to an earlier scorer. folder: where they are kept from run to run."""
    kinds: dict[str, Any] = {"tension": TensionBalancer, "adaptive": AdaptiveTensionBalancer}
    if folder is not None and all((folder / name / "config.json").is_file() for name in kinds):
        loaded = {name: kind.from_pretrained(folder / name) for name, kind in kinds.items()}
        rivals.parts |= {name: part.float().to(plan.device) for name, part in loaded.items()}
        return
    parts: list[tuple[Tensor, ...]] = []
    for family in plan.families:
        batch = render_family(family, each, plan.size, plan.seed, 0, plan.device, None, "train")
        ways = three_ways(batch, rivals.scorer)
        parts.append((*ways.maps, ways.query, target_cells(batch, *ways.participatory.shape[1:])))
    first, second, third, query, truth = (torch.cat(one) for one in zip(*parts, strict=True))
    shares = truth / truth.sum((1, 2), keepdim=True).clamp_min(1)
    with torch.enable_grad(), torch.random.fork_rng():
        torch.manual_seed(plan.seed)
        made: dict[str, Any] = {
            "tension": TensionBalancer(),
            "adaptive": AdaptiveTensionBalancer(AdaptiveConfig(query_width=query.shape[1])),
        }
        made = {name: module.to(plan.device) for name, module in made.items()}
        for name, module in made.items():
            optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
            for _ in range(steps):
                found = module(first, second, third) if name == "tension" else module(first, second, third, query)
                loss = share_loss(SHARPNESS * found.clamp_min(1e-3).log(), shares)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            rivals.parts[name] = module.eval()
            if folder is not None:
                module.save_pretrained(folder / name)


def choose_power(one: Tensor, truth: Tensor, budget: int) -> tuple[float, bool]:
    """The power, of the map or of its odds, with which the overlay shows most of what the questions need."""
    ladder = [*((power, False) for power in POWERS), *((power, True) for power in ODDS_POWERS)]
    found = [float(recall(overlay(sharpened(one, *step), [budget] * len(one)).cells, truth).mean()) for step in ladder]
    return ladder[max(range(len(ladder)), key=lambda place: (round(found[place], 4), -place))]


def choose_powers(record: Record, rivals: Rivals, plan: ClassicPlan, names: Sequence[str], each: int = 10) -> None:
    """Powers of names that have none yet, by validation pictures of every family."""
    lacking = [name for name in names if name not in record.powers]
    if not lacking:
        return
    budget = round(plan.keeps[0] * (plan.size[0] // 32) * (plan.size[1] // 32))
    parts: dict[str, list[Tensor]] = {}
    truth = []
    for family in plan.families:
        batch = render_family(family, each, plan.size, plan.seed, 0, plan.device, None, "validation")
        for name, one in maps_of(batch, rivals, lacking).items():
            parts.setdefault(name, []).append(one)
        truth.append(target_cells(batch, plan.size[0] // 32, plan.size[1] // 32))
    for name, maps in parts.items():
        record.powers[name] = choose_power(torch.cat(maps), torch.cat(truth), budget)


# ---- reading --------------------------------------------------------------------------------------------------------


@torch.no_grad()
def measure(
    model: PreTrainedModel,
    rivals: Rivals,
    plan: ClassicPlan,
    record: Record,
    advance: Callable[[str], None] = lambda step: None,
    keep: Callable[[Record], None] = lambda record: None,
) -> Record:
    """Read what the record lacks. keep: called after every batch."""
    usable, record.missing = wanted_names(plan.names)
    trained = [name for name in TRAINED if name in rivals.makers()]
    names = [OURS, *usable, *trained]
    began = perf_counter()
    if plan.each:
        choose_powers(record, rivals, plan, names)
    with dense_vision_attention(model):
        for large, family, start, count in plan.batches():
            if plan.seconds is not None and perf_counter() - began > plan.seconds:
                break
            advance(step_name(large, family, start))
            read = _read_large if large else _read
            if read(model, rivals, plan, record, names, family, start, count):
                keep(record)
    return record


def _read(
    model: PreTrainedModel,
    rivals: Rivals,
    plan: ClassicPlan,
    record: Record,
    names: Sequence[str],
    family: str,
    start: int,
    count: int,
) -> bool:
    """One batch of one family by every row that has not read it; False where none is left."""
    rows, cols = plan.size[0] // 32, plan.size[1] // 32
    budgets = [max(1, round(keep * rows * cols)) for keep in plan.keeps]
    wanted = {budget: [name for name in (*names, *CONTROLS[:-1]) if not record.has(f"{name}@{budget}", family, start)]
              for budget in budgets}  # fmt: skip
    full = not record.has(f"full@{rows * cols}", family, start)
    if not full and not any(wanted.values()):
        return False
    batch = render_family(family, count, plan.size, plan.seed, start, plan.device, None, plan.split)
    asked = {name for lacking in wanted.values() for name in lacking}
    asked = [name for name in names if name in asked or (name == OURS and "shuffled" in asked)]
    maps = {name: sharpened(one, *record.powers[name]) for name, one in maps_of(batch, rivals, asked).items()}
    for budget, lacking in wanted.items():
        made = {name: maps[name] for name in lacking if name in maps}
        leaves = {name: overlay(one, [budget] * count).cells for name, one in made.items()}
        flat = torch.ones(count, rows, cols, device=plan.device)
        seed = plan.seed + start + 7919 * plan.families.index(family)
        for name in (one for one in lacking if one in CONTROLS):
            given = allocate_batch(maps[OURS] if name == "shuffled" else flat, budget, strategy=name, seed=seed)
            leaves[name] = torch.from_numpy(np.stack([tokens_of(one) for one in given])).to(plan.device)
        if leaves:
            right = judge(model, batch, torch.stack(list(leaves.values()), dim=1)).right
            for place, name in enumerate(leaves):
                record.add(f"{name}@{budget}", family, start, right[:, place])
    if full:
        every = overlay(torch.ones(count, rows, cols, device=plan.device), [rows * cols] * count).cells
        record.add(f"full@{rows * cols}", family, start, judge(model, batch, every[:, None]).right[:, 0])
    return True


def _read_large(
    model: PreTrainedModel,
    rivals: Rivals,
    plan: ClassicPlan,
    record: Record,
    names: Sequence[str],
    family: str,
    start: int,
    count: int,
) -> bool:
    """One large picture by the classic scale, by the overlay and by shrinking it, with our map."""
    lacking = {
        budget: [name for name in SCALES if not record.has(f"{name} scale@{budget}", family, start)]
        for budget in plan.large_budgets
    }
    if not any(lacking.values()):
        return False
    batch = render_family(family, count, plan.large_size, plan.seed, start, plan.device, None, plan.split)
    scores = rivals.scorer.score(batch.pictures, batch.question_ids)
    for budget, scales in lacking.items():
        for scale in scales:
            (one,) = allocate_batch(scores, budget, strategy=scale)
            found = tokens_of(one)
            boxes = torch.from_numpy(as_boxes(found) if scale == "classic" else found).to(plan.device)
            record.add(f"{scale} scale@{budget}", family, start, judge(model, batch, boxes[None, None]).right[:, 0])
    return True
