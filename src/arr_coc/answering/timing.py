"""What a card gives: a Qwen3-VL of random weights timed from the processor's patches to the first token.

Speed does not depend on the weights, so nothing is downloaded. `arr-coc doctor --device cuda` shows it in a minute;
benchmarks/foveate_gpu.py measures more ways by the same parts:

    full      every patch through the encoder
    map       leaves before the encoder by a map that is given: what foveating costs when the search is free
    scorer    the same, the map searched for by the bundled scorer
    glance    the same, by the model's own attention on a coarse view; its leaves that stay are not encoded again

`search` is planning: relevance, allocation (`plan_prompt`); `vision` is `realize`: pyramid, patches, tower, splicing;
`prefill` is the language model. These are the functions that `attach` and `ask` run, in their order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from PIL import Image, ImageDraw
from torch import Tensor

from ..attending.request import Request
from ..core.errors import InputError
from ..core.values import JsonObject
from ..realizing.attachment_plan import PromptPlan, Settings, plan_prompt
from ..realizing.base import DecodingStep, Realized
from ..realizing.glance import Glance
from ..realizing.qwen3_vl.adapter import Qwen3VL
from ..realizing.qwen3_vl.encode import VisualTokens, dense_vision_attention, encode_leaves
from ..realizing.qwen3_vl.graph import Graphs
from ..realizing.tokens.patches import LeafBatch, gather_leaf_patches, mip_pyramid
from .decoding import Prefilled, greedy_steps, lean_prompt, prefill

CELL, MAP_SIDE, TEXT_TOKENS, NEW_TOKENS = 32, 64, 40, 32
KEEPS = (1 / 4, 1 / 8)
SOURCES = ("map", "scorer", "glance")
PROCESSOR: Any = SimpleNamespace(
    image_processor=SimpleNamespace(do_normalize=True, image_mean=[0.5] * 3, image_std=[0.5] * 3), tokenizer=None
)
WORDS = ("Invoice", "Total", "Street", "Name", "Account", "Date", "Amount", "Reference")
QUESTION = "What does the red sign say?"


def call_milliseconds(work: Callable[[], object], cuda: bool) -> float:
    """One call, by events of the GPU where it works there."""
    if not cuda:
        started = perf_counter()
        work()
        return 1000 * (perf_counter() - started)
    import torch

    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    work()
    last.record()
    last.synchronize()
    return first.elapsed_time(last)


def median_milliseconds(work: Callable[[], object], repeats: int, cuda: bool, warm_up: int = 3) -> float:
    """The median of `repeats` calls, after `warm_up` calls that do not count."""
    taken = [call_milliseconds(work, cuda) for _ in range(warm_up + repeats)]
    return median(taken[warm_up:])


def measured_on(device: torch.device) -> dict[str, str]:
    """When and with what something was measured: date, card, and the versions of what counts."""
    versions = {}
    for name in ("arr-coc", "torch", "transformers", "triton"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = str(getattr(import_found(name), "__version__", "none"))
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "card": card, **versions}


def import_found(name: str) -> object:
    """A module by the name of its distribution, where there is one."""
    try:
        return import_module(name.replace("-", "_"))
    except ImportError:
        return None


def write_report(out: Path, part: str, report: dict[str, object], device: torch.device) -> Path:
    """What a benchmark measured so far, as `<part>_gpu.json`; a kill leaves the last one whole.

    Args:
        out: A folder, made where it is missing.
        part: Of the tables.
        report: With "done", whether it is complete, and "tables": markdown by title.
        device: It was measured on.

    Returns:
        Where it lies.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{part}_gpu.json"
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps({**measured_on(device), **report}, indent=1), encoding="utf-8")
    unfinished.replace(path)
    return path


def text_shape(
    hidden: int, inner: int, layers: int, heads: int, vocabulary: int = 151936, head: int = 128
) -> dict[str, object]:
    section = [head // 2 - 2 * (head * 5 // 32), head * 5 // 32, head * 5 // 32]
    return {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": min(heads, 8),
        "head_dim": head,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 5e6,
            "mrope_section": section,
            "mrope_interleaved": True,
        },
    }


def vision_shape(depth: int, hidden: int, inner: int, out: int, heads: int, planes: list[int]) -> dict[str, object]:
    sizes = {"depth": depth, "hidden_size": hidden, "intermediate_size": inner, "num_heads": heads}
    return {**sizes, "out_hidden_size": out, "deepstack_visual_indexes": planes}


MODELS = {
    "2B": (text_shape(2048, 6144, 28, 16), vision_shape(24, 1024, 4096, 2048, 16, [5, 11, 17])),
    "8B": (text_shape(4096, 12288, 36, 32), vision_shape(27, 1152, 4304, 4096, 16, [8, 16, 24])),
}
TINY = {"tiny": (text_shape(64, 128, 4, 4, 256, 32), vision_shape(4, 64, 128, 64, 4, [0, 1, 2]))}


