"""Presets of `ask`: a whole way of looking under one name. Those of passes are the library's own; other packages bring
theirs by entry points of the group `arr_coc.presets`: functions of (eye, picture, question, request, longest answer)
that return an `Answer`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..core.errors import InputError
from ..core.plugins import LAB, load_function, load_plugin, plugins
from ..core.values import Answer
from .pass_settings import PRESETS

if TYPE_CHECKING:
    from ..attending.request import Request
    from ..pictures.load import Picture
    from .eye import Eye

    PresetFunction = Callable[[Eye, Picture, str, Request, int], Answer]

GROUP = "arr_coc.presets"
# Those of the laboratory, so that a missing one can be told.
IN_THE_LAB = ("source",)


def preset_names() -> tuple[str, ...]:
    """Every name that `preset=` takes."""
    return tuple(dict.fromkeys((*PRESETS, *plugins(GROUP))))


def find_preset(name: str) -> PresetFunction:
    """What a preset does; `InputError` in one line for a name that is unknown."""
    if name in PRESETS:
        return partial(load_function("arr_coc.answering.esper:ask_in_passes"), name)
    if name in plugins(GROUP):
        return load_plugin(plugins(GROUP)[name])
    if name in IN_THE_LAB:
        raise InputError(f"preset={name!r} is part of the laboratory; install it: {LAB}")
    raise InputError(f"unknown preset {name!r}; choose from {', '.join(preset_names())}")


def check_alone(preset: str, **how: object) -> None:
    """A preset decides all of this by itself; `InputError` where something else was given as well."""
    given = [f"{name}=" for name, value in how.items() if value not in (None, 1) and value != {}]
    if given:
        raise InputError(f"preset={preset!r} decides this by itself; leave out {', '.join(given)}")
