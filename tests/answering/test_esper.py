"""Looking again: every pass sees all that was seen before and more, the budget holds, and sure answers stop."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from tiny_models import picture, tiny_model, tiny_processor
from tiny_weights import needs_weights, signs

from arr_coc import Esper, Eye, InputError
from arr_coc.answering.esper import PRESETS, PassSettings
from arr_coc.answering.light import quick_eye
from arr_coc.balancing.law import read_law
from arr_coc.options import Options

NEVER_SURE = PassSettings(passes=4, least=4, stop=0.0, gain=0.0)


def tiny_eye(**how) -> Eye:
    return Eye(tiny_model(), tiny_processor(), relevance="detail", **how)


@pytest.mark.parametrize("settings", [NEVER_SURE, PassSettings(passes=3, least=3, fovea=2.0, inhibition=1.0)])
def test_every_pass_sees_what_was_seen_before_and_more(settings: PassSettings):
    esper = Esper(tiny_eye(), settings).set_image(picture(256, 320))
    answer = esper.ask("what is there", budget=0.9, options=Options(max_new_tokens=2))
    levels = [one.allocation.level_map() for one in answer.passes]
    assert len(levels) == settings.passes
    for before, after in pairwise(levels):
        assert (after <= before).all()
        assert (after < before).any()
    assert answer.tokens == sum(one.tokens for one in answer.passes)
    assert answer.text == answer.passes[-1].text


@pytest.mark.parametrize("budget", [12, 40, 70])
def test_all_passes_together_keep_the_budget(budget: int):
    answer = (
        Esper(tiny_eye(), NEVER_SURE)
        .set_image(picture(256, 320))
        .ask("what", budget, options=Options(max_new_tokens=1))
    )
    assert answer.tokens <= budget


def test_one_pass_is_a_plain_question_and_an_unlimited_one_sees_everything():
    eye = tiny_eye().set_image(picture(128, 192))
    esper = Esper(tiny_eye(), NEVER_SURE).set_image(picture(128, 192))
    once = esper.ask("what", 8, passes=1, options=Options(max_new_tokens=3))
    plain = eye.ask("what", budget=2 * (2 * 8 // 4), options=Options(max_new_tokens=3))
    assert (once.text, once.allocation) == (plain.text, plain.allocation)
    last = esper.ask("what", budget=1.0, options=Options(max_new_tokens=1)).allocation
    assert last.tokens < eye.full


def test_the_explore_tension_of_the_question_says_how_much_a_later_pass_explores():
    explored = []
    for stands in (0.2, 0.8):
        tensions = {"compress_particularize": 0.5, "exploit_explore": stands, "focus_diversify": 0.5}
        options = Options(max_new_tokens=1, balancing=read_law().held(tensions))
        answer = Esper(tiny_eye(), NEVER_SURE).set_image(picture(256, 320)).ask("what", 40, options=options)
        explored.append([one.exploration for one in answer.passes])
    assert len(explored[0]) > 1
    for little, much in zip(*explored, strict=True):
        assert much == pytest.approx(4 * little, rel=1e-4)


@needs_weights
def test_a_sure_answer_stops_with_torch_and_without():
    question = "What does the pink sign say?"
    quick = Esper(quick_eye(), "four_pass").set_image(signs()).ask(question, 300)
    stock = Esper.from_pretrained("mini").set_image(signs()).ask(question, 300)
    assert (quick.text, len(quick.passes)) == (stock.text, len(stock.passes))
    assert [one.allocation for one in quick.passes] == [one.allocation for one in stock.passes]
    assert len(quick.passes) == 1 or quick.passes[0].uncertainty > PRESETS["four_pass"].stop


def test_presets_are_those_of_ask_and_others_are_refused(tmp_path):
    eye = tiny_eye(record=tmp_path / "asked.jsonl").set_image(picture(128, 192))
    answer = eye.ask("what", budget=0.5, options=Options(preset="two_pass", max_new_tokens=1))
    assert len(answer.passes) <= 2
    (line,) = (tmp_path / "asked.jsonl").read_text().splitlines()
    assert json.loads(line)["tokens"] == answer.tokens, "all passes are one record"
    for wrong in ({"preset": "nope"}, {"preset": "two_pass", "relevance": "detail"}):
        with pytest.raises(InputError, match="preset"):
            eye.ask("what", options=Options(**wrong))
    with pytest.raises(InputError, match="eye"):
        Esper(5)
    with pytest.raises(InputError, match="unknown"):
        Esper(eye, "five_pass")
    with pytest.raises(InputError, match="no picture"):
        Esper(tiny_eye()).ask("what")


def test_what_was_asked_is_recorded_with_its_picture(tmp_path):
    eye = tiny_eye(record=tmp_path / "asked.jsonl").set_image(picture(128, 192))
    answers = [eye.ask("what", budget=6, options=Options(max_new_tokens=2)) for _ in range(2)]
    lines = [json.loads(line) for line in (tmp_path / "asked.jsonl").read_text().splitlines()]
    assert [line["answer"] for line in lines] == [answer.text for answer in answers]
    assert len(set(map(str, (tmp_path / "asked.pictures").iterdir()))) == 1
    assert np.array(lines[0]["seen"]).shape[1:] in ((4,), ())
    for wrong in ("asked.txt", tmp_path, tmp_path / "none" / "asked.jsonl", 5):
        with pytest.raises(InputError, match="record"):
            tiny_eye(record=wrong)
