"""`bench analysis`: what a scorer has learned to do: five patterns of allocation, statistics, tensions, the curve."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from arr_coc.knowing.scorer.source import load_scorer
from scipy.cluster.vq import kmeans2
from scipy.ndimage import label
from torch import Tensor

from arr_coc.attending.frame import Frame
from arr_coc.attending.quadtree import quadtree
from arr_coc.balancing.explain import POLES
from arr_coc.balancing.tension import TENSION_NAMES
from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing
from arr_coc.core.values import Allocation, JsonObject
from arr_coc.draw.panes import overlay
from arr_coc.draw.sheets import contact_sheet

from ..train.allocations import fine_cells, tree_of
from ..train.curves import new_figure
from ..train.evaluate import FAMILIES
from ..train.pictures import family_batches
from ..train.run import door
from .options import AnalysisOptions
from .report import Report
from .run import BenchRun, program

if TYPE_CHECKING:
    from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..classic.scorer import Scorer

PATTERNS = 5
LEVELS = (0, 1, 2, 3)
EXAMPLES = 4
FEATURES = ("fine", "coarsest", "row", "column", "reach", "regions", "peak")
WORDS = {
    "fine": ("little seen in full", "much seen in full"),
    "coarsest": ("little left coarse", "much left coarse"),
    "row": ("high up", "low down"),
    "column": ("on the left", "on the right"),
    "reach": ("in one spot", "spread wide"),
    "regions": ("one region", "many regions"),
    "peak": ("without a clear peak", "with a sharp peak"),
}
# A feature is worth a word when a pattern's mean is this many standard deviations from the whole's.
NOTABLE = 0.6


@dataclass(frozen=True)
class AllocatedLooks:
    """Pictures, questions and the trees of N looks. levels: (N, rows, cols) level of every cell. leaves: (N, L, 3)."""

    pictures: Tensor
    questions: list[str]
    families: list[str]
    scores: np.ndarray
    levels: np.ndarray
    leaves: np.ndarray
    budget: int

    def allocation(self, place: int) -> Allocation:
        """One of them as the value that drawings are made of."""
        size = (self.pictures.shape[2], self.pictures.shape[3])
        return Frame(size).allocation(self.leaves[place], np.ones(len(self.leaves[place])), self.budget, "quadtree")


@torch.no_grad()
def look_at_needle(
    scorer: Scorer | ReadingScorer, number: int, keep: float, size: tuple[int, int], seed: int, at_once: int
) -> AllocatedLooks:
    """`number` pictures of the test split, all families alike, allocated by the scorer."""
    tree = tree_of(size)
    budget = max(tree.floor, round(keep * tree.full))
    pictures, questions, families, scores, leaves = [], [], [], [], []
    device = next(scorer.parameters()).device
    each = max(1, number // len(FAMILIES))
    for family, batch in family_batches(each, size, seed, "test", device=device, at_once=at_once):
        found = scorer.score(batch.pictures, batch.question_ids)
        pictures.append(batch.pictures.cpu())
        questions += batch.questions
        families += [family] * len(batch)
        scores.append(found.cpu())
        leaves.append(quadtree(found, tree, budget).cells.cpu())
    joined = torch.cat(leaves)
    return AllocatedLooks(
        torch.cat(pictures),
        questions,
        families,
        torch.cat(scores).numpy(),
        level_maps(joined, tree.rows, tree.cols),
        joined.numpy(),
        budget,
    )


def level_maps(leaves: Tensor, rows: int, cols: int) -> np.ndarray:
    """Leaves (N, L, 3) → (N, rows, cols) int64: the level at which each cell is seen."""
    result = torch.zeros(len(leaves), rows, cols, dtype=torch.int64)
    for level in range(1, int(leaves[..., 2].max()) + 1):
        side = 1 << level
        begins = leaves.clone()
        begins[..., 0] //= side
        begins[..., 1] //= side
        begins[..., 2] = torch.where(leaves[..., 2] == level, 0, 1)
        there = fine_cells(begins, -(-rows // side), -(-cols // side)) > 0
        there = there.repeat_interleave(side, 1).repeat_interleave(side, 2)[:, :rows, :cols]
        result = torch.where(there, level, result)
    return result.numpy()


def allocation_features(levels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(N, rows, cols) levels and relevance → (N, features), in the order of `FEATURES`, all in [0, 1] or counts."""
    fine = levels == 0
    number, rows, cols = levels.shape
    total = np.maximum(fine.sum((1, 2)), 1)
    y = (np.arange(rows) + 0.5)[:, None] / rows
    x = (np.arange(cols) + 0.5)[None, :] / cols
    row, column = (fine * y).sum((1, 2)) / total, (fine * x).sum((1, 2)) / total
    away = (y - row[:, None, None]) ** 2 + (x - column[:, None, None]) ** 2
    reach = np.sqrt((fine * away).sum((1, 2)) / total)
    regions = np.array([label(one)[1] for one in fine], dtype=float)
    flat = scores.reshape(number, -1)
    peak = flat.max(1) / np.maximum(flat.sum(1), 1e-9)
    coarsest = (levels == levels.max()).mean((1, 2))
    return np.stack([fine.mean((1, 2)), coarsest, row, column, reach, regions, peak], axis=1)


