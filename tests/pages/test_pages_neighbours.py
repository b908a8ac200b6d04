"""Questions about what stands beside what: asked by text that is there once, answered by the text that is meant."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arr_coc_lab.worlds.pages.neighbours import nearest, neighbour_questions, pieces_of
from arr_coc_lab.worlds.pages.page import DrawnPage

#   Total due   42.00
#   Paid by     Ann Lee
#   Due
LINES = [("Total", 10, 10), ("due", 62, 10), ("42.00", 140, 10), ("Paid", 10, 34), ("by", 54, 34), ("Ann", 140, 34)]
LINES += [("Lee", 176, 34), ("Due", 10, 58)]


@dataclass(frozen=True)
class Word:
    text: str
    x: float
    y: float


def page_of(words: list[Word], family: str = "forms") -> DrawnPage:
    """Letters ten pixels wide and twelve high."""
    boxes = np.array([[w.x, w.y, w.x + 10 * len(w.text), w.y + 12] for w in words], np.uint16).reshape(-1, 4)
    return DrawnPage("p", family, "l", "train", 320, 240, b"", [w.text for w in words], boxes, boxes[:0], [])


FORM = [Word(*line) for line in LINES]


def asked(words: list[Word] = FORM, family: str = "forms") -> dict[str, dict[str, str]]:
    """{kind: {what it is asked by: answer}}, where the wording shows it."""
    found: dict[str, dict[str, str]] = {}
    for one in neighbour_questions(page_of(words, family), 200, random.Random(0)):
        found.setdefault(one.kind, {})[one.text] = one.answer
    return found


def test_words_with_a_blank_between_them_are_one_piece():
    assert pieces_of(page_of(FORM)).texts == ["Total due", "42.00", "Paid by", "Ann Lee", "Due"]
    assert pieces_of(page_of([])).texts == []


def test_beside_and_below_are_what_they_say():
    right, below = nearest(pieces_of(page_of(FORM)).boxes)
    assert right.tolist() == [1, -1, 3, -1, -1]
    assert below.tolist() == [2, 3, 4, -1, -1]
    found = asked()
    assert all(("Total due" in text) == (answer == "42.00") for text, answer in found["right"].items())
    assert not any("Ann Lee" in text for text in found["below"]), "nothing stands below it"
    assert set(found["below"].values()) == {"Paid by", "Ann Lee", "Due"}
    assert set(found["next"].values()) == {"due", "by", "Lee"}
    assert set(found["begins"].values()) == {"Total", "42.00"}


def test_a_label_is_asked_for_where_one_thing_only_can_belong_to_it():
    # Something stands beside and below the first two; under the third there is only another label.
    assert "field" not in asked()
    assert asked(FORM[:3])["field"].popitem()[1] == "42.00"
    assert "field" not in asked(FORM[:3], "bars")


def test_what_is_there_twice_is_nothing_to_ask_by():
    words = [Word("Paid", 10, 10), Word("by", 54, 10), Word("paid", 10, 90), Word("to", 54, 90)]
    assert "next" not in asked(words)
    assert set(asked(words[:2])["next"].values()) == {"by"}


def test_none_are_made_where_none_are_wanted():
    assert neighbour_questions(page_of(FORM), 0, random.Random(0)) == []


# Few words, so that many are there twice.
letters = st.one_of(st.sampled_from(["total", "due", "paid", "Total"]), st.text("abcdefgh", min_size=1, max_size=9))


@given(st.lists(st.tuples(letters, st.integers(0, 20), st.integers(0, 8)), max_size=30), st.integers(0, 9))
def test_every_question_is_asked_by_what_is_there_once_and_answered_by_what_its_box_holds(words, seed):
    placed = [Word(text, 12 * column, 20 * row) for text, column, row in words]
    page = page_of(placed)
    pieces = pieces_of(page)
    assert len(neighbour_questions(page, 2, random.Random(seed))) <= 2
    for one in neighbour_questions(page, 40, random.Random(seed)):
        # What it is asked by: a piece, or for what follows and what begins a word.
        single = one.kind in ("next", "begins")
        texts = [w.text for w in placed] if single else pieces.texts
        there = page.word_boxes.tolist() if single else pieces.boxes.tolist()
        by = {text for text, other in zip(texts, there, strict=True) if other == one.context[0].tolist()}
        assert any(texts.count(text) == 1 for text in by)
        box = one.boxes[0].tolist()
        texts = [text for text, other in zip(pieces.texts, pieces.boxes, strict=True) if other.tolist() == box]
        texts += [w.text for w, other in zip(placed, page.word_boxes.tolist(), strict=True) if other == box]
        assert one.answer in texts
        if one.kind == "right":
            assert box[0] > one.context[0, 2]
        if one.kind == "below":
            assert box[1] > one.context[0, 1]
