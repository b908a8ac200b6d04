"""`QuickEye`: the bundled `mini` without torch and transformers.

It is `Eye` for one question about one picture on a processor, by ONNX graphs written from the weights. Words,
allocation and uncertainty are those of `Eye`. Importing torch takes longer than the whole answer, so `ask` and the
command use it where it will do (`can_be_quick`).
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..allocation.allocate import allocate
from ..allocation.distance import (
    Distance,
    at_distance,
    choose_distance,
    distance_of,
    reading_option,
    scaled_size,
)
from ..allocation.frame import check_grid, in_picture, leaves_of
from ..allocation.grip import Grip
from ..allocation.request import ASK_KEYWORDS, Request, check_decided, check_question, check_request
from ..allocation.strategies import DEFAULT_STRATEGY, without_torch
from ..core.errors import InputError
from ..core.folders import MINI, part_folder
from ..core.manifest import verify
from ..core.values import Allocation, Answer, Pass, Relevance
from ..models.bundled import Calibration, as_trained, marked
from ..models.qwen3_vl.onnx import OnnxQwen3VL
from ..pictures.load import Picture, resized
from ..pictures.pdf import load_page
from ..pictures.words import Words
from ..pictures.words_files import as_words
from ..relevance.registry import find_source, relevances_for
from ..relevance.scene import Scene
from ..relevance.scorer.source import ScorerRelevance, scorer_beside
from ..sensing.type_height import letters_of
from .readings import check_readings, read_several

if TYPE_CHECKING:
    from ..allocation.request import Budget, Share

# Numpy's attention is slower than torch's once there is much to attend to; then torch is worth its import.
MOST_TOKENS = 256
# Where the question goes while a chat is written, as in `models.query`.
PLACE = "\ue000"


class QuickEye:
    """`mini`, or a folder of its kind, for one question at a time. relevance, levels: as for `Eye`."""

    def __init__(self, folder: Path, relevance: Any = "auto", levels: int | None = None) -> None:
        verify(folder)
        self.folder, self.relevance = folder, relevance
        calibration, scorer = Calibration.beside(folder), scorer_beside(folder)
        self.temperature, self.strategy = calibration.temperature, calibration.strategy or DEFAULT_STRATEGY
        self.levels = calibration.levels if levels is None else levels
        self.scorer = None if scorer is None else ScorerRelevance(scorer)
        self.reader = _reader(folder)
        self.grip = Grip.beside(folder)
        self._shown: tuple[Picture, Words | None, np.ndarray, float] | None = None

    def set_image(self, image: Any) -> QuickEye:
        """The picture that the next questions are about: path, PIL image or array."""
        started = perf_counter()
        picture, words = load_page(image)
        self._shown = (picture, words, canvas_of(self.folder, picture.pixels), perf_counter() - started)
        return self

    def ask(
        self,
        query: str,
        budget: Budget | None = None,
        keep: Share | None = None,
        *,
        relevance: Any = None,
        allocation: Allocation | None = None,
        words: Any = None,
        readings: int = 1,
        max_new_tokens: int = 64,
        **how: Any,
    ) -> Answer:
        """As `Eye.ask`."""
        if self._shown is None:
            raise InputError("no picture yet: call eye.set_image(image) before eye.ask(query)")
        picture, known, canvas, loading = self._shown
        check_request([query], budget, keep)
        check_question(query)
        if check_readings(readings) > 1:
            check_decided(allocation, readings=readings)
            given = {**how, "relevance": relevance, "words": words, "max_new_tokens": max_new_tokens}
            full = canvas.shape[0] * canvas.shape[1] // self.reader.cell**2
            scale = given.pop("scale", None)
            return read_several(self.ask, readings, query, budget, keep, scale, full, given)
        own = {"levels": self.levels, "strategy": self.strategy}
        how = {**how, **{name: value for name, value in own.items() if how.get(name) is None}}
        request = Request.of(budget, keep, keywords=ASK_KEYWORDS, **how)
        words = known if words is None else as_words(words, picture.size)
        cell = self.reader.cell
        grid = (canvas.shape[0] // cell, canvas.shape[1] // cell)
        seconds = {"load": loading, "read": 0.0}
        started = perf_counter()
        notes: tuple[str, ...] = ()
        full = math.prod(grid)
        if allocation is None:
            allocation, canvas, notes = self._look(canvas, grid, query, request, relevance, words)
        else:
            canvas = self._canvas_at(distance_of(allocation), canvas)
        grid = (canvas.shape[0] // cell, canvas.shape[1] // cell)
        check_grid(allocation, *grid)
        seconds["look"] = perf_counter() - started
        leaves = leaves_of(allocation)
        started = perf_counter()
        seen = self.reader.see(normalised(self.folder, canvas), leaves)
        seconds["encode"] = perf_counter() - started
        started = perf_counter()
        ids = prompt_ids(self.folder, as_trained(query, self.scorer), len(leaves))
        said = list(self.reader.speak(ids, seen, leaves, grid, max_new_tokens))
        text = _tokenizer(self.folder).decode([token for token, _ in said], skip_special_tokens=True).strip()
        uncertainty, entropy, margin = sureness(said, self.temperature)
        seconds["answer"] = perf_counter() - started
        only = Pass(
            in_picture(allocation, picture.size),
            len(leaves),
            text=text,
            uncertainty=uncertainty,
            entropy=entropy,
            margin=margin,
        )
        return Answer(text, uncertainty, (only,), seconds, full, (*marked(picture, self.scorer).notes, *notes))

    def _look(
        self, canvas: np.ndarray, grid: tuple[int, int], query: str, request: Request, relevance: Any, words: Any
    ) -> tuple[Allocation, np.ndarray, tuple[str, ...]]:
        """Where the tokens go, the picture as it is seen from the distance chosen, and what a reader should know."""
        full = math.prod(grid)
        tokens = min(request.tokens(full), full)
        scene = Scene(
            canvas,
            words=words if words is not None and len(words) else None,
            scorer=self.scorer,
            choosing=tokens < full,
        )
        found = relevances_for(self.relevance if relevance is None else relevance, [scene], [query])
        (one,), (levels,) = found.relevance, found.levels
        distance = self._distance(request, one, canvas, tokens, words)
        canvas = self._canvas_at(distance, canvas)
        grid = (canvas.shape[0] // self.reader.cell, canvas.shape[1] // self.reader.cell)
        allocation = allocate(
            one,
            min(tokens, math.prod(grid)),
            strategy=request.strategy,
            image_size=canvas.shape[:2],
            canvas=canvas.shape[:2],
            cell=self.reader.cell,
            levels=request.levels if levels is None else levels,
            seed=request.seed,
            **{**reading_option(distance, request.strategy, grid), **request.options},
        )
        allocation = at_distance(allocation, distance, full)
        said = one.notes if isinstance(one, Relevance) else ()
        return allocation, canvas, tuple(dict.fromkeys((*said, *request.notes(full))))

    def _distance(self, request: Request, relevance: Any, canvas: np.ndarray, tokens: int, words: Any) -> Distance:
        assert self._shown is not None
        picture = self._shown[0]

        return choose_distance(
            request.scale,
            self.grip,
            lambda: letters_of(picture.pixels, words, picture.size),
            relevance.map if isinstance(relevance, Relevance) else np.asarray(relevance),
            size=picture.size,
            canvas=canvas.shape[:2],
            full=canvas.shape[0] * canvas.shape[1] // self.reader.cell**2,
            tokens=tokens,
        )

    def _canvas_at(self, distance: Distance, canvas: np.ndarray) -> np.ndarray:
        """The picture as the model's processor resizes it once it is shown from a distance."""
        assert self._shown is not None
        if distance.times == 1:
            return canvas
        size = scaled_size(canvas.shape[:2], distance.times, self.reader.cell)
        return canvas_of(self.folder, resized(self._shown[0], size).pixels)

    def scored(self, query: str) -> Relevance | None:
        """The scorer's map of the picture, for drawing; None where no scorer belongs to the model."""
        if self._shown is None or self.scorer is None:
            return None
        return self.scorer.of_pixels(self._shown[0].pixels, query)


