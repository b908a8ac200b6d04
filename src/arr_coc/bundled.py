"""The weights that come with the library: `mini`, which answers, and `scorer`, which says where to look.

They lie in `weights/mini` (a stock Qwen3-VL checkpoint, with calibration.json beside it) and `weights/scorer`. A
training leaves the same two folders side by side, so everything here works on those as well.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .checks import shown
from .errors import InputError
from .files import write_json
from .knowing.onnx_scorer import GRAPH_NAME, score_picture
from .knowing.scene import Scene
from .manifest import changing, verify
from .pictures import Picture
from .sensing.picture_kind import strangeness
from .values import Relevance

if TYPE_CHECKING:
    import torch


WEIGHTS = Path(__file__).parent / "weights"
MINI, SCORER = "mini", "scorer"
CALIBRATION = "calibration.json"
# Classes of scorers, and where they are: the one that reads, and the small one of a coarse view.
SCORERS = {"ReadingScorer": ".knowing.reading_scorer", "Scorer": ".knowing.scorer"}
# What the trainings of this library laid out where they do not say otherwise.
TRAINED_STRATEGY = "quadtree"


def part_folder(part: str, weights: Path | None = None) -> Path:
    """The folder of `mini` or `scorer` under `weights` (those of the package by default)."""
    folder = (weights or WEIGHTS) / part
    if not (folder / "config.json").is_file():
        where = f"in {weights}" if weights else "with this installation"
        raise InputError(f"no {part} {where}: {folder} holds no config.json; install arr-coc again, or train it")
    return folder


def model_folder(name: str | Path) -> Path:
    """Where a model lies that a user named: `mini`, or a folder, whose files are what they were when it was saved."""
    if not isinstance(name, str | os.PathLike) or not str(name).strip() or "\0" in str(name):
        raise InputError(f"a model is named by {MINI!r}, a folder or a name on the hub, got {shown(name)}")
    folder = part_folder(MINI) if name == MINI else Path(name)
    verify(folder)
    return folder


@dataclass(frozen=True)
class Calibration:
    """temperature: divides the logits before uncertainty is read off them. levels, strategy: the coarsest level of
    detail and the strategy that the model was trained with; None leaves them to the allocator."""

    temperature: float = 1.0
    levels: int | None = None
    strategy: str | None = TRAINED_STRATEGY

    @classmethod
    def beside(cls, folder: Path) -> Calibration:
        """What calibration.json in a model's folder says; without one, nothing is divided."""
        path = folder / CALIBRATION
        if not path.is_file():
            return cls(strategy=None if scorer_beside(folder) is None else TRAINED_STRATEGY)
        verify(folder, [CALIBRATION])
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            levels = found.get("levels")
            read = cls(
                float(found["temperature"]),
                None if levels is None else int(levels),
                str(found.get("strategy", TRAINED_STRATEGY)),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is not a calibration ({error}); calibrate the model again") from error
        if not read.temperature > 0:
            raise InputError(f"{path} has temperature {read.temperature}; it must be above 0, calibrate again")
        return read

    def write(self, folder: Path, **how: Any) -> Path:
        """Write it into a model's folder; how: what it was measured on, kept in the file for readers."""
        path = folder / CALIBRATION
        with changing(path):
            write_json(path, {**asdict(self), **how})
        return path


def scorer_beside(folder: Path) -> Path | None:
    """The scorer that was trained together with the model in `folder`, where there is one."""
    beside = folder.parent / SCORER
    return beside if _is_scorer(beside) else None


def _kind_of(folder: Path) -> str | None:
    """The class whose weights a folder holds, as its config.json says."""
    try:
        return json.loads((folder / "config.json").read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError):
        return None


def _is_scorer(folder: Path) -> bool:
    return _kind_of(folder) in SCORERS


def scorer_of(folder: Path) -> ScorerRelevance:
    """The trained scorer of a folder of the user's: `relevance="path/to/scorer"`."""
    if not _is_scorer(folder):
        raise InputError(f"{folder} is not the folder of a trained scorer; give one that a training wrote")
    return ScorerRelevance(folder)


@cache  # read once in a process, however many pictures and eyes ask it; nobody changes its weights
def load_scorer(folder: Path, device: str = "cpu") -> Any:
    """A trained scorer of either class, in single precision: `score(pictures, question_ids)` is its map."""
    kind = _kind_of(folder)
    if kind not in SCORERS:
        raise InputError(f"{folder} holds no trained scorer; give a folder that a training of one wrote")
    module = import_module(SCORERS[kind], __package__)
    return getattr(module, kind).from_pretrained(folder).float().to(device)


def question_ids(query: str) -> torch.Tensor:
    """(1, L) int64: the question in the alphabet; what is not in it becomes a question mark, as for `mini`."""
    import torch

    from .alphabet import IDS

    return torch.tensor([[IDS.get(character, IDS["?"]) for character in query]])


@dataclass(frozen=True)
class ScorerRelevance:
    """A relevance source: (picture (3, H, W) uint8 or in [0, 1], question) → `Relevance` of every 32×32 cell."""

    folder: Path

    @classmethod
    def bundled(cls) -> ScorerRelevance:
        return cls(part_folder(SCORER))

    def __call__(self, picture: torch.Tensor, query: str) -> Relevance:
        if picture.is_cuda or not self.has_graph:
            return self._by_torch(picture, query)
        return self.of_pixels(picture.permute(1, 2, 0).numpy(), query)

    @property
    def has_graph(self) -> bool:
        return (self.folder / GRAPH_NAME).is_file()

    def of_pixels(self, pixels: np.ndarray, query: str, device: str = "cpu") -> Relevance:
        """The same for an array (H, W, 3) of uint8; on a processor by the ONNX graph, where there is one: no torch."""
        if device != "cpu" or not self.has_graph:
            return self._by_torch(Scene(pixels, device=device).tensor, query)
        return self._found(score_picture(self.folder, pixels, query), query)

    def of_scene(self, scene: Scene, query: str) -> Relevance:
        """The same for a scene; an array needs no torch."""
        if isinstance(scene.given, np.ndarray):
            return self.of_pixels(scene.given, query, str(scene.device))
        return self(scene.tensor, query)

    def _by_torch(self, picture: torch.Tensor, query: str) -> Relevance:
        import torch

        scorer, ids = load_scorer(self.folder, str(picture.device)), question_ids(query).to(picture.device)
        # Half precision is enough to choose by, and much faster on a GPU.
        with torch.autocast(picture.device.type, torch.bfloat16, enabled=picture.is_cuda):
            return self._found(scorer.score(picture[None], ids)[0].float().cpu().numpy(), query)

    @staticmethod
    def _found(scores: np.ndarray, query: str) -> Relevance:
        return Relevance(scores, query=query, participatory=scores)


def marked(picture: Picture, scorer: Any) -> Picture:
    """A picture that a model is asked about, with a note where it is unlike all that the model has learned from: a
    model with a scorer of this library's was trained on what the library draws."""
    line = strangeness(picture.pixels) if isinstance(scorer, ScorerRelevance) else None
    return picture if line is None else replace(picture, notes=(*picture.notes, line))


def scorer_relevance(scene: Scene, query: str) -> Any:
    """The source "scorer": the one that was trained with the model, else the one that comes with the library."""
    scorer = scene.scorer or ScorerRelevance.bundled()
    return scorer.of_scene(scene, query) if isinstance(scorer, ScorerRelevance) else scorer(scene.tensor, query)


def scorer_missing(offers: frozenset[str]) -> str | None:
    """Why the bundled scorer cannot be asked, in one line; None where it can, or where the model has its own."""
    if "scorer" not in offers:
        try:
            part_folder(SCORER)
        except InputError as error:
            return str(error)
    return None
