"""All ways on the same pictures, in rounds that may be interrupted: every batch is written as soon as it is read.

A round takes the next pictures of every family, so that whatever is done when the time is over is balanced over them.
A later run with the same `--out` goes on where the last one stopped, and reads what was not asked for then.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json, write_text

from ...train.evaluate import FAMILIES
from ...train.pictures import TrainingBatch, render_family
from ..machine import machine_facts
from ..needle import Weights
from .cost import Cost, counted_cost, model_cost, prompt_length
from .model import PrunableMini, Scene
from .registry import FULL
from .report import summarise
from .way import Way

KEEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
# Only for ways that spare the tower: what the others pay for all of it, these may spend on tokens.
MORE = (3 / 4, 1 / 2)
SEED, SIZE, NUMBER, QUICK_NUMBER = 20261115, (512, 512), 2048, 8
AT_ONCE = {"cuda": 256, "cpu": 4}
RAW, SUMMARY = "peers_raw.json", "peers.json"
SCHEMA = 1


@dataclass(frozen=True)
class Plan:
    """number: pictures of each family. at_once: in one batch. seconds: begin no further round that would end later."""

    ways: tuple[Way, ...]
    number: int = NUMBER
    families: tuple[str, ...] = FAMILIES
    keeps: tuple[float, ...] = KEEPS
    more: tuple[float, ...] = MORE
    size: tuple[int, int] = SIZE
    seed: int = SEED
    split: str = "test"
    at_once: int = AT_ONCE["cpu"]
    seconds: float | None = None

    @property
    def full(self) -> int:
        return self.size[0] // 32 * (self.size[1] // 32)

    def cells(self) -> list[tuple[Way, float]]:
        """(way, share of the tokens) of every cell of the table; the whole picture first."""
        shares = {way: (*self.more, *self.keeps) if way.more else self.keeps for way in self.ways}
        return [(FULL, 1.0), *((way, keep) for way, keeps in shares.items() for keep in keeps)]

    def tokens(self, keep: float) -> int:
        return max(1, round(keep * self.full))


@dataclass
class Findings:
    """key: what must be the same for two runs to be one. batches: by "family start", which answers were right by cell
    (a string of hexadecimal digits, a bit for each picture), and the prompts' mean length. layers: visual tokens in
    every layer, patches: in every block, by cell. costs: GFLOP by cell."""

    key: dict[str, Any]
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    layers: dict[str, list[int]] = field(default_factory=dict)
    patches: dict[str, list[int]] = field(default_factory=dict)
    choosers: dict[str, float] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path | None, key: dict[str, Any]) -> Findings:
        """What a folder holds of this run; nothing where it is new."""
        path = folder / RAW if folder else None
        if path is None or not path.is_file():
            return cls(key)
        try:
            found = cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"cannot go on with {path} ({error}); give another --out") from error
        if found.key != key:
            changed = [name for name in key if found.key.get(name) != key[name]]
            raise InputError(f"{path} was begun with another {', '.join(changed) or 'version'}; give another --out")
        return found

    def save(self, folder: Path | None) -> None:
        if folder:
            write_text(folder / RAW, json.dumps(vars(self)) + "\n")


def cell_name(way: Way, tokens: int) -> str:
    return f"{way.name} @ {tokens}"


def packed(right: np.ndarray) -> str:
    return np.packbits(right).tobytes().hex()


def unpacked(digits: str, count: int) -> np.ndarray:
    return np.unpackbits(np.frombuffer(bytes.fromhex(digits), np.uint8), count=count).astype(bool)


def prunable(weights: Weights) -> PrunableMini:
    """float32 on a CPU; bfloat16 parameters (float32 buffers) on a GPU."""
    model: Any = weights.mini
    if next(model.parameters()).device.type == "cuda":
        model = copy.deepcopy(model)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(torch.bfloat16)
    return PrunableMini(model.eval().requires_grad_(False), weights.scorer)


def measure(
    weights: Weights, plan: Plan, out: Path | None = None, tell: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """The whole document; `out` holds it after every batch. tell: called with a line of progress after each."""
    began = perf_counter()
    mini = prunable(weights)
    device = next(mini.model.parameters()).device
    key = {
        **{"schema": SCHEMA, "seed": plan.seed, "split": plan.split, "size": list(plan.size)},
        **{"at_once": plan.at_once, "weights": weights.name, "dtype": str(mini.dtype)},
    }
    findings = Findings.load(out, key)
    usable = count_choosers(mini, plan, findings, device)
    longest, starts = 0.0, range(0, plan.number, plan.at_once)
    for turn, start in enumerate(starts):
        started = perf_counter()
        if turn and plan.seconds is not None and started - began + longest > plan.seconds:
            tell(f"the time is over after {start} pictures of each family")
            break
        for place, family in enumerate(plan.families):
            count = min(plan.at_once, plan.number - start)
            if read_batch(mini, plan, findings, usable, family, start, count, device):
                findings.save(out)
                done = f"round {turn + 1} of {len(starts)}, {family} ({place + 1} of {len(plan.families)})"
                tell(f"{perf_counter() - began:6.1f} s  {done}: {start + count} pictures")
        longest = max(longest, perf_counter() - started)
    document = document_of(mini, plan, findings, facts_of(plan, weights, mini, device, perf_counter() - began))
    if out:
        write_json(out / SUMMARY, document)
    return document


def count_choosers(mini: PrunableMini, plan: Plan, findings: Findings, device: torch.device) -> list[tuple[Way, float]]:
    """What choosing costs in every cell, on one picture that is not among the read ones. Returns the cells that can be
    read here: a way whose parts are not installed is left out, and the document says so."""
    batch = render_family("forms", 1, plan.size, plan.seed + 1, 0, device, None, plan.split)
    usable = []
    for way, keep in plan.cells():
        name = cell_name(way, plan.tokens(keep))
        try:
            if name not in findings.choosers:
                findings.choosers[name] = counted_cost(mini, way, plan.tokens(keep), batch).chooser
        except ImportError as error:
            findings.skipped[way.name] = f"not read: {error}"
            continue
        usable.append((way, keep))
    return usable


@torch.inference_mode()
def read_batch(
    mini: PrunableMini,
    plan: Plan,
    findings: Findings,
    cells: Sequence[tuple[Way, float]],
    family: str,
    start: int,
    count: int,
    device: torch.device,
) -> bool:
    """Read a batch by every cell that has not read it yet. False where there was nothing to do."""
    found = findings.batches.setdefault(f"{family} {start}", {"count": count, "right": {}})
    if found["count"] != count:  # the last batch of a shorter run: read it again, whole
        found.update(count=count, right={})
    names = {cell_name(way, plan.tokens(keep)): (way, plan.tokens(keep)) for way, keep in cells}
    missing = {name: cell for name, cell in names.items() if name not in found["right"]}
    if not missing:
        return False
    batch: TrainingBatch = render_family(family, count, plan.size, plan.seed, start, device, None, plan.split)
    scene = Scene(batch, mini.dtype, seed=plan.seed * 7919 + FAMILIES.index(family) * 1_000_003 + start)
    right = []
    for name, (way, tokens) in missing.items():
        told = way.make(mini, scene, tokens)
        answers, counts = mini.right(scene, told)
        right.append(answers)
        findings.layers[name], findings.patches[name] = counts, list(told.visual.patches)
    found["text"] = prompt_length(scene)
    for name, bits in zip(missing, torch.stack(right).cpu().numpy(), strict=True):
        found["right"][name] = packed(bits)
    return True


def document_of(mini: PrunableMini, plan: Plan, findings: Findings, facts: dict[str, str]) -> dict[str, Any]:
    """Every cell that has been read, with its cost; `report` makes the rest of it."""
    texts = [(batch["text"], batch["count"]) for batch in findings.batches.values() if "text" in batch]
    text = float(np.average([one for one, _ in texts], weights=[count for _, count in texts])) if texts else 0.0
    rows: list[dict[str, Any]] = []
    bits: dict[str, dict[str, np.ndarray]] = {}
    for way, keep in plan.cells():
        name = cell_name(way, plan.tokens(keep))
        found: dict[str, list[np.ndarray]] = {}
        for place, batch in findings.batches.items():
            family, start = place.split()
            if name in batch["right"] and int(start) < plan.number and family in plan.families:
                found.setdefault(family, []).append(unpacked(batch["right"][name], batch["count"]))
        if not found:
            continue
        bits[name] = {family: np.concatenate(parts) for family, parts in found.items()}
        known = model_cost(mini, findings.patches[name], findings.layers[name], text)
        cost = Cost(known.tower, known.language, findings.choosers.get(name, 0.0))
        rows.append(
            {
                **{"cell": name, "way": way.name, "group": way.group, "where": way.where, "asks": way.asks},
                **{"paper": way.paper, "keep": keep, "tokens": findings.layers[name][-1]},
                **{"layers": findings.layers[name], "patches": findings.patches[name], "GFLOP": cost.to_json()},
            }
        )
    facts |= {f"{name}": reason for name, reason in findings.skipped.items()}
    facts["prompt without the picture"] = f"{text:.1f} tokens, mean"
    return {"schema": SCHEMA, "kind": "peers", "facts": facts, **summarise(rows, bits)}


def facts_of(plan: Plan, weights: Weights, mini: PrunableMini, device: torch.device, seconds: float) -> dict[str, str]:
    facts = machine_facts(("torch", "transformers"))
    if device.type == "cuda":
        facts["device"] = torch.cuda.get_device_name(device)
    return {
        **facts,
        "weights": weights.name,
        "arithmetic": str(mini.dtype).removeprefix("torch."),
        "pictures": f"{plan.size[0]}×{plan.size[1]}, split {plan.split}, seed {plan.seed}",
        "seconds of the last run": f"{seconds:.0f}",
    }
