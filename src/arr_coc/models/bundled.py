"""The weights that come with the library: `mini`, which answers, and `scorer`, which says where to look.

They lie in `weights/mini` (a stock Qwen3-VL checkpoint, with calibration.json beside it) and `weights/scorer`. A
training leaves the same two folders side by side, so everything here works on those as well.
"""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.alphabet import IDS, QUESTION
from ..core.checks import shown
from ..core.errors import InputError
from ..core.files import write_json
from ..core.folders import WEIGHTS
from ..core.manifest import changing, verify
from ..core.plugins import load_function, load_plugin, plugins
from ..core.values import Relevance
from ..pictures.kind import strangeness
from ..pictures.load import Picture
from ..relevance.registry import Maps
from ..relevance.scene import Scene
from ..relevance.scorer.onnx_scorer import score_picture

if TYPE_CHECKING:
    import torch


MINI, SCORER = "mini", "scorer"
CALIBRATION = "calibration.json"
MOST_GRAPHS = 4  # of a scorer on a GPU, by size of picture
# Classes of scorers, and where they are: the one that reads, and the small one of a coarse view.
SCORER_GROUP = "arr_coc.scorers"  # entry points of other packages: the name of a class → the class
# What the trainings of this library laid out where they do not say otherwise.
TRAINED_STRATEGY = "overlay"


def part_folder(part: str, weights: Path | None = None) -> Path:
    """The folder of `mini` or `scorer` under `weights` (those of the package by default)."""
    folder = (weights or WEIGHTS) / part
    if not os.path.isfile(folder / "config.json"):
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
        if not os.path.isfile(path):
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
    kind = _kind_of(folder)
    return kind == "ReadingScorer" or kind in plugins(SCORER_GROUP)


def scorer_of(folder: Path) -> ScorerRelevance:
    """The trained scorer of a folder of the user's: `relevance="path/to/scorer"`."""
    if not _is_scorer(folder):
        raise InputError(f"{folder} is not the folder of a trained scorer; give one that a training wrote")
    return ScorerRelevance(folder)


@cache  # read once in a process, however many pictures and eyes ask it; nobody changes its weights
def load_scorer(folder: Path, device: str = "cpu") -> Any:
    """A trained scorer of either class, in single precision: `score(pictures, question_ids)` is its map."""
    kind = _kind_of(folder)
    if kind is None or not _is_scorer(folder):
        raise InputError(f"{folder} holds no trained scorer; give a folder that a training of one wrote")
    point = plugins(SCORER_GROUP).get(kind)
    own = "arr_coc.relevance.scorer.reading_scorer:ReadingScorer"
    model: Any = load_function(own) if point is None else load_plugin(point)
    return model.from_pretrained(folder).float().to(device)


@cache
def gpu_scorer(folder: Path, device: str) -> Any:
    """The same for a CUDA device, in half precision, which is enough to choose by: `score(pictures, question_ids)`."""
    from ..relevance.scorer.reading_scorer import ReadingScorer, swift

    scorer = load_scorer(folder)
    return GpuScorer(swift(scorer).to(device) if isinstance(scorer, ReadingScorer) else load_scorer(folder, device))


