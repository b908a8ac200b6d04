"""KNOW: three ways of telling what matters in a texture, plus the training-free ones that need no encoder.

Each is a function from a `Texture` (and a query) to a map in [0, 1], (H, W) or (B, H, W), on the texture's device.
Names are resolved on first use: `propositional`, `perspectival` and `lexical` need no torch for a numpy texture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .edge_lod import CLASSIC_TOKENS, EdgeLOD, edge_density
    from .lexical import Coupling, lexical
    from .participatory import Calibration, fit_calibration, participatory
    from .patch_trunk import TrunkConfig, patch_features
    from .perspectival import perspectival
    from .photo_words import photos_installed
    from .photos import PhotoEncoder, find_photo_encoder, photo_coupling
    from .propositional import propositional
    from .query_aware_lod import LevelChoice, QueryAwareLOD, choose_levels, expected_tokens
    from .query_encoders import (
        BackboneQueryEncoder,
        EncodedQuery,
        ImageTextQueryEncoder,
        QueryEncoder,
        load_query_encoder,
        stack_queries,
    )
    from .realizer import RelevanceRealizer
    from .registry import Source, find_source, relevance_for, relevance_source, source_names
    from .scene import Scene

resolve_lazily(
    __name__,
    {
        "BackboneQueryEncoder": "query_encoders",
        "CLASSIC_TOKENS": "edge_lod",
        "Calibration": "participatory",
        "Coupling": "lexical",
        "EdgeLOD": "edge_lod",
        "EncodedQuery": "query_encoders",
        "ImageTextQueryEncoder": "query_encoders",
        "LevelChoice": "query_aware_lod",
        "PhotoEncoder": "photos",
        "QueryAwareLOD": "query_aware_lod",
        "QueryEncoder": "query_encoders",
        "RelevanceRealizer": "realizer",
        "Scene": "scene",
        "Source": "registry",
        "TrunkConfig": "patch_trunk",
        "choose_levels": "query_aware_lod",
        "edge_density": "edge_lod",
        "expected_tokens": "query_aware_lod",
        "find_source": "registry",
        "find_photo_encoder": "photos",
        "fit_calibration": "participatory",
        "lexical": "lexical",
        "load_query_encoder": "query_encoders",
        "participatory": "participatory",
        "patch_features": "patch_trunk",
        "perspectival": "perspectival",
        "photo_coupling": "photos",
        "photos_installed": "photo_words",
        "propositional": "propositional",
        "relevance_for": "registry",
        "relevance_source": "registry",
        "source_names": "registry",
        "stack_queries": "query_encoders",
    },
)

__all__ = [
    "CLASSIC_TOKENS",
    "BackboneQueryEncoder",
    "Calibration",
    "Coupling",
    "EdgeLOD",
    "EncodedQuery",
    "ImageTextQueryEncoder",
    "LevelChoice",
    "PhotoEncoder",
    "QueryAwareLOD",
    "QueryEncoder",
    "RelevanceRealizer",
    "Scene",
    "Source",
    "TrunkConfig",
    "choose_levels",
    "edge_density",
    "expected_tokens",
    "find_photo_encoder",
    "find_source",
    "fit_calibration",
    "lexical",
    "load_query_encoder",
    "participatory",
    "patch_features",
    "perspectival",
    "photo_coupling",
    "photos_installed",
    "propositional",
    "relevance_for",
    "relevance_source",
    "source_names",
    "stack_queries",
]
