"""One small adapter per family of vision-language models, and `attach`, which serves them all."""

from __future__ import annotations

from ..lazy import resolve_lazily

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

__all__ = resolve_lazily(__name__, _PUBLIC)
