"""Clips through `mini`: as one video prompt, from the clearest frame, or with the opinions of all frames pooled.

A `mini` that was trained on single pictures has never seen a video prompt; `clearest` and `pooled` ask it about frames
as pictures. Whichever way, every character is judged with the right ones before it, which for exact match is the same
as greedy decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from ...attending.quadtree import Leaves
from ...backbones.qwen3_vl_encode import VisualTokens, leaf_positions, run_language_model
from ...realizing.patches import LeafBatch
from .clip_prompts import build_clip_prompt, clip_seconds
from .clip_tower import see_frames
from .mini_model import IMAGE, VIDEO
from .prompts import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Clips:
    """N clips of T frames with one question each. pictures: (N, T, 3, H, W) uint8. question_ids, answer_ids: (N, …)."""

    pictures: Tensor
    question_ids: Tensor
    answer_ids: Tensor

    def __len__(self) -> int:
        return len(self.pictures)


@dataclass(frozen=True)
class ClipReading:
    """loss: mean cross entropy of the answers' characters. right: (N,) bool, every character right."""

    loss: Tensor
    right: Tensor


def answer_chances(
    model: PreTrainedModel, prompt: Prompt, tokens: VisualTokens, batch: LeafBatch, placeholder: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities (K, vocabulary) of all characters to be said, the right ones (K,), their rows (K,)."""
    positions, _ = leaf_positions(prompt.input_ids, batch, placeholder)
    output = run_language_model(model, prompt.input_ids, tokens, positions, use_cache=False, placeholder=placeholder)
    said = prompt.answers[:, 1:]
    chances = model.lm_head(output.last_hidden_state[:, :-1][said]).float().log_softmax(-1)
    return chances, prompt.input_ids[:, 1:][said], said.nonzero()[:, 0]


def judged(chances: Tensor, wanted: Tensor, rows: Tensor, number: int) -> ClipReading:
    wrong = (chances.argmax(-1) != wanted).float()
    missed = torch.zeros(number, device=rows.device).index_add_(0, rows, wrong)
    return ClipReading(F.nll_loss(chances, wanted), missed == 0)


def read_video(
    model: PreTrainedModel, clips: Clips, leaves: Leaves, seconds: Sequence[float] | None = None
) -> ClipReading:
    """All frames of a clip in one video prompt. leaves: of N · T frames, clip after clip."""
    number, frames = clips.pictures.shape[:2]
    tokens, batch = see_frames(model, clips.pictures.flatten(0, 1), leaves)
    counts = leaves.lengths.unflatten(0, (number, frames))
    times = clip_seconds(frames) if seconds is None else seconds
    prompt = build_clip_prompt(clips.question_ids, clips.answer_ids, counts, times)
    return judged(*answer_chances(model, prompt, tokens, batch, VIDEO), number)


def read_pictures(
    model: PreTrainedModel, pictures: Tensor, question_ids: Tensor, answer_ids: Tensor, leaves: Leaves
) -> tuple[Tensor, Tensor, Tensor]:
    """`answer_chances` of pictures (M, 3, H, W), each with a question of its own and any number of leaves."""
    tokens, batch = see_frames(model, pictures, leaves)
    prompt = build_clip_prompt(question_ids, answer_ids, leaves.lengths[:, None])
    return answer_chances(model, prompt, tokens, batch, IMAGE)


def read_clearest(model: PreTrainedModel, clips: Clips, leaves: Leaves, evidence: Tensor) -> ClipReading:
    """Only the frame with most evidence (N, T), as a picture."""
    number, frames = evidence.shape
    chosen = torch.arange(number, device=evidence.device) * frames + evidence.argmax(1)
    picked = take_frames(leaves, chosen)
    pictures = clips.pictures.flatten(0, 1)[chosen]
    return judged(*read_pictures(model, pictures, clips.question_ids, clips.answer_ids, picked), number)


def read_pooled(model: PreTrainedModel, clips: Clips, leaves: Leaves, evidence: Tensor) -> ClipReading:
    """Every frame as a picture; their opinions about each character are averaged, weighted by the evidence (N, T)."""
    number, frames = evidence.shape
    questions, answers = (ids.repeat_interleave(frames, 0) for ids in (clips.question_ids, clips.answer_ids))
    chances, wanted, rows = read_pictures(model, clips.pictures.flatten(0, 1), questions, answers, leaves)
    weights = (evidence / evidence.sum(1, keepdim=True).clamp_min(1e-9)).flatten()
    # All frames of a clip say the same number of characters: rows of one clip are T blocks of equal length.
    said = torch.bincount(rows, minlength=number * frames).view(number, frames)[:, 0]
    clip = rows // frames
    begin = (said * frames).cumsum(0) - said * frames
    place = (torch.arange(len(rows), device=rows.device) - begin[clip]) % said[clip]
    target = (said.cumsum(0) - said)[clip] + place
    pooled = torch.zeros(int(said.sum()), chances.shape[1], device=chances.device)
    pooled.index_add_(0, target, chances * weights[rows][:, None])
    first = rows % frames == 0
    return judged(pooled.log_softmax(-1), wanted[first], clip[first], number)


def take_frames(leaves: Leaves, chosen: Tensor) -> Leaves:
    """The leaves of some frames, no wider than they need."""
    lengths = leaves.lengths[chosen]
    longest = int(lengths.max())
    return Leaves(leaves.cells[chosen, :longest], leaves.scores[chosen, :longest], lengths)


def evidence_of(relevance: Tensor, leaves: Leaves) -> Tensor:
    """(N, T): relevance-weighted detail of each frame: 1 if all that matters is seen at level 0.

    relevance: (N, T, rows, cols). leaves: of N · T frames; their scores must be mean relevance under each leaf.
    """
    number, frames, rows, cols = relevance.shape
    row, col, level = leaves.cells.unbind(-1)
    side = 1 << level.clamp_min(0)
    area = (torch.minimum(row + side, row.new_tensor(rows)) - row) * (
        torch.minimum(col + side, col.new_tensor(cols)) - col
    )
    valid = torch.arange(leaves.cells.shape[1], device=row.device) < leaves.lengths[:, None]
    seen = (leaves.scores * area * torch.exp2(-level.clamp_min(0).float()) * valid).sum(1)
    total = relevance.flatten(0, 1).sum((1, 2)).clamp_min(1e-9)
    return (seen / total).unflatten(0, (number, frames))