@lru_cache(maxsize=1)
def _reader(folder: Path) -> OnnxQwen3VL:
    return OnnxQwen3VL.from_folder(folder)


@lru_cache(maxsize=4)
def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@lru_cache(maxsize=4)
def _template(folder: Path) -> str:
    """The chat with one picture and `PLACE` where the question goes, as the model's template writes it."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    text = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    content = [{"type": "image"}, {"type": "text", "text": PLACE}]
    return environment.from_string(text).render(
        messages=[{"role": "user", "content": content}], add_generation_prompt=True
    )


def prompt_ids(folder: Path, query: str, tokens: int) -> list[int]:
    """The prompt with `tokens` placeholders; the question is nothing but text, whatever markers it spells out."""
    tokenizer = _tokenizer(folder)
    placeholder = tokenizer.id_to_token(_settings(folder, "config.json")["image_token_id"])
    chat = _template(folder).replace(placeholder, placeholder * tokens, 1)
    before, _, after = chat.partition(PLACE)
    if not any(token in query for token in (one.content for one in tokenizer.get_added_tokens_decoder().values())):
        return tokenizer.encode(chat.replace(PLACE, query), add_special_tokens=False).ids
    plain = _plain_tokenizer(folder)
    asked = plain.encode(query, add_special_tokens=False).ids
    return [
        *tokenizer.encode(before, add_special_tokens=False).ids,
        *asked,
        *tokenizer.encode(after, add_special_tokens=False).ids,
    ]


@lru_cache(maxsize=4)
def _plain_tokenizer(folder: Path) -> Any:
    """One that takes special tokens for the text they are written with."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return tokenizer


