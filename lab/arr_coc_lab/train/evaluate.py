"""Exact match by family, strategy and budget, each with its number of questions and a 95 % interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from arr_coc.attending.controls import permute_along_tree
from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import Tree
from arr_coc.core.values import JsonObject

from ..classic.walks import dense_vision_attention
from ..statistics import wilson
from .allocations import Kind, fine_cells, make_leaves, target_cells, tree_of
from .pictures import TrainingBatch, render_family
from .reader import read

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .pictures import TrainingBatch

FAMILIES = ("cards", "forms", "receipts", "scenes", "charts", "signs", "zoo")


class MapScorer(Protocol):
    """What says of pictures and questions where detail is needed."""

    def score(self, pictures: Tensor, question_ids: Tensor) -> Tensor: ...


def evaluation_leaves(
    strategy: str, keep: float, batch: TrainingBatch, tree: Tree, scorer: MapScorer | None, generator: torch.Generator
) -> Tensor:
    """Leaves of one strategy, laid out as a user would get them: no noise, no hints."""
    if strategy in ("full", "uniform"):
        return make_leaves(Kind(strategy, keep, 1.0), batch, tree, _on(batch.pictures.device, generator), None)
    truth = target_cells(batch, tree.rows, tree.cols)
    if strategy == "oracle":
        found = truth
    elif strategy == "random":
        found = torch.rand(truth.shape, generator=generator).to(truth.device)
    else:
        assert scorer is not None
        found = scorer.score(batch.pictures, batch.question_ids).float()
        found = permute_along_tree(found, tree, generator) if strategy == "shuffled" else found
    return overlay(found, [max(1, round(keep * tree.full))] * len(truth)).cells


def recall(leaves: Tensor, truth: Tensor) -> Tensor:
    """Leaves (B, N, 3) and the cells that matter (B, rows, cols) → (B,): the share of them seen at level 0."""
    seen = fine_cells(leaves, truth.shape[1], truth.shape[2]) * truth
    return seen.sum((1, 2)) / truth.sum((1, 2)).clamp_min(1)


def covered(maps: Tensor, truth: Tensor, keep: float) -> np.ndarray:
    """(B,): the share of the cells that matter (B, rows, cols) which an overlay of these maps, of a share of the
    tokens, sees at level 0."""
    budget = max(1, round(keep * truth.shape[1] * truth.shape[2]))
    return recall(torch.as_tensor(overlay(maps, [budget] * len(maps)).cells), truth).numpy()


def _on(device: torch.device, generator: torch.Generator) -> torch.Generator:
    """A generator for the device, seeded from the given one."""
    seed = int(torch.randint(2**31, (1,), generator=generator))
    return torch.Generator(device=device).manual_seed(seed)


@dataclass(frozen=True)
class DrawnPictures:
    """Pictures that are drawn to judge by. number: of each family."""

    number: int = 2048
    size: tuple[int, int] = (512, 512)
    seed: int = 1
    split: str = "test"
    batch_size: int = 256
    difficulty: str | None = None

    def batches(self, family: str, device: torch.device) -> Iterator[TrainingBatch]:
        """All of a family, at most `batch_size` at a time."""
        for start in range(0, self.number, self.batch_size):
            count = min(self.batch_size, self.number - start)
            yield render_family(family, count, self.size, self.seed, start, device, self.difficulty, self.split)


@torch.inference_mode()
def accuracy(
    model: PreTrainedModel, scorer: MapScorer | None, family: str, strategy: str, keep: float, shown: DrawnPictures
) -> dict[str, object]:
    """One cell of the table."""
    device = next(model.parameters()).device
    tree = tree_of(shown.size)
    right = done = tokens = 0
    generator = torch.Generator().manual_seed(shown.seed)
    with dense_vision_attention(model), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        for batch in shown.batches(family, device):
            leaves = evaluation_leaves(strategy, keep, batch, tree, scorer, generator)
            right += int(read(model, batch, leaves).right.sum())
            tokens += leaves.shape[1] * len(batch)
            done += len(batch)
    low, high = wilson(right, done)
    return {
        "family": family,
        "strategy": strategy,
        "keep": keep,
        "tokens": tokens / done,
        "full": tree.full,
        "accuracy": right / done,
        "low": low,
        "high": high,
        "n": done,
        "size": list(shown.size),
        "split": shown.split,
        "seed": shown.seed,
    }


def table(
    model: PreTrainedModel,
    scorer: MapScorer | None,
    families: Sequence[str] = FAMILIES,
    cells: Sequence[tuple[str, float]] = (("full", 1.0), ("uniform", 0.25), ("scorer", 0.25)),
    **how: Any,
) -> list[dict[str, object]]:
    """Accuracies of every family in every cell, a strategy at a share of the tokens. how: of `DrawnPictures`."""
    shown = DrawnPictures(**how)
    return [accuracy(model, scorer, family, strategy, keep, shown) for family in families for strategy, keep in cells]


def format_table(rows: Sequence[JsonObject]) -> str:
    """A markdown table: strategies down, families across, and their mean."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    kinds = list(dict.fromkeys((row["strategy"], row["keep"]) for row in rows))
    found = {(row["family"], row["strategy"], row["keep"]): row for row in rows}
    lines = ["| allocation | tokens | " + " | ".join(families) + " | mean |", "|---" * (len(families) + 3) + "|"]
    for strategy, keep in kinds:
        cells = [found[family, strategy, keep] for family in families if (family, strategy, keep) in found]
        values = [f"{100 * c['accuracy']:.1f} ({100 * c['low']:.1f}–{100 * c['high']:.1f})" for c in cells]
        mean = 100 * sum(c["accuracy"] for c in cells) / len(cells)
        lines.append(f"| {strategy} | {cells[0]['tokens']:.0f} | " + " | ".join(values) + f" | {mean:.1f} |")
    return "\n".join(lines)
