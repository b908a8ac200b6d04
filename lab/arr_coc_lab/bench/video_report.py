"""`arr-coc bench video`: one document of everything that is measured on clips, and its tables.

Needle clips are read by `mini`; all systems see the same clips, so differences are taken clip by clip. The bars are
those of the specification; where one is missed, the table says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..statistics import wilson
from .machine import machine_facts
from .table import Cell, Quantity, Table
from .video_streams import SYSTEMS, clip_coverage

SCHEMA = 2
PARTS = ("clips", "real", "speed")
AHEAD_BAR, EQUAL_BAR = 0.05, -0.01
# Temporal allocation is also given this share of the others' tokens: the accuracy should be the same.
FEWER = 0.4
# The budget at which they are asked.
BARRED = 1 / 16
INSIDE_BAR, APART, FOUND_BAR, FALSE_BAR = 0.8, 0.5, 0.95, 0.02
EXPECTED = {"decay": (0.7, 0.9), "boost": (1.2, 1.8)}


def document(
    clips: dict[str, Any] | None = None, real: dict[str, Any] | None = None, speed: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Every part that was measured says on what machine: they need not be measured together."""
    packages = ("torch", "transformers", "opencv-contrib-python-headless", "av")
    facts = machine_facts(packages)
    parts = {"clips": clips, "real": real, "speed": speed}
    return {"schema": SCHEMA, **{name: part and {**part, "machine": facts} for name, part in parts.items()}}


