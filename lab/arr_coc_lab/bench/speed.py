"""`bench speed`: on a CPU every bar the project promises, beside its naive form; on a GPU a Qwen3-VL of 2B shapes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

import numpy as np

from arr_coc.options import Options

from . import gpu_speed
from .machine import CommandRun, machine_facts, processors, run_command, time_in_turns
from .report import Quantity, Report, Table, TableCell
from .rows import BenchRow, Key
from .run import Job, Plan
from .suite import SpeedOptions

THREADS = 2
MOST_COMMANDS = 5  # runs of whole commands, which take seconds
GRID, BUDGET, BATCH = 32, 256, 64
PHOTO_TILES, PHOTO_TILE = (3, 4), 1000  # rows and columns of tiles of 1000²: 12 megapixels
QUESTION = "What number is on the red sign?"
FRAMES, FRAME_SIDE = 31, 512
# The same command in a program that imports its libraries at the top, as most do.
EAGER_HELP = """
import sys
import cv2, scipy, torch, transformers
from arr_coc.app.cli import main
main(sys.argv[1:])
"""


class SpeedBar(NamedTuple):
    """What is promised: at most this much, and at least this many times faster than the naive form."""

    unit: str = "s"
    most: float | None = None
    least_ratio: float | None = None
    naive: str = ""


BARS = {
    "quadtree, single": SpeedBar(most=0.003),
    f"quadtree, batch {BATCH}": SpeedBar(most=0.025, naive="one by one"),
    "look, 1024²": SpeedBar(most=0.5),
    "a later frame of a clip, 512²": SpeedBar(most=1 / 15, naive="the first frame"),
    "arr-coc --help": SpeedBar(most=0.5, naive="all imported"),
    "arr-coc look, 12 MP photo": SpeedBar(most=2.0),
    "arr-coc look, peak memory": SpeedBar("GB", most=1.0),
    "ask, 512², 16 tokens": SpeedBar(most=0.1, naive="all 256 tokens"),
    "ask, 512², 64 tokens": SpeedBar(most=0.15, naive="all 256 tokens"),
    "ask, 1024², 256 tokens": SpeedBar(least_ratio=2.5, naive="all 1024 tokens"),
    "arr-coc ask, 512²": SpeedBar(most=3.0, naive="all 256 tokens"),
}
OURS, NAIVE = "ours", "naive"
Measured = dict[tuple[str, str], float]


def plan(options: SpeedOptions) -> Plan:
    if options.device != "cpu" or options.tiny:
        return gpu_speed.plan(options)
    jobs = []
    for step, names in STEPS.items():
        keys = [Key(name, OURS) for name in names] + [Key(name, NAIVE) for name in names if BARS[name].naive]
        jobs.append(Job(step, tuple(keys)))
    facts = {**machine_facts(), "threads": str(THREADS)}
    facts["medians of"] = f"{options.repeats} (commands: {min(options.repeats, MOST_COMMANDS)})"
    return Plan(jobs, SpeedWork(options.repeats), lambda rows: report_of(rows, facts), whole=False)


@dataclass(frozen=True)
class SpeedWork:
    """Measures one step."""

    repeats: int

    def __call__(self, step: str, wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        with processors(THREADS):
            found: Measured = globals()[f"measure_{step}"](self.repeats)
        for name, system in found:
            value = found[name, system]
            yield BenchRow("speed", name, system, 1.0, {BARS[name].unit: value})


def report_of(rows: Sequence[BenchRow], facts: Mapping[str, str]) -> Report:
    found = {(row.question, row.system): next(iter(row.scores.values())) for row in rows}
    lines: list[dict[str, TableCell]] = []
    for name, bar in BARS.items():
        value, naive = found.get((name, OURS)), found.get((name, NAIVE))
        if value is None:
            continue
        limits = [] if bar.most is None else [f"≤ {Quantity(round(bar.most, 3), bar.unit).rounded()}"]
        limits += [] if bar.least_ratio is None else [f"≥ {bar.least_ratio:g}×"]
        ratio = None if naive is None else naive / value
        within = bar.most is None or value <= bar.most
        lines.append(
            {
                "what": name,
                "measured": Quantity(value, bar.unit),
                "bar": " ".join(limits),
                "naive": bar.naive or None,
                "its": None if naive is None else Quantity(naive, bar.unit),
                "ratio": None if ratio is None else Quantity(ratio, "×"),
                "kept": within and (bar.least_ratio is None or (ratio or 0.0) >= bar.least_ratio),
            }
        )
    columns = {"what": "what", "measured": "measured", "bar": "bar", "naive": "naive form", "its": "its cost"}
    table = Table(f"Speed on {THREADS} CPU threads", {**columns, "ratio": "ratio", "kept": "verdict"}, lines)
    return Report(rows, (), [table], facts)


# ---- the steps -------------------------------------------------------------------------------------------------------


def measure_quadtree(repeats: int) -> Measured:
    import torch

    from arr_coc.attending.allocate import allocate
    from arr_coc.attending.tree import build_tree, quadtree

    # Most of it quiet, some of it loud, which is what relevance looks like.
    maps = (np.random.default_rng(0).random((BATCH, GRID, GRID)) ** 4).astype(np.float32)
    batch, tree, several = torch.from_numpy(maps), build_tree(GRID, GRID, 3), f"quadtree, batch {BATCH}"
    ways: dict[tuple[str, str], Callable[[], object]] = {
        ("quadtree, single", OURS): lambda: allocate(maps[0], BUDGET, strategy="quadtree"),
        (several, OURS): lambda: quadtree(batch, tree, BUDGET),
        (several, NAIVE): lambda: [allocate(one, BUDGET, strategy="quadtree") for one in maps],
    }
    return _medians(ways, repeats)


def measure_look(repeats: int) -> Measured:
    """A new picture each time, by what stands out and what the question names."""
    from arr_coc.looking import prepare

    pixels = made_picture(1024)
    return _medians(
        {("look, 1024²", OURS): lambda: prepare(pixels).look(QUESTION, Options(budget=BUDGET, relevance="look"))},
        repeats,
    )


def measure_video(repeats: int) -> Measured:
    """The mean of the frames behind the first, and the first. A scene is drawn at a half and enlarged."""
    import cv2

    from arr_coc.video.stream import VideoStream

    from ..worlds.needle.clips import render_clip

    clip = render_clip("cards", range(1), FRAMES, (FRAME_SIDE // 2, FRAME_SIDE // 2), 3, "validation")
    small = clip.pictures[0].permute(0, 2, 3, 1).numpy()
    frames = [cv2.resize(one, (FRAME_SIDE, FRAME_SIDE), interpolation=cv2.INTER_CUBIC) for one in small]
    first, later = [], []
    for _ in range(min(repeats, MOST_COMMANDS) + 1):
        stream, seconds = VideoStream(QUESTION, budget=0.25), []
        for frame in frames:
            started = perf_counter()
            stream.see(frame)
            seconds.append(perf_counter() - started)
        first.append(seconds[0])
        later.append(sum(seconds[1:]) / len(seconds[1:]))
    name = "a later frame of a clip, 512²"  # the first stream also imports
    return {(name, OURS): median(later[1:]), (name, NAIVE): median(first[1:])}


def measure_ask(repeats: int) -> Measured:
    """A new picture each time, from its pixels to the answer; against the same model on all of its tokens."""
    from arr_coc.asking import ask

    def asking(side: int, budget: int) -> Callable[[], object]:
        pixels = made_picture(side)
        return lambda: ask(pixels, QUESTION, budget=budget)

    small = {16: asking(512, 16), 64: asking(512, 64), 256: asking(512, 256)}
    few, some, every = time_in_turns([*small.values()], repeats, warm_up=1)
    large = time_in_turns([asking(1024, 256), asking(1024, 1024)], min(repeats, MOST_COMMANDS), warm_up=1)
    return {
        ("ask, 512², 16 tokens", OURS): few,
        ("ask, 512², 16 tokens", NAIVE): every,
        ("ask, 512², 64 tokens", OURS): some,
        ("ask, 512², 64 tokens", NAIVE): every,
        ("ask, 1024², 256 tokens", OURS): large[0],
        ("ask, 1024², 256 tokens", NAIVE): large[1],
    }


def measure_help(repeats: int) -> Measured:
    ours, naive = _runs([_arr_coc("--help"), [sys.executable, "-c", EAGER_HELP, "--help"]], repeats)
    return {("arr-coc --help", OURS): _wall(ours), ("arr-coc --help", NAIVE): _wall(naive)}


def measure_photo(repeats: int) -> Measured:
    with TemporaryDirectory() as folder:
        photo = Path(folder) / "photo.jpg"
        write_photo(photo)
        arguments = ["look", str(photo), QUESTION, "--relevance", "look", "--out", str(Path(folder) / "out")]
        (runs,) = _runs([_arr_coc(*arguments)], repeats)
    peak = median(run.peak_bytes for run in runs) / 1e9
    return {("arr-coc look, 12 MP photo", OURS): _wall(runs), ("arr-coc look, peak memory", OURS): peak}


def measure_cold_ask(repeats: int) -> Measured:
    from PIL import Image

    with TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        Image.fromarray(made_picture(512)).save(path)
        commands = [_arr_coc("ask", str(path), QUESTION, *how) for how in (("--budget", "64"), ("--keep", "1"))]
        ours, naive = _runs(commands, repeats)
    return {("arr-coc ask, 512²", OURS): _wall(ours), ("arr-coc ask, 512²", NAIVE): _wall(naive)}


# Steps by the name of their function, each with what it measures.
STEPS = {
    "quadtree": ("quadtree, single", f"quadtree, batch {BATCH}"),
    "look": ("look, 1024²",),
    "video": ("a later frame of a clip, 512²",),
    "help": ("arr-coc --help",),
    "photo": ("arr-coc look, 12 MP photo", "arr-coc look, peak memory"),
    "ask": ("ask, 512², 16 tokens", "ask, 512², 64 tokens", "ask, 1024², 256 tokens"),
    "cold_ask": ("arr-coc ask, 512²",),
}


# ---- what they need --------------------------------------------------------------------------------------------------


def made_picture(side: int, seed: int = 0) -> np.ndarray:
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


def write_photo(path: Path) -> None:
    """A JPEG made of different tiles."""
    from PIL import Image

    rows, cols = PHOTO_TILES
    tiles = [[made_picture(PHOTO_TILE, seed=row * cols + col) for col in range(cols)] for row in range(rows)]
    pixels = np.concatenate([np.concatenate(line, axis=1) for line in tiles])
    Image.fromarray(pixels).save(path, quality=90)


def _medians(ways: Mapping[tuple[str, str], Callable[[], object]], repeats: int) -> Measured:
    return dict(zip(ways, time_in_turns([*ways.values()], repeats), strict=True))


def _arr_coc(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "arr_coc", *arguments]


def _runs(commands: list[list[str]], repeats: int) -> list[list[CommandRun]]:
    """Each command in turns, after one run that does not count (files not yet in the page cache)."""
    taken = [[run_command(command) for command in commands] for _ in range(min(repeats, MOST_COMMANDS) + 1)]
    return [list(runs) for runs in zip(*taken[1:], strict=True)]


def _wall(runs: list[CommandRun]) -> float:
    return median(run.seconds for run in runs)
