"""`bench peers`: run all ways on the same pictures, at equal tokens and at equal compute.

A job is a batch of one family's pictures; families take turns, so that an interrupted run is balanced.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from arr_coc.core.errors import InputError

from ...statistics import paired
from ...train.evaluate import FAMILIES
from ...worlds.needle import render
from ..needle import RIGHT, batch_jobs, device_facts, loaded, weights_name
from ..report import Quantity, Report, Score, Table, share_name
from ..rows import BenchRow, Key
from ..run import Plan
from ..suite import PeersOptions, chosen_families
from .model import PeerScene, PrunableMini, Way
from .ways import FULL, chosen_ways

NUMBER, QUICK = 2048, 8
KEEPS, QUICK_KEEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32), (1 / 4, 1 / 16)
# Only for ways that reduce the tower's work: they may spend on tokens what the others pay for the whole tower.
MORE = (3 / 4, 1 / 2)
AT_ONCE = {"cuda": 256, "cpu": 4}
QUICK_WAYS = ("scorer + overlay", "FastV, K = 2", "VisionZip", "DivPrune", "average pooling", "uniform down-sampling")
OURS = "scorer + overlay"
SIDE, SPLIT = 512, "test"
TOKENS = (SIDE // 32) ** 2


def plan(options: PeersOptions) -> Plan:
    for keep in options.keeps:
        if not 1 / TOKENS <= keep <= 1:
            raise InputError(f"--keeps {keep:g} is not a share of the {TOKENS} tokens; give 1/{TOKENS} to 1")
    ways = chosen_ways(options.peers or (QUICK_WAYS if options.quick else None))
    keeps = sorted(options.keeps or (QUICK_KEEPS if options.quick else KEEPS), reverse=True)
    cells = [(FULL.name, 1.0), *((way.name, keep) for way in ways for keep in (*(MORE if way.more else ()), *keeps))]
    number = options.n or (QUICK if options.quick else NUMBER)
    at_once = AT_ONCE["cpu" if torch.device(options.device).type == "cpu" else "cuda"]
    jobs = batch_jobs(chosen_families(options.family), number, at_once, cells)
    work = PeersWork(options.seed, options.device, options.weights)
    name = weights_name(options.weights)
    facts = {
        **device_facts(options.device),
        "weights": name,
        "arithmetic": "float32" if options.device == "cpu" else "bfloat16",
        "pictures": f"{SIDE}×{SIDE}, split {SPLIT}, seed {options.seed}",
    }
    settings = {"weights": name, "seed": options.seed, "at_once": at_once, "device": options.device.split(":")[0]}
    return Plan(jobs, work, lambda rows: report_of(rows, facts), settings)


@cache
def prunable(weights: Path | None, device: str) -> PrunableMini:
    """Load the models: float32 on a CPU; bfloat16 parameters (float32 buffers) on a GPU."""
    found = loaded(weights, device)
    model = found.mini
    if found.device.type == "cuda":
        model = copy.deepcopy(model)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(torch.bfloat16)
    return PrunableMini(model.eval().requires_grad_(False), found.scorer)


@dataclass(frozen=True)
class PeersWork:
    """Read one batch in every way still missing, in any process."""

    seed: int
    device: str
    weights: Path | None

    @torch.inference_mode()
    def __call__(self, what: tuple[str, int, int], wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        family, start, count = what
        mini, missing = prunable(self.weights, self.device), set(wanted)
        batch = render(family, count, (SIDE, SIDE), self.seed, SPLIT, device=self.device, start=start)
        scene = PeerScene(batch, mini.dtype, seed=self.seed * 7919 + FAMILIES.index(family) * 1_000_003 + start)
        for name, keep in dict.fromkeys((key.system, key.keep) for key in wanted):
            way, tokens = FULL if name == FULL.name else chosen_ways([name])[0], max(1, round(keep * TOKENS))
            given = way.make(mini, scene, tokens)
            right, counts = mini.right(scene, given)
            cost = {"GFLOP": round(counted_cost(self.weights, self.device, self.seed, way, tokens), 3)}
            for number, one in enumerate(right.tolist(), start):
                key = Key(f"{family} {number}", name, keep)
                if key in missing:
                    yield BenchRow("peers", *key, {"right": float(one)}, family, counts[-1], None, cost)


@cache
def counted_cost(weights: Path | None, device: str, seed: int, way: Way, tokens: int) -> float:
    """Count GFLOP of a way, from the pixels to the end of the prompt, on a picture outside the test set: choosing,
    tower and language model, as torch counts them (attention as the whole square)."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    mini = prunable(weights, device)
    batch = render("forms", 1, (SIDE, SIDE), seed + 1, SPLIT, device=device)
    scene = PeerScene(batch, mini.dtype, answers=False)
    # The plain kernel, because the counter does not support every fused one.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        mini.language(scene, way.make(mini, scene, tokens))
    return counter.get_total_flops() / 1e9


# ---- tables ----------------------------------------------------------------------------------------------------------


def report_of(rows: Sequence[BenchRow], facts: Mapping[str, str]) -> Report:
    """Report equal tokens by the usual tables, then equal compute."""
    scores = [Score("right", RIGHT.title, baseline=OURS)]
    costs: dict[tuple[str, float], float] = {}
    right: dict[tuple[str, float], dict[str, float]] = {}
    for row in rows:
        cell = row.system, row.keep
        costs[cell] = float(str(row.extras["GFLOP"]))
        right.setdefault(cell, {})[row.question] = row.scores["right"]
    more = [compute_table(costs, right)] if any(name == OURS for name, _ in costs) else []
    return Report.of(rows, scores, facts, ("family", "way"), more, compact=True)


def compute_table(
    costs: Mapping[tuple[str, float], float], right: Mapping[tuple[str, float], Mapping[str, float]]
) -> Table:
    """Make a table of each way at each share with its GFLOP a picture, and ours at the largest budget of equal cost."""
    ours = sorted(keep for name, keep in costs if name == OURS)
    rows = []
    for (name, keep), total in costs.items():
        affordable = [one for one in ours if costs[OURS, one] <= total]
        if name == OURS or not affordable:
            continue
        mine, theirs = right[OURS, affordable[-1]], right[name, keep]
        both = [question for question in mine if question in theirs]
        gap = paired(np.array([mine[one] for one in both]), np.array([theirs[one] for one in both]))
        rows.append(
            {
                "system": name,
                "keep": share_name(keep),
                "cost": f"{total:.1f}",
                "ours": f"{share_name(affordable[-1])}: {costs[OURS, affordable[-1]]:.1f}",
                "gap": Quantity.percent(gap),
            }
        )
    columns = {"system": "way", "keep": "share", "cost": "GFLOP", "ours": "ours", "gap": "ours − it, points"}
    return Table(f"Equal compute: {OURS} at the largest budget that costs no more", columns, rows)
