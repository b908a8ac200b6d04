"""The grip of a model: how well it reads letters of each height, as `arr-coc calibrate` measured it (`grip.json`).

grip = Grip.known("mini")           of a model by its name or folder; None if it was not measured
grip.reading([6, 12, 40])           → accuracy relative to its best, by the height of letters in pixels as it sees them
grip.best, grip.range               the height it reads best, and those within 95 % of it
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..core.errors import InputError, shown
from ..core.folders import measured_path, verify
from ..core.values import JsonObject

GRIP, GRIP_NAME = "grip", "grip.json"
SCHEMA = 1
NOT_MEASURED = (
    "the grip of this model was not measured (arr-coc calibrate does): letters of 10 to 32 pixels count as read best"
)


@dataclass(frozen=True)
class Grip:
    """The accuracy of a model by letter height. heights: of capitals in pixels, rising. accuracy: share read right at
    each, smoothed. best, low, high: the height read best, and the range within 95 % of it. largest: longer side of the
    largest canvas in pixels; None if no limit is known. model: its name; "" for the cautious default."""

    heights: tuple[float, ...]
    accuracy: tuple[float, ...]
    best: float
    low: float
    high: float
    largest: int | None = None
    model: str = ""

    @classmethod
    def cautious(cls) -> Grip:
        """Return the default for models that were not measured: heights that every measured model reads well."""
        return cls((4, 6, 8, 10, 32, 64, 128), (0.1, 0.5, 0.9, 1.0, 1.0, 0.9, 0.6), best=20, low=9, high=45)

    @classmethod
    def load(cls, path: str | Path, model: str = "") -> Grip:
        """Load a grip.json; raise `InputError` if it is damaged or of another model. model: the expected name, if any.

        Example:
            >>> from arr_coc.core.folders import part_folder
            >>> Grip.load(part_folder("mini") / "grip.json").model
            'mini'
        """
        path = Path(path)
        verify(path.parent, [path.name])
        try:
            made = cls.of(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
            raise InputError(f"{path} is not the grip of a model ({str(error)[:80]}); run arr-coc calibrate") from error
        if model and made.model != model:
            raise InputError(f"{path} is the grip of {shown(made.model)}, not of {shown(model)}; run arr-coc calibrate")
        return made

    @classmethod
    def of(cls, document: JsonObject) -> Grip:
        """Build a grip from the JSON of `calibrate`."""
        if document["kind"] != GRIP or document["schema"] != SCHEMA:
            raise InputError(f"kind {document['kind']!r}, schema {document['schema']!r}")
        heights, accuracy = (tuple(float(one) for one in document[name]) for name in ("heights", "accuracy"))
        best, (low, high) = float(document["best"]), (float(one) for one in document["range"])
        rising = len(heights) == len(accuracy) >= 2 and all(a < b for a, b in pairwise((0.0, *heights, np.inf)))
        if not rising or not all(0 <= one <= 1 for one in accuracy) or not max(accuracy) > 0:
            raise InputError("heights must rise above 0, with an accuracy from 0 to 1 for each, not 0 for all")
        if not 0 < low <= best <= high < np.inf:
            raise InputError("the best height must lie in its range")
        largest = document.get("largest")
        return cls(
            heights, accuracy, best, low, high, None if largest is None else int(largest), str(document["model"])
        )

    @classmethod
    def known(cls, name: str) -> Grip | None:
        """Load the grip of a model by its name or folder, from that folder or the user's; None if there is none."""
        if not name:
            return None
        path = measured_path(name, GRIP)
        return cls.load(path, grip_model(name)) if os.path.isfile(path) else None

    def reading(self, heights: object) -> np.ndarray:
        """Return the accuracy relative to the best, 0 to 1, for heights of letters in pixels as the model sees them."""
        seen = np.maximum(np.asarray(heights, dtype=np.float64), 1e-3)
        share = np.array(self.accuracy) / max(self.accuracy)
        # Below the smallest height measured, accuracy halves with every half octave.
        below = np.clip(seen / self.heights[0], 0, 1) ** 2
        return np.interp(np.log(seen), np.log(self.heights), share) * below


def as_grip(given: object) -> Grip | None:
    """Convert the argument `grip`: a `Grip`, the name or folder of a model, a grip.json; or None."""
    if given is None or isinstance(given, Grip):
        return given
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"grip must be the name of a model, its folder, a {GRIP_NAME} or a Grip, got {shown(given)}")
    if os.path.isfile(given):
        return Grip.load(Path(given))
    found = Grip.known(str(given))
    if found is None:
        raise InputError(f"no grip of {shown(str(given))} was measured; run arr-coc calibrate --model {given}")
    return found


def grip_model(name: str) -> str:
    """Return the name of a model in its grip: its name on the hub, or that of its folder."""
    return Path(name).name if os.path.isdir(name) else name
