"""VIDEO: relevance carried from frame to frame, and a budget shared over time as well as space.

`VideoStream` sees frame after frame and keeps its state in one value; `watch` takes a whole clip; `open_film` and
`write_clip` are files, cameras and streams. Names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .answering import answer_clip as answer_clip
    from .decode import open_film as open_film
    from .decode import read_clip as read_clip
    from .decode import write_clip as write_clip
    from .forest import grow_forest as grow_forest
    from .settings import TemporalSettings as TemporalSettings
    from .settings import load_settings as load_settings
    from .state import StreamState as StreamState
    from .stream import SeenFrame as SeenFrame
    from .stream import VideoStream as VideoStream
    from .temporal_model import TemporalBlend as TemporalBlend
    from .watching import Watched as Watched
    from .watching import watch as watch

__all__ = resolve_lazily(
    __name__,
    {
        "SeenFrame": "stream",
        "StreamState": "state",
        "TemporalBlend": "temporal_model",
        "TemporalSettings": "settings",
        "VideoStream": "stream",
        "Watched": "watching",
        "answer_clip": "answering",
        "grow_forest": "forest",
        "load_settings": "settings",
        "open_film": "decode",
        "read_clip": "decode",
        "watch": "watching",
        "write_clip": "decode",
    },
)
