"""What the selectors of the first phases share: the patches they see, the words they read, how one becomes a source.

All see the v0.1 texture: thirteen channels, 32 cells along the longer side, two by two a patch, and those that read the
question share one small table of words. The systems are `edge_lod`, `query_aware_lod`, `realizer`, `patch_trunk` and
`participatory`; `phases` teaches them together, and weights/classic holds what was taught.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.modules import Pretrained
from arr_coc.core.values import Relevance
from arr_coc.knowing.registry import Source

from .. import LAB_WEIGHTS
from .texture import ops
from .texture.channels40 import MVP13, BatchTexture, sense

if TYPE_CHECKING:
    from arr_coc.knowing.scene import Scene

SHIPPED = LAB_WEIGHTS / "classic"
# Pictures are sensed at this longer side, and cut into this number of patches along it, each of SUB × SUB cells.
SENSE_SIDE, PATCHES, SUB = 384, 16, 2
PATCH_WIDTH = len(MVP13) * SUB * SUB
NOTHING_ASKED = "what is there"
Grid = tuple[int, int]
Pixels = np.ndarray | Tensor
Part = TypeVar("Part", bound=Pretrained)


# ---- patches ---------------------------------------------------------------------------------------------------------


def patch_grid(size: tuple[int, int]) -> Grid:
    """Return (rows, columns) of patches of a picture of (height, width): sixteen along the longer side."""
    scale = PATCHES / max(size)
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def as_patches(cells: Tensor) -> Tensor:
    """Join cells (B, C, 2 · rows, 2 · columns) to patches (B, rows · columns, 4 · C), in reading order."""
    tiles = cells.unflatten(3, (-1, SUB)).unflatten(2, (-1, SUB))  # (B, C, rows, 2, columns, 2)
    return tiles.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


def sensed_size(height: int, width: int) -> tuple[int, int]:
    """Return the size at which a picture is sensed for its patches: every cell of them has a pixel."""
    scale, (rows, cols) = SENSE_SIDE / max(height, width), patch_grid((height, width))
    return max(SUB * rows, round(height * scale)), max(SUB * cols, round(width * scale))


def size_of(pixels: Pixels) -> tuple[int, int]:
    """Return (height, width) of one picture (H, W, 3) or of a batch (B, 3, H, W)."""
    return (pixels.shape[2], pixels.shape[3]) if isinstance(pixels, Tensor) else (pixels.shape[0], pixels.shape[1])


def see_patches(pixels: Pixels) -> tuple[Tensor, Grid]:
    """Return patches (B, P, 52) of one picture or a batch, and their grid."""
    shape = size_of(pixels)
    rows, cols = patch_grid(shape)
    texture = sense(pixels, MVP13, size=sensed_size(*shape))
    return as_patches(in_cells(texture, (SUB * rows, SUB * cols))), (rows, cols)


def in_cells(texture: BatchTexture, grid: Grid) -> Tensor:
    """Average a texture over a grid of cells, (B, C, rows, columns); y and x are the cells' true centres."""
    cells = ops.shrink(texture.data, grid)
    for name, centres in zip(("y", "x"), ops.position(grid), strict=True):
        cells[:, texture.layout.index(name)] = centres.to(cells)
    return cells


# ---- words -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordsConfig:
    """buckets: rows of the table; words share one where their hashes do. width: numbers for each."""

    buckets: int = 512
    width: int = 32


MOST_WORDS = 24


def word_rows(question: str, buckets: int) -> list[int]:
    """Return 1 … buckets − 1 for each word, in order, at most 24; 0 is padding."""
    words = re.findall(r"[^\W_]+", question.lower())[:MOST_WORDS]
    return [1 + zlib.crc32(word.encode()) % (buckets - 1) for word in words]


