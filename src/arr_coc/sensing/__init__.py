"""SENSE: a picture becomes a texture array, named channels with a pyramid and clusters.

Names are resolved on first use: `sense_one` needs no torch, and OpenCV and transformers are imported by the functions
that use them, when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .batch import sense
    from .clusters import ClusterQuality, Clusters, find_clusters, group_many, merge_small, quality, tidy, two_scale
    from .flow import backward_flow, motion, optical_flow, warp, warp_batch
    from .ocr import ocr_words
    from .one_picture import sense_one
    from .pdf import pdf_pages
    from .pyramid import Pyramid, pyramid, to_cells
    from .reducers import LearnedDownsampler, attention_weighted, temporal_mips
    from .sam import MaskGenerator, sam
    from .semantic import SemanticEncoder, SemanticProjection
    from .slic import slic, slic_batch
    from .texture import FULL40, LAYOUTS, MVP13, Channel, Layout, Texture, get_layout
    from .words import Words, as_words, make_words
    from .words_files import read_words

HOME = {
    "batch": ("sense",),
    "clusters": (
        *("ClusterQuality", "Clusters", "find_clusters", "group_many", "merge_small", "quality", "tidy", "two_scale"),
    ),
    "flow": ("backward_flow", "motion", "optical_flow", "warp", "warp_batch"),
    "ocr": ("ocr_words",),
    "one_picture": ("sense_one",),
    "pdf": ("pdf_pages",),
    "pyramid": ("Pyramid", "pyramid", "to_cells"),
    "reducers": ("LearnedDownsampler", "attention_weighted", "temporal_mips"),
    "sam": ("MaskGenerator", "sam"),
    "semantic": ("SemanticEncoder", "SemanticProjection"),
    "slic": ("slic", "slic_batch"),
    "texture": ("FULL40", "LAYOUTS", "MVP13", "Channel", "Layout", "Texture", "get_layout"),
    "words": ("Words", "as_words", "make_words"),
    "words_files": ("read_words",),
}
__all__ = resolve_lazily(__name__, {name: file for file, names in HOME.items() for name in names})
