"""`bench needle`: exact match on Needle World from given weights: families, ways to allocate, budgets, calibration.

All ways see the very same pictures, so that differences are taken picture by picture. What is measured is one JSON
document, and every table is made from it. A cell has Wilson's interval. What joins cells (means over families, shares
of full, differences) is resampled: pictures are drawn with replacement inside each family, the same for every way.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.realizing.bundled import Calibration, model_folder
from arr_coc.realizing.qwen3_vl.encode import dense_vision_attention
from torch import Tensor

from arr_coc.core.folders import MINI, SCORER, part_folder
from arr_coc.core.values import JsonObject

from ..statistics import RESAMPLES, interval, proportion
from ..train.allocations import tree_of
from ..train.calibration import ASKED, answer_batch, calibration_row, is_right
from ..train.evaluate import FAMILIES, MapScorer, evaluation_leaves
from ..train.pictures import TrainingBatch, render_family
from ..train.reader import read
from .machine import machine_facts
from .options import NeedleOptions
from .report import Report, Table, TableCell
from .report import read_document as read_json
from .run import BenchRun
from .suite import chosen_families, suite

if TYPE_CHECKING:
    from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
    from transformers import PreTrainedModel

    from arr_coc.answering.decoding import Generated

    from ..classic.scorer import Scorer

Cell = tuple[str, float]
FULL: Cell = ("full", 1.0)
SUITE = suite("needle")
CELLS: tuple[Cell, ...] = (FULL, *((system, keep) for keep in SUITE.shares("keeps") for system in SUITE["systems"]))
SMALL_TYPE: tuple[str, ...] = tuple(SUITE["small_type"])
BATCH: Mapping[str, int] = SUITE["batch"]
PAGE: str = SUITE["template"]["page"]
BY_HAND = PAGE.strip().rpartition("\n")[2]


@dataclass(frozen=True)
class Weights:
    """mini and the scorer, on one device, and the temperature that calibrates mini's uncertainty."""

    mini: PreTrainedModel
    scorer: Scorer | ReadingScorer
    temperature: float
    name: str

    @classmethod
    def load(cls, folder: Path | None = None, device: str = "cpu") -> Weights:
        """Those of the package, or the folders `mini` and `scorer` that a training left in `folder`."""
        from transformers import Qwen3VLForConditionalGeneration
        from transformers.utils import logging

        logging.disable_progress_bar()
        places = part_folder(MINI, folder), part_folder(SCORER, folder)
        model = Qwen3VLForConditionalGeneration.from_pretrained(model_folder(places[0]), dtype=torch.float32)
        scorer = load_scorer(places[1])
        heat = Calibration.beside(places[0]).temperature
        return cls(model.to(device).eval(), scorer.to(device), heat, digest(*places))

    @property
    def device(self) -> torch.device:
        return next(self.mini.parameters()).device

    @contextmanager
    def reading(self) -> Generator[None]:
        """How the benches read: dense attention in the tower, half precision on a GPU."""
        cuda = self.device.type == "cuda"
        with dense_vision_attention(self.mini), torch.autocast(self.device.type, torch.bfloat16, enabled=cuda):
            yield

    def confidence(self, said: Generated) -> np.ndarray:
        """(2, B): how sure the model was of what it said, at temperature 1 and at the calibrated one."""
        return torch.stack([said.confidence(heat) for heat in (1.0, self.temperature)]).float().cpu().numpy()


def digest(*folders: Path) -> str:
    """A short name for what the weights are, so that a table can be held against the files it came from."""
    digested = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.glob("*.safetensors")):
        digested.update(path.read_bytes())
    return digested.hexdigest()[:12]


@dataclass
class RememberedScores:
    """A scorer that looks once at each batch, though several allocations ask it."""

    scorer: MapScorer
    _last: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def score(self, pictures: Tensor, question_ids: Tensor) -> Tensor:
        if self._last is None or self._last[0] is not pictures:
            self._last = pictures, self.scorer.score(pictures, question_ids)
        return self._last[1]


def measure(options: NeedleOptions, run: BenchRun) -> Report:
    """Measure, or take what was saved; the page keeps what was written by hand in the one that it replaces."""
    document = read_document(options.saved) if options.saved is not None else measured(options, run)
    text = None if options.page is None else markdown(document, hand_written(options.page))
    return Report(document, tables(document), document["facts"], page_text=text)


