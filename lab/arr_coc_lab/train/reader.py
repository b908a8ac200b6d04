"""A training step of the reader: pictures and leaves through `mini`, with its losses. Needs transformers >= 5.17."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.alphabet import NUMBER_OF_IDS
from arr_coc.realizing.patches import LeafBatch
from arr_coc.realizing.qwen3_vl.encode import VisualTokens, foveate, leaf_positions, run_language_model

from ..worlds.needle.batch import CELL_CLASSES, FIRST_COLOUR, NeedleBatch
from . import swift
from .mini_model import HEAD, IMAGE, build_prompt
from .pictures import (
    IGNORE,
    READING_LEVELS,
    SUB_COLS,
    SUB_ROWS,
    SUB_WIDTH,
    SUBCELLS,
    board_targets,
    thing_targets,
)
from .reader_examples import ReaderBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


BLANK_WEIGHT, POINT_WEIGHT = 0.05, 0.3
POINTING = 128


class DenseHeads(nn.Module):
    """Heads that predict the contents of each visual token: the character in each sub-cell, and colours and things.

    The tower's patches have the same target before four of them are merged into a token: reading is local, and is
    learned sooner there. Used in training only; the shipped model is the stock class.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.glyphs = nn.Linear(width, SUBCELLS * NUMBER_OF_IDS)
        self.things = nn.Linear(width, len(CELL_CLASSES) - FIRST_COLOUR)
        self.patch_norm = nn.LayerNorm(width)
        self.patch_glyphs = nn.Linear(width, SUBCELLS // 4 * NUMBER_OF_IDS)
        self.point_norm = nn.LayerNorm(width)
        self.point_from, self.point_to = nn.Linear(width, POINTING), nn.Linear(width, POINTING)
        self.copy_from, self.copy_to = nn.Linear(width, POINTING), nn.Linear(width, POINTING)
        self.spots = nn.Linear(width, SUBCELLS)

    def forward(self, embeds: Tensor) -> tuple[Tensor, Tensor]:
        """Predict characters (M, 32, characters) and things (M, things) of tokens (M, D)."""
        embeds = self.norm(embeds)
        return self.glyphs(embeds).unflatten(-1, (SUBCELLS, -1)), self.things(embeds)

    def read_patches(self, patches: Tensor) -> Tensor:
        """Predict characters (M, 32, characters) of patches (M·4, D) in merge-block order; sub-cells as for tokens."""
        glyphs = self.patch_glyphs(self.patch_norm(patches)).view(-1, 2, 2, SUB_ROWS // 2, SUB_COLS // 2, NUMBER_OF_IDS)
        return glyphs.transpose(2, 3).reshape(-1, SUBCELLS, NUMBER_OF_IDS)

    def point(self, asking: Tensor, places: Tensor) -> Tensor:
        """Return log-probabilities (Q, N) by states of the question's end (Q, D) and the visual tokens (Q, N, D).

        They say which tokens a question is about: the language model learns sooner to find with this target half-way
        up."""
        query, key = self.point_from(self.point_norm(asking)), self.point_to(self.point_norm(places))
        return (torch.einsum("qd,qnd->qn", query, key) / POINTING**0.5).float().log_softmax(-1)

    def copy(self, saying: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Predict the token from which the next letter is copied, log-probabilities (Q, T, N), and its sub-cell, logits
        (Q, T, 32), by states while answering (Q, T, D) and of the visual tokens (Q, N, D)."""
        saying = self.point_norm(saying)
        query, key = self.copy_from(saying), self.copy_to(self.point_norm(places))
        return (query @ key.mT / POINTING**0.5).float().log_softmax(-1), self.spots(saying).float()


class Reader(nn.Module):
    """`mini` with the heads of its training."""

    def __init__(self, mini: PreTrainedModel, heads: DenseHeads) -> None:
        super().__init__()
        self.mini = mini
        self.heads = heads


def normalise_pictures(pictures: Tensor) -> Tensor:
    """Normalise uint8 to [−1, 1], like `mini`'s image processor."""
    return pictures.to(torch.float32).div_(127.5).sub_(1)


def see(model: PreTrainedModel, pictures: Tensor, leaves: Tensor) -> tuple[VisualTokens, LeafBatch]:
    """Encode leaves (B, N, 3) of uint8 pictures (B, 3, H, W) to visual tokens."""
    grid = pictures.shape[2] // 32, pictures.shape[3] // 32
    batch = LeafBatch.equal(leaves, grid, int(leaves[..., 2].max()) + 1)
    return foveate(model, normalise_pictures(pictures), batch), batch


@dataclass(frozen=True)
class AnswerReading:
    """loss: mean cross entropy of the answers' characters. right: (B,) bool, every character right (teacher forced,
    which for exact match equals greedy decoding). characters: (B,) share that is right after the true ones before
    it."""

    loss: Tensor
    right: Tensor
    characters: Tensor


def read(model: PreTrainedModel, batch: NeedleBatch, leaves: Tensor) -> AnswerReading:
    """Compute loss and exact match of a batch; call it inside `dense_vision_attention(model)`; autocast is optional."""
    tokens, leaf_batch = see(model, batch.pictures, leaves)
    prompt = build_prompt(batch.question_ids, batch.answer_ids, leaves.shape[1])
    positions, _ = leaf_positions(prompt.input_ids, leaf_batch, IMAGE)
    output = run_language_model(model, prompt.input_ids, tokens, positions, use_cache=False)
    said = prompt.answers[:, 1:]
    logits, wanted = model.lm_head(output.last_hidden_state[:, :-1][said]).float(), prompt.input_ids[:, 1:][said]
    wrong = (logits.argmax(-1) != wanted).float()
    missed = torch.zeros(len(batch), device=wrong.device).index_add_(0, said.nonzero()[:, 0], wrong)
    return AnswerReading(F.cross_entropy(logits, wanted), missed == 0, 1 - missed / said.sum(1))


def glyph_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Return the cross entropy of (M, 32, characters) and (M, 32); blank sub-cells count little, −100 not at all."""
    logits, classes = logits.float(), torch.arange(logits.shape[-1], device=logits.device)
    # The right logit by comparison instead of indexing: compiled, this avoids a second tensor as large as the logits.
    wanted = torch.where(classes == target[..., None], logits, 0).sum(-1)
    written = target > 0
    # A picture with small type has fifty times the letters of one with large type: neither may dominate.
    crowd = written.sum(-1, keepdim=True).clamp_min(1).float().rsqrt()
    weight = torch.where(written, crowd, torch.where(target == 0, BLANK_WEIGHT, 0.0))
    return ((logits.logsumexp(-1) - wanted) * weight).sum() / weight.sum().clamp_min(1)


@torch.no_grad()
def glyphs_read(logits: Tensor, target: Tensor) -> Tensor:
    """Return the share of written sub-cells that were read right."""
    written = target > 0
    return ((logits.argmax(-1) == target) & written).sum() / written.sum().clamp_min(1)


def pointing_loss(log_probabilities: Tensor, wanted: Tensor) -> Tensor:
    """Return the pointer's negative log-likelihood of the wanted tokens, from (…, N) and a mask (…, N).

    Ignores questions that need no place (how many, is there) or that no leaf shows.
    """
    meant = log_probabilities.masked_fill(~wanted, -1e4).logsumexp(-1)
    asked = wanted.any(-1)
    return -(meant * asked).sum() / asked.sum().clamp_min(1)


def thing_loss(logits: Tensor, found: Tensor, may: Tensor) -> Tensor:
    """Return the cross entropy of logits (M, classes) and labels (M, classes) where the mask (M,) allows it."""
    logits, found = logits.float(), found.float()
    # Positive labels are rare: they count eight times.
    each = F.binary_cross_entropy_with_logits(logits, found, weight=1 + 7 * found, reduction="none").mean(-1)
    return (each * may).sum() / may.sum().clamp_min(1)


# ----------------------------------------------------------------------------------------------------------------------
# A batch and its leaves through `mini` by the swift path, with every loss. Nothing here waits for the device.


class DenseLosses(NamedTuple):
    """Losses of the contents of every token: characters, colours and things, characters of single patches; and the
    share of characters read right."""

    glyph: Tensor
    thing: Tensor
    patches: Tensor
    glyph_right: Tensor


class AnswerLosses(NamedTuple):
    """Losses of a step. answer: cross-entropy of the answers; right: (B·K,) bool. pointing: at the relevant tokens.
    copying: of the place of the answer's next letter."""

    answer: Tensor
    right: Tensor
    pointing: Tensor
    copying: Tensor


class ReaderLosses(NamedTuple):
    """The losses of one batch."""

    dense: DenseLosses
    answers: AnswerLosses

    def total(self) -> Tensor:
        dense, answers = self.dense, self.answers
        reading = dense.glyph + dense.patches + dense.thing
        return reading + answers.answer + POINT_WEIGHT * (answers.pointing + answers.copying)


class PictureWindow(NamedTuple):
    """The canvas as a part of a larger, imaginary picture: its first row and column there, and the rows and cols of the
    whole, in level-0 cells. Leaves of a page of 2048 pixels then cost as much as those of the canvas."""

    top: int
    left: int
    rows: int
    cols: int

    def moved(self, leaves: Tensor) -> Tensor:
        """Move leaves (…, 3) of the canvas to their place in the larger picture."""
        row, col, level = leaves.unbind(-1)
        return torch.stack([row + self.top, col + self.left, level], -1)


def cut_blocks(batch: ReaderBatch, blocks: Sequence[Tensor], levels: int, dtype: torch.dtype) -> list[Tensor]:
    """Cut the patches of every look. levels: number of mip levels, one more than the coarsest leaf's level."""
    return [swift.cut_patches(batch.pictures, each.expand(len(batch), -1, -1), levels, dtype) for each in blocks]


def reader_losses(
    reader: Reader,
    batch: ReaderBatch,
    blocks: Sequence[Tensor],
    patches: Sequence[Tensor],
    kept: Tensor | None = None,
    window: PictureWindow | None = None,
) -> ReaderLosses:
    """Compute the losses of B pictures with K questions each.

    blocks: leaves (B, N, 3) of one look or of several looks in order: the leaves of a look attend to each other in the
    tower, and follow those of the look before in the prompt; (1, N, 3) if all pictures have the same. patches: of these
    leaves, from `cut_blocks`. kept: (B, n), the tokens for the language model; None: all. window: the place of the
    canvas in a larger picture.
    """
    core, batch_size = reader.mini.model, len(batch)
    window = window or PictureWindow(0, 0, *batch.grid)
    seen = see_blocks(core, blocks, patches, window)
    leaves = side_by_side(blocks)
    if kept is not None:
        leaves, seen = (
            take_tokens(leaves.expand(batch_size, -1, -1), kept),
            swift.Seen(
                take_tokens(seen.embeds, kept),
                [take_tokens(plane, kept) for plane in seen.planes],
                take_tokens(seen.patches.unflatten(1, (-1, 4)).flatten(2), kept).unflatten(2, (4, -1)).flatten(1, 2),
            ),
        )
    shown = leaves.expand(batch_size, -1, -1)
    dense = dense_losses(reader, batch, shown, seen)
    answer, right, thought = answer_loss(core, seen, batch, leaves, window)
    said = batch.said.flatten(0, 1)[:, 1:]
    # The token before the answer's first one has read the whole question and nothing of the answer.
    last_read = said.to(torch.uint8).argmax(1)
    asking = thought.half_way[torch.arange(len(last_read), device=last_read.device), last_read]
    places = swift.each_question(thought.before[:, len(HEAD) : len(HEAD) + shown.shape[1]], batch.tails.shape[1])
    pointing = pointing_loss(reader.heads.point(asking, places), leaves_meant(batch.targets, shown))
    copying = copying_loss(reader, thought.half_way[:, :-1], places, batch, shown)
    return ReaderLosses(dense, AnswerLosses(answer, right, pointing, copying))


def side_by_side(blocks: Sequence[Tensor]) -> Tensor:
    """Join the leaves of all looks: (B, N, 3), or (1, N, 3) if every look is the same for all pictures."""
    most = max(len(each) for each in blocks)
    return torch.cat([each.expand(most, -1, -1) for each in blocks], 1)


def see_blocks(core: Any, blocks: Sequence[Tensor], patches: Sequence[Tensor], window: PictureWindow) -> swift.Seen:
    """Encode all looks with the tower, in order."""
    grid = window.rows, window.cols
    looks = [
        swift.run_tower(core.visual, each, window.moved(leaves), grid)
        for each, leaves in zip(patches, blocks, strict=True)
    ]
    return swift.together(looks) if len(looks) > 1 else looks[0]


def dense_losses(reader: Reader, batch: ReaderBatch, leaves: Tensor, seen: swift.Seen) -> DenseLosses:
    target = board_targets(batch.boards(), leaves).flatten(0, 1)
    found, may = thing_targets(batch.things, leaves)
    tokens, patches = seen.embeds.flatten(0, 1), seen.patches.flatten(0, 1)
    return DenseLosses(*dense_part(reader.heads, tokens, patches, target, found.flatten(0, 1), may.flatten()))


@swift.CompiledPiece
def dense_part(
    heads: DenseHeads, embeds: Tensor, patches: Tensor, target: Tensor, found: Tensor, may: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute `DenseLosses`. embeds: (M, D). patches: (4·M, D). target: (M, 32). found: (M, things) and may: (M,), from
    `thing_targets`."""
    glyph_logits, thing_logits = heads(embeds)
    return (
        glyph_loss(glyph_logits, target),
        thing_loss(thing_logits, found, may),
        glyph_loss(heads.read_patches(patches), target),
        glyphs_read(glyph_logits, target),
    )


def named_letters(reader: Reader, pictures: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Predict the characters (B, N, 32) in the sub-cells of every token of whole pictures (B, 3, H, W); return them
    with the leaves (B, N, 3)."""
    rows, cols = pictures.shape[2] // 32, pictures.shape[3] // 32
    cells = torch.arange(rows * cols, device=pictures.device)
    leaves = torch.stack([cells // cols, cells % cols, torch.zeros_like(cells)], -1)[None]
    # With gradients, though unused: this reuses the code compiled for the training.
    patches = swift.cut_patches(pictures, leaves.expand(len(pictures), -1, -1), 1, dtype)
    seen = see_blocks(reader.mini.model, [leaves], [patches], PictureWindow(0, 0, rows, cols))
    with torch.no_grad():
        return reader.heads(seen.embeds)[0].argmax(-1), leaves.expand(len(pictures), -1, -1)


def take_tokens(values: Tensor, which: Tensor) -> Tensor:
    """Gather rows (B, n) of (B, N, D): (B, n, D)."""
    return values.gather(1, which[..., None].expand(-1, -1, values.shape[2]))


def answer_loss(
    core: Any, seen: swift.Seen, batch: ReaderBatch, leaves: Tensor, window: PictureWindow
) -> tuple[Tensor, Tensor, swift.Thought]:
    """Return the cross entropy of the answers, a mask (B·K,) of right ones, and the language model's output."""
    thought = swift.run_language(core, seen, batch.heard, window.moved(leaves), (window.rows, window.cols))
    logits = F.linear(thought.said[:, :-1], core.language_model.embed_tokens.weight).float()
    tails, said = batch.tails.flatten(0, 1)[:, 1:], batch.said.flatten(0, 1)[:, 1:]
    wanted = torch.where(said, tails.long(), IGNORE)
    right = ~((logits.detach().argmax(-1) != wanted) & said).any(1)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORE), right, thought


def copying_loss(reader: Reader, saying: Tensor, places: Tensor, batch: ReaderBatch, leaves: Tensor) -> Tensor:
    """Return the copying loss: leaf and sub-cell of the next letter, from states (Q, T − 1, D) before each token."""
    spot = batch.copied.flatten(0, 1)[:, 1:].long()  # (Q, T − 1)
    across = batch.size[1] // SUB_WIDTH
    y, x = spot // across, spot % across
    questions = batch.tails.shape[1]
    row, col, level = leaves.repeat_interleave(questions, 0)[:, None].unbind(-1)  # (Q, 1, N)
    here = ((y[..., None] // SUB_ROWS >> level) == row >> level) & ((x[..., None] // SUB_COLS >> level) == col >> level)
    meant = here & (level < READING_LEVELS) & (spot >= 0)[..., None]
    pointed, spots = reader.heads.copy(saying, places)
    depth = torch.where(meant, level, READING_LEVELS).amin(-1)
    inside = ((y >> depth) % SUB_ROWS) * SUB_COLS + (x >> depth) % SUB_COLS
    wanted = torch.where(depth < READING_LEVELS, inside, IGNORE)
    total = F.cross_entropy(spots.flatten(0, 1), wanted.flatten(), ignore_index=IGNORE, reduction="sum")
    return pointing_loss(pointed, meant) + total / (wanted >= 0).sum().clamp_min(1)


def leaves_meant(targets: Tensor, leaves: Tensor) -> Tensor:
    """Return a mask (B·K, N) of the leaves (B, N, 3) that hold a cell that a question needs, (B, K, rows, cols) bool.

    Leaves coarser than level 2 never count: their contents cannot be seen in them.
    """
    row, col, level = leaves.unbind(-1)
    found = torch.zeros(*targets.shape[:2], leaves.shape[1], dtype=torch.bool, device=leaves.device)
    pooled = targets.to(torch.float32)
    for depth in range(3):
        pooled = F.max_pool2d(pooled, 2, ceil_mode=True) if depth else pooled
        index = ((row >> depth) * pooled.shape[3] + (col >> depth)).clamp_max(pooled[0, 0].numel() - 1)
        here = pooled.flatten(2).gather(2, index[:, None].expand(-1, targets.shape[1], -1)) > 0
        found |= here & (level == depth)[:, None]
    return found.flatten(0, 1)
