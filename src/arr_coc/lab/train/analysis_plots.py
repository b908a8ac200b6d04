"""The analysis as pictures, from plain numbers (`analysis.json`) and the looks themselves. Needs matplotlib."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...balancing.explain import POLES
from ...balancing.tension import TENSION_NAMES
from ...draw.panes import overlay
from ...draw.sheets import contact_sheet
from ...errors import InputError
from ...files import replacing

if TYPE_CHECKING:
    from .analysis import Looked

LEVEL_COLOURS = ("#d1495b", "#edae49", "#66a182", "#2e4057")
TENSION_COLOURS = ("#d1495b", "#00798c", "#edae49")
DPI = 110


def check_plotting() -> None:
    """One clear line where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("plots need matplotlib; install the extra: pip install 'arr-coc[train]'")


def _save(figure: Any, path: Path) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=DPI, format="png")
    return path


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, list[Any]]:
    """A figure of its own: no global state, no window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0].tolist()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.25)
        axis.set_axisbelow(True)
    return figure, axes


def plot_patterns(looked: Looked, found: dict[str, Any], folder: Path) -> Path:
    """A row of examples for each pattern, each with its question."""
    pictures, captions = [], []
    columns = max(len(pattern["examples"]) for pattern in found["patterns"])
    for number, pattern in enumerate(found["patterns"], 1):
        for place, example in enumerate(pattern["examples"]):
            pixels = looked.pictures[example["place"]].permute(1, 2, 0).numpy()
            pictures.append(overlay(pixels, looked.allocation(example["place"])))
            lead = f"{number} ({pattern['share']:.0%})  " if place == 0 else ""
            captions.append(lead + example["question"])
        blank = columns - len(pattern["examples"])
        pictures += [np.full((32, 32, 3), 255, np.uint8)] * blank
        captions += [""] * blank
    path = folder / "patterns.png"
    with replacing(path) as temporary:
        contact_sheet(pictures, captions, columns=columns, shape=1.0).save(temporary, format="PNG", optimize=True)
    return path


def plot_statistics(found: dict[str, Any], folder: Path) -> Path:
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


def plot_tensions(tensions: dict[str, Any], folder: Path) -> Path:
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
                bounds = [[point[f"{name} {side}"] for point in points] for side in ("low", "high")]
                axis.fill_between(steps, *bounds, color=colour, alpha=0.12)
        axis.axhline(0.5, color="grey", linewidth=0.6)
        axis.set(title=title, ylim=(0, 1), xlabel="step")
    axes[0].set_ylabel("tension")
    axes[1].legend(frameon=False, fontsize=8)
    return _save(figure, folder / "tensions.png")


def plot_curve(outcomes: dict[str, Any], folder: Path) -> Path:
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
