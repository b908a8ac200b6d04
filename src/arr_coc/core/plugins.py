"""Load objects by name, on first use: entry points of other packages, and the public names of this one (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from .errors import InputError, MissingPackage, naming_extras

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# How to install the laboratory: worlds, trainings, benchmarks and the classic parts.
LAB = "pip install ./lab in a clone, else pip install arr-coc-lab"


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    with suppress(ImportError):
        return find_spec(package) is not None
    return False


@cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """Return name → entry point of everything that installed packages add to a group."""
    from importlib.metadata import entry_points  # slow to import

    return {point.name: point for point in entry_points(group=group)}


def load_plugin(point: EntryPoint) -> Any:
    """Load the object that an entry point names; raise `InputError` if its package cannot be imported."""
    try:
        with naming_extras():
            return point.load()
    except MissingPackage:
        raise
    except Exception as error:  # importing another package may raise anything
        raise InputError(f"{point.name!r} of {point.value} cannot be loaded ({error})") from error


def load_function(function: Callable[..., object] | str) -> Callable[..., Any]:
    """Return a function, or import the one that "module:name" names."""
    return resolve_name(function) if isinstance(function, str) else function


def resolve_lazily(
    package: str, public: Mapping[str, str], older: Mapping[str, str] | None = None, needs_torch: Sequence[str] = ()
) -> list[str]:
    """Make `package` resolve names (name → module that defines it) on first use; return the public ones for `__all__`.

    older: names that were public before; programs that import them keep working. needs_torch: names that are not listed
    without torch, so that `import *` and `help` work; using one raises an error that names the missing package.
    """
    module, places = sys.modules[package], {**public, **(older or {})}

    def resolve(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with naming_extras():
            value = getattr(import_module(f".{places[name]}", package), name)
        setattr(module, name, value)
        return value

    absent = set(needs_torch) if needs_torch and not is_installed("torch") else set()
    module.__dict__.update(__getattr__=resolve, __dir__=lambda: sorted({*module.__dict__, *places} - absent))
    return sorted({*public} - absent)