def measured(options: NeedleOptions, run: BenchRun) -> JsonObject:
    from ..cli.needle import parse_size

    plan = NeedlePlan(
        number=options.n or SUITE["quick_number" if options.quick else "number"],
        families=chosen_families(options.family),
        size=parse_size(options.size),
        seed=options.seed,
    )
    weights = Weights.load(options.weights, options.device)
    with run.progress(plan.families, "asking about") as advance:
        return measure_needle(weights, plan, advance)


@dataclass(frozen=True)
class NeedlePlan:
    """number: questions for each cell. batch: pictures at once, by the device where None."""

    number: int = SUITE["number"]
    families: Sequence[str] = FAMILIES
    size: tuple[int, int] = (512, 512)
    seed: int = 1
    split: str = SUITE["split"]
    batch: int | None = None
    cells: Sequence[Cell] = CELLS


def measure_needle(
    weights: Weights, plan: NeedlePlan, advance: Callable[[str], None] = lambda family: None
) -> dict[str, object]:
    """The whole document. advance: called with the name of each family before it begins."""
    facts = machine_facts(("torch", "transformers"))
    if weights.device.type == "cuda":
        facts["device"] = torch.cuda.get_device_name(weights.device)
    started = perf_counter()
    outcomes = []
    for family in plan.families:
        advance(family)
        outcomes.append(family_outcomes(weights, plan, family))
    facts |= {
        "weights": weights.name,
        "questions for each cell": str(plan.number),
        "pictures": f"{plan.size[0]}×{plan.size[1]}, split {plan.split} (held-out seeds and typefaces), "
        f"seed {plan.seed}",
        "temperature": f"{weights.temperature:.3f}",
        "seconds": f"{perf_counter() - started:.0f}",
    }
    return {"schema": 1, "kind": "needle", "facts": facts, **summarise(outcomes, plan.seed)}


@torch.inference_mode()
def family_outcomes(weights: Weights, plan: NeedlePlan, family: str) -> Outcomes:
    """Which of the family's questions are answered right in each cell, and how sure the model was of it."""
    tree = tree_of(plan.size)
    generator = torch.Generator().manual_seed(plan.seed)
    scorer = RememberedScores(weights.scorer)
    answers, tokens = CellAnswers(), {}
    at_once = plan.batch or BATCH.get(weights.device.type, BATCH["cpu"])
    with weights.reading():
        for start in range(0, plan.number, at_once):
            count = min(at_once, plan.number - start)
            batch = render_family(family, count, plan.size, plan.seed, start, weights.device, None, plan.split)
            for cell in plan.cells:
                leaves = evaluation_leaves(*cell, batch, tree, scorer, generator)
                answers.add(cell, *answered(weights, batch, leaves, cell in ASKED))
                tokens[cell] = leaves.shape[1]
    return Outcomes(family, answers.all_right(), answers.all_confidence(), tokens, tree.full)


