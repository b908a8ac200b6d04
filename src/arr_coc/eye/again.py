"""What a model made of a picture, used again by its next question.

A picture's overview (`overlay.OVERVIEW_FIRST`) is the same whatever is asked. It is encoded once, and the prompt up to
its last token is read once; the question's own leaves follow as a part of their own. All of it is kept by the pixels of
the picture (`core.kept`), so an answer is the same with a store, with a full one, and without.

`encoded` serves every engine, with numpy or torch: features are tuples of arrays (N, …), one row for each leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Array, namespace
from ..core.checks import shown
from ..core.errors import InputError
from ..core.kept import ByteStore, PictureStore

Features = tuple[Array, ...]
Encode = Callable[[np.ndarray], Features]
# What is used again of leaves: a part whose leaves are all the same, or each leaf by itself.
PARTS, LEAVES = REUSES = ("parts", "leaves")


def check_reuse(reuse: Any) -> str:
    """A name of `REUSES`; `InputError` where it is another."""
    if reuse not in REUSES:
        raise InputError(f"reuse={shown(reuse)} is unknown; use {' or '.join(REUSES)}")
    return reuse


def store_of(memory: Any) -> ByteStore:
    """A store of so many bytes, or the one that is given."""
    if isinstance(memory, ByteStore):
        return memory
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < 0:
        raise InputError(f"memory= is a number of bytes that may be kept, 0 for nothing, got {shown(memory)}")
    return ByteStore(memory)


@dataclass(frozen=True, eq=False)
class LeafPiece:
    """Leaves (N, 3) that are kept together. part: which part of the prompt they are of. features: as they are kept, or
    None where they are not."""

    name: Hashable
    part: int
    leaves: np.ndarray
    features: Features | None


def pieces_of(
    kept: PictureStore | None, place: Hashable, leaves: np.ndarray, segments: Sequence[int], reuse: str = PARTS
) -> list[LeafPiece]:
    """What is kept of leaves (N, 3), in their order.

    Args:
        kept: The store of the picture; None keeps nothing.
        place: What else the features hang on: the model, the canvas.
        leaves: In the order of the prompt.
        segments: How many leaves each part has; parts do not see each other.
        reuse: Of `REUSES`. "parts" gives the features of leaves encoded at once, to the last digit. "leaves" takes a
            leaf of the last part as it was encoded with an earlier question's.
    """
    pieces, start = [], 0
    for number, count in enumerate(segments):
        part, start = leaves[start : start + count], start + count
        single = kept is not None and reuse == LEAVES and 0 < number == len(segments) - 1
        for piece in np.split(part, len(part)) if single else [part]:
            name = ("leaves" if single else "part", place, piece.tobytes())
            pieces.append(LeafPiece(name, number, piece, None if kept is None else kept.get(name)))
    return pieces


def keep_pieces(kept: PictureStore | None, pieces: Sequence[LeafPiece], features: Features) -> None:
    """Keep what was not kept. features: of all leaves of the pieces, in their order."""
    start = 0
    for piece in pieces:
        end = start + len(piece.leaves)
        if kept is not None and piece.features is None:
            # A copy: a slice would hold all of its neighbours in memory.
            kept.put(piece.name, tuple(_copy(one[start:end]) for one in features))
        start = end


def encoded(
    kept: PictureStore | None,
    place: Hashable,
    leaves: np.ndarray,
    segments: Sequence[int],
    encode: Encode,
    reuse: str = PARTS,
) -> Features:
    """The features of leaves; only what is not kept is encoded. encode: the tower, for leaves of one part. The others
    as for `pieces_of`."""
    pieces, found = pieces_of(kept, place, leaves, segments, reuse), []
    for part in range(len(segments)):
        own = [piece for piece in pieces if piece.part == part]
        missing = [piece for piece in own if piece.features is None]
        if missing:
            made = encode(np.concatenate([piece.leaves for piece in missing]))
            keep_pieces(kept, missing, made)
            ends = np.cumsum([len(piece.leaves) for piece in missing])[:-1].tolist()
            rows = iter(zip(*(_split(one, ends) for one in made), strict=True))
        found += [next(rows) if piece.features is None else piece.features for piece in own]
    return found[0] if len(found) == 1 else joined(found)


def joined(parts: Sequence[Features]) -> Features:
    """Features of several pieces, one after the other."""
    library = namespace(parts[0][0])
    return tuple(library.concatenate(several) for several in zip(*parts, strict=True))


def _split(array: Array, ends: list[int]) -> Sequence[Array]:
    return np.split(array, ends) if isinstance(array, np.ndarray) else array.tensor_split(ends)


def _copy(array: Array) -> Array:
    return array.copy() if isinstance(array, np.ndarray) else array.clone()
