"""The weights that come with the library: `mini`, which answers, and `scorer`, which says where to look.

They lie in `weights/mini` (a stock Qwen3-VL checkpoint, with calibration.json beside it) and `weights/scorer`. A
training leaves the same two folders side by side, so everything here works on those as well.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from ..core.errors import InputError, shown
from ..core.folders import MINI, part_folder, verify, whole_folder, write_json
from ..knowing.scorer.source import ScorerRelevance, scorer_beside
from ..pictures.kind import is_photograph
from ..pictures.load import Picture

CALIBRATION = "calibration.json"
# Stands where a text goes while a chat is written: a character of no language.
PLACE = "\ue000"
HUB_NAME = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")
TRAINED_STRATEGY = "overlay"


def model_folder(name: str | Path) -> Path:
    """Return the folder of a model by its name: `mini`, or a folder, whose files must be as saved."""
    if not isinstance(name, str | os.PathLike) or not str(name).strip() or "\0" in str(name):
        raise InputError(f"a model is named by {MINI!r}, a folder or a name on the hub, got {shown(name)}")
    folder = part_folder(MINI) if name == MINI else Path(name)
    if not os.path.exists(folder) and not HUB_NAME.fullmatch(str(name)):
        raise InputError(f"{shown(str(name))} is neither a folder nor a name on the hub; give {MINI!r}, a folder, "
                         "or owner/name")  # fmt: skip
    verify(folder)
    return folder


def log_odds(sureness: float, least: float = 1e-3) -> float:
    """Return the natural logarithm of the odds of a probability, kept this far from 0 and 1."""
    sure = min(max(sureness, least), 1 - least)
    return math.log(sure / (1 - sure))


def logistic(odds: float) -> float:
    """Return the probability whose odds have this logarithm."""
    return 1 / (1 + math.exp(-odds))


@dataclass(frozen=True)
class PlaceDoubt:
    """A text may be read well at the wrong place: how sure an answer is, given how sure the scorer was of the place.

    The logit of the sureness is slope · logit(confidence) + peak · (the highest value of the scorer's map) + offset;
    lab/LOG.md says how the three were fitted.
    """

    slope: float
    peak: float
    offset: float

    def sureness(self, confidence: float, peak: float) -> float:
        """Return the probability that an answer is right. confidence: of its text. peak: of the map, in [0, 1].

        Example:
            >>> sure = PlaceDoubt(slope=0.8, peak=3.2, offset=-2.8)
            >>> round(sure.sureness(0.95, 0.8), 2), round(sure.sureness(0.95, 0.4), 2)
            (0.89, 0.7)
        """
        return logistic(self.slope * log_odds(confidence, 1e-6) + self.peak * peak + self.offset)


@dataclass(frozen=True)
class Calibration:
    """temperature: divides the logits before uncertainty is read off them. levels, strategy: the coarsest level of
    detail and the strategy that the model was trained with; None leaves them to the allocator. place: what is known of
    answers read at the wrong place; None where nothing is."""

    temperature: float = 1.0
    levels: int | None = None
    strategy: str | None = TRAINED_STRATEGY
    place: PlaceDoubt | None = None

    @classmethod
    def beside(cls, folder: Path) -> Calibration:
        """Load calibration.json of a model's folder; without one, the temperature is 1."""
        path = folder / CALIBRATION
        if not os.path.isfile(path):
            return cls(strategy=None if scorer_beside(folder) is None else TRAINED_STRATEGY)
        verify(folder, [CALIBRATION])
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            levels, place = found.get("levels"), found.get("place")
            read = cls(
                float(found["temperature"]),
                None if levels is None else int(levels),
                str(found.get("strategy", TRAINED_STRATEGY)),
                None if place is None else PlaceDoubt(*(float(place[one.name]) for one in fields(PlaceDoubt))),
            )
            if not read.temperature > 0:
                raise ValueError(f"its temperature, {read.temperature}, must be above 0")
            return read
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is not a calibration ({error}); calibrate the model again") from error

    def write(self, folder: Path, **how: object) -> Path:
        """Write it into a model's folder; how: what it was measured on, kept in the file for readers."""
        with whole_folder(folder, always=False) as made:
            write_json(made / CALIBRATION, {**asdict(self), **how})
        return folder / CALIBRATION


def marked(picture: Picture, scorer: object) -> Picture:
    """Load a picture, with a note if it is unlike everything that the model has learned from: a
    model with a scorer of this library's was trained on what the library draws."""
    if not isinstance(scorer, ScorerRelevance) or not is_photograph(picture.pixels):
        return picture
    line = "this looks like a photograph, and the model has only ever seen drawn pictures: its answer means little here"
    return replace(picture, notes=(*picture.notes, line))


# What people add to a question about how to answer it.
_HOW = r"(?:answer|reply|respond)(?: only)?(?: \w+){0,3} (?:words?|phrase|number|text|briefly|only|it)(?: only| alone)?"
_ADDED = rf"(?:please|thanks|thank you|be brief|(?:please )?(?:{_HOW}|answer briefly))"
_ADDITION = re.compile(rf"(?<=[?.!,])\s*{_ADDED}\s*[.!]?\s*$", re.IGNORECASE)


def without_markers(question: str, markers: Iterable[str]) -> str:
    """Break up every marker that a question spells out, such as the end of a turn: users write only text."""
    question = question.encode(errors="replace").decode()  # tokenizers refuse half a character
    for marker in sorted((one for one in markers if len(one) > 1), key=len, reverse=True):
        question = question.replace(marker, f"{marker[0]} {marker[1:]}")
    return question


def as_trained(query: str, scorer: object) -> str:
    """Rewrite a question in the form of this library's trainings: a capital at its beginning, not only capitals, and
    nothing about how to answer. Any other model reads what was written."""
    if not isinstance(scorer, ScorerRelevance):
        return query
    query = _ADDITION.sub("", query).rstrip() or query
    if not any(letter.islower() for letter in query):
        query = query.lower()
    return query[:1].upper() + query[1:]
