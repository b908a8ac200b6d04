"""Qwen3-VL and Qwen3-VL-MoE: foveation is exact where it should be, and true to an oracle where one exists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from qwen3_vl_rows import ROWS, allocations
from tiny_models import picture, prompt, tiny_model
from transformers import AttentionInterface

from arr_coc import InputError
from arr_coc.attending.allocate import allocate
from arr_coc.realizing.base import backbone_for
from arr_coc.realizing.patches import LeafBatch
from arr_coc.realizing.qwen3_vl.encode import VisualTokens, foveate, leaf_positions, run_language_model
from arr_coc_lab.classic.walks import dense_vision_attention


def foveated_logits(model: Any, input_ids: torch.Tensor, tokens: VisualTokens, batch: LeafBatch) -> torch.Tensor:
    positions, _ = leaf_positions(input_ids, batch, model.config.image_token_id)
    return model.lm_head(run_language_model(model, input_ids, tokens, positions).last_hidden_state)


@pytest.mark.parametrize("moe", [False, True], ids=["dense", "moe"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("batch", [1, 3])
@torch.no_grad()
def test_level_zero_everywhere_is_the_untouched_model(processor: Any, moe: bool, attention: str, batch: int) -> None:
    model = tiny_model(attention=attention, moe=moe)
    inputs = prompt(processor, list(ROWS[:batch]))
    realized = backbone_for(model).realize(model, inputs, allocations(model, inputs))
    expected = model(**inputs).logits
    logits = model(**realized.inputs).logits
    valid = inputs["attention_mask"].bool()
    assert (logits - expected)[valid].abs().max() < 1e-4
    assert expected[valid].std() > 0.1, "the comparison would mean nothing on constant logits"
    assert torch.equal(realized.inputs["input_ids"], inputs["input_ids"])
    greedy = {"max_new_tokens": 6, "do_sample": False}
    again = backbone_for(model).realize(model, inputs, allocations(model, inputs))
    assert torch.equal(model.generate(**again.inputs, **greedy), model.generate(**inputs, **greedy))


@torch.no_grad()
def test_leaves_that_share_ground_get_their_true_centres(model: Any, processor: Any) -> None:
    """A coarse leaf, two cells on top of it, and the rest of the picture: all are tokens, each at its own place."""
    inputs = prompt(processor, [([picture(128, 192, 4)], "what number")])
    relevance = np.zeros((4, 6), np.float32)
    relevance[0, 0] = relevance[1, 1] = 1
    cover = allocate(relevance, 8, image_size=(128, 192))
    leaves = cover.leaf_cells().tolist()
    assert leaves[:2] == [[0, 0, 1], [0, 0, 0]]
    assert [1, 1, 0] in leaves
    assert (cover.tokens, cover.tokens_by_level()) == (8, {0: 2, 1: 6})
    realized = backbone_for(model).realize(model, inputs, [cover])
    ids, positions = realized.inputs["input_ids"], realized.inputs["position_ids"]
    shown = ids[0] == model.config.image_token_id
    assert int(shown.sum()) == 8
    start = int(shown.nonzero()[0])
    centres = [[start + row + (2**level - 1) / 2, start + col + (2**level - 1) / 2] for row, col, level in leaves]
    assert positions[2:, 0, shown].T.tolist() == centres
    after = positions[1:, 0, int(shown.nonzero()[-1]) + 1]
    assert (after == start + 6).all(), "text goes on behind the picture's longer side, however many leaves it has"
    # Every one of them is seen: without the cells on top, and without what lies beneath, the answer is another.
    base = model(**realized.inputs).logits[:, -1]
    for level in (0, 1):
        kept = cover.levels != level
        columns = {name: getattr(cover, name)[kept] for name in ("boxes", "levels", "counts", "scores")}
        part = replace(cover, **columns, sparse=True)
        assert (
            model(**backbone_for(model).realize(model, inputs, [part]).inputs).logits[:, -1] - base
        ).abs().max() > 0.01


def masked(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float, **kwargs: Any) -> Any:
    """SDPA in which patches that were not selected cannot be seen."""
    mixed = F.scaled_dot_product_attention(
        query, key, value, attn_mask=kwargs["selected"][None, None, None], scale=scaling
    )
    return mixed.transpose(1, 2), None


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@torch.no_grad()
def test_a_selection_equals_the_masked_oracle(processor: Any, attention: str) -> None:
    """A quarter of the level-0 blocks: the full model with everything else masked, in tower and language model."""
    model = tiny_model(attention=attention)
    inputs = prompt(processor, [([picture(128, 128, 4)], "what number")])
    chosen = allocations(model, inputs, 0.25, strategy="top_k")
    assert (chosen[0].levels == 0).all()
    realized = backbone_for(model).realize(model, inputs, chosen)
    logits = model(**realized.inputs).logits[0]

    selected = torch.from_numpy(chosen[0].level_map() == 0).flatten()
    AttentionInterface.register("oracle_masked", masked)
    tower = model.model.visual
    tower.set_attn_implementation("oracle_masked")
    features = model.model.get_image_features(
        inputs["pixel_values"], inputs["image_grid_thw"], return_dict=True, selected=selected.repeat_interleave(4)
    )
    ids = inputs["input_ids"]
    mask = torch.ones_like(ids)
    mask[ids == model.config.image_token_id] = selected.long()
    positions, _ = model.model.get_rope_index(ids, inputs["mm_token_type_ids"], inputs["image_grid_thw"])
    oracle = model(
        input_ids=ids, attention_mask=mask, position_ids=positions, mm_encoder_outputs={"image": features}
    ).logits[0]
    assert (logits - oracle[mask[0].bool()]).abs().max() < 1e-4
    assert logits.shape[0] == int(mask.sum()) < ids.shape[1]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@torch.no_grad()
def test_generation_with_cache_equals_recomputation_without(processor: Any, attention: str) -> None:
    model = tiny_model(attention=attention)
    inputs = prompt(processor, list(ROWS))
    chosen, backbone = allocations(model, inputs, 0.25), backbone_for(model)
    short = backbone.realize(model, inputs, chosen).inputs
    generated = model.generate(**dict(short), max_new_tokens=8, do_sample=False)
    ids, mask, positions = short["input_ids"], short["attention_mask"], short["position_ids"]
    for _ in range(8):
        fresh = backbone.realize(model, inputs, chosen).inputs["mm_encoder_outputs"]
        step = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, mm_encoder_outputs=fresh, use_cache=False
        )
        ids = torch.cat([ids, step.logits[:, -1:].argmax(-1)], 1)
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
        positions = torch.cat([positions, positions[..., -1:] + 1], -1)
    answers = zip(generated[:, -8:].tolist(), ids[:, -8:].tolist(), strict=True)
    end = model.config.text_config.eos_token_id
    for cached, computed in answers:
        stop = cached.index(end) + 1 if end in cached else 8
        assert cached[:stop] == computed[:stop]


@torch.no_grad()
def test_budgets_may_differ_inside_a_batch_and_rows_do_not_touch(model: Any, processor: Any) -> None:
    inputs = prompt(processor, list(ROWS))
    full, quarter = allocations(model, inputs), allocations(model, inputs, 0.25)
    mixed = [full[0], quarter[1], full[2], quarter[3]]
    backbone = backbone_for(model)
    together = model(**backbone.realize(model, inputs, mixed).inputs).logits[:, -1]
    parts = ([mixed[0]], mixed[1:3], [mixed[3]])
    for number, (row, chosen) in enumerate(zip(ROWS, parts, strict=True)):
        alone = model(**backbone.realize(model, prompt(processor, [row]), chosen).inputs).logits[:, -1]
        torch.testing.assert_close(together[number : number + 1], alone, atol=1e-4, rtol=0)


def test_training_with_labels_reaches_the_patch_embedding(processor: Any) -> None:
    model = tiny_model().train()
    processor.tokenizer.padding_side = "right"
    try:
        inputs = prompt(processor, list(ROWS), generation=False)
    finally:
        processor.tokenizer.padding_side = "left"
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    labels[labels == model.config.image_token_id] = -100
    chosen, backbone = allocations(model, inputs, 0.25), backbone_for(model)
    realized = backbone.realize(model, {**inputs, "labels": labels}, chosen)
    assert (realized.index[:, -1] < 0).any(), "a batch padded at the right stays padded at the right"
    loss = model(**realized.inputs).loss
    loss.backward()
    assert model.model.visual.patch_embed.proj.weight.grad.abs().max() > 0
    # The same labels, in the same order, are asked for.
    kept, short = labels[labels >= 0], realized.inputs["labels"]
    assert torch.equal(kept, short[short >= 0])
    # And packing adds nothing: rows alone give the same loss, weighted by their labels.
    total = 0.0
    for row, part in zip(ROWS, (chosen[:1], chosen[1:3], chosen[3:]), strict=True):
        alone = prompt(processor, [row], generation=False)
        wanted = alone["input_ids"].masked_fill(alone["input_ids"] == model.config.image_token_id, -100)
        one = backbone.realize(model, {**alone, "labels": wanted}, part)
        total += model(**one.inputs).loss.item() * int((one.inputs["labels"][:, 1:] >= 0).sum())
    assert loss.item() == pytest.approx(total / int((short[:, 1:] >= 0).sum()), abs=1e-4)


@torch.no_grad()
def test_bfloat16_models_keep_float32_positions(processor: Any) -> None:
    model = tiny_model().to(torch.bfloat16)
    inputs = prompt(processor, list(ROWS[1:]))
    realized = backbone_for(model).realize(model, inputs, allocations(model, inputs, 0.5))
    assert realized.inputs["position_ids"].dtype == torch.float32
    assert (realized.inputs["position_ids"] % 1 != 0).any(), "centres of coarse leaves are fractional"
    features = realized.inputs["mm_encoder_outputs"]["image"]
    assert features.pooler_output[0].dtype == torch.bfloat16
    assert torch.isfinite(model(**realized.inputs).logits).all()
    full = backbone_for(model).realize(model, inputs, allocations(model, inputs))
    valid = inputs["attention_mask"].bool()
    assert torch.equal(model(**full.inputs).logits[valid], model(**inputs).logits[valid])


@torch.no_grad()
def test_the_training_path_equals_the_stock_forward(model: Any, processor: Any) -> None:
    """Equal-length batches: pictures and leaves as tensors, one dense attention, no stock forward around it."""
    inputs = prompt(processor, [([picture(128, 128, seed)], "what colour") for seed in range(3)])
    chosen, backbone = allocations(model, inputs, 0.45), backbone_for(model)
    expected = model(**backbone.realize(model, inputs, chosen).inputs).logits

    pictures = torch.stack(backbone.normalised_pixels(model, inputs))
    batch = LeafBatch.of(chosen)
    leaves = batch.leaves.view(3, -1, 3)
    equal = LeafBatch.equal(leaves, (4, 4), levels=3)
    short = backbone.realize(model, inputs, chosen).inputs["input_ids"]
    packed = foveated_logits(model, short, foveate(model, pictures, equal), equal)
    before = model.model.visual.config._attn_implementation
    with dense_vision_attention(model):
        assert model.model.visual.config._attn_implementation == "arr_coc_dense"
        dense = foveated_logits(model, short, foveate(model, pictures, equal), equal)
        ragged = foveate(model, pictures, LeafBatch.of([*chosen[:2], allocations(model, inputs)[0]]))
    torch.testing.assert_close(packed, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(dense, expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(
        ragged.embeds[: 2 * leaves.shape[1]],
        foveate(model, pictures, equal).embeds[: 2 * leaves.shape[1]],
        atol=1e-4,
        rtol=0,
    )
    assert model.model.visual.config._attn_implementation == before


def test_errors_are_one_clear_line(model: Any, processor: Any) -> None:
    backbone, inputs = backbone_for(model), prompt(processor, list(ROWS))
    chosen = allocations(model, inputs)
    with pytest.raises(InputError, match="shows 4 pictures, but 1 allocations"):
        backbone.realize(model, inputs, chosen[:1])
    with pytest.raises(InputError, match="canvas="):
        backbone.realize(model, inputs, chosen[::-1])
    with pytest.raises(InputError, match="pixel_values and image_grid_thw are needed"):
        backbone.grids(model, {**inputs, "image_grid_thw": None})
    with pytest.raises(InputError, match=r"image_grid_thw must be \(pictures, 3\)"):
        backbone.grids(model, {**inputs, "image_grid_thw": torch.ones(4)})
    with pytest.raises(InputError, match="placeholders"):
        backbone.realize(model, {**inputs, "input_ids": inputs["input_ids"][:, :-40]}, chosen)
    with pytest.raises(InputError, match="frames as pictures"):
        backbone.realize(model, {**inputs, "pixel_values_videos": torch.ones(1)}, chosen)
    batch = LeafBatch.of(chosen)
    tokens = foveate(model, backbone.normalised_pixels(model, inputs), batch)
    with pytest.raises(InputError, match="one placeholder"):
        foveated_logits(
            model,
            torch.full((1, 3), model.config.image_token_id),
            tokens,
            LeafBatch.equal(batch.leaves[None, :3], (3, 4), 3),
        )
