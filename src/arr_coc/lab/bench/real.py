"""`bench real`: how much of what a question needs is seen in full detail, on real pictures with known boxes.

No model answers here. For every record and budget the question is whether the allocation shows the relevant box at
level 0 (coverage), and, where people's eyes were followed, whether it looks where they looked. The pictures are read
from a folder of records (`records.jsonl` and its pictures); nothing of them is kept.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...attending.allocate import allocate
from ...attending.tree import tokens_for
from ...errors import InputError
from ...looking import prepare
from .hypotheses_verdicts import Estimate, mean
from .real_maps import CONTROLS, PictureMaps, bundled_scorer
from .real_measures import correlation, coverage, fixation_map, scanpath_hits, scanpath_saliency
from .table import Cell, Quantity, Table, written

KEEPS = (1 / 4, 1 / 8, 1 / 16)
RECORDS = "records.jsonl"
KEPT_EVERY = 25
# Measure → the coarsest level that counts as seen. Uniform shows nothing at level 0 and, at a quarter, all at level 1.
COVERAGES = {"coverage": 0, "coverage at half size": 1}
COLUMNS = {
    "source": "source",
    "measure": "measure",
    "system": "system",
    "quarter": "1/4",
    "eighth": "1/8",
    "sixteenth": "1/16",
    "n": "questions",
    "pictures": "pictures",
}
# In a terminal of 80 columns the intervals stand below their values.
NARROW = {"where": "source", "what": "system, measure", "quarter": "1/4", "eighth": "1/8", "sixteenth": "1/16"}
TUNED = (
    "not held out for `look`, `saliency` and `text regions`: their sharpness was chosen on 150 of these records and "
    "looked at on 150 others, the thresholds of the text regions on samples of funsd, chartqa and coco128. The scorer "
    "saw no real picture. The photo map's one temperature was set by judgement; its sign was checked on 40 of coco128"
)


@dataclass(frozen=True)
class Record:
    """One question about one picture, as `records.jsonl` has it."""

    source: str
    image: Path
    query: str
    boxes: np.ndarray
    any_of: bool = False
    fixations: np.ndarray | None = None
    scanpaths: list[Any] | None = None


def load_records(folder: Path, limit: int | None = None, sources: Sequence[str] = ()) -> list[Record]:
    """The records of a folder; limit: at most so many of each source, spread evenly over it."""
    path = folder / RECORDS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(
            f"no {RECORDS} in {folder} ({error.strerror or error}); give the folder with --data"
        ) from error
    found: dict[str, list[Record]] = defaultdict(list)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            gaze = entry.get("fixations")
            record = Record(
                source=entry["source"],
                image=folder / entry["image"],
                query=entry["query"],
                boxes=np.array(entry.get("boxes") or [], dtype=float).reshape(-1, 4),
                any_of=bool(entry.get("any_of")),
                fixations=np.array(gaze, dtype=float).reshape(-1, 3) if gaze else None,
                scanpaths=entry.get("scanpaths"),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"line {number} of {path} is not a record ({type(error).__name__}: {error})") from error
        if not sources or record.source in sources:
            found[record.source].append(record)
    if not found:
        raise InputError(f"{path} holds no record" + (f" of {', '.join(sources)}" if sources else ""))
    chosen = []
    for several in found.values():
        if limit is not None and len(several) > limit:
            places = np.linspace(0, len(several) - 1, limit).round().astype(int)
            several = [several[place] for place in places]
        chosen += several
    return chosen


@dataclass
class Values:
    """Values by (source, measure, system, budget), each with the picture it came from."""

    found: dict[tuple[str, str, str, float], list[tuple[str, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, source: str, measure: str, system: str, keep: float, picture: Path, value: float) -> None:
        if not math.isnan(value):
            self.found[source, measure, system, keep].append((picture.name, value))

    def estimate(self, key: tuple[str, str, str, float]) -> tuple[Estimate, int, int] | None:
        """Mean and interval over pictures (questions about one picture are no independent sample), and the counts."""
        entries = self.found.get(key)
        if not entries:
            return None
        pictures: dict[str, list[float]] = defaultdict(list)
        for picture, value in entries:
            pictures[picture].append(value)
        means = np.array([np.mean(values) for values in pictures.values()])
        return mean(means), len(entries), len(pictures)


def measure_record(values: Values, record: Record, maps: PictureMaps) -> None:
    """All maps, all budgets, all measures that the record allows."""
    size = maps.prepared.picture.size
    full = tokens_for(size)
    found = maps.of(record.query)
    for keep in KEEPS:
        budget = max(1, math.floor(keep * full + 1e-9))
        for system in (*CONTROLS, *found) if len(record.boxes) or record.scanpaths else ():
            if system in CONTROLS:
                allocation = maps.control(system, budget)
            else:
                allocation = allocate(found[system], budget, image_size=size)
            for measure, level in COVERAGES.items() if len(record.boxes) else ():
                share = coverage(allocation, record.boxes, record.any_of, level)
                values.add(record.source, measure, system, keep, record.image, share)
            if record.scanpaths:
                hits = scanpath_hits(allocation, record.scanpaths)
                values.add(record.source, "scanpath hits", system, keep, record.image, hits)
    if record.fixations is not None:
        for system, relevance in {"center": center_map(size), **found}.items():
            looked = fixation_map(record.fixations, (relevance.shape[0], relevance.shape[1]))
            agreement = correlation(relevance, looked)
            values.add(record.source, "correlation with fixations", system, 1.0, record.image, agreement)
            scanpath = scanpath_saliency(relevance, record.fixations)
            values.add(record.source, "normalised scanpath saliency", system, 1.0, record.image, scanpath)


def center_map(size: tuple[int, int], side: int = 64) -> np.ndarray:
    """Closeness to the middle: the control that human gaze is hard to beat with."""
    scale = side / max(size)
    y = (np.arange(max(1, round(size[0] * scale))) + 0.5) / max(1, round(size[0] * scale)) - 0.5
    x = (np.arange(max(1, round(size[1] * scale))) + 0.5) / max(1, round(size[1] * scale)) - 0.5
    return np.exp(-(y[:, None] ** 2 + x[None, :] ** 2) / (2 * 0.25**2)).astype(np.float32)


def steps_of(records: Sequence[Record]) -> list[str]:
    """What `measure_real` will announce, in order: every picture of every source."""
    sources = [several[0].source for _, several in by_picture(records)]
    seen: Counter[str] = Counter()
    steps = []
    for source in sources:
        seen[source] += 1
        steps.append(f"{source}, picture {seen[source]} of {sources.count(source)}")
    return steps


def measure_real(
    records: Sequence[Record],
    scorer: Path | None = None,
    advance: Callable[[str], None] = lambda step: None,
    keep: Callable[[Values, int], None] = lambda values, pictures: None,
) -> Values:
    """Every record; records of one picture share its sensing. advance: called with each picture's step as it begins.
    keep: called with all values and the number of pictures so far, every `KEPT_EVERY` pictures."""
    values = Values()
    shipped = bundled_scorer(scorer)
    for number, (step, (picture, several)) in enumerate(zip(steps_of(records), by_picture(records), strict=True)):
        if number and number % KEPT_EVERY == 0:
            keep(values, number)
        advance(step)
        maps = PictureMaps(prepare(picture), several[0].source, shipped)
        for record in several:
            measure_record(values, record, maps)
    return values


def by_picture(records: Sequence[Record]) -> Iterator[tuple[Path, list[Record]]]:
    """Records grouped by source and picture, in the order of their first appearance."""
    grouped: dict[tuple[str, Path], list[Record]] = defaultdict(list)
    for record in records:
        grouped[record.source, record.image].append(record)
    order = {source: place for place, source in enumerate(dict.fromkeys(record.source for record in records))}
    for source, image in sorted(grouped, key=lambda key: order[key[0]]):
        yield image, grouped[source, image]


def real_table(values: Values, facts: dict[str, str] | None = None) -> Table:
    """Systems down by source and measure, budgets across."""
    rows: list[dict[str, Cell]] = []
    for source, measure, system in dict.fromkeys(key[:3] for key in values.found):
        row: dict[str, Cell] = {"source": source, "measure": measure, "system": system}
        columns = zip(("quarter", "eighth", "sixteenth"), KEEPS, strict=True)
        plain = "fixations" in measure or "saliency" in measure
        for column, keep in columns if not plain else (("quarter", 1.0),):
            found = values.estimate((source, measure, system, keep))
            if found is not None:
                estimate, row["n"], row["pictures"] = found
                scale, unit = (1.0, "") if plain else (100.0, "%")
                low, high = (estimate.low, estimate.high) if plain else np.clip((estimate.low, estimate.high), 0, 1)
                bounds = (scale * float(low), scale * float(high)) if math.isfinite(estimate.low) else (None, None)
                row[column] = Quantity(scale * estimate.value, unit, *bounds)
        rows.append(row)
    notes = {
        "coverage": "share of the relevant boxes seen at level 0 (at half size: level 1 or 0), by share of full tokens",
        "fixations": "correlation and normalised scanpath saliency need no budget; they stand in the first column",
        "intervals": "95 %, over pictures",
        "tuned": TUNED,
        **(facts or {}),
    }
    return Table("real pictures", COLUMNS, tuple(rows), notes)


def narrow_table(table: Table) -> Table:
    """The same for a terminal."""
    rows: list[dict[str, Cell]] = []
    for row in table.rows:
        shown: dict[str, Cell] = {
            "where": f"{row['source']}\nn {row['n']}",
            "what": f"{row['system']}\n{row['measure']}",
        }
        for name in ("quarter", "eighth", "sixteenth"):
            value, _, interval = written(row.get(name)).partition(" [")
            shown[name] = f"{value}\n[{interval.removesuffix(' %')}" if interval else value
        rows.append(shown)
    return Table(table.title, NARROW, tuple(rows), table.facts)
