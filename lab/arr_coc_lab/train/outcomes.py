"""Learn where to look from answers alone: from which regions does a frozen reader get the right answer?

    arr-coc train scorer --data answers.jsonl --from outcomes --out my-scorer      own records
    arr-coc train outcomes --seconds 450 --out runs/outcomes                       drawn pictures, beside boxes

`Creditor` finds boxes for own records with answers: it shows windows of the picture one by one, and takes the one from
which the answer is likeliest. `pass_credit` shows drawn pictures pass by pass, as Esper does, and credits each pass for
its gain. Rewards of the original project are in `classic.learning`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.core.alphabet import IDS
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, part_folder, verify
from arr_coc.realizing.patches import LeafBatch, leaf_patches

from ..classic.learning import returns_to_go
from ..worlds.needle.batch import NeedleBatch
from .mini_model import chat_tail
from .own_data import OwnRecord
from .reader import normalise_pictures
from .swift import run_language, run_tower

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CELL = 32

# ---- answers of a frozen reader --------------------------------------------------------------------------------------


def load_reader(name: str | Path, device: torch.device) -> PreTrainedModel:
    """Load a frozen reader: "mini", a stock checkpoint, or a training's export; bfloat16 on a GPU."""
    from transformers import Qwen3VLForConditionalGeneration

    folder = part_folder(MINI) if str(name) == MINI else Path(name)
    found = next((one for one in (folder, folder / MINI) if os.path.isfile(one / "config.json")), None)
    if found is None:
        raise InputError(f"no reader in {folder}: expected an export of `train mini` or a checkpoint with config.json")
    verify(found)
    loaded = Qwen3VLForConditionalGeneration.from_pretrained(found, dtype=torch.float32)
    model = loaded.to(device).eval().requires_grad_(False)
    if device.type == "cuda":
        for parameter in model.parameters():  # buffers, such as rotary frequencies, stay float32
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


class AskedPictures(NamedTuple):
    """Pictures (B, 3, H, W) uint8 of whole cells, questions (B, Q) and true answers (B, A), 0 = padding."""

    pictures: Tensor
    question_ids: Tensor
    answer_ids: Tensor

    @classmethod
    def of(cls, batch: NeedleBatch) -> AskedPictures:
        return cls(batch.pictures, batch.question_ids, batch.answer_ids)

    def split(self, number: int) -> list[AskedPictures]:
        """Yield parts of at most `number` pictures."""
        return [AskedPictures(*part) for part in zip(*(value.split(number) for value in self), strict=True)]


class Judgement(NamedTuple):
    """Both (B, G). right: every character of the answer. log_likelihood: of the right answer, mean over characters."""

    right: Tensor
    log_likelihood: Tensor


