"""`mini` on clips: the tower on frames of different numbers of leaves, ways to spend a clip's tokens, and answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from arr_coc.attending.controls import permute_along_tree
from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import DEFAULT_LEVELS, Leaves, build_tree
from arr_coc.core.errors import InputError
from arr_coc.realizing.patches import LeafBatch, gather_leaf_patches, mip_pyramid
from arr_coc.realizing.qwen3_vl.encode import VisualTokens, encode_leaves
from arr_coc.video.watching import demand_of, grow_forest

from ..train.allocations import LEVELS
from ..train.mini_model import HEAD, IMAGE, VISION_END, Prompt, chat_tail
from ..train.reader import AnswerReading, answer_logits, judged, normalise_pictures
from ..train.swift import pair
from ..train.train_video import ClipMaps
from ..worlds.needle.clips import NeedleClip

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# ----------------------------------------------------------------------------------------------------------------------
# `mini`'s vision tower on frames with different numbers of leaves, in one pass: only attention needs padding.
#
# The frames of a clip may have four leaves or hundreds. Frame by frame, or one number of leaves after the other, would
# be dozens of passes of a small model, each too small for a fast device. Everything but attention works on single
# patches, so these stay packed; for attention they are laid out in rows of the longest frame, with a mask. The
# parameters are the stock model's own, and a test holds the result equal to it.

CELL, PATCH = 32, 16


def pack_leaves(leaves: Leaves, grid: tuple[int, int], levels: int) -> LeafBatch:
    """Leaves of M frames of one grid, frame after frame without gaps."""
    device, counts = leaves.cells.device, tuple(leaves.lengths.tolist())
    valid = torch.arange(leaves.cells.shape[1], device=device) < leaves.lengths[:, None]
    owner = torch.arange(len(counts), device=device).repeat_interleave(leaves.lengths, output_size=sum(counts))
    size = pair(*grid, device).expand(len(counts), 2)
    return LeafBatch(leaves.cells[valid].long(), owner, size, counts, levels)


def see_frames(model: PreTrainedModel, pictures: Tensor, leaves: Leaves) -> tuple[VisualTokens, LeafBatch]:
    """uint8 pictures (M, 3, H, W) and leaves of different numbers → visual tokens, packed picture after picture."""
    grid = pictures.shape[2] // CELL, pictures.shape[3] // CELL
    # As many mip levels as there can be: asking how coarse the leaves are would make the processor wait.
    levels = 1 + math.ceil(math.log2(max(2, *grid)))
    batch = pack_leaves(leaves, grid, max(levels, LEVELS + 1))
    pyramid = mip_pyramid(normalise_pictures(pictures), batch.levels, cell=CELL, patch_size=PATCH)
    patches = gather_leaf_patches(pyramid, batch.leaves, batch.owner, merge=2, temporal=1)
    return encode_leaves(model, patches, batch), batch


# ----------------------------------------------------------------------------------------------------------------------
# Clips through `mini`, which was trained on single pictures: the frame with most evidence is asked. Every character is
# judged with the right ones before it, which for exact match is the same as greedy decoding.


@dataclass(frozen=True)
class Clips:
    """N clips of T frames with one question each. pictures: (N, T, 3, H, W) uint8. question_ids, answer_ids: (N, …)."""

    pictures: Tensor
    question_ids: Tensor
    answer_ids: Tensor

    @classmethod
    def of(cls, clip: NeedleClip) -> Clips:
        """Rendered ones; every frame has its clip's question."""
        frames = clip.cuts.shape[1]
        return cls(clip.pictures, clip.frames.question_ids[::frames], clip.frames.answer_ids[::frames])

    def __len__(self) -> int:
        return len(self.pictures)


def read_clearest(model: PreTrainedModel, clips: Clips, leaves: Leaves, evidence: Tensor) -> AnswerReading:
    """Only the frame with most evidence (N, T), as a picture. leaves: of N · T frames, clip after clip."""
    number, frames = evidence.shape
    chosen = torch.arange(number, device=evidence.device) * frames + evidence.argmax(1)
    picked = take_frames(leaves, chosen)
    tokens, batch = see_frames(model, clips.pictures.flatten(0, 1)[chosen], picked)
    prompt = clip_prompt(clips.question_ids, clips.answer_ids, picked.lengths)
    return judged(*answer_logits(model, prompt, tokens, batch, IMAGE), number)


def clip_prompt(question_ids: Tensor, answer_ids: Tensor, counts: Tensor) -> Prompt:
    """(N, Q) and (N, A) characters, counts (N,) visual tokens of the frame that is shown → the whole chat of each."""
    number, device, longest = len(counts), counts.device, int(counts.max())
    # Every frame gets room for the longest run; what it does not use is 0 and falls out when the row is packed.
    runs = torch.where(torch.arange(longest, device=device) < counts[:, None], IMAGE, 0)
    ends = [torch.tensor(tokens, device=device).expand(number, -1) for tokens in (HEAD, (VISION_END,))]
    head = torch.cat([ends[0], runs, ends[1]], 1)
    tail, said = chat_tail(question_ids, answer_ids)
    ids = torch.cat([head, tail.long()], 1)
    answers = torch.cat([torch.zeros_like(head, dtype=torch.bool), said], 1)
    there = ids > 0
    order = (~there).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(there.sum(1).max())]
    return Prompt(ids.gather(1, order), answers.gather(1, order))


def take_frames(leaves: Leaves, chosen: Tensor) -> Leaves:
    """The leaves of some frames, no wider than they need."""
    lengths = leaves.lengths[chosen]
    longest = int(lengths.max())
    return Leaves(leaves.cells[chosen, :longest], leaves.scores[chosen, :longest], lengths)


