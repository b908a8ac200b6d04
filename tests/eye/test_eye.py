"""Asking: on a tiny random Qwen3-VL saved by the stock class, and on a freshly made `mini`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from merging_families import FamilyProcessor, build_model, save_family
from tiny_models import picture, save_stock
from tiny_weights import tiny_scorer

from arr_coc import Eye, InputError, ask, look
from arr_coc.attending.strategies import DEFAULT_STRATEGY
from arr_coc.options import Options
from arr_coc.realizing.bundled import Calibration
from arr_coc_lab.train.mini_model import MiniConfig, build_mini, ship


@pytest.fixture(scope="module")
def stock(tmp_path_factory) -> Path:
    return save_stock(tmp_path_factory.mktemp("stock"))


@pytest.fixture(scope="module")
def mini(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("shipped")
    ship({"mini": build_mini(MiniConfig(width=64, heads=1)), "scorer": tiny_scorer()}, folder)
    return folder / "mini"


@pytest.mark.parametrize("relevance", ["auto", "detail", "look"])
def test_an_answer_says_what_was_seen_and_what_it_cost(stock, relevance):
    eye = Eye.from_pretrained(str(stock), relevance=relevance).set_image(picture(250, 380))
    answer = eye.ask("what colour is the square", budget=24, options=Options(strategy="quadtree", max_new_tokens=4))
    allocation = answer.allocation
    assert answer.tokens == allocation.tokens <= 24 < allocation.full == answer.full
    assert 0 <= answer.uncertainty <= 1
    assert set(answer.seconds) == {"load", "read", "look", "encode", "answer"}
    # Boxes are in pixels of the picture as given, though the model resized it.
    assert (allocation.height, allocation.width) == (250, 380)
    assert int((allocation.boxes[:, 2] * allocation.boxes[:, 3]).sum()) == 250 * 380


def test_all_tokens_give_the_stock_answer(mini):
    """Two routes: the eye at full budget, and the stock class with its own processor, without this library."""
    from PIL import Image
    from transformers import AutoImageProcessor, AutoTokenizer, Qwen3VLForConditionalGeneration

    image = picture(128, 192, 3)
    answer = (
        Eye.from_pretrained(str(mini))
        .set_image(image)
        .ask("what is it?", budget=1.0, options=Options(max_new_tokens=6))
    )
    model = Qwen3VLForConditionalGeneration.from_pretrained(mini).float().eval()
    tokenizer = AutoTokenizer.from_pretrained(mini)
    pixels = AutoImageProcessor.from_pretrained(mini)(images=[image], return_tensors="pt")
    assert isinstance(image, Image.Image)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what is it?"}]}],
        tokenize=False,
        add_generation_prompt=True,
    ).replace("<|image_pad|>", "<|image_pad|>" * 24)
    inputs = tokenizer([text], return_tensors="pt")
    kinds = (inputs["input_ids"] == model.config.image_token_id).long()
    output = model.generate(**inputs, **pixels, mm_token_type_ids=kinds, max_new_tokens=6, do_sample=False)
    said = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip()
    assert answer.text == said
    assert answer.tokens == answer.allocation.full == 24


def test_words_in_pixels_of_the_picture_as_given_steer_the_look(stock):
    """The model resizes this picture; the words' boxes are those of the picture that the caller has."""
    words = [("Total", (20, 10, 70, 26)), ("$48.50", (300, 10, 350, 26)), ("Date", (20, 200, 60, 216))]
    words += [("03/04/1997", (290, 200, 370, 216))]
    eye = Eye.from_pretrained(str(stock)).set_image(picture(250, 380))
    answer = eye.ask("What is the date?", budget=20, options=Options(words=words, max_new_tokens=2))
    assert any("4 words" in note and "03/04/1997" in note for note in answer.notes)
    fine = answer.allocation.boxes[answer.allocation.levels == 0]
    middle = fine[:, :2] + fine[:, 2:] / 2
    assert (abs(middle - (208, 330)) < (28, 60)).all(1).any()


def test_one_picture_many_questions_and_the_one_shot_agree(stock):
    image = picture(256, 256, 1)
    eye = Eye.from_pretrained(str(stock)).set_image(image)
    first = eye.ask("where is the red square", budget=20, options=Options(max_new_tokens=3))
    eye.ask("what colour", budget=20, options=Options(max_new_tokens=3))
    again = eye.ask("where is the red square", budget=20, options=Options(max_new_tokens=3))
    assert (again.text, again.allocation) == (first.text, first.allocation)
    alone = ask(image, "where is the red square", 20, model=eye, options=Options(max_new_tokens=3))
    assert (alone.text, alone.allocation) == (first.text, first.allocation)
    assert alone.uncertainty == pytest.approx(first.uncertainty, abs=1e-5)


