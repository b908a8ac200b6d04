"""`bench peers`: all ways on the same pictures, in rounds that may be interrupted, and what the rows say.

A round takes the next pictures of every family, so that whatever is done when the time is over is balanced over them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch

from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing, write_text
from arr_coc.core.values import JsonObject

from ...statistics import wilson
from ...train.curves import new_figure
from ...train.evaluate import FAMILIES
from ...train.pictures import TrainingBatch, render_family
from ..machine import machine_facts
from ..needle import Weights, percent
from ..options import PeersOptions
from ..report import Report, Table, TableCell, begun_document, read_document
from ..run import BenchRun
from ..suite import chosen_families, suite
from .cost import Cost, counted_cost, model_cost, prompt_length
from .model import PeerScene, PrunableMini, Way
from .registry import FULL, chosen_ways

SUITE = suite("peers")
OURS: str = SUITE["ours"]
GROUPS: Mapping[str, str] = SUITE["groups"]
AT_ONCE: Mapping[str, int] = SUITE["at_once"]
RAW = "peers_raw.json"
SCHEMA = 1
Rows = Sequence[JsonObject]
Bits = Mapping[str, Mapping[str, np.ndarray]]


def measure(options: PeersOptions, run: BenchRun) -> Report:
    """Read what the folder lacks, or show what was saved; draw the plot where it is wanted."""
    if options.saved is not None:
        document = read_document(options.saved, "peers", "peers")
    else:
        document = measure_peers(
            Weights.load(options.weights, options.device), plan_of(options), options.out, run.timed
        )
    if options.plot is not None:
        plot(document, options.plot)
    return Report(document, tables(document), document["facts"], page=page_parts(document))


def plan_of(options: PeersOptions) -> PeersPlan:
    """What the options ask for, where it can be."""
    for name in ("n", "batch", "seconds"):
        value = getattr(options, name)
        if value is not None and value <= 0:
            raise InputError(f"--{name} {value:g} measures nothing; give more than 0")
    for keep in options.keeps:
        if not 1 / 256 <= keep <= 1:
            raise InputError(f"--keeps {keep:g} is not a share of the 256 tokens; give 1/256 to 1, for example 0.125")
    quick = options.quick
    return PeersPlan(
        ways=chosen_ways(options.peers or (SUITE["quick"] if quick else None)),
        number=options.n or SUITE["quick_number" if quick else "number"],
        families=chosen_families(options.family),
        keeps=tuple(sorted(options.keeps or SUITE.shares("quick_keeps" if quick else "keeps"), reverse=True)),
        seed=options.seed,
        at_once=options.batch or AT_ONCE["cpu" if torch.device(options.device).type == "cpu" else "cuda"],
        seconds=options.seconds,
    )


@dataclass(frozen=True)
class PeersPlan:
    """number: pictures of each family. at_once: in one batch. seconds: begin no further round that would end later."""

    ways: tuple[Way, ...]
    number: int = SUITE["number"]
    families: tuple[str, ...] = FAMILIES
    keeps: tuple[float, ...] = SUITE.shares("keeps")
    more: tuple[float, ...] = SUITE.shares("more")
    size: tuple[int, int] = (512, 512)
    seed: int = 20261115
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
class PeersFindings:
    """key: what must be the same for two runs to be one. batches: by "family start", which answers were right by cell
    (a string of hexadecimal digits, a bit for each picture), and the prompts' mean length. layers: visual tokens in
    every layer, patches: in every block, by cell. costs: GFLOP by cell."""

    key: dict[str, object]
    batches: dict[str, JsonObject] = field(default_factory=dict)
    layers: dict[str, list[int]] = field(default_factory=dict)
    patches: dict[str, list[int]] = field(default_factory=dict)
    choosers: dict[str, float] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path | None, key: JsonObject) -> PeersFindings:
        """What a folder holds of this run; nothing where it is new."""
        return cls(**(begun_document(folder / RAW if folder else None, key, "key") or {"key": key}))

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
    model = weights.mini
    if next(model.parameters()).device.type == "cuda":
        model = copy.deepcopy(model)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(torch.bfloat16)
    return PrunableMini(model.eval().requires_grad_(False), weights.scorer)


def measure_peers(
    weights: Weights, plan: PeersPlan, out: Path | None = None, tell: Callable[[str], None] = lambda line: None
) -> JsonObject:
    """The whole document; `out` holds what was read after every batch, tell: called with a line after each."""
    began = perf_counter()
    mini = prunable(weights)
    device = next(mini.model.parameters()).device
    key = {
        **{"schema": SCHEMA, "seed": plan.seed, "split": plan.split, "size": list(plan.size)},
        **{"at_once": plan.at_once, "weights": weights.name, "dtype": str(mini.dtype)},
    }
    findings = PeersFindings.load(out, key)
    usable = count_choosers(mini, plan, findings, device)
    longest, starts = 0.0, range(0, plan.number, plan.at_once)
    for turn, start in enumerate(starts):
        started = perf_counter()
        if turn and plan.seconds is not None and started - began + longest > plan.seconds:
            tell(f"the time is over after {start} pictures of each family")
            break
        for place, family in enumerate(plan.families):
            count = min(plan.at_once, plan.number - start)
            if read_batch(mini, plan, findings, usable, Place(family, start, count)):
                findings.save(out)
                done = f"round {turn + 1} of {len(starts)}, {family} ({place + 1} of {len(plan.families)})"
                tell(f"{done}: {start + count} pictures")
        longest = max(longest, perf_counter() - started)
    return document_of(mini, plan, findings, facts_of(plan, weights, mini, perf_counter() - began))


def count_choosers(
    mini: PrunableMini, plan: PeersPlan, findings: PeersFindings, device: torch.device
) -> list[tuple[Way, float]]:
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


class Place(NamedTuple):
    """A batch of pictures: of which family, from which number on, how many."""

    family: str
    start: int
    count: int


@torch.inference_mode()
def read_batch(
    mini: PrunableMini,
    plan: PeersPlan,
    findings: PeersFindings,
    cells: Sequence[tuple[Way, float]],
    place: Place,
) -> bool:
    """Read a batch by every cell that has not read it yet. False where there was nothing to do."""
    family, start, count = place
    device = next(mini.model.parameters()).device
    found = findings.batches.setdefault(f"{family} {start}", {"count": count, "right": {}})
    if found["count"] != count:  # the last batch of a shorter run: read it again, whole
        found.update(count=count, right={})
    names = {cell_name(way, plan.tokens(keep)): (way, plan.tokens(keep)) for way, keep in cells}
    missing = {name: cell for name, cell in names.items() if name not in found["right"]}
    if not missing:
        return False
    batch: TrainingBatch = render_family(family, count, plan.size, plan.seed, start, device, None, plan.split)
    scene = PeerScene(batch, mini.dtype, seed=plan.seed * 7919 + FAMILIES.index(family) * 1_000_003 + start)
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


def document_of(
    mini: PrunableMini, plan: PeersPlan, findings: PeersFindings, facts: dict[str, str]
) -> dict[str, object]:
    """Every cell that has been read, with its cost; `report` makes the rest of it."""
    texts = [(batch["text"], batch["count"]) for batch in findings.batches.values() if "text" in batch]
    text = float(np.average([one for one, _ in texts], weights=[count for _, count in texts])) if texts else 0.0
    rows: list[dict[str, object]] = []
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


def facts_of(plan: PeersPlan, weights: Weights, mini: PrunableMini, seconds: float) -> dict[str, str]:
    facts, device = machine_facts(("torch", "transformers")), weights.device
    if device.type == "cuda":
        facts["device"] = torch.cuda.get_device_name(device)
    return {
        **facts,
        "weights": weights.name,
        "arithmetic": str(mini.dtype).removeprefix("torch."),
        "pictures": f"{plan.size[0]}×{plan.size[1]}, split {plan.split}, seed {plan.seed}",
        "seconds of the last run": f"{seconds:.0f}",
    }


# ---- what the rows say -----------------------------------------------------------------------------------------------


def share(right: int, number: int) -> JsonObject:
    low, high = wilson(right, number)
    return {"n": number, "value": right / max(1, number), "low": low, "high": high}


def difference(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> dict[str, object]:
    """Picture by picture, over what both have read: mean over families, and its 95 % interval."""
    gaps = []
    for family in ours:
        both = min(len(ours[family]), len(theirs.get(family, ())))
        if both:
            gaps.append(ours[family][:both].astype(float) - theirs[family][:both])
    mean = float(np.mean([gap.mean() for gap in gaps]))
    spread = 1.96 * float(np.sqrt(sum(gap.var() / len(gap) for gap in gaps))) / len(gaps)
    return {"value": mean, "low": mean - spread, "high": mean + spread}


def summarise(rows: list[JsonObject], bits: Bits) -> dict[str, object]:
    """Adds accuracy to every row (mean over families), and what ours have at no more operations."""
    ours = sorted((row for row in rows if row["way"] == OURS), key=lambda row: row["keep"])
    result, compute = [], []
    for row in rows:
        families = {name: share(int(found.sum()), len(found)) for name, found in bits[row["cell"]].items()}
        number = sum(one["n"] for one in families.values())
        mean = float(np.mean([one["value"] for one in families.values()]))
        result.append({**row, **share(round(mean * number), number), "families": families})
        same = next((one for one in ours if one["keep"] == row["keep"]), None)
        if same and row["way"] != OURS:
            result[-1]["ours minus this"] = difference(bits[same["cell"]], bits[row["cell"]])
        affordable = [one for one in ours if one["GFLOP"]["total"] <= row["GFLOP"]["total"]]
        if row["way"] != OURS:
            compute.append({"cell": row["cell"], "ours": None})
            if affordable:
                gap = difference(bits[affordable[-1]["cell"]], bits[row["cell"]])
                compute[-1].update(ours=affordable[-1]["cell"], **{"ours minus this": gap})
    return {"rows": result, "equal compute": compute}


def fraction(keep: float) -> str:
    return "all" if keep == 1 else f"1/{round(1 / keep)}" if round(1 / keep) * keep == 1 else f"{keep:g}"


def shares_of(rows: Rows) -> list[float]:
    """The shares that peers were read at, largest first; without peers, all."""
    peers = {row["keep"] for row in rows if row["group"] == "peer"}
    return sorted((peers or {row["keep"] for row in rows}) - {1.0}, reverse=True)


def sorted_ways(rows: Rows) -> list[tuple[str, str]]:
    """(group, way): groups in their order; in each the best first, by the mean over shares that all were read at."""
    shares = [{row["keep"] for row in rows if row["way"] == way} for way in {row["way"] for row in rows} - {"full"}]
    common = set.intersection(*shares) if shares else set()
    mean = {
        (row["group"], row["way"]): float(
            np.mean([one["value"] for one in rows if one["way"] == row["way"] and one["keep"] in common] or [0])
        )
        for row in rows
        if row["way"] != "full"
    }
    return sorted(mean, key=lambda way: (list(GROUPS).index(way[0]), -mean[way]))


def cost_of(row: JsonObject) -> str:
    return f"{row['GFLOP']['total']:.1f}"


def token_table(document: JsonObject, exact: bool = False) -> Table:
    """Equal tokens: ways down, shares of the tokens across; GFLOP beside them, and of these the chooser's."""
    rows = document["rows"]
    found = {(row["way"], row["keep"]): row for row in rows}
    most = next((row for row in rows if row["way"] == "full"), None)
    keeps = shares_of(rows)
    columns = {"way": "exact match, %", "where": "where", **{fraction(keep): fraction(keep) for keep in keeps}}
    columns |= {"cost": "GFLOP", "chooser": "of it choosing"}
    lines: list[dict[str, TableCell]] = []
    if most:
        lines.append(
            {"way": f"full ({most['tokens']} tokens)", "where": None, fraction(keeps[0]): percent(most, exact)}
        )
        lines[0]["cost"] = cost_of(most)
    for group, way in sorted_ways(rows):
        cells = [found[way, keep] for keep in keeps if (way, keep) in found]
        line: dict[str, TableCell] = {"way": f"**{way}**" if exact and group == "ours" else way}
        line |= {fraction(row["keep"]): percent(row, exact) for row in cells}
        line["where"] = cells[0]["where"] if cells else None
        line["cost"] = " / ".join(map(cost_of, cells))
        line["chooser"] = " / ".join(f"{row['GFLOP']['chooser']:.2f}" for row in cells)
        lines.append(line)
    return Table("Equal tokens", columns, tuple(lines))


