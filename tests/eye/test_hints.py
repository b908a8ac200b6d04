"""Words that are known: in the prompt of a stock model, copied beside the reading of `mini`, and off when told so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_models import picture, save_stock

from arr_coc import Eye, InputError, ask
from arr_coc.answering.pages import BOTH, COPIED, MOST_HINTS, PIXELS, hint_text, seen_words, settled
from arr_coc.core.answer import Answer
from arr_coc.knowing.words.answer import WordsAnswer
from arr_coc.looking import look
from arr_coc.options import Options
from arr_coc.pictures.words import make_words

ROWS = (("Subtotal", "$120.00"), ("Tax", "$24.00"), ("Total", "$144.00"))


def words():
    texts, boxes = [], []
    for row, line in enumerate(ROWS):
        for column, word in enumerate(line):
            texts.append(word)
            boxes.append([40 + 200 * column, 60 + 50 * row, 120 + 200 * column, 80 + 50 * row])
    return make_words(texts, np.array(boxes, float), size=(256, 384), source="a test")


@pytest.fixture(scope="module")
def stock(tmp_path_factory) -> Eye:
    return Eye.from_pretrained(str(save_stock(tmp_path_factory.mktemp("stock"))), relevance="words")


def test_a_stock_model_reads_the_words_in_its_prompt_and_their_price_is_told(stock):
    eye = stock.set_image(picture(256, 384))
    plain = eye.prepare("What is the total?", Options(budget=24, words=words(), hints="none"))
    helped = eye.prepare("What is the total?", Options(budget=24, words=words()))
    assert [one.to_json() for one in plain.plan.allocations] == [one.to_json() for one in helped.plan.allocations]
    more = helped.inputs["input_ids"].shape[1] - plain.inputs["input_ids"].shape[1]
    assert more > 0
    note = next(note for note in helped.plan.notes if "text tokens" in note)
    assert abs(int(note.split(": ")[1].split()[0]) - more) <= 2, "a tokenizer may join the ends of two texts"
    assert not any("text tokens" in note for note in plain.plan.notes)
    said = eye.ask("What is the total?", 24, options=Options(words=words(), max_new_tokens=4))
    assert (said.source, said.tokens) == (PIXELS, plain.plan.allocations[0].tokens)


def test_hints_are_the_words_in_detail_in_reading_order():
    known = words()
    allocation = look(np.full((256, 384, 3), 255, np.uint8), "total", 12, relevance="words", words=known)
    text = hint_text(known, allocation)
    assert "Total $144.00" in text
    everything = look(np.full((256, 384, 3), 255, np.uint8), "total", budget=1.0)
    assert hint_text(known, everything).splitlines()[1:] == [" ".join(row) for row in ROWS]
    many = make_words(["a"] * 900, np.tile([[10.0, 10, 20, 20]], (900, 1)), size=(256, 384), source="a test")
    assert len(seen_words(many, everything)) == MOST_HINTS


def test_mini_copies_what_it_cannot_read_and_says_so():
    blank = np.full((256, 384, 3), 255, np.uint8)
    helped = ask(blank, "What is the total?", 24, words=words())
    assert (helped.text, helped.source) == ("$144.00", COPIED)
    assert any("copied from the page's words" in note for note in helped.notes)
    assert helped.to_json()["source"] == COPIED
    alone = ask(blank, "What is the total?", 24, words=words(), options=Options(hints="none"))
    assert alone.source == PIXELS
    assert alone.text != "$144.00"
    eye = Eye.from_pretrained("mini").set_image(blank)
    held = {}

    def spoken():
        held["answer"] = yield from eye.stream("What is the total?", 24, options=Options(words=words()))

    assert "".join(spoken()) == "$144.00"
    assert held["answer"].source == COPIED


@pytest.mark.parametrize(
    ("said", "doubt", "written", "sureness", "text", "source"),
    [
        ("$ 144.00", 0.4, "$144.00", 0.5, "$144.00", BOTH),
        ("841", 0.7, "$144.00", 0.5, "$144.00", COPIED),
        ("841", 0.2, "$144.00", 0.5, "$144.00", COPIED),
        ("COFFEE", 0.02, "TEA", 0.3, "COFFEE", PIXELS),
    ],
)
def test_the_surer_of_two_readings_wins_and_agreement_is_surer(said, doubt, written, sureness, text, source):
    answer = settled(Answer(said, doubt), WordsAnswer(written, sureness, np.zeros((1, 4))), "Which is it?")
    assert (answer.text, answer.source) == (text, source)
    if source == BOTH:
        assert answer.uncertainty < min(doubt, 1 - sureness)
    else:
        assert answer.uncertainty >= min(doubt, 1 - sureness), "who is contradicted is no surer for it"


@pytest.mark.parametrize("query", ["What colour is the bar of May?", "What is on the pink sign?", "Ist der Tiger da?"])
def test_what_is_seen_and_not_written_is_read_from_pixels(query):
    copied = WordsAnswer("Tiger", 0.8, np.zeros((1, 4)))
    assert settled(Answer("blue", 0.05), copied, query).text == "blue"
    assert settled(Answer("blue", 0.05), copied, "Which animal is named?").text == "Tiger"


@pytest.mark.parametrize("wrong", ["yes", "", 5, True])
def test_a_wrong_hint_is_told_at_once(wrong):
    with pytest.raises(InputError, match="hints="):
        ask(Path("no such picture.png"), "What is it?", options=Options(hints=wrong))
