"""The maps that `bench real` compares, of one picture and its questions.

Every map that is not a control is sharpened as `look` does it (`balancing.SHARPNESS`), except the scorer's, which is
used as it was trained to be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...attending.allocate import allocate
from ...balancing.tension import sharpen
from ...balancing.three_ways import relevance_of
from ...bundled import SCORER, WEIGHTS, ScorerRelevance
from ...knowing.lexical import Coupling
from ...knowing.photo_words import worth_asking
from ...knowing.photos import PhotoEncoder, find_photo_encoder
from ...looking import Prepared
from ...values import Allocation

# Where the photo map is tried: natural pictures whose questions name things.
PHOTO_SOURCES = frozenset({"coco128", "search_mcs", "camvid", "ccp"})
CONTROLS = ("uniform", "center")
MAP_SIDE = 256


@dataclass(eq=False)
class PictureMaps:
    """Maps (h, w) in [0, 1] by name; what does not depend on the question is computed once."""

    prepared: Prepared
    source: str
    scorer: ScorerRelevance | None = None
    _classes: dict[str, Any] = field(default_factory=dict)
    _controls: dict[tuple[str, int], Allocation] = field(default_factory=dict)

    @cached_property
    def texture(self) -> Any:
        return self.prepared.scene.texture

    def _channel(self, name: str) -> np.ndarray:
        plane = np.asarray(self.texture[name])
        scale = min(1.0, MAP_SIDE / max(plane.shape))
        size = (max(1, round(plane.shape[0] * scale)), max(1, round(plane.shape[1] * scale)))
        return np.asarray(self.texture.ops.shrink(plane, size))

    @cached_property
    def plain(self) -> dict[str, np.ndarray]:
        """Maps that no question changes."""
        return {
            "saliency": sharpen(self._channel("saliency")),
            "text regions": sharpen(self._channel("text_regions")),
        }

    def control(self, strategy: str, budget: int) -> Allocation:
        """What a control does with a budget, whatever is asked."""
        if (strategy, budget) not in self._controls:
            flat = np.ones((8, 8), np.float32)
            size = self.prepared.picture.size
            self._controls[strategy, budget] = allocate(flat, budget, strategy=strategy, image_size=size)
        return self._controls[strategy, budget]

    def of(self, query: str) -> dict[str, np.ndarray]:
        """Every map for a question. `look` is what comes without the extra `[photos]`, `look with photos` what comes
        with it: the same where the photo map has nothing to say."""
        maps = dict(self.plain)
        maps["look"] = relevance_of(self.texture, query).map
        if self.scorer is not None:
            maps["scorer"] = self.scorer.of_pixels(self.prepared.picture.pixels, query).map
        encoder = find_photo_encoder() if self.source in PHOTO_SOURCES else None
        if encoder is not None:
            coupled = encoder.couple_logits(self._class_logits(encoder), query)[0].numpy()
            maps["photo map"] = sharpen(coupled)
            joined = relevance_of(self.texture, query, Coupling(coupled, ())) if worth_asking(query) else None
            maps["look with photos"] = maps["look"] if joined is None else joined.map
        return maps

    def _class_logits(self, encoder: PhotoEncoder) -> Any:
        """A picture is classified once, and asked about many times."""
        import torch

        if "logits" not in self._classes:
            pixels = torch.from_numpy(np.ascontiguousarray(self.prepared.picture.pixels))
            self._classes["logits"] = encoder.class_logits(pixels.permute(2, 0, 1)[None] / 255)
        return self._classes["logits"]


def bundled_scorer(folder: Path | None = None) -> ScorerRelevance | None:
    """The shipped scorer where there is one."""
    folder = folder or WEIGHTS / SCORER
    return ScorerRelevance(folder) if (folder / "config.json").is_file() else None