def find_patterns(features: np.ndarray, patterns: int = PATTERNS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(N, F) → centres (patterns, F) in standard units, and each one's pattern (N,), the most frequent first."""
    if len(features) < patterns:
        raise InputError(f"{patterns} patterns need at least as many looks, got {len(features)}; raise --number")
    centred = standard(features)
    centres, owner = kmeans2(centred, patterns, iter=50, minit="++", rng=np.random.default_rng(seed))
    order = np.argsort(-np.bincount(owner, minlength=patterns), kind="stable")
    return centres[order], np.argsort(order)[owner]


def standard(features: np.ndarray) -> np.ndarray:
    """Every feature with mean 0 and spread 1; a constant one is 0."""
    spread = features.std(0)
    return (features - features.mean(0)) / np.where(spread > 1e-9, spread, 1)


def describe(centre: np.ndarray) -> str:
    """A pattern in words: what sets its mean apart from the whole's."""
    order = np.argsort(-np.abs(centre))
    words = [WORDS[FEATURES[place]][int(centre[place] > 0)] for place in order if abs(centre[place]) >= NOTABLE]
    return ", ".join(words[:3]) or "like the average"


def nearest(features: np.ndarray, centres: np.ndarray, owner: np.ndarray, examples: int = EXAMPLES) -> list[list[int]]:
    """For each pattern the looks nearest to its centre."""
    away = ((standard(features)[:, None] - centres[None]) ** 2).sum(-1)
    found = []
    for pattern in range(len(centres)):
        members = np.flatnonzero(owner == pattern)
        found.append(members[np.argsort(away[members, pattern], kind="stable")[:examples]].tolist())
    return found


def analyse(looks: AllocatedLooks, seed: int = 0) -> JsonObject:
    """Patterns and statistics, as plain numbers."""
    features = allocation_features(looks.levels, looks.scores)
    centres, owner = find_patterns(features, seed=seed)
    examples = nearest(features, centres, owner)
    families = np.array(looks.families)
    patterns = [
        {
            "share": float((owner == place).mean()),
            "words": describe(centres[place]),
            "features": dict(zip(FEATURES, features[owner == place].mean(0).round(4).tolist(), strict=True)),
            "families": {one: float((families[owner == place] == one).mean().round(3)) for one in FAMILIES},
            "examples": [
                {"place": at, "family": looks.families[at], "question": looks.questions[at]} for at in examples[place]
            ],
        }
        for place in range(len(centres))
    ]
    statistics = {
        family: {
            "levels": {str(level): float((looks.levels[families == family] == level).mean()) for level in LEVELS},
            **dict(zip(FEATURES, features[families == family].mean(0).round(4).tolist(), strict=True)),
        }
        for family in FAMILIES
        if (families == family).any()
    }
    return {"number": len(owner), "budget": looks.budget, "patterns": patterns, "statistics": statistics}


CAPTIONS = {
    "patterns": "Five patterns of allocation, a row for each: the looks nearest to its centre.",
    "allocation_statistics": "What is spent at which level, by family.",
    "tensions": "The learned tensions over training; of the adaptive ones the mean and the middle nine tenths.",
    "outcome_curve": "Learning from outcomes: accuracy, and the two quantities that would show a collapse.",
}


def page_part(found: JsonObject, pictures: list[Path], beside: Path) -> str:
    """The patterns in words with their questions, and the plots, as Markdown for a page in the folder `beside`."""
    lines = ["| pattern | of the looks | mostly | for example |", "| --- | --- | --- | --- |"]
    for pattern in found["patterns"]:
        family = max(pattern["families"], key=pattern["families"].get)
        question = pattern["examples"][0]["question"].replace("|", "\\|")
        mostly = f"{family} ({pattern['families'][family]:.0%})"
        lines.append(f"| {pattern['words']} | {pattern['share']:.0%} | {mostly} | {question} |")
    lines += ["", f"{found['number']} looks at pictures of the test split, {found['budget']} tokens each."]
    for path in pictures:
        caption = CAPTIONS[path.stem]
        place = Path(os.path.relpath(path.resolve(), beside.resolve())).as_posix()
        lines += ["", f"![{caption}]({place})", "", caption]
    return "\n".join(lines)


def load_record(path: Path | None) -> JsonObject:
    """What `train_hypotheses` kept of its run; empty where there is none."""
    if path is None or not os.path.isfile(path):
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not a record of train_hypotheses ({error})") from error


def measure(options: AnalysisOptions, run: BenchRun) -> Report:
    """Look, find the patterns, draw them."""
    new_figure()  # where matplotlib is missing, nothing is measured
    scorer = load_scorer(options.scorer, options.device)
    at_once = 16 if options.device == "cpu" else 256
    size = (options.size, options.size)
    looks = look_at_needle(scorer, options.number, options.keep, size, options.seed, at_once)
    found = analyse(looks, options.seed)
    phases = load_record(options.record).get("phases", {})
    pictures = [plot_patterns(looks, found, options.out), plot_statistics(found, options.out)]
    if "tensions" in phases.get("balance", {}):
        found["tensions"] = phases["balance"]["tensions"]
        pictures.append(plot_tensions(found["tensions"], options.out))
    if "curve" in phases.get("outcomes", {}):
        outcomes = phases["outcomes"]
        found["outcomes"] = {name: outcomes[name] for name in ("curve", "monitors", "pictures", "seconds")}
        pictures.append(plot_curve(found["outcomes"], options.out))
    lines = [
        f"pattern {place}: {pattern['share']:.0%} of the looks, {pattern['words']}"
        for place, pattern in enumerate(found["patterns"], 1)
    ]
    page = () if options.page is None else (page_part(found, pictures, options.page.parent),)
    return Report(found, lines=lines, page=page, files=pictures)


# ----------------------------------------------------------------------------------------------------------------------
# The analysis as pictures, from plain numbers (`analysis.json`) and the looks themselves. Needs matplotlib.

LEVEL_COLOURS = ("#d1495b", "#edae49", "#66a182", "#2e4057")
TENSION_COLOURS = ("#d1495b", "#00798c", "#edae49")
DPI = 110


def _save(figure: Figure, path: Path) -> Path:
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=DPI, format="png")
    return path


