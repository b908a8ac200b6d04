"""The reading scorer without torch, on a processor, one picture at a time, as two ONNX graphs.

Importing torch takes longer than reading a page; this imports onnxruntime only. `see.onnx` reads the picture, whatever
is asked, and `find.onnx` asks what was read: a second question about the same picture costs the second graph only. Most
products are in whole numbers; a graph in single precision is the torch class to the last digits, which tests hold.
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
from ...core.onnx import open_session, stored
from ...core.values import JsonObject
from .reduced import reduced_pixels

CELL, FINE = 32, 8
STRIDES = (4, 8, 16, 32)
LEVELS = np.arange(256, dtype=np.float32) / 255 * 2 - 1  # what the scorer makes of the levels of a colour
GRAPHS = ("see.onnx", "find.onnx")


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
    """A trained `ReadingScorer`, from a folder with its graphs."""

    def __init__(self, folder: Path) -> None:
        verify(folder)
        try:
            self.config: JsonObject = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            names = ("question.embed.weight", "question.place", "glyphs.weight", "glyphs.bias")
            self.letter_rows, self.places, self.glyphs, self.glyph_bias = stored(folder, *names)
            self.seeing, self.finding = (open_session(folder / name) for name in GRAPHS)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
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
        words = self.letter_rows[row] + self.places[0, : len(row)] * there
        rows, cols = seen.height // CELL, seen.width // CELL
        waves = position_waves(rows, cols, self.config["waves"])
        feed = {"features": seen.features, "asking": seen.asking, "words": words, "there": there, "waves": waves}
        shapes = self._shapes(seen.height, seen.width, (8, 16, 32))
        return self.finding.run(None, feed | shapes)[0].reshape(rows, cols)

    def letters(self, seen: PictureFeatures) -> np.ndarray:
        """(H / 8, W / 8, alphabet) logits: which characters stand at every place of what was seen."""
        logits = seen.features @ self.glyphs.T + self.glyph_bias
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

    def _widths(self) -> tuple[int, int, int, int]:
        return self.config["narrow"], self.config["middle"], self.config["wide"], self.config["wide"]


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
    return OnnxScorer(folder)


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
