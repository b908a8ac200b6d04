"""The tables of `bench classic`, from what was read picture by picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...statistics import paired, proportion
from ..hypotheses import percent
from ..table import Cell, Table
from .maps import CONTROLS, OURS, PHASES, TRAINED
from .plan import SCALES, Record

COLUMNS = {
    "row": "relevance",
    "what": "what it is",
    "tokens": "tokens",
    "accuracy": "%",
    "difference": "ours − it",
    "n": "n",
}
CLAIMS = {
    "id": "",
    "claim": "claim",
    "accuracy": "%",
    "other": "rival's %",
    "difference": "difference",
    "n": "n",
    "verdict": "verdict",
}
SCALE_COLUMNS = {"row": "scale", "tokens": "tokens", "accuracy": "%", "difference": "overlay − it", "n": "n"}
# (number, claim, system, rival): decided again with the overlay and the scorer that ships.
DECIDED = (
    ("H2", "three ways beat the coupling alone", "tension", OURS),
    ("H2", "three ways beat what is there", "tension", "propositional"),
    ("H2", "three ways beat what stands out", "tension", "perspectival"),
    ("H3", "adaptive tensions beat fixed weights", "adaptive", "fixed weights"),
    ("H3", "adaptive tensions beat learned ones", "adaptive", "tension"),
    ("H5", "the texture beats RGB alone", "texture", "rgb"),
    ("stakes", "high stakes answer more at equal tokens", "medical", "casual"),
)


def tables(record: Record) -> list[Table]:
    """Phases and controls against ours; the claims; the classic scale on large pictures. Empty ones are left out."""
    plan = record.plan
    rows, cols = plan["size"][0] // 32, plan["size"][1] // 32
    facts = {
        "pictures": f"Needle World, {plan['size'][0]}×{plan['size'][1]}, split {plan['split']}, seed {plan['seed']}, "
        f"families {', '.join(plan['families'])}",
        "layout": "the overlay for every map, each sharpened by a power of its own chosen on 70 validation pictures",
        "read by": "mini, exact match; differences in points, paired picture by picture, 95 % intervals",
        **{f"left out: {name}": line for name, line in record.missing.items()},
    }
    wanted = plan["each"] * len(plan["families"])
    first = f"{OURS}@{max(1, round(plan['keeps'][0] * rows * cols))}"
    done = len(record.pictures([first])) if first in record.cells else 0
    if done < wanted:
        facts["read so far"] = f"{done} of {wanted} pictures; the same command with the same --out goes on"
    found = [
        table
        for keep in plan["keeps"]
        if (table := _phases(record, max(1, round(keep * rows * cols)), rows * cols, facts)) is not None
    ]
    budget = max(1, round(plan["keeps"][0] * rows * cols))
    claims = [row for one in DECIDED if (row := _claim(record, budget, *one)) is not None]
    if claims:
        about = (
            "H2 three ways beat each alone, H3 adaptive tensions beat others, H5 the texture beats RGB, stakes: 1000:1 "
        )
        about += "beats 1:1 at equal tokens"
        facts = {"tokens": str(budget), "claims": about}
        found.append(Table("H2, H3, H5 and stakes, decided again", CLAIMS, tuple(claims), facts))
    return [*found, *_scales(record)]


def _phases(record: Record, budget: int, full: int, facts: Mapping[str, str]) -> Table | None:
    ours = f"{OURS}@{budget}"
    if ours not in record.cells:
        return None
    names = {OURS: "ours: the learned scorer", **PHASES, **TRAINED, **dict.fromkeys(CONTROLS, "control")}
    extra = {cell.partition("@")[0] for cell in record.cells if " scale@" not in cell} - names.keys()
    rows: list[dict[str, Cell]] = []
    for name, what in {**names, **dict.fromkeys(sorted(extra), "of the registry")}.items():
        cell = f"{name}@{full if name == 'full' else budget}"
        if cell not in record.cells:
            continue
        shared = record.pictures([cell, ours])
        right, best = record.right(cell, shared), record.right(ours, shared)
        rows.append(
            {
                "row": name,
                "what": what,
                "tokens": full if name == "full" else budget,
                "accuracy": percent(proportion(right)),
                "difference": None if name == OURS else percent(paired(best, right)),
                "n": len(shared),
            }
        )
    return Table(f"The line of the source at {budget} of {full} tokens", COLUMNS, tuple(rows), facts)


def _claim(record: Record, budget: int, number: str, claim: str, system: str, other: str) -> dict[str, Any] | None:
    cells = [f"{name}@{budget}" for name in (system, other)]
    if not all(cell in record.cells for cell in cells):
        return None
    shared = record.pictures(cells)
    first, second = (record.right(cell, shared) for cell in cells)
    difference = paired(first, second)
    return {
        "id": number,
        "claim": f"{system} > {other}",
        "words": claim,
        "accuracy": percent(proportion(first)),
        "other": percent(proportion(second)),
        "difference": percent(difference),
        "n": len(shared),
        "verdict": difference.above(),
    }


def _scales(record: Record) -> list[Table]:
    found = []
    for budget in record.plan["large_budgets"]:
        cells = {scale: f"{scale} scale@{budget}" for scale in SCALES}
        if not all(cell in record.cells for cell in cells.values()):
            continue
        shared = record.pictures(list(cells.values()))
        right = {scale: record.right(cell, shared) for scale, cell in cells.items()}
        rows: list[dict[str, Cell]] = [
            {
                "row": scale,
                "tokens": budget,
                "accuracy": percent(proportion(one)),
                "difference": None if scale == "overlay" else percent(paired(right["overlay"], one)),
                "n": len(shared),
            }
            for scale, one in right.items()
        ]
        height, width = record.plan["large_size"]
        title = f"The classic scale on pictures of {height}×{width}, {budget} of {height // 32 * (width // 32)} tokens"
        found.append(Table(title, SCALE_COLUMNS, tuple(rows), {"relevance": "the scorer; uniform has none"}))
    return found
