"""The relevance of a stream: any source of relevance, applied to one frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..balancing.choosing import relevance_for, resolve
from ..core.arrays import sized
from ..core.values import Relevance
from ..knowing.scene import RelevanceSource, Scene
from ..texture.motion import MAP, VIEW


class StreamSource:
    """The `relevance=` of a stream: a name from the registry, or a function of (frame, question).

    Args:
        relevance: As for `look`.
        query: The question.
        photos: Use the object detector for photographs if it is installed.
        scorer: The scorer of the model that will answer.

    Attributes:
        note: Names the source of the relevance.
    """

    def __init__(
        self, relevance: object, query: str, photos: bool = True, scorer: RelevanceSource | None = None
    ) -> None:
        self.relevance, self.query = relevance, query
        self.scene = Scene(lambda: None, scorer=scorer, photos=photos)
        self.note = resolve(relevance, self.scene)[1]

    def look(self, pixels: np.ndarray) -> Relevance:
        """Look at a frame.

        Args:
            pixels: (H, W, 3) uint8.

        Returns:
            Relevance at the size of the frame's motion.
        """
        import cv2

        rows, cols = map_size((pixels.shape[0], pixels.shape[1]))
        scene = replace(self.scene, picture=pixels, made={})
        found = relevance_for(self.relevance, scene, self.query)
        smaller = found.map.shape[0] >= rows and found.map.shape[1] >= cols
        how = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
        resized = cv2.resize(found.map, (cols, rows), interpolation=how)
        ways = {"propositional": None, "perspectival": None, "participatory": None}
        return replace(found, map=np.clip(resized, 0, 1), notes=(self.note,), **ways)


def map_size(frame: tuple[int, int]) -> tuple[int, int]:
    """Return the size (rows, cols) of the carried maps of a frame (height, width): that of its motion field."""
    return sized(sized(frame, VIEW), MAP)
