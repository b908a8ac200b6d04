"""What a model made of a picture, used again by its next question.

A picture's overview (`overlay.OVERVIEW_FIRST`) is the same whatever is asked. It is encoded once, and the prompt up to
its last token is read once; the question's own leaves follow as a part of their own. All of it is kept by the pixels of
the picture (`core.kept`), so an answer is the same with a store, with a full one, and without.

Screens that hardly change (`Eye.see`) share more: a leaf whose own pixels are those of an earlier frame keeps its
features (`ScreenStore`), and the prompt is read from the first leaf on that is another.

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
from ..core.kept import ByteStore, PictureStore, pixels_key

Features = tuple[Array, ...]
Encode = Callable[[np.ndarray], Features]
# What is used again of leaves: a part whose leaves are all the same, or each leaf by itself.
PARTS, LEAVES = REUSES = ("parts", "leaves")


def check_reuse(reuse: object) -> str:
    """A name of `REUSES`; `InputError` where it is another."""
    if reuse not in REUSES:
        raise InputError(f"reuse={shown(reuse)} is unknown; use {' or '.join(REUSES)}")
    return str(reuse)


def store_of(memory: object) -> ByteStore:
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


@dataclass(frozen=True, eq=False)
class ScreenStore:
    """What frames of one screen share. kept: the store of the screen. pixels: (H, W, 3) of this frame as the model sees
    it, a whole number of cells."""

    kept: PictureStore
    pixels: np.ndarray
    cell: int

    def name(self, place: Hashable, leaf: np.ndarray) -> Hashable:
        """Of a leaf, by its place and its own pixels, every one of them."""
        row, col, level = leaf.tolist()
        side = self.cell << level
        own = self.pixels[row * self.cell : row * self.cell + side, col * self.cell : col * self.cell + side]
        return ("cell", place, row, col, level, pixels_key(own))


def pieces_of(
    kept: PictureStore | ScreenStore | None,
    place: Hashable,
    leaves: np.ndarray,
    segments: Sequence[int],
    reuse: str = PARTS,
) -> list[LeafPiece]:
    """What is kept of leaves (N, 3), in their order.

    Args:
        kept: The store of the picture, or of the screen that it is a frame of; None keeps nothing.
        place: What else the features hang on: the model, the canvas.
        leaves: In the order of the prompt.
        segments: How many leaves each part has; parts do not see each other.
        reuse: Of `REUSES`. "parts" gives the features of leaves encoded at once, to the last digit. "leaves" takes a
            leaf of the last part as it was encoded with an earlier question's.
    """
    pieces, start = [], 0
    screen, kept = (kept, kept.kept) if isinstance(kept, ScreenStore) else (None, kept)
    for number, count in enumerate(segments):
        part, start = leaves[start : start + count], start + count
        single = kept is not None and reuse == LEAVES and 0 < number == len(segments) - 1
        for piece in np.split(part, len(part)) if single or screen is not None else [part]:
            name = ("leaf" if single else "part", place, piece.tobytes())
            if screen is not None:
                name = screen.name(place, piece[0])
            pieces.append(LeafPiece(name, number, piece, None if kept is None else kept.get(name)))
    return pieces


def keep_pieces(
    kept: PictureStore | ScreenStore | None, pieces: Sequence[LeafPiece], features: Features
) -> list[Features]:
    """Keep what was not kept. features: of all leaves of the pieces, in their order. Returns what is kept of each."""
    found, start = [], 0
    store = kept.kept if isinstance(kept, ScreenStore) else kept
    for piece in pieces:
        end = start + len(piece.leaves)
        if piece.features is not None:
            found.append(piece.features)
        else:
            # A copy: a slice would hold all of its neighbours in memory.
            found.append(tuple(_copy(one[start:end]) for one in features))
            if store is not None:
                store.put(piece.name, found[-1])
        start = end
    return found


def longest_read(kept: PictureStore, names: Sequence[Hashable], pieces: Sequence[Features]) -> tuple[int, Any]:
    """How many pieces of a prompt were read, the very same features one after the other, and what was made of them;
    (0, None) where none were. names: where prompts that begin so may be kept, as (pieces, what was made of them)."""
    best: tuple[int, object] = (0, None)
    for name in names:
        old, made = kept.get(name) or ((), None)
        same = [one is other for one, other in zip(old, pieces, strict=False)]
        length = len(same) if all(same) else same.index(False)
        best = (length, made) if length > best[0] else best
    return best


def encoded(
    kept: PictureStore | ScreenStore | None,
    place: Hashable,
    leaves: np.ndarray,
    segments: Sequence[int],
    encode: Encode,
    reuse: str = PARTS,
) -> list[Features]:
    """The features of leaves, piece by piece; only what is not kept is encoded. encode: the tower, for leaves of one
    part. The others as for `pieces_of`."""
    pieces, found = pieces_of(kept, place, leaves, segments, reuse), []
    for part in range(len(segments)):
        own = [piece for piece in pieces if piece.part == part]
        missing = [piece for piece in own if piece.features is None]
        made = (
            keep_pieces(kept, missing, encode(np.concatenate([piece.leaves for piece in missing]))) if missing else []
        )
        rows = iter(made)
        found += [next(rows) if piece.features is None else piece.features for piece in own]
    return found


def joined(parts: Sequence[Features]) -> Features:
    """Features of several pieces, one after the other."""
    library = namespace(parts[0][0])
    return tuple(library.concatenate(several) for several in zip(*parts, strict=True))


def _copy(array: Array) -> Array:
    return array.copy() if isinstance(array, np.ndarray) else array.clone()
