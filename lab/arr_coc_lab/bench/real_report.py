"""The tables of `bench real`, with intervals over pictures, and the page of the pictures that went worst."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from arr_coc.core.files import replacing
from arr_coc.draw.layout import resize
from arr_coc.draw.panes import overlay
from arr_coc.draw.sheets import contact_sheet
from arr_coc.looking import prepare

from ..statistics import Estimate, mean, paired
from .real import (
    CONTROLS,
    CORRELATION,
    COVERAGES,
    HITS,
    SALIENCY,
    SAME,
    TOKEN_SHARE,
    TOKENS,
    UNIFORM,
    Measured,
    Record,
    System,
    Views,
    by_picture,
)
from .table import SCHEMA, Cell, Quantity, Table, written

TUNED = (
    "not held out for `look`, `saliency` and `text regions`: their sharpness was chosen on 150 of these records and "
    "looked at on 150 others, the thresholds of the text regions on samples of funsd, chartqa and coco128. The scorer "
    "saw no real picture; the photo map and the sign that tells photographs from pages were chosen on other photographs"
)
# Facts by the table they explain.
NOTES = {
    "coverage": "share of the relevant boxes seen at level 0, by share of the full tokens",
    "coverage at half size": "the same, seen at level 1 or 0",
    TOKENS: "the budget that shows nine tenths of the boxes at level 0 where one token less does not",
    HITS: "share of the fixations of people who searched that fall where the picture is seen at level 0",
    SAME: "of the other questions about the same picture, those whose map is the same: the question did not matter",
    "gaze": "of the map alone, no budget: correlation with where people looked, normalised scanpath saliency",
    "differences": "coverage, in points, paired picture by picture",
}
WORST, WORST_KEEP = 24, 1 / 8
PANE = 480


@dataclass
class Values:
    """Values by (source, measure, system, budget), each with the picture it came from."""

    found: dict[tuple[str, str, str, float], list[tuple[str, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, source: str, measure: str, system: str, keep: float, picture: str, value: float) -> None:
        if not math.isnan(value):
            self.found[source, measure, system, keep].append((picture, value))

    def by_picture(self, key: tuple[str, str, str, float]) -> dict[str, float]:
        """Picture → the mean of its questions, which are no independent sample."""
        pictures: dict[str, list[float]] = defaultdict(list)
        for picture, value in self.found.get(key, ()):
            pictures[picture].append(value)
        return {picture: float(np.mean(values)) for picture, values in pictures.items()}

    def estimate(self, key: tuple[str, str, str, float]) -> tuple[Estimate, int, int] | None:
        """Mean and interval over pictures, and the counts of questions and pictures."""
        means = self.by_picture(key)
        return (mean(np.array([*means.values()])), len(self.found[key]), len(means)) if means else None

    def difference(self, source: str, first: str, second: str, keep: float) -> Estimate | None:
        """Coverage of the first less that of the second, over the pictures that both have."""
        ours, theirs = (self.by_picture((source, "coverage", name, keep)) for name in (first, second))
        both = [picture for picture in ours if picture in theirs]
        if not both:
            return None
        return paired(np.array([ours[picture] for picture in both]), np.array([theirs[picture] for picture in both]))


def values_of(measured: Measured, records: Sequence[Record], systems: Sequence[System]) -> Values:
    """What is measured of these records and systems so far; a measure without budgets has the budget 1."""
    values, keeps = Values(), measured.settings["keeps"]
    for record in records:
        known = measured.questions.get(record.name, {})
        for system in systems:
            for measure, several in known.get(system.name, {}).items():
                for keep, value in zip(keeps if len(several) > 1 else (1.0,), several, strict=True):
                    values.add(record.source, measure, system.name, keep, record.scene, value)
    return values


def real_tables(
    measured: Measured, records: Sequence[Record], systems: Sequence[System], facts: Mapping[str, str] | None = None
) -> list[Table]:
    """Systems down by source, budgets across; one table for each measure that the records allow, then differences."""
    values = values_of(measured, records, systems)
    keeps = {f"keep_{Fraction(keep).limit_denominator(9999).denominator}": keep for keep in measured.settings["keeps"]}
    budgets = {name: str(Fraction(keep).limit_denominator(9999)) for name, keep in keeps.items()}
    tables = []
    for title in (*COVERAGES, HITS):
        cells = {name: (title, keep, 100.0, "%") for name, keep in keeps.items()}
        tables.append(_table(title, values, systems, budgets, cells))
    tokens = {"tokens": (TOKENS, 1.0, 1.0, ""), "share": (TOKEN_SHARE, 1.0, 100.0, "%")}
    tables.insert(2, _table(TOKENS, values, systems, {"tokens": "tokens", "share": "of full"}, tokens))
    gaze = {"correlation": (CORRELATION, 1.0, 1.0, ""), "saliency": (SALIENCY, 1.0, 1.0, "")}
    maps = list({system.relevance: system for system in reversed(systems)}.values())[::-1]  # whatever the strategy
    same = {"share": (SAME, 1.0, 100.0, "%")}
    tables.append(_table(SAME, values, maps, {"share": "of other questions"}, same))
    tables.append(_table("gaze", values, maps, {"correlation": "correlation", "saliency": "saliency"}, gaze))
    tables.append(_differences(values, systems, keeps, budgets))
    tables = [table for table in tables if table.rows]
    if tables:
        shared = {"intervals": "95 %, over pictures; frames of one clip count as one picture", "tuned": TUNED}
        tables[-1] = Table(
            tables[-1].title, tables[-1].columns, tables[-1].rows, {**tables[-1].facts, **shared, **(facts or {})}
        )
    return tables


def _table(
    title: str,
    values: Values,
    systems: Sequence[System],
    headings: Mapping[str, str],
    cells: Mapping[str, tuple[str, float, float, str]],
) -> Table:
    """cells: column → measure, budget, factor, unit."""
    rows: list[dict[str, Cell]] = []
    for source in dict.fromkeys(key[0] for key in values.found):
        for system in systems:
            strategy = "–" if system.relevance == UNIFORM else system.strategy
            row: dict[str, Cell] = {"source": source, "relevance": system.relevance, "strategy": strategy}
            for column, (measure, keep, factor, unit) in cells.items():
                found = values.estimate((source, measure, system.name, keep))
                if found is not None:
                    estimate, row["n"], row["pictures"] = found
                    row[column] = _quantity(estimate, factor, unit, (0, 100) if unit == "%" else None)
            if "n" in row:
                rows.append(row)
    columns = {"source": "source", "relevance": "relevance", "strategy": "strategy", **headings}
    return Table(title, {**columns, "n": "questions", "pictures": "pictures"}, tuple(rows), {title: NOTES[title]})


def _quantity(estimate: Estimate, factor: float, unit: str, within: tuple[float, float] | None = None) -> Quantity:
    bounds = factor * np.array([estimate.low, estimate.high])
    if not np.isfinite(bounds).all():
        return Quantity(factor * estimate.value, unit)
    low, high = np.clip(bounds, *within) if within else bounds
    return Quantity(factor * estimate.value, unit, float(low), float(high))


def pairs_of(systems: Sequence[System]) -> Iterator[tuple[System, System]]:
    """What is compared: every system with the first of its relevance, or, where it is that, with the first of all."""
    for system in systems[1:]:
        alike = next(one for one in systems if one.relevance == system.relevance)
        yield system, systems[0] if alike == system else alike


def _differences(
    values: Values, systems: Sequence[System], keeps: Mapping[str, float], budgets: Mapping[str, str]
) -> Table:
    rows: list[dict[str, Cell]] = []
    for source in dict.fromkeys(key[0] for key in values.found if key[1] == "coverage"):
        for first, second in pairs_of(systems):
            row: dict[str, Cell] = {"source": source, "difference": f"{first.name} − {second.name}"}
            for column, keep in keeps.items():
                found = values.difference(source, first.name, second.name, keep)
                if found is not None:
                    row[column] = _quantity(found, 100.0, "")
            if len(row) > 2:
                rows.append(row)
    columns = {"source": "source", "difference": "difference", **budgets}
    return Table("differences", columns, tuple(rows), {"differences": NOTES["differences"]})


def narrow_table(table: Table) -> Table:
    """The same for a terminal of 80 columns: intervals stand below their values."""
    words = ("source", "relevance", "strategy", "difference", "n", "pictures")
    numbers = {name: heading for name, heading in table.columns.items() if name not in words}
    rows: list[dict[str, Cell]] = []
    for row in table.rows:
        what = str(row.get("difference") or f"{row['relevance']}\n{row['strategy']}").replace(" − ", "\n− ")
        shown: dict[str, Cell] = {"where": f"{row['source']}" + (f"\nn {row['n']}" if "n" in row else ""), "what": what}
        for name in numbers:
            value, _, interval = written(row.get(name)).partition(" [")
            shown[name] = f"{value}\n[{interval.removesuffix(' %')}" if interval else value
        rows.append(shown)
    return Table(table.title, {"where": "source", "what": "system", **numbers}, tuple(rows), table.facts)


def document(tables: Sequence[Table]) -> dict[str, Any]:
    """What real.json holds."""
    return {"schema": SCHEMA, "title": "real pictures", "tables": [table.to_json() for table in tables]}


# ---- the worst -------------------------------------------------------------------------------------------------------


def worst_of(measured: Measured, records: Sequence[Record], system: System, number: int = WORST) -> list[Record]:
    """The questions of which least is seen at an eighth (or the budget nearest to it), then at half size, then those
    that would take the largest share of the tokens."""
    keeps = measured.settings["keeps"]
    place = int(np.argmin([abs(math.log(keep / WORST_KEEP)) for keep in keeps]))

    def seen(record: Record) -> tuple[float, ...]:
        found = measured.questions[record.name][system.name]
        return (*(found[measure][place] for measure in COVERAGES), -found[TOKEN_SHARE][0])

    asked = [one for one in records if "coverage" in measured.questions.get(one.name, {}).get(system.name, {})]
    return sorted(asked, key=seen)[:number]


def write_worst(folder: Path, measured: Measured, records: Sequence[Record], systems: Sequence[System]) -> list[Path]:
    """One page for each system that is no control: the picture with its boxes, and beside it where the tokens go."""
    paths = []
    for system in systems:
        worst = [] if system.relevance in CONTROLS else worst_of(measured, records, system)
        if not worst:
            continue
        tiles: dict[str, tuple[np.ndarray, str]] = {}
        for picture, several in by_picture(worst):
            views = Views(prepare(picture), measured.settings["seed"])
            for record in several:
                tiles[record.name] = _tile(views, record, system)
        shown = [tiles[record.name] for record in worst]
        path = folder / f"worst {Path(system.relevance).name} {system.strategy}.png"
        with replacing(path) as temporary:
            contact_sheet(
                [tile for tile, _ in shown], [words for _, words in shown], columns=3, width=1920, shape=0.66
            ).save(temporary)
        paths.append(path)
    return paths


def _tile(views: Views, record: Record, system: System) -> tuple[np.ndarray, str]:
    """(H, W, 3) uint8 and its caption."""
    found = views.measure(record, system, (WORST_KEEP,))
    height, width = views.size
    size = (max(1, round(PANE * height / max(views.size))), max(1, round(PANE * width / max(views.size))))
    pixels = np.ascontiguousarray(resize(views.prepared.picture.pixels, size))
    leaves = overlay(pixels, views.seen(record, system, max(1, math.floor(WORST_KEEP * views.full + 1e-9))))
    panes = []
    for pane in (pixels, leaves):
        image = Image.fromarray(pane)
        for box in record.boxes * np.array([size[1], size[0]] * 2):
            ImageDraw.Draw(image).rectangle([round(side) for side in box], outline=(230, 20, 60), width=2)
        panes.append(np.asarray(image))
    said = f"{record.source}: {100 * found['coverage'][0]:.0f} %, {found[TOKENS][0]:.0f} of {views.full} to 90 %"
    return np.concatenate(panes, 1), f"{said}: {record.query}"
