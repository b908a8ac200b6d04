"""What the rows of a comparison say: intervals, differences, the table at equal tokens, the one at equal compute, the
plot, and the part of the page. Nothing is measured or typed in here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing

from ...statistics import wilson
from .. import table as tables_of
from ..needle_report import percent
from ..table import Cell, Table, written

# Whose accuracy stands beside every other way's.
OURS = "scorer + overlay"
GROUPS = {"ours": "Ours", "peer": "Peers", "control": "Controls", "oracle": "Oracles"}
Rows = Sequence[Mapping[str, Any]]
Bits = Mapping[str, Mapping[str, np.ndarray]]


def share(right: int, number: int) -> dict[str, Any]:
    low, high = wilson(right, number)
    return {"n": number, "value": right / max(1, number), "low": low, "high": high}


def difference(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Picture by picture, over what both have read: mean over families, and its 95 % interval."""
    gaps = []
    for family in ours:
        both = min(len(ours[family]), len(theirs.get(family, ())))
        if both:
            gaps.append(ours[family][:both].astype(float) - theirs[family][:both])
    mean = float(np.mean([gap.mean() for gap in gaps]))
    spread = 1.96 * float(np.sqrt(sum(gap.var() / len(gap) for gap in gaps))) / len(gaps)
    return {"value": mean, "low": mean - spread, "high": mean + spread}


def summarise(rows: list[dict[str, Any]], bits: Bits) -> dict[str, Any]:
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


def read_document(path: Path) -> dict[str, Any]:
    """A saved peers.json."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror or error}); give the peers.json of --out") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); give the peers.json of --out") from error
    if not isinstance(document, dict) or document.get("kind") != "peers":
        raise InputError(f"{path} was not written by arr-coc bench peers; give the peers.json of --out")
    return document


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


def cost_of(row: Mapping[str, Any]) -> str:
    return f"{row['GFLOP']['total']:.1f}"


def token_table(document: Mapping[str, Any], exact: bool = False) -> Table:
    """Equal tokens: ways down, shares of the tokens across; GFLOP beside them, and of these the chooser's."""
    rows = document["rows"]
    found = {(row["way"], row["keep"]): row for row in rows}
    most = next((row for row in rows if row["way"] == "full"), None)
    keeps = shares_of(rows)
    columns = {"way": "exact match, %", "where": "where", **{fraction(keep): fraction(keep) for keep in keeps}}
    columns |= {"cost": "GFLOP", "chooser": "of it choosing"}
    lines: list[dict[str, Cell]] = []
    if most:
        lines.append(
            {"way": f"full ({most['tokens']} tokens)", "where": None, fraction(keeps[0]): percent(most, exact)}
        )
        lines[0]["cost"] = cost_of(most)
    for group, way in sorted_ways(rows):
        cells = [found[way, keep] for keep in keeps if (way, keep) in found]
        line: dict[str, Cell] = {"way": f"**{way}**" if exact and group == "ours" else way}
        line |= {fraction(row["keep"]): percent(row, exact) for row in cells}
        line["where"] = cells[0]["where"] if cells else None
        line["cost"] = " / ".join(map(cost_of, cells))
        line["chooser"] = " / ".join(f"{row['GFLOP']['chooser']:.2f}" for row in cells)
        lines.append(line)
    return Table("Equal tokens", columns, tuple(lines))


def compute_table(document: Mapping[str, Any], exact: bool = False) -> Table:
    """Equal compute: each way at each share, and ours at the largest budget that costs no more."""
    found = {row["cell"]: row for row in document["rows"]}
    place = {way: number for number, (_, way) in enumerate(sorted_ways(document["rows"]))}
    lines: list[dict[str, Cell]] = []
    pairs = [(found[one["cell"]], one) for one in document["equal compute"]]
    pairs = [pair for pair in pairs if pair[0]["group"] in ("peer", "control")]
    for row, one in sorted(pairs, key=lambda pair: (place.get(pair[0]["way"], -1), -pair[0]["keep"])):
        mine = found.get(one["ours"])
        line: dict[str, Cell] = {"way": row["way"], "keep": fraction(row["keep"]), "cost": cost_of(row)}
        line |= {"theirs": percent(row, False), "ours": None, "tokens": None, "our_cost": None, "gap": None}
        if mine:
            line |= {"tokens": mine["tokens"], "our_cost": cost_of(mine), "ours": percent(mine, False)}
            line["gap"] = percent(one["ours minus this"], exact)
        lines.append(line)
    columns = {"way": "way", "keep": "share", "cost": "GFLOP", "theirs": "exact match, %"}
    columns |= {"tokens": "our tokens", "our_cost": "our GFLOP", "ours": "ours, %", "gap": "ours − theirs, points"}
    return Table(f"Equal compute: {OURS} at the largest budget that costs no more", columns, tuple(lines))


def family_table(document: Mapping[str, Any], keep: float = 1 / 8) -> Table:
    """Where a peer wins: families across, at one share."""
    rows = [row for row in document["rows"] if row["keep"] in (1.0, keep)]
    families = list(dict.fromkeys(name for row in rows for name in row["families"]))
    order = {way: number for number, (_, way) in enumerate(sorted_ways(rows))}
    lines: list[dict[str, Cell]] = [
        {"way": row["way"], **{name: f"{100 * one['value']:.1f}" for name, one in row["families"].items()}}
        for row in sorted(rows, key=lambda row: order.get(row["way"], -1))
    ]
    columns = {"way": "exact match, %", **{name: name for name in families}}
    return Table(f"By family, {fraction(keep)} of the tokens", columns, tuple(lines))


def wins(document: Mapping[str, Any]) -> list[str]:
    """Where ours are beaten beyond chance: at equal tokens, at equal compute, and in a family at equal tokens."""
    found = {row["cell"]: row for row in document["rows"]}
    rows = [row for row in document["rows"] if row["group"] in ("peer", "control") and row["way"] != "full"]
    ours = {row["keep"]: row for row in document["rows"] if row["way"] == OURS}
    lines = []

    def told(row: Mapping[str, Any], gap: Mapping[str, Any], how: str) -> None:
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


def tables(document: Mapping[str, Any], exact: bool = False) -> list[Table]:
    shares = shares_of(document["rows"])
    by_family = [family_table(document, 1 / 8 if 1 / 8 in shares else shares[0])] if shares else []
    return [token_table(document, exact), compute_table(document, exact), *by_family]


def plain(table: Table) -> str:
    """A table for a terminal without rich."""
    lines = [list(table.columns.values()), *([written(row.get(key)) for key in table.columns] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([table.title, *text])


def fill_page(path: Path, document: Mapping[str, Any]) -> None:
    """The part `peers` of a page, made anew."""
    facts = "\n".join(f"- {name}: {value}" for name, value in document["facts"].items())
    numbers = sorted({row["n"] for row in document["rows"]})
    counted = " to ".join(str(one) for one in dict.fromkeys((numbers[0], numbers[-1])))
    facts += f"\n- questions for each cell: {counted}, all families together"
    parts = [f"### {table.title}\n\n{table.to_markdown()}" for table in tables(document, exact=True)]
    beaten = "### Where ours are beaten\n\n" + "\n".join(f"- {line}" for line in wins(document))
    tables_of.fill_page(path, "peers", facts, *parts, beaten)


def plot(document: Mapping[str, Any], path: Path) -> None:
    """Accuracy over GFLOP, one line for each way."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("the plot needs matplotlib; install it, or leave --plot out") from error
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
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
