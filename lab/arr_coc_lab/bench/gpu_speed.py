"""`bench speed --device cuda`: a Qwen3-VL with the shapes of 2B and random weights, stage by stage, on one card.

Speed does not depend on the weights, so nothing is downloaded. Every ask is about a page that was never shown before:
its letters are sensed and its scorer runs each time. Stages, with a synchronisation behind each: `search` is all of
`ask` before the tower (processor, relevance, allocation), `tower` the vision encoder, `prompt` the language model up to
the first token, `decoding` the rest. Systems: every token; a quarter and an eighth by the scorer; the same by a given
map, where the search is free. Each with CUDA graphs and without.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from arr_coc.core.folders import MINI, part_folder
from arr_coc.options import Options

from .machine import machine_facts
from .report import Quantity, Report, Table, TableCell, share_name
from .rows import BenchRow, Key
from .run import Job, Plan
from .suite import SpeedOptions

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye

SIDES, TINY_SIDES = (1024, 2048), (128,)
KEEPS = (1 / 4, 1 / 8)
NEW_TOKENS, LETTERS = 33, 98  # tokens of an answer; tokens of mini's alphabet that are written
STAGES = ("search", "tower", "prompt", "decoding")
SEARCHES = ("scorer", "map")
PLAIN = ", no graphs"
QUESTION = "What does the line in the middle say?"
TOKENS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
# Text and vision shapes of Qwen3-VL-2B, and of a model that only shows that this runs.
SHAPES = {False: (2048, 6144, 28, 16, 151936, 128, 24, 1024, 4096), True: (64, 128, 4, 4, 256, 32, 4, 64, 128)}


def plan(options: SpeedOptions) -> Plan:
    cuda = options.device.startswith("cuda")
    sides = TINY_SIDES if options.tiny else SIDES
    kinds = ("", PLAIN) if cuda else ("",)
    cells = [("full" + kind, 1.0) for kind in kinds]
    cells += [(name + kind, keep) for kind in kinds for name in SEARCHES for keep in KEEPS]
    jobs = [Job(side, tuple(Key(f"{side}²", *cell) for cell in cells)) for side in sides]
    repeats = 1 if options.tiny else min(options.repeats, 7)
    work = GpuWork(options.device, options.tiny, repeats)
    facts = machine_facts(("arr-coc", "torch", "transformers", "triton"))
    facts["model"] = "tiny shapes" if options.tiny else "Qwen3-VL, shapes of 2B, random weights, one picture at a time"
    if cuda:
        import torch

        facts["card"] = torch.cuda.get_device_name(options.device)
    facts["medians of"] = str(repeats)
    settings = {"tiny": options.tiny, "device": options.device}
    return Plan(jobs, work, lambda rows: report_of(rows, facts), settings, "speed_gpu", whole=False)


@dataclass(frozen=True)
class GpuWork:
    """Times one size of pictures."""

    device: str
    tiny: bool
    repeats: int

    def __call__(self, side: int, wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        for key in wanted:
            name = key.system.removesuffix(PLAIN)
            eye = random_eye(self.device, self.tiny, None if name == key.system else False)
            taken, tokens = [], 0
            for number in range(self.repeats + (0 if self.tiny else 2)):  # two that do not count: graphs are captured
                page = page_of_words(side, side, number + 1000 * wanted.index(key))
                seconds, tokens = staged(eye, page, name, key.keep)
                taken.append(seconds)
            counted = taken[-self.repeats :]
            scores = {stage: median(one[stage] for one in counted) for stage in STAGES}
            first = median(one["search"] + one["tower"] + one["prompt"] for one in counted)
            yield BenchRow("speed", *key, {**scores, "first token": first}, "", tokens, first)


# ---- one ask, stage by stage -----------------------------------------------------------------------------------------


@cache
def random_eye(device: str, tiny: bool, graphs: bool | None) -> Eye:
    """A model of random weights that speaks `mini`'s alphabet; its answers do not end by themselves."""
    import torch
    from transformers import AutoConfig, Qwen3VLConfig, Qwen3VLForConditionalGeneration

    from arr_coc.answering.eye import Eye
    from arr_coc.realizing.base import load_processor

    hidden, inner, layers, heads, vocabulary, head, depth, width, wide = SHAPES[tiny]
    part = head * 5 // 32
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_interleaved": True}
    text: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "head_dim": head,
    }
    text |= {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": min(heads, 8)}
    text["eos_token_id"] = None
    text["rope_parameters"] = {**rope, "mrope_section": [head // 2 - 2 * part, part, part]}
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
    eye = Eye(model, processor, relevance="scorer", name="random weights")
    eye.engine.graphs = None if graphs is False else eye.engine.graphs
    return eye


def staged(eye: Eye, page: np.ndarray, name: str, keep: float) -> tuple[dict[str, float], int]:
    """Milliseconds of every stage of one ask, and its visual tokens."""
    options = Options(budget=keep, scale=1)
    if name != "scorer":
        options = options.override(relevance=np.random.default_rng(0).random((64, 64)).astype(np.float32) ** 4)
    eye.set_image(page)
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


def report_of(rows: Sequence[BenchRow], facts: Mapping[str, str]) -> Report:
    """Milliseconds by stage, against every token of the same kind; tokens a second."""
    lines: list[dict[str, TableCell]] = []
    for row in rows:
        kind = PLAIN if row.system.endswith(PLAIN) else ""
        full = next((one for one in rows if (one.question, one.system) == (row.question, "full" + kind)), None)
        times = None if full is None else full.scores["first token"] / row.scores["first token"]
        lines.append(
            {
                "picture": row.question,
                "system": row.system,
                "keep": share_name(row.keep),
                "tokens": row.tokens,
                **{stage: row.scores[stage] for stage in (*STAGES[:3], "first token")},
                "times": None if times is None else Quantity(times, "×"),
                "rate": 1000 * (NEW_TOKENS - 1) / max(row.scores["decoding"], 1e-6),
            }
        )
    columns = {"picture": "picture", "system": "system", "keep": "share", "tokens": "tokens", "search": "search, ms"}
    columns |= {"tower": "tower, ms", "prompt": "prompt, ms", "first token": "first token, ms"}
    tables = [Table("Stages of one ask", {**columns, "times": "× full", "rate": "tokens/s"}, lines)] if lines else []
    return Report(rows, (), tables, facts)