def compute_table(document: JsonObject, exact: bool = False) -> Table:
    """Equal compute: each way at each share, and ours at the largest budget that costs no more."""
    found = {row["cell"]: row for row in document["rows"]}
    place = {way: number for number, (_, way) in enumerate(sorted_ways(document["rows"]))}
    lines: list[dict[str, TableCell]] = []
    pairs = [(found[one["cell"]], one) for one in document["equal compute"]]
    pairs = [pair for pair in pairs if pair[0]["group"] in ("peer", "control")]
    for row, one in sorted(pairs, key=lambda pair: (place.get(pair[0]["way"], -1), -pair[0]["keep"])):
        mine = found.get(one["ours"])
        line: dict[str, TableCell] = {"way": row["way"], "keep": fraction(row["keep"]), "cost": cost_of(row)}
        line |= {"theirs": percent(row, False), "ours": None, "tokens": None, "our_cost": None, "gap": None}
        if mine:
            line |= {"tokens": mine["tokens"], "our_cost": cost_of(mine), "ours": percent(mine, False)}
            line["gap"] = percent(one["ours minus this"], exact)
        lines.append(line)
    return Table(
        f"Equal compute: {OURS} at the largest budget that costs no more", SUITE["columns"]["compute"], tuple(lines)
    )


def family_table(document: JsonObject, keep: float = 1 / 8) -> Table:
    """Where a peer wins: families across, at one share."""
    rows = [row for row in document["rows"] if row["keep"] in (1.0, keep)]
    families = list(dict.fromkeys(name for row in rows for name in row["families"]))
    order = {way: number for number, (_, way) in enumerate(sorted_ways(rows))}
    lines: list[dict[str, TableCell]] = [
        {"way": row["way"], **{name: f"{100 * one['value']:.1f}" for name, one in row["families"].items()}}
        for row in sorted(rows, key=lambda row: order.get(row["way"], -1))
    ]
    columns = {"way": "exact match, %", **{name: name for name in families}}
    return Table(f"By family, {fraction(keep)} of the tokens", columns, tuple(lines))