class GpuScorer:
    """A scorer on a CUDA device. One picture at a time is replayed from a graph of its size: launching its kernels
    would take longer than running them. One thread at a time."""

    def __init__(self, scorer: Any) -> None:
        self.scorer = scorer
        self.graphs: OrderedDict[tuple[int, ...], tuple[torch.Tensor, torch.Tensor, Any]] = OrderedDict()
        self.lock = Lock()

    def score(self, pictures: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W), (B, L) → (B, rows, cols) in [0, 1]; overwritten by the next call."""
        import torch

        with self.lock, torch.backends.cudnn.flags(benchmark=True):
            if len(pictures) > 1:
                return self._score(pictures, ids)
            shape = tuple(pictures.shape)
            if shape not in self.graphs:
                from .qwen3_vl.graph import Captured

                pixels, words = pictures.clone(), ids.clone()
                run = Captured(lambda: self._score(pixels, words), pictures.device)
                self.graphs[shape] = pixels, words, run
                if len(self.graphs) > MOST_GRAPHS:
                    self.graphs.popitem(last=False)
            self.graphs.move_to_end(shape)
            pixels, words, run = self.graphs[shape]
            pixels.copy_(pictures)
            words.copy_(ids)
            return run()

    def _score(self, pictures: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        import torch

        with torch.autocast(pictures.device.type, torch.bfloat16, cache_enabled=False):
            return self.scorer.score(pictures.contiguous(memory_format=torch.channels_last), ids)


def question_ids(query: str, length: int | None = None) -> torch.Tensor:
    """(1, L) int64: the question in the alphabet; what is not in it becomes a question mark, as for `mini`. length: cut
    or padded with 0 to it."""
    import torch

    row = [IDS.get(character, IDS["?"]) for character in query][:length]
    return torch.tensor([row + [0] * ((length or 0) - len(row))])


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
        return _kind_of(self.folder) == "ReadingScorer"

    def of_pixels(self, pixels: np.ndarray, query: str, device: str = "cpu") -> Relevance:
        """The same for an array (H, W, 3) of uint8; on a processor without torch, where it can read."""
        if device != "cpu" or not self.has_graph:
            return self._by_torch(Scene(pixels, device=device).tensor, query)
        return self._found(score_picture(self.folder, pixels, query), query)

    def of_scene(self, scene: Scene, query: str) -> Relevance:
        """The same for a scene; an array needs no torch."""
        if isinstance(scene.given, np.ndarray):
            return self.of_pixels(scene.given, query, str(scene.device))
        return self(scene.tensor, query)

    def _by_torch(self, picture: torch.Tensor, query: str) -> Relevance:
        return self.of_batch(picture[None], [query])[0]

    def of_batch(self, pictures: torch.Tensor, queries: Sequence[str]) -> list[Relevance]:
        """The same for pictures of one size, (B, 3, H, W), in one pass."""
        import torch

        device = pictures.device
        # One length for all on a GPU: every other one would be another graph.
        length = QUESTION if pictures.is_cuda else max(map(len, queries))
        ids = torch.cat([question_ids(query, length) for query in queries]).to(device)
        scorer = gpu_scorer(self.folder, str(device)) if pictures.is_cuda else load_scorer(self.folder, str(device))
        with torch.no_grad():
            scores = scorer.score(pictures, ids).float().cpu().numpy()
        return [self._found(one, query) for one, query in zip(scores, queries, strict=True)]

    @staticmethod
    def _found(scores: np.ndarray, query: str) -> Relevance:
        return Relevance(scores, query=query, participatory=scores)


def marked(picture: Picture, scorer: Any) -> Picture:
    """A picture that a model is asked about, with a note where it is unlike all that the model has learned from: a
    model with a scorer of this library's was trained on what the library draws."""
    line = strangeness(picture.pixels) if isinstance(scorer, ScorerRelevance) else None
    return picture if line is None else replace(picture, notes=(*picture.notes, line))


# What people add to a question about how to answer it.
_HOW = r"(?:answer|reply|respond)(?: only)?(?: \w+){0,3} (?:words?|phrase|number|text|briefly|only|it)(?: only| alone)?"
_ADDED = rf"(?:please|thanks|thank you|be brief|(?:please )?(?:{_HOW}|answer briefly))"
_ADDITION = re.compile(rf"(?<=[?.!,])\s*{_ADDED}\s*[.!]?\s*$", re.IGNORECASE)


def as_trained(query: str, scorer: Any) -> str:
    """A question as a model of this library's was trained on it: a capital at its beginning, not only capitals, and
    nothing about how to answer. A small reader of characters takes other letters for other words. (Any other model
    reads what was written.)"""
    if not isinstance(scorer, ScorerRelevance):
        return query
    query = _ADDITION.sub("", query).rstrip() or query
    if not any(letter.islower() for letter in query):
        query = query.lower()
    return query[:1].upper() + query[1:]


def scorer_maps(scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
    """The source "scorer": the one that was trained with the model, else the one that comes with the library. Pictures
    of one size on a GPU are looked at together."""
    scorer = scenes[0].scorer or ScorerRelevance.bundled()
    if isinstance(scorer, ScorerRelevance):
        on_gpu = len(scenes) > 1 and all(str(scene.device).startswith("cuda") for scene in scenes)
        if on_gpu and len({scene.tensor.shape for scene in scenes}) == 1:
            import torch

            found: list[Any] = list(scorer.of_batch(torch.stack([scene.tensor for scene in scenes]), queries))
        else:
            found = [scorer.of_scene(scene, query) for scene, query in zip(scenes, queries, strict=True)]
    else:
        found = [scorer(scene.tensor, query) for scene, query in zip(scenes, queries, strict=True)]
    return Maps(found, [None] * len(found))


def scorer_missing(offers: frozenset[str]) -> str | None:
    """Why the bundled scorer cannot be asked, in one line; None where it can, or where the model has its own."""
    if "scorer" not in offers:
        try:
            part_folder(SCORER)
        except InputError as error:
            return str(error)
    return None
