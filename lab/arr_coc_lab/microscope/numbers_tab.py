"""Numbers: the needle and hypotheses tables as plots with intervals, from the JSON that the benches wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from arr_coc.app.microscope import markup
from arr_coc.app.microscope.desk import Desk
from arr_coc.app.microscope.kit import PRIVATE, QUICK, MicroscopePage, SheetContent, TabSheet, program
from arr_coc.app.microscope.linking import PageState
from arr_coc.core.errors import InputError
from arr_coc.core.folders import WEIGHTS
from arr_coc.core.values import JsonObject

from ..bench.hypotheses import COLUMNS, HypothesisMeasurement, hypotheses_table
from ..bench.needle import budgets, fraction, read_document
from ..bench.report import TableCell, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

DOCS = Path(__file__).parents[3] / "docs"
NEEDLE, HYPOTHESES = "needle", "hypotheses"


def find_numbers(name: str, folder: Path | None) -> Path | None:
    """needle.json or hypotheses.json: in the folder that was given, with the weights, or in a checkout's docs."""
    places = [folder] if folder is not None else [WEIGHTS, WEIGHTS / "numbers", WEIGHTS / name, DOCS]
    names = (f"{name}.json", "measured.json") if name == HYPOTHESES else (f"{name}.json", "results.json")
    return next((place / one for place in places for one in names if (place / one).is_file()), None)


def show_numbers(desk: Desk, state: PageState) -> SheetContent:
    parts, plots, document, paths = [], [], {}, {}
    for name, show in ((NEEDLE, show_needle), (HYPOTHESES, show_hypotheses)):
        path = find_numbers(name, desk.numbers)
        if path is None:
            parts.append(markup.sentence(f"No {name}.json yet: `arr-coc bench {name} --out DIR` measures it, and "
                                  f"`arr-coc microscope --numbers DIR` shows it."))  # fmt: skip
            continue
        try:
            html, graphs, data = show(path)
        except (InputError, KeyError, TypeError, ValueError) as error:
            parts.append(markup.sentence(f"{path.name} cannot be shown: {error}", alarm=True))
            continue
        parts.append(html)
        plots += graphs
        document[name], paths[name] = data, path
    return SheetContent(
        "numbers",
        "".join(parts),
        lambda: stacked([markup.as_picture(plot) for plot in plots]),
        lambda: document,
        number_lines(paths),
        state.link(),
    )


def show_needle(path: Path) -> tuple[str, list[Plot], Mapping[str, object]]:
    document = read_document(path)
    keeps = budgets(document)
    plots = [interval_lines(document["means"], "Mean over families")]
    for keep in keeps[:1]:
        cells = [row for row in document["cells"] if row["keep"] in (1, keep)]
        families = list(dict.fromkeys(row["family"] for row in cells))
        strategies = list(dict.fromkeys(row["strategy"] for row in cells))
        by_place = {(row["family"], row["strategy"]): row for row in cells}
        series = {name: [by_place[family, name] for family in families] for name in strategies}
        plots.append(dots(families, series, f"By family, at {fraction(keep)} of the tokens", "exact match, %"))
    rows = [
        {
            "what": row["what"],
            "value": _percent(row),
            "bar": f"{'≤' if row.get('most') else '≥'}\u00a0{100 * row['bar']:g}",
            "kept": {True: "kept", False: "missed", None: "open"}[row["kept"]],
            "kind": {True: "good", False: "bad", None: ""}[row["kept"]],
        }
        for row in document["bars"]
    ]
    columns = {"what": "what was promised", "value": "measured, % [95 %]", "bar": "bar", "kept": "verdict"}
    graphs = "".join(markup.as_svg(plot, f"needle plot {number}") for number, plot in enumerate(plots))
    html = (
        f'<h3>Needle World</h3><div class="plots">{graphs}</div>'
        f"{markup.table(columns, rows, 'What was promised on Needle World')}{facts_list(document['facts'])}"
    )
    return html, plots, document


def _tokens(row: Mapping[str, object]) -> str:
    """Several rows of one claim differ in their tokens only."""
    return f", {row['tokens']} tokens" if row.get("tokens") else ""


def show_hypotheses(path: Path) -> tuple[str, list[Plot], Mapping[str, object]]:
    document = json.loads(path.read_text(encoding="utf-8"))
    if "cells" in document:  # as measured, picture by picture
        document = hypotheses_table(HypothesisMeasurement.load(path)).to_json()
    rows = document["rows"]
    drawn = [
        row
        for row in rows
        if isinstance(row.get("difference"), Mapping) and row["difference"].get("unit", "points") == "points"
    ]
    labels = [f"{row['claim']}\n{row['system']} − {row['against']}{_tokens(row)}" for row in drawn]
    plots = (
        [forest(labels, [row["difference"] for row in drawn], [row["verdict"] for row in drawn], "System minus rival")]
        if drawn
        else []
    )
    shown = [
        {
            **{key: _written(row.get(key)) for key in COLUMNS},
            "kind": {"holds": "good", "fails": "bad"}.get(row["verdict"], ""),
        }
        for row in rows
    ]
    graphs = "".join(markup.as_svg(plot, "differences of the hypotheses") for plot in plots)
    rivals = markup.table(COLUMNS, shown, "Each claim against its rival")
    html = f'<h3>Hypotheses</h3><div class="plots wide">{graphs}</div>{rivals}'
    return html + facts_list(document["facts"]), plots, document


def _percent(row: JsonObject) -> str:
    if "low" not in row:
        return f"{100 * row['value']:.1f}"
    return f"{100 * row['value']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"


