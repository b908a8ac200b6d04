"""Worlds that draw pictures whose truth is known: what other packages add by entry points of `arr_coc.worlds`."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from PIL import Image

from ...core.errors import InputError
from ...core.plugins import LAB, load_plugin, plugins

GROUP = "arr_coc.worlds"


class DrawnPicture(NamedTuple):
    """A picture with one question and its true answer."""

    image: Image.Image
    question: str
    answer: str


class DrawnClip(NamedTuple):
    """Frames (T, H, W, 3) uint8 with one question and its true answer."""

    frames: np.ndarray
    question: str
    answer: str


class World(Protocol):
    """What an entry point of `arr_coc.worlds` names."""

    families: tuple[str, ...]

    def picture(self, family: str, seed: int, size: tuple[int, int]) -> DrawnPicture:
        """A picture that nobody was taught with."""
        ...

    def clip(self, family: str, seed: int, size: tuple[int, int], frames: int, cuts: int) -> DrawnClip:
        """The same, moving."""
        ...

    def picture_program(self, family: str, seed: int, size: tuple[int, int]) -> tuple[list[str], list[str]]:
        """Imports, and lines of Python that bind `picture` to the same picture."""
        ...


def families() -> tuple[str, ...]:
    """Families of Needle World; none where the laboratory is not installed."""
    return needle().families if "needle" in plugins(GROUP) else ()


def needle() -> World:
    """Needle World; `InputError` in one line where the laboratory is not installed."""
    point = plugins(GROUP).get("needle")
    if point is None:
        raise InputError(f"Needle World is part of the laboratory; install it: {LAB}")
    return load_plugin(point)


def check_family(family: str) -> str:
    """The name of a family, refused where there is none."""
    known = needle().families
    if family not in known:
        raise InputError(f"Needle World has no family {family!r}; choose from {', '.join(known)}")
    return family
