"""All that a stream remembers, in one value that can be saved, copied and read back.

Nothing about a stream lives anywhere else: two streams never meet, and a stream that was saved goes on as if nothing
had happened.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ..core.errors import InputError
from ..core.files import replacing
from .clusters import TrackedClusters

SCHEMA = 3


@dataclass(frozen=True, eq=False)
class StreamState:
    """What is known after a frame; every array is at the maps' size unless said otherwise.

    frame, scene: numbers of the last frame and of its scene, from 0. since_keyframe: frames since everything was
    looked at. size: (height, width) of the frames. view: (h, w, 3) uint8, the last frame small. histogram: of its
    colours. level: (2,) the clip's own level of the cut features.
    planes: (planes, h, w) carried maps. trust: (h, w) how far they may be believed. whole_trust: (h, w) that of maps
    that are known of whole frames only. relevance: (h, w) of the last frame. saliency: (h, w). fixations: (h, w) where
    tokens went lately. shown: (h, w) detail in which this ground was shown, 0 to 1. standing: (N, 3) leaves of the last
    standing allocation. clusters: or None. spent: tokens so far. flow: (h, w, 2) where each place was a frame before.
    past: (4, h, w) relevance of the last frames at its ground's present places, or None where no mips are read.
    """

    frame: int
    scene: int
    since_keyframe: int
    spent: int
    size: tuple[int, int]
    view: np.ndarray
    histogram: np.ndarray
    level: np.ndarray
    planes: np.ndarray
    trust: np.ndarray
    whole_trust: np.ndarray
    relevance: np.ndarray
    saliency: np.ndarray
    fixations: np.ndarray
    shown: np.ndarray
    standing: np.ndarray
    flow: np.ndarray
    clusters: TrackedClusters | None = None
    past: np.ndarray | None = None

    def save(self, path: str | PathLike[str], about: dict[str, Any] | None = None) -> None:
        """One .npz file. about: plain values to keep with it, such as the stream's arguments."""
        arrays: dict[str, Any] = {}
        numbers: dict[str, Any] = {"schema": SCHEMA, "size": list(self.size), "about": about or {}}
        for name, value in self._plain().items():
            (arrays if isinstance(value, np.ndarray) else numbers)[name] = value
        if self.clusters is not None:
            arrays["cluster_labels"] = self.clusters.labels
            numbers["following"] = self.clusters.following
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, numbers=np.array(json.dumps(numbers)), **arrays)

    def _plain(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("clusters", "size")}

    @classmethod
    def load(cls, path: str | PathLike[str]) -> tuple[StreamState, dict[str, Any]]:
        """The state and what was kept with it."""
        try:
            with np.load(path, allow_pickle=False) as file:
                numbers = json.loads(str(file["numbers"]))
                if numbers.pop("schema") != SCHEMA:
                    raise InputError(f"{path} was saved by another version of the stream's state; start afresh")
                arrays = {name: file[name] for name in file.files if name != "numbers"}
            about = numbers.pop("about")
            labels, following = arrays.pop("cluster_labels", None), numbers.pop("following", 0)
            clusters = None if labels is None else TrackedClusters(labels, following)
            numbers["size"] = tuple(numbers["size"])
            return cls(clusters=clusters, **numbers, **arrays), about
        except InputError:
            raise
        except (OSError, KeyError, ValueError, TypeError, BadZipFile) as error:
            raise InputError(f"no stream state could be read from {path}: {error}") from error
