"""`ask` and passes of families that show a picture as tiles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from merging_families import FAMILIES, FamilyProcessor, build_model, photo

from arr_coc.answering.chat import USER, Turn
from arr_coc.answering.esper import Esper
from arr_coc.answering.eye import Eye
from arr_coc.core.errors import InputError
from arr_coc.options import Options
from arr_coc.realizing.attachment import attach

TILED = ("llava_onevision", "internvl", "ovis2", "deepseek_ocr2")
QUESTION = "w20 w21 w22"


def eye_of(name: str) -> tuple[Eye, np.ndarray]:
    (((height, width),),) = FAMILIES[name].one
    picture = photo((height, width), 5)
    return Eye(build_model(name), FamilyProcessor(name), relevance="detail").set_image(picture), picture


@pytest.mark.parametrize("name", TILED)
def test_a_picture_in_tiles_can_be_asked_about(name: str):
    eye, picture = eye_of(name)
    answer = eye.ask(QUESTION, budget=0.25, options=Options(max_new_tokens=4))
    grids = eye.engine.backbone.grids(eye.model, inputs_of(eye, picture))
    assert len(grids) > 1
    assert len(answer.passes) == len(grids)
    assert sum(one.allocation.tokens for one in answer.passes) <= 0.25 * sum(g.tokens for g in grids) + len(grids)
    assert answer.tokens < answer.full
    assert any(f"{len(grids)} tiles" in note for note in answer.notes)
    assert (answer.allocation.height, answer.allocation.width) == picture.shape[:2], "last the view of all of it"
    whole = eye.ask(QUESTION, budget=1.0, options=Options(max_new_tokens=4))
    assert whole.tokens == whole.full == answer.full
    assert eye.ask(QUESTION, budget=9, options=Options(max_new_tokens=1)).tokens <= 9 + answer.full - sum(
        g.tokens for g in grids
    )
    with pytest.raises(InputError, match="tiles from the picture"):
        eye.ask(QUESTION, budget=0.5, options=Options(scale=2))
    two = [Turn(USER, (picture, picture, "w20"))]
    if name == "llava_onevision":  # its processor cuts no tiles from one of several pictures
        assert len(eye.ask(two, budget=0.5, options=Options(max_new_tokens=1)).passes) == 2
        return
    with pytest.raises(InputError, match="whose they are"):
        eye.ask(two, budget=0.5)


def inputs_of(eye: Eye, picture: np.ndarray) -> dict:
    return eye.processor(text=[f"{eye.processor.image_token} w20"], images=[picture])


@pytest.mark.parametrize("name", TILED)
def test_asked_is_what_attached_says(name: str):
    eye, picture = eye_of(name)
    answer = eye.ask(QUESTION, budget=0.25, options=Options(max_new_tokens=4))
    inputs = eye.processor(text=[f"{eye.processor.image_token} {QUESTION} "], images=[picture])
    with attach(eye.model, eye.processor, budget=0.25, relevance="detail") as attachment, torch.no_grad():
        said = eye.model.generate(**inputs, max_new_tokens=4, do_sample=False)
        allocations = attachment.last
    assert sorted(one.allocation.tokens for one in answer.passes) == sorted(one.tokens for one in allocations)
    text = eye.processor.tokenizer.decode(said[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip()
    assert answer.text == text


def test_passes_need_one_grid():
    eye, picture = eye_of("internvl")
    with pytest.raises(InputError, match="several tiles"):
        Esper(eye).set_image(picture).ask(QUESTION, budget=0.9, options=Options(max_new_tokens=3))
