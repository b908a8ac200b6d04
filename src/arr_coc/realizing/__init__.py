"""REALIZE: from regions to tokens. Foveate before the encoder, or merge after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .compressor import MultiResolutionCompressor as MultiResolutionCompressor
    from .compressor import RaggedTokens as RaggedTokens
    from .depth import DepthRouting as DepthRouting
    from .depth import HierarchicalRelevance as HierarchicalRelevance
    from .depth import route_planes as route_planes
    from .merge import Members as Members
    from .merge import MergePlan as MergePlan
    from .merge import members_of_allocations as members_of_allocations
    from .merge import plan_average as plan_average
    from .merge import plan_members as plan_members
    from .merge import plan_pick as plan_pick
    from .merge import plan_selection as plan_selection
    from .merge import plan_top_k as plan_top_k
    from .patches import LeafBatch as LeafBatch
    from .patches import Pyramid as Pyramid
    from .patches import area_patches as area_patches
    from .patches import check_grid as check_grid
    from .patches import gather_leaf_patches as gather_leaf_patches
    from .patches import leaf_boxes as leaf_boxes
    from .patches import leaf_patches as leaf_patches
    from .patches import leaves_of as leaves_of
    from .patches import match_leaves as match_leaves
    from .patches import mip_pyramid as mip_pyramid
    from .patches import unpatchify as unpatchify
    from .positions import language_positions as language_positions
    from .positions import position_taps as position_taps
    from .positions import prompt_positions as prompt_positions
    from .positions import vision_positions as vision_positions
    from .splice import pack as pack
    from .splice import padding_side as padding_side
    from .splice import placeholder_owner as placeholder_owner
    from .splice import shorten as shorten
    from .splice import take as take

# public name -> module that defines it; resolved on first use, because torch is heavy
_PUBLIC = {
    "LeafBatch": "patches",
    "Pyramid": "patches",
    "area_patches": "patches",
    "leaf_boxes": "patches",
    "leaf_patches": "patches",
    "check_grid": "patches",
    "gather_leaf_patches": "patches",
    "leaves_of": "patches",
    "match_leaves": "patches",
    "mip_pyramid": "patches",
    "unpatchify": "patches",
    "language_positions": "positions",
    "position_taps": "positions",
    "prompt_positions": "positions",
    "vision_positions": "positions",
    "pack": "splice",
    "padding_side": "splice",
    "placeholder_owner": "splice",
    "shorten": "splice",
    "take": "splice",
    "DepthRouting": "depth",
    "HierarchicalRelevance": "depth",
    "route_planes": "depth",
    "Members": "merge",
    "MergePlan": "merge",
    "plan_average": "merge",
    "plan_pick": "merge",
    "plan_selection": "merge",
    "plan_members": "merge",
    "plan_top_k": "merge",
    "members_of_allocations": "merge",
    "MultiResolutionCompressor": "compressor",
    "RaggedTokens": "compressor",
}

__all__ = resolve_lazily(__name__, _PUBLIC)