def test_relevance_may_come_from_any_function(stock):
    def lower_right(pixels: torch.Tensor, query: str) -> np.ndarray:
        assert query == "anything"
        assert pixels.shape[0] == 3
        spot = np.zeros((8, 8), dtype=np.float32)
        spot[6:, 6:] = 1
        return spot

    eye = Eye.from_pretrained(str(stock), relevance=lower_right).set_image(picture(256, 256))
    levels = eye.ask("anything", budget=16, options=Options(max_new_tokens=2)).allocation.level_map()
    assert levels[7, 7] == 0 < levels[0, 0]


def test_an_allocation_of_look_can_be_asked_with(stock):
    image = picture(256, 256)
    allocation = look(image, "the red square", budget=32)
    answer = (
        Eye.from_pretrained(str(stock))
        .set_image(image)
        .ask("x", options=Options(allocation=allocation, max_new_tokens=2))
    )
    assert answer.allocation.level_map().tolist() == allocation.level_map().tolist()


def test_a_higher_temperature_makes_less_sure(stock):
    cold = Eye.from_pretrained(str(stock), calibration=Calibration(0.2)).set_image(picture(128, 128))
    warm = Eye(cold.model, cold.processor, calibration=Calibration(5.0)).set_image(picture(128, 128))
    options = Options(budget=1.0, max_new_tokens=3)
    assert cold.ask("what", options=options).uncertainty < warm.ask("what", options=options).uncertainty


def test_a_model_is_asked_by_the_strategy_that_it_was_trained_with(stock, mini, tmp_path):
    tiled = shutil.copytree(stock, tmp_path / "tiled")
    Calibration(strategy="quadtree").write(tiled)
    for folder, strategy in ((stock, DEFAULT_STRATEGY), (mini, "overlay"), (tiled, "quadtree")):
        eye = Eye.from_pretrained(str(folder)).set_image(picture(128, 192))
        assert eye.ask("what?", 9, options=Options(max_new_tokens=1)).allocation.strategy == strategy
        assert (
            eye.ask("what?", 9, options=Options(strategy="uniform", max_new_tokens=1)).allocation.strategy == "uniform"
        )
    assert any("in full detail" in note for note in eye.ask("what?", 999, options=Options(max_new_tokens=1)).notes)


def test_mistakes_get_one_clear_line(stock, tmp_path):
    eye = Eye.from_pretrained(str(stock))
    with pytest.raises(InputError, match="set_image"):
        eye.ask("what")
    eye.set_image(picture(128, 128))
    for query, wrong, word in (
        (" ", {}, "question"),
        ("x", {"budget": 0}, "budget"),
        ("x", {"allocation": "x"}, "allocation must be"),
        ("x", {"allocation": "x", "budget": 4}, "cannot be combined with budget"),
    ):
        with pytest.raises(InputError, match=word):
            eye.ask(query, options=Options(**wrong))
    with pytest.raises(InputError, match=r"20000×3, which this model does not take .*; crop it"):
        Eye.from_pretrained(str(stock)).set_image(np.zeros((3, 20000, 3), np.uint8))
    with pytest.raises(InputError, match="cannot load"):
        Eye.from_pretrained(str(tmp_path))
    with pytest.raises(InputError, match="calibration"):
        Eye(eye.model, eye.processor, calibration=0)


def test_a_family_that_merges_after_its_encoder_can_be_asked(tmp_path):
    eye = Eye.from_pretrained(str(save_family(tmp_path, "qwen2_5_vl"))).set_image(picture(60, 90))
    answer = eye.ask("w20 w21", budget=0.25, options=Options(max_new_tokens=3))
    assert (answer.tokens, answer.full) == (13, 54)
    assert answer.tokens == answer.allocation.tokens
    assert eye.ask("w20 w21", budget=1.0, options=Options(max_new_tokens=3)).tokens == 54


def test_a_picture_in_several_views_counts_all_of_them():
    """LLaVA-OneVision sees this picture twice and adds newlines: one allocation would hide most of the cost."""
    eye = Eye(build_model("llava_onevision"), FamilyProcessor("llava_onevision")).set_image(picture(60, 90))
    answer = eye.ask("w20 w21", budget=0.25, options=Options(max_new_tokens=2))
    assert len(answer.passes) == 2
    assert sum(one.allocation.tokens for one in answer.passes) < answer.tokens < answer.full
