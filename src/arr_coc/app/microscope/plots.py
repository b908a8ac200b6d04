"""Plots as SVG that takes the page's own colours: text and axes follow light and dark, and can be selected."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ...draw.palette import FIRST, SECOND
from ...errors import InputError
from .markup import css_colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Drawn in this colour, which nothing else has, then replaced by the colour of the text around the plot.
_INK = "#010203"
_FAINT = "#040506"
COLOURS = {
    "scorer": css_colour(SECOND),
    "full": _INK,
    "uniform": css_colour(FIRST),
    "random": "#8a6fb0",
    "shuffled": "#b0548a",
    "oracle": "#3d8f5a",
}
GOOD, BAD, OPEN = "#3d8f5a", "#c43c28", "#8a8a8a"


def new_figure(width: float = 6.0, height: float = 3.6) -> Figure:
    try:
        from matplotlib.figure import Figure as MatplotlibFigure
    except ImportError as error:
        raise InputError("plots need matplotlib: pip install 'arr-coc[microscope]'") from error
    return MatplotlibFigure(figsize=(width, height), layout="constrained")


def dress(axes: Any) -> None:
    """Thin axes in the page's ink, no box."""
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_FAINT)
    axes.tick_params(colors=_INK, which="both", labelsize=10)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(_INK)
        text.set_fontsize(10.5)
    axes.grid(True, axis="both", color=_FAINT, linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)
    legend = axes.get_legend()
    if legend is not None:
        for text in legend.get_texts():
            text.set_color(_INK)
            text.set_fontsize(9.5)


def as_svg(figure: Figure, label: str) -> str:
    """The figure as inline SVG, as wide as its place."""
    from matplotlib import rc_context

    memory = io.StringIO()
    with rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": label}):
        figure.savefig(memory, format="svg", transparent=True, metadata={"Date": None})
    text = memory.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor").replace(_FAINT, "var(--faint)")
    text = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg {_attributes(label)} \1 xmlns="{_XMLNS}">', text, count=1
    )
    # Typefaces of the page, not of the machine that drew it.
    text = re.sub(r"font-family: [^;\"]*|font: ([\d.]+px) [^;\"]*", _own_font, text)
    return f'<div class="plot" tabindex="0" role="group" aria-label="plot">{text}</div>'


_XMLNS = "http://www.w3.org/2000/svg"


def _attributes(label: str) -> str:
    return f'role="img" aria-label="{escape(label)}" width="100%"'


def _own_font(found: re.Match[str]) -> str:
    return f"font-size: {found[1]}" if found[1] else "font-family: inherit"


def as_picture(figure: Figure) -> Any:
    """The figure as a PIL image on paper, for exports."""
    from PIL import Image

    memory = io.BytesIO()
    figure.savefig(memory, format="png", dpi=150, facecolor="white")
    return Image.open(memory).convert("RGB")


def interval_lines(rows: Sequence[dict[str, Any]], title: str) -> Figure:
    """Accuracy against tokens, one line for each way to allocate, 95 % intervals as bars. rows: `means` of needle."""
    figure = new_figure()
    axes = figure.subplots()
    strategies = list(dict.fromkeys(row["strategy"] for row in rows))
    for strategy in strategies:
        found = sorted((row for row in rows if row["strategy"] == strategy), key=lambda row: row["tokens"])
        tokens = [row["tokens"] for row in found]
        value, low, high = (np.array([100 * row[name] for row in found]) for name in ("value", "low", "high"))
        colour = COLOURS.get(strategy, OPEN)
        if strategy == "full":
            axes.axhline(value[0], color=colour, linewidth=1, linestyle=":")
        axes.errorbar(
            tokens, value, yerr=[value - low, high - value], label=strategy, color=colour, marker="o", markersize=4,
            linewidth=1.6, capsize=3,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    ticks = sorted({row["tokens"] for row in rows})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="visual tokens", ylabel="exact match, %", title=title, ylim=(0, 102))
    axes.legend(frameon=False, ncols=3, loc="lower right")
    dress(axes)
    return figure


