"""One small adapter per family of vision-language models, and `attach`, which serves them all."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# public name -> module that defines it; resolved on first use, because torch and transformers are heavy
_PUBLIC = {
    "ADAPTERS": "base",
    "Backbone": "base",
    "Realized": "base",
    "VisualGrid": "base",
    "backbone_for": "base",
    "supported_families": "base",
    "Attachment": "attachment",
    "attach": "attachment",
    "detach": "attachment",
    "Glance": "glance",
    "glance_relevance": "glance",
    "find_questions": "query",
    "load_processor": "qwen3_vl_processor",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_PUBLIC[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