def _figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    figure = new_figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0].tolist()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.25)
        axis.set_axisbelow(True)
    return figure, axes


def plot_patterns(looks: AllocatedLooks, found: JsonObject, folder: Path) -> Path:
    """A row of examples for each pattern, each with its question."""
    pictures, captions = [], []
    columns = max(len(pattern["examples"]) for pattern in found["patterns"])
    for number, pattern in enumerate(found["patterns"], 1):
        for place, example in enumerate(pattern["examples"]):
            pixels = looks.pictures[example["place"]].permute(1, 2, 0).numpy()
            pictures.append(overlay(pixels, looks.allocation(example["place"])))
            lead = f"{number} ({pattern['share']:.0%})  " if place == 0 else ""
            captions.append(lead + example["question"])
        blank = columns - len(pattern["examples"])
        pictures += [np.full((32, 32, 3), 255, np.uint8)] * blank
        captions += [""] * blank
    path = folder / "patterns.png"
    with replacing(path) as temporary:
        contact_sheet(pictures, captions, columns=columns, shape=1.0).save(temporary, format="PNG", optimize=True)
    return path


def plot_statistics(found: JsonObject, folder: Path) -> Path:
    """Which share of the ground each family's pictures see at which level, and in how many separate regions."""
    figure, (shares, regions) = _figure(10, 3.6, 2)
    families = list(found["statistics"])
    bottom = np.zeros(len(families))
    for level, colour in enumerate(LEVEL_COLOURS):
        values = np.array([100 * found["statistics"][family]["levels"][str(level)] for family in families])
        shares.bar(families, values, bottom=bottom, color=colour, label=f"level {level}")
        bottom += values
    shares.set_ylabel(f"% of the ground, {found['budget']} tokens")
    shares.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=4, frameon=False, fontsize=8)
    regions.bar(families, [found["statistics"][family]["regions"] for family in families], color=LEVEL_COLOURS[0])
    regions.set_ylabel("separate regions at level 0")
    regions.set_ylim(bottom=0)
    for axis in (shares, regions):
        axis.tick_params(axis="x", rotation=30, labelsize=8)
    return _save(figure, folder / "allocation_statistics.png")


