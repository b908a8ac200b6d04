"""One reading step: pictures and leaves through `mini`, with its losses. Works from transformers 5.17 on."""

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
    """What each visual token holds: the character in each of its sub-cells, and the colours and things in it.

    The same is asked of the tower's patches before four of them are merged into a token: reading is a local matter, and
    is learned sooner where it happens. Used in training only; the shipped model is the stock class.
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
        """Tokens (M, D) → (M, 32, characters), (M, things)."""
        embeds = self.norm(embeds)
        return self.glyphs(embeds).unflatten(-1, (SUBCELLS, -1)), self.things(embeds)

    def read_patches(self, patches: Tensor) -> Tensor:
        """Patches (M·4, D) in merge-block order → (M, 32, characters), sub-cells in the order of the tokens'."""
        glyphs = self.patch_glyphs(self.patch_norm(patches)).view(-1, 2, 2, SUB_ROWS // 2, SUB_COLS // 2, NUMBER_OF_IDS)
        return glyphs.transpose(2, 3).reshape(-1, SUBCELLS, NUMBER_OF_IDS)

    def point(self, asking: Tensor, places: Tensor) -> Tensor:
        """States at the end of the questions (Q, D) and of the visual tokens (Q, N, D) → log-probabilities (Q, N).

        Which tokens a question is about: the language model learns sooner to find when half-way up it is asked where.
        """
        query, key = self.point_from(self.point_norm(asking)), self.point_to(self.point_norm(places))
        return (torch.einsum("qd,qnd->qn", query, key) / POINTING**0.5).float().log_softmax(-1)

    def copy(self, saying: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """States while answering (Q, T, D) and of the visual tokens (Q, N, D) → from which token the next letter will
        be copied, log-probabilities (Q, T, N), and from which of its sub-cells, logits (Q, T, 32)."""
        saying = self.point_norm(saying)
        query, key = self.copy_from(saying), self.copy_to(self.point_norm(places))
        return (query @ key.mT / POINTING**0.5).float().log_softmax(-1), self.spots(saying).float()


class Reader(nn.Module):
    """`mini` and the heads that it is trained with."""

    def __init__(self, mini: PreTrainedModel, heads: DenseHeads) -> None:
        super().__init__()
        self.mini = mini
        self.heads = heads


def normalise_pictures(pictures: Tensor) -> Tensor:
    """uint8 → what `mini`'s image processor makes of it: [−1, 1]."""
    return pictures.to(torch.float32).div_(127.5).sub_(1)


def see(model: PreTrainedModel, pictures: Tensor, leaves: Tensor) -> tuple[VisualTokens, LeafBatch]:
    """uint8 pictures (B, 3, H, W) and leaves (B, N, 3) → visual tokens."""
    grid = pictures.shape[2] // 32, pictures.shape[3] // 32
    batch = LeafBatch.equal(leaves, grid, int(leaves[..., 2].max()) + 1)
    return foveate(model, normalise_pictures(pictures), batch), batch


@dataclass(frozen=True)
class AnswerReading:
    """loss: mean cross entropy of the answers' characters. right: (B,) bool, every character right (teacher forced,
    which for exact match is the same as greedy decoding). characters: (B,) share of them that is right behind true
    ones."""

    loss: Tensor
    right: Tensor
    characters: Tensor


def read(model: PreTrainedModel, batch: NeedleBatch, leaves: Tensor) -> AnswerReading:
    """Loss and exact match of a batch; call it inside `dense_vision_attention(model)` and autocast as wanted."""
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
    """(M, 32, characters) and (M, 32) → cross entropy; blank ground counts little, −100 not at all."""
    logits, classes = logits.float(), torch.arange(logits.shape[-1], device=logits.device)
    # The right one by comparison instead of by its place: compiled, nothing as large as the logits is written twice.
    wanted = torch.where(classes == target[..., None], logits, 0).sum(-1)
    written = target > 0
    # A picture of small type has fifty times the letters of one of large type: none of the two may drown the other.
    crowd = written.sum(-1, keepdim=True).clamp_min(1).float().rsqrt()
    weight = torch.where(written, crowd, torch.where(target == 0, BLANK_WEIGHT, 0.0))
    return ((logits.logsumexp(-1) - wanted) * weight).sum() / weight.sum().clamp_min(1)


@torch.no_grad()
def glyphs_read(logits: Tensor, target: Tensor) -> Tensor:
    """The share of the written sub-cells that were read right."""
    written = target > 0
    return ((logits.argmax(-1) == target) & written).sum() / written.sum().clamp_min(1)


def pointing_loss(log_probabilities: Tensor, wanted: Tensor) -> Tensor:
    """(…, N) and (…, N) bool → how surprised the pointer is that one of the wanted tokens is meant.

    Questions that need no place (how many, is there) or that no leaf shows are left out.
    """
    meant = log_probabilities.masked_fill(~wanted, -1e4).logsumexp(-1)
    asked = wanted.any(-1)
    return -(meant * asked).sum() / asked.sum().clamp_min(1)


def thing_loss(logits: Tensor, found: Tensor, may: Tensor) -> Tensor:
    """(M, classes) logits, found (M, classes), may (M,) → cross entropy where it may be asked."""
    logits, found = logits.float(), found.float()
    # What is there is rare: it counts eight times.
    each = F.binary_cross_entropy_with_logits(logits, found, weight=1 + 7 * found, reduction="none").mean(-1)
    return (each * may).sum() / may.sum().clamp_min(1)


# ----------------------------------------------------------------------------------------------------------------------
# A batch and its leaves through `mini` by the swift path, with every loss. Nothing here waits for the device.


class DenseLosses(NamedTuple):
    """What stands in every token: its characters, its colours and things, the characters of single patches; and the
    share of the characters read right."""

    glyph: Tensor
    thing: Tensor
    patches: Tensor
    glyph_right: Tensor


class AnswerLosses(NamedTuple):
    """answer: cross-entropy of the answers; right: (B·K,) bool. pointing: of pointing at what is meant. copying: of
    telling where the next letter of the answer stands."""

    answer: Tensor
    right: Tensor
    pointing: Tensor
    copying: Tensor


class ReaderLosses(NamedTuple):
    """What one batch taught."""

    dense: DenseLosses
    answers: AnswerLosses

    def total(self) -> Tensor:
        dense, answers = self.dense, self.answers
        reading = dense.glyph + dense.patches + dense.thing
        return reading + answers.answer + POINT_WEIGHT * (answers.pointing + answers.copying)


class PictureWindow(NamedTuple):
    """The canvas as a part of a larger picture that nobody sees: its first row and column there, and the rows and cols
    of the whole, in level-0 cells. Leaves of a page of 2048 pixels then cost what those of the canvas cost."""

    top: int
    left: int
    rows: int
    cols: int

    def moved(self, leaves: Tensor) -> Tensor:
        """Leaves (…, 3) of the canvas, where they lie in the larger picture."""
        row, col, level = leaves.unbind(-1)
        return torch.stack([row + self.top, col + self.left, level], -1)


def cut_blocks(batch: ReaderBatch, blocks: Sequence[Tensor], levels: int, dtype: torch.dtype) -> list[Tensor]:
    """The patches of every look. levels: mip levels, one more than that of the coarsest leaf."""
    return [swift.cut_patches(batch.pictures, each.expand(len(batch), -1, -1), levels, dtype) for each in blocks]


def reader_losses(
    reader: Reader,
    batch: ReaderBatch,
    blocks: Sequence[Tensor],
    patches: Sequence[Tensor],
    kept: Tensor | None = None,
    window: PictureWindow | None = None,
) -> ReaderLosses:
    """Losses of B pictures with K questions each.

    blocks: leaves (B, N, 3) of one look, or of several looks after one another: the leaves of each look see each other
    in the tower, and stand behind those of the look before in the prompt; (1, N, 3) where all pictures have the same.
    patches: theirs, from `cut_blocks`. kept: (B, n), the tokens that the language model gets; all where None. window:
    where the canvas lies in a larger picture.
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
    # The token before the answer's first: it has read the whole question and nothing of the answer.
    last_read = said.to(torch.uint8).argmax(1)
    asking = thought.half_way[torch.arange(len(last_read), device=last_read.device), last_read]
    places = swift.each_question(thought.before[:, len(HEAD) : len(HEAD) + shown.shape[1]], batch.tails.shape[1])
    pointing = pointing_loss(reader.heads.point(asking, places), leaves_meant(batch.targets, shown))
    copying = copying_loss(reader, thought.half_way[:, :-1], places, batch, shown)
    return ReaderLosses(dense, AnswerLosses(answer, right, pointing, copying))


def side_by_side(blocks: Sequence[Tensor]) -> Tensor:
    """The leaves of all looks, one behind the other: (B, N, 3), or (1, N, 3) where every look is the same for all."""
    most = max(len(each) for each in blocks)
    return torch.cat([each.expand(most, -1, -1) for each in blocks], 1)


def see_blocks(core: Any, blocks: Sequence[Tensor], patches: Sequence[Tensor], window: PictureWindow) -> swift.Seen:
    """All looks through the tower, one behind the other."""
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
    """The numbers of `DenseLosses`. embeds: (M, D). patches: (4·M, D). target: (M, 32). found: (M, things) and may:
    (M,), from `thing_targets`."""
    glyph_logits, thing_logits = heads(embeds)
    return (
        glyph_loss(glyph_logits, target),
        thing_loss(thing_logits, found, may),
        glyph_loss(heads.read_patches(patches), target),
        glyphs_read(glyph_logits, target),
    )


def named_letters(reader: Reader, pictures: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """What every token of whole pictures (B, 3, H, W) names in its sub-cells: (B, N, 32) characters; and the leaves
    (B, N, 3)."""
    rows, cols = pictures.shape[2] // 32, pictures.shape[3] // 32
    cells = torch.arange(rows * cols, device=pictures.device)
    leaves = torch.stack([cells // cols, cells % cols, torch.zeros_like(cells)], -1)[None]
    # With gradients, though nobody wants them: what was compiled for the training serves here too.
    patches = swift.cut_patches(pictures, leaves.expand(len(pictures), -1, -1), 1, dtype)
    seen = see_blocks(reader.mini.model, [leaves], [patches], PictureWindow(0, 0, rows, cols))
    with torch.no_grad():
        return reader.heads(seen.embeds)[0].argmax(-1), leaves.expand(len(pictures), -1, -1)


def take_tokens(values: Tensor, which: Tensor) -> Tensor:
    """(B, N, D), (B, n) → (B, n, D)."""
    return values.gather(1, which[..., None].expand(-1, -1, values.shape[2]))


def answer_loss(
    core: Any, seen: swift.Seen, batch: ReaderBatch, leaves: Tensor, window: PictureWindow
) -> tuple[Tensor, Tensor, swift.Thought]:
    """Cross entropy of the answers, which are right (B·K,), and what the language model made of it all."""
    thought = swift.run_language(core, seen, batch.heard, window.moved(leaves), (window.rows, window.cols))
    logits = F.linear(thought.said[:, :-1], core.language_model.embed_tokens.weight).float()
    tails, said = batch.tails.flatten(0, 1)[:, 1:], batch.said.flatten(0, 1)[:, 1:]
    wanted = torch.where(said, tails.long(), IGNORE)
    right = ~((logits.detach().argmax(-1) != wanted) & said).any(1)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORE), right, thought


def copying_loss(reader: Reader, saying: Tensor, places: Tensor, batch: ReaderBatch, leaves: Tensor) -> Tensor:
    """States before every token of the tails but the first, (Q, T − 1, D): leaf and sub-cell of the next letter."""
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
    """Cells that a question needs (B, K, rows, cols) bool, leaves (B, N, 3) → (B·K, N) bool: leaves that hold one.

    Leaves coarser than level 2 are never meant: what they hold cannot be seen in them.
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
