"""The source "scorer": run the scorer of a folder of weights on any device.

On a CPU it runs without torch (`onnx_scorer`), elsewhere as `ReadingScorer`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.alphabet import QUESTION, text_row
from ...core.errors import InputError
from ...core.folders import SCORER, part_folder
from ...core.values import Relevance
from ...texture.type_height import view_size
from ..registry import Maps
from ..scene import Scene, begin_measuring
from .onnx_scorer import GRAPHS, cell_relevance, reading_size, reduced_batch, size_note

if TYPE_CHECKING:
    import torch

    from .reading_scorer import ReadingScorer


def _holds_scorer(folder: Path) -> bool:
    """Return whether a folder has the weights of a scorer, by its config.json."""
    try:
        return json.loads((folder / "config.json").read_text(encoding="utf-8")).get("kind") == "ReadingScorer"
    except (OSError, ValueError, AttributeError):
        return False


def scorer_beside(folder: Path) -> Path | None:
    """Return the folder of the scorer that was trained with the model in `folder`, if there is one."""
    beside = folder.parent / SCORER
    return beside if _holds_scorer(beside) else None


@cache  # loaded once a process; callers must not change its weights
def load_scorer(folder: Path, device: str = "cpu") -> ReadingScorer:
    """Load a trained scorer in single precision; `score(pictures, question_ids)` computes its map."""
    from .reading_scorer import ReadingScorer

    return ReadingScorer.from_pretrained(folder).float().to(device)


@cache
def gpu_score(folder: Path, device: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return `score` of a scorer for a CUDA device, in half precision and with CUDA graphs."""
    from .reading_scorer import for_gpu, recorded

    return recorded(for_gpu(load_scorer(folder)).to(device))


@dataclass(frozen=True)
class ScorerRelevance:
    """A relevance source: (picture, question) → `Relevance` of every 32×32 cell. picture: a tensor (3, H, W), or an
    array (H, W, 3), uint8 or in [0, 1]."""

    folder: Path

    def __post_init__(self) -> None:
        if not _holds_scorer(self.folder):
            raise InputError(f"{self.folder} is not the folder of a trained scorer; give one that a training wrote")

    @classmethod
    def bundled(cls) -> ScorerRelevance:
        return cls(part_folder(SCORER))

    def __call__(self, picture: torch.Tensor | np.ndarray, query: str) -> Relevance:
        return self.of_scene(Scene(picture), query)

    def of_scene(self, scene: Scene, query: str) -> Relevance:
        """Compute the relevance of a scene; on a CPU without torch, if the folder has the graphs."""
        given = scene.given
        device = scene.device if isinstance(given, np.ndarray) else given.device
        if str(device) != "cpu" or not all((self.folder / name).is_file() for name in GRAPHS):
            return self.of_scenes([scene], [query])[0]
        pixels = given if isinstance(given, np.ndarray) else given.permute(1, 2, 0).numpy()
        found, read = cell_relevance(self.folder, pixels, query)
        return self._found(found, query, size_note(read, (pixels.shape[0], pixels.shape[1])))

    def of_scenes(self, scenes: Sequence[Scene], queries: Sequence[str]) -> list[Relevance]:
        """Compute the relevance of pictures of one size in one pass."""
        import torch

        pictures = torch.stack([scene.tensor for scene in scenes]) if len(scenes) > 1 else scenes[0].tensor[None]
        device, given = pictures.device, (pictures.shape[2], pictures.shape[3])
        same = len(set(queries)) == 1  # encode one question about all of them once
        ids = torch.tensor([text_row(query, QUESTION) for query in queries[: 1 if same else None]])
        if not pictures.is_cuda:  # on a GPU one length for all, because every length would need its own graph
            ids = ids[:, : max(1, int((ids > 0).sum(1).max()))]
        ids = ids.to(device, non_blocking=True)
        here = self.folder, str(device)
        score = gpu_score(*here) if pictures.is_cuda else load_scorer(*here).score
        with torch.no_grad():
            size = view_size(given)
            likely = score(reduced_batch(pictures, size), ids)  # the device computes while the CPU measures letters
            begin_measuring(scenes)
            sizes = [reading_size(scene.pixels, scene.letters) for scene in scenes]
            maps = list(likely.float().cpu().numpy())
            for number in (number for number, own in enumerate(sizes) if own != size):
                one = slice(number, number + 1)
                found = score(reduced_batch(pictures[one], sizes[number]), ids if same else ids[one])
                maps[number] = found[0].float().cpu().numpy()
        notes = [size_note(one, given) for one in sizes]
        return [self._found(*one) for one in zip(maps, queries, notes, strict=True)]

    @staticmethod
    def _found(scores: np.ndarray, query: str, notes: tuple[str, ...] = ()) -> Relevance:
        return Relevance(scores, query=query, participatory=scores, notes=notes)


def scorer_maps(scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
    """Compute the source "scorer", with the scorer trained with the model, else the bundled one. Pictures of one size
    on a GPU are processed together."""
    scorer = scenes[0].scorer or ScorerRelevance.bundled()
    on_gpu = len(scenes) > 1 and all(str(scene.device).startswith("cuda") for scene in scenes)
    if not isinstance(scorer, ScorerRelevance):
        found = [scorer(scene.tensor, query) for scene, query in zip(scenes, queries, strict=True)]
    elif on_gpu and len({scene.tensor.shape for scene in scenes}) == 1:
        found = scorer.of_scenes(scenes, queries)
    else:
        found = [scorer.of_scene(scene, query) for scene, query in zip(scenes, queries, strict=True)]
    return Maps(found)