def wins(document: JsonObject) -> list[str]:
    """Where ours are beaten beyond chance: at equal tokens, at equal compute, and in a family at equal tokens."""
    found = {row["cell"]: row for row in document["rows"]}
    rows = [row for row in document["rows"] if row["group"] in ("peer", "control") and row["way"] != "full"]
    ours = {row["keep"]: row for row in document["rows"] if row["way"] == OURS}
    lines = []

    def told(row: JsonObject, gap: JsonObject, how: str) -> None:
        if gap["high"] < 0:
            points = f"{-100 * gap['value']:.1f} points [{-100 * gap['high']:.1f}, {-100 * gap['low']:.1f}]"
            lines.append(f"{row['way']} at {fraction(row['keep'])} of the tokens, {how}: ahead by {points}")

    for row in rows:
        told(row, row.get("ours minus this", {"high": 0}), "equal tokens")
    for one in document["equal compute"]:
        if found[one["cell"]] in rows:
            told(found[one["cell"]], one.get("ours minus this", {"high": 0}), "equal compute")
    for row in rows:
        mine = ours.get(row["keep"], {"families": {}})["families"]
        better = [
            name for name, theirs in row["families"].items() if name in mine and theirs["low"] > mine[name]["high"]
        ]
        if row["group"] == "peer" and better:
            lines.append(
                f"{row['way']} at {fraction(row['keep'])} of the tokens, equal tokens: better on {', '.join(better)}"
            )
    return lines or ["nowhere beyond chance"]


