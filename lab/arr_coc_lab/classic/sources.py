"""The selectors of the first phases, as sources of relevance: "edge_lod", "query_aware_lod", "realizer", "patch_trunk"
and "participatory".

- EdgeLOD (phase 1): the more edges a patch has, the finer it is seen. No question, no training.
- QueryAwareLOD (phase 2): for each patch one of five levels of detail, by the question (`query_aware_lod`).
- RelevanceRealizer: one network and no imposed categories, patches and words → relevance.
- PatchTrunk: what every patch has learned from the words and from the others, against the question as a whole.
- participatory: what the question couples to, by the cosine of learned semantic channels with each of its words.

All see the v0.1 texture: thirteen channels, 32 cells along the longer side, two by two a patch. They were taught on the
drawn worlds (`train.train_classic`) with one small table of words; weights/classic holds them. One picture is seen by
OpenCV; a batch on any device by torch (`picture_maps`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from arr_coc.core.errors import InputError
from arr_coc.core.folders import CLASSIC_WEIGHTS
from arr_coc.core.pretrained import Pretrained
from arr_coc.core.values import Relevance
from arr_coc.relevance.language.tables import MOST_WORDS, word_rows
from arr_coc.sensing import backend_torch as ops
from arr_coc.sensing.batch import sense
from arr_coc.sensing.one_picture import sense_one
from arr_coc.sensing.pyramid import to_cells, unit
from arr_coc.sensing.texture import MVP13, SEMANTIC_DIMENSIONS, SEMANTIC_NAMES, Layout, Texture

from .participatory import participatory
from .patch_trunk import PatchTrunk, TrunkConfig
from .query_aware_lod import CLASSIC_TOKENS, LEAST, MOST, QueryAwareLOD, expected_tokens

if TYPE_CHECKING:
    from arr_coc.relevance.scene import Scene

SHIPPED = CLASSIC_WEIGHTS
# Pictures are sensed at this longer side, and seen as so many patches along it, each of SUB × SUB cells.
SENSE_SIDE, PATCHES, SUB = 384, 16, 2
PATCH_WIDTH = len(MVP13) * SUB * SUB


# ---- phase 1 --------------------------------------------------------------------------------------------------------

THRESHOLDS = (0.15, 0.3, 0.5, 0.7)
# An edge is a pixel at least this strong, of the picture's strongest.
EDGE = 0.1


def edge_density(texture: Texture, grid: tuple[int, int] | None = None) -> Tensor:
    """Share of edge pixels in [0, 1] of each cell of `grid`, or around each pixel: (rows, columns) or (B, …)."""
    name = "edges" if "edges" in texture else "sobel_magnitude"
    plane = texture[name] if texture.batched else texture[name][None]
    marked = (plane > EDGE).to(plane)
    size = (marked.shape[-2], marked.shape[-1])
    density = ops.box(marked, max(1, max(size) // 64)) if grid is None else ops.shrink(marked, grid)
    return density if texture.batched else density[0]


@dataclass(frozen=True)
class EdgeLOD:
    """Patch → classic level, by edge density: below .15 → 64 tokens, .15 → 100, .3 → 160, .5 → 256, .7 → 400."""

    thresholds: tuple[float, ...] = THRESHOLDS

    def __post_init__(self) -> None:
        if len(self.thresholds) != len(CLASSIC_TOKENS) - 1 or list(self.thresholds) != sorted(self.thresholds):
            raise InputError(f"EdgeLOD needs {len(CLASSIC_TOKENS) - 1} rising thresholds, got {self.thresholds}")

    def levels(self, density: Tensor) -> Tensor:
        """int64, 0 (64 tokens) to 4 (400 tokens), of any shape."""
        return torch.bucketize(density, density.new_tensor(self.thresholds), right=True)

    def __call__(self, texture: Texture, grid: tuple[int, int]) -> Tensor:
        """(rows, columns) or (B, rows, columns) int64 tokens per patch."""
        levels = self.levels(edge_density(texture, grid))
        return torch.tensor(CLASSIC_TOKENS, device=levels.device)[levels]


# ---- what the learned ones see --------------------------------------------------------------------------------------


def patch_grid(size: tuple[int, int]) -> tuple[int, int]:
    """(rows, columns) of patches of a picture of (height, width): sixteen along the longer side."""
    scale = PATCHES / max(size)
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def as_patches(cells: Tensor) -> Tensor:
    """Cells (B, C, 2 · rows, 2 · columns) → patches (B, rows · columns, 4 · C), in reading order."""
    tiles = cells.unflatten(3, (-1, SUB)).unflatten(2, (-1, SUB))  # (B, C, rows, 2, columns, 2)
    return tiles.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


def sensed_size(height: int, width: int) -> tuple[int, int]:
    """The size at which a picture is sensed for its patches: every cell of them has a pixel."""
    scale, (rows, cols) = SENSE_SIDE / max(height, width), patch_grid((height, width))
    return max(SUB * rows, round(height * scale)), max(SUB * cols, round(width * scale))


def see_patches(pixels: np.ndarray | Tensor) -> tuple[Tensor, tuple[int, int]]:
    """(H, W, 3) uint8, sensed by OpenCV, or a batch (B, 3, H, W) on any device, by torch → patches (B, P, 52), grid."""
    batched = isinstance(pixels, Tensor)
    shape = (pixels.shape[2], pixels.shape[3]) if batched else (pixels.shape[0], pixels.shape[1])
    size, (rows, cols) = sensed_size(*shape), patch_grid(shape)
    if batched:
        texture = sense(pixels, MVP13, size=size, backend="torch", clusters=None)
    else:
        texture = sense_one(pixels, MVP13, size=size).tensors()
    return as_patches(to_cells(texture, (SUB * rows, SUB * cols)).batch()), (rows, cols)


@dataclass(frozen=True)
class WordsConfig:
    """buckets: rows of the table; words share one where their hashes do. width: numbers for each."""

    buckets: int = 512
    width: int = 32


class QuestionWords(Pretrained):
    """A table of words: any word of any question has a row, by its hash."""

    config_class = WordsConfig
    config: WordsConfig

    def __init__(self, config: WordsConfig | None = None) -> None:
        super().__init__(config or WordsConfig())
        self.table = nn.Embedding(self.config.buckets, self.config.width, padding_idx=0)

    def rows(self, questions: Sequence[str]) -> Tensor:
        """Questions → (B, 24) int64 rows of the table; 0 where there is no word."""
        result = torch.zeros(len(questions), MOST_WORDS, dtype=torch.int64)
        for number, question in enumerate(questions):
            found = word_rows(question, self.config.buckets)
            result[number, : len(found)] = torch.tensor(found, dtype=torch.int64)
        return result

    def mean(self, rows: Tensor) -> Tensor:
        """(B, L) → (B, width): one vector for each question."""
        return mean_word(*self(rows))

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(B, L) → vectors (B, L, width) and padding (B, L) bool."""
        return self.table(rows), rows == 0


