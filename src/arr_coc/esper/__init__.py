"""ESPER: looking again. What was seen changes where to look.

    from arr_coc.esper import Esper
    esper = Esper.from_pretrained("mini").set_image("zoo.png")
    esper.ask("What are the ingredients in this snack?")      up to four passes, early stopping
    esper.pass_history                                        where it looked, what it explored, how sure it was

Names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .esper import Esper
    from .looks import Looks, first_look, look_again
    from .settings import FOUR_PASS, PRESETS, SACCADES, TWO_PASS, EsperSettings
    from .story import PassNote, Story, pass_statistics

resolve_lazily(
    __name__,
    {
        "FOUR_PASS": "settings",
        "PRESETS": "settings",
        "SACCADES": "settings",
        "TWO_PASS": "settings",
        "Esper": "esper",
        "EsperSettings": "settings",
        "Looks": "looks",
        "PassNote": "story",
        "Story": "story",
        "first_look": "looks",
        "look_again": "looks",
        "pass_statistics": "story",
    },
)

__all__ = [
    "FOUR_PASS",
    "PRESETS",
    "SACCADES",
    "TWO_PASS",
    "Esper",
    "EsperSettings",
    "Looks",
    "PassNote",
    "Story",
    "first_look",
    "look_again",
    "pass_statistics",
]
