"""Two small networks for photographs, on a processor and without torch: things with boxes, and what stands out.

The detector (SSD MobileNetV3, by OpenCV) is read before it decides: every anchor with what speaks for each class, not
the few boxes above a threshold. Who asks for the clock wants the place that looks most like one, however little.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.arrays import sized
from ...core.errors import InputError
from ...core.onnx import Session, open_session
from .parts import find_part, parts_folder, read_part

if TYPE_CHECKING:
    import cv2

# The detector was trained on squares of 320 pixels; a second look at this longer side finds what is small.
SQUARE, LONGER = 320, 640
STRIDE = 32
SALIENCY_SIDE = 320
# The longer side of the map: four values for a cell of 32 pixels in a picture of 1024.
MAP_SIDE = 128
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCORES, PRIORS, OFFSETS = "ClassPredictor/concat/sigmoid/Flatten", "PriorBox/concat", "BoxEncodingPredictor/concat"


@dataclass(frozen=True, eq=False)
class Anchors:
    """Everything that a detector considers. scores: (N, classes) in [0, 1]. boxes: (N, 4) x0, y0, x1, y1 in 0–1."""

    scores: np.ndarray
    boxes: np.ndarray


def detect(pixels: np.ndarray, closely: bool = False) -> Anchors:
    """(H, W, 3) uint8 → every anchor of the picture as a square; closely: of the picture at twice that, undistorted."""
    import cv2

    height, width = pixels.shape[:2]
    size = (SQUARE, SQUARE)
    if closely:
        scale = LONGER / max(height, width)
        size = (max(2, round(width * scale / STRIDE)) * STRIDE, max(2, round(height * scale / STRIDE)) * STRIDE)
    blob = cv2.dnn.blobFromImage(np.ascontiguousarray(pixels), 1 / 127.5, size, (127.5, 127.5, 127.5))
    network = _detector(parts_folder(), size)
    network.setInput(blob)
    outputs = dict(zip((SCORES, PRIORS, OFFSETS), network.forward([SCORES, PRIORS, OFFSETS]), strict=True))
    offsets = outputs[OFFSETS].reshape(-1, 4)
    # The first of the classes is "nothing".
    return Anchors(outputs[SCORES].reshape(len(offsets), -1)[:, 1:].copy(), decoded(outputs[PRIORS][0], offsets))


def decoded(priors: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(2, 4N) anchors with their variances and (N, 4) offsets → (N, 4) boxes in 0–1."""
    anchors, spread = priors.reshape(2, -1, 4)
    sides = anchors[:, 2:] - anchors[:, :2]
    centres = anchors[:, :2] + sides / 2 + offsets[:, :2] * spread[:, :2] * sides
    half = sides * np.exp(offsets[:, 2:] * spread[:, 2:]) / 2
    return np.concatenate([centres - half, centres + half], 1).astype(np.float32)


@lru_cache(maxsize=4)
def _detector(folder: Path, size: tuple[int, int]) -> cv2.dnn.Net:
    """A network for pictures of one (width, height): OpenCV 5 keeps what it made for another size, and then gives other
    scores for the same picture."""
    import cv2

    files = read_part("detector", folder)
    text = files["graph.pbtxt"].decode().replace("\r\n", "\n")
    # Without its last step, which keeps the best hundred boxes of all classes together.
    start = text.index('node {\n  name: "detection_out"')
    text = text[:start] + text[text.index("\n}", start) + 2 :]
    try:
        return cv2.dnn.readNetFromTensorflow(
            np.frombuffer(files["frozen_inference_graph.pb"], np.uint8), np.frombuffer(text.encode(), np.uint8)
        )
    except cv2.error as error:
        raise InputError(f"OpenCV {cv2.__version__} cannot read the detector ({error.err}); upgrade OpenCV") from error


def stands_out(pixels: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 → (320, 320) in [0, 1]: the salient object's mask, U²-Net's small form."""
    import cv2

    small = cv2.resize(np.ascontiguousarray(pixels), (SALIENCY_SIDE, SALIENCY_SIDE), interpolation=cv2.INTER_AREA)
    inputs = (small / max(float(small.max()), 1.0) - np.array(MEAN)) / np.array(SPREAD)
    session = _saliency(parts_folder())
    first = session.get_inputs()[0].name, session.get_outputs()[0].name
    found = session.run([first[1]], {first[0]: inputs.transpose(2, 0, 1)[None].astype(np.float32)})[0][0, 0]
    return np.clip(found, 0, 1)


@lru_cache(maxsize=1)
def _saliency(folder: Path) -> Session:
    return open_session(read_part("saliency", folder)["u2netp.onnx"])


# The square's anchors: so many places along a side, so many anchors in each, in reading order, finest places first.
ANCHOR_GRIDS = ((20, 3), (10, 6))


@dataclass(frozen=True, eq=False)
class PhotoSight:
    """A photograph, (H, W, 3) uint8, and what the networks say of it, each asked once."""

    pixels: np.ndarray

    @cached_property
    def square(self) -> Anchors:
        return detect(self.pixels)

    @cached_property
    def close(self) -> Anchors:
        return detect(self.pixels, closely=True)

    @cached_property
    def salient(self) -> np.ndarray | None:
        """(h, w) in [0, 1], where that network is there."""
        return shaped(stands_out(self.pixels), self.shape) if find_part("saliency") else None

    @cached_property
    def shape(self) -> tuple[int, int]:
        return sized(self.pixels.shape[:2], MAP_SIDE, grow=True)

    @cached_property
    def small(self) -> np.ndarray:
        """(h, w, 3) in [0, 1], at the map's size."""
        import cv2

        return cv2.resize(self.pixels, self.shape[::-1], interpolation=cv2.INTER_AREA).astype(np.float32) / 255

    @cached_property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Ranks in [0, 1] of every place (h, w): how busy it is, and how upright its edges are."""
        import cv2

        size = sized(self.pixels.shape[:2], 4 * MAP_SIDE)[::-1]
        grey = cv2.resize(self.pixels, size, interpolation=cv2.INTER_AREA)
        grey = cv2.cvtColor(grey, cv2.COLOR_RGB2GRAY).astype(np.float32) / 255
        across, down = (
            cv2.resize(np.abs(cv2.Sobel(grey, cv2.CV_32F, *way)), self.shape[::-1], interpolation=cv2.INTER_AREA)
            for way in ((1, 0), (0, 1))
        )
        busy, upright = cv2.blur(across + down, (5, 5)), cv2.blur(across - down, (1, 15))
        return ranks(busy), ranks(upright)


def ranks(values: np.ndarray) -> np.ndarray:
    """(h, w) → the same order, evenly in (0, 1)."""
    return (values.ravel().argsort(kind="stable").argsort().reshape(values.shape) + 0.5) / values.size


def shaped(plane: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    import cv2

    return cv2.resize(plane.astype(np.float32), shape[::-1], interpolation=cv2.INTER_AREA)
