"""From which answers were right to a document of cells, means, differences, calibration and bars, with 95 % intervals.

A cell has Wilson's interval. What joins cells (means over families, shares of full, differences) is resampled: pictures
are drawn with replacement inside each family, the same ones for every way to allocate, because all ways saw the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..train.calibration import ASKED, calibration_row
from ..train.evaluate import wilson

Cell = tuple[str, float]
FULL: Cell = ("full", 1.0)
RESAMPLES = 2000
# Families in which more than half of the answers are set in type of at most 14 pixels (57, 79, 77 and 52 % of 400
# validation pictures each; signs 43, zoo 45, scenes 0): readable at level 0 only.
SMALL_TYPE = ("cards", "forms", "receipts", "charts")
FULL_BARS = {"cards": 0.97, "forms": 0.92, "scenes": 0.90, "charts": 0.90, "signs": 0.90, "zoo": 0.85}
KEPT_BARS = {1 / 4: 0.98, 1 / 8: 0.90, 1 / 16: 0.60}
AHEAD_BARS = {"uniform": 0.15, "shuffled": 0.20, "random": 0.20}
ECE_BAR = 0.05


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


def interval(values: np.ndarray) -> dict[str, float]:
    """value as measured, low and high: the middle 95 % of the resamples. values: (1 + RESAMPLES,)."""
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return {"value": float(values[0]), "low": float(low), "high": float(high)}


def share_of(values: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """values / whole; where nothing was right in full, keeping it all is keeping nothing."""
    return np.divide(values, whole, out=np.zeros_like(values), where=whole > 0)


def summarise(outcomes: Sequence[Outcomes], seed: int = 0) -> dict[str, Any]:
    """Everything that the tables need, JSON-ready."""
    resampled = Resampled(outcomes, seed)
    cells = list(outcomes[0].right)
    document: dict[str, Any] = {
        "cells": [cell_row(one, cell) for one in outcomes for cell in cells],
        "means": [mean_row(resampled, outcomes[0], cell) for cell in cells],
        "differences": difference_rows(resampled, cells),
        "calibration": calibration_rows(outcomes),
    }
    return {**document, "bars": bars(document, resampled.families)}


def cell_row(one: Outcomes, cell: Cell) -> dict[str, Any]:
    right = one.right[cell]
    low, high = wilson(int(right.sum()), len(right))
    return {
        "family": one.family,
        "strategy": cell[0],
        "keep": cell[1],
        "tokens": one.tokens[cell],
        "full": one.full,
        "right": int(right.sum()),
        "n": len(right),
        "value": float(right.mean()),
        "low": low,
        "high": high,
    }


def mean_row(resampled: Resampled, one: Outcomes, cell: Cell) -> dict[str, Any]:
    """Accuracy averaged over families, and what part of full's it is."""
    values = resampled.mean(cell)
    row: dict[str, Any] = {"strategy": cell[0], "keep": cell[1], "tokens": one.tokens[cell], **interval(values)}
    if FULL in one.right:
        row["of_full"] = interval(share_of(values, resampled.mean(FULL)))
    return row


def difference_rows(resampled: Resampled, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """The scorer's lead over each control at equal tokens: by family, over all, and over those with small type."""
    groups = {family: [family] for family in resampled.families} | {"all": resampled.families}
    small = [family for family in resampled.families if family in SMALL_TYPE]
    groups |= {"small type": small} if small else {}
    return [
        {
            "over": name,
            "keep": keep,
            "against": strategy,
            **interval(resampled.mean(("scorer", keep), members) - resampled.mean((strategy, keep), members)),
        }
        for name, members in groups.items()
        for strategy, keep in cells
        if strategy not in ("full", "scorer") and ("scorer", keep) in cells
    ]


def calibration_rows(outcomes: Sequence[Outcomes]) -> list[dict[str, Any]]:
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


def bars(document: Mapping[str, Any], families: Sequence[str]) -> list[dict[str, Any]]:
    """What was promised, and whether the measured value keeps it."""
    full = {row["family"]: row for row in document["cells"] if row["strategy"] == "full"}
    rows = [
        _at_least(f"all tokens, {family}", full[family], least) for family, least in FULL_BARS.items() if family in full
    ]
    for row in document["means"]:
        if row["strategy"] == "scorer" and row["keep"] in KEPT_BARS and "of_full" in row:
            what = f"of full's accuracy, scorer at 1/{round(1 / row['keep'])}"
            rows.append(_at_least(what, row["of_full"], KEPT_BARS[row["keep"]]))
    for row in document["differences"]:
        least = AHEAD_BARS.get(row["against"])
        if row["keep"] == 1 / 4 and least is not None and (row["over"] == "small type" or row["over"] in SMALL_TYPE):
            where = "small type, mean" if row["over"] == "small type" else row["over"]
            rows.append(_at_least(f"scorer − {row['against']} at 1/4, {where}", row, least, points=True))
    for row in document["calibration"]:
        if row["family"] in families:
            where = "all tokens" if row["keep"] == 1 else f"{row['strategy']} at 1/{round(1 / row['keep'])}"
            what = f"ECE, {row['family']}, {where}"
            # With few answers chance alone reaches the bar, and the verdict would be about the sample.
            kept = row["ece_after"] <= ECE_BAR if row["ece_chance"] <= ECE_BAR else None
            rows.append({"what": what, "value": row["ece_after"], "bar": ECE_BAR, "kept": kept, "most": True})
    return rows


def _at_least(what: str, measured: Mapping[str, Any], least: float, points: bool = False) -> dict[str, Any]:
    found = {name: measured[name] for name in ("value", "low", "high")}
    return {"what": what, **found, "bar": least, "kept": measured["value"] >= least, "points": points}
