"""Read and write video files through PyAV; writes H.264. Needs `pip install arr-coc[video]`."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import InputError
from ..core.folders import replacing

if TYPE_CHECKING:
    import av

# Largest size of frames in memory: a clip of film size would fill it, and sensing reduces frames anyway.
LONGEST_SIDE = 1280


@dataclass
class Film:
    """An open source: iterate over it for (seconds, pixels (H, W, 3) uint8 RGB).

    name: for messages. frames: their number, if the file has it. per_second: its rate. notes: for the user, filled
    while frames are read.
    """

    name: str
    container: av.container.InputContainer
    stream: av.VideoStream
    every: int = 1
    limit: int | None = None
    multiple: int = 1
    notes: list[str] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        rate = self.stream.average_rate or self.stream.guessed_rate
        return float(rate) if rate else 25.0

    @property
    def frames(self) -> int | None:
        """Return the number of frames that will be read, if the file has it."""
        known = self.stream.frames or 0
        number = -(-known // self.every) if known else None
        if self.limit is None:
            return number
        return self.limit if number is None else min(number, self.limit)

    def __iter__(self) -> Generator[tuple[float, np.ndarray]]:
        errors = import_module("av.error")
        given, number = 0, -1
        try:
            for frame in self.container.decode(self.stream):
                number += 1
                if number % self.every:
                    continue
                # Counted if the source has no times.
                shown_at = number / self.per_second if frame.time is None else float(frame.time)
                yield shown_at, self._pixels(frame)
                given += 1
                if given == self.limit:
                    return
        except errors.FFmpegError as error:
            if not given:
                raise InputError(f"{self.name} could not be decoded ({_reason(error)}); is the file whole?") from error
            self.notes.append(f"{self.name} breaks off after {given} frames ({_reason(error)})")
        if not given:
            raise InputError(f"{self.name} holds no frame; give a clip with at least one")

    def _pixels(self, frame: av.VideoFrame) -> np.ndarray:
        scale = min(1.0, LONGEST_SIDE / max(frame.width, frame.height))
        width, height = (
            max(self.multiple, round(side * scale / self.multiple) * self.multiple)
            for side in (frame.width, frame.height)
        )
        if (width, height) != (frame.width, frame.height):
            note = f"frames of {frame.width}×{frame.height} were resized to {width}×{height}"
            if note not in self.notes:
                self.notes.append(note)
            frame = frame.reformat(width=width, height=height)
        pixels = frame.to_ndarray(format="rgb24")
        # Phones store frames lying on their side and say so.
        turns = round(getattr(frame, "rotation", 0) / 90) % 4
        return np.ascontiguousarray(np.rot90(pixels, turns)) if turns else pixels


@contextmanager
def open_film(
    source: str | PathLike[str], every: int = 1, limit: int | None = None, multiple: int = 1
) -> Generator[Film]:
    """Open a clip for reading.

    Args:
        source: The file.
        every: Read each n-th frame only.
        limit: Maximum number of frames.
        multiple: Make the frames' sides multiples of this, as a model's tokens need it.
    """
    if every < 1:
        raise InputError(f"every={every} gives no frame; use 1 for all of them, 2 for every second one")
    if limit is not None and limit < 1:
        raise InputError(f"limit={limit} leaves no frame to look at; give at least 1")
    av, text = _av(), str(source)
    check_clip(text)
    try:
        container = av.open(text)
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise InputError(f"{text} could not be opened as a video ({_reason(error)})") from error
    with container:
        if not container.streams.video:
            raise InputError(f"{text} holds no video stream; give a clip, not sound alone")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        yield Film(text, container, stream, every, limit, multiple)


def read_clip(
    source: str | PathLike[str], every: int = 1, limit: int | None = None
) -> tuple[np.ndarray, list[float], list[str]]:
    """Read a whole clip: frames (T, H, W, 3) uint8, the seconds of each, notes."""
    with open_film(source, every, limit) as film:
        seconds, frames = zip(*film, strict=True)
        return np.stack(frames), list(seconds), film.notes


def write_clip(path: str | PathLike[str], frames: Iterable[np.ndarray], per_second: float) -> None:
    """Write frames (H, W, 3) uint8 in order, as H.264 in MP4; odd sides are made even."""
    av = _av()
    with replacing(path) as temporary:
        writer = av.open(str(temporary), "w", format="mp4")
        try:
            stream = None
            for pixels in frames:
                pixels = pixels[: pixels.shape[0] // 2 * 2, : pixels.shape[1] // 2 * 2]
                if stream is None:
                    rate = Fraction(max(per_second, 0.1)).limit_denominator(1000)
                    stream = writer.add_stream("libx264", rate=rate)
                    stream.height, stream.width = pixels.shape[:2]
                    stream.pix_fmt = "yuv420p"  # the format that every player shows
                    stream.options = {"crf": "20", "preset": "veryfast"}
                writer.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")))
            if stream is None:
                raise InputError(f"{Path(path).name} has no frame to write; give at least one")
            writer.mux(stream.encode(None))
        finally:
            writer.close()


def check_clip(path: str) -> None:
    """Refuse a path that is no file; use `VideoStream` for the frames of a camera or a stream."""
    if not os.path.exists(path):
        raise InputError(f"no file {path}; give a clip")
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; give one clip")
    if os.path.getsize(path) == 0:
        raise InputError(f"{path} is empty (0 bytes); give a clip with at least one frame")


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


def _av() -> ModuleType:
    try:
        import av
        import av.error
    except ImportError as error:
        raise InputError("reading video needs PyAV: pip install 'arr-coc[video]'") from error
    return av
