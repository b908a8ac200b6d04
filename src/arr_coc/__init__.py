"""ARR-COC: decide, before the vision encoder runs, where a question needs a vision-language model's visual tokens.

>>> import arr_coc
>>> allocation = arr_coc.look("street.png", "What number is on the red sign?", budget=256)
>>> allocation.tokens
256

Names are resolved on first use, so that `import arr_coc` and `arr-coc --help` stay fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name -> module that defines it
_PUBLIC = {
    "Allocation": "values",
    "Answer": "values",
    "Region": "values",
    "Relevance": "values",
    "compare": "values",
    "InputError": "errors",
    "load_picture": "pictures",
    "allocate": "attending",
    "tokens_for": "attending",
    "look": "looking",
    "Eye": "asking",
    "ask": "asking",
    "attach": "backbones",
    "detach": "backbones",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_PUBLIC[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