@lru_cache(maxsize=8)
def _settings(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def canvas_size(folder: Path, size: tuple[int, int]) -> tuple[int, int]:
    """What the model's processor makes of a picture of (height, width): multiples of a cell, not too many pixels."""
    how = _settings(folder, "preprocessor_config.json")
    cell, (height, width) = how["patch_size"] * how["merge_size"], size
    if max(size) / min(size) > 200:
        raise InputError(f"the picture is {width}×{height}; mini reads none that is 200 times as long as it is wide")
    high, wide = round(height / cell) * cell, round(width / cell) * cell
    most, least = how["size"]["longest_edge"], how["size"]["shortest_edge"]
    if high * wide > most:
        ratio = math.sqrt(height * width / most)
        return max(cell, math.floor(height / ratio / cell) * cell), max(cell, math.floor(width / ratio / cell) * cell)
    if high * wide < least:
        ratio = math.sqrt(least / (height * width))
        return math.ceil(height * ratio / cell) * cell, math.ceil(width * ratio / cell) * cell
    return high, wide


def canvas_of(folder: Path, pixels: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 → (H', W', 3) uint8, the picture as the model's processor resizes it."""
    from PIL import Image

    high, wide = canvas_size(folder, (pixels.shape[0], pixels.shape[1]))
    if (high, wide) == pixels.shape[:2]:
        return pixels
    return np.asarray(Image.fromarray(pixels).resize((wide, high), Image.Resampling.BICUBIC))


def normalised(folder: Path, canvas: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 → (3, H, W) float32, as the model's processor scales it."""
    import cv2

    picture = np.empty((3, *canvas.shape[:2]), dtype=np.float32)
    for plane, table, place in zip(cv2.split(canvas), _levels(folder), picture, strict=True):
        cv2.LUT(plane, table, place)
    return picture


@lru_cache(maxsize=4)
def _levels(folder: Path) -> np.ndarray:
    """(3, 256) float32: what the model's processor makes of the levels of each colour."""
    how = _settings(folder, "preprocessor_config.json")
    mean, deviation = (np.array(how[name], dtype=np.float32)[:, None] for name in ("image_mean", "image_std"))
    return ((np.arange(256) * how["rescale_factor"]).astype(np.float32) - mean) / deviation


def sureness(said: list[tuple[int, np.ndarray]], temperature: float) -> tuple[float, float, float]:
    """uncertainty, entropy and margin of an answer, as `decoding.Generated` reads them off the logits."""
    ids, logits = np.array([token for token, _ in said]), np.stack([one for _, one in said]).astype(np.float64)
    logs = logits / temperature
    logs -= logs.max(1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    chances = np.exp(logs)
    confidence = min(1.0, float(np.exp(logs[np.arange(len(ids)), ids].sum())))
    best = np.sort(chances, 1)[:, -2:]
    return 1 - confidence, float(-(chances * logs).sum(1).mean()), float((best[:, 1] - best[:, 0]).min())


def can_be_quick(
    model: Any,
    device: str,
    size: tuple[int, int],
    budget: Budget | None = None,
    keep: Share | None = None,
    *,
    strategy: str | None = None,
    relevance: Any = None,
    allocation: Allocation | None = None,
) -> bool:
    """Will `QuickEye` do? The bundled mini on a processor, few tokens, and a source that asks no model. size: height
    and width in which the picture is read."""
    if not isinstance(model, str) or model != MINI or device != "cpu" or not isinstance(relevance, str | None):
        return False
    folder = part_folder(MINI)
    if strategy is not None and not without_torch(strategy):
        return False
    if relevance not in (None, "auto") and "model" in find_source(relevance).needs:
        return False
    if allocation is not None:
        return allocation.tokens <= MOST_TOKENS and bool((allocation.counts == 1).all())
    height, width = canvas_size(folder, size)
    how = _settings(folder, "preprocessor_config.json")
    full = height * width // (how["patch_size"] * how["merge_size"]) ** 2
    return min(full, Request.of(budget, keep).tokens(full)) <= MOST_TOKENS
