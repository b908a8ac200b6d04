"""What other packages add: entry points of a group, found by name and loaded when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .errors import InputError

# What `pip` installs the laboratory by: worlds, trainings, benchmarks and the classic parts.
LAB = "pip install arr-coc-lab"


@cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """Name → entry point of everything that the installed packages add to a group."""
    return {point.name: point for point in entry_points(group=group)}


def load_plugin(point: EntryPoint) -> Any:
    """The object that an entry point names; `InputError` in one line where its package cannot be imported."""
    try:
        return point.load()
    except Exception as error:  # whatever another package does while it is imported
        raise InputError(f"{point.name!r} of {point.value} cannot be loaded ({error})") from error


def load_function(function: Callable[..., object] | str) -> Callable[..., Any]:
    """A function as it is, or the one that "module:name" names, imported now."""
    if not isinstance(function, str):
        return function
    module, name = function.split(":")
    return getattr(import_module(module), name)