def mean_word(words: Tensor, padding: Tensor) -> Tensor:
    """(B, L, Q) words, (B, L) padding → (B, Q); zeros where there is no word."""
    there = (~padding)[..., None]
    return (words * there).sum(1) / there.sum(1).clamp_min(1)


class RelevanceRealizer(Pretrained):
    """How much each patch matters to the question, learned as a whole instead of from three given scores."""

    config_class = TrunkConfig
    config: TrunkConfig

    def __init__(self, config: TrunkConfig) -> None:
        super().__init__(config)
        self.trunk = PatchTrunk(config)
        self.head = nn.Linear(config.width, 1)
        # Most patches do not matter: start there, so that the first steps do not unlearn a map of halves.
        nn.init.constant_(self.head.bias, -3.0)

    def forward(
        self, patches: Tensor, words: Tensor, padding: Tensor | None = None, patch_padding: Tensor | None = None
    ) -> Tensor:
        """(B, P, F) patches, (B, L, Q) words → (B, P) logits of relevance; see `PatchTrunk.forward` for the padding.

        A padded patch gets the lowest finite number, so that a sigmoid or a softmax makes it zero.
        """
        logits = self.head(self.trunk(patches, words, padding, patch_padding))[..., 0]
        return logits if patch_padding is None else logits.masked_fill(patch_padding, torch.finfo(logits.dtype).min)

    @torch.no_grad()
    def relevance(self, patches: Tensor, words: Tensor, grid: tuple[int, int], padding: Tensor | None = None) -> Tensor:
        """The patches of a grid in reading order → relevance (B, rows, columns) in [0, 1]."""
        return self(patches, words, padding).float().sigmoid().unflatten(1, grid)