class QuestionWords(Pretrained):
    """A table of words: any word of any question has a row, by its hash."""

    config_class = WordsConfig
    config: WordsConfig

    def __init__(self, config: WordsConfig | None = None) -> None:
        super().__init__(config or WordsConfig())
        self.table = nn.Embedding(self.config.buckets, self.config.width, padding_idx=0)

    def rows(self, questions: Sequence[str]) -> Tensor:
        """Convert questions to rows of the table, (B, 24) int64; 0 for no word."""
        result = torch.zeros(len(questions), MOST_WORDS, dtype=torch.int64)
        for number, question in enumerate(questions):
            found = word_rows(question, self.config.buckets)
            result[number, : len(found)] = torch.tensor(found, dtype=torch.int64)
        return result

    def mean(self, rows: Tensor) -> Tensor:
        """Return one vector for each question, (B, width), of rows (B, L)."""
        return mean_word(*self(rows))

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return vectors (B, L, width) and padding (B, L) bool of rows (B, L)."""
        return self.table(rows), rows == 0


def mean_word(words: Tensor, padding: Tensor) -> Tensor:
    """Average words (B, L, Q) without padding (B, L): (B, Q); zeros without a word."""
    there = (~padding)[..., None]
    return (words * there).sum(1) / there.sum(1).clamp_min(1)


@lru_cache(maxsize=16)
def load_part(kind: type[Part], name: str, device: str = "cpu", folder: Path = SHIPPED) -> Part:
    """Load a trained part, once in a process for each device, in full precision."""
    return kind.from_pretrained(folder / name).float().eval().to(device)


def load_words(device: str = "cpu") -> QuestionWords:
    """Load the table with which the selectors were trained."""
    return load_part(QuestionWords, "words", device)


# ---- a system --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PatchViews:
    """A batch as the selectors see it: patches (B, P, 52), words (B, L, Q) and their padding (B, L), the grid."""

    patches: Tensor
    words: Tensor
    padding: Tensor
    grid: Grid

    @classmethod
    def of(cls, pixels: Pixels, questions: Sequence[str]) -> PatchViews:
        """Prepare one picture or a batch, with its questions, by the shipped table of words."""
        device = str(pixels.device) if isinstance(pixels, Tensor) else "cpu"
        (patches, grid), table = see_patches(pixels), load_words(device)
        return cls(patches, *table(table.rows([text or NOTHING_ASKED for text in questions]).to(device)), grid)

    def read(self, module: nn.Module) -> Tensor:
        """Return a network's output for every patch: (B, P) or (B, P, levels)."""
        return module(self.patches, self.words, self.padding)


@dataclass(frozen=True)
class Selector:
    """One system of the first phases: how it is called, taught and read.

    name, summary: of the source of relevance. note: attached to its relevance. part: its folder of weights.
    make: an untrained network, by the width of a word. reading: (network, views) → a map (B, rows, columns) in [0, 1].
    loss: (network, views, truth (B, rows, columns) in {0, 1}) → of a batch. participatory: what a map (rows, columns)
    says of that way of knowing.
    """

    name: str
    summary: str
    note: str
    part: str
    kind: type[Pretrained]
    make: Callable[[int], Pretrained]
    reading: Callable[..., Tensor]
    loss: Callable[..., Tensor]
    participatory: Callable[[np.ndarray], np.ndarray] | None = None

    @torch.no_grad()
    def maps(self, views: PatchViews) -> Tensor:
        """Return the map of the trained network, (B, rows, columns) in [0, 1]."""
        return self.reading(load_part(self.kind, self.part, str(views.patches.device)), views)

    def relevance(self, scene: Scene, query: str) -> Relevance:
        """Return the source of this name."""
        found = self.maps(PatchViews.of(scene.pixels, [query]))[0].numpy()
        own = self.participatory(found) if self.participatory else None
        return Relevance(found, query=query, notes=(self.note,), participatory=own)

    def missing(self) -> str | None:
        """Return one line that says what is missing, or None."""
        if all((SHIPPED / name / "config.json").is_file() for name in ("words", self.part)):
            return None
        return f"no trained selectors in {SHIPPED}; train them: arr-coc train classic"

    @property
    def source(self) -> Source:
        return Source(self.name, self.relevance, summary=self.summary, ready=self.missing)


def logits_map(module: nn.Module, views: PatchViews) -> Tensor:
    """Convert logits of the patches to a map."""
    return views.read(module).float().sigmoid().unflatten(1, views.grid)


def logits_loss(module: nn.Module, views: PatchViews, truth: Tensor) -> Tensor:
    """Return the loss of patch logits: where most mass should lie, and which patches matter."""
    from ..train.outcomes import share_loss, shares_of

    logits = views.read(module).unflatten(1, views.grid)
    return share_loss(F.logsigmoid(logits), shares_of(truth)) + F.binary_cross_entropy_with_logits(
        logits, truth, pos_weight=truth.new_tensor(3.0)
    )
