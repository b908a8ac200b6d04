"""One lesson: pages and leaves through `mini` by the swift path, with every loss. Nothing here waits for the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..needle.labels import CELL
from .pictures import IGNORE, READING_LEVELS, SUBCELLS, board_targets, thing_targets
from .prompts import HEAD
from .reader_examples import SPOT, ReaderBatch
from .reading import Reader, Reading, glyph_loss, glyphs_read, pointing_loss, thing_loss
from .swift import cut_patches, run_language, run_tower, together


class Lesson(NamedTuple):
    """What one lesson taught. patches: the loss of reading single patches. pointing: of pointing at what is meant.
    copying: of telling where the next letter of the answer stands."""

    reading: Reading
    patches: Tensor
    pointing: Tensor
    copying: Tensor


def cut_blocks(pages: ReaderBatch, blocks: Sequence[Tensor], levels: int, dtype: torch.dtype) -> list[Tensor]:
    """The patches of every look, as `study` wants them. levels: mip levels, one more than that of the coarsest leaf."""
    return [cut_patches(pages.pictures, leaves, levels, dtype) for leaves in blocks]


def study(reader: Reader, pages: ReaderBatch, blocks: Sequence[Tensor], patches: Sequence[Tensor]) -> Lesson:
    """Losses of B pictures with K questions each.

    blocks: leaves (B, N, 3) of one look, or of several looks after one another: the leaves of each look see each other
    in the tower, and stand behind those of the look before in the prompt. patches: theirs, from `cut_blocks`; of the
    pictures themselves only the size is needed. `Reading.right` is (B·K,).
    """
    core = reader.mini.model
    grid = pages.size[0] // CELL, pages.size[1] // CELL
    looks = [run_tower(core.visual, each, leaves, grid) for each, leaves in zip(patches, blocks, strict=True)]
    leaves, seen = torch.cat(list(blocks), 1), together(looks)
    hidden, half_way = run_language(core, seen, pages.tails, leaves, grid)
    logits = F.linear(hidden[:, :-1], core.language_model.embed_tokens.weight).float()
    tails, said = pages.tails.flatten(0, 1)[:, 1:], pages.said.flatten(0, 1)[:, 1:]
    wanted = torch.where(said, tails.long(), IGNORE)
    answer = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORE)
    with torch.no_grad():
        right = ~((logits.argmax(-1) != wanted) & said).any(1)
    target = board_targets(pages.boards(), leaves).flatten(0, 1)
    glyph_logits, thing_logits = reader.heads(seen.embeds.flatten(0, 1))
    glyph = glyph_loss(glyph_logits, target)
    thing = thing_loss(thing_logits, *thing_targets(pages.things, leaves))
    patch_glyph = glyph_loss(reader.heads.read_patches(seen.patches.flatten(0, 1)), target)
    # The token before the answer's first: it has read the whole question and nothing of the answer.
    last_read = said.to(torch.uint8).argmax(1) + half_way.shape[1] - pages.tails.shape[2]
    asking = half_way[torch.arange(len(half_way), device=half_way.device), last_read]
    places = half_way[:, len(HEAD) : len(HEAD) + leaves.shape[1]]
    pointing = pointing_loss(reader.heads.point(asking, places), leaves_meant(pages.targets, leaves))
    reading = Reading(answer, right, glyph, thing, glyphs_read(glyph_logits, target))
    copying = copying_loss(reader, half_way[:, -pages.tails.shape[2] : -1], places, pages, leaves)
    return Lesson(reading, patch_glyph, pointing, copying)


def pack_lesson(pages: ReaderBatch, blocks: Sequence[Tensor], patches: Sequence[Tensor]) -> list[Tensor]:
    """A lesson as a flat list of tensors: the pages without their pictures, then leaves and patches of every look."""
    light = replace(pages, pictures=pages.pictures[:0])
    return [*(getattr(light, item.name) for item in fields(ReaderBatch)), *blocks, *patches]


def unpack_lesson(material: Sequence[Tensor]) -> tuple[ReaderBatch, Sequence[Tensor], Sequence[Tensor]]:
    """The inverse, but for the pictures, of which only the size is left."""
    number = len(fields(ReaderBatch))
    looks = (len(material) - number) // 2
    return ReaderBatch(*material[:number]), material[number : number + looks], material[number + looks :]


def copying_loss(reader: Reader, saying: Tensor, places: Tensor, pages: ReaderBatch, leaves: Tensor) -> Tensor:
    """States before every token of the tails but the first, (Q, T − 1, D): leaf and sub-cell of the next letter."""
    spot = pages.copied.flatten(0, 1)[:, 1:].long()  # (Q, T − 1)
    across = pages.size[1] // SPOT
    y, x = spot // across, spot % across
    questions = pages.tails.shape[1]
    row, col, level = leaves.repeat_interleave(questions, 0)[:, None].unbind(-1)  # (Q, 1, N)
    here = ((y[..., None] // SUBCELLS >> level) == row >> level) & ((x[..., None] // SUBCELLS >> level) == col >> level)
    meant = here & (level < READING_LEVELS) & (spot >= 0)[..., None]
    pointed, spots = reader.heads.copy(saying, places)
    depth = torch.where(meant, level, READING_LEVELS).amin(-1)
    inside = ((y >> depth) % SUBCELLS) * SUBCELLS + (x >> depth) % SUBCELLS
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