def build(shape: tuple[JsonObject, JsonObject], device: torch.device, dtype: torch.dtype) -> Any:
    """A stock Qwen3-VL of these shapes with random weights, whose answers do not end by themselves."""
    config = transformers.Qwen3VLConfig(text_config=shape[0], vision_config=shape[1])
    config.image_token_id = shape[0]["vocab_size"] - 1
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            model = transformers.Qwen3VLForConditionalGeneration(config).eval()
    finally:
        torch.set_default_dtype(before)
    model.generation_config.eos_token_id = None  # random weights end an answer anywhere
    return model


def page_of_words(side: int, seed: int) -> Tensor:
    """(3, side, side) in [-1, 1]: a page full of lines, as documents are; sensing its letters takes its time."""
    words, page = Random(seed), Image.new("RGB", (side, side), "white")
    draw = ImageDraw.Draw(page)
    for top in range(8, side - 16, 26):
        line = " ".join(f"{words.choice(WORDS)} {words.randrange(10000)}" for _ in range(side // 90))
        draw.text((12, top), line, fill=(20, 20, words.randrange(120)), font_size=18)
    return torch.from_numpy(np.asarray(page).copy()).permute(2, 0, 1) / 127.5 - 1


class Stopwatch:
    """Median milliseconds of a call, by CUDA events where there are any."""

    def __init__(self, device: torch.device, seconds: float, least: int = 3) -> None:
        self.cuda = device.type == "cuda"
        self.seconds = seconds
        self.least = least

    def __call__(self, work: Callable[[], object]) -> float:
        first = call_milliseconds(work, self.cuda)
        # A second warm-up where it is cheap; what takes half a second has warmed up by itself.
        typical = call_milliseconds(work, self.cuda) if first < 500 and self.least > 1 else first
        runs = max(self.least, min(15, int(1000 * self.seconds / max(typical, 1e-3))))
        return median_milliseconds(work, runs, self.cuda, warm_up=0)


class GpuCase:
    """One model, one picture size, one batch: the stages, each a function of what the stage before it gave."""

    def __init__(self, model: Any, side: int, batch: int, device: torch.device, sources: Sequence[str]) -> None:
        self.model, self.side, self.batch, self.device = model, side, batch, device
        self.rows = side // CELL
        self.full = self.rows**2
        self.backbone = Qwen3VL()
        random = torch.Generator(device=device).manual_seed(side + batch)
        self.pictures = torch.stack([page_of_words(side, number) for number in range(batch)]).to(device)
        self.maps = list((torch.rand(batch, MAP_SIDE, MAP_SIDE, generator=random, device=device) ** 4).cpu().numpy())
        self.image = model.config.image_token_id
        self.inputs = self.processed(self.pictures)
        every = {"map": self.maps, "scorer": "scorer", "glance": Glance()}
        self.sources = {name: every[name] for name in sources}

    def processed(self, pictures: Tensor) -> dict[str, Tensor]:
        """What the processor gives: patches of the whole picture, and a prompt with a placeholder for each cell."""
        rows, cols = pictures.shape[2] // CELL, pictures.shape[3] // CELL
        places = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij"), -1).view(-1, 2)
        leaves = F.pad(places, (0, 1)).to(self.device).expand(len(pictures), -1, -1)
        batch = LeafBatch.equal(leaves, (rows, cols), 1)
        patches = gather_leaf_patches(mip_pyramid(pictures, 1, CELL), batch.leaves, batch.owner)
        grid = torch.tensor([[1, 2 * rows, 2 * cols]] * len(pictures))
        ids = self.prompt(rows * cols)
        shown = {"pixel_values": patches, "image_grid_thw": grid}
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **shown}

    def prompt(self, tokens: int) -> Tensor:
        ids = torch.ones(self.batch, tokens + TEXT_TOKENS, dtype=torch.long, device=self.device)
        ids[:, 4 : 4 + tokens] = self.image
        return ids

    def plan(self, source: object, tokens: int) -> PromptPlan:
        settings = Settings(Request(tokens), query=QUESTION, relevance=source)
        return plan_prompt(self.backbone, self.model, PROCESSOR, self.inputs, settings)

    def realize(self, plan: PromptPlan, tower: Callable[..., VisualTokens] | None = None) -> Realized:
        return self.backbone.realize(self.model, self.inputs, plan.allocations, **plan.options, tower=tower)

    def encode(self, inputs: dict[str, Tensor], tower: Callable[..., VisualTokens] | None = None) -> Realized:
        """Every cell of the pictures through the encoder, and the prompt as it is."""
        rows, cols = (inputs["image_grid_thw"][0, 1:] // 2).tolist()
        places = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij"), -1).view(-1, 2)
        batch = LeafBatch.equal(
            F.pad(places, (0, 1)).to(self.device).expand(self.batch, -1, -1).contiguous(), (rows, cols), 1
        )
        run = partial(encode_leaves, self.model) if tower is None else tower
        return self.backbone.splice(self.model, inputs, batch, run(inputs["pixel_values"], batch))

    def first(self, realized: Realized) -> Prefilled:
        return prefill(self.model, lean_prompt(realized))

    def first_by_graph(self, realized: Realized, graphs: Graphs) -> object:
        return next(self.steps_by_graph(realized, graphs))

    def steps_by_graph(self, realized: Realized, graphs: Graphs) -> Iterator[DecodingStep]:
        speaker = graphs.speaker(lean_prompt(realized), NEW_TOKENS)
        return greedy_steps(speaker, [], NEW_TOKENS, check_every=8)


def time_ways(
    case: GpuCase, watch: Stopwatch, graphs: Graphs | None, keeps: Sequence[float] = KEEPS
) -> list[JsonObject]:
    """`full` and every source of the case at each share, without graphs and, where they are given, with them.

    Every total is measured from end to end, not added up.

    Returns:
        Rows of way, keep, tokens, and the milliseconds of search, vision, prefill and total.
    """
    rows: list[dict[str, object]] = []
    captured = [] if graphs is None else [(" + graph", graphs.tower, partial(case.first_by_graph, graphs=graphs))]
    for name, tower, first in [("", None, case.first), *captured]:
        see = partial(case.encode, tower=tower)
        rows.append(time_way(case, watch, ("full" + name, 1.0), (lambda: case.inputs, see, first)))
        for keep in keeps:
            count = round(case.full * keep)
            for way, source in case.sources.items():
                stages = partial(case.plan, source, count), partial(case.realize, tower=tower), first
                rows.append(time_way(case, watch, (way + name, keep), stages))
    return rows


def time_way(
    case: GpuCase,
    watch: Stopwatch,
    name: tuple[str, float],
    stages: tuple[Callable[[], Any], Callable[[Any], Realized], Callable[[Realized], Any]],
) -> dict[str, object]:
    """One row: how long search, vision and prefill take, and all three from end to end."""
    search, see, first = stages
    found = search()
    realized = see(found)
    tokens = int((realized.inputs["input_ids"] == case.image).sum()) // case.batch
    return {
        **{"way": name[0], "keep": name[1], "tokens": tokens},
        "search": watch(search),
        "vision": watch(lambda: see(found)),
        "prefill": watch(lambda: first(realized)),
        "total": watch(lambda: first(see(search()))),
    }


@torch.inference_mode()
def time_card(device: str, sides: Sequence[int] = (1024, 2048), seconds: float = 45.0) -> JsonObject:
    """What a card gives at a quarter of the tokens, one picture at a time.

    Args:
        device: cuda, cuda:1, or cpu, where the model is tiny: that says whether it runs, not how fast a real one is.
        sides: Of square pictures, in pixels. What does not fit into the time is left out.
        seconds: Of the whole measurement, about.

    Returns:
        {"device", "model", "cases": [{"side", "rows"}], "left_out", "advice"}; times in milliseconds.

    Raises:
        InputError: The card has too little memory for the model.
    """
    started, where = perf_counter(), torch.device(device)
    cuda = where.type == "cuda"
    name, shape = next(iter((MODELS if cuda else TINY).items()))
    sides = sides if cuda else [128]
    watch = Stopwatch(where, 0.1, 3) if cuda else Stopwatch(where, 0.0, 1)
    card = torch.cuda.get_device_name(where) if cuda else device
    cases: list[dict[str, object]] = []
    left_out: list[str] = []
    try:
        model = build(shape, where, torch.bfloat16 if cuda else torch.float32)
        with dense_vision_attention(model):
            for side in sides:
                if cases and 4 * (perf_counter() - started) > seconds:
                    left_out.append(f"{side}²")
                    continue
                case = GpuCase(model, side, 1, where, SOURCES)
                cases.append({"side": side, "rows": time_ways(case, watch, Graphs(model) if cuda else None, (1 / 4,))})
    except torch.cuda.OutOfMemoryError as error:
        raise InputError(f"{card} has too little free memory for a model of {name}: {error}") from error
    found = {"device": card, "model": f"Qwen3-VL {name}", "cases": cases}
    return {**found, "left_out": left_out, "advice": advice_of(cases)}


def advice_of(cases: Sequence[JsonObject]) -> list[str]:
    """What to set, by the rows: the faster source for each size, and whether graphs pay."""
    lines = []
    for case in cases:
        rows = {row["way"]: row["total"] for row in case["rows"]}
        full = min(milliseconds for way, milliseconds in rows.items() if way.startswith("full"))
        best = min((way for way in rows if way.startswith(("scorer", "glance"))), key=rows.__getitem__)
        source, _, graph = best.partition(" + ")
        how = f'relevance="{source}", graphs={bool(graph)}'
        faster = f"a quarter of the tokens is {full / rows[best]:.1f} times as fast as all of them with {how}"
        slower = "all tokens are as fast; foveate larger pictures, or several at once"
        lines.append(f"{case['side']}²: {faster if rows[best] < full else slower}")
    return lines
