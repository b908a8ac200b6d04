"""Small drawn clips with known motion and known cuts; nothing is rendered by the library itself."""

from __future__ import annotations

import cv2
import numpy as np

SIZE = 256


def ground(seed: int, size: int = SIZE) -> np.ndarray:
    """A soft texture in one tint."""
    random = np.random.default_rng(seed)
    noise = cv2.resize(random.random((size // 8, size // 8)).astype(np.float32), (size, size))
    tint = random.uniform(0.25, 0.9, 3).astype(np.float32)
    return ((0.55 + 0.45 * noise)[..., None] * tint * 255).astype(np.uint8)


def card(frame: np.ndarray, x: int, y: int, text: str, colour: tuple[int, int, int] = (215, 35, 35)) -> None:
    cv2.rectangle(frame, (x, y), (x + 80, y + 40), colour, -1)
    cv2.putText(frame, text, (x + 8, y + 28), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (255, 255, 255), 2)


def scene(seed: int, frames: int, step: int = 0, size: int = SIZE) -> list[np.ndarray]:
    """A card that moves by `step` pixels a frame over still ground; where it lies depends on the seed."""
    random = np.random.default_rng(seed + 100)
    x, y = (int(one) for one in random.integers(10, size - 130, 2))
    back = ground(seed, size)
    clip = []
    for time in range(frames):
        frame = back.copy()
        card(frame, x + step * time, y, str(1000 + seed))
        clip.append(frame)
    return clip


def pan(seed: int, frames: int, step: int) -> list[np.ndarray]:
    """The same wide picture through a window that moves."""
    wide = np.concatenate([ground(seed), ground(seed)[:, ::-1], ground(seed)], axis=1)
    card(wide, 120, 80, "4711")
    card(wide, 330, 150, "0815", (40, 85, 205))
    return [np.ascontiguousarray(wide[:, step * time : step * time + SIZE]) for time in range(frames)]
