"""Qwen3-VL video prompts: exact at level 0, right times and positions, and what the allocation changes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import qwen3_vl_rows
import torch
from tiny_models import CHAT, picture, tiny_model, tiny_processor

from arr_coc import InputError, attach
from arr_coc.packing.prices.tables import tokens_for
from arr_coc.realizing.qwen3_vl.video import Qwen3VLVideo, group_seconds, video_backbone, video_inputs

VIDEO_CHAT = CHAT.replace(
    "{% elif c['type']=='text' %}",
    "{% elif c['type']=='video' %}<|vision_start|><|video_pad|><|vision_end|>{% elif c['type']=='text' %}",
)
FRAMES = np.stack([np.asarray(picture(96, 128, seed)) for seed in range(5)])
SECONDS = [0.0, 0.5, 1.0, 1.5, 2.0]


@pytest.fixture(scope="module")
def processor() -> Any:
    processor = tiny_processor()
    processor.chat_template = VIDEO_CHAT
    return processor


@pytest.fixture(scope="module")
def inputs(processor: Any) -> dict[str, Any]:
    return video_inputs(processor, FRAMES, SECONDS, "how many")


def allocations(model: Any, inputs: dict[str, Any], keep: float) -> list[Any]:
    return qwen3_vl_rows.allocations(model, inputs, keep, video_backbone(model))


@pytest.mark.parametrize("moe", [False, True], ids=["dense", "moe"])
@torch.no_grad()
def test_level_zero_everywhere_is_the_untouched_model(inputs: dict[str, Any], moe: bool) -> None:
    model = tiny_model(moe=moe)
    realized = video_backbone(model).realize(model, inputs, allocations(model, inputs, 1.0))
    expected = model(**inputs).logits
    assert (model(**realized.inputs).logits - expected).abs().max() < 1e-4
    assert expected.std() > 0.1, "the comparison would mean nothing on constant logits"
    assert torch.equal(realized.inputs["input_ids"], inputs["input_ids"])
    greedy = {"max_new_tokens": 5, "do_sample": False}
    again = video_backbone(model).realize(model, inputs, allocations(model, inputs, 1.0))
    assert torch.equal(model.generate(**again.inputs, **greedy), model.generate(**inputs, **greedy))


@torch.no_grad()
def test_positions_are_those_that_the_stock_model_computes(inputs: dict[str, Any]) -> None:
    model = tiny_model()
    realized = video_backbone(model).realize(model, inputs, allocations(model, inputs, 1.0))
    stock, _ = model.model.get_rope_index(
        inputs["input_ids"],
        mm_token_type_ids=inputs["mm_token_type_ids"],
        video_grid_thw=inputs["video_grid_thw"],
        attention_mask=inputs["attention_mask"],
    )
    assert torch.equal(realized.inputs["position_ids"][1:], stock.float())
    # With fewer tokens, text stands where it stood: time and words keep their distance from the frames.
    short = video_backbone(model).realize(model, inputs, allocations(model, inputs, 0.3))
    text = short.inputs["input_ids"][0] != model.config.video_token_id
    kept = short.index[0][text]
    assert torch.equal(short.inputs["position_ids"][1:, 0, text], stock[:, 0, kept].float())


@torch.no_grad()
def test_every_group_has_its_own_tokens_and_every_frame_matters(processor: Any, inputs: dict[str, Any]) -> None:
    model = tiny_model()
    chosen = allocations(model, inputs, 1.0)
    chosen[1] = allocations(model, inputs, 0.25)[1]
    realized = video_backbone(model).realize(model, inputs, chosen)
    visual = int((realized.inputs["input_ids"] == model.config.video_token_id).sum())
    assert visual == sum(one.tokens for one in chosen) < 3 * 12
    base = model(**realized.inputs).logits[:, -1]
    for frame in range(5):
        frames = FRAMES.copy()
        frames[frame] = 255 - frames[frame]
        other = video_inputs(processor, frames, SECONDS, "how many")
        moved = model(**video_backbone(model).realize(model, other, chosen).inputs).logits[:, -1]
        assert (base - moved).abs().max() > 1e-2, f"frame {frame} changes nothing"


def test_times_are_the_middles_of_the_groups(processor: Any, inputs: dict[str, Any]) -> None:
    text = processor.tokenizer.decode(inputs["input_ids"][0])
    assert re.findall(r"<(\d+\.\d) seconds>", text) == ["0.2", "1.2", "2.0"]  # the odd last frame is repeated
    # The stock formula, from frame numbers and frames a second.
    stock = type(processor)._calculate_timestamps(processor, [0, 15, 30, 45, 60], 30, 2)
    assert group_seconds(SECONDS, 2) == pytest.approx(stock)
    # The stock processor replaces the video token only, so the template's own vision tokens stay around it all.
    assert "<|vision_start|><0.2 seconds><|vision_start|><|video_pad|>" in text
    assert inputs["video_grid_thw"].tolist() == [[3, 6, 8]]


@torch.no_grad()
def test_patches_equal_those_of_the_stock_picture_processor(processor: Any, inputs: dict[str, Any]) -> None:
    """A still clip of two frames is a picture to the tower: the stock picture processor says what its patches are."""
    still = picture(96, 128, 7)
    clip = np.stack([np.asarray(still)] * 2)
    found = video_inputs(processor, clip, [0.0, 0.1], "how many")["pixel_values_videos"]
    expected = processor.image_processor(images=[still], return_tensors="pt")["pixel_values"]
    assert torch.allclose(found, expected, atol=1e-5)


@torch.no_grad()
def test_attach_serves_video_prompts_too(processor: Any, inputs: dict[str, Any]) -> None:
    model = tiny_model()
    with attach(model, processor, budget=0.5, videos=True) as attachment:
        model.generate(**inputs, max_new_tokens=3, do_sample=False)
        assert [one.tokens for one in attachment.last] == [tokens_for((96, 128), 6)] * 3


def test_what_cannot_be_used_is_said_in_a_line(processor: Any, inputs: dict[str, Any]) -> None:
    model = tiny_model()
    with pytest.raises(InputError, match="shows 3 pictures, but 2 allocations"):
        Qwen3VLVideo().realize(model, inputs, allocations(model, inputs, 1.0)[:2])
    with pytest.raises(InputError, match="uint8"):
        video_inputs(processor, FRAMES.astype(float), SECONDS, "how many")
    with pytest.raises(InputError, match="chat template"):
        video_inputs(tiny_processor(), FRAMES, SECONDS, "how many")
    with pytest.raises(InputError, match="pictures and videos"):
        Qwen3VLVideo().realize(model, {**inputs, "pixel_values": torch.zeros(1)}, [])