def dots(groups: Sequence[str], series: dict[str, list[dict[str, Any]]], title: str, xlabel: str) -> Figure:
    """Groups down, one dot with its interval for each series. series: name → one row (value, low, high) a group."""
    figure = new_figure(height=1.3 + 0.5 * len(groups))
    axes = figure.subplots()
    place = np.arange(len(groups))[::-1]
    offsets = np.linspace(0.28, -0.28, max(len(series), 2))
    for (name, rows), offset in zip(series.items(), offsets, strict=False):
        value, low, high = (np.array([100 * row[key] for row in rows]) for key in ("value", "low", "high"))
        axes.errorbar(
            value, place + offset, xerr=[value - low, high - value], fmt="o", markersize=4, capsize=2, label=name,
            color=COLOURS.get(name, OPEN), linewidth=1.3,
        )  # fmt: skip
    axes.set_yticks(place, groups)
    axes.set(xlabel=xlabel, title=title, ylim=(-0.6, len(groups) - 0.4))
    dress(axes)
    legend = figure.legend(*axes.get_legend_handles_labels(), frameon=False, ncols=3, loc="outside lower center")
    for text in legend.get_texts():
        text.set_color(_INK)
        text.set_fontsize(9.5)
    return figure


def forest(labels: Sequence[str], rows: Sequence[dict[str, Any]], verdicts: Sequence[str], title: str) -> Figure:
    """Differences with their intervals around zero, coloured by verdict. rows: value, low, high, in points."""
    figure = new_figure(height=1.0 + 0.42 * len(labels))
    axes = figure.subplots()
    place = np.arange(len(labels))[::-1]
    colours = {"holds": GOOD, "fails": BAD}
    for y, row, verdict in zip(place, rows, verdicts, strict=True):
        value, low, high = (row.get(name, row["value"]) for name in ("value", "low", "high"))
        colour = colours.get(verdict, OPEN)
        axes.errorbar(
            [value], [y], xerr=[[value - low], [high - value]], fmt="o", color=colour, capsize=3, markersize=5
        )
    axes.axvline(0, color=_INK, linewidth=0.8)
    axes.set_yticks(place, labels)
    axes.set(title=title, ylim=(-0.7, len(labels) - 0.3))
    # Long claims leave the axes little room: what does not fit under them goes to the left.
    axes.set_xlabel("difference, points (95 % interval)", loc="right")
    dress(axes)
    return figure


def coherence(
    times: Sequence[float], similarity: Sequence[float | None], tokens: Sequence[int], cuts: Sequence[int], at: int
) -> Figure:
    """Similarity to the frame before, tokens of each frame, the cuts in red, and a mark at the frame that is shown."""
    figure = new_figure(height=3.2)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    known = [(time, value) for time, value in zip(times, similarity, strict=True) if value is not None]
    top.plot([time for time, _ in known], [value for _, value in known], color=COLOURS["scorer"], marker=".")
    top.axhline(0.8, color=_FAINT, linewidth=1, linestyle=":")
    top.set(ylim=(-0.02, 1.06), ylabel="similarity to the\nframe before")
    spacing = (times[-1] - times[0]) / max(1, len(times) - 1) if len(times) > 1 else 1.0
    bottom.bar(times, tokens, width=0.85 * spacing, color=COLOURS["uniform"])
    bottom.set(ylabel="tokens", xlabel="seconds")
    for number in cuts:
        top.axvline(times[number], color=BAD, linewidth=1.2)
        bottom.axvline(times[number], color=BAD, linewidth=1.2)
        top.annotate("cut", (times[number], 1.0), color=BAD, fontsize=9.5, xytext=(3, 0), textcoords="offset points")
    for axes in (top, bottom):
        axes.axvline(times[at], color=_INK, linewidth=0.8, linestyle="--")
        dress(axes)
    return figure
