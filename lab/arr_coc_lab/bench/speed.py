"""The speed table: every bar the project promises on a CPU, and the naive form of the same work in the same run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from arr_coc.attending.allocate import allocate
from arr_coc.attending.quadtree import quadtree
from arr_coc.attending.tree import build_tree
from arr_coc.texture.batch import sense
from arr_coc.texture.pyramid import pyramid

from .machine import CommandRun, Timing, machine_facts, processors, run_command, time_in_turns
from .options import SpeedOptions
from .report import Quantity, Report, Table, TableCell
from .run import BenchRun
from .suite import suite

THREADS = 2
REPEATS = 15
SIDE, PYRAMID_LEVELS = 1024, 5
# Whole commands take seconds; more repeats of them would make the bench a matter of minutes for no more certainty.
MOST_COMMAND_REPEATS = 5
GRID, BUDGET, BATCH = 32, 256, 64
PHOTO_TILES, PHOTO_TILE = (3, 4), 1000  # rows and columns of tiles of 1000²: 12 megapixels
QUESTION = "What number is on the red sign?"
COLUMNS = suite("speed")["columns"]
# The same command, with every picture held and sensed at full size.
FULL_SIZE_LOOK = """
import sys
import arr_coc.knowing.scene as scene
import arr_coc.looking as looking
from arr_coc.app.cli import main
looking.VIEW_SIDE = scene.SENSE_SIDE = 1 << 20
main(sys.argv[1:])
"""
# The same command in a program that imports its libraries at the top, as most do.
EAGER_HELP = """
import sys
import cv2, scipy, torch, transformers
from arr_coc.app.cli import main
main(sys.argv[1:])
"""

Row = dict[str, TableCell]


class Step(NamedTuple):
    """weights: the step asks the bundled model, and is left out, with a note, where it is not installed."""

    name: str
    measure: Callable[[int], list[Row]]
    weights: bool = False


def measure(options: SpeedOptions, run: BenchRun) -> Report:
    """All rows, with a bar of the steps."""
    with run.progress([step.name for step in STEPS], "measuring") as advance:
        return Report.of(speed_table(options.repeats, advance))


def speed_table(repeats: int = REPEATS, advance: Callable[[str], None] = lambda name: None) -> Table:
    """Measure everything. repeats: of each median. advance: called with the name of each step before it begins."""
    facts = machine_facts()
    steps = [step for step in STEPS if not step.weights or has_weights()]
    with processors(THREADS) as used:
        rows: list[Row] = []
        for step in steps:
            advance(step.name)
            rows += step.measure(repeats)
    if len(steps) < len(STEPS):
        facts["not measured"] = "asking: the bundled weights are not installed"
    facts |= {"threads": str(used), "medians of": f"{repeats} (commands: {_command_repeats(repeats)})"}
    title = f"A picture of {SIDE}², {GRID * GRID} cells to {BUDGET} tokens, {used} CPU threads"
    return Table(title, COLUMNS, tuple(rows), facts)


def speed_row(
    what: str,
    measured: Quantity,
    most: Quantity | None,
    naive: str,
    naive_measured: Quantity,
    least_ratio: float | None = None,
) -> Row:
    """One line: kept is True where the measured value is within the bar, and the ratio too where one is promised."""
    ratio = naive_measured.value / measured.value
    limits = [f"≤ {most.rounded()}"] if most is not None else []
    limits += [f"≥ {least_ratio:g}×"] if least_ratio is not None else []
    within = most is None or measured.value <= most.value
    return {
        "what": what,
        "measured": measured,
        "bar": " ".join(limits),
        "naive": naive,
        "naive_measured": naive_measured,
        "ratio": Quantity(ratio, "×"),
        "kept": within and (least_ratio is None or ratio >= least_ratio),
        "most": most,
        "least_ratio": least_ratio,
    }


def seconds(timing: Timing) -> Quantity:
    return Quantity(timing.median, "s")


# ---- SENSE ----------------------------------------------------------------------------------------------------------


def made_picture(side: int = SIDE, seed: int = 0) -> np.ndarray:
    """(side, side, 3) uint8: smooth colour, coloured squares and a page of stroke-like marks; made, not read."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:side, 0:side] / side
    picture = np.stack([x, y, 1 - x], axis=-1) * 160 + 40
    for top, left, size in generator.integers(0, side * 3 // 4, (24, 3)):
        extent = side // 32 + size // 8
        picture[top : top + extent, left : left + extent] = generator.integers(0, 256, 3)
    marks = generator.random((side // 4, side // 8)) < 0.35
    picture[side // 2 : side // 2 + side // 4, side // 2 : side // 2 + side // 8][marks] = 15
    return np.clip(picture + generator.normal(0, 2, picture.shape), 0, 255).astype(np.uint8)


def measure_texture(what: str, layout: str, most: float, repeats: int) -> list[Row]:
    """The texture by the OpenCV back end against the same channels by plain torch operations."""
    picture = made_picture()
    ours, plain = time_in_turns(
        [lambda: sense(picture, layout), lambda: sense(picture, layout, backend="torch")], repeats
    )
    return [speed_row(what, seconds(ours), Quantity(most, "s"), "plain torch", seconds(plain))]


def measure_pyramid(repeats: int) -> list[Row]:
    """The 40-channel pyramid with all its reducers against bare average pooling of the same tensor (NCHW)."""
    texture = sense(made_picture(), "full40")
    data = texture.batch()

    def pooled() -> None:
        current = data
        for _ in range(PYRAMID_LEVELS - 1):
            current = F.avg_pool2d(current, 2)

    ours, plain = time_in_turns([lambda: pyramid(texture, PYRAMID_LEVELS), pooled], repeats)
    bar = Quantity(0.045, "s")
    return [speed_row("40-channel pyramid", seconds(ours), bar, "avg_pool2d", seconds(plain), least_ratio=3)]


# ---- ATTEND ---------------------------------------------------------------------------------------------------------


def relevance_maps(number: int = BATCH) -> np.ndarray:
    """(number, GRID, GRID) float32: most of it quiet, some of it loud, which is what relevance looks like."""
    return (np.random.default_rng(0).random((number, GRID, GRID)) ** 4).astype(np.float32)


def measure_quadtree(repeats: int) -> list[Row]:
    maps = relevance_maps()
    batch, tree = torch.from_numpy(maps), build_tree(GRID, GRID, 3)
    one, one_heap = time_in_turns(
        [lambda: allocate(maps[0], BUDGET, strategy="quadtree"), lambda: heap_quadtree(maps[0], BUDGET)], repeats
    )
    many, many_heap = time_in_turns(
        [lambda: quadtree(batch, tree, BUDGET), lambda: [heap_quadtree(one, BUDGET) for one in maps]], repeats
    )
    return [
        speed_row("quadtree, single", seconds(one), Quantity(0.003, "s"), "Python heap", seconds(one_heap)),
        speed_row(
            f"quadtree, batch {BATCH}",
            *(seconds(many), Quantity(0.025, "s"), "Python heap", seconds(many_heap)),
            least_ratio=20,
        ),
    ]


# ---- whole commands -------------------------------------------------------------------------------------------------


def measure_help(repeats: int) -> list[Row]:
    ours, naive = _runs([_arr_coc("--help"), _program(EAGER_HELP, "--help")], _command_repeats(repeats))
    return [speed_row("arr-coc --help", _wall(ours), Quantity(0.5, "s"), "all imported", _wall(naive))]


def measure_look(repeats: int) -> list[Row]:
    with TemporaryDirectory() as folder:
        photo = Path(folder) / "photo.jpg"
        megapixels = write_photo(photo)
        arguments = ["look", str(photo), QUESTION, "--relevance", "look", "--out", str(Path(folder) / "out")]
        commands = [_arr_coc(*arguments), _program(FULL_SIZE_LOOK, *arguments)]
        ours, naive = _runs(commands, _command_repeats(repeats))
    what, form = f"look, {megapixels:.0f} MP photo", "at full size"
    return [
        speed_row(what, _wall(ours), Quantity(2.0, "s"), form, _wall(naive)),
        speed_row("look, peak memory", _peak(ours), Quantity(1.0, "GB"), form, _peak(naive)),
    ]


def measure_ask(repeats: int) -> list[Row]:
    """A new picture each time, from its pixels to the answer; against the same model on all of its tokens."""
    from arr_coc.asking import ask

    def asking(side: int, budget: int) -> Callable[[], object]:
        pixels = made_picture(side)
        return lambda: ask(pixels, QUESTION, budget=budget)

    few, small, small_full = time_in_turns([asking(512, 16), asking(512, 64), asking(512, 256)], repeats, warm_up=1)
    repeats = _command_repeats(repeats)
    large, large_full = time_in_turns([asking(1024, 256), asking(1024, 1024)], repeats, warm_up=1)
    form = "all 256 tokens"
    return [
        speed_row("ask, 512², 16 tokens", seconds(few), Quantity(0.1, "s"), form, seconds(small_full)),
        speed_row("ask, 512², 64 tokens", seconds(small), Quantity(0.15, "s"), form, seconds(small_full)),
        speed_row(
            "ask, 1024², 256 tokens", seconds(large), None, "all 1024 tokens", seconds(large_full), least_ratio=2.5
        ),
    ]


def measure_cold_ask(repeats: int) -> list[Row]:
    from PIL import Image

    with TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        Image.fromarray(made_picture(512)).save(path)
        commands = [_arr_coc("ask", str(path), QUESTION, *how) for how in (("--budget", "64"), ("--keep", "1"))]
        ours, naive = _runs(commands, _command_repeats(repeats))
    return [speed_row("arr-coc ask, 512²", _wall(ours), Quantity(3.0, "s"), "all 256 tokens", _wall(naive))]


def has_weights() -> bool:
    from arr_coc.core.errors import InputError
    from arr_coc.core.folders import MINI, SCORER, part_folder

    try:
        return all(part_folder(part).is_dir() for part in (MINI, SCORER))
    except InputError:
        return False


def write_photo(path: Path) -> float:
    """A JPEG made of different tiles; returns its megapixels."""
    from PIL import Image

    rows, cols = PHOTO_TILES
    tiles = [[made_picture(PHOTO_TILE, seed=row * cols + col) for col in range(cols)] for row in range(rows)]
    pixels = np.concatenate([np.concatenate(line, axis=1) for line in tiles])
    Image.fromarray(pixels).save(path, quality=90)
    return pixels.shape[0] * pixels.shape[1] / 1e6


def _arr_coc(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "arr_coc", *arguments]


def _program(source: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", source, *arguments]


def _command_repeats(repeats: int) -> int:
    return min(repeats, MOST_COMMAND_REPEATS)


def _runs(commands: list[list[str]], repeats: int) -> list[list[CommandRun]]:
    """Each command `repeats` times, in turns, after one run that does not count (files not yet in the page cache)."""
    taken = [[run_command(command) for command in commands] for _ in range(repeats + 1)]
    return [list(runs) for runs in zip(*taken[1:], strict=True)]


def _wall(runs: list[CommandRun]) -> Quantity:
    return Quantity(median(run.seconds for run in runs), "s")


def _peak(runs: list[CommandRun]) -> Quantity:
    return Quantity(median(run.peak_bytes for run in runs) / 1e9, "GB")


STEPS = (
    Step("mvp13", partial(measure_texture, "mvp13", "mvp13", 0.025)),
    Step("full40", partial(measure_texture, "full40, SLIC, text", "full40", 0.150)),
    Step("pyramid", measure_pyramid),
    Step("quadtree", measure_quadtree),
    Step("arr-coc --help", measure_help),
    Step("arr-coc look", measure_look),
    Step("ask", measure_ask, weights=True),
    Step("arr-coc ask", measure_cold_ask, weights=True),
)


# ----------------------------------------------------------------------------------------------------------------------
# The quadtree as a textbook writes it: a heap in plain Python, one picture at a time. The allocator's naive form.


def heap_quadtree(relevance: np.ndarray, budget: int, levels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Pop the node with most relevance inside, push its four children, repeat: what `allocation.quadtree` computes.

    relevance: (rows, cols) of level-0 cells, both sides divisible by 2**levels. Returns (N, 3) row, column and level of
    the leaves in raster order, and (N,) their mean relevance.
    """
    rows, cols = relevance.shape
    side = 1 << levels
    # Ties go to the coarser node, then to the earlier place.
    heap = [
        (-float(relevance[row : row + side, col : col + side].sum()), -levels, row, col)
        for row in range(0, rows, side)
        for col in range(0, cols, side)
    ]
    heapify(heap)
    leaves = []
    count = len(heap)
    while heap and count + 3 <= budget:
        _, level, row, col = heappop(heap)
        level = -level - 1
        side = 1 << level
        count += 3
        for child_row in (row, row + side):
            for child_col in (col, col + side):
                mass = float(relevance[child_row : child_row + side, child_col : child_col + side].sum())
                if level:
                    heappush(heap, (-mass, -level, child_row, child_col))
                else:
                    leaves.append((child_row, child_col, 0, mass))
    leaves += [(row, col, -level, -negative / 4**-level) for negative, level, row, col in heap]
    leaves.sort()
    cells = np.array([leaf[:3] for leaf in leaves])
    return cells, np.array([leaf[3] for leaf in leaves], dtype=np.float32)
