"""`LightEngine`: the bundled `mini` without torch and transformers.

It serves an `Eye` with one question about one picture on a processor, by ONNX graphs written from the weights. Words,
allocation and uncertainty are those of the stock engine. Importing torch takes longer than the whole answer, so `ask`
and the command use it where it will do (`can_be_quick`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..attending.distance import scaled_size
from ..attending.frame import Frame
from ..attending.grip import Grip
from ..attending.leaves import check_grid, leaves_of
from ..attending.strategies import find_strategy
from ..balancing.choosing import relevances_for
from ..core.errors import InputError
from ..core.folders import MINI, part_folder, verify
from ..core.values import Allocation, JsonObject, timed
from ..decide import View
from ..knowing.registry import find_source
from ..knowing.scene import Scene
from ..options import Options
from ..pictures.document import load_page
from ..pictures.load import resized
from ..realizing.base import DecodingStep, PromptPlan, Settings
from ..realizing.bundled import PLACE, as_trained, without_markers
from ..realizing.qwen3_vl.onnx import OnnxQwen3VL, OnnxSpeaker
from ..texture.type_height import letters_of
from .chat import ChatLook, PictureView, Turn
from .decoding import greedy_steps
from .eye import Eye, beside

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class LightEngine:
    """`mini`, or a folder of its kind, for one question at a time. What it needs of its folder is read once."""

    device, tiled = "cpu", False

    def __init__(self, folder: Path) -> None:
        verify(folder)
        self.folder, self.name, self.grip = folder, folder.name, Grip.known(str(folder))

    @cached_property
    def reader(self) -> OnnxQwen3VL:
        return OnnxQwen3VL(self.folder)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self.folder / "tokenizer.json"))

    @cached_property
    def images(self) -> JsonObject:
        """How the model's processor prepares pictures."""
        return json.loads((self.folder / "preprocessor_config.json").read_text(encoding="utf-8"))

    @cached_property
    def template(self) -> str:
        """The chat with one picture and `PLACE` where the question goes, as the model's template writes it."""
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        text = (self.folder / "chat_template.jinja").read_text(encoding="utf-8")
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        content = [{"type": "image"}, {"type": "text", "text": PLACE}]
        return environment.from_string(text).render(
            messages=[{"role": "user", "content": content}], add_generation_prompt=True
        )

    @cached_property
    def levels(self) -> np.ndarray:
        """(3, 256) float32: what the model's processor makes of the levels of each colour."""
        mean, deviation = (np.array(self.images[name], np.float32)[:, None] for name in ("image_mean", "image_std"))
        return ((np.arange(256) * self.images["rescale_factor"]).astype(np.float32) - mean) / deviation

    @property
    def ends(self) -> list[int]:
        return self.reader.ends

    @property
    def cell(self) -> int:
        return self.images["patch_size"] * self.images["merge_size"]

    def taught_single_questions(self, scorer: object) -> bool:
        """Return True: `mini` was taught single questions."""
        return True

    # ---- looking -------------------------------------------------------------------------------------------------

    def view(self, image: object) -> PictureView:
        """Return the picture as the model's processor resizes it."""
        started = perf_counter()
        picture, words = load_page(image)
        return PictureView(picture, words, {"canvas": self.canvas(picture.pixels)}, perf_counter() - started)

    def look(self, turns: Sequence[Turn], settings: Settings) -> ChatLook:
        """Return where the tokens of the only picture of the only turn go."""
        views = [view for turn in turns for view in turn.views]
        if len(turns) != 1 or len(views) != 1:
            raise InputError("without torch one question is asked about one picture; use Eye.from_pretrained")
        (view,), (turn,) = views, turns
        seconds = {"load": view.seconds, "read": 0.0}
        with timed(seconds, "look"):
            given = settings.options.allocation
            if given is None:
                plan, seen = self._plan(view, settings)
            else:
                given = given[0] if isinstance(given, list) else given
                plan, seen = PromptPlan([given], None, {}), self._view_at(view, given.scale)
                check_grid(given, *self._grid(seen))
        inputs = {"query": as_trained(turn.text, settings.scorer)}
        return ChatLook(inputs, plan, seconds, (seen,), turn.text, self.full_of(view))

    def full_of(self, view: PictureView) -> int:
        """Visual tokens of one picture, untouched."""
        return math.prod(self._grid(view))

    def _grid(self, view: PictureView) -> tuple[int, int]:
        height, width = view.tensors["canvas"].shape[:2]
        return height // self.cell, width // self.cell

    def _view_at(self, view: PictureView, times: float) -> PictureView:
        """Return the picture as the model's processor resizes it once it is shown this many times as large."""
        if times == 1:
            return view
        picture = resized(view.picture, scaled_size(view.tensors["canvas"].shape[:2], times, self.cell))
        return replace(view, picture=picture, tensors={"canvas": self.canvas(picture.pixels)})

    def _plan(self, view: PictureView, settings: Settings) -> tuple[PromptPlan, PictureView]:
        """Return where the tokens go, and the picture as it is seen from the distance chosen."""
        options, full, canvas, picture = settings.options, self.full_of(view), view.tensors["canvas"], view.picture
        tokens, seen = options.tokens(full), [view]
        offers: dict[str, Any] = {"words": options.words, "scorer": settings.scorer, "page": picture.pixels}
        offers |= {"ocr": options.reads(full, options.relevance), "law": options.balancing}
        scene = Scene(canvas, **offers, choosing=tokens < full, share=tokens / full)
        known = relevances_for(options.relevance, [scene], [str(settings.query)])

        def larger(times: float) -> Frame:
            seen.append(self._view_at(view, times))
            size = seen[-1].tensors["canvas"].shape[:2]
            return Frame(size, self.cell, size)

        words = view.words if options.words is None else options.words
        looked_at = View(
            picture.size,
            Frame(canvas.shape[:2], self.cell, canvas.shape[:2]),
            lambda: letters_of(picture.pixels, words, picture.size),
            larger,
            self.grip,
        )
        return PromptPlan.of([looked_at], known, [tokens], options), seen[-1]

    # ---- what the model's processor makes of a picture and a question --------------------------------------------

    def canvas_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return (height, width) of a picture as it is resized: multiples of a cell, not too many pixels."""
        cell, (height, width) = self.cell, size
        if max(size) / min(size) > 200:
            raise InputError(
                f"the picture is {width}×{height}; mini reads none that is 200 times as long as it is wide"
            )
        high, wide = round(height / cell) * cell, round(width / cell) * cell
        most, least = self.images["size"]["longest_edge"], self.images["size"]["shortest_edge"]
        if high * wide > most:
            ratio = math.sqrt(height * width / most)
            high, wide = (max(cell, math.floor(side / ratio / cell) * cell) for side in size)
        elif high * wide < least:
            ratio = math.sqrt(least / (height * width))
            high, wide = (math.ceil(side * ratio / cell) * cell for side in size)
        return high, wide

    def canvas(self, pixels: np.ndarray) -> np.ndarray:
        """Convert (H, W, 3) uint8 → (H', W', 3) uint8, resized."""
        from PIL import Image

        high, wide = self.canvas_size((pixels.shape[0], pixels.shape[1]))
        if (high, wide) == pixels.shape[:2]:
            return pixels
        return np.asarray(Image.fromarray(pixels).resize((wide, high), Image.Resampling.BICUBIC))

    def normalised(self, canvas: np.ndarray) -> np.ndarray:
        """Convert (H, W, 3) uint8 → (3, H, W) float32, scaled."""
        import cv2

        picture = np.empty((3, *canvas.shape[:2]), dtype=np.float32)
        for plane, table, place in zip(cv2.split(canvas), self.levels, picture, strict=True):
            cv2.LUT(plane, table, place)
        return picture

    def prompt_ids(self, query: str, tokens: int) -> list[int]:
        """Return the prompt with `tokens` placeholders; the question is only text, whatever markers it spells."""
        tokenizer = self.tokenizer
        placeholder = str(tokenizer.id_to_token(self.reader.config["image_token_id"]))
        query = without_markers(query, (one.content for one in tokenizer.get_added_tokens_decoder().values()))
        chat = self.template.replace(placeholder, placeholder * tokens, 1).replace(PLACE, query)
        return tokenizer.encode(chat, add_special_tokens=False).ids

    def speak(self, looked: ChatLook, most: int) -> tuple[Generator[DecodingStep], int]:
        """Return the answer, step by step, and the visual tokens that it reads."""
        (view,), (allocation,) = looked.views, looked.plan.allocations
        leaves = leaves_of(allocation)
        ids = self.prompt_ids(looked.inputs["query"], len(leaves))
        with timed(looked.seconds, "encode"):
            seen = self.reader.see(self.normalised(view.tensors["canvas"]), leaves)
            speaker = OnnxSpeaker(self.reader, ids, seen, leaves, self._grid(view))
        return greedy_steps(speaker, self.ends, most), len(leaves)


@lru_cache(maxsize=1)
def light_engine(folder: Path) -> LightEngine:
    """Return the engine of a folder, for every eye of this process."""
    return LightEngine(folder)


def quick_eye(**options: Any) -> Eye:
    """Return the bundled `mini` without torch, for one question about one picture at a time. options: of `Eye`."""
    folder = part_folder(MINI)
    return Eye(light_engine(folder), **{**beside(folder), **options})


def can_be_quick(model: object, options: Options) -> bool:
    """Return whether `LightEngine` suffices: the bundled mini on a processor, and a source that asks no model."""
    relevance, allocation = options.relevance, options.allocation
    if model != MINI or options.device != "cpu" or not isinstance(relevance, str | None):
        return False
    if not find_strategy(options.layout).without_torch:
        return False
    if relevance not in (None, "auto") and find_source(relevance).asks_model:
        return False
    return allocation is None or (isinstance(allocation, Allocation) and bool((allocation.counts == 1).all()))