def with_the_rest(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """The document with the parts that were not measured this time as they are in the file, where there is one."""
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return found
    if saved.get("schema") != SCHEMA:
        return found
    return {name: part if part is not None else saved.get(name) for name, part in found.items()}


# ---- tables ----------------------------------------------------------------------------------------------------------


def tables(found: dict[str, Any]) -> list[Table]:
    """Every table that the document can fill."""
    return [table for name in PARTS if found.get(name) for table in part_tables(name, found[name])]


def part_tables(name: str, part: dict[str, Any]) -> list[Table]:
    if name == "clips":
        return [accuracy_table(part), ahead_table(part), coherence_table(part), settings_table(part["settings"])]
    return [real_table(part) if name == "real" else speed_table(part)]


def page_part(found: dict[str, Any]) -> str:
    """The tables, and on what each part was measured, as a page of the docs has them."""
    sections = []
    for name in PARTS:
        if not found.get(name):
            continue
        sections += [f"### {table.title}\n\n{table.to_markdown()}" for table in part_tables(name, found[name])]
        facts = {**measured_how(name, found[name]), **found[name]["machine"]}
        sections.append("Measured with " + "; ".join(f"{key}: {value}" for key, value in facts.items()) + ".")
    return "\n\n".join(sections)


def measured_how(name: str, part: dict[str, Any]) -> dict[str, str]:
    """What one must know to repeat a part, in words."""
    if name == "speed":
        return part["facts"]
    if name == "real":
        frames = "all frames" if part["every"] == 1 else f"one frame in {part['every']}"
        return {"clips": f"{len(part['clips'])} of DAVIS, {frames}"}
    plan = part["plan"]
    return {
        "clips": f"{', '.join(plan['families'])}, {plan['split']} split, seed {plan['seed']}",
        "frames": f"{plan['frames']} of {plan['size'][1]}×{plan['size'][0]}, {plan['cuts']} cut in every second batch",
        "device": part["device"],
        "weights": part["weights"],
    }


def accuracy_table(clips: dict[str, Any]) -> Table:
    rows: list[dict[str, Cell]] = [
        {
            "system": row["system"],
            "reading": row["reading"],
            "keep": f"{row['keep']:.4g}",
            "tokens": row["tokens"],
            "accuracy": Quantity(100 * row["accuracy"], "%", 100 * row["low"], 100 * row["high"]),
            "n": row["n"],
        }
        for row in sorted(clips["rows"], key=lambda row: (row["reading"], row["keep"], row["system"]))
    ]
    columns = {
        "system": "system",
        "reading": "read from",
        "keep": "share",
        "tokens": "tokens a clip",
        "accuracy": "exact match",
        "n": "clips",
    }
    return Table("Needle clips", columns, tuple(rows), {"weights": clips["weights"], "plan": str(clips["plan"])})


def ahead_table(clips: dict[str, Any]) -> Table:
    """Differences, and the two bars: ahead at equal tokens, equal at fewer."""
    rows: list[dict[str, Cell]] = []
    for row in clips["ahead"]:
        fewer = row["share"] < 1
        # At larger budgets every system reads nearly everything, at smaller ones frame by frame reads nothing.
        barred = row["keep"] == BARRED and row["against"] in ("frame by frame", "uniform")
        bar = EQUAL_BAR if fewer else AHEAD_BAR
        rows.append(
            {
                "against": f"{row['against']}, {FEWER:.0%} of its tokens" if fewer else row["against"],
                "reading": row["reading"],
                "keep": f"1/{round(1 / row['keep'])}",
                "difference": Quantity(100 * row["difference"], "points", 100 * row["low"], 100 * row["high"]),
                "n": row["n"],
                "bar": f"≥ {100 * bar:g} points" if barred else None,
                "kept": row["difference"] >= bar if barred else None,
            }
        )
    columns = {
        "against": "temporal against",
        "reading": "read from",
        "keep": "budget",
        "difference": "ahead by",
        "n": "clips",
        "bar": "bar",
        "kept": "kept",
    }
    return Table("Temporal allocation against the others, clip by clip", columns, tuple(rows))


def coherence_table(clips: dict[str, Any]) -> Table:
    found = clips["coherence"]
    rows: list[dict[str, Cell]] = []

    def share(name: str, hits: int, number: int, bar: float, above: bool = True, barred: bool = True) -> None:
        low, high = wilson(hits, number)
        value = hits / number if number else 0.0
        kept = value >= bar if above else value <= bar
        rows.append(
            {
                "what": name,
                "value": Quantity(100 * value, "%", 100 * low, 100 * high),
                "n": number,
                "bar": f"{'≥' if above else '≤'} {100 * bar:g} %" if barred else None,
                "kept": kept if barred and number else None,
            }
        )

    inside = found["inside"]
    if inside:
        rows.append(
            {"what": "similarity inside scenes", "value": Quantity(inside["ground"]), "n": found["inside_n"],
             "bar": f"≥ {INSIDE_BAR}", "kept": inside["ground"] >= INSIDE_BAR}
        )  # fmt: skip
        for name, key in (("the same, by place alone", "place"), ("the same, each frame alone", "alone")):
            rows.append({"what": name, "value": Quantity(inside[key]), "n": found["inside_n"]})
    detector, rule, apart = found["detector"], found["rule"], found["apart_at_cuts"]
    share(f"cuts with similarity below {APART}", apart.get("ground", 0), found["cuts_n"], FOUND_BAR)
    share("the same, by place alone", apart.get("place", 0), found["cuts_n"], FOUND_BAR, barred=False)
    share("cuts found", detector["found"], detector["true"], FOUND_BAR)
    share("false cuts", detector["false"], detector["frames"], FALSE_BAR, above=False)
    share("cuts found by the rule of thumb", rule["found"], rule["true"], FOUND_BAR, barred=False)
    share("its false cuts", rule["false"], rule["frames"], FALSE_BAR, above=False, barred=False)
    columns = {"what": "what", "value": "measured", "n": "n", "bar": "bar", "kept": "kept"}
    return Table("Coherence and cuts", columns, tuple(rows))


def settings_table(settings: dict[str, Any]) -> Table:
    """Where the learned numbers landed, beside what was expected."""
    rows: list[dict[str, Cell]] = []
    for name, value in settings.items():
        expected = EXPECTED.get(name)
        shown = ", ".join(f"{one:.3g}" for one in value) if isinstance(value, list | tuple) else f"{value:.3g}"
        rows.append({"what": name, "value": shown, "expected": f"{expected[0]}–{expected[1]}" if expected else None})
    return Table("Temporal settings", {"what": "setting", "value": "in use", "expected": "expected"}, tuple(rows))


def real_table(real: dict[str, Any]) -> Table:
    clips = real["clips"]
    rows: list[dict[str, Cell]] = []
    for name, one in clips.items():
        means = {system: 100 * float(np.mean(values)) for system, values in one["coverage"].items()}
        rows.append(
            {"clip": name, "frames": one["frames"], **means, "similarity": one["similarity"],
             "false_cuts": one["false_cuts"]}
        )  # fmt: skip
    means = {}
    for system in SYSTEMS:
        mean = clip_coverage(clips, system)
        means[system] = Quantity(100 * mean.value, "%", 100 * mean.low, 100 * mean.high)
    rows.append({"clip": "all", "frames": sum(one["frames"] for one in clips.values()), **means})
    columns = {"clip": "clip", "frames": "frames", **{system: system for system in SYSTEMS}}
    columns |= {"similarity": "similarity inside", "false_cuts": "false cuts"}
    return Table(
        "Real clips: share of the object's box seen at level 0, at 1/8 of the tokens (%)", columns, tuple(rows)
    )


def speed_table(speed: dict[str, Any]) -> Table:
    rows: Sequence[dict[str, Cell]] = [
        {key: Quantity(**cell) if isinstance(cell, dict) else cell for key, cell in row.items()}
        for row in speed["rows"]
    ]
    columns = {
        "what": "what",
        "value": "measured",
        "against": "naive form",
        "naive": "measured ",
        "bar": "bar",
        "kept": "kept",
    }
    return Table("Cost of a frame", columns, tuple(rows), speed["facts"])


def verdicts(found: dict[str, Any]) -> list[bool]:
    """Kept or missed, for every bar of every table."""
    return [bool(row["kept"]) for table in tables(found) for row in table.rows if isinstance(row.get("kept"), bool)]
