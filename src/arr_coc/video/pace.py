"""How much of a budget one frame may take while the rest of the clip is still unknown.

Each frame pays for what is new in it: the whole cap after a cut, the floor where nothing changed. A total is never
exceeded: what the coming frames need at the least is kept back. (Where all frames are known beforehand, `forest` does
better: it spends the total exactly where it is worth most.)
"""

from __future__ import annotations

from dataclasses import dataclass

from ..attending.tree import Tree
from ..errors import InputError


@dataclass(frozen=True)
class Pace:
    """cap: tokens that one frame may cost. total: tokens of the whole clip, None for no end. frames: how many frames
    will come, where that is known; without it a total is used up by the frames that come first, floors excepted."""

    cap: int
    total: int | None = None
    frames: int | None = None

    def __post_init__(self) -> None:
        if self.cap < 1:
            raise InputError(f"a frame needs at least 1 token, got a cap of {self.cap}")
        if self.frames is not None and self.frames < 1:
            raise InputError(f"a clip has at least 1 frame, got {self.frames}")
        if self.total is not None and self.total < (self.frames or 1):
            raise InputError(f"a total of {self.total} tokens is less than one for each of {self.frames or 1} frames")

    def allowance(self, frame: int, spent: int, fresh: float, tree: Tree) -> int:
        """Tokens that frame `frame` (from 0) may cost; fresh: share of its relevant ground that is new, 0 to 1.

        Never below the tree's floor unless the total is used up: then 0, and the frame cannot be shown.
        """
        wanted = tree.floor + round((max(self.cap, tree.floor) - tree.floor) * min(max(fresh, 0.0), 1.0))
        if self.total is None:
            return wanted
        left = self.total - spent
        if self.frames is not None:
            left -= tree.floor * max(0, self.frames - frame - 1)
        return min(wanted, left) if left >= tree.floor else 0
