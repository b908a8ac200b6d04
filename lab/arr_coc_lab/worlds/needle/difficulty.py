"""The difficulty of a picture: its parameters, and four named settings."""

from __future__ import annotations

from dataclasses import dataclass

from arr_coc.core.errors import InputError


@dataclass(frozen=True)
class Difficulty:
    """
    small: smallest and largest small type, in pixels: readable at full size, not at half.
    large: smallest and largest large type: readable at half size.
    large_share: percent of the texts set in large type.
    items: the most cards, lines, objects, bars or signs; None: as many as the canvas suits.
    contrast: percent; 100 is black on white, 35 is grey on grey.
    clutter: percent of the places for things that are not asked about that are filled.
    edge: ask only about what lies near the picture's edge, where there is a choice.
    """

    small: tuple[int, int] = (10, 13)
    large: tuple[int, int] = (18, 26)
    large_share: int = 33
    items: int | None = None
    contrast: int = 85
    clutter: int = 50
    edge: bool = False


NURSERY = Difficulty(small=(11, 14), large=(16, 24), large_share=60, items=1, contrast=95, clutter=0)
EASY = Difficulty(small=(11, 13), large=(18, 26), large_share=50, contrast=95, clutter=25)
NORMAL = Difficulty()
HARD = Difficulty(small=(9, 11), large=(16, 20), large_share=10, contrast=50, clutter=90, edge=True)
PRESETS = {"nursery": NURSERY, "easy": EASY, "normal": NORMAL, "hard": HARD}


def as_difficulty(value: Difficulty | str | None, size: tuple[int, int]) -> Difficulty:
    """Find a setting by name or value; None is `normal`, and `nursery` on canvases too small for more than one item."""
    if isinstance(value, Difficulty):
        return value
    if value is None:
        return NURSERY if min(size) < 192 else NORMAL
    if value not in PRESETS:
        raise InputError(f"unknown difficulty {value!r}; choose from {', '.join(PRESETS)} or pass a Difficulty")
    return PRESETS[value]
