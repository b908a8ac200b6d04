"""The reading scorer without torch, on a CPU, one picture at a time, as two ONNX graphs.

Importing torch takes longer than reading a page; this imports onnxruntime only. `see.onnx` reads the picture without
the question, and `find.onnx` adds the question, so a second question about the same picture needs the second graph
only. Most products use integers; tests check that graphs in single precision equal the torch class to the last digits.

The size at which the scorer reads a picture is computed here for every device: at most `MOST_PIXELS`, with letters no
taller than those in the training of the scorer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.alphabet import question_row
from ...core.arrays import whole_levels
from ...core.errors import InputError
from ...core.folders import Session, stored, verify
from ...core.kept import ByteStore, pixels_key
from ...core.values import JsonObject
from ...texture.type_height import READ_PIXELS, TypeHeight, letters_of, view_letters, view_size

if TYPE_CHECKING:
    import torch

CELL = 32
STRIDES = (4, 8, 16, 32)
LEVELS = np.arange(256, dtype=np.float32) / 255 * 2 - 1  # input values for the levels of a colour
GRAPHS = ("see.onnx", "find.onnx")


@dataclass(frozen=True, eq=False)
class PictureFeatures:
    """Features of a picture, without a question. features: (N, C) at a stride of 8. asking: (1, N, C'), the query of
    each place for the characters of a question. height, width: of the canvas. read: (height, width) at which the
    picture was read."""

    features: np.ndarray
    asking: np.ndarray
    height: int
    width: int
    read: tuple[int, int]


class OnnxScorer:
    """A trained `ReadingScorer`, from a folder with its graphs."""

    def __init__(self, folder: Path) -> None:
        verify(folder)
        try:
            self.config: JsonObject = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            self.letter_rows, self.places = stored(folder, "question.embed.weight", "question.place")
            self.seeing, self.finding = (Session(folder / name) for name in GRAPHS)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise InputError(f"{folder} cannot be read ({error}); install arr-coc again, or train it again") from error

    def see(self, pixels: np.ndarray) -> PictureFeatures:
        """Compute the features of a picture (H, W, 3), resized to its reading size."""
        pixels = reduced_pixels(whole_levels(pixels))
        canvas = canvas_of(pixels)
        height, width = canvas.shape[2:]
        features, asking = self.seeing.run(None, {"pictures": canvas, **self._shapes(height, width, (4, 8))})
        return PictureFeatures(features, asking, height, width, pixels.shape[:2])

    def find(self, seen: PictureFeatures, query: str) -> np.ndarray:
        """Compute the logits (H / 32, W / 32) for a question, from the features of a picture."""
        ids = np.array(question_row(query), dtype=np.int64)
        # Cut the padding after the characters.
        row = ids[: max(1, int((ids > 0).sum()))]
        there = np.array([bool(row[0])], dtype=np.float32)
        words = self.letter_rows[row] + self.places[0, : len(row)] * there
        rows, cols = seen.height // CELL, seen.width // CELL
        waves = position_waves(rows, cols, self.config["waves"])
        feed = {"features": seen.features, "asking": seen.asking, "words": words, "there": there, "waves": waves}
        shapes = self._shapes(seen.height, seen.width, (8, 16, 32))
        return self.finding.run(None, feed | shapes)[0].reshape(rows, cols)

    def _shapes(self, height: int, width: int, strides: Sequence[int]) -> dict[str, np.ndarray]:
        """Return the sizes that depend on the picture: of the map at each stride, and of its pairs except the last."""
        feed = {}
        widths = [self.config[name] for name in ("narrow", "middle", "wide", "wide")]
        for stride, features in zip(STRIDES, widths, strict=True):
            if stride in strides:
                feed[f"map{stride}"] = np.array([1, height // stride, width // stride, features])
                if stride < strides[-1]:
                    feed[f"pairs{stride}"] = np.array([height // stride // 2, 2, width // stride // 2, 2 * features])
        return feed


def position_waves(rows: int, cols: int, waves: int) -> np.ndarray:
    """Return (rows · cols, 4 waves) float32: `reading_scorer.position_waves` without torch."""
    rates = 2 * math.pi / (3 * 1.7 ** np.arange(waves))
    down, across = (np.arange(count)[:, None] * rates for count in (rows, cols))
    down, across = (np.concatenate([np.sin(angle), np.cos(angle)], 1) for angle in (down, across))
    grid = np.repeat(down, cols, 0), np.tile(across, (rows, 1))
    return np.concatenate(grid, 1).astype(np.float32)


load = lru_cache(maxsize=4)(OnnxScorer)  # loaded once a process
_seen = ByteStore(64 << 20)  # features and logits of the most recent pages


def cell_relevance(folder: Path, pixels: np.ndarray, query: str) -> tuple[np.ndarray, tuple[int, int]]:
    """Return (rows, cols) float32, the relevance of the 32×32 cells of (H, W, 3) at its reading size, and that size
    (height, width). The features of a picture are cached for further questions."""
    page = str(folder), pixels_key(pixels)
    seen = _seen.made(page, lambda: load(folder).see(pixels))
    logits = _seen.made((*page, query), lambda: load(folder).find(seen, query))
    return (1 / (1 + np.exp(-logits))).astype(np.float32), seen.read


def canvas_of(pixels: np.ndarray) -> np.ndarray:
    """Convert (H, W, 3) uint8 to (1, 3, H', W') float32 in [−1, 1], padded to multiples of 32 by repeating the edge."""
    import cv2

    below, right = -pixels.shape[0] % CELL, -pixels.shape[1] % CELL
    if below or right:
        pixels = cv2.copyMakeBorder(pixels, 0, below, 0, right, cv2.BORDER_REPLICATE)
    canvas = np.empty((1, 3, *pixels.shape[:2]), dtype=np.float32)
    for plane, place in zip(cv2.split(pixels), canvas[0], strict=True):
        cv2.LUT(plane, LEVELS, place)
    return canvas


# ---- the size at which a picture is read -----------------------------------------------------------------------------

# Height of capitals in pixels: taller ones are found less well and are reduced to the second number.
TALL, WANTED = 20.0, 12.0
# Letters lower than this share of `TALL` / 2 in a half-size view are not tall in the picture.
LOW = 0.9


def reading_size(pixels: np.ndarray, letters: TypeHeight | None = None) -> tuple[int, int]:
    """Return (height, width) at which the scorer reads (H, W, 3) uint8, its own size or a smaller one.
    letters: `view_letters` of the picture, or of a reduced one."""
    size, letters = pixels.shape[:2], view_letters(pixels) if letters is None else letters
    tall = letters.median() * view_size(size)[0] / letters.size[0]
    if tall >= LOW * TALL:  # sensing those of the whole picture takes four times as long
        tall = letters_of(pixels).median() * min(1.0, math.sqrt(READ_PIXELS / (size[0] * size[1])))
    return view_size(size, WANTED / tall if tall > TALL else 1.0)


def reduced_pixels(pixels: np.ndarray) -> np.ndarray:
    """Resize (H, W, 3) uint8 to its reading size."""
    import cv2

    size = reading_size(pixels)
    if size == pixels.shape[:2]:
        return pixels
    return cv2.resize(pixels, size[::-1], interpolation=cv2.INTER_AREA)


def reduced_batch(pictures: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Resize (B, 3, H, W) in [0, 1] to `size` by area mean, as `reduced_pixels` does, rounded to whole levels."""
    import torch

    if size == tuple(pictures.shape[-2:]):
        return pictures
    return torch.round(area_shrink(pictures.float(), size) * 255) / 255


def size_note(size: tuple[int, int], given: tuple[int, int]) -> tuple[str, ...]:
    """Return a note if the scorer reads the picture at a smaller size."""
    if size == given:
        return ()
    return (f"the scorer reads this picture at {size[0] / given[0]:.2g} of its size: {size[1]}×{size[0]} pixels",)


def area_shrink(maps: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Shrink by exact area mean, in any ratio: (…, H, W) → (…, h, w)."""
    rows = _area_weights(maps.shape[-2], size[0], maps.device)
    columns = _area_weights(maps.shape[-1], size[1], maps.device)
    return rows @ (maps @ columns.T)


@lru_cache(maxsize=16)
def _area_weights(source: int, target: int, device: torch.device) -> torch.Tensor:
    """Return (target, source): the share of each source pixel in each target pixel; rows sum to one."""
    import torch

    scale, made_on = source / target, device if device.type == "cuda" else torch.device("cpu")
    with torch.inference_mode(False):  # cached, also for callers that need gradients
        edges = torch.arange(target + 1, dtype=torch.float64, device=made_on) * scale
        pixels = torch.arange(source, dtype=torch.float64, device=made_on)
        overlap = torch.minimum(edges[1:, None], pixels + 1) - torch.maximum(edges[:-1, None], pixels)
        return (overlap.clamp_min(0) / scale).float().to(device)
