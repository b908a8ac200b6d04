"""The reading scorer without torch: its ONNX graph, on a processor, one picture at a time.

Importing torch takes longer than reading a page; this imports onnxruntime only. A test holds both equal.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..alphabet import question_row
from ..errors import InputError
from ..manifest import verify
from ..sensing.onnx import open_session

CELL = 32
GRAPH_NAME = "model.onnx"
# Larger pictures are read at this many pixels: a page of A4 at 100 dots an inch, in well under a second.
MOST_PIXELS = 1024 * 1280


@lru_cache(maxsize=4)  # read once in a process, however many pictures ask it
def session(folder: Path) -> Any:
    """The graph of a scorer's folder, ready to run."""
    path = folder / GRAPH_NAME
    if not path.is_file():
        raise InputError(f"{folder} holds no {GRAPH_NAME}; give a folder that `arr-coc train reading` wrote")
    verify(folder)  # the graph's weights lie in model.safetensors
    try:
        return open_session(str(path))
    except Exception as error:  # the runtime raises a dozen kinds of its own, none of them public
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path} cannot be read ({reason}); install arr-coc again, or train it again") from error


def score_picture(folder: Path, pixels: np.ndarray, query: str) -> np.ndarray:
    """(H, W, 3) uint8, or float in [0, 1], and a question → (⌈H / 32⌉, ⌈W / 32⌉) float32: relevance of every cell.

    A picture of more than `MOST_PIXELS` is read reduced, and has as many cells as the reduced one.
    """
    logits = session(folder).run(None, {"pictures": canvas_of(pixels), "question": question_of(query)})[0][0]
    return (1 / (1 + np.exp(-logits))).astype(np.float32)


def canvas_of(pixels: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 or in [0, 1] → (1, 3, H', W') float32 in [0, 1], sides multiples of 32, the edge repeated."""
    import cv2

    pixels = np.ascontiguousarray(pixels)
    height, width = pixels.shape[:2]
    scale = math.sqrt(MOST_PIXELS / (height * width))
    if scale < 1:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    height, width = pixels.shape[:2]
    pixels = cv2.copyMakeBorder(pixels, 0, -height % CELL, 0, -width % CELL, cv2.BORDER_REPLICATE)
    canvas = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=np.float32)
    return canvas / 255 if pixels.dtype == np.uint8 else canvas


def question_of(query: str) -> np.ndarray:
    return np.array([question_row(query)], dtype=np.int64)
