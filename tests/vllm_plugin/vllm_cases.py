"""Prompts that `ask` and vLLM both answer: example pictures, drawn ones, one that the processor must resize."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from arr_coc import Eye, Options
from arr_coc.core.folders import MINI, part_folder
from arr_coc.pictures.ocr import ocr_words
from arr_coc.realizing.bundled import Calibration
from arr_coc_lab.worlds import needle

EXAMPLES = Path(__file__).parents[2] / "src" / "arr_coc" / "examples"
MODEL = str(part_folder(MINI))
OVERRIDES = {"architectures": ["ArrCocQwen3VL"]}
# Greedy words as long as `ask` gives them.
LONGEST = 64


@dataclass(frozen=True)
class Case:
    """One prompt: wish is `arr_coc` of vLLM; text, tokens, logprob are what `ask` says. nearer: whether it has seen the
    picture from another distance than it is given."""

    picture: Image.Image
    question: str
    text: str
    tokens: int
    logprob: float
    nearer: bool
    wish: dict[str, Any] = field(default_factory=dict)


def shown() -> list[tuple[Image.Image, list[str]]]:
    """Eight pictures with two questions each."""
    asked = json.loads((EXAMPLES / "questions.json").read_text(encoding="utf-8"))
    found = [
        (Image.open(EXAMPLES / name).convert("RGB"), [one["query"] for one in questions[:2]])
        for name, questions in asked.items()
    ]
    for family in ("scenes", "cards"):
        drawn = needle.render(family, 1, size=(384, 512), seed=17)
        pixels = drawn.pictures[0]
        pixels = pixels if pixels.dtype == torch.uint8 else (pixels * 255).round().to(torch.uint8)
        picture = Image.fromarray(pixels.permute(1, 2, 0).numpy())
        found.append((picture, [drawn.questions[0], "What does the pink sign say?"]))
    odd = found[2][0].crop((100, 60, 807, 553))
    found.append((odd, ["What does the pink sign say?", "What does the gray sign say?"]))
    return [*found, (small_print(), ["What is the total amount due?", "What is the reference?"])]


def small_print() -> Image.Image:
    """A page with letters of half the height that mini reads best."""
    picture = Image.new("RGB", (512, 384), (250, 250, 246))
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(8)
    for number, line in enumerate(("Invoice 4821 of March", "Total amount due 91.20", "Reference HX 20391")):
        pen.text((40, 40 + number * 16), line, (20, 20, 20), font)
    return picture


def cases() -> list[Case]:
    """What the scorer chooses at several budgets, strategies and distances, and what the caller decides."""
    own = Calibration.beside(part_folder(MINI))  # its levels, and log-probabilities as they are
    eye = Eye.from_pretrained(calibration=replace(own, temperature=1.0, place=None))
    found = []
    for picture, questions in shown():
        eye.set_image(picture)
        ocr_words(np.asarray(picture))  # lines that were read for one question are known to the next
        for number, question in enumerate(questions):
            hows = [{"budget": 31}, {"budget": 100, "strategy": "quadtree"}, {"budget": 192}]
            distances = [{"budget": 48, "scale": scale} for scale in (0.5, 1, 1.5, 2)]
            for how in [*hows, {"budget": 1.0}, *distances] if number == 0 else hows:
                answer = eye.ask(question, options=Options(**how, max_new_tokens=LONGEST, hints="none"))
                said = (answer.text, answer.tokens, math.log(max(1 - answer.uncertainty, 1e-30)))
                said = (*said, answer.allocation.scale != 1)
                found.append(Case(picture, question, *said, how))
                if how == {"budget": 192} or how.get("scale") == 1.5:
                    found.append(Case(picture, question, *said, {"allocation": answer.allocation.to_json()}))
    return found


def prompt(question: str, pictures: list[Image.Image], wish: Any) -> dict[str, Any]:
    """As `LLM.generate` takes it, in the words of the model's chat template."""
    seen = "<|vision_start|><|image_pad|><|vision_end|>" * len(pictures)
    text = f"<|im_start|>user\n{seen}{question}<|im_end|>\n<|im_start|>assistant\n"
    made: dict[str, Any] = {"prompt": text}
    if pictures:
        made["multi_modal_data"] = {"image": pictures}
    if wish is not None:
        made["mm_processor_kwargs"] = {"arr_coc": wish}
    return made
