"""One lesson: pages and leaves through `mini` by the swift path, with every loss. Nothing here waits for the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ..needle.labels import CELL
from .album import Pages
from .pictures import IGNORE, board_targets, thing_targets
from .reading import Reader, Reading, glyph_loss, glyphs_read, thing_loss
from .swift import cut_patches, run_language, run_tower, together


def study(reader: Reader, pages: Pages, blocks: Sequence[Tensor], levels: int) -> tuple[Reading, Tensor]:
    """Losses of B pictures with K questions each; and the loss of reading single patches.

    blocks: leaves (B, N, 3) of one look, or of several looks after one another: the leaves of each look see each other
    in the tower, and stand behind those of the look before in the prompt. levels: mip levels, one more than that of the
    coarsest leaf. `Reading.right` is (B·K,).
    """
    core, dtype = reader.mini.model, reader.mini.dtype
    grid = pages.size[0] // CELL, pages.size[1] // CELL
    looks = []
    for leaves in blocks:
        patches = cut_patches(pages.pictures, leaves, levels, dtype)
        looks.append(run_tower(core.visual, patches, leaves, grid))
    leaves, seen = torch.cat(list(blocks), 1), together(looks)
    hidden = run_language(core, seen, pages.tails, leaves, grid)
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
    near = glyph_loss(reader.heads.read_patches(seen.patches.flatten(0, 1)), target)
    return Reading(answer, right, glyph, thing, glyphs_read(glyph_logits, target)), near
