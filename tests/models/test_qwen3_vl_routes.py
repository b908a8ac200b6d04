"""Qwen3-VL beyond single leaves: patches of the classic scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from qwen3_vl_rows import allocations
from tiny_models import picture, prompt

from arr_coc.attending.allocate import allocate
from arr_coc.realizing.base import backbone_for
from arr_coc.realizing.patches import LeafBatch, gather_leaf_patches, mip_pyramid
from arr_coc.realizing.qwen3_vl.encode import encode_leaves


@torch.no_grad()
def test_the_classic_scale_is_seen_before_the_encoder_at_its_true_places(model: Any, processor: Any) -> None:
    """8×8 tokens over 10×10 cells: what a model would see of the picture shrunk to 8×8 cells, but at other positions;
    and with every token a whole cell, the untouched model."""
    inputs = prompt(processor, [([picture(320, 320)], "what colour")])
    backbone = backbone_for(model)
    (coarse,) = allocations(model, inputs, 0.64, strategy="classic")
    assert coarse.counts.tolist() == [64]
    realized = backbone.realize(model, inputs, [coarse])
    image = backbone.image_token_id(model)
    assert int((realized.inputs["input_ids"] == image).sum()) == 64
    batch = realized.notes["leaves"]
    rows = realized.inputs["position_ids"][2][realized.inputs["input_ids"] == image]
    start = realized.inputs["position_ids"][2][0, int((realized.inputs["input_ids"][0] == image).nonzero()[0]) - 1] + 1
    assert torch.allclose((rows - start)[[0, 8, -1]], torch.tensor([0.125, 1.375, 8.875]))
    assert batch.grid.tolist() == [[10, 10]]
    # The pixels are the area means of the picture shrunk to 256×256.
    pixels = backbone.normalised_pixels(model, inputs)[0][None]
    shrunk = F.interpolate(pixels.repeat_interleave(4, 2).repeat_interleave(4, 3), (256, 256), mode="area")
    small = allocate(np.ones((8, 8)), 64)
    expected = gather_leaf_patches(mip_pyramid(shrunk, 1), LeafBatch.of([small]).leaves[None])
    seen: list[torch.Tensor] = []
    backbone.realize(model, inputs, [coarse], tower=lambda p, b: (seen.append(p), encode_leaves(model, p, b))[1])
    torch.testing.assert_close(seen[0], expected, atol=1e-4, rtol=1e-4)
    # Every cell as a box: the untouched model, whatever way the pixels were cut.
    whole = replace(coarse, counts=np.array([100]), levels=np.array([0]))
    logits = model(**backbone.realize(model, inputs, [whole]).inputs).logits
    assert (logits - model(**inputs).logits).abs().max() < 1e-4