def answered(
    weights: Weights, batch: TrainingBatch, leaves: Tensor, with_confidence: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Right (B,) bool and, where wanted, confidence (2, B) at temperature 1 and at the calibrated one.

    Without confidence the true answer is given a character at a time, which finds the same answers right as letting
    the model speak, in one pass.
    """
    if not with_confidence:
        return read(weights.mini, batch, leaves).right.cpu().numpy(), None
    said = answer_batch(weights.mini, batch.pictures, batch.question_ids, leaves)
    return is_right(said, batch.answer_ids).cpu().numpy(), weights.confidence(said)


@dataclass
class CellAnswers:
    """Which answers were right, and how sure the model was of them, batch by batch for each cell."""

    right: dict[Cell, list[np.ndarray]] = field(default_factory=dict)
    confidence: dict[Cell, list[np.ndarray]] = field(default_factory=dict)

    def add(self, cell: Cell, right: np.ndarray, confidence: np.ndarray | None) -> None:
        self.right.setdefault(cell, []).append(right)
        if confidence is not None:
            self.confidence.setdefault(cell, []).append(confidence)

    def all_right(self) -> dict[Cell, np.ndarray]:
        """(N,) bool for each cell."""
        return {cell: np.concatenate(parts) for cell, parts in self.right.items()}

    def all_confidence(self) -> dict[Cell, np.ndarray]:
        """(2, N), before and after dividing by the temperature, for the cells that were asked aloud."""
        return {cell: np.concatenate(parts, axis=1) for cell, parts in self.confidence.items()}


# ---- from answers to a document --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcomes:
    """One family. right: (N,) bool for each cell, the same N pictures. confidence: (2, N), before and after dividing by
    the temperature, for some cells. tokens: spent in each cell, of `full`."""

    family: str
    right: Mapping[Cell, np.ndarray]
    confidence: Mapping[Cell, np.ndarray]
    tokens: Mapping[Cell, int]
    full: int


class Resampled:
    """Accuracy of every cell in every family, as measured (row 0) and in `RESAMPLES` resamples."""

    def __init__(self, outcomes: Sequence[Outcomes], seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.families = [one.family for one in outcomes]
        self._shares: dict[str, dict[Cell, np.ndarray]] = {}
        for one in outcomes:
            cells = list(one.right)
            right = np.stack([one.right[cell] for cell in cells], axis=1).astype(np.float64)
            number = len(right)
            weight = generator.multinomial(number, np.full(number, 1 / number), size=RESAMPLES)
            shares = np.concatenate([right.mean(0, keepdims=True), weight @ right / number])
            self._shares[one.family] = dict(zip(cells, shares.T, strict=True))

    def share(self, family: str, cell: Cell) -> np.ndarray:
        """(1 + RESAMPLES,) accuracy."""
        return self._shares[family][cell]

    def mean(self, cell: Cell, families: Sequence[str] | None = None) -> np.ndarray:
        """(1 + RESAMPLES,) accuracy averaged over families, all of them by default."""
        return np.mean([self.share(family, cell) for family in families or self.families], axis=0)


def share_of(values: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """values / whole; where nothing was right in full, keeping it all is keeping nothing."""
    return np.divide(values, whole, out=np.zeros_like(values), where=whole > 0)


def summarise(outcomes: Sequence[Outcomes], seed: int = 0) -> dict[str, object]:
    """Everything that the tables need, JSON-ready."""
    resampled = Resampled(outcomes, seed)
    cells = list(outcomes[0].right)
    document: dict[str, object] = {
        "cells": [cell_row(one, cell) for one in outcomes for cell in cells],
        "means": [mean_row(resampled, outcomes[0], cell) for cell in cells],
        "differences": difference_rows(resampled, cells),
        "calibration": calibration_rows(outcomes),
    }
    return {**document, "bars": bars(document, resampled.families)}


def cell_row(one: Outcomes, cell: Cell) -> dict[str, object]:
    right = one.right[cell]
    return {
        "family": one.family,
        "strategy": cell[0],
        "keep": cell[1],
        "tokens": one.tokens[cell],
        "full": one.full,
        "right": int(right.sum()),
        "n": len(right),
        **asdict(proportion(right)),
    }


def mean_row(resampled: Resampled, one: Outcomes, cell: Cell) -> dict[str, object]:
    """Accuracy averaged over families, and what part of full's it is."""
    values = resampled.mean(cell)
    row: dict[str, object] = {
        "strategy": cell[0],
        "keep": cell[1],
        "tokens": one.tokens[cell],
        **asdict(interval(values)),
    }
    if FULL in one.right:
        row["of_full"] = asdict(interval(share_of(values, resampled.mean(FULL))))
    return row


def difference_rows(resampled: Resampled, cells: Sequence[Cell]) -> list[dict[str, object]]:
    """The scorer's lead over each control at equal tokens: by family, over all, and over those with small type."""
    groups = {family: [family] for family in resampled.families} | {"all": resampled.families}
    small = [family for family in resampled.families if family in SMALL_TYPE]
    groups |= {"small type": small} if small else {}
    return [
        {
            "over": name,
            "keep": keep,
            "against": strategy,
            **asdict(interval(resampled.mean(("scorer", keep), members) - resampled.mean((strategy, keep), members))),
        }
        for name, members in groups.items()
        for strategy, keep in cells
        if strategy not in ("full", "scorer") and ("scorer", keep) in cells
    ]


def calibration_rows(outcomes: Sequence[Outcomes]) -> list[dict[str, object]]:
    """ECE of every family in the cells that were asked aloud, and of all families together."""
    rows = []
    for cell in ASKED:
        asked = [one for one in outcomes if cell in one.confidence]
        groups = [(one.family, [one]) for one in asked] + ([("all", asked)] if asked else [])
        for name, members in groups:
            before, after = np.concatenate([one.confidence[cell] for one in members], axis=1)
            right = np.concatenate([one.right[cell] for one in members])
            rows.append(
                {"family": name, "strategy": cell[0], "keep": cell[1], **calibration_row((before, after), right)}
            )
    return rows


def bars(document: JsonObject, families: Sequence[str]) -> list[dict[str, object]]:
    """What was promised, and whether the measured value keeps it."""
    promised = SUITE["bars"]
    full = {row["family"]: row for row in document["cells"] if row["strategy"] == "full"}
    rows = [
        _at_least(f"all tokens, {family}", full[family], least)
        for family, least in promised["full"].items()
        if family in full
    ]
    for row in document["means"]:
        if row["strategy"] == "full" and set(promised["full"]) <= set(families):
            rows.append(_at_least("all tokens, mean", row, promised["mean"]))
        least = promised["kept"].get(fraction(row["keep"]))
        if row["strategy"] == "scorer" and least is not None and "of_full" in row:
            rows.append(_at_least(f"of full's accuracy, scorer at {fraction(row['keep'])}", row["of_full"], least))
    for row in document["differences"]:
        if (row["keep"], row["against"], row["over"]) == (1 / 8, "uniform", "all"):
            rows.append(_at_least("scorer − uniform at 1/8, all", row, promised["eighth_ahead"], points=True))
        least = promised["ahead"].get(row["against"])
        if row["keep"] == 1 / 4 and least is not None and (row["over"] == "small type" or row["over"] in SMALL_TYPE):
            where = "small type, mean" if row["over"] == "small type" else row["over"]
            rows.append(_at_least(f"scorer − {row['against']} at 1/4, {where}", row, least, points=True))
    for row in document["calibration"]:
        if row["family"] in families:
            where = "all tokens" if row["keep"] == 1 else f"{row['strategy']} at {fraction(row['keep'])}"
            what = f"ECE, {row['family']}, {where}"
            # With few answers chance alone reaches the bar, and the verdict would be about the sample.
            most = promised["ece"]
            kept = row["ece_after"] <= most if row["ece_chance"] <= most else None
            rows.append({"what": what, "value": row["ece_after"], "bar": most, "kept": kept, "most": True})
    return rows


def _at_least(what: str, measured: JsonObject, least: float, points: bool = False) -> dict[str, object]:
    found = {name: measured[name] for name in ("value", "low", "high")}
    return {"what": what, **found, "bar": least, "kept": measured["value"] >= least, "points": points}


def read_document(path: Path) -> JsonObject:
    """A saved needle.json."""
    return read_json(path, "needle", "needle")


# ---- tables ----------------------------------------------------------------------------------------------------------


def fraction(keep: float) -> str:
    return "all" if keep == 1 else f"1/{round(1 / keep)}"


def percent(row: JsonObject, exact: bool) -> str:
    """A share with its interval: written out for a page, as ± half of it for a terminal."""
    value, low, high = (100 * row[name] for name in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]" if exact else f"{value:.1f}±{(high - low) / 2:.1f}"


def tables(document: JsonObject) -> list[Table]:
    """What a terminal shows: exact match for each budget, means, the scorer's lead, calibration, bars."""
    keeps = budgets(document)
    return [
        *(match_table(document, keep) for keep in keeps),
        mean_table(document),
        *(lead_table(document, keep) for keep in keeps[:1]),
        calibration_table(document),
        bar_table(document),
    ]


def budgets(document: JsonObject) -> list[float]:
    """The shares below everything, largest first."""
    return sorted({row["keep"] for row in document["cells"] if row["keep"] < 1}, reverse=True)


def match_table(document: JsonObject, keep: float, exact: bool = False) -> Table:
    """Families down, ways to allocate across."""
    shown = [row for row in document["cells"] if row["keep"] in (1, keep)]
    means = [row for row in document["means"] if row["keep"] in (1, keep)]
    strategies = list(dict.fromkeys(row["strategy"] for row in shown))
    tokens = {row["strategy"]: row["tokens"] for row in shown}
    rows: dict[str, dict[str, TableCell]] = {}
    for row in shown:
        rows.setdefault(row["family"], {"family": row["family"]})[row["strategy"]] = percent(row, exact)
    rows["mean"] = {"family": "mean", **{row["strategy"]: percent(row, exact) for row in means}}
    columns = {"family": "exact match, %", **{name: f"{name} ({tokens[name]})" for name in strategies}}
    return Table(f"{fraction(keep)} of the tokens (tokens in brackets)", columns, tuple(rows.values()))


def mean_table(document: JsonObject, exact: bool = False) -> Table:
    rows = tuple(
        {
            "strategy": row["strategy"],
            "keep": fraction(row["keep"]),
            "tokens": row["tokens"],
            "mean": percent(row, exact),
            "of_full": percent(row["of_full"], exact) if "of_full" in row else None,
        }
        for row in document["means"]
    )
    return Table("Mean over families, and what it keeps of full", SUITE["columns"]["mean"], rows)


def lead_table(document: JsonObject, keep: float, exact: bool = False) -> Table:
    rows: dict[str, dict[str, TableCell]] = {}
    against = []
    for row in document["differences"]:
        if row["keep"] == keep:
            against.append(row["against"])
            rows.setdefault(row["over"], {"over": row["over"]})[row["against"]] = percent(row, exact)
    columns = {"over": "points", **{name: f"− {name}" for name in dict.fromkeys(against)}}
    return Table(f"The scorer's lead at {fraction(keep)} of the tokens", columns, tuple(rows.values()))


def calibration_table(document: JsonObject) -> Table:
    percents = {"accuracy": "accuracy", "before": "ece_before", "after": "ece_after", "chance": "ece_chance"}
    rows = tuple(
        {
            "family": row["family"],
            "cell": f"{row['strategy']} {fraction(row['keep'])}",
            "n": row["n"],
            "sure": f"{100 * row['confidence_before']:.1f} → {100 * row['confidence_after']:.1f}",
            **{column: f"{100 * row[name]:.1f}" for column, name in percents.items()},
        }
        for row in document["calibration"]
    )
    return Table("Calibration by one temperature (15 bins of equal mass)", SUITE["columns"]["calibration"], rows)


def bar_table(document: JsonObject, exact: bool = False) -> Table:
    rows = tuple(
        {
            "what": row["what"],
            "measured": percent(row, exact) if "low" in row else f"{100 * row['value']:.1f}",
            "bar": f"{'≤' if row.get('most') else '≥'} {100 * row['bar']:g} {'points' if row.get('points') else '%'}",
            "kept": row["kept"],
        }
        for row in document["bars"]
    )
    return Table("Bars", SUITE["columns"]["bars"], rows)


# ---- docs/results.md -------------------------------------------------------------------------------------------------


def markdown(document: JsonObject, by_hand: str = "") -> str:
    """The whole page; by_hand: what stands below the line in the page that it replaces."""
    keeps = budgets(document)

    def titled(made: Sequence[Table]) -> str:
        return "\n\n".join(f"{table.title}:\n\n{table.to_markdown()}" for table in made)

    kept = [row["kept"] for row in document["bars"] if row["kept"] is not None]
    promised = (
        f"{sum(kept)} of {len(kept)} bars are kept. The measured value decides. Brackets are 95 % intervals. Where "
        "an interval reaches across its bar, the verdict is open."
    )
    text = PAGE.format(
        facts="\n".join(f"- {name}: {value}" for name, value in document["facts"].items()),
        promised=textwrap.fill(promised, 120),
        bars=bar_table(document, exact=True).to_markdown(),
        matches=titled([match_table(document, keep, exact=True) for keep in keeps]),
        oracle=textwrap.fill(oracle_words(document), 120),
        means=mean_table(document, exact=True).to_markdown(),
        leads=titled([lead_table(document, keep, exact=True) for keep in keeps]),
        calibration=calibration_table(document).to_markdown(),
    )
    return text + (f"\n{by_hand.strip()}\n" if by_hand.strip() else "")


def oracle_words(document: JsonObject) -> str:
    """Whether a well-placed part reads better than the whole, in words."""
    found = [
        f"the {row['strategy']} at {fraction(row['keep'])}"
        for row in document["means"]
        if row["strategy"] in ("oracle", "scorer") and row.get("of_full", {}).get("low", 0) > 1
    ]
    if not found:
        return "No part of the tokens, however placed, reads surely better than all of them."
    return f"Fewer tokens can read better than all of them. Here these surely do: {', '.join(found)}."


def hand_written(path: Path) -> str:
    """What stands below the line in an earlier page."""
    if not path.is_file():
        return ""
    _, line, rest = path.read_text(encoding="utf-8").partition(BY_HAND)
    return rest if line else ""