class TrunkMatch(Pretrained):
    """The trunk of patches by itself: what it made of each patch, against one vector of the whole question."""

    config_class = TrunkConfig
    config: TrunkConfig

    def __init__(self, config: TrunkConfig) -> None:
        super().__init__(config)
        self.trunk = PatchTrunk(config)
        self.ask = nn.Linear(config.query_width, config.width)

    def forward(self, patches: Tensor, words: Tensor, padding: Tensor) -> Tensor:
        """(B, P, F) patches, (B, L, Q) words and their padding → (B, P) logits of relevance."""
        question = self.ask(mean_word(words, padding))[:, None]
        return (self.trunk(patches, words, padding) * question).sum(-1) / self.config.width**0.5


@dataclass(frozen=True)
class CouplingConfig:
    """patch_width, query_width: numbers in a patch's features and in a word's. hidden: between them and the sixteen."""

    patch_width: int = PATCH_WIDTH
    query_width: int = 32
    hidden: int = 64


class SemanticCoupling(Pretrained):
    """Patches and words in one space of sixteen dimensions: the semantic channels that `participatory` compares."""

    config_class = CouplingConfig
    config: CouplingConfig

    def __init__(self, config: CouplingConfig | None = None) -> None:
        super().__init__(config or CouplingConfig())
        width, hidden = self.config.patch_width, self.config.hidden
        self.see = nn.Sequential(
            *(nn.Conv2d(width, hidden, 1), nn.GELU(), nn.Conv2d(hidden, hidden, 3, padding=1), nn.GELU()),
            nn.Conv2d(hidden, SEMANTIC_DIMENSIONS, 1),
        )
        self.read = nn.Linear(self.config.query_width, SEMANTIC_DIMENSIONS)

    def semantic(self, patches: Tensor, grid: tuple[int, int]) -> Texture:
        """(B, P, F) → a texture of the sixteen semantic channels, one value for each patch."""
        planes = patches.transpose(1, 2).unflatten(2, grid)
        return Texture(unit(self.see(planes), 1), Layout.of("coupling", SEMANTIC_NAMES), *grid)

    def forward(self, patches: Tensor, words: Tensor, padding: Tensor, grid: tuple[int, int]) -> Tensor:
        """→ (B, rows, columns) in [0, 1]."""
        tokens = unit(self.read(words), -1)
        return participatory(self.semantic(patches, grid), tokens, ~padding)


# ---- sources --------------------------------------------------------------------------------------------------------

# What a network of each part is.
PARTS: dict[str, type[Pretrained]] = {
    "words": QuestionWords,
    "realizer": RelevanceRealizer,
    "query_aware_lod": QueryAwareLOD,
    "coupling": SemanticCoupling,
    "patch_trunk": TrunkMatch,
}
# Maps in [0, 1] that are smooth by nature are allocated by this power of theirs, as `look` does with its own.
SHARPNESS = 4
Reading = Callable[[Any, Tensor, Tensor, Tensor, tuple[int, int]], Tensor]


def _tokens_map(module: Any, patches: Tensor, words: Tensor, padding: Tensor, grid: tuple[int, int]) -> Tensor:
    """The tokens expected of each patch, from 64 (0) to 400 (1)."""
    tokens = expected_tokens(module(patches, words, padding))
    return ((tokens - LEAST) / (MOST - LEAST)).clamp(0, 1).unflatten(1, grid)


def _logits_map(module: Any, patches: Tensor, words: Tensor, padding: Tensor, grid: tuple[int, int]) -> Tensor:
    return module(patches, words, padding).float().sigmoid().unflatten(1, grid)


def _coupled_map(module: Any, patches: Tensor, words: Tensor, padding: Tensor, grid: tuple[int, int]) -> Tensor:
    return module(patches, words, padding, grid) ** SHARPNESS


