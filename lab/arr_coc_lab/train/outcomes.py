"""Learn where to look from answers alone: a frozen reader tells which cells its right answer depends on.

    arr-coc train scorer --from outcomes --reader runs/mini/export --out OUT

No box is learned from, but for a short start (`--box-start`). For every picture the reader answers once with everything
seen. Think of each cell as faded between its own pixels and a blurred copy (what a coarse token would show): the
derivative of the right answer's cross-entropy by each cell's fading tells how much the outcome depends on seeing that
cell sharply (`detail_credit`). It is a first-order guess at full detail, not the value of an allocation under a budget.
So it is put to the proof (`proven_credit`): leaves are laid where it points, and the reader answers from them alone.
Of wrong readings the derivative points anywhere; pictures without proof hardly count.

The reader is frozen, so what it said stays true: every judged batch is learned from several times. The policy gradient
and the critic, which this rule beat, are in `classic.learning`. `Creditor` finds boxes for own records with answers.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import build_tree
from arr_coc.core.alphabet import IDS
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.folders import MINI, SCORER, part_folder
from arr_coc.core.manifest import verify
from arr_coc.core.values import JsonObject
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
from arr_coc.realizing.tokens.patches import LeafBatch, gather_leaf_patches, leaf_patches, mip_pyramid

from ..classic.walks import dense_vision_attention
from ..options import option
from .acceleration import make_optimizers
from .allocations import box_cover, target_cells
from .checkpoints import TrainingState
from .own_data import OwnRecord
from .pictures import TrainingBatch, cut, every_family, join
from .prompts import chat_tail
from .reader import normalise_pictures
from .run import Moment, Notes, RunOptions, Schedule, Training, command, door
from .swift import run_language, run_tower
from .train_scorer import CONTEXT, DECAY, EDGES, READING, export_scorer

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel

CELL = 32

# ---- what a frozen reader answers ------------------------------------------------------------------------------------


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
        for parameter in model.parameters():  # buffers stay float32: rotary frequencies among them
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


@dataclass(frozen=True)
class Judgement:
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
    """The right answers, teacher forced, by the swift path and with gradients: said (B, T − 1) bool, where their
    characters stand; wanted (C,), which they are; log-chances (C, vocabulary) of every character there.

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
def judge(model: PreTrainedModel, batch: TrainingBatch, leaves: Tensor, most: int = 2048) -> Judgement:
    """Leaves (B, G, N, 3), or boxes in cells (B, G, N, 4), G allocations of each picture → the reader's answers.

    The same as `reader.read` on pictures repeated G times, but pictures and their mip levels are held once, and are
    read by the swift path. most: readings at a time, for memory.
    """
    pictures = max(1, most // leaves.shape[1])
    if len(batch) > pictures:
        starts = range(0, len(batch), pictures)
        parts = [judge(model, cut(batch, at, at + pictures), leaves[at : at + pictures], most) for at in starts]
        return Judgement(*(torch.cat([getattr(part, name) for part in parts]) for name in Judgement.__annotations__))
    group = leaves.shape[1]
    vision = model.config.vision_config
    merge, size = vision.spatial_merge_size, vision.patch_size
    grid = batch.pictures.shape[2] // (merge * size), batch.pictures.shape[3] // (merge * size)
    levels = int(leaves[..., 2].max()) + 1 if leaves.shape[-1] == 3 else 1
    owner = torch.arange(len(batch), device=leaves.device).repeat_interleave(group * leaves.shape[2])
    size_of_grid = torch.tensor(grid, device=leaves.device).expand(len(batch), 2)
    each = LeafBatch(leaves.flatten(0, 2), owner, size_of_grid, (group * leaves.shape[2],) * len(batch), levels)
    cutter = leaf_patches(
        normalise_pictures(batch.pictures), each, merge=merge, patch_size=size, temporal=vision.temporal_patch_size
    )
    patches = cutter(each)
    questions, answers = (ids.repeat_interleave(group, dim=0) for ids in (batch.question_ids, batch.answer_ids))
    said, wanted, chances = answer_chances(model, questions, answers, patches, leaves.flatten(0, 1), grid)
    right, log_likelihood = answers_of(said, wanted, chances)
    return Judgement(right.unflatten(0, (-1, group)), log_likelihood.unflatten(0, (-1, group)))


def answers_of(said: Tensor, wanted: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    """What `answer_chances` gives → (B,) whether every character is right, (B,) the mean log-likelihood of the right
    ones."""
    owner, chances = said.nonzero()[:, 0], chances.detach()
    nothing = torch.zeros(len(said), device=chances.device)
    missed = nothing.index_add(0, owner, (chances.argmax(-1) != wanted).float())
    total = nothing.index_add(0, owner, chances.gather(1, wanted[:, None])[:, 0])
    return missed == 0, total / said.sum(1)


# ---- credit: the derivative of the answer ----------------------------------------------------------------------------

BLUR = 4  # cells fade towards what a leaf of level 2 would show
# Share of the tokens that the proof of a credit may spend; and what a picture counts whose credit is not proven.
PROOF_KEEP, UNPROVEN = 1 / 8, 0.1
EACH_WEIGHT = 3.0  # of single cells, beside all of them as one distribution
SLIGHT = 0.1  # a derivative this much smaller than the picture's greatest is noise


class Credit(NamedTuple):
    """cells: (B, rows, cols) derivative of the answer's log-likelihood by each cell's detail. right: (B,) bool, with
    the whole picture seen."""

    cells: Tensor
    right: Tensor


def detail_credit(model: PreTrainedModel, batch: TrainingBatch, most: int = 256) -> Credit:
    """Read whole pictures once, with the derivative. most: pictures of 512² at a time (more of smaller ones)."""
    height, width = batch.pictures.shape[2:]
    at_once = max(1, most * 512**2 // (height * width))
    several = zip(
        *(part.split(at_once) for part in (batch.pictures, batch.question_ids, batch.answer_ids)), strict=True
    )
    parts = [picture_credit(model, *part) for part in several]
    return Credit(*(torch.cat(items) for items in zip(*parts, strict=True)))


def picture_credit(model: PreTrainedModel, pictures: Tensor, question_ids: Tensor, answer_ids: Tensor) -> Credit:
    """The same for pictures (B, 3, H, W) uint8 of whole cells, questions (B, Q) and answers (B, A), 0 = padding."""
    height, width = pictures.shape[2:]
    rows, cols = height // CELL, width // CELL
    pixels = normalise_pictures(pictures)
    blurred = F.interpolate(F.avg_pool2d(pixels, BLUR), scale_factor=BLUR, mode="bilinear", align_corners=False)
    with torch.enable_grad():
        sharpness = torch.ones(len(pictures), 1, rows, cols, device=pixels.device, requires_grad=True)
        seen = blurred + F.interpolate(sharpness, scale_factor=CELL, mode="nearest") * (pixels - blurred)
        table = torch.from_numpy(build_tree(rows, cols, 0).nodes_table).to(pixels.device)
        leaves = table.expand(len(pictures), -1, -1)
        vision = model.config.vision_config
        pyramid = mip_pyramid(seen, 1, cell=CELL, patch_size=vision.patch_size)
        patches = gather_leaf_patches(
            pyramid, leaves, merge=vision.spatial_merge_size, temporal=vision.temporal_patch_size
        )
        said, wanted, chances = answer_chances(model, question_ids, answer_ids, patches, leaves, (rows, cols))
        each = chances.gather(1, wanted[:, None])[:, 0]
        (cells,) = torch.autograd.grad(each.sum(), sharpness)
    return Credit(cells[:, 0].float(), answers_of(said, wanted, chances)[0])


def credit_shares(cells: Tensor) -> Tensor:
    """(B, rows, cols) derivatives → shares of each picture's credit, summing to 1: squares, so that a few cells that
    matter outweigh many that hardly do. All zero where nothing mattered or the derivative is not a number."""
    energy = torch.nan_to_num(cells.float(), nan=0.0, posinf=0.0, neginf=0.0).square()
    total = energy.sum((1, 2), keepdim=True)
    return torch.where(total > 0, energy / total.clamp_min(torch.finfo(energy.dtype).tiny), torch.zeros_like(energy))


class Proven(NamedTuple):
    """shares: (B, rows, cols) of each picture's credit. weights: (B,), 1 where the answer is right with leaves laid by
    these shares alone. right: (B,) bool, with everything seen."""

    shares: Tensor
    weights: Tensor
    right: Tensor


def proven_credit(model: PreTrainedModel, batch: TrainingBatch, keep: float = PROOF_KEEP, most: int = 2048) -> Proven:
    """Try the derivative as it is, spread along its row (as print runs), and spread all around (as things are): leaves
    are laid by each, and the one from which the answer is likeliest is the credit."""
    found = detail_credit(model, batch)
    plain = credit_shares(found.cells)[:, None]
    several = torch.cat([plain, F.avg_pool2d(plain, (1, 3), 1, (0, 1)), F.avg_pool2d(plain, 3, 1, 1)], 1)
    budget = max(1, round(keep * several[0, 0].numel()))
    leaves = overlay(several.flatten(0, 1), [budget] * (3 * len(plain))).cells.unflatten(0, (-1, 3))
    judged = judge(model, batch, leaves, most)
    best = judged.log_likelihood.argmax(1)
    each = torch.arange(len(best), device=best.device)
    shares, right = several[each, best], judged.right[each, best]
    shares = shares / shares.sum((1, 2), keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)
    return Proven(shares, torch.where(right, 1.0, UNPROVEN), found.right)


def credit_marks(shares: Tensor) -> Tensor:
    """(B, rows, cols) shares of the credit → what is wanted of each cell: 1 for the cell that matters most, and by the
    size of the derivative, not its square, so that an answer's other cells are wanted too; nothing of slight ones."""
    size = (shares / shares.amax((1, 2), keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)).sqrt()
    return torch.where(size < SLIGHT, 0.0, size)


def box_marks(batch: TrainingBatch, rows: int, cols: int) -> Tensor:
    """(B, rows, cols): 1 for the cells of the answer, less for those that identify it."""
    answer = (box_cover(batch.boxes, batch.box_mask, rows, cols) > 0.02).float()
    return torch.maximum(answer, CONTEXT * target_cells(batch, rows, cols))


def share_loss(log_mass: Tensor, shares: Tensor, weights: Tensor | None = None) -> Tensor:
    """Cross-entropy of a map, given as the logarithm of its mass, against shares of what its picture needs."""
    each = -(shares.flatten(1) * log_mass.flatten(1).log_softmax(1)).sum(1)
    return (each if weights is None else each * weights).mean()


def marked_loss(cell_logits: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
    """Logits and what is wanted of every cell (B, rows, cols) in [0, 1], (B,) weights of the pictures → scalar: the
    mass of the map as shares of the picture, and every cell by itself."""
    shares = wanted / wanted.sum((1, 2), keepdim=True).clamp_min(1e-6)
    each = F.binary_cross_entropy_with_logits(cell_logits.float(), wanted, reduction="none").mean((1, 2))
    return share_loss(F.logsigmoid(cell_logits.float()), shares, weights) + EACH_WEIGHT * (each * weights).mean()


def map_entropy(cell_logits: Tensor) -> Tensor:
    """(B, rows, cols) → (B,) entropy of sigmoid(logits) taken as a distribution, as a share of log(cells): 1 is flat,
    0 a single cell."""
    share = F.logsigmoid(cell_logits.float().flatten(1)).log_softmax(1)
    return -(share.exp() * share).sum(1) / math.log(max(2, share.shape[1]))


def balance_penalty(entropy: Tensor, band: tuple[float, float]) -> Tensor:
    """(B,) → distance of the map's entropy from the band, 0 inside it; not squared, which gives way near the edge."""
    low, high = band
    return (F.relu(low - entropy) + F.relu(entropy - high)).mean()


# ---- the training ----------------------------------------------------------------------------------------------------

KEPT = 24  # judged batches that are learned from again
BAND, BALANCE = (0.15, 0.98), 3.0  # where the entropy of the map is held, and how firmly
JUDGED_KEEP = 1 / 4
SMALLEST = 128  # side of a canvas in pixels


@dataclass(frozen=True, kw_only=True)
class OutcomeOptions(RunOptions):
    """Options of the scorer that learns from outcomes. Small canvases come first: they are four times as fast."""

    source: str = option("outcomes", "what is learned from", flag="--from", choices=("outcomes",))
    reader: str = option(MINI, "the frozen reader: mini, an export of `train mini`, or a checkpoint folder")
    start: Path | None = option(
        None, "a scorer's folder to go on from; else only its reading layers are the bundled ones"
    )
    box_start: int = option(20, "steps by boxes before outcomes lead; 0: never a box")
    batch: int = option(64, "pictures a step")
    canvas: int = option(512, "side in pixels")
    small_until: float = option(0.45, "share of the training on canvases of half the side, with four times the batch")
    learning_rate: float = option(1e-3, "of both optimizers, at its highest")
    replays: int = option(2, "steps on earlier batches, after each")
    judged: int = option(448, "validation pictures that the reader answers through the scorer's leaves; 0: none")
    folder: Path = option(Path("runs/outcomes"), "where the checkpoint and the curve are kept")

    def __post_init__(self) -> None:
        if self.canvas < SMALLEST or self.canvas % (2 * CELL) or self.batch < 1:
            raise InputError(f"--canvas {self.canvas} must be a multiple of {2 * CELL} from 128, --batch at least 1")


class Judged(NamedTuple):
    """number, side: which batch it is. wanted: (B, rows, cols) marks. weights: (B,) of its pictures."""

    number: int
    side: int
    batch: TrainingBatch
    wanted: Tensor
    weights: Tensor


class OutcomeTraining(Training[OutcomeOptions]):
    """A scorer whose layers that read letters stay as they are, and a frozen reader."""

    title = "outcomes"

    def __init__(self, options: OutcomeOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        self.reader = load_reader(options.reader, self.device)
        taught = ReadingScorer.from_pretrained(options.start or part_folder(SCORER)).float()
        self.scorer = taught if options.start else ReadingScorer(taught.config)
        for name in READING:
            getattr(self.scorer, name).load_state_dict(getattr(taught, name).state_dict())
            getattr(self.scorer, name).requires_grad_(False)
        self.modules["scorer"] = self.scorer.to(self.device)
        self.optimizers = make_optimizers(self.scorer, EDGES, (), options.learning_rate, DECAY)
        self.schedule = Schedule(warm_up=50, decay_from=0.6, floor=0.05)
        self.kept: deque[Judged] = deque(maxlen=KEPT)
        self.done["batches"] = 0
        self.aside: TrainingBatch | None = None

    def running(self) -> AbstractContextManager[object]:
        return dense_vision_attention(self.reader)

    def draw(self, number: int, side: int) -> TrainingBatch:
        """Batch `number`: a function of its number and the seed, so that a resumed run draws the same."""
        pictures = self.options.batch * (self.options.canvas // side) ** 2
        seed = self.own_seed(self.options.seed) + 7919 * number
        drawn = join(list(every_family(pictures, (side, side), seed, "train", device=self.device)))
        order = torch.randperm(len(drawn), generator=torch.Generator().manual_seed(seed))[:pictures]
        return drawn.take(order.to(self.device))

    def logits(self, batch: TrainingBatch) -> Tensor:
        pictures = batch.pictures.contiguous(memory_format=torch.channels_last)
        with self.accelerator.autocast():
            return self.scorer(pictures, batch.question_ids).float()

    def judged_batch(self, at: Moment) -> tuple[Judged, Notes]:
        """Draw a batch and mark its cells: by boxes at the start, then by what the reader's answers depended on."""
        options, number = self.options, self.done["batches"]
        side = max(SMALLEST, options.canvas // 2) if at.progress < options.small_until else options.canvas
        batch = self.draw(number, side)
        self.done["batches"] += 1
        if at.since < options.box_start:
            marks = box_marks(batch, side // CELL, side // CELL)
            return Judged(number, side, batch, marks, marks.new_ones(len(marks))), {}
        credit = proven_credit(self.reader, batch)
        found = Judged(number, side, batch, credit_marks(credit.shares), credit.weights)
        self.kept.append(found)
        return found, {"right full": credit.right.float().mean(), "proven": credit.weights.mean()}

    def marked(self, judged: Judged) -> tuple[Tensor, Tensor]:
        """The loss of a judged batch, and the mean entropy of its maps."""
        cells = self.logits(judged.batch)
        entropy = map_entropy(cells)
        loss = marked_loss(cells, judged.wanted, judged.weights)
        return loss + BALANCE * balance_penalty(entropy, BAND), entropy.mean()

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        judged, notes = self.judged_batch(at)
        loss, entropy = self.marked(judged)
        return loss, {"map entropy": entropy, **notes}

    def step(self, at: Moment) -> Notes:
        notes = super().step(at)
        older = list(self.kept)[:-1]
        for one in self.chance["chance"].sample(older, min(self.options.replays, len(older))):
            self.accelerator.backward(self.marked(one)[0])
            self.update()
        return notes

    @torch.no_grad()
    def judge(self, at: Moment) -> JsonObject | None:
        """How often the reader is right from a quarter of the tokens, laid by the scorer."""
        if not self.options.judged:
            return None
        if self.aside is None:
            size = self.options.canvas, self.options.canvas
            self.aside = join(list(every_family(self.options.judged, size, 7, "validation", device=self.device)))
        parts = [cut(self.aside, first, first + 64) for first in range(0, len(self.aside), 64)]
        right = []
        for part in parts:
            maps = self.logits(part).sigmoid()
            leaves = overlay(maps, [max(1, round(JUDGED_KEEP * maps[0].numel()))] * len(maps)).cells
            right.append(judge(self.reader, part, leaves[:, None]).right[:, 0])
        return {"judged right": float(torch.cat(right).float().mean())}

    def data_state(self) -> TrainingState:
        return {"kept": [(one.number, one.side, one.wanted.cpu(), one.weights.cpu()) for one in self.kept]}

    def load_data_state(self, state: TrainingState) -> None:
        for number, side, wanted, weights in state["kept"]:
            batch = self.draw(number, side)
            self.kept.append(Judged(number, side, batch, wanted.to(self.device), weights.to(self.device)))

    def export(self) -> None:
        write_json(self.options.target / "record.json", self.record())
        export_scorer(self.scorer, self.options.target / "scorer")


# ---- own records with answers only -----------------------------------------------------------------------------------

# Cells across of the windows that the reader is shown; at `mini`'s type a cell holds two characters or more.
WIDTHS = (4, 12)
NOTHING = -20.0  # the log-likelihood of an answer on blank paper
BLANK = 16  # of 255: a cell whose pixels differ by less is blank
# What a cell of a window costs, in the answer's log-likelihood; and the share of all likelihood that must lie on
# windows that meet the best one.
CELL_PRICE, SURE = 0.5, 0.5


class Creditor:
    """Records → the same with boxes, each found once. likelihood: of the right answers, mean over those asked."""

    def __init__(self, reader: str, pixels: Callable[[OwnRecord], np.ndarray], device: torch.device) -> None:
        self.reader, self.pixels = load_reader(reader, device), pixels
        self.found: dict[tuple[str, str, str], np.ndarray] = {}
        self.logs: list[float] = []

    def placed(self, record: OwnRecord) -> OwnRecord:
        key = record.picture, record.query, record.answer
        if key not in self.found:
            self.found[key], log = window_boxes(self.reader, self.pixels(record), record.query, record.answer)
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
        """Geometric mean over the characters of the answers."""
        return float(np.exp(np.mean(self.logs))) if self.logs else 0.0


def window_boxes(reader: PreTrainedModel, pixels: np.ndarray, query: str, answer: str) -> tuple[np.ndarray, float]:
    """(K, 4) box in 0–1 of the cells from which, and from nothing else, the answer is likeliest, and its mean
    log-likelihood there. No box where several places would do.

    Windows of two rows, as wide as the answer may be long, are each shown alone, all over the picture. Of the best one
    every smaller window is tried, and cells are left out as long as the answer does not lose more than they cost."""
    device = next(reader.parameters()).device
    rows, cols = (max(1, round(side / CELL)) for side in pixels.shape[:2])
    picture = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].to(device)
    if picture.shape[2:] != (rows * CELL, cols * CELL):
        resized = F.interpolate(picture.float(), (rows * CELL, cols * CELL), mode="bilinear", antialias=True)
        picture = resized.round().clamp(0, 255).to(torch.uint8)
    asked = (torch.tensor([[IDS.get(letter, IDS["?"]) for letter in text]]) for text in (query, answer))
    batch = TrainingBatch.unmarked(picture, *(ids.to(device) for ids in asked))
    said = len(answer) + 1  # and the end of the turn

    def worth(windows: np.ndarray) -> np.ndarray:
        """(W, 4) windows of one size → (W,): log-likelihood of the whole answer, each of them seen alone."""
        leaves = torch.from_numpy(window_leaves(windows)).to(device)[None]
        return judge(reader, batch, leaves).log_likelihood[0].float().cpu().numpy() * said

    high, wide = min(2, rows), min(cols, int(np.clip(2 + -(-len(answer) // 2), *WIDTHS)))
    lefts = np.unique(np.append(np.arange(0, cols - wide + 1, max(1, wide // 2)), cols - wide))
    windows = windows_at(np.arange(rows - high + 1), lefts, high, wide)
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


def marked_cells(picture: Tensor) -> np.ndarray:
    """(rows, cols) bool: where (1, 3, H, W) bytes are not all alike; on blank paper there is nothing to read."""
    grey = picture.float().mean(1, keepdim=True)
    spread = F.max_pool2d(grey, CELL) + F.max_pool2d(-grey, CELL)
    return (spread[0, 0] > BLANK).cpu().numpy()


def windows_at(tops: np.ndarray, lefts: np.ndarray, high: int, wide: int) -> np.ndarray:
    """(W, 4) top, left, bottom, right in cells: a window of this size at each of the places."""
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


main = command(OutcomeTraining, OutcomeOptions, __doc__)

if __name__ == "__main__":
    door(main)
