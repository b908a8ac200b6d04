"""Every merged family on a tiny random stock model: nothing lost where all is kept, nothing invented where less is."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from merging_families import FAMILIES, FIRST_WORD, IMAGE, PROCESSOR, build_model, build_prompts

from arr_coc.attending.allocate import allocate
from arr_coc.core.errors import InputError
from arr_coc.realizing.base import ADAPTERS, Realized, adapter

NAMES = list(FAMILIES)
STRATEGIES = ("overlay", "quadtree", "top_k")


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def allocations_for(name: str, inputs: dict[str, Any], keep: float, strategy: str = "overlay") -> list[Any]:
    grids = adapter(name).grids(build_model(name), inputs)
    return [
        allocate(
            np.random.default_rng(index).random((7, 9), dtype=np.float32) ** 8,
            max(int(grid.tokens * keep), -(-grid.rows // 8) * -(-grid.cols // 8)),
            image_size=(grid.height, grid.width),
            cell=grid.cell,
            strategy=strategy,
        )
        for index, grid in enumerate(grids)
    ]


@cache
def realized(name: str, batch: int, keep: float, strategy: str = "overlay", attention: str = "sdpa") -> Realized:
    inputs = build_prompts(name, batch)
    with torch.no_grad():
        return adapter(name).realize(
            build_model(name, attention), inputs, allocations_for(name, inputs, keep, strategy)
        )


def fresh(result: Realized) -> dict[str, Any]:
    """The inputs with an encoder output of their own: generation changes it in place."""
    copy = dict(result.inputs)
    output = copy["mm_encoder_outputs"]["image"]
    copy["mm_encoder_outputs"] = {"image": type(output)(**output)}
    return copy


def greedy(model: Any, inputs: dict[str, Any], steps: int = 6, **options: Any) -> torch.Tensor:
    # Words only: a random model also says placeholders, which a prompt run again would take for pictures.
    options = {"do_sample": False, "suppress_tokens": list(range(FIRST_WORD)), **options}
    output = model.generate(**inputs, max_new_tokens=steps, **options)
    return output[:, inputs["input_ids"].shape[1] :]


def test_every_registered_family_is_tested():
    assert {*ADAPTERS} - {"qwen3_vl", "qwen3_vl_moe"} == {*NAMES}


@pytest.mark.parametrize(("batch", "attention"), [(1, "sdpa"), (3, "eager")])
@pytest.mark.parametrize("name", NAMES)
def test_keeping_everything_changes_nothing(name: str, batch: int, attention: str):
    model, inputs = build_model(name, attention), build_prompts(name, batch)
    result = realized(name, batch, 1.0, attention=attention)
    valid = inputs["attention_mask"].bool()
    assert torch.equal(result.inputs["input_ids"], inputs["input_ids"])
    # With an explicit position for every token, because forward() alone counts padding on the left as text.
    stock = model(**inputs).logits
    assert torch.allclose(model(**fresh(result)).logits[valid], stock[valid], atol=1e-4)
    assert torch.equal(greedy(model, fresh(result)), greedy(model, dict(inputs)))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", NAMES)
def test_a_quarter_kept_generates_with_cache_as_without(name: str, strategy: str):
    model, result = build_model(name), realized(name, 3, 0.25, strategy)
    tokens = greedy(model, fresh(result))
    assert torch.equal(tokens, recompute(model, result, tokens.shape[1]))


def recompute(model: Any, result: Realized, steps: int) -> torch.Tensor:
    """Greedy text, the whole prompt run again for every token, positions written out."""
    prompt, found = fresh(result), []
    for _ in range(steps):
        logits = model(**fresh(replace(result, inputs=prompt)), use_cache=False).logits
        token = logits[:, -1:, FIRST_WORD:].argmax(-1) + FIRST_WORD
        found.append(token)
        following = (result.next_position + len(found) - 1)[:, None].to(prompt["position_ids"].dtype)
        if prompt["position_ids"].ndim == 3:
            following = torch.stack([prompt["attention_mask"].sum(1, keepdim=True).to(following), *[following] * 3])
        prompt = prompt | {
            "input_ids": torch.cat([prompt["input_ids"], token], 1),
            "attention_mask": torch.cat([prompt["attention_mask"], torch.ones_like(token)], 1),
            "position_ids": torch.cat([prompt["position_ids"], following], -1),
        }
        if "token_type_ids" in prompt:
            prompt["token_type_ids"] = torch.cat([prompt["token_type_ids"], torch.zeros_like(token)], 1)
    return torch.cat(found, 1)


@pytest.mark.parametrize("name", NAMES)
def test_selection_equals_masking_in_the_full_prompt(name: str):
    model, inputs = build_model(name), build_prompts(name, 3)
    result = realized(name, 3, 0.25, "top_k")
    rows = torch.arange(len(result.index))[:, None].expand_as(result.index)[result.index >= 0]
    kept = torch.zeros_like(inputs["attention_mask"]).index_put(
        (rows, result.index[result.index >= 0]), torch.tensor(1)
    )
    positions = adapter(name).positions(model, inputs, inputs["attention_mask"])
    if len(positions) == 3:
        plain = (inputs["attention_mask"].cumsum(-1) - 1).clamp_min(0)[None]
        positions = torch.cat([plain, positions])
    masked = model(**inputs | {"attention_mask": kept, "position_ids": positions.squeeze(0)}).logits
    short = model(**fresh(result)).logits
    assert torch.allclose(short[result.index >= 0], masked[rows, result.index[result.index >= 0]], atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_a_quarter_is_a_quarter_and_text_stays(name: str):
    inputs, result = build_prompts(name, 3), realized(name, 3, 0.25)
    allocations = allocations_for(name, inputs, 0.25)
    layout = adapter(name).layout(build_model(name), inputs)
    always_kept = int((layout.cells < 0).sum())
    assert int((result.inputs["input_ids"] == IMAGE).sum()) == sum(a.tokens for a in allocations) + always_kept
    before, after = (
        [
            row[mask.bool() & (row != IMAGE)].tolist()
            for row, mask in zip(one["input_ids"], one["attention_mask"], strict=True)
        ]
        for one in (inputs, result.inputs)
    )
    assert before == after
    if "token_type_ids" in inputs:
        assert torch.equal(result.inputs["token_type_ids"], (result.inputs["input_ids"] == IMAGE).long())


@pytest.mark.parametrize("name", NAMES)
def test_beams_and_samples_keep_each_prompt_with_its_own_pictures(name: str):
    model, result = build_model(name), realized(name, 3, 0.25)
    expected = greedy(model, fresh(result), steps=3).repeat_interleave(2, 0)
    # Sampling from one candidate is greedy, and several answers per prompt repeat its pictures as beams do.
    assert torch.equal(greedy(model, fresh(result), steps=3, do_sample=True, top_k=1, num_return_sequences=2), expected)
    assert greedy(model, fresh(result), steps=3, num_beams=3).shape == (3, 3)


@pytest.mark.parametrize("name", NAMES)
def test_pixels_are_the_pictures_the_encoder_saw(name: str):
    model, inputs = build_model(name), build_prompts(name, 3)
    grids = adapter(name).grids(model, inputs)
    pictures = adapter(name).pixels(model, PROCESSOR, inputs)
    assert [tuple(picture.shape) for picture in pictures] == [(3, grid.height, grid.width) for grid in grids]
    assert all(picture.min() >= 0 and picture.max() <= 1 and picture.std() > 0.02 for picture in pictures)
    assert all(grid.cell * grid.rows == grid.height for grid in grids)
    shown = [int((row == IMAGE).sum() > 0) for row in inputs["input_ids"]]
    assert {grid.row for grid in grids} == {row for row, has in enumerate(shown) if has}
    assert [grid.row for grid in grids] == sorted(grid.row for grid in grids)


@pytest.mark.parametrize("name", ["qwen2_5_vl", "llava_onevision", "gemma3"])
def test_gradients_reach_the_vision_tower_through_a_merge(name: str):
    model, inputs = build_model(name, seed=1), build_prompts(name, 3, side="right")
    labels = torch.where(inputs["input_ids"] == IMAGE, -100, inputs["input_ids"])
    labels = labels.masked_fill(inputs["attention_mask"] == 0, -100)
    with torch.enable_grad():
        result = adapter(name).realize(model, inputs | {"labels": labels}, allocations_for(name, inputs, 0.25))
        assert (result.inputs["labels"][result.index < 0] == -100).all()
        model(**fresh(result)).loss.backward()
    vision = [p for n, p in model.named_parameters() if "vis" in n and "patch_embed" in n and p.grad is not None]
    assert any(bool(p.grad.abs().sum() > 0) for p in vision)
    model.zero_grad()


def test_newlines_of_llava_are_kept_whole_and_in_place():
    model, inputs = build_model("llava_onevision"), build_prompts("llava_onevision", 3)
    result = realized("llava_onevision", 3, 0.25)
    newline = model.model.image_newline
    tokens = torch.cat(result.inputs["mm_encoder_outputs"]["image"].pooler_output)
    layout = adapter("llava_onevision").layout(model, inputs)
    assert int((tokens == newline).all(1).sum()) == int((layout.cells < 0).sum()) > 20
    given = {name: inputs[name] for name in ("pixel_values", "image_sizes", "batch_num_images")}
    stock = torch.cat(model.model.get_image_features(**given).pooler_output)
    assert torch.equal((stock == newline).all(1), layout.cells < 0)


def test_separators_of_deepseek_are_kept_whole_and_in_place():
    model, inputs = build_model("deepseek_ocr2"), build_prompts("deepseek_ocr2", 3)
    layout = adapter("deepseek_ocr2").layout(model, inputs)
    encoded = realized("deepseek_ocr2", 3, 0.25).notes["known"]
    assert torch.equal((torch.cat(encoded.pooler_output) == model.model.view_separator).all(1), layout.cells < 0)
    merged = torch.cat(realized("deepseek_ocr2", 3, 0.25).inputs["mm_encoder_outputs"]["image"].pooler_output)
    assert int((merged == model.model.view_separator).all(1).sum()) == 3


def test_merged_positions_are_the_middle_of_the_region():
    inputs, result = build_prompts("qwen2_5_vl", 1), realized("qwen2_5_vl", 1, 0.25)
    (allocation,) = allocations_for("qwen2_5_vl", inputs, 0.25)
    picture = result.inputs["input_ids"][0] == IMAGE
    positions = result.inputs["position_ids"][:, 0, picture]
    start = int(inputs["input_ids"][0].eq(IMAGE).nonzero()[0])
    rows, cols = allocation.grid
    corner = allocation.leaf_cells()
    last = np.minimum(corner[:, :2] + (1 << corner[:, 2:]), (rows, cols)) - 1
    wanted = {tuple(centre) for centre in ((corner[:, :2] + last) / 2 + start).tolist()}
    assert {tuple(pair) for pair in positions[2:].T.tolist()} == wanted
    assert (positions[1] == start).all()


@pytest.mark.parametrize("name", NAMES)
def test_generation_without_a_cache_agrees_when_announced(name: str):
    """generate() drops a mask of ones; without a cache, gaps in plain positions then cut the prompt in pieces."""
    model, inputs = build_model(name), build_prompts(name, 1)
    allocations = allocations_for(name, inputs, 0.25, "top_k")
    result = adapter(name).realize(model, inputs | {"use_cache": False}, allocations)
    expected = greedy(model, fresh(realized(name, 1, 0.25, "top_k")))
    assert torch.equal(greedy(model, fresh(result)), expected)


@pytest.mark.parametrize("name", ["qwen2_5_vl", "internvl"])
def test_a_batch_may_hold_a_prompt_without_pictures(name: str):
    model, inputs = build_model(name), build_prompts(name, 3)
    extra = torch.full((1, inputs["input_ids"].shape[1]), 20)
    inputs = inputs | {
        "input_ids": torch.cat([extra, inputs["input_ids"]]),
        "attention_mask": torch.cat([torch.ones_like(extra), inputs["attention_mask"]]),
    }
    inputs.pop("mm_token_type_ids", None)
    result = adapter(name).realize(model, inputs, allocations_for(name, inputs, 0.25))
    alone = realized(name, 3, 0.25)
    assert torch.equal(greedy(model, fresh(result))[1:], greedy(model, fresh(alone)))


def test_errors_are_one_clear_line():
    model, inputs = build_model("internvl"), build_prompts("internvl", 1)
    backbone, allocations = adapter("internvl"), allocations_for("internvl", inputs, 0.25)
    with pytest.raises(InputError, match="shows 3 pictures, but 2 allocations"):
        backbone.realize(model, inputs, allocations[:2])
    wrong = allocate(np.ones((5, 5), np.float32), 10, image_size=(40, 40), cell=8)
    with pytest.raises(InputError, match="5×5 tokens but the processor made 4×4"):
        backbone.realize(model, inputs, [wrong, *allocations[1:]])
    with pytest.raises(InputError, match="same processor call"):
        backbone.realize(model, inputs | {"input_ids": inputs["input_ids"][:, 20:]}, allocations)
    with pytest.raises(InputError, match="pictures only"):
        backbone.realize(model, inputs | {"pixel_values_videos": torch.zeros(1)}, allocations)


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_runs_with_exact_positions(name: str):
    model, inputs = copy.deepcopy(build_model(name)).bfloat16(), build_prompts(name, 1)
    inputs = {key: value.bfloat16() if value.is_floating_point() else value for key, value in inputs.items()}
    result = adapter(name).realize(model, inputs, allocations_for(name, inputs, 0.25))
    assert result.inputs["position_ids"].dtype in (torch.float32, torch.int64)
    assert torch.equal(result.inputs["position_ids"], realized(name, 1, 0.25).inputs["position_ids"])
    assert torch.isfinite(model(**fresh(result)).logits).all()
    assert greedy(model, fresh(result), steps=2).shape == (1, 2)


def test_pixels_that_fill_no_patch_are_left_out():
    """384 pixels hold 27 patches of 14 and 6 pixels that no encoder sees: LLaVA-OneVision."""
    config = FAMILIES["llava_onevision"].config()
    config.vision_config.image_size, config.vision_config.patch_size = 384, 14
    config.image_grid_pinpoints, config.vision_aspect_ratio = [[768, 384], [768, 768]], "anyres_max_9"
    model = transformers.LlavaOnevisionForConditionalGeneration(config).eval()
    inputs = {"pixel_values": torch.rand(1, 5, 3, 384, 384), "image_sizes": torch.tensor([[700, 500]])}
    backbone = adapter("llava_onevision")
    tokens = len(model.model.get_image_features(**inputs).pooler_output[0])
    inputs["input_ids"] = torch.full((1, tokens), IMAGE)
    whole, mosaic = backbone.grids(model, inputs)
    assert whole.tokens + mosaic.tokens + mosaic.rows == tokens
    assert (whole.rows, mosaic.rows, mosaic.cell) == (27, 54, 14)
    assert [tuple(p.shape) for p in backbone.pixels(model, PROCESSOR, inputs)] == [
        (3, 378, 378),
        (3, 54 * 14, mosaic.cols * 14),
    ]
