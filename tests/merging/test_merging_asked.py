"""`ask` and passes of families that show a picture as tiles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from merging_families import FAMILIES, FamilyProcessor, build_model, photo

from arr_coc.answering.chat import USER, Turn
from arr_coc.answering.esper import Esper
from arr_coc.answering.eye import Eye
from arr_coc.answering.pass_settings import EsperSettings
from arr_coc.answering.tiles import TileBoard
from arr_coc.core.errors import InputError
from arr_coc.realizing.attachment import attach
from arr_coc.realizing.base import VisualGrid

TILED = ("llava_next", "smolvlm", "internvl", "ovis2", "deepseek_ocr2")
QUESTION = "w20 w21 w22"


def eye_of(name: str) -> tuple[Eye, np.ndarray]:
    (((height, width),),) = FAMILIES[name].one
    picture = photo((height, width), 5)
    return Eye(build_model(name), FamilyProcessor(name), relevance="detail").set_image(picture), picture


@pytest.mark.parametrize("name", TILED)
def test_a_picture_in_tiles_can_be_asked_about(name: str):
    eye, picture = eye_of(name)
    answer = eye.ask(QUESTION, keep=0.25, max_new_tokens=4)
    grids = eye.backbone.grids(eye.model, inputs_of(eye, picture))
    assert len(grids) > 1
    assert len(answer.passes) == len(grids)
    assert sum(one.allocation.tokens for one in answer.passes) <= 0.25 * sum(g.tokens for g in grids) + len(grids)
    assert answer.tokens < answer.full
    assert any(f"{len(grids)} tiles" in note for note in answer.notes)
    assert (answer.allocation.height, answer.allocation.width) == picture.shape[:2], "last the view of all of it"
    whole = eye.ask(QUESTION, keep=1.0, max_new_tokens=4)
    assert whole.tokens == whole.full == answer.full
    assert eye.ask(QUESTION, budget=9, max_new_tokens=1).tokens <= 9 + answer.full - sum(g.tokens for g in grids)
    with pytest.raises(InputError, match="tiles from the picture"):
        eye.ask(QUESTION, keep=0.5, scale=2)
    with pytest.raises(InputError, match="whose they are"):
        eye.ask([Turn(USER, (picture, picture, "w20"))], keep=0.5)


def inputs_of(eye: Eye, picture: np.ndarray) -> dict:
    return eye.processor(text=[f"{eye.processor.image_token} w20"], images=[picture])


@pytest.mark.parametrize("name", TILED)
def test_asked_is_what_attached_says(name: str):
    eye, picture = eye_of(name)
    answer = eye.ask(QUESTION, keep=0.25, max_new_tokens=4)
    inputs = eye.processor(text=[f"{eye.processor.image_token} {QUESTION} "], images=[picture])
    with attach(eye.model, eye.processor, keep=0.25, relevance="detail") as attachment, torch.no_grad():
        said = eye.model.generate(**inputs, max_new_tokens=4, do_sample=False)
        allocations = attachment.last
    assert sorted(one.allocation.tokens for one in answer.passes) == sorted(one.tokens for one in allocations)
    text = eye.processor.tokenizer.decode(said[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip()
    assert answer.text == text


@pytest.mark.parametrize("name", TILED)
def test_passes_look_at_all_tiles(name: str):
    eye, picture = eye_of(name)
    settings = EsperSettings(passes=3, least=3, stop=0.0, learned=False)
    esper = Esper(eye, settings).set_image(picture)
    story = esper.examine(QUESTION, keep=0.9, max_new_tokens=3)
    assert len(story.passes) == 3
    looks = [note.step for note in story.passes]
    assert [one.tokens for one in looks] == sorted(one.tokens for one in looks)
    assert looks[0].tokens < looks[-1].tokens < story.answer.full
    assert all(one.allocation.height == picture.shape[0] for one in looks)
    grids = eye.backbone.grids(eye.model, inputs_of(eye, picture))
    board = TileBoard.of(grids, eye.backbone.whole_view, None)
    assert story.passes[0].steered.shape == (grids[board.whole].rows, grids[board.whole].cols)


def test_a_board_keeps_tiles_apart():
    grids = [VisualGrid(3, 5, 96, 160), VisualGrid(4, 4, 128, 128)]
    board = TileBoard.of(grids, 0, None)
    assert (board.levels, board.side, board.tops, board.grid) == (1, 2, [0, 4, 8], (8, 6))
    leaves = np.array([[0, 0, 1], [2, 4, 0], [3, 0, 0], [4, 0, 1], [7, 3, 0], [5, 5, 0]])
    first, second = board.allocations(leaves)
    assert first.leaf_cells().tolist() == [[0, 0, 1], [2, 4, 0]], "the fourth row is no part of it"
    assert second.leaf_cells().tolist() == [[0, 0, 1], [3, 3, 0]]
    empty, _ = board.allocations(leaves[3:4])
    assert empty.tokens == 1
    maps = [
        {"relevance": torch.full((1, *one), 0.5), "glance": None, "stakes": torch.ones(1)} for one in ((3, 5), (4, 4))
    ]
    laid = board.laid(maps)["relevance"][0]
    assert laid[:3, :5].min() == laid[4:, :4].min() == 0.5
    assert float(laid.sum()) == 0.5 * (15 + 16)
