"""Packages whose public names are imported on first use (PEP 562, and one step further).

One step further, because a package may have a function named like the file it lives in (`serve.serve`). Importing
that file makes Python bind the module under this name in the package; here the function is bound in its place, so that
`from arr_coc.attending.quadtree import quadtree` is the function whoever came first.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from .errors import naming_extras


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
        if isinstance(value, ModuleType) and name in self._public and hasattr(value, name):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._public})


def resolve_lazily(package: str, public: Mapping[str, str], older: Mapping[str, str] | None = None) -> list[str]:
    """Make `package` resolve names (name → file that defines it) on first use.

    Args:
        package: The package.
        public: Its public names.
        older: Names that were public before; programs that import them keep working.

    Returns:
        The public names, for `__all__`.
    """
    module = sys.modules[package]
    module.__dict__["_public"] = {**public, **(older or {})}
    module.__class__ = LazyPackage
    return sorted(public)
