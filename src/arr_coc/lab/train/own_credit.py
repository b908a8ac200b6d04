"""Where a frozen model's right answer hung: boxes for records of which only the answer is known.

Any model that `attach` takes is asked by adding one leaf: the picture coarse, then the same with one tile of it in full
detail; the tile is worth what the right answer's log-likelihood gains, and the best tile's quarters are told apart the
same way. `mini` tells every cell of a tile apart by its derivative (`outcomes.picture_credit`), times that worth.
Both know question, answer and model; neither knows a box. How likely the right answers are with everything seen is kept
(`Creditor.likelihood`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ...alphabet import IDS
from ...asking import Eye
from ...attending.frame import Frame
from ...attending.tree import build_tree
from ...bundled import MINI, part_folder
from ...errors import InputError
from .outcomes import CELL, credit_shares, judge, load_reader, picture_credit
from .own_data import OwnRecord
from .pictures import Glyphs, TrainingBatch

# Of the credited cells the first few are kept, until they hold this share of all credit.
HALF, MOST_CELLS = 0.5, 8
TILE = 4  # cells along a side of what is added to a coarse look at once, for `mini`
# The coarse look is at most so many tiles; every one of them costs a reading.
MOST_TILES = 36
# A tile counts where it is worth at least this share of the best one.
WORTH = 0.5

Pixels = Callable[[OwnRecord], np.ndarray]


class Creditor:
    """Records → the same with boxes, each found once. likelihood: of the right answers, mean over those asked."""

    def __init__(self, pixels: Pixels, find: Callable[[np.ndarray, str, str], tuple[np.ndarray, float]]) -> None:
        self.pixels, self.find = pixels, find
        self.found: dict[tuple[str, str, str], np.ndarray] = {}
        self.logs: list[float] = []

    def placed(self, record: OwnRecord) -> OwnRecord:
        key = record.picture, record.query, record.answer
        if key not in self.found:
            self.found[key], log = self.find(self.pixels(record), record.query, record.answer)
            self.logs.append(log)
        return replace(record, boxes=self.found[key], context=np.zeros((0, 4)))

    @property
    def likelihood(self) -> float:
        """Geometric mean, a character or token of the answers."""
        return float(np.exp(np.mean(self.logs))) if self.logs else 0.0


def creditor_of(name: str, pixels: Pixels, device: torch.device) -> Creditor:
    """The frozen model that answers: "mini" or a training's export of one by its derivative, any other by its tiles."""
    folder = part_folder(MINI) if name == MINI else Path(name)
    if name == MINI or os.path.isfile(folder / MINI / "config.json"):
        reader = load_reader(folder, device)
        return Creditor(pixels, lambda picture, query, answer: mini_boxes(reader, picture, query, answer))
    eye = Eye.from_pretrained(name, device=str(device))
    return Creditor(pixels, lambda picture, query, answer: tile_boxes(eye, picture, query, answer))


# ---- mini: a derivative ----------------------------------------------------------------------------------------------


def characters(text: str) -> Tensor:
    """(1, L) int64, as `mini` reads it."""
    return torch.tensor([[IDS.get(character, IDS["?"]) for character in text]])


def mini_boxes(reader: Any, pixels: np.ndarray, query: str, answer: str) -> tuple[np.ndarray, float]:
    """(K, 4) boxes in 0–1 of the cells on which the answer hung most, and its mean log-likelihood."""
    device = next(reader.parameters()).device
    rows, cols = (max(1, round(side / CELL)) for side in pixels.shape[:2])
    picture = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].to(device)
    if picture.shape[2:] != (rows * CELL, cols * CELL):
        resized = F.interpolate(picture.float(), (rows * CELL, cols * CELL), mode="bilinear", antialias=True)
        picture = resized.round().clamp(0, 255).to(torch.uint8)
    asked = characters(query).to(device), characters(answer).to(device)
    credit = picture_credit(reader, picture, *asked)
    # Print runs along a row, so neighbours share their credit; a tile that brings nothing by itself gets nothing.
    along = F.avg_pool2d(credit_shares(credit.cells)[:, None], (1, 3), 1, (0, 1))[0, 0].cpu().numpy()
    gains = mini_gains(reader, picture, *asked).clip(0) ** 2
    both = along * gains.repeat(TILE, 0).repeat(TILE, 1)[:rows, :cols]
    return cell_boxes(both / max(float(both.sum()), 1e-30)), float(credit.log_likelihood)


