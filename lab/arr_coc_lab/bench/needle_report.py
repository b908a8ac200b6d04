"""From which answers were right to a document of cells, means, differences, calibration and bars, with 95 % intervals.

A cell has Wilson's interval. What joins cells (means over families, shares of full, differences) is resampled: pictures
are drawn with replacement inside each family, the same ones for every way to allocate, because all ways saw the same.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arr_coc.core.errors import InputError

from ..statistics import RESAMPLES, interval, wilson
from ..train.calibration import ASKED, calibration_row
from .table import Cell as TableCell
from .table import Table

Cell = tuple[str, float]
FULL: Cell = ("full", 1.0)
# Families in which more than half of the answers are set in type of at most 14 pixels (57, 79, 77 and 52 % of 400
# validation pictures each; signs 43, zoo 45, scenes 0): readable at level 0 only.
SMALL_TYPE = ("cards", "forms", "receipts", "charts")
FULL_BARS = {"cards": 0.97, "forms": 0.90, "receipts": 0.80, "charts": 0.92, "signs": 0.95, "scenes": 0.94, "zoo": 0.96}
MEAN_BAR = 0.92
KEPT_BARS = {1 / 4: 0.99, 1 / 8: 0.97, 1 / 16: 0.92, 1 / 32: 0.80}
EIGHTH_AHEAD_BAR = 0.45
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
    row: dict[str, Any] = {"strategy": cell[0], "keep": cell[1], "tokens": one.tokens[cell], **asdict(interval(values))}
    if FULL in one.right:
        row["of_full"] = asdict(interval(share_of(values, resampled.mean(FULL))))
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
            **asdict(interval(resampled.mean(("scorer", keep), members) - resampled.mean((strategy, keep), members))),
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
        if row["strategy"] == "full" and set(FULL_BARS) <= set(families):
            rows.append(_at_least("all tokens, mean", row, MEAN_BAR))
        if row["strategy"] == "scorer" and row["keep"] in KEPT_BARS and "of_full" in row:
            what = f"of full's accuracy, scorer at 1/{round(1 / row['keep'])}"
            rows.append(_at_least(what, row["of_full"], KEPT_BARS[row["keep"]]))
    for row in document["differences"]:
        if (row["keep"], row["against"], row["over"]) == (1 / 8, "uniform", "all"):
            rows.append(_at_least("scorer − uniform at 1/8, all", row, EIGHTH_AHEAD_BAR, points=True))
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


# ----------------------------------------------------------------------------------------------------------------------
# The tables of a needle document, for a terminal and for docs/results.md. Nothing is measured or typed in here.

BY_HAND = "<!-- Below this line: written by hand, kept when the file is made again. -->"


def read_document(path: Path) -> dict[str, Any]:
    """A saved needle.json."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror or error}); give the needle.json of --out") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); give the needle.json of --out") from error
    if not isinstance(document, dict) or document.get("kind") != "needle" or document.get("schema") != 1:
        raise InputError(f"{path} was not written by arr-coc bench needle; give the needle.json of --out")
    return document


def fraction(keep: float) -> str:
    return "all" if keep == 1 else f"1/{round(1 / keep)}"


def percent(row: Mapping[str, Any], exact: bool) -> str:
    """A share with its interval: written out for a page, as ± half of it for a terminal."""
    value, low, high = (100 * row[name] for name in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]" if exact else f"{value:.1f}±{(high - low) / 2:.1f}"


def tables(document: Mapping[str, Any]) -> list[Table]:
    """What a terminal shows: exact match for each budget, means, the scorer's lead, calibration, bars."""
    keeps = budgets(document)
    return [
        *(match_table(document, keep) for keep in keeps),
        mean_table(document),
        *(lead_table(document, keep) for keep in keeps[:1]),
        calibration_table(document),
        bar_table(document),
    ]


def budgets(document: Mapping[str, Any]) -> list[float]:
    """The shares below everything, largest first."""
    return sorted({row["keep"] for row in document["cells"] if row["keep"] < 1}, reverse=True)


def match_table(document: Mapping[str, Any], keep: float, exact: bool = False) -> Table:
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


def mean_table(document: Mapping[str, Any], exact: bool = False) -> Table:
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
    columns = {"strategy": "allocation", "keep": "share", "tokens": "tokens", "mean": "exact match, %"}
    return Table("Mean over families, and what it keeps of full", {**columns, "of_full": "of full, %"}, rows)


def lead_table(document: Mapping[str, Any], keep: float, exact: bool = False) -> Table:
    rows: dict[str, dict[str, TableCell]] = {}
    against = []
    for row in document["differences"]:
        if row["keep"] == keep:
            against.append(row["against"])
            rows.setdefault(row["over"], {"over": row["over"]})[row["against"]] = percent(row, exact)
    columns = {"over": "points", **{name: f"− {name}" for name in dict.fromkeys(against)}}
    return Table(f"The scorer's lead at {fraction(keep)} of the tokens", columns, tuple(rows.values()))


