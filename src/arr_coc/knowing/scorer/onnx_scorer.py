"""The reading scorer without torch, on a processor, one picture at a time: its arithmetic as an ONNX graph.

Importing torch takes longer than reading a page; this imports onnxruntime only. The graph is written from the weights
when they are loaded: places in rows and features in columns, which is what a processor is quick at, and most products
in whole numbers. In single precision it is the torch class to the last digits, which tests hold;

There are two graphs: `see` reads the picture, whatever is asked, and `find` asks what was read. A second question about
the same picture costs the second graph only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from ...core.alphabet import question_row
from ...core.errors import InputError
from ...core.kept import PictureStore
from ...core.manifest import verify
from ...core.onnx import MICROSOFT, Graph, Session
from ...core.values import JsonObject
from .reduced import reduced_pixels

CELL, FINE = 32, 8
STRIDES = (4, 8, 16, 32)
LEVELS = np.arange(256, dtype=np.float32) / 255 * 2 - 1  # what the scorer makes of the levels of a colour
NARROW = 64  # features of a row for which `_norm_of_many` pays


@dataclass(frozen=True, eq=False)
class PictureFeatures:
    """What the scorer reads of a picture before a question. features: (N, C) at a stride of 8. asking: (1, N, C'), what
    each place looks for its own characters with. height, width: of the canvas. read: (height, width) at which the
    picture was read."""

    features: np.ndarray
    asking: np.ndarray
    height: int
    width: int
    read: tuple[int, int] = (0, 0)


class OnnxScorer:
    """config, weights: of a `ReadingScorer`, as its folder has them. exact: in single precision throughout."""

    def __init__(self, config: JsonObject, weights: dict[str, np.ndarray], *, exact: bool = False) -> None:
        self.config, self.weights, self.exact = config, weights, exact
        self.graph = Graph()
        self.seeing = self._seeing()
        self.graph = Graph()
        self.finding = self._finding()

    @classmethod
    def from_folder(cls, folder: Path, *, exact: bool = False) -> OnnxScorer:
        from safetensors import SafetensorError, safe_open

        verify(folder)
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            with safe_open(folder / "model.safetensors", framework="np") as file:
                weights = {name: file.get_tensor(name).astype(np.float32) for name in file.keys()}  # noqa: SIM118
            return cls(config, weights, exact=exact)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise InputError(f"{folder} cannot be read ({error}); install arr-coc again, or train it again") from error

    def __call__(self, canvas: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """(1, 3, H, W) float32 in [−1, 1], H and W multiples of 32; (1, L) characters → logits (H / 32, W / 32)."""
        return self.find(self.see(canvas), ids)

    def see(self, canvas: np.ndarray) -> PictureFeatures:
        """What is read of a canvas before anything is asked."""
        height, width = canvas.shape[2:]
        features, asking = self.seeing.run(None, {"pictures": canvas, **self._shapes(height, width, (4, 8))})
        return PictureFeatures(features, asking, height, width)

    def find(self, seen: PictureFeatures, ids: np.ndarray) -> np.ndarray:
        """The logits (H / 32, W / 32) of a question (1, L) about what was seen."""
        # Padding is behind the characters, and nothing of it is read.
        row = ids[0, : max(1, int((ids[0] > 0).sum()))]
        there = np.array([bool(row[0])], dtype=np.float32)
        words = self.weights["question.embed.weight"][row] + self.weights["question.place"][0, : len(row)] * there
        rows, cols = seen.height // CELL, seen.width // CELL
        waves = position_waves(rows, cols, self.config["waves"])
        feed = {"features": seen.features, "asking": seen.asking, "words": words, "there": there, "waves": waves}
        shapes = self._shapes(seen.height, seen.width, (8, 16, 32))
        return self.finding.run(None, feed | shapes)[0].reshape(rows, cols)

    def letters(self, seen: PictureFeatures) -> np.ndarray:
        """(H / 8, W / 8, alphabet) logits: which characters stand at every place of what was seen."""
        logits = seen.features @ self.weights["glyphs.weight"].T + self.weights["glyphs.bias"]
        return logits.reshape(seen.height // FINE, seen.width // FINE, -1)

    def _shapes(self, height: int, width: int, strides: Sequence[int]) -> dict[str, np.ndarray]:
        """Sizes that differ from picture to picture: of the map at each stride, and of its pairs but for the last."""
        feed = {}
        for stride, features in zip(STRIDES, self._widths(), strict=True):
            if stride in strides:
                feed[f"map{stride}"] = np.array([1, height // stride, width // stride, features])
                if stride < strides[-1]:
                    feed[f"pairs{stride}"] = np.array([height // stride // 2, 2, width // stride // 2, 2 * features])
        return feed

    def _shape_inputs(self, strides: Sequence[int]) -> None:
        for name in self._shapes(CELL, CELL, strides):
            self.graph.input(name, 4, kind="int64")

    def _widths(self) -> tuple[int, int, int, int]:
        return self.config["narrow"], self.config["middle"], self.config["wide"], self.config["wide"]

    # ---- the graph ---------------------------------------------------------------------------------------------------

    def _seeing(self) -> Session:
        """pictures → features (N, C) at a stride of 8, and what the first match asks with."""
        graph, config = self.graph, self.config
        pictures = graph.input("pictures", 1, 3, "height", "width")
        self._shape_inputs((4, 8))
        stem = graph.add("Gelu", self._conv(pictures, "stem.0", strides=(2, 2)))
        stem = graph.add("Transpose", self._conv(stem, "stem.2", strides=(2, 2)), perm=(0, 2, 3, 1))
        features = graph.shaped(stem, -1, config["narrow"])
        for number in range(config["fine"]):
            features = self._block(features, f"fine.{number}", 4)
        features = self._down(features, "down8", 4)
        for number in range(config["before"]):
            features = self._block(features, f"read.{number}", 8)
        return graph.session(features, self._asking(features, "matches.0"))

    def _finding(self) -> Session:
        """Those and a question → logits of every cell."""
        graph, config, weights = self.graph, self.config, self.weights
        features = graph.input("features", "places", config["middle"])
        asking = graph.input("asking", 1, "places", len(weights["matches.0.ask.weight"]))
        question = graph.input("words", "letters", config["query_width"])
        there = graph.input("there", 1)
        waves = graph.input("waves", "cells", 4 * config["waves"])
        self._shape_inputs((8, 16, 32))
        words, summary = self._question(question, there)
        features = self._match(features, "matches.0", words, config["heads"] // 2, asking)
        for number in range(config["after"]):
            features = self._block(features, f"spell.{number}", 8, summary)
            if number == 0:
                features = self._match(features, "matches.1", words, config["heads"] // 2)
        features = self._down(features, "down16", 8)
        for number in range(2):
            features = self._block(features, f"words.{number}", 16, summary)
        placed = graph.linear(waves, weights["place.weight"])
        features = graph.add("Add", self._down(features, "down32", 16), placed)
        for number in range(config["coarse"]):
            features = self._match(features, f"asks.{number}", words, config["heads"])
            features = self._relate(features, f"relates.{number}")
            features = self._block(features, f"spreads.{number}", 32, summary)
        features = graph.root_norm(features, weights["last.weight"])
        return graph.session(graph.linear(features, weights["head.weight"], weights["head.bias"]))

    def _of(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        return self.weights[part + ".weight"], self.weights[part + ".bias"]

    def _product(self, states: str, part: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """In whole numbers, but for those of the question, which are few."""
        exact = self.exact or part.startswith("question")
        return (self.graph.linear if exact else self.graph.coarse_linear)(states, weight, bias)

    def _conv(self, maps: str, part: str, strides: Sequence[int] = (), group: int = 1) -> str:
        """A convolution of (1, C, …) that keeps the size but for its strides."""
        weight, bias = self._of(part)
        around = [side // 2 for side in weight.shape[2:]] * 2
        given, steps = (self.graph.weight(weight), self.graph.weight(bias)), strides or (1,) * (weight.ndim - 2)
        return self.graph.add("Conv", maps, *given, pads=around, strides=steps, group=group)

    def _question(self, words: str, there: str) -> tuple[str, str]:
        """(L, Q) → words (L, Q), which know their neighbours and the whole, and (1, Q) for the question."""
        graph, width = self.graph, self.config["query_width"]
        for number in range(3):
            normed = graph.norm(words, *self._of(f"question.norms.{number}"), 1e-5)
            turned = graph.add("Transpose", graph.add("Mul", normed, there), perm=(1, 0))
            seen = graph.add("Gelu", self._conv(graph.shaped(turned, 1, width, -1), f"question.convolve.{number}"))
            words = graph.add("Add", words, graph.add("Transpose", graph.shaped(seen, width, -1), perm=(1, 0)))
        normed = graph.norm(words, *self._of("question.norms.3"), 1e-5)
        attended = self._attention(normed, "question.look", self.config["heads"] // 2)
        words = graph.add("Add", words, graph.linear(attended, *self._of("question.relate")))
        mean = graph.add("ReduceMean", graph.add("Mul", words, there), graph.weight([0], "int64"), keepdims=1)
        return words, mean

    def _attention(self, states: str, part: str, heads: int) -> str:
        """(N, C) → (N, C): every row looks at every row."""
        graph, (weight, bias) = self.graph, self._of(part)
        width = len(weight) // 3
        parts = (
            graph.shaped(self._product(states, part, *one), 1, -1, width)
            for one in zip(np.split(weight, 3), np.split(bias, 3), strict=True)
        )
        return graph.shaped(graph.add("MultiHeadAttention", *parts, domain=MICROSOFT, num_heads=heads), -1, width)

    def _block(self, features: str, part: str, stride: int, query: str | None = None) -> str:
        """`ConvBlock` on (N, C)."""
        graph = self.graph
        maps = graph.add("Transpose", graph.add("Reshape", features, f"map{stride}"), perm=(0, 3, 1, 2))
        width = len(self.weights[part + ".norm.weight"])
        seen = graph.add("Transpose", self._conv(maps, part + ".spatial", group=width), perm=(0, 2, 3, 1))
        normed = self._norm_of_many(graph.shaped(seen, -1, width), self.weights[part + ".norm.weight"])
        hidden = graph.add("Gelu", self._product(normed, part, *self._of(part + ".expand")))
        if query is not None:
            scale, more = self._of(part + ".modulate")
            hidden = graph.add("Mul", hidden, graph.linear(query, scale, more + 1))
        return graph.add("Add", features, self._product(hidden, part, *self._of(part + ".contract")))

    def _norm_of_many(self, states: str, weight: np.ndarray) -> str:
        """`root_norm` of (N, C), by the operator that also adds something, here nothing: on many narrow rows the plain
        one has its threads wait for one another."""
        graph, width = self.graph, len(weight)
        if width > NARROW:
            return graph.root_norm(states, weight)
        given = graph.shaped(states, -1, 1, width), graph.weight(np.zeros((1, 1, width))), graph.weight(weight)
        normed = graph.add("SkipSimplifiedLayerNormalization", *given, domain=MICROSOFT, epsilon=1e-6)
        return graph.shaped(normed, -1, width)

    def _down(self, features: str, part: str, stride: int) -> str:
        """A convolution of 2×2 at every second place, on (N, C): four places side by side, and a product."""
        graph, (weight, bias) = self.graph, self._of(part)
        pairs = graph.add("Transpose", graph.add("Reshape", features, f"pairs{stride}"), perm=(0, 2, 1, 3))
        flat = weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)
        return self._product(graph.shaped(pairs, -1, flat.shape[1]), part, flat, bias)

    def _asking(self, features: str, part: str) -> str:
        """What every place of (N, C) asks the characters with; the question has no part in it."""
        normed = self.graph.root_norm(features, self.weights[part + ".norm.weight"])
        weight, bias = self._of(part + ".ask")
        return self.graph.shaped(self._product(normed, part, weight, bias), 1, -1, len(weight))

    def _match(self, features: str, part: str, words: str, heads: int, asking: str | None = None) -> str:
        """`Match` on (N, C): every row looks at every character. asking: where it is known already."""
        graph, (weight, more) = self.graph, self._of(part + ".key_value")
        inner = len(weight) // 2
        keys, values = (
            graph.shaped(graph.linear(words, *one), 1, -1, inner)
            for one in zip(np.split(weight, 2), np.split(more, 2), strict=True)
        )
        asked = self._asking(features, part) if asking is None else asking
        mixed = graph.add("MultiHeadAttention", asked, keys, values, domain=MICROSOFT, num_heads=heads)
        answer = self._product(graph.shaped(mixed, -1, inner), part, *self._of(part + ".answer"))
        return graph.add("Add", features, answer)

    def _relate(self, features: str, part: str) -> str:
        """`Relate` on (N, C)."""
        graph = self.graph
        normed = graph.root_norm(features, self.weights[part + ".norms.0.weight"])
        attended = self._attention(normed, part + ".look", self.config["heads"])
        features = graph.add("Add", features, self._product(attended, part, *self._of(part + ".relate")))
        normed = graph.root_norm(features, self.weights[part + ".norms.1.weight"])
        hidden = graph.add("Gelu", self._product(normed, part, *self._of(part + ".think.0")))
        return graph.add("Add", features, self._product(hidden, part, *self._of(part + ".think.2")))


def position_waves(rows: int, cols: int, waves: int) -> np.ndarray:
    """(rows · cols, 4 waves) float32: `reading_scorer.position_waves` without torch."""
    rates = 2 * math.pi / (3 * 1.7 ** np.arange(waves))
    down, across = (np.arange(count)[:, None] * rates for count in (rows, cols))
    down, across = (np.concatenate([np.sin(angle), np.cos(angle)], 1) for angle in (down, across))
    grid = np.repeat(down, cols, 0), np.tile(across, (rows, 1))
    return np.concatenate(grid, 1).astype(np.float32)


@lru_cache(maxsize=4)  # read once in a process, however many pictures ask it
def load(folder: Path) -> OnnxScorer:
    """The scorer of a folder, ready to run."""
    return OnnxScorer.from_folder(folder)


def score_picture(folder: Path, pixels: np.ndarray, query: str, kept: PictureStore | None = None) -> np.ndarray:
    """(H, W, 3) uint8, or float in [0, 1], and a question → (⌈H / 32⌉, ⌈W / 32⌉) float32: relevance of every cell.

    A picture that is read reduced (`reduced`) has as many cells as the reduced one. kept: where what is read of the
    picture is found by the next question.
    """
    return found_in(folder, seen_picture(folder, pixels, kept), query)


def found_in(folder: Path, seen: PictureFeatures, query: str) -> np.ndarray:
    """What was seen of a picture, and a question → relevance of every cell, as `score_picture` gives it."""
    logits = load(folder).find(seen, question_of(query))
    return (1 / (1 + np.exp(-logits))).astype(np.float32)


def seen_picture(folder: Path, pixels: np.ndarray, kept: PictureStore | None = None) -> PictureFeatures:
    """What the scorer reads of a picture before it is asked; found in `kept` where it was read before."""

    def see() -> PictureFeatures:
        reduced = reduced_pixels(whole_levels(pixels))
        return replace(load(folder).see(levels_canvas(reduced)), read=reduced.shape[:2])

    return see() if kept is None else kept.made(("scorer", str(folder), pixels.shape), see)


def canvas_of(pixels: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 or in [0, 1] → (1, 3, H', W') float32 in [−1, 1], at the size at which it is read."""
    return levels_canvas(reduced_pixels(whole_levels(pixels)))


def levels_canvas(pixels: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 → (1, 3, H', W') float32 in [−1, 1], sides multiples of 32, the edge repeated."""
    import cv2

    height, width = pixels.shape[:2]
    below, right = -height % CELL, -width % CELL
    if below or right:
        pixels = cv2.copyMakeBorder(pixels, 0, below, 0, right, cv2.BORDER_REPLICATE)
    canvas = np.empty((1, 3, *pixels.shape[:2]), dtype=np.float32)
    for plane, place in zip(cv2.split(pixels), canvas[0], strict=True):
        cv2.LUT(plane, LEVELS, place)
    return canvas


def whole_levels(pixels: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 or in [0, 1] → uint8: a picture that was scaled and scaled back is the same, and has one map."""
    if pixels.dtype != np.uint8:
        pixels = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    return np.ascontiguousarray(pixels)


def question_of(query: str) -> np.ndarray:
    return np.array([question_row(query)], dtype=np.int64)
