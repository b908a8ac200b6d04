"""SENSE: a picture becomes a texture array, named channels with a pyramid and clusters.

Names are resolved on first use: `sense_one` needs no torch, and OpenCV and transformers are imported by the functions
that use them, when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .array import Texture
    from .cells import to_cells
    from .clusters import ClusterQuality, Clusters, group_many, merge_small, quality, tidy, two_scale
    from .flow import backward_flow, motion, optical_flow, warp, warp_batch
    from .layout import FULL40, LAYOUTS, MVP13, Channel, Layout, get_layout
    from .one_picture import sense_one
    from .projection import SemanticProjection
    from .pyramid import Pyramid, pyramid
    from .reducers import LearnedDownsampler, attention_weighted, temporal_mips
    from .sam import MaskGenerator, sam
    from .semantic import SemanticEncoder
    from .slic import slic, slic_batch
    from .texture import sense

resolve_lazily(
    __name__,
    {
        "FULL40": "layout",
        "LAYOUTS": "layout",
        "MVP13": "layout",
        "Channel": "layout",
        "ClusterQuality": "clusters",
        "Clusters": "clusters",
        "Layout": "layout",
        "LearnedDownsampler": "reducers",
        "MaskGenerator": "sam",
        "Pyramid": "pyramid",
        "SemanticEncoder": "semantic",
        "SemanticProjection": "projection",
        "Texture": "array",
        "attention_weighted": "reducers",
        "backward_flow": "flow",
        "get_layout": "layout",
        "group_many": "clusters",
        "merge_small": "clusters",
        "motion": "flow",
        "optical_flow": "flow",
        "pyramid": "pyramid",
        "quality": "clusters",
        "sam": "sam",
        "sense": "texture",
        "sense_one": "one_picture",
        "slic": "slic",
        "slic_batch": "slic",
        "temporal_mips": "reducers",
        "tidy": "clusters",
        "to_cells": "cells",
        "two_scale": "clusters",
        "warp": "flow",
        "warp_batch": "flow",
    },
)

__all__ = [
    "FULL40",
    "LAYOUTS",
    "MVP13",
    "Channel",
    "ClusterQuality",
    "Clusters",
    "Layout",
    "LearnedDownsampler",
    "MaskGenerator",
    "Pyramid",
    "SemanticEncoder",
    "SemanticProjection",
    "Texture",
    "attention_weighted",
    "backward_flow",
    "get_layout",
    "group_many",
    "merge_small",
    "motion",
    "optical_flow",
    "pyramid",
    "quality",
    "sam",
    "sense",
    "sense_one",
    "slic",
    "slic_batch",
    "temporal_mips",
    "tidy",
    "to_cells",
    "two_scale",
    "warp",
    "warp_batch",
]
