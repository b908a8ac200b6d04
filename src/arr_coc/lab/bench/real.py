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
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from ...attending.allocate import allocate
from ...attending.tree import tokens_for
from ...balancing.tension import sharpen
from ...balancing.three_ways import relevance_of
from ...bundled import SCORER, WEIGHTS, ScorerRelevance
from ...errors import InputError
from ...knowing.lexical import Coupling
from ...knowing.photo_words import worth_asking
from ...knowing.photos import PhotoEncoder, find_photo_encoder
from ...looking import Prepared, prepare
from ...values import Allocation
from ..statistics import Estimate, mean
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


# ---- The maps that `bench real` compares, of one picture and its questions -------------------------------------------
# Every map that is not a control is sharpened as `look` does it (`balancing.SHARPNESS`), except the scorer's, which is
# used as it was trained to be.

# Where the photo map is tried: natural pictures whose questions name things.
PHOTO_SOURCES = frozenset({"coco128", "search_mcs", "camvid", "ccp"})
CONTROLS = ("uniform", "center")
MAP_SIDE = 256


@dataclass(eq=False)
class PictureMaps:
    """Maps (h, w) in [0, 1] by name; what does not depend on the question is computed once."""

    prepared: Prepared
    source: str
    scorer: ScorerRelevance | None = None
    _classes: dict[str, Any] = field(default_factory=dict)
    _controls: dict[tuple[str, int], Allocation] = field(default_factory=dict)

    @cached_property
    def texture(self) -> Any:
        return self.prepared.scene.texture

    def _channel(self, name: str) -> np.ndarray:
        plane = np.asarray(self.texture[name])
        scale = min(1.0, MAP_SIDE / max(plane.shape))
        size = (max(1, round(plane.shape[0] * scale)), max(1, round(plane.shape[1] * scale)))
        return np.asarray(self.texture.ops.shrink(plane, size))

    @cached_property
    def plain(self) -> dict[str, np.ndarray]:
        """Maps that no question changes."""
        return {
            "saliency": sharpen(self._channel("saliency")),
            "text regions": sharpen(self._channel("text_regions")),
        }

    def control(self, strategy: str, budget: int) -> Allocation:
        """What a control does with a budget, whatever is asked."""
        if (strategy, budget) not in self._controls:
            flat = np.ones((8, 8), np.float32)
            size = self.prepared.picture.size
            self._controls[strategy, budget] = allocate(flat, budget, strategy=strategy, image_size=size)
        return self._controls[strategy, budget]

    def of(self, query: str) -> dict[str, np.ndarray]:
        """Every map for a question. `look` is what comes without the extra `[photos]`, `look with photos` what comes
        with it: the same where the photo map has nothing to say."""
        maps = dict(self.plain)
        maps["look"] = relevance_of(self.texture, query).map
        if self.scorer is not None:
            maps["scorer"] = self.scorer.of_pixels(self.prepared.picture.pixels, query).map
        encoder = find_photo_encoder() if self.source in PHOTO_SOURCES else None
        if encoder is not None:
            coupled = encoder.couple_logits(self._class_logits(encoder), query)[0].numpy()
            maps["photo map"] = sharpen(coupled)
            joined = relevance_of(self.texture, query, Coupling(coupled, ())) if worth_asking(query) else None
            maps["look with photos"] = maps["look"] if joined is None else joined.map
        return maps

    def _class_logits(self, encoder: PhotoEncoder) -> Any:
        """A picture is classified once, and asked about many times."""
        import torch

        if "logits" not in self._classes:
            pixels = torch.from_numpy(np.ascontiguousarray(self.prepared.picture.pixels))
            self._classes["logits"] = encoder.class_logits(pixels.permute(2, 0, 1)[None] / 255)
        return self._classes["logits"]


def bundled_scorer(folder: Path | None = None) -> ScorerRelevance | None:
    """The shipped scorer where there is one."""
    folder = folder or WEIGHTS / SCORER
    return ScorerRelevance(folder) if (folder / "config.json").is_file() else None


