"""The geometry of Qwen3-VL: where leaves are in the tower's rotary grid, in its learned table, in the language model.

Every formula is written once, for numpy arrays and for torch tensors: stock models, CUDA graphs, training, the peers,
clips, vLLM and the torch-free engine all call this module. Functions are pure and batched. A level-0 leaf gets exactly
the integer positions of an untouched model. A coarser one gets the fractional centre of what it covers. Positions are
float32 throughout: bfloat16 cannot hold them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.arrays import Array, count, float32, like, namespace
from ..core.errors import InputError


def vision_positions(leaves: Array, merge: int = 2) -> Array:
    """Return the centres of the patches of leaves on the level-0 patch grid: (..., merge², 2) float32 row, col.

    leaves: (..., 3) row, col, level, or (..., 4) top, left, height, width in cells, which may be fractions.
    """
    library, places, block = namespace(leaves), float32(leaves), count(merge, leaves)
    scale = library.exp2(places[..., 2:3]) if leaves.shape[-1] == 3 else places[..., 2:]
    inside = library.stack(library.meshgrid(block, block, indexing="ij"), -1).reshape(-1, 2)
    return float32(merge * places[..., None, :2] + (inside + 0.5) * scale[..., None, :] - 0.5)


def position_taps(positions: Array, size: Array, side: int) -> tuple[Array, Array]:
    """Return four bilinear taps into a learned (side × side) position table, corners aligned.

    positions: (N, 2) patch row and col, may be fractional; beyond the edge they take the edge. size: (N, 2) or (2,)
    patch rows and cols of the picture. Returns indices (N, 4) int64 and weights (N, 4) float32.
    """
    library, offsets = namespace(positions), count(2, positions)
    source = float32(positions) * (side - 1) / library.clip(like(size, positions) - 1, 1, None)
    source = float32(library.clip(source, 0, side - 1))
    floor = library.floor(source)
    # (N, 2, 2): axis, tap
    taps = library.clip(_whole(floor)[..., None] + offsets, 0, side - 1)
    weights = float32(library.clip(1 - abs(source[..., None] - floor[..., None] - offsets), 0, None))
    indices = (taps[:, 0, :, None] * side + taps[:, 1, None, :]).reshape(len(taps), 4)
    return indices, (weights[:, 0, :, None] * weights[:, 1, None, :]).reshape(len(taps), 4)


def language_positions(leaves: Array, grid: Array) -> Array:
    """Return M-RoPE offsets of leaves from the start of their picture: the centre of the cells that a leaf covers.

    leaves: as for `vision_positions`. grid: (..., 2) or (2,), rows and cols of level-0 tokens. Returns (3, ...).
    """
    library, first = namespace(leaves), leaves[..., :2]
    extent = (1 << leaves[..., 2:3]) if leaves.shape[-1] == 3 else leaves[..., 2:]
    last = library.minimum(first + extent, like(grid, leaves)) - 1
    centre = float32(first + last) / 2
    return library.stack([library.zeros_like(centre[..., 0]), centre[..., 0], centre[..., 1]])


def prompt_positions(
    is_placeholder: Array, counts: Array, spans: Array, offsets: Array, attention_mask: Array
) -> tuple[Array, Array]:
    """Return the positions of a prompt: text counts on, a picture takes `span`, however few tokens it has.

    is_placeholder, attention_mask: (B, L). counts: (P,) tokens of each picture in this prompt. spans: (P,) the steps by
    which text moves on after each picture (its longer side in level-0 tokens). offsets: (3, sum of counts) from
    `language_positions`, pictures in prompt order.
    Returns position_ids (4, B, L) float32 and the next position (B,) of each row. Row 0 counts the tokens without gaps;
    masks are built from it, and a gap would be taken for the border between two packed prompts.
    """
    if bool((counts <= 0).any()):
        raise InputError("every picture needs at least one token; a picture of none would lose its place in the prompt")
    library, valid = namespace(is_placeholder), attention_mask > 0
    owner, rank = placeholder_owner(is_placeholder & valid, counts)
    counts, spans = like(counts, owner), float32(like(spans, owner))
    inside, picture = owner >= 0, library.clip(owner, 0, None)
    last_of_picture = rank == counts[picture] - 1
    advance = library.where(inside, last_of_picture * spans[picture], float32(valid))
    ends = advance.cumsum(1)
    leaf = (counts.cumsum(0) - counts)[picture] + library.clip(rank, 0, None)
    placed = (ends - advance) + library.where(inside, float32(like(offsets, owner))[:, leaf], 0)
    counting = float32(library.clip(valid.cumsum(1) - 1, 0, None))
    positions = library.where(valid, library.concatenate([counting[None], float32(placed)]), 0)
    return float32(positions), ends[:, -1]


def placeholder_owner(is_placeholder: Array, full_counts: Array) -> tuple[Array, Array]:
    """Return the picture of every placeholder, and its rank inside that picture.

    is_placeholder: (B, L) bool. full_counts: (P,) placeholders of each picture, pictures in prompt order.
    Returns owner and rank, both (B, L) int64; -1 outside placeholders.
    """
    library = namespace(is_placeholder)
    _check_total(int(is_placeholder.sum()), full_counts)
    full_counts = like(full_counts, is_placeholder)
    ends = full_counts.cumsum(0)
    ordinal = is_placeholder.reshape(-1).cumsum(0).reshape(is_placeholder.shape) - 1
    owner = library.searchsorted(ends, library.clip(ordinal, 0, None), side="right")
    owner = library.clip(owner, None, max(len(full_counts) - 1, 0))
    rank = ordinal - (ends - full_counts)[owner] if len(full_counts) else ordinal
    return library.where(is_placeholder, owner, -1), library.where(is_placeholder, rank, -1)


def placeholder_rows(is_placeholder: np.ndarray, full_counts: np.ndarray) -> list[int]:
    """Return the row in which each picture begins; arguments as for `placeholder_owner`."""
    places = np.flatnonzero(is_placeholder)
    _check_total(len(places), full_counts)
    return (places[np.cumsum(full_counts) - full_counts] // is_placeholder.shape[1]).tolist()


def _check_total(total: int, full_counts: Array) -> None:
    if total != (expected := int(full_counts.sum())):
        raise InputError(
            f"the prompt holds {total} picture placeholders but its {len(full_counts)} pictures need {expected}: pass "
            "input_ids and pixel values of the same processor call"
        )


def rotary_speeds(base: float, size: int) -> np.ndarray:
    """Return (size / 2,) float32: radians that each pair of channels of a head of this size turns per step."""
    return (base ** -(np.arange(size // 2, dtype=np.float32) / np.float32(size // 2))).astype(np.float32)


def axial_angles(positions: Array, speeds: Array) -> Array:
    """Return the tower's rotary angles (..., 2·F): row and column turn half the pairs each. positions: (..., 2).
    speeds: (F,), `rotary_speeds` of half a head, or a model's own `inv_freq`."""
    return (positions[..., None] * speeds).reshape(*positions.shape[:-1], -1)


def interleaved_angles(positions: Array, speeds: Array, sections: Sequence[int]) -> Array:
    """Return the language model's rotary angles (..., half a head): time, row and column, (3, ...), alternate among the
    pairs. sections: how many pairs each of them turns."""
    angles = positions[0][..., None] * speeds
    for axis in (1, 2):
        turned = slice(axis, 3 * sections[axis], 3)
        angles[..., turned] = positions[axis][..., None] * speeds[turned]
    return angles


def _whole(values: Array) -> Array:
    """Convert to int64."""
    return values.astype(np.int64) if isinstance(values, np.ndarray) else values.long()
