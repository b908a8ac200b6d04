"""The glyphs of many typefaces as sums over areas: ink of any size is four corners of a table, exactly filtered.

`scripts/build_print_atlas.py` makes the file. Without one, the drawings of Needle World serve.
"""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.alphabet import IDS, NUMBER_OF_IDS

from ..needle import atlas as needle

LEVELS = 15  # of ink in a texel
# Sums are kept in 16 bits; the offset vanishes in every difference.
OFFSET = 32_768
# What stands for a character that a face lacks: itself something that every face has.
INSTEAD = {"€": "$", "@": "a", "#": "$", "!": ".", "?": ".", "+": "-", "=": "-", "_": "-", ";": ":", '"': "'"}
SPARE = "/"


@dataclass(frozen=True)
class PrintAtlas:
    """F faces of 97 identifiers.

    sums: (texels,) int16: for each glyph (height + 1) × (width + 1) sums of all ink above and to the left.
    first: (F, 97) int64, where a glyph's sums begin. boxes: (F, 97, 4) float32 left, top, width, height in ems; top is
    up from the baseline. advance: (F, 97) float32 in ems. instead: (F, 97) int64, the identifier itself or what a face
    without it writes. ascent, descent, capital: (F,) float32 in ems, of the letters. em: texels of an em.
    names, families: of every face. held_out, common: (F,) bool, on the processor.
    """

    sums: Tensor
    first: Tensor
    boxes: Tensor
    advance: Tensor
    instead: Tensor
    ascent: Tensor
    descent: Tensor
    capital: Tensor
    em: int
    names: tuple[str, ...]
    families: tuple[str, ...]
    held_out: np.ndarray
    common: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    def faces(self, split: str, common: bool = False) -> Tensor:
        """Return (n,) numbers of the faces of a split, on the atlas's device: each family as often as any other.

        common: only those that look like what offices and books print with, where there are any.
        """
        own = ~self.held_out if split == "train" else self.held_out
        chosen = np.flatnonzero(own & self.common) if common and (own & self.common).any() else np.flatnonzero(own)
        groups: dict[str, list[int]] = {}
        for number in chosen.tolist():
            groups.setdefault(self.families[number], []).append(number)
        # A family of few faces repeats them, so that a uniform draw is fair to families.
        most = 12
        return torch.tensor([own[i % len(own)] for own in groups.values() for i in range(most)]).to(self.first.device)


def load_atlas(path: str | Path | None, device: torch.device | str) -> PrintAtlas:
    """Return the atlas of a file, or for None that of Needle World's own faces."""
    if path is None:
        return needle_atlas(device)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["texels"] = np.frombuffer(lzma.decompress(arrays["texels"].tobytes()), np.uint8)
    arrays["advances"] = arrays["advances"].astype(np.float32) / 64
    return atlas_of(arrays, device)


def needle_atlas(device: torch.device | str) -> PrintAtlas:
    """Load Needle World's typefaces at their largest size, 40 pixels."""
    glyphs = needle.glyphs("cpu")
    size = len(glyphs.sizes) - 1
    coverage, names = glyphs.coverage.numpy(), needle.typefaces()
    boxes = np.zeros((len(names), NUMBER_OF_IDS, 4), np.int16)
    pieces = []
    for face in range(len(names)):
        high, ascent = int(glyphs.height[face, size]), int(glyphs.ascent[face, size])
        for index in range(1, NUMBER_OF_IDS):
            first, wide = int(glyphs.first[face, size, index]), int(glyphs.advance[face, size, index])
            mask = coverage[first : first + wide * high].reshape(wide, high).T // 17
            rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
            if not len(rows):
                continue
            cut = mask[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
            boxes[face, index] = cols[0], ascent - rows[0], cut.shape[1], cut.shape[0]
            pieces.append(cut.ravel())
    held = np.array([name in needle.typefaces("test") for name in names])
    arrays = {"texels": np.concatenate(pieces), "boxes": boxes, "em": glyphs.sizes[size].numpy(), "held_out": held}
    arrays |= {"advances": glyphs.advance[:, size].numpy().astype(np.float32), "common": np.zeros(len(names), bool)}
    arrays |= {"names": np.array(names), "families": np.array([name.lower() for name in names])}
    return atlas_of(arrays, device)


def atlas_of(glyphs: dict[str, np.ndarray], device: torch.device | str) -> PrintAtlas:
    """The sums of glyphs, on a device. texels: all glyphs' levels of ink (0 … 15), row by row, in the order of boxes
    (F, 97, 4): left, top, width, height in texels. advances: (F, 97) float32 in texels, 0 for what a face lacks."""
    boxes, advances, em = glyphs["boxes"], glyphs["advances"], int(glyphs["em"])
    names, families = (tuple(map(str, glyphs[name])) for name in ("names", "families"))
    wide, high = boxes[..., 2].astype(np.int64), boxes[..., 3].astype(np.int64)
    first, sums = area_sums(glyphs["texels"], wide.ravel(), high.ravel())
    instead = np.tile(np.arange(NUMBER_OF_IDS), (len(names), 1))
    for character, other in (dict.fromkeys(IDS, SPARE) | INSTEAD).items():
        lacking = advances[:, IDS[character]] == 0
        instead[lacking, IDS[character]] = IDS[other]
    # The letters' own extent: from the highest of letters, figures and brackets to the lowest.
    tall, low = [IDS[c] for c in "bdfhklAEHMW0368("], [IDS[c] for c in "gjpqy(,;"]
    ascent = boxes[:, tall, 1].max(1) / em
    descent = (boxes[:, low, 3] - boxes[:, low, 1]).max(1).clip(0) / em
    tensor, real = partial(torch.as_tensor, device=device), torch.float32
    return PrintAtlas(
        sums=tensor(sums, dtype=torch.int16),
        first=tensor(first.reshape(wide.shape), dtype=torch.int64),
        boxes=tensor(boxes.astype(np.float32) / em, dtype=real),
        advance=tensor(advances / em, dtype=real),
        instead=tensor(instead, dtype=torch.int64),
        ascent=tensor(ascent, dtype=real),
        descent=tensor(descent, dtype=real),
        capital=tensor(boxes[:, IDS["H"], 1] / em, dtype=real),
        em=em,
        names=names,
        families=families,
        held_out=glyphs["held_out"].astype(bool),
        common=glyphs["common"].astype(bool),
    )


def area_sums(texels: np.ndarray, wide: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum texels of N glyphs, row by row, of (N,) widths and heights: (N,) int64 begin of each glyph's sums, and the
    sums, int16. Glyphs of one width and height are summed at once."""
    area, space = wide * high, (wide + 1) * (high + 1)
    start, first = np.cumsum(area) - area, np.cumsum(space) - space
    sums = np.full(int(space.sum()), -OFFSET, np.int16)
    shape = wide * 4096 + high
    order = np.argsort(shape, kind="stable")
    for some in np.split(order, np.flatnonzero(np.diff(shape[order])) + 1):
        w, h = int(wide[some[0]]), int(high[some[0]])
        if not w * h:
            continue
        ink = texels[start[some][:, None] + np.arange(w * h)].reshape(-1, h, w)
        table = np.zeros((len(some), h + 1, w + 1), np.int32)
        np.cumsum(ink, 1, out=table[:, 1:, 1:])
        np.cumsum(table[:, 1:, 1:], 2, out=table[:, 1:, 1:])
        place = first[some][:, None] + np.arange((w + 1) * (h + 1))
        sums[place] = (table - OFFSET).astype(np.int16).reshape(len(some), -1)
    return first, sums
