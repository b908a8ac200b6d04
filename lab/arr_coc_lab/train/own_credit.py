"""Where a frozen model's right answer hung: boxes for records of which only the answer is known.

A model that `attach` takes is asked by adding one leaf: the picture coarse, then the same with one tile of it in full
detail; the tile is worth what the right answer's log-likelihood gains, and the best tile's quarters are told apart the
same way. `mini`, to which a reading of a few cells costs next to nothing, is shown windows alone, all over the picture,
and of the best one leaves are left out as long as nothing is lost. Both know question, answer and model; neither knows
a box. How likely the right answers are from what was credited is kept (`Creditor.likelihood`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.answering.eye import Eye
from arr_coc.attending.frame import Frame
from arr_coc.attending.tree import build_tree
from arr_coc.core.alphabet import IDS
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, part_folder
from arr_coc.realizing.base import Inputs

from .checkpoints import TrainingState
from .outcomes import CELL, judge, load_reader
from .own_data import OwnRecord
from .pictures import Glyphs, TrainingBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MOST_CELLS = 8
# Cells across of the windows that `mini` is shown; at its type a cell holds two characters or more.
WIDTHS = (4, 12)
NOTHING = -20.0  # the log-likelihood of an answer on blank paper
BLANK = 16  # of 255: a cell whose pixels differ by less is blank
# What a cell of a window costs, in the answer's log-likelihood; and the share of all likelihood that must lie on
# windows that meet the best one.
CELL_PRICE, SURE = 0.5, 0.5
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

    def knows(self, record: OwnRecord) -> bool:
        return (record.picture, record.query, record.answer) in self.found

    def placed(self, record: OwnRecord) -> OwnRecord:
        key = record.picture, record.query, record.answer
        if key not in self.found:
            self.found[key], log = self.find(self.pixels(record), record.query, record.answer)
            self.logs.append(log)
        return replace(record, boxes=self.found[key], context=np.zeros((0, 4)))

    def state(self) -> dict[str, object]:
        """What was found, as a checkpoint keeps it: a run that goes on asks no question twice."""
        return {"found": [(key, boxes.tolist()) for key, boxes in self.found.items()], "logs": list(self.logs)}

    def load_state(self, state: TrainingState) -> None:
        self.found = {tuple(key): np.array(boxes).reshape(-1, 4) for key, boxes in state["found"]}
        self.logs = list(state["logs"])

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


def mini_boxes(reader: PreTrainedModel, pixels: np.ndarray, query: str, answer: str) -> tuple[np.ndarray, float]:
    """(K, 4) box in 0–1 of the cells from which, and from nothing else, the answer is likeliest, and its mean
    log-likelihood there. No box where several places would do.

    Windows of two rows, as wide as the answer may be long, are each shown alone, all over the picture. Of the best one
    leaves are then left out, row by row and column by column, as long as the answer does not become less likely than
    they cost."""
    device = next(reader.parameters()).device
    rows, cols = (max(1, round(side / CELL)) for side in pixels.shape[:2])
    picture = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].to(device)
    if picture.shape[2:] != (rows * CELL, cols * CELL):
        resized = F.interpolate(picture.float(), (rows * CELL, cols * CELL), mode="bilinear", antialias=True)
        picture = resized.round().clamp(0, 255).to(torch.uint8)
    batch = asked_batch(picture, characters(query).to(device), characters(answer).to(device))
    said = len(answer) + 1  # and the end of the turn

    def worth(windows: np.ndarray) -> np.ndarray:
        """(W, 4) windows of one size → (W,): log-likelihood of the whole answer, each of them seen alone."""
        leaves = torch.from_numpy(window_leaves(windows)).to(device)[None]
        return judge(reader, batch, leaves).log_likelihood[0].float().cpu().numpy() * said

    windows = all_windows(rows, cols, len(answer))
    cells = window_leaves(windows)
    windows = windows[marked_cells(picture)[cells[..., 0], cells[..., 1]].any(1)]
    if not len(windows):
        return np.zeros((0, 4)), NOTHING
    logs = worth(windows)
    best = windows[logs.argmax()]
    chances = np.exp(logs - logs.max())
    meets = (windows[:, :2] < best[2:]).all(1) & (best[:2] < windows[:, 2:]).all(1)
    if chances[meets].sum() < SURE * chances.sum():
        return np.zeros((0, 4)), float(logs.max()) / said
    inside = windows_inside(best)
    prices = [worth(part) - CELL_PRICE * np.prod(part[0, 2:] - part[0, :2]) for part in inside]
    top, left, bottom, right = np.concatenate(inside)[np.concatenate(prices).argmax()]
    return np.array([[left / cols, top / rows, right / cols, bottom / rows]]), float(logs.max()) / said


def asked_batch(picture: Tensor, question_ids: Tensor, answer_ids: Tensor) -> TrainingBatch:
    """One picture (1, 3, H, W) and what is asked about it; where its answer stands nobody knows."""
    device = picture.device
    none = torch.zeros(1, 1, 4, device=device)
    things = torch.zeros(1, picture.shape[2] // CELL, picture.shape[3] // CELL, 1, dtype=torch.uint8, device=device)
    nothing = Glyphs(*[torch.zeros(1, 1, dtype=torch.int64, device=device)] * 4)
    hidden = none[..., 0] > 0
    return TrainingBatch(picture, question_ids, answer_ids, none, hidden, none, hidden, things, nothing)


def marked_cells(picture: Tensor) -> np.ndarray:
    """(rows, cols) bool: where (1, 3, H, W) bytes are not all alike; on blank paper there is nothing to read."""
    grey = picture.float().mean(1, keepdim=True)
    spread = F.max_pool2d(grey, CELL) + F.max_pool2d(-grey, CELL)
    return (spread[0, 0] > BLANK).cpu().numpy()


def all_windows(rows: int, cols: int, length: int) -> np.ndarray:
    """(W, 4) top, left, bottom, right in cells: every row, every half width; an answer of `length` characters fits."""
    high, wide = min(2, rows), min(cols, int(np.clip(2 + -(-length // 2), *WIDTHS)))
    lefts = np.unique(np.append(np.arange(0, cols - wide + 1, max(1, wide // 2)), cols - wide))
    return windows_at(np.arange(rows - high + 1), lefts, high, wide)


def windows_at(tops: np.ndarray, lefts: np.ndarray, high: int, wide: int) -> np.ndarray:
    """(W, 4): a window of this size at each of the places."""
    top, left = (grid.ravel() for grid in np.meshgrid(tops, lefts, indexing="ij"))
    return np.stack([top, left, top + high, left + wide], 1)


def windows_inside(window: np.ndarray) -> list[np.ndarray]:
    """(W, 4) for each size: every window of that size inside one."""
    top, left, bottom, right = window.tolist()
    return [
        windows_at(np.arange(top, bottom - high + 1), np.arange(left, right - wide + 1), high, wide)
        for high in range(1, bottom - top + 1)
        for wide in range(1, right - left + 1)
    ]


def window_leaves(windows: np.ndarray) -> np.ndarray:
    """(W, 4) windows of one size → (W, N, 3) their cells, in raster order."""
    high, wide = windows[0, 2:] - windows[0, :2]
    down, across = (grid.ravel() for grid in np.meshgrid(np.arange(high), np.arange(wide), indexing="ij"))
    row, col = windows[:, :1] + down, windows[:, 1:2] + across
    return np.stack([row, col, np.zeros_like(row)], -1)


# ---- any attached model: one leaf more -------------------------------------------------------------------------------


def answered_prompt(eye: Eye, prompt: Inputs, answer: str) -> dict[str, object]:
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
def answer_log_likelihood(eye: Eye, inputs: Mapping[str, object], cells: np.ndarray) -> float:
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
