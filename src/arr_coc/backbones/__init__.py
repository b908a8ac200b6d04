"""One small adapter per family of vision-language models, and `attach`, which serves them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .attachment import Attachment as Attachment
    from .attachment import attach as attach
    from .attachment import detach as detach
    from .base import ADAPTERS as ADAPTERS
    from .base import Backbone as Backbone
    from .base import Realized as Realized
    from .base import VisualGrid as VisualGrid
    from .base import backbone_for as backbone_for
    from .base import supported_families as supported_families
    from .glance import Glance as Glance
    from .glance import glance_relevance as glance_relevance
    from .query import find_questions as find_questions
    from .qwen3_vl_processor import load_processor as load_processor
    from .qwen3_vl_video import Qwen3VLVideo as Qwen3VLVideo
    from .qwen3_vl_video import video_inputs as video_inputs

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
    "Qwen3VLVideo": "qwen3_vl_video",
    "video_inputs": "qwen3_vl_video",
}

__all__ = resolve_lazily(__name__, _PUBLIC)