def evidence_of(relevance: Tensor, leaves: Leaves) -> Tensor:
    """(N, T): relevance-weighted detail of each frame: 1 if all that matters is seen at level 0.

    relevance: (N, T, rows, cols). leaves: of N · T frames; where they overlap, the finest is what is seen.
    """
    number, frames, rows, cols = relevance.shape
    detail = torch.stack([grid * 0.5**level for level, grid, _ in leaves_by_level(leaves, rows, cols)]).amax(0)
    seen = (relevance.flatten(0, 1) * detail).sum((1, 2))
    total = relevance.flatten(0, 1).sum((1, 2)).clamp_min(1e-9)
    return (seen / total).unflatten(0, (number, frames))


# ---- ways to spend one total on a clip, all of the same cost ---------------------------------------------------------

SYSTEMS = ("temporal", "frame by frame", "uniform", "random", "shuffled", "one frame", "full")


def clip_leaves(system: str, maps: ClipMaps, keep: float, generator: torch.Generator, share: float = 1.0) -> Leaves:
    """Leaves of N · T frames, clip after clip: for each clip as many tokens as keep · full in each of its frames.

    share: of that total, for the systems that plan over the whole clip; the others take all of it.

    temporal: one order of tokens over carried relevance, new ground first. frame by frame: each frame's own scores and
    an even share. one frame: all of the budget in the first frame, a token elsewhere. shuffled: temporal with its map
    permuted. Scores of the leaves are the relevance beneath them.
    """
    frames, rows, cols = maps.scores.shape[1:]
    flat = maps.scores.flatten(0, 1)
    full, each = rows * cols, max(1, round(keep * rows * cols))
    total = max(frames, int(share * frames * each))
    if system == "full":
        return overlay(flat, [full] * len(flat))
    if system == "frame by frame":
        return overlay(flat, [each] * len(flat))
    if system == "uniform":
        return overlay(torch.ones_like(flat), [each] * len(flat), scored=flat)
    if system == "random":
        # A map of few loud places, as the control of single pictures has it: an even one would be down-sampling.
        noise = torch.rand(flat.shape, generator=generator).pow(16).to(flat)
        return overlay(noise, [each] * len(flat), scored=flat)
    if system == "one frame":
        first = torch.zeros_like(maps.scores)
        first[:, 0] = maps.scores[:, 0] + 1e-6
        return grow_forest(first, total, relevance=maps.scores)
    demand = demand_of(maps.relevance, maps.same_ground)
    if system == "shuffled":
        # Every frame is permuted alike, so that what was one place stays one place through time.
        seed, tree = int(torch.randint(2**31, (1,), generator=generator)), build_tree(rows, cols, DEFAULT_LEVELS)
        frames_alike = [
            permute_along_tree(demand[:, time], tree, torch.Generator().manual_seed(seed)) for time in range(frames)
        ]
        demand = torch.stack(frames_alike, 1)
    elif system != "temporal":
        raise InputError(f"no way to share a clip's tokens is called {system!r}; choose {', '.join(SYSTEMS)}")
    return grow_forest(demand, total, relevance=maps.relevance)


# ---- How alike the allocations of neighbouring frames are, for whole batches of clips --------------------------------

# Share of a frame's tokens that a standing allocation has: what similarity compares.
STANDING = 1 / 8


def neighbour_similarity(relevance: Tensor, keep: float, same_ground: Tensor | None = None) -> Tensor:
    """(N, T, rows, cols) → (N, T − 1): `spending.kept_share` of each frame's allocation and the next one's.

    same_ground: (N, T, rows, cols), what of each cell was there in the frame before. Without it, places alone are
    compared, whatever stands there: `values.compare(…).similarity`.
    """
    flat, (rows, cols) = relevance.flatten(0, 1), relevance.shape[2:]
    leaves = overlay(flat, [max(1, round(keep * rows * cols))] * len(flat))
    density = torch.stack([grid / area for _, grid, area in leaves_by_level(leaves, rows, cols)]).sum(0)
    density = density.unflatten(0, relevance.shape[:2])
    both = torch.minimum(density[:, 1:], density[:, :-1])
    if same_ground is not None:
        both = both * same_ground[:, 1:]
    return both.sum((2, 3)) / density.sum((2, 3)).amax(1, keepdim=True)


def leaves_by_level(leaves: Leaves, rows: int, cols: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Each level with (B, rows, cols) bool, the cells under its leaves, and (rows, cols), the cells that a leaf there
    has: one at the edge has fewer."""
    row, col, level = leaves.cells.unbind(-1)
    device, number = row.device, len(row)
    for one in range(int(level.max()) + 1):
        shape, side = (-(-rows >> one), -(-cols >> one)), 1 << one
        which, place = torch.where(level == one)  # padding has level -1
        grid = torch.zeros(number, *shape, dtype=torch.bool, device=device)
        grid[which, row[which, place] >> one, col[which, place] >> one] = True
        high = (rows - torch.arange(shape[0], device=device) * side).clamp_max(side)
        wide = (cols - torch.arange(shape[1], device=device) * side).clamp_max(side)
        area = high[:, None] * wide
        yield one, _spread(grid, side)[:, :rows, :cols], _spread(area[None], side)[0, :rows, :cols]


def _spread(grid: Tensor, side: int) -> Tensor:
    """Every node's value on all of its cells."""
    return grid.repeat_interleave(side, 1).repeat_interleave(side, 2)