def plot_tensions(tensions: JsonObject, folder: Path) -> Path:
    """The learned tensions over training; for the adaptive balancer with the range over places."""
    figure, axes = _figure(10, 3.6, 2)
    titles = {"tension": "TensionBalancer", "adaptive": "AdaptiveTensionBalancer (mean, 5–95 % of places)"}
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        points = tensions[kind]["points"]
        steps = [point["step"] for point in points]
        for name, colour in zip(TENSION_NAMES, TENSION_COLOURS, strict=True):
            (low, _), (high, _) = POLES[name]
            axis.plot(steps, [point[name] for point in points], color=colour, label=f"{low} ↔ {high}")
            if points and f"{name} low" in points[0]:
                lowest, highest = ([point[f"{name} {side}"] for point in points] for side in ("low", "high"))
                axis.fill_between(steps, lowest, highest, color=colour, alpha=0.12)
        axis.axhline(0.5, color="grey", linewidth=0.6)
        axis.set(title=title, ylim=(0, 1), xlabel="step")
    axes[0].set_ylabel("tension")
    axes[1].legend(frameon=False, fontsize=8)
    return _save(figure, folder / "tensions.png")


def plot_curve(outcomes: JsonObject, folder: Path) -> Path:
    """Learning from outcomes: accuracy on pictures set aside, and the two quantities that show a collapse."""
    figure, (accuracy, health) = _figure(10, 3.6, 2)
    probes = [point for point in outcomes["curve"] if "probe right" in point]
    seconds = [point["seconds"] for point in probes]
    accuracy.plot(seconds, [100 * point["probe right"] for point in probes], color=LEVEL_COLOURS[0], marker="o", ms=3)
    blind = [point["probe random"] for point in probes if "probe random" in point]
    if blind:
        accuracy.axhline(100 * blind[0], color="grey", linestyle="--", linewidth=1, label="random allocation")
        accuracy.legend(frameon=False, fontsize=8)
    keep = probes[0]["probe keep"] if probes else 0.25
    accuracy.set(xlabel="seconds", ylabel=f"exact match at {keep:.3g} of the tokens, %", ylim=(0, 100))
    points, monitors = outcomes["monitors"]["points"], outcomes["monitors"]
    shown = {"budget_share": "share of the budget spent", "map_entropy": "entropy of the map, share of the greatest"}
    for (name, words), colour in zip(shown.items(), (LEVEL_COLOURS[2], LEVEL_COLOURS[3]), strict=True):
        there = [point for point in points if name in point]
        health.plot([one["step"] for one in there], [one[name] for one in there], color=colour, label=words)
        low, high = monitors["share_band" if name == "budget_share" else "entropy_band"]
        health.axhspan(low, high, color=colour, alpha=0.07)
    health.set(xlabel="step", ylim=(0, 1.05))
    health.legend(frameon=False, fontsize=8, loc="lower right")
    return _save(figure, folder / "outcome_curve.png")


if __name__ == "__main__":
    door(program("analysis"))