def tables(document: JsonObject, exact: bool = False) -> list[Table]:
    shares = shares_of(document["rows"])
    by_family = [family_table(document, 1 / 8 if 1 / 8 in shares else shares[0])] if shares else []
    return [token_table(document, exact), compute_table(document, exact), *by_family]


def page_parts(document: JsonObject) -> list[str]:
    """What a page shows: facts, tables, and where ours are beaten."""
    facts = [f"- {name}: {value}" for name, value in document["facts"].items()]
    numbers = sorted({row["n"] for row in document["rows"]})
    counted = " to ".join(str(one) for one in dict.fromkeys((numbers[0], numbers[-1])))
    facts.append(f"- questions for each cell: {counted}, all families together")
    parts = [f"### {table.title}\n\n{table.to_markdown()}" for table in tables(document, exact=True)]
    beaten = "### Where ours are beaten\n\n" + "\n".join(f"- {line}" for line in wins(document))
    return ["\n".join(facts), *parts, beaten]


def plot(document: JsonObject, path: Path) -> None:
    """Accuracy over GFLOP, one line for each way."""
    figure = new_figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    style = {"ours": ("-", 2.4), "peer": ("-", 1.2), "control": ("--", 1.0), "oracle": (":", 1.2)}
    for group, way in sorted_ways(document["rows"]):
        rows = sorted((row for row in document["rows"] if row["way"] == way), key=lambda row: row["GFLOP"]["total"])
        line, width = style[group]
        axes.plot(
            [row["GFLOP"]["total"] for row in rows],
            [100 * row["value"] for row in rows],
            linestyle=line,
            linewidth=width,
            marker="o",
            markersize=2 + width,
            label=way,
        )
    most = next((row for row in document["rows"] if row["way"] == "full"), None)
    if most:
        axes.plot(most["GFLOP"]["total"], 100 * most["value"], "k*", markersize=12, label="full")
    axes.set(xlabel="GFLOP a picture: tower, language model, chooser", ylabel="exact match, %", ylim=(0, 100))
    axes.set_xscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)
