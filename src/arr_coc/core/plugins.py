"""Load by name, on first use: entry points of other packages, and the public names of this one (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from .errors import InputError, naming_extras

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


class LazyPackage(ModuleType):
    """A package that resolves its public names when they are asked for."""

    _public: Mapping[str, str]

    def __getattr__(self, name: str) -> object:
        place = self._public.get(name)
        if place is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with naming_extras():
            value = getattr(import_module(f".{place}", self.__name__), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # A function may be named like its file (`serve.serve`): importing the file must not hide the function.
        if isinstance(value, ModuleType) and name in self._public and hasattr(value, name):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._public})


def resolve_lazily(package: str, public: Mapping[str, str], older: Mapping[str, str] | None = None) -> list[str]:
    """Make `package` resolve names (name → file that defines it) on first use; returns the public ones, for `__all__`.

    older: names that were public before; programs that import them keep working.
    """
    module = sys.modules[package]
    module.__dict__["_public"] = {**public, **(older or {})}
    module.__class__ = LazyPackage
    return sorted(public)
