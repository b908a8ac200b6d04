"""Qwen3-VL beyond single leaves: patches of the classic scale, leaves that go to some depths only, maps of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from qwen3_vl_rows import ROWS, allocations
from tiny_models import picture, prompt

from arr_coc import InputError
from arr_coc.attending.allocate import allocate
from arr_coc.realizing.base import backbone_for
from arr_coc.realizing.qwen3_vl.encode import encode_leaves
from arr_coc.realizing.tokens.depth import DepthRouting, HierarchicalRelevance
from arr_coc.realizing.tokens.patches import LeafBatch, gather_leaf_patches, mip_pyramid


@torch.no_grad()
def test_depth_routing_is_exact_when_off_and_when_everything_is_relevant(model: Any, processor: Any) -> None:
    inputs = prompt(processor, list(ROWS))
    chosen, backbone = allocations(model, inputs, 0.5), backbone_for(model)

    def logits(**how: Any) -> torch.Tensor:
        return model(**backbone.realize(model, inputs, chosen, **how).inputs).logits[:, -1]

    ones = [np.ones((3, 3))] * 4
    off = logits()
    assert torch.equal(logits(relevance=ones), off)
    assert torch.equal(logits(relevance=ones, depth=DepthRouting()), off)
    assert (logits(relevance=[np.zeros((3, 3))] * 4, depth=DepthRouting()) - off).abs().max() > 1e-2
    assert (logits(relevance=ones, depth=DepthRouting("spread")) - off).abs().max() > 1e-2
    deep_only = [HierarchicalRelevance(np.zeros((3, 3)), np.zeros((3, 3)), np.ones((3, 3)))] * 4
    flat = [HierarchicalRelevance.flat(np.ones((3, 3)))] * 4
    assert torch.equal(logits(relevance=flat, depth=DepthRouting()), off)
    assert (logits(relevance=deep_only, depth=DepthRouting()) - off).abs().max() > 1e-2
    with pytest.raises(InputError, match="how relevant"):
        logits(depth=DepthRouting())


@torch.no_grad()
def test_routed_planes_survive_beams_and_cache(model: Any, processor: Any) -> None:
    inputs = prompt(processor, list(ROWS))
    realized = backbone_for(model).realize(
        model, inputs, allocations(model, inputs, 0.5), relevance=[np.ones((3, 3))] * 4, depth=DepthRouting("spread")
    )
    assert len(realized.inputs["mm_encoder_outputs"]["image"].deepstack_features) == 3
    assert model.generate(**realized.inputs, max_new_tokens=3, num_beams=2).shape[0] == 3


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
    (_, pixels), *_ = backbone.normalised_pixels(model, inputs).values()
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


@torch.no_grad()
def test_leaves_that_inject_no_deeper_pass_no_later_block(model: Any, processor: Any) -> None:
    inputs = prompt(processor, list(ROWS[:2]))
    backbone = backbone_for(model)
    given = allocations(model, inputs, 0.5)
    tower = model.model.visual
    lengths: list[int] = []
    hooks = [block.register_forward_pre_hook(lambda _, args: lengths.append(len(args[0]))) for block in tower.blocks]
    maps = [np.zeros((grid.rows, grid.cols)) for grid in backbone.grids(model, inputs)]
    for one in maps:
        one[0, 0] = 1
    try:
        early = backbone.realize(model, inputs, given, relevance=maps, depth=DepthRouting(early=True))
        routed, lengths[:] = list(lengths), []
        stock = backbone.realize(model, inputs, given, relevance=maps, depth=DepthRouting())
    finally:
        for hook in hooks:
            hook.remove()
    assert lengths == [lengths[0]] * len(tower.blocks)
    assert routed[0] == lengths[0]
    assert routed[-1] < routed[0], "the last blocks run on the relevant leaves alone"
    assert sorted(routed, reverse=True) == routed
    ours, theirs = (one.notes["tokens"] for one in (early, stock))
    assert ours.embeds.shape == theirs.embeds.shape
    for mine, other in zip(ours.planes, theirs.planes, strict=True):
        assert torch.equal(mine.abs().sum(1) > 0, other.abs().sum(1) > 0), "the same leaves inject"
    everything = [np.ones_like(one) for one in maps]
    all_the_way = backbone.realize(model, inputs, given, relevance=everything, depth=DepthRouting(early=True))
    plain = backbone.realize(model, inputs, given)
    assert torch.allclose(all_the_way.notes["tokens"].embeds, plain.notes["tokens"].embeds, atol=1e-5)


@torch.no_grad()
def test_a_glance_gives_three_maps_and_they_route(model: Any, processor: Any) -> None:
    from arr_coc.realizing.attachment import attach

    inputs = prompt(processor, [([picture(160, 160)], "where is the red square")])
    how: dict[str, Any] = {"budget": 12, "relevance": "glance:three"}
    with attach(model, processor, depth=DepthRouting(early=True), **how) as attachment:
        plan = attachment.plan(inputs)
        routed = model(**inputs).logits
    (three,) = plan.relevance or ()
    assert isinstance(three, HierarchicalRelevance)
    assert not np.allclose(three.low, three.high), "each third of the layers looks for itself"
    with attach(model, processor, **how):
        plain = model(**inputs).logits
    assert not torch.allclose(routed, plain)
    other = attach(model, processor, relevance="glance:four", budget=12)
    with pytest.raises(InputError, match="glance:three"), other:
        other.plan(inputs)
