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
        """Draw a picture that no model was trained on."""
        ...

    def clip(self, family: str, seed: int, size: tuple[int, int], frames: int, cuts: int) -> DrawnClip:
        """Draw a moving one."""
        ...


def families() -> tuple[str, ...]:
    """Families of Needle World; none where the laboratory is not installed."""
    return needle().families if "needle" in plugins(GROUP) else ()


def needle(family: str | None = None) -> World:
    """Needle World; raise `InputError` where the laboratory is not installed, or where it has no such family."""
    point = plugins(GROUP).get("needle")
    if point is None:
        raise InputError(f"Needle World is part of the laboratory; install it: {LAB}")
    world: World = load_plugin(point)
    if family is not None and family not in world.families:
        raise InputError(f"Needle World has no family {family!r}; choose from {', '.join(world.families)}")
    return world
