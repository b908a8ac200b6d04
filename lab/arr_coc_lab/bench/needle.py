"""Exact match on Needle World from given weights: every family, every way to allocate, three budgets, and calibration.

All ways see the very same pictures, so that differences are taken picture by picture. What is measured is one JSON
document; `needle_report` makes every table from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.folders import MINI, SCORER, part_folder
from arr_coc.models.bundled import Calibration, model_folder
from arr_coc.models.qwen3_vl.attention import dense_vision_attention
from arr_coc.relevance.scorer.source import load_scorer

from ..train.allocations import tree_of
from ..train.calibration import ASKED, answer_batch, is_right
from ..train.evaluate import FAMILIES, evaluation_leaves
from ..train.pictures import TrainingBatch, render_family
from ..train.reader import read
from .machine import machine_facts
from .needle_report import Outcomes, summarise

if TYPE_CHECKING:
    from transformers import PreTrainedModel

KEEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
CHOSEN = ("uniform", "random", "shuffled", "scorer", "oracle")
CELLS = (("full", 1.0), *((strategy, keep) for keep in KEEPS for strategy in CHOSEN))
NUMBER, QUICK_NUMBER = 2048, 20
SIZE = (512, 512)
SEED = 1
BATCH = {"cuda": 256, "cpu": 8}


@dataclass(frozen=True)
class Weights:
    """mini and the scorer, on one device, and the temperature that calibrates mini's uncertainty."""

    mini: PreTrainedModel
    scorer: Any
    temperature: float
    name: str

    @classmethod
    def load(cls, folder: Path | None = None, device: str = "cpu") -> Weights:
        """Those of the package, or the folders `mini` and `scorer` that a training left in `folder`."""
        from transformers import Qwen3VLForConditionalGeneration
        from transformers.utils import logging

        logging.disable_progress_bar()
        places = part_folder(MINI, folder), part_folder(SCORER, folder)
        model: Any = Qwen3VLForConditionalGeneration.from_pretrained(model_folder(places[0]), dtype=torch.float32)
        scorer = load_scorer(places[1])
        heat = Calibration.beside(places[0]).temperature
        return cls(model.to(device).eval(), scorer.to(device), heat, digest(*places))


def digest(*folders: Path) -> str:
    """A short name for what the weights are, so that a table can be held against the files it came from."""
    found = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.glob("*.safetensors")):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


@dataclass
class RememberedScores:
    """A scorer that looks once at each batch, though several allocations ask it."""

    scorer: Any
    _last: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def score(self, pictures: Tensor, question_ids: Tensor) -> Tensor:
        if self._last is None or self._last[0] is not pictures:
            self._last = pictures, self.scorer.score(pictures, question_ids)
        return self._last[1]


def measure(
    weights: Weights,
    *,
    number: int = NUMBER,
    families: Sequence[str] = FAMILIES,
    size: tuple[int, int] = SIZE,
    seed: int = SEED,
    split: str = "test",
    batch_size: int | None = None,
    cells: Sequence[tuple[str, float]] = CELLS,
    advance: Callable[[str], None] = lambda family: None,
) -> dict[str, Any]:
    """The whole document. advance: called with the name of each family before it begins."""
    device = next(weights.mini.parameters()).device
    batch_size = batch_size or BATCH.get(device.type, BATCH["cpu"])
    facts = machine_facts(("torch", "transformers"))
    if device.type == "cuda":
        facts["device"] = torch.cuda.get_device_name(device)
    started = perf_counter()
    outcomes = []
    for family in families:
        advance(family)
        outcomes.append(family_outcomes(weights, family, number, size, seed, split, batch_size, cells))
    facts |= {
        "weights": weights.name,
        "questions for each cell": str(number),
        "pictures": f"{size[0]}×{size[1]}, split {split} (held-out seeds and typefaces), seed {seed}",
        "temperature": f"{weights.temperature:.3f}",
        "seconds": f"{perf_counter() - started:.0f}",
    }
    return {"schema": 1, "kind": "needle", "facts": facts, **summarise(outcomes, seed)}


@torch.inference_mode()
def family_outcomes(
    weights: Weights,
    family: str,
    number: int,
    size: tuple[int, int],
    seed: int,
    split: str,
    batch_size: int,
    cells: Sequence[tuple[str, float]],
) -> Outcomes:
    """Which of the family's questions are answered right in each cell, and how sure the model was of it."""
    device, tree = next(weights.mini.parameters()).device, tree_of(size)
    generator = torch.Generator().manual_seed(seed)
    scorer: Any = RememberedScores(weights.scorer)
    right: dict[tuple[str, float], list[np.ndarray]] = {}
    sure: dict[tuple[str, float], list[np.ndarray]] = {}
    tokens: dict[tuple[str, float], int] = {}
    with (
        dense_vision_attention(weights.mini),
        torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"),
    ):
        for batch in batches(family, number, size, seed, split, batch_size, device):
            for cell in cells:
                leaves = evaluation_leaves(*cell, batch, tree, scorer, generator)
                good, confidence = answered(weights, batch, leaves, cell in ASKED)
                right.setdefault(cell, []).append(good)
                tokens[cell] = leaves.shape[1]
                if confidence is not None:
                    sure.setdefault(cell, []).append(confidence)
    return Outcomes(
        family=family,
        right={cell: np.concatenate(parts) for cell, parts in right.items()},
        confidence={cell: np.concatenate(parts, axis=1) for cell, parts in sure.items()},
        tokens=tokens,
        full=tree.full,
    )


def batches(
    family: str, number: int, size: tuple[int, int], seed: int, split: str, batch_size: int, device: torch.device
) -> Iterator[TrainingBatch]:
    for start in range(0, number, batch_size):
        yield render_family(family, min(batch_size, number - start), size, seed, start, device, None, split)


def answered(
    weights: Weights, batch: TrainingBatch, leaves: Tensor, with_confidence: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Right (B,) bool and, where wanted, confidence (2, B) at temperature 1 and at the calibrated one.

    Without confidence the true answer is given a character at a time, which finds the same answers right as letting
    the model speak, in one pass.
    """
    if not with_confidence:
        return read(weights.mini, batch, leaves).right.cpu().numpy(), None
    said = answer_batch(weights.mini, batch.pictures, batch.question_ids, leaves)
    confidence = torch.stack([said.confidence(heat) for heat in (1.0, weights.temperature)])
    return is_right(said, batch.answer_ids).cpu().numpy(), confidence.float().cpu().numpy()
