"""REALIZE: from regions to tokens. Foveate before the encoder, or merge after it."""

from __future__ import annotations

from ..lazy import resolve_lazily

# public name -> module that defines it; resolved on first use, because torch is heavy
_PUBLIC = {
    "LeafBatch": "patches",
    "Pyramid": "patches",
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
    "MergePlan": "merge",
    "plan_average": "merge",
    "plan_pick": "merge",
    "plan_selection": "merge",
    "plan_slots": "merge",
    "plan_top_k": "merge",
    "slots_of_allocations": "merge",
    "MultiResolutionCompressor": "compressor",
    "RaggedTokens": "compressor",
    "level_for_tokens": "compressor",
}

__all__ = resolve_lazily(__name__, _PUBLIC)
