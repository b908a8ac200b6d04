"""The maps that `bench classic` compares: of the registry, of `train_hypotheses`, and tensions learned on the spot."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from arr_coc.allocation.frame import Frame, to_cells
from arr_coc.allocation.overlay import overlay
from arr_coc.core.alphabet import decode
from arr_coc.relevance.look.learned import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from arr_coc.relevance.look.tension import SHARPNESS
from arr_coc.relevance.registry import BUILT_IN, find_source, source_names
from arr_coc.relevance.scene import Scene

from ...classic.sources import picture_maps
from ...train.allocations import target_cells
from ...train.outcomes import share_loss
from ...train.pictures import TrainingBatch, render_family
from ...train.rivals import ODDS_POWERS, POWERS, Rivals, recall, sharpened, three_ways
from .plan import ClassicPlan, Record

# The phases of the source, by the names that the registry gives their parts.
PHASES: Mapping[str, str] = {
    "edge_lod": "Phase 1: edge density alone",
    "query_aware_lod": "Phase 2: five levels chosen by the question",
    "realizer": "RelevanceRealizer: one network of patches and words",
    "patch_trunk": "PatchTrunk: what patches learned, against the question",
    "participatory": "the question coupled to the picture",
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


def registry_maps(names: Sequence[str], batch: TrainingBatch) -> dict[str, Tensor]:
    """(B, rows, cols) of sources of relevance, on level-0 cells: the selectors of `knowing.classic` as one batch on its
    device, any other picture by picture on all cores."""
    frame = Frame((batch.pictures.shape[2], batch.pictures.shape[3]))
    questions = [decode(ids) for ids in batch.question_ids.cpu()]
    found = picture_maps(names, batch.pictures, questions)
    others = [name for name in names if name not in found]
    if others:
        scenes = [Scene(one.permute(1, 2, 0).contiguous().numpy()) for one in batch.pictures.cpu()]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for name in others:
                source = find_source(name)
                one_by_one = pool.map(lambda *asked, by=source: by.maps(*([one] for one in asked)), scenes, questions)
                maps = [np.array(getattr(one.relevance[0], "map", one.relevance[0]), np.float32) for one in one_by_one]
                found[name] = torch.from_numpy(np.stack(maps)).to(batch.pictures.device)
    return {name: to_cells(one, frame).clamp(0, 1) for name, one in found.items()}


def maps_of(batch: TrainingBatch, rivals: Rivals, names: Sequence[str]) -> dict[str, Tensor]:
    """Every map (B, rows, cols) that is asked for, as it is."""
    ways, makers = three_ways(batch, rivals.scorer), rivals.makers()
    ours = {name for name in names if name == OURS or (name in makers and name not in BUILT_IN)}
    found = registry_maps([name for name in names if name not in ours], batch)
    return {name: makers[name](batch, ways) if name in ours else found[name] for name in names}


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