# Blur of the fixations' map, as a share of the picture's longer side: about a degree of sight.
FIXATION_BLUR = 0.04


def coverage(allocation: Allocation, boxes: np.ndarray, any_of: bool = False, level: int = 0) -> float:
    """Share of the relevant boxes (K, 4: x0, y0, x1, y1 in 0–1) that is seen at a level or finer; with any_of, of the
    best one. What leaves cover of a box adds up, those left out that lie under or on another one that counts. Several
    boxes count by their area."""
    scale = np.array([allocation.width, allocation.height] * 2, dtype=float)
    x0, y0, x1, y1 = (np.asarray(boxes, dtype=float).reshape(-1, 4) * scale).T[:, None]
    fine = allocation.boxes[_outermost(allocation, level)].astype(float)
    top, left, height, width = fine.T[:, :, None]
    down = np.clip(np.minimum(y1, top + height) - np.maximum(y0, top), 0, None)
    across = np.clip(np.minimum(x1, left + width) - np.maximum(x0, left), 0, None)
    seen = (down * across).sum(0)
    area = np.maximum(((x1 - x0) * (y1 - y0))[0], 1e-9)
    return float((seen / area).max()) if any_of else float(seen.sum() / area.sum())


def _outermost(allocation: Allocation, level: int) -> np.ndarray:
    """(N,) bool: leaves of a level or finer that lie in no other such leaf."""
    row, col, own = allocation.leaf_cells().T
    alone = own <= level
    for coarse in range(1, level + 1):
        name = ((row >> coarse) << 32) | (col >> coarse)
        alone &= ~((own < coarse) & np.isin(name, name[own == coarse]))
    return alone


def scanpath_hits(allocation: Allocation, scanpaths: list[list[list[float]]]) -> float:
    """Share of the fixations (x, y in 0–1) of people searching that fall where the picture is seen at level 0.

    The first fixation of each path is where the trial put the eyes: it does not count.
    """
    points = np.array([point[:2] for path in scanpaths for point in path[1:]], dtype=float).reshape(-1, 2)
    points = points[((points >= 0) & (points < 1)).all(1)]
    if not len(points):
        return float("nan")
    fine = allocation.boxes[allocation.levels == 0].astype(float)
    top, left, height, width = fine.T[:, :, None]
    x, y = (points * (allocation.width, allocation.height)).T
    inside = (x >= left) & (x < left + width) & (y >= top) & (y < top + height)
    return float(inside.any(0).mean())


def fixation_map(fixations: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(F, 3) fixations x, y in 0–1 and milliseconds → (rows, cols): how long people looked there, blurred."""
    rows, cols = size
    known = fixations[((fixations[:, :2] >= 0) & (fixations[:, :2] < 1)).all(1)]
    total, _, _ = np.histogram2d(
        known[:, 1] * rows, known[:, 0] * cols, bins=size, range=((0, rows), (0, cols)), weights=known[:, 2]
    )
    return gaussian_filter(total, FIXATION_BLUR * max(size), mode="constant")


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's, over all places; not a number where one of them is flat."""
    a, b = first.ravel() - first.mean(), second.ravel() - second.mean()
    length = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / length if length > 1e-12 else float("nan")


def scanpath_saliency(relevance: np.ndarray, fixations: np.ndarray) -> float:
    """Normalised scanpath saliency: the map in standard deviations above its mean, at the fixated places."""
    rows, cols = relevance.shape
    known = fixations[((fixations[:, :2] >= 0) & (fixations[:, :2] < 1)).all(1)]
    spread = float(relevance.std())
    if spread < 1e-9 or not len(known):
        return float("nan")
    place = (known[:, 1] * rows).astype(int), (known[:, 0] * cols).astype(int)
    return float(((relevance[place] - relevance.mean()) / spread).mean())
