"""`bench speed`: time each step beside its naive form and the project's bar; on a GPU, time a Qwen3-VL of 2B shapes.

`--device cuda` times a model with the shapes of Qwen3-VL-2B and random weights, stage by stage. Every ask is about a
new page. Stages, each followed by a synchronisation: `search` is all of `ask` before the tower
(relevance, allocation), `tower` the vision encoder, `prompt` the language model up to the first token, `decoding` the
rest. Systems: every token; a quarter and an eighth by the scorer. Eight pictures are eight prompts in one batch, as
`attach` answers them; every token is then the stock forward.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arr_coc.core.folders import MINI, part_folder
from arr_coc.options import Options

from .report import Quantity, Report, Table, TableCell, machine_facts, share_name
from .rows import BenchRow, Key
from .run import Job, Plan
from .suite import SpeedOptions

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye

THREADS = 2
MOST_COMMANDS = 5  # runs of whole commands, which take seconds
GRID, BUDGET, BATCH = 32, 256, 64
QUESTION = "What number is on the red sign?"
FRAMES, FRAME_SIDE = 31, 512

SIDES, TINY_SIDES = (1024, 2048), (128,)
KEEPS = (1 / 4, 1 / 8)
NEW_TOKENS, LETTERS = 33, 98  # tokens of an answer; tokens of mini's alphabet that are written
STAGES = ("search", "tower", "prompt", "decoding")
EIGHT = "8 × "
# Promised of a row: at most these milliseconds of search, these times faster than every token, these tokens a second.
STAGE_BARS = {
    ("1024²", 1 / 4): (3.5, 1.7, 240),
    ("2048²", 1 / 4): (None, 3.4, 240),
    (EIGHT + "1024²", 1 / 4): (10, 2.7, None),
    (EIGHT + "2048²", 1 / 4): (26, 4.8, None),
    (EIGHT + "2048²", 1 / 8): (None, 8.5, None),
}
TOKENS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
# Text and vision shapes of Qwen3-VL-2B, and of a model that only shows that this runs.
SHAPES = {False: (2048, 6144, 28, 16, 151936, 128, 24, 1024, 4096), True: (64, 128, 4, 4, 256, 32, 4, 64, 128)}


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
    "arr-coc --help": SpeedBar(most=0.5),
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
        return gpu_plan(options)
    jobs = []
    for step, names in STEPS.items():
        keys = [Key(name, OURS) for name in names] + [Key(name, NAIVE) for name in names if BARS[name].naive]
        jobs.append(Job(step, tuple(keys)))
    facts = {**machine_facts(), "threads": str(THREADS)}
    facts["medians of"] = f"{options.repeats} (commands: {min(options.repeats, MOST_COMMANDS)})"
    return Plan(jobs, SpeedWork(options.repeats), lambda rows: bar_report(rows, facts), whole=False)


@dataclass(frozen=True)
class SpeedWork:
    """Measures one step."""

    repeats: int

    def __call__(self, step: str, wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        use_processors(THREADS)
        found: Measured = globals()[f"measure_{step}"](self.repeats)
        for (name, system), value in found.items():
            yield BenchRow("speed", name, system, 1.0, {BARS[name].unit: value})


def bar_report(rows: Sequence[BenchRow], facts: Mapping[str, str]) -> Report:
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
    return dict(zip(ways, time_in_turns([*ways.values()], repeats), strict=True))


def measure_look(repeats: int) -> Measured:
    """A new picture each time, by what stands out and what the question names."""
    from arr_coc.looking import prepare

    pixels = made_picture(1024)
    options = Options(budget=BUDGET, relevance="look")
    return {("look, 1024²", OURS): time_in_turns([lambda: prepare(pixels).look(QUESTION, options)], repeats)[0]}


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
    ((seconds, _),) = _runs([_arr_coc("--help")], repeats)
    return {("arr-coc --help", OURS): seconds}


def measure_photo(repeats: int) -> Measured:
    from PIL import Image

    with TemporaryDirectory() as folder:
        photo = Path(folder) / "photo.jpg"
        tiles = [np.concatenate([made_picture(1000, 4 * row + col) for col in range(4)], 1) for row in range(3)]
        Image.fromarray(np.concatenate(tiles)).save(photo, quality=90)
        arguments = ["look", str(photo), QUESTION, "--set", "relevance=look", "--out", str(Path(folder) / "out")]
        ((seconds, peak),) = _runs([_arr_coc(*arguments)], repeats)
    return {("arr-coc look, 12 MP photo", OURS): seconds, ("arr-coc look, peak memory", OURS): peak / 1e9}


def measure_cold_ask(repeats: int) -> Measured:
    from PIL import Image

    with TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        Image.fromarray(made_picture(512)).save(path)
        commands = [_arr_coc("ask", str(path), QUESTION, "--budget", budget) for budget in ("64", "256")]
        (ours, _), (naive, _) = _runs(commands, repeats)
    return {("arr-coc ask, 512²", OURS): ours, ("arr-coc ask, 512²", NAIVE): naive}


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


def time_in_turns(works: Sequence[Callable[[], object]], repeats: int, warm_up: int = 2) -> list[float]:
    """The median seconds of each way; all take turns, so that whatever else the machine does hits all of them alike."""
    for _ in range(warm_up):
        for work in works:
            work()
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, found in zip(works, seconds, strict=True):
            started = perf_counter()
            work()
            found.append(perf_counter() - started)
    return [median(found) for found in seconds]


def use_processors(number: int) -> None:
    """Use this many processors and threads from now on, here and in child processes."""
    import cv2
    import torch

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:number])
    torch.set_num_threads(number)
    cv2.setNumThreads(number)


# A small interpreter starts the command: on Linux a child's peak memory begins with that of the process that starts it.
LAUNCH = """
import os, sys, time
quiet, started = os.open(os.devnull, os.O_WRONLY), time.perf_counter()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, quiet, 1)])
_, status, usage = os.wait4(child, 0)
print(time.perf_counter() - started, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
sys.exit(os.waitstatus_to_exitcode(status) and 1)
"""


def _runs(commands: list[list[str]], repeats: int) -> list[tuple[float, float]]:
    """Median seconds and peak bytes of each command; in turns, after one run that does not count (files not yet in the
    page cache)."""
    taken: list[list[list[float]]] = []
    for _ in range(min(repeats, MOST_COMMANDS) + 1):
        taken.append([])
        for command in commands:
            line = [sys.executable, "-I", "-S", "-c", LAUNCH, *command]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
            taken[-1].append([float(word) for word in done.stdout.split()[-2:]])
    seconds, peaks = np.median(np.array(taken[1:]), axis=0).T
    return list(zip(seconds.tolist(), peaks.tolist(), strict=True))


def _arr_coc(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "arr_coc", *arguments]


# ---- a model of 2B shapes, stage by stage ----------------------------------------------------------------------------


def gpu_plan(options: SpeedOptions) -> Plan:
    cuda = options.device.startswith("cuda")
    sides = TINY_SIDES if options.tiny else SIDES
    cells = [("full", 1.0), *(("scorer", keep) for keep in KEEPS)]
    jobs = [Job(side, tuple(Key(f"{side}²", *cell) for cell in cells)) for side in sides]
    jobs += [Job(side, tuple(Key(f"{EIGHT}{side}²", *cell) for cell in cells)) for side in sides]
    repeats = 1 if options.tiny else min(options.repeats, 7)
    work = GpuWork(options.device, options.tiny, repeats)
    facts = machine_facts(("torch", "transformers"))
    facts["model"] = "tiny shapes" if options.tiny else "Qwen3-VL, shapes of 2B, random weights"
    if cuda:
        import torch

        facts["card"] = torch.cuda.get_device_name(options.device)
    facts["medians of"] = str(repeats)
    settings = {"tiny": options.tiny, "device": options.device}
    return Plan(jobs, work, lambda rows: stage_report(rows, facts), settings, "speed_gpu", whole=False)


@dataclass(frozen=True)
class GpuWork:
    """Times one size of pictures."""

    device: str
    tiny: bool
    repeats: int

    def __call__(self, side: int, wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        for key in wanted:
            eye, taken, tokens = random_eye(self.device, self.tiny), [], 0
            pictures, way = (8, staged_batch) if key.question.startswith(EIGHT) else (1, staged)
            for number in range(self.repeats + (0 if self.tiny else 2)):  # two that do not count: graphs are captured
                seeds = range(pictures * number, pictures * (number + 1))
                pages = [page_of_words(side, side, seed + 1000 * wanted.index(key)) for seed in seeds]
                seconds, tokens = way(eye, pages, key.keep)
                taken.append(seconds)
            counted = taken[-self.repeats :]
            scores = {stage: median(one[stage] for one in counted) for stage in counted[0]}
            first = median(one["search"] + one["tower"] + one["prompt"] for one in counted)
            yield BenchRow("speed", *key, {**scores, "first token": first}, "", tokens, first)


# ---- one ask, stage by stage -----------------------------------------------------------------------------------------


@cache
def random_eye(device: str, tiny: bool) -> Eye:
    """Return a model with random weights and `mini`'s alphabet; its answers never end early."""
    import torch
    from transformers import AutoConfig, Qwen3VLConfig, Qwen3VLForConditionalGeneration

    from arr_coc.answering.eye import Eye
    from arr_coc.realizing.query import load_processor

    hidden, inner, layers, heads, vocabulary, head, depth, width, wide = SHAPES[tiny]
    part = head * 5 // 32
    rope: dict[str, object] = {"rope_type": "default", "rope_theta": 5e6, "mrope_interleaved": True}
    rope |= {"mrope_section": [head // 2 - 2 * part, part, part]}
    text: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "head_dim": head,
    }
    text |= {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": min(heads, 8)}
    text |= {"eos_token_id": None, "rope_parameters": rope}
    planes = [depth * share // 24 for share in (5, 11, 17)]
    vision: dict[str, Any] = {"depth": depth, "hidden_size": width, "intermediate_size": wide, "num_heads": heads}
    vision |= {"out_hidden_size": hidden, "deepstack_visual_indexes": planes, "temporal_patch_size": 1}
    config, known = Qwen3VLConfig(text_config=text, vision_config=vision), AutoConfig.from_pretrained(part_folder(MINI))
    for name in TOKENS:
        setattr(config, name, getattr(known, name))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if device.startswith("cuda") else torch.float32)
    try:
        with torch.device(device):
            model = Qwen3VLForConditionalGeneration(config).eval()
    finally:
        torch.set_default_dtype(before)
    model.generation_config.eos_token_id = None
    with torch.no_grad():  # no token beyond the alphabet is ever the likeliest
        model.lm_head.weight[LETTERS:] = 0
    processor = load_processor(str(part_folder(MINI)))
    return Eye(model, processor, relevance="scorer", name="random weights")


def staged(eye: Eye, pages: Sequence[np.ndarray], keep: float) -> tuple[dict[str, float], int]:
    """Return milliseconds of every stage of one ask, and its visual tokens; showing every token needs no search."""
    options = Options(budget=keep, scale=1, relevance=np.ones((1, 1), np.float32) if keep == 1 else None)
    eye.set_image(pages[0])
    marks = [clock()]
    looked = eye.prepare(QUESTION, options)
    marks.append(clock())
    speaking, tokens = eye.engine.speak(looked, NEW_TOKENS)
    marks.append(clock())
    next(speaking)
    marks.append(clock())
    for _ in speaking:
        pass
    marks.append(clock())
    return {stage: 1000 * (end - start) for stage, (start, end) in zip(STAGES, pairwise(marks), strict=True)}, tokens


def staged_batch(eye: Eye, pages: Sequence[np.ndarray], keep: float) -> tuple[dict[str, float], int]:
    """Return milliseconds of the stages up to the first tokens of a batch of asks, and their visual tokens."""
    import torch
    from PIL import Image

    from arr_coc.realizing.attachment_plan import plan_prompt
    from arr_coc.realizing.base import Settings

    engine, turn = eye.engine, [{"type": "image"}, {"type": "text", "text": QUESTION}]
    text = eye.processor.apply_chat_template([{"role": "user", "content": turn}], add_generation_prompt=True)
    pictures = [Image.fromarray(page) for page in pages]
    inputs: Any = eye.processor(text=[text] * len(pages), images=pictures, return_tensors="pt").to(engine.device)
    marks = [clock()]
    with torch.no_grad():
        if keep < 1:
            settings = Settings(Options(budget=keep, relevance="scorer", strategy="overlay"))
            plan = plan_prompt(engine.backbone, eye.model, eye.processor, inputs, settings)
            marks.append(clock())
            inputs = engine.backbone.realize(eye.model, inputs, plan.allocations).inputs
            marks.append(clock())
        eye.model(**inputs, logits_to_keep=1)
    marks = [*marks, *marks[-1:] * (3 - len(marks)), clock()]
    taken = {stage: 1000 * (end - start) for stage, (start, end) in zip(STAGES, pairwise(marks), strict=False)}
    return taken, engine.visual_tokens(inputs)


def clock() -> float:
    """The time when all that was asked of the device is done."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return perf_counter()


def page_of_words(width: int, height: int, seed: int) -> np.ndarray:
    """(height, width, 3) uint8: a page full of lines, as documents are."""
    from PIL import Image, ImageDraw

    source, page = random.Random(seed), Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(page)
    for top in range(8, height - 16, 26):
        line = " ".join(f"Line {source.randrange(10000)}" for _ in range(max(1, width // 90)))
        draw.text((12, top), line, fill=(20, 20, source.randrange(120)), font_size=18)
    return np.asarray(page)


def stage_report(rows: Sequence[BenchRow], facts: Mapping[str, str]) -> Report:
    """Milliseconds by stage, against every token of the same pictures; tokens a second; and the bars."""
    lines: list[dict[str, TableCell]] = []
    for row in rows:
        full = next((one for one in rows if (one.question, one.system) == (row.question, "full")), None)
        times = None if full is None else full.scores["first token"] / row.scores["first token"]
        rate = 1000 * (NEW_TOKENS - 1) / row.scores["decoding"] if "decoding" in row.scores else None
        bar = STAGE_BARS.get((row.question, row.keep)) if row.system == "scorer" else None
        most, least, fast = bar or (None, None, None)
        bars = [] if most is None else [(f"search ≤ {most:g}", row.scores["search"] <= most)]
        bars += [] if least is None else [(f"≥ {least:g}×", (times or 0) >= least)]
        bars += [] if fast is None else [(f"≥ {fast} tokens/s", (rate or 0) >= fast)]
        lines.append(
            {
                "picture": row.question,
                "system": row.system,
                "keep": share_name(row.keep),
                "tokens": row.tokens,
                **{stage: row.scores[stage] for stage in (*STAGES[:3], "first token")},
                "times": None if times is None else Quantity(times, "×"),
                "rate": rate,
                "bars": "; ".join(f"{bar}: {'kept' if kept else 'missed'}" for bar, kept in bars) or None,
            }
        )
    columns = {"picture": "picture", "system": "system", "keep": "share", "tokens": "tokens", "search": "search, ms"}
    columns |= {"tower": "tower, ms", "prompt": "prompt, ms", "first token": "first token, ms"}
    columns |= {"times": "× full", "rate": "tokens/s", "bars": "bars"}
    return Report(rows, (), [Table("Stages of one ask", columns, lines)] if lines else [], facts)
