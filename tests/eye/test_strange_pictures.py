"""`mini`, asked about a photograph, says that it has never seen one; asked about what was drawn, it does not."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_weights import tiny_weights

from arr_coc import Eye
from arr_coc.answering.esper import Esper
from arr_coc.options import Options
from arr_coc.pictures.load import load_picture
from arr_coc.realizing.bundled import marked

NOISE = np.random.default_rng(0).integers(0, 256, (128, 128, 3), dtype=np.uint8)
PAGE = np.full((128, 128, 3), 255, np.uint8)
LINE = "has only ever seen drawn pictures"


@pytest.fixture(scope="module")
def eye(tmp_path_factory) -> Eye:
    return Eye.from_pretrained(str(tiny_weights(tmp_path_factory.mktemp("eye")) / "mini"))


@pytest.mark.parametrize(("pixels", "strange"), [(NOISE, True), (PAGE, False)])
def test_the_answer_says_so_in_one_pass_and_in_several(eye, pixels, strange):
    one = eye.set_image(pixels).ask("what?", 8, options=Options(max_new_tokens=1))
    several = Esper(eye).set_image(pixels).ask("what?", 8, passes=1, options=Options(max_new_tokens=1))
    for answer in (one, several):
        assert any(LINE in note for note in answer.notes) == strange
        assert any(LINE in note for note in answer.to_json()["notes"]) == strange


def test_a_model_that_is_not_ours_is_not_judged():
    assert marked(load_picture(NOISE), None).notes == ()
