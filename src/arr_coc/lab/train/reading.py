"""One reading step: pictures and leaves through `mini`, with its losses. Works from transformers 5.17 on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...alphabet import NUMBER_OF_IDS
from ...backbones.qwen3_vl_encode import VisualTokens, foveate, leaf_positions, run_language_model
from ...realizing.patches import LeafBatch
from ..needle.labels import CELL_CLASSES, FIRST_COLOUR
from .mini_model import IMAGE
from .pictures import SUBCELLS, TrainingBatch, glyph_targets, thing_targets
from .prompts import build_prompt

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BLANK_WEIGHT = 0.05
POINTING = 128


class DenseHeads(nn.Module):
    """What each visual token holds: the character in each of its sub-cells, and the colours and things in it.

    The same is asked of the tower's patches before four of them are merged into a token: reading is a local matter, and
    is learned sooner where it happens. Used in training only; the shipped model is the stock class.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.glyphs = nn.Linear(width, SUBCELLS**2 * NUMBER_OF_IDS)
        self.things = nn.Linear(width, len(CELL_CLASSES) - FIRST_COLOUR)
        self.patch_norm = nn.LayerNorm(width)
        self.patch_glyphs = nn.Linear(width, SUBCELLS**2 // 4 * NUMBER_OF_IDS)
        self.point_norm = nn.LayerNorm(width)
        self.point_from, self.point_to = nn.Linear(width, POINTING), nn.Linear(width, POINTING)
        self.copy_from, self.copy_to = nn.Linear(width, POINTING), nn.Linear(width, POINTING)
        self.spots = nn.Linear(width, SUBCELLS**2)

    def forward(self, embeds: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (M, D) → (M, 16, characters), (M, things)."""
        embeds = self.norm(embeds)
        return self.glyphs(embeds).unflatten(-1, (SUBCELLS**2, -1)), self.things(embeds)

    def read_patches(self, patches: Tensor) -> Tensor:
        """Patches (M·4, D) in merge-block order → (M, 16, characters), sub-cells in the order of the tokens'."""
        half = SUBCELLS // 2
        glyphs = self.patch_glyphs(self.patch_norm(patches)).view(-1, 2, 2, half, half, NUMBER_OF_IDS)
        return glyphs.transpose(2, 3).reshape(-1, SUBCELLS**2, NUMBER_OF_IDS)

    def point(self, asking: Tensor, places: Tensor) -> Tensor:
        """States at the end of the questions (Q, D) and of the visual tokens (Q, N, D) → log-probabilities (Q, N).

        Which tokens a question is about: the language model learns sooner to find when half-way up it is asked where.
        """
        query, key = self.point_from(self.point_norm(asking)), self.point_to(self.point_norm(places))
        return (torch.einsum("qd,qnd->qn", query, key) / POINTING**0.5).float().log_softmax(-1)

    def copy(self, saying: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """States while answering (Q, T, D) and of the visual tokens (Q, N, D) → from which token the next letter will
        be copied, log-probabilities (Q, T, N), and from which of its sub-cells, logits (Q, T, 16)."""
        saying = self.point_norm(saying)
        query, key = self.copy_from(saying), self.copy_to(self.point_norm(places))
        return (query @ key.mT / POINTING**0.5).float().log_softmax(-1), self.spots(saying).float()


class Reader(nn.Module):
    """`mini` and the heads that it is trained with."""

    def __init__(self, mini: PreTrainedModel, heads: DenseHeads) -> None:
        super().__init__()
        self.mini = mini
        self.heads = heads


@dataclass(frozen=True)
class Reading:
    """answer: mean cross entropy of the answers' characters. right: (B,) bool, every character right (teacher forced,
    which for exact match is the same as greedy decoding). glyph, thing: losses of the dense heads, zero without them.
    glyph_right: share of the written sub-cells that were read right."""

    answer: Tensor
    right: Tensor
    glyph: Tensor
    thing: Tensor
    glyph_right: Tensor


def normalise_pictures(pictures: Tensor) -> Tensor:
    """uint8 → what `mini`'s image processor makes of it: [−1, 1]."""
    return pictures.to(torch.float32).div_(127.5).sub_(1)


def see(model: PreTrainedModel, pictures: Tensor, leaves: Tensor) -> tuple[VisualTokens, LeafBatch]:
    """uint8 pictures (B, 3, H, W) and leaves (B, N, 3) → visual tokens."""
    grid = pictures.shape[2] // 32, pictures.shape[3] // 32
    batch = LeafBatch.equal(leaves, grid, int(leaves[..., 2].max()) + 1)
    return foveate(model, normalise_pictures(pictures), batch), batch


def read(model: PreTrainedModel, batch: TrainingBatch, leaves: Tensor, heads: DenseHeads | None = None) -> Reading:
    """Loss and exact match of a batch; call it inside `dense_vision_attention(model)` and autocast as wanted."""
    tokens, leaf_batch = see(model, batch.pictures, leaves)
    prompt = build_prompt(batch.question_ids, batch.answer_ids, leaves.shape[1])
    positions, _ = leaf_positions(prompt.input_ids, leaf_batch, IMAGE)
    output = run_language_model(model, prompt.input_ids, tokens, positions, use_cache=False)
    said = prompt.answers[:, 1:]
    wanted = prompt.input_ids[:, 1:][said]
    logits = model.lm_head(output.last_hidden_state[:, :-1][said]).float()
    answer = F.cross_entropy(logits, wanted)
    with torch.no_grad():
        owner = said.nonzero()[:, 0]
        wrong = torch.zeros(len(batch), device=owner.device).index_add_(0, owner, (logits.argmax(-1) != wanted).float())
    zero = answer.new_zeros(())
    if heads is None:
        return Reading(answer, wrong == 0, zero, zero, zero)
    size = batch.pictures.shape[2], batch.pictures.shape[3]
    glyph_logits, thing_logits = heads(tokens.embeds)
    target = glyph_targets(batch.glyphs, leaves, size).flatten(0, 1)
    glyph = glyph_loss(glyph_logits, target)
    thing = thing_loss(thing_logits, *thing_targets(batch.things, leaves))
    return Reading(answer, wrong == 0, glyph, thing, glyphs_read(glyph_logits, target))


def glyph_loss(logits: Tensor, target: Tensor) -> Tensor:
    """(M, 16, characters) and (M, 16) → cross entropy; blank ground counts little, −100 not at all."""
    classes = torch.arange(logits.shape[-1], device=logits.device)
    weight = torch.where(classes == 0, BLANK_WEIGHT, 1.0)
    total = F.cross_entropy(logits.flatten(0, 1).float(), target.flatten(), weight=weight, reduction="sum")
    return total / ((target > 0) + BLANK_WEIGHT * (target == 0)).sum().clamp_min(1)


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
    """(M, classes) logits, found (B, N, classes), may (B, N) → cross entropy where it may be asked."""
    logits, found = logits.float(), found.flatten(0, 1).float()
    # What is there is rare: it counts eight times.
    each = F.binary_cross_entropy_with_logits(logits, found, weight=1 + 7 * found, reduction="none").mean(-1)
    return (each * may.flatten()).sum() / may.sum().clamp_min(1)