@torch.no_grad()
def mini_gains(reader: Any, picture: Tensor, question_ids: Tensor, answer_ids: Tensor) -> np.ndarray:
    """(⌈rows / 4⌉, ⌈cols / 4⌉): what each tile of 4×4 cells, seen finely and all others coarsely, adds to the mean
    log-likelihood of the answer. The edge of the picture is repeated up to whole tiles."""
    below, right = (-side % (TILE * CELL) for side in picture.shape[2:])
    whole = F.pad(picture.float(), (0, right, 0, below), mode="replicate").to(torch.uint8)
    rows, cols = whole.shape[2] // CELL, whole.shape[3] // CELL
    coarse = build_tree(rows, cols, 2).nodes_table[: (rows // TILE) * (cols // TILE)]
    tiles = np.stack([refined(coarse, place, 0, rows, cols) for place in range(len(coarse))])
    none = torch.zeros(1, 1, 4, device=picture.device)
    nothing = Glyphs(*[torch.zeros(1, 1, dtype=torch.int64, device=picture.device)] * 4)
    hidden, things = none[..., 0] > 0, torch.zeros(1, rows, cols, 1, dtype=torch.uint8, device=picture.device)
    batch = TrainingBatch(whole, question_ids, answer_ids, none, hidden, none, hidden, things, nothing)
    fine, flat = (torch.from_numpy(part).to(picture.device) for part in (tiles[None], coarse[None, None]))
    gained = judge(reader, batch, fine).log_likelihood - judge(reader, batch, flat).log_likelihood
    return gained[0].float().cpu().numpy().reshape(rows // TILE, cols // TILE)


def cell_boxes(shares: np.ndarray) -> np.ndarray:
    """(rows, cols) shares of the credit → boxes (K, 4) in 0–1 of the cells that hold half of it, the largest first;
    none where nothing mattered."""
    rows, cols = shares.shape
    if not shares.any():
        return np.zeros((0, 4))
    order = np.argsort(-shares, axis=None, kind="stable")
    number = 1 + int(np.searchsorted(np.cumsum(shares.ravel()[order]), HALF))
    row, col = np.unravel_index(order[: min(number, MOST_CELLS)], shares.shape)
    return np.stack([col / cols, row / rows, (col + 1) / cols, (row + 1) / rows], 1)


# ---- any attached model: one leaf more -------------------------------------------------------------------------------


def answered_prompt(eye: Eye, prompt: Mapping[str, Any], answer: str) -> dict[str, Any]:
    """A prompt that the eye prepared (`Looked.inputs`) with its answer, and labels that ask for the answer only."""
    inputs = dict(prompt)
    tokenizer, ids = eye.processor.tokenizer, inputs["input_ids"]
    said = tokenizer(answer, add_special_tokens=False)["input_ids"]
    end = tokenizer.eos_token_id
    tail = torch.tensor([[*said, *([] if end is None else [end])]], device=ids.device)
    if not tail.numel():
        raise InputError(f"the tokenizer of {eye.name} has no token for the answer {answer!r}")
    length = ids.shape[1]
    for name, value in inputs.items():
        if torch.is_tensor(value) and value.shape == ids.shape and name != "input_ids":
            fill = torch.ones_like(tail) if name == "attention_mask" else torch.zeros_like(tail)
            inputs[name] = torch.cat([value, fill.to(value.dtype)], 1)
    inputs["input_ids"] = torch.cat([ids, tail], 1)
    inputs["labels"] = F.pad(tail, (length, 0), value=-100)
    return inputs


@torch.no_grad()
def answer_log_likelihood(eye: Eye, inputs: dict[str, Any], cells: np.ndarray) -> float:
    """Mean over the answer's tokens, with the picture seen as leaves (N, 3) of its grid."""
    (grid,) = eye.backbone.grids(eye.model, inputs)
    frame = Frame((grid.height, grid.width), grid.cell, (grid.height, grid.width))
    allocation = frame.allocation(cells, np.ones(len(cells), np.float32), len(cells), "oracle")
    realized = eye.backbone.realize(eye.model, inputs, [allocation])
    return -float(eye.model(**realized.inputs).loss)


def coarse_level(rows: int, cols: int) -> int:
    """The finest level, from 2 up, whose tiling is at most `MOST_TILES`."""
    level = 2
    while -(-rows >> level) * -(-cols >> level) > MOST_TILES:
        level += 1
    return level


def refined(leaves: np.ndarray, place: int, to: int, rows: int, cols: int) -> np.ndarray:
    """Leaves (N, 3) with one of them replaced by its ground at level `to`; in the order of a tree."""
    row, col, level = leaves[place]
    step, side = 1 << to, 1 << level
    y, x = np.meshgrid(np.arange(row, min(row + side, rows), step), np.arange(col, min(col + side, cols), step))
    fine = np.stack([y.ravel(), x.ravel(), np.full(y.size, to)], 1)
    made = np.concatenate([np.delete(leaves, place, 0), fine])
    return made[np.lexsort((made[:, 2], made[:, 1], made[:, 0]))]


def tile_boxes(eye: Eye, pixels: np.ndarray, query: str, answer: str) -> tuple[np.ndarray, float]:
    """(K, 4) boxes in 0–1 of the tiles, and quarters of the best, whose detail raised the answer's likelihood most;
    and its mean log-likelihood with everything seen. No box where no detail helped."""
    inputs = answered_prompt(eye, eye.set_image(pixels).prepare(query, keep=1.0).inputs, answer)
    (grid,) = eye.backbone.grids(eye.model, inputs)
    rows, cols, level = grid.rows, grid.cols, coarse_level(grid.rows, grid.cols)
    tree = build_tree(rows, cols, level)
    coarse = tree.nodes_table[tree.nodes_table[:, 2] == level]

    def worth(leaves: np.ndarray) -> float:
        return answer_log_likelihood(eye, inputs, leaves)

    seen = worth(tree.nodes_table[tree.nodes_table[:, 2] == 0])
    nothing = worth(coarse)
    gains = np.array([worth(refined(coarse, place, 0, rows, cols)) - nothing for place in range(len(coarse))])
    best = int(gains.argmax())
    if gains[best] <= 0:
        return np.zeros((0, 4)), seen
    halved = refined(coarse, best, level - 1, rows, cols)
    inside = np.flatnonzero(halved[:, 2] == level - 1)
    without = worth(halved)
    quarters = np.array([worth(refined(halved, place, 0, rows, cols)) - without for place in inside])
    chosen = coarse[(gains >= WORTH * gains[best]) & (np.arange(len(gains)) != best)][: MOST_CELLS - 4]
    parts = halved[inside[quarters >= WORTH * quarters.max()]] if quarters.max() > 0 else coarse[[best]]
    return leaf_boxes(np.concatenate([parts, chosen]), rows, cols), seen


def leaf_boxes(leaves: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """(N, 3) row, column, level → (N, 4) x0, y0, x1, y1 in 0–1."""
    row, col, side = leaves[:, 0], leaves[:, 1], 1 << leaves[:, 2]
    below, right = np.minimum(row + side, rows), np.minimum(col + side, cols)
    return np.stack([col / cols, row / rows, right / cols, below / rows], 1)