def calibration_table(document: Mapping[str, Any]) -> Table:
    columns = {
        "family": "ECE, %",
        "cell": "allocation",
        "n": "n",
        "accuracy": "right",
        "sure": "sure, before → after",
        "before": "before",
        "after": "after",
        "chance": "by chance",
    }
    rows = tuple(
        {
            "family": row["family"],
            "cell": f"{row['strategy']} {fraction(row['keep'])}",
            "n": row["n"],
            "accuracy": f"{100 * row['accuracy']:.1f}",
            "sure": f"{100 * row['confidence_before']:.1f} → {100 * row['confidence_after']:.1f}",
            "before": f"{100 * row['ece_before']:.1f}",
            "after": f"{100 * row['ece_after']:.1f}",
            "chance": f"{100 * row['ece_chance']:.1f}",
        }
        for row in document["calibration"]
    )
    return Table("Calibration by one temperature (15 bins of equal mass)", columns, rows)


def bar_table(document: Mapping[str, Any], exact: bool = False) -> Table:
    rows: list[dict[str, TableCell]] = []
    for row in document["bars"]:
        unit = "points" if row.get("points") else "%"
        sign = "≤" if row.get("most") else "≥"
        measured = percent(row, exact) if "low" in row else f"{100 * row['value']:.1f}"
        rows.append(
            {
                "what": row["what"],
                "measured": measured,
                "bar": f"{sign} {100 * row['bar']:g} {unit}",
                "kept": row["kept"],
            }
        )
    return Table("Bars", {"what": "what", "measured": "measured", "bar": "bar", "kept": "verdict"}, tuple(rows))


# ---- docs/results.md ------------------------------------------------------------------------------------------------


def markdown(document: Mapping[str, Any], by_hand: str = "") -> str:
    """The whole page; by_hand: what stands below the line in the page that it replaces."""
    facts, keeps = document["facts"], budgets(document)

    def titled(table: Table) -> str:
        return f"{table.title}:\n\n{table.to_markdown()}"

    kept = [row["kept"] for row in document["bars"] if row["kept"] is not None]
    parts = [
        "# Results on Needle World",
        "The bundled `mini` reads, the bundled scorer says where to look, the overlay spends the budget. Every number "
        "here comes from one run, saved as JSON, and this page is made from that file:",
        "```sh\narr-coc bench needle --out DIR        # measure: hours on two cores, minutes on a GPU\n"
        "arr-coc bench needle --quick          # a small sample of it, on two cores\n"
        "arr-coc bench needle --from DIR/needle.json --markdown docs/results.md\n```",
        "\n".join(f"- {name}: {value}" for name, value in facts.items()),
        f"## What was promised\n\n{sum(kept)} of {len(kept)} bars are kept. A verdict goes by the measured value; the "
        "brackets hold 95 % intervals, and one that reaches across a bar leaves the verdict open.",
        bar_table(document, exact=True).to_markdown(),
        "## Exact match\n\nAn answer counts when every character is right. `full` is the untouched picture, `uniform` "
        "the same number of tokens spread evenly (that is down-sampling), `random` leaves at random, "
        "`shuffled` the scorer's map with its places permuted, `oracle` leaves around the true boxes. `mini` was "
        "trained with all of them. Wilson's intervals; the mean's is resampled, picture "
        "by picture.",
        *(titled(match_table(document, keep, exact=True)) for keep in keeps),
        f"## What is kept of full\n\n{oracle_words(document)}",
        mean_table(document, exact=True).to_markdown(),
        "## The scorer against the controls, at equal tokens\n\nIn points, paired: every way saw the same pictures. "
        f"Small type is the mean of {', '.join(SMALL_TYPE)}: families in which more than half of the answers are set "
        "in type of at most 14 pixels.",
        *(titled(lead_table(document, keep, exact=True)) for keep in keeps),
        "## Calibration\n\nConfidence is the probability of the very text that was said; one temperature, fitted on "
        "validation seeds by log loss, divides all logits. ECE over 15 bins of equal mass, test split; `by chance` is "
        "what as many answers would show if every confidence were exactly true.",
        calibration_table(document).to_markdown(),
        BY_HAND,
    ]
    return "\n\n".join(map(filled, parts)) + "\n" + (f"\n{by_hand.strip()}\n" if by_hand.strip() else "")


def filled(text: str, width: int = 120) -> str:
    """Prose in lines of a readable length; tables, code, lists, headings and comments as they are."""
    marks = ("|", "```", "- ", "#", "<!--")
    return "\n\n".join(part if part.startswith(marks) else textwrap.fill(part, width) for part in text.split("\n\n"))


def oracle_words(document: Mapping[str, Any]) -> str:
    """Whether a well-placed part reads better than the whole, in words."""
    found = []
    for row in document["means"]:
        if row["strategy"] in ("oracle", "scorer") and row.get("of_full", {}).get("low", 0) > 1:
            share = row["of_full"]
            found.append(
                f"the {row['strategy']} at {fraction(row['keep'])} keeps {100 * share['value']:.1f} % "
                f"[{100 * share['low']:.1f}, {100 * share['high']:.1f}]"
            )
    if not found:
        return "No part of the tokens, however placed, reads surely better than all of them."
    return f"Fewer tokens can read better than all of them, surely so here: {'; '.join(found)}."


def hand_written(path: Path) -> str:
    """What stands below the line in an earlier page."""
    if not path.is_file():
        return ""
    _, line, rest = path.read_text(encoding="utf-8").partition(BY_HAND)
    return rest if line else ""