# Sources that were taught: the part of each, and how its map (B, rows, columns) in [0, 1] is read off it.
TAUGHT: Mapping[str, tuple[str, Reading]] = {
    "query_aware_lod": ("query_aware_lod", _tokens_map),
    "realizer": ("realizer", _logits_map),
    "patch_trunk": ("patch_trunk", _logits_map),
    "participatory": ("coupling", _coupled_map),
}
NOTES = {
    "query_aware_lod": "phase 2: a level of detail for each patch, by the question",
    "realizer": "one network, patches and words",
    "patch_trunk": "what each patch has learned from the words, against the question",
    "participatory": "what the question couples to, by learned semantic channels",
}


@lru_cache(maxsize=16)
def load_part(name: str, folder: Path = SHIPPED, device: str = "cpu") -> Any:
    """One of `PARTS`, read once in a process for each device, in full precision."""
    return PARTS[name].from_pretrained(folder / name).float().eval().to(device)


def classic_missing(offers: frozenset[str] = frozenset()) -> str | None:
    """One line that says what is missing, or None."""
    there = all((SHIPPED / name / "config.json").is_file() for name in PARTS)
    return (
        None if there else f"no trained selectors in {SHIPPED}; train them: python -m arr_coc_lab.train.train_classic"
    )


@torch.no_grad()
def picture_maps(names: Sequence[str], pictures: Tensor, questions: Sequence[str]) -> dict[str, Tensor]:
    """The sources of this module on a batch (B, 3, H, W), on its device, sensed once → (B, rows, columns) each."""
    device, size = str(pictures.device), (pictures.shape[2], pictures.shape[3])
    found: dict[str, Tensor] = {}
    if "edge_lod" in names:
        side = min(SENSE_SIDE * 2, max(size))
        texture = sense(pictures, MVP13, size=side, backend="torch", clusters=None)
        found["edge_lod"] = edge_map(texture)
    taught = [name for name in names if name in TAUGHT]
    if taught:
        patches, grid = see_patches(pictures)
        table = load_part("words", device=device)
        words, padding = table(table.rows([text or NOTHING_ASKED for text in questions]).to(device))
        for name in taught:
            part, reading = TAUGHT[name]
            found[name] = reading(load_part(part, device=device), patches, words, padding, grid)
    return found


NOTHING_ASKED = "what is there"


@torch.no_grad()
def _taught(name: str, scene: Scene, query: str) -> Relevance:
    patches, grid = see_patches(scene.pixels)
    words = load_part("words")
    part, reading = TAUGHT[name]
    found = reading(load_part(part), patches, *words(words.rows([query or NOTHING_ASKED])), grid)[0].numpy()
    coupled = found ** (1 / SHARPNESS) if name == "participatory" else None
    return Relevance(found, query=query, participatory=coupled, notes=(NOTES[name],))


def edge_map(texture: Texture) -> Tensor:
    """The classic level of each cell of two by two a patch, and within a level the density itself, in [0, 1]."""
    rows, cols = patch_grid((texture.height, texture.width))
    density = edge_density(texture, (min(SUB * rows, texture.height), min(SUB * cols, texture.width)))
    return ((EdgeLOD().levels(density) + density) / len(CLASSIC_TOKENS)).float()


def edge_lod_relevance(scene: Scene, query: str) -> Relevance:
    """The source "edge_lod"."""
    texture = sense_one(scene.pixels, MVP13, size=min(SENSE_SIDE * 2, max(scene.pixels.shape[:2]))).tensors()
    note = "phase 1: edge density, the question was not read"
    return Relevance(edge_map(texture).numpy(), query=query, notes=(note,))


def query_aware_lod_relevance(scene: Scene, query: str) -> Relevance:
    """The source "query_aware_lod"."""
    return _taught("query_aware_lod", scene, query)


def realizer_relevance(scene: Scene, query: str) -> Relevance:
    """The source "realizer"."""
    return _taught("realizer", scene, query)


def patch_trunk_relevance(scene: Scene, query: str) -> Relevance:
    """The source "patch_trunk"."""
    return _taught("patch_trunk", scene, query)


def participatory_relevance(scene: Scene, query: str) -> Relevance:
    """The source "participatory"."""
    return _taught("participatory", scene, query)
