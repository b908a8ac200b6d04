"""An answer that is probably wrong says so, its page shows what was said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from arr_coc.app.cli.ask import print_answer
from arr_coc.attending.allocate import allocate
from arr_coc.core.unsure import is_unsure, sureness_words
from arr_coc.core.values import Answer, Pass
from arr_coc.draw import homunculus
from arr_coc.draw.homunculus import answer_words, words_seen
from arr_coc.draw.panes import heat
from arr_coc.pictures.words import make_words


def answered(text: str, uncertainty: float) -> Answer:
    grid = np.zeros((6, 8), np.float32)
    grid[2, 3] = 1
    allocation = allocate(grid, 12, image_size=(192, 256))
    return Answer(
        text,
        uncertainty,
        (Pass(allocation, 12, text=text, uncertainty=uncertainty, entropy=0.1, margin=0.5),),
        {"answer": 0.1},
        48,
    )


@pytest.mark.parametrize(("uncertainty", "told"), [(1.0, True), (0.5, True), (0.3, False), (0.02, False)])
def test_an_unsure_answer_warns_in_words(uncertainty: float, told: bool, capsys: Any) -> None:
    print_answer("a.png", "Who wrote it?", answered("C. Korneliz", uncertainty), {})
    out = capsys.readouterr().out
    assert ("probably wrong" in out) is told
    assert is_unsure(uncertainty) is told
    assert sureness_words(uncertainty).partition(",")[0] in out


def test_the_page_of_an_answer_shows_it_and_the_words_that_earned_the_tokens() -> None:
    answer = answered("COFFEE", 0.02)
    pixels = np.full((192, 256, 3), 255, np.uint8)
    plain = np.asarray(homunculus(pixels, answer.allocation, query="What?"))
    told = np.asarray(homunculus(pixels, answer.allocation, query="What?", answer=answer, truth="COFFEE"))
    assert told.shape[0] > plain.shape[0], "a line more"
    assert answer_words(answer, "TEA") == "Answer: COFFEE (sure, uncertainty 0.02); truth: TEA"
    best = answer.allocation.boxes[np.argmax(answer.allocation.scores)]
    top, left, high, wide = (best / (192, 256, 192, 256)).tolist()
    words = make_words(["here", "there"], [[left, top, left + wide, top + high], [0.9, 0.9, 0.95, 0.95]])
    assert words_seen(answer.allocation, words)[0] == "here"
    named = np.asarray(homunculus(pixels, answer.allocation, query="What?", answer=answer, words=words))
    assert named.shape[0] > told.shape[0]


def test_a_map_of_one_small_place_is_no_black_pane() -> None:
    values = np.zeros((12, 16), np.float32)
    values[3, 4] = 1.0
    pane = heat(values, (120, 160), np.full((120, 160, 3), 200, np.uint8))
    far = pane[100, 140].astype(float)
    assert far.mean() > 60
    assert np.ptp(pane[35, 45].astype(float)) > 60, "what is relevant keeps its colour"
