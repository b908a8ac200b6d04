"""How Esper looks again: the numbers, and settings of them with names."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from ..core.errors import InputError
from ..core.files import write_json
from ..core.manifest import changing, verify

Layout = Literal["append", "apart", "rebuild", "fresh"]
LAYOUTS = ("append", "apart", "rebuild", "fresh")
SETTINGS_NAME = "settings.json"
# A share of the full count for all passes together, where the caller names none: 1/8 first, then three times 1/16.
DEFAULT_TOTAL = 5 / 16
# A place is unsure above this, sure up to that; what the two-pass preset then does to it, and when one pass is enough.
UNSURE_ABOVE, SURE_UP_TO = 0.5, 0.2
MORE, LESS, ENOUGH = 1.5, 0.7, 0.3


@dataclass(frozen=True)
class EsperSettings:
    """
    passes: at most so many. least: at least so many. stop: below this uncertainty it is enough. gain: from the
        third pass on, one that lowers the uncertainty by less was in vain, and no further one is tried; None tries on.
    attention, question: how much the places count that unsure answer tokens, and the question's tokens, look at; the
        relevance map counts 1. layers: language layers whose attention is read, as shares of the depth.
    fovea: after the first look, detail goes around one place, a Gaussian of so many cells; None spreads it over the
        map. inhibition: how much of the ground around earlier fixations is left out, 0 to 1.
    aroused: whether stakes and uncertainty sharpen the map.
    learned: whether to explore as was learned, where that lies beside the weights, and not by the rule.
    more, less: the map's factor where the answer's tokens were unsure (above .5) and sure (at most .2) of a place.
    layout: append new visual tokens to what was seen, so that they see it in the vision tower ("append") or not
        ("apart"); or read all leaves anew, with the earlier encodings ("rebuild") or encoded together ("fresh").
    """

    passes: int = 4
    least: int = 2
    stop: float = 0.15
    gain: float | None = None
    attention: float = 0.5
    question: float = 0.5
    layers: tuple[float, float] = (1 / 3, 1.0)
    fovea: float | None = 2.0
    inhibition: float = 0.0
    aroused: bool = True
    learned: bool = True
    more: float = 1.0
    less: float = 1.0
    layout: Layout = "append"

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))  # JSON has lists only
        if not 1 <= self.least <= self.passes:
            raise InputError(f"passes {self.passes} and least {self.least} do not fit: 1 <= least <= passes")
        if not (0 <= self.stop <= 1 and 0 <= self.inhibition <= 1):
            raise InputError(f"stop {self.stop} and inhibition {self.inhibition} must lie in [0, 1]")
        if self.gain is not None and not 0 <= self.gain <= 1:
            raise InputError(f"gain {self.gain} must lie in [0, 1], or be None")
        if min(self.attention, self.question, self.more, self.less) < 0:
            raise InputError("attention, question, more and less are weights from 0 on")
        if self.fovea is not None and not self.fovea > 0:
            raise InputError(f"fovea {self.fovea} must be above 0 cells, or None")
        if not 0 <= self.layers[0] < self.layers[1] <= 1:
            raise InputError(f"layers {self.layers} must be two shares of the depth, 0 <= first < second <= 1")
        if self.layout not in LAYOUTS:
            raise InputError(f"layout {self.layout!r} is unknown; choose from {', '.join(LAYOUTS)}")

    def shares(self, total: int) -> tuple[int, int]:
        """Tokens of the first look and of each later one, together at most `total`; the first counts double."""
        unit = total // (self.passes + 1)
        first = total - unit * (self.passes - 1)
        return first, unit

    def save(self, folder: str | Path) -> None:
        path = Path(folder) / SETTINGS_NAME
        with changing(path):
            write_json(path, asdict(self))

    @classmethod
    def load(cls, folder: str | Path) -> EsperSettings:
        path = Path(folder) / SETTINGS_NAME
        verify(path.parent, [path.name])
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls(**found)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path} holds no settings of Esper ({error}); write them with save") from error


# One more look only where the first left doubts: stop below .3; then more where it was unsure, less where it was sure.
TWO_PASS = EsperSettings(passes=2, least=1, stop=ENOUGH, more=MORE, less=LESS)
# Three or four fixations, never back to where the eye has been; stop at confidence .9.
SACCADES = EsperSettings(passes=4, least=3, stop=0.1, inhibition=1.0)
# Up to four looks, at least two, until the uncertainty is below .15; each over all of the map, where saccades rest on
# one place after the other.
FOUR_PASS = EsperSettings(passes=4, least=2, stop=0.15, fovea=None)
PRESETS = {"esper": EsperSettings(), "two_pass": TWO_PASS, "four_pass": FOUR_PASS, "saccades": SACCADES}


def as_settings(value: EsperSettings | str | None) -> EsperSettings:
    """Settings by name or value; None is `esper`."""
    if isinstance(value, EsperSettings):
        return value
    name = value or "esper"
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}; choose from {', '.join(PRESETS)} or pass EsperSettings")
    return PRESETS[name]