def answer_chances(
    model: PreTrainedModel,
    question_ids: Tensor,
    answer_ids: Tensor,
    patches: Tensor,
    leaves: Tensor,
    grid: tuple[int, int],
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the right answers, teacher forced, by the swift path and with gradients: said (B, T − 1) bool, the places of
    their characters; wanted (C,), these characters; log-probabilities (C, vocabulary) there.

    patches: of the leaves (B, N, 3) on a grid of (rows, cols) level-0 cells, in the order of `gather_leaf_patches`.
    """
    core = model.model
    tails, said = chat_tail(question_ids, answer_ids)
    seen = run_tower(core.visual, patches, leaves, grid)
    hidden = run_language(core, seen, tails[:, None], leaves, grid).said
    said = said[:, 1:]
    chances = model.lm_head(hidden[:, :-1][said]).float().log_softmax(-1)
    return said, tails[:, 1:][said], chances


@torch.no_grad()
def judge(model: PreTrainedModel, asked: AskedPictures, leaves: Tensor, most: int = 2048) -> Judgement:
    """Read G allocations of each picture, leaves (B, G, N, 3) or boxes in cells (B, G, N, 4); return the answers.

    Equals `reader.read` on pictures repeated G times, but stores pictures and their mip levels once and uses the swift
    path. most: maximum readings at a time, for memory.
    """
    at_once = max(1, most // leaves.shape[1])
    if len(asked.pictures) > at_once:
        parts = [judge(model, *one, most) for one in zip(asked.split(at_once), leaves.split(at_once), strict=True)]
        return Judgement(*map(torch.cat, zip(*parts, strict=True)))
    pictures = asked.pictures
    group = leaves.shape[1]
    vision = model.config.vision_config
    merge, size = vision.spatial_merge_size, vision.patch_size
    grid = pictures.shape[2] // (merge * size), pictures.shape[3] // (merge * size)
    levels = int(leaves[..., 2].max()) + 1 if leaves.shape[-1] == 3 else 1
    owner = torch.arange(len(pictures), device=leaves.device).repeat_interleave(group * leaves.shape[2])
    size_of_grid = torch.tensor(grid, device=leaves.device).expand(len(pictures), 2)
    each = LeafBatch(leaves.flatten(0, 2), owner, size_of_grid, (group * leaves.shape[2],) * len(pictures), levels)
    size_of = {"merge": merge, "patch_size": size, "temporal": vision.temporal_patch_size}
    patches = leaf_patches(normalise_pictures(pictures), each, **size_of)
    questions, answers = (ids.repeat_interleave(group, dim=0) for ids in asked[1:])
    said, wanted, chances = answer_chances(model, questions, answers, patches, leaves.flatten(0, 1), grid)
    right, log_likelihood = answers_of(said, wanted, chances)
    return Judgement(right.unflatten(0, (-1, group)), log_likelihood.unflatten(0, (-1, group)))


def answers_of(said: Tensor, wanted: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    """Return from `answer_chances` whether every character is right, (B,), and the mean log-likelihood of the right
    ones, (B,)."""
    owner, chances = said.nonzero()[:, 0], chances.detach()
    nothing = torch.zeros(len(said), device=chances.device)
    missed = nothing.index_add(0, owner, (chances.argmax(-1) != wanted).float())
    total = nothing.index_add(0, owner, chances.gather(1, wanted[:, None])[:, 0])
    return missed == 0, total / said.sum(1)


# ---- the passes ------------------------------------------------------------------------------------------------------

# Number of places to look for, cells of a window, and level of the coarse first look.
PLACES, WINDOW, OVERVIEW = 2, (2, 4), 2
UNPROVEN = 0.1  # weight of a picture whose answer stays wrong after all passes


class Credit(NamedTuple):
    """Credit of pictures. shares: (B, rows, cols), sum 1; 0 where looking closer gained nothing. weights: (B,), 1 if
    the answer was right."""

    shares: Tensor
    weights: Tensor


@torch.no_grad()
def pass_credit(model: PreTrainedModel, asked: AskedPictures, most: int = 2048) -> Credit:
    """Look repeatedly where the right answer becomes likeliest, and credit the regions looked at.

    The first look is coarse. Then two passes follow for each place: every window of the picture is shown in addition to
    earlier ones, then every smaller window of the best one. The gain of a place in the answer's log-likelihood is known
    after its second pass; credit falls by a tenth for every step back (`returns_to_go`). Within a pass it is spread
    over the windows by the likelihood of the answer from each."""
    rows, cols = (side // CELL for side in asked.pictures.shape[2:])
    device, number = asked.pictures.device, len(asked.pictures)
    high, wide = min(WINDOW[0], rows), min(WINDOW[1], cols)
    lefts = np.unique(np.append(np.arange(0, cols - wide + 1, wide // 2), cols - wide))
    windows = torch.from_numpy(windows_at(np.arange(rows - high + 1), lefts, high, wide)).to(device)
    inside = [torch.from_numpy(one).to(device) for one in windows_inside(np.array([0, 0, high, wide]))]
    said = (asked.answer_ids > 0).sum(1, keepdim=True) + 1  # and the end of the turn
    step = 1 << OVERVIEW
    seen = torch.cartesian_prod(*(torch.arange(0, side, step, device=device) for side in (rows, cols)))
    seen = F.pad(seen, (0, 1), value=OVERVIEW).expand(number, 1, -1, -1)

    def shown(several: Tensor) -> tuple[Tensor, Tensor]:
        """Read windows (B, W, 4) of one size, each with all seen before → log-likelihoods and right answers (B, W)."""
        leaves = torch.cat([seen.expand(-1, several.shape[1], -1, -1), window_leaves(several)], 2)
        found = judge(model, asked, leaves, most)
        return found.log_likelihood * said, found.right

    before = judge(model, asked, seen, most).log_likelihood * said
    rewards, ground = [], []
    for _ in range(PLACES):
        logs, _ = shown(windows.expand(number, -1, -1))
        best = windows[logs.argmax(1)]
        smaller = [one + best[:, None, [0, 1, 0, 1]] for one in inside]
        closer, rights = (torch.cat(parts, 1) for parts in zip(*map(shown, smaller), strict=True))
        areas = torch.cat([(one[..., 2:] - one[..., :2]).prod(-1) for one in smaller], 1)
        chosen = (closer - CELL_PRICE * areas).argmax(1, keepdim=True)
        ground += [
            likely_ground(windows.expand(number, -1, -1), logs, rows, cols),
            likely_ground(torch.cat(smaller, 1), closer - CELL_PRICE * areas, rows, cols),
        ]
        rewards += [torch.zeros_like(before), (closer.gather(1, chosen) - before).clamp_min(0)]
        before, right = logs.amax(1, keepdim=True), rights.gather(1, chosen)[:, 0]
        seen = torch.cat([seen, window_leaves(best[:, None])], 2)
    credit = returns_to_go(torch.cat(rewards, 1))
    shares = (credit[..., None, None] * torch.stack(ground, 1)).sum(1)
    total = shares.sum((1, 2), keepdim=True)
    shares = torch.where(total > LEAST_GAIN, shares / total.clamp_min(LEAST_GAIN), 0.0)
    return Credit(shares, torch.where(right, 1.0, UNPROVEN) * (total[:, 0, 0] > LEAST_GAIN))


def likely_ground(windows: Tensor, logs: Tensor, rows: int, cols: int) -> Tensor:
    """Return where the answer is seen, (B, rows, cols), from windows (B, W, 4) and its log-likelihoods (B, W)."""
    top, left, bottom, right = (side[..., None] for side in windows.unbind(-1))
    row, col = torch.arange(rows, device=logs.device), torch.arange(cols, device=logs.device)
    down, across = ((row >= top) & (row < bottom)).to(logs), ((col >= left) & (col < right)).to(logs)
    each = logs.softmax(1) / (down.sum(-1) * across.sum(-1))
    return torch.einsum("bw,bwr,bwc->brc", each, down, across)


def shares_of(truth: Tensor) -> Tensor:
    """Normalise (B, rows, columns) in {0, 1} to shares of each picture."""
    return truth / truth.sum((1, 2), keepdim=True).clamp_min(1)


def share_loss(log_mass: Tensor, shares: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the cross-entropy of a map, given as the logarithm of its mass, against shares of each picture."""
    each = -(shares.flatten(1) * log_mass.flatten(1).log_softmax(1)).sum(1)
    return (each if weights is None else each * weights).mean()


# ---- own records with answers only -----------------------------------------------------------------------------------

# Widths in cells of the windows shown to the reader; at `mini`'s type size a cell holds two characters or more.
WIDTHS = (4, 12)
NOTHING = -20.0  # the log-likelihood of an answer on blank paper
BLANK = 16  # difference (of 255) below which a cell is blank
# Cost of a cell of a window, in the answer's log-likelihood; and the share of all likelihood that must lie on windows
# that touch the best one.
CELL_PRICE, SURE = 0.5, 0.5
LEAST_GAIN = 0.1  # minimum gain of a picture's passes together, in the answer's log-likelihood; less is noise


class Creditor:
    """Find boxes for records, each once. likelihood: of the right answers, mean over those asked."""

    def __init__(self, reader: str, device: torch.device) -> None:
        self.reader = load_reader(reader, device)
        self.found: dict[tuple[str, str, str], tuple[list[list[float]], float]] = {}

    def placed(self, record: OwnRecord) -> OwnRecord:
        key = record.picture, record.query, record.answer
        if key not in self.found:
            boxes, log = window_boxes(self.reader, record.pixels, record.query, record.answer)
            self.found[key] = boxes.tolist(), log
        boxes = np.array(self.found[key][0]).reshape(-1, 4)
        return replace(record, boxes=boxes, context=np.zeros((0, 4)))

    @property
    def likelihood(self) -> float:
        """Return the geometric mean over the characters of the answers."""
        return float(np.exp(np.mean([log for _, log in self.found.values()]))) if self.found else 0.0


def window_boxes(reader: PreTrainedModel, pixels: np.ndarray, query: str, answer: str) -> tuple[np.ndarray, float]:
    """Return a box (K, 4) in 0–1 of the cells from which alone the answer is likeliest, and its mean log-likelihood
    there. No box if several places would do.

    Shows windows of two rows, as wide as the answer may be long, one by one, all over the picture. Then tries every
    smaller window of the best one, and drops cells while the answer loses no more than they cost."""
    device = next(reader.parameters()).device
    rows, cols = (max(1, round(side / CELL)) for side in pixels.shape[:2])
    picture = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].to(device)
    if picture.shape[2:] != (rows * CELL, cols * CELL):
        resized = F.interpolate(picture.float(), (rows * CELL, cols * CELL), mode="bilinear", antialias=True)
        picture = resized.round().clamp(0, 255).to(torch.uint8)
    asked = (torch.tensor([[IDS.get(letter, IDS["?"]) for letter in text]]) for text in (query, answer))
    batch = AskedPictures(picture, *(ids.to(device) for ids in asked))
    said = len(answer) + 1  # and the end of the turn

    def worth(windows: np.ndarray) -> np.ndarray:
        """Return the log-likelihood (W,) of the whole answer from windows (W, 4) of one size, each seen alone."""
        leaves = window_leaves(torch.from_numpy(windows)).to(device)[None]
        return judge(reader, batch, leaves).log_likelihood[0].float().cpu().numpy() * said

    high, wide = min(2, rows), min(cols, int(np.clip(2 + -(-len(answer) // 2), *WIDTHS)))
    lefts = np.unique(np.append(np.arange(0, cols - wide + 1, max(1, wide // 2)), cols - wide))
    windows = windows_at(np.arange(rows - high + 1), lefts, high, wide)
    cells = window_leaves(torch.from_numpy(windows)).numpy()
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


def marked_cells(picture: Tensor) -> np.ndarray:
    """Return a mask (rows, cols) of the cells of (1, 3, H, W) uint8 that are not blank."""
    grey = picture.float().mean(1, keepdim=True)
    spread = F.max_pool2d(grey, CELL) + F.max_pool2d(-grey, CELL)
    return (spread[0, 0] > BLANK).cpu().numpy()


def windows_at(tops: np.ndarray, lefts: np.ndarray, high: int, wide: int) -> np.ndarray:
    """Return windows (W, 4) top, left, bottom, right in cells: one of this size at each of the places."""
    top, left = (grid.ravel() for grid in np.meshgrid(tops, lefts, indexing="ij"))
    return np.stack([top, left, top + high, left + wide], 1)


def windows_inside(window: np.ndarray) -> list[np.ndarray]:
    """Yield windows (W, 4) for each size: every window of that size inside one."""
    top, left, bottom, right = window.tolist()
    return [
        windows_at(np.arange(top, bottom - high + 1), np.arange(left, right - wide + 1), high, wide)
        for high in range(1, bottom - top + 1)
        for wide in range(1, right - left + 1)
    ]


def window_leaves(windows: Tensor) -> Tensor:
    """Return the cells (…, N, 3) of windows (…, 4) of one size, in raster order."""
    high, wide = (windows[..., 2:] - windows[..., :2]).flatten(0, -2)[0].tolist()
    cells = torch.cartesian_prod(*(torch.arange(side, device=windows.device) for side in (high, wide)))
    return F.pad(windows[..., None, :2] + cells, (0, 1))