def _written(cell: JsonObject | TableCell) -> str:
    """A cell as the benches write it, from its JSON."""
    from ..bench.report import Quantity

    return str(Quantity(**cell)) if isinstance(cell, Mapping) else written(cell)


def facts_list(facts: Mapping[str, str]) -> str:
    return (
        "<ul class='facts'>"
        + "".join(f"<li>{escape(f'{key}: {value}')}</li>" for key, value in facts.items())
        + "</ul>"
    )


def stacked(pictures: list[Image.Image]) -> Image.Image:
    """Plots one below the other on one sheet."""
    if not pictures:
        raise InputError("there are no numbers to draw yet")
    width = max(one.width for one in pictures)
    sheet = Image.new("RGB", (width, sum(one.height for one in pictures)), "white")
    top = 0
    for one in pictures:
        sheet.paste(one, (0, top))
        top += one.height
    return sheet


def number_lines(paths: Mapping[str, Path]) -> str:
    imports, lines = ["from pathlib import Path"], []
    if NEEDLE in paths:
        imports += [
            "from arr_coc_lab.bench.needle import read_document, tables",
            "from rich.console import Console",
        ]
        lines += [
            f"for table in tables(read_document(Path({_place(paths[NEEDLE], imports)}))):",
            "    Console().print(table.to_rich())",
        ]
    if HYPOTHESES in paths:
        imports += ["import json"]
        lines += [
            f"document = json.loads(Path({_place(paths[HYPOTHESES], imports)}).read_text())",
            "print(document.get('facts', document.get('families')))",
        ]
    return program(imports, lines or ["print('no numbers were measured yet')"])


def _place(path: Path, imports: list[str]) -> str:
    """Where a file lies, as Python: by the package where it comes with it, else by name, since places are private."""
    package = WEIGHTS.parent
    if not path.is_relative_to(package):
        return repr(path.name)
    imports.append("from importlib.resources import files")
    return " / ".join(["files('arr_coc')", *(repr(part) for part in path.relative_to(package).parts)])


def interval_lines(rows: Sequence[JsonObject], title: str) -> Plot:
    """Accuracy against tokens, one line for each way to allocate, 95 % intervals as bars. rows: `means` of needle."""
    figure = markup.new_figure()
    axes = figure.subplots()
    strategies = list(dict.fromkeys(row["strategy"] for row in rows))
    for strategy in strategies:
        chosen = sorted((row for row in rows if row["strategy"] == strategy), key=lambda row: row["tokens"])
        tokens = [row["tokens"] for row in chosen]
        value, low, high = (np.array([100 * row[name] for row in chosen]) for name in ("value", "low", "high"))
        colour = markup.COLOURS.get(strategy, markup.OPEN)
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
    markup.dress(axes)
    return figure


def dots(groups: Sequence[str], series: dict[str, list[JsonObject]], title: str, xlabel: str) -> Plot:
    """Groups down, one dot with its interval for each series. series: name → one row (value, low, high) a group."""
    figure = markup.new_figure(height=1.3 + 0.5 * len(groups))
    axes = figure.subplots()
    place = np.arange(len(groups))[::-1]
    offsets = np.linspace(0.28, -0.28, max(len(series), 2))
    for (name, rows), offset in zip(series.items(), offsets, strict=False):
        value, low, high = (np.array([100 * row[key] for row in rows]) for key in ("value", "low", "high"))
        axes.errorbar(
            value, place + offset, xerr=[value - low, high - value], fmt="o", markersize=4, capsize=2, label=name,
            color=markup.COLOURS.get(name, markup.OPEN), linewidth=1.3,
        )  # fmt: skip
    axes.set_yticks(place, groups)
    axes.set(xlabel=xlabel, title=title, ylim=(-0.6, len(groups) - 0.4))
    markup.dress(axes)
    legend = figure.legend(*axes.get_legend_handles_labels(), frameon=False, ncols=3, loc="outside lower center")
    for text in legend.get_texts():
        text.set_color(markup.INK)
        text.set_fontsize(9.5)
    return figure


def forest(labels: Sequence[str], rows: Sequence[JsonObject], verdicts: Sequence[str], title: str) -> Plot:
    """Differences with their intervals around zero, coloured by verdict. rows: value, low, high, in points."""
    figure = markup.new_figure(height=1.0 + 0.42 * len(labels))
    axes = figure.subplots()
    place = np.arange(len(labels))[::-1]
    colours = {"holds": markup.GOOD, "fails": markup.BAD}
    for y, row, verdict in zip(place, rows, verdicts, strict=True):
        value, low, high = (row.get(name, row["value"]) for name in ("value", "low", "high"))
        colour = colours.get(verdict, markup.OPEN)
        axes.errorbar(
            [value], [y], xerr=[[value - low], [high - value]], fmt="o", color=colour, capsize=3, markersize=5
        )
    axes.axvline(0, color=markup.INK, linewidth=0.8)
    axes.set_yticks(place, labels)
    axes.set(title=title, ylim=(-0.7, len(labels) - 0.3))
    # Long claims leave the axes little room: what does not fit under them goes to the left.
    axes.set_xlabel("difference, points (95 % interval)", loc="right")
    markup.dress(axes)
    return figure


def numbers_tab(page: MicroscopePage) -> None:
    sheet = TabSheet(page, "numbers")
    sheet.exports()

    def measured() -> tuple[object, ...]:
        return sheet.filled(lambda: show_numbers(page.desk, PageState(tab="numbers")))

    sheet.runs(measured, None, sheet.outputs, **QUICK, **PRIVATE)


NUMBERS = ("Numbers", numbers_tab)
