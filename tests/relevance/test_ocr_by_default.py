"""Words by OCR without being asked for: weighed with the scorer where they pay, told, and left out on wish."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image, ImageDraw
from plain_pages import cloudy

from arr_coc import InputError, ask, look
from arr_coc.answering.eye import Eye
from arr_coc.answering.pages import COPIED, READ, READ_BOTH, settled
from arr_coc.balancing.choosing import choose_source, relevance_for
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.words import reading
from arr_coc.knowing.words.answer import WordsAnswer, copied_answer
from arr_coc.looking import examine, prepare
from arr_coc.options import Options
from arr_coc.pictures.ocr import MOST_LINES, ocr_words
from arr_coc.pictures.words import OCR, make_words
from arr_coc_lab.worlds.needle import render

HEADS, ROWS = ("Region", "Spring", "Summer", "Autumn"), ("North", "South", "East", "West")
QUERY = "What is the value of South in Summer?"


def table() -> tuple[np.ndarray, list[str], list[tuple[float, ...]]]:
    """A page with a table, its words and their boxes in pixels."""
    picture = Image.new("RGB", (640, 512), "white")
    pen = ImageDraw.Draw(picture)
    texts, boxes = [], []

    def write(x: int, y: int, text: str) -> None:
        pen.text((x, y), text, "black", font_size=18)
        texts.append(text)
        boxes.append(tuple(map(float, pen.textbbox((x, y), text, font_size=18))))

    for column, head in enumerate(HEADS):
        write(40 + 150 * column, 40, head)
    for row, name in enumerate(ROWS):
        write(40, 90 + 40 * row, name)
        for column in range(1, 4):
            write(40 + 150 * column, 90 + 40 * row, str(211 + 137 * row + 29 * column))
    for line in range(5):
        pen.text((40, 300 + 36 * line), "All figures are in thousands and were not audited.", "black", font_size=16)
    return np.asarray(picture), texts, boxes


def read_table() -> Scene:
    """The same as OCR would hand it on."""
    pixels, texts, boxes = table()
    return Scene(pixels, words=make_words(texts, boxes, size=pixels.shape[:2], source=OCR))


def at(plane: np.ndarray, box: tuple[float, ...], size: tuple[int, ...]) -> float:
    """The mean of a map over a box in pixels."""
    rows, cols = plane.shape
    x0, x1 = (int(box[side] / size[1] * cols) for side in (0, 2))
    y0, y1 = (int(box[side] / size[0] * rows) for side in (1, 3))
    return float(plane[y0 : y1 + 1, x0 : x1 + 1].mean())


def test_words_that_were_read_are_weighed_with_the_scorer_and_given_ones_decide_alone():
    scene = read_table()
    source, why = choose_source(scene, QUERY)
    assert source.name == "weighed"
    assert why.startswith("scorer and words may know")
    found = relevance_for("auto", scene, QUERY)
    assert any(note.startswith("weighed: ") and "words" in note and "scorer" in note for note in found.notes)
    both = [relevance_for(name, scene, QUERY).map for name in ("scorer", "words")]
    assert not any(one.shape == found.map.shape and np.array_equal(one, found.map) for one in both)
    given = dataclasses.replace(scene.words, source="given")
    assert choose_source(dataclasses.replace(scene, words=given), QUERY)[0].name == "words"


def test_photographs_empty_paper_and_tiny_print_are_not_read():
    page = Scene(table()[0])
    assert reading.reading_pays(page)
    assert not reading.reading_pays(Scene(cloudy(401, 613)))
    assert not reading.reading_pays(Scene(np.full((512, 512, 3), 255, np.uint8)))
    small = np.asarray(Image.fromarray(page.pixels).resize((128, 102), Image.Resampling.BOX))
    assert not reading.reading_pays(Scene(small))


def test_with_most_of_the_picture_shown_nothing_is_read():
    assert Options(budget=0.25).reads(400) == MOST_LINES
    assert Options(budget=0.25, ocr=40).reads(400) == 40
    assert not Options(budget=0.75).reads(400)
    assert not Options(budget=0.25, ocr=False).reads(400)
    assert not Options(budget=0.25).reads(400, "scorer")
    with pytest.raises(InputError, match="ocr"):
        look(table()[0], QUERY, options=Options(ocr="no"))


def test_an_answer_copied_from_what_ocr_read_is_marked():
    scene = read_table()
    copied = copied_answer(scene.words, QUERY)
    assert copied.text == str(211 + 137 + 29 * 2), "row × column"
    assert copied.by_ocr
    pixels = ask(scene.pixels, QUERY, budget=0.25, options=Options(ocr=False))
    sure, other = WordsAnswer("8", 0.99, copied.boxes, True), WordsAnswer("8", 0.99, copied.boxes)
    said = dataclasses.replace(pixels, text="7", uncertainty=0.6)
    assert settled(said, sure, QUERY).source == READ
    assert "words that OCR read" in settled(said, sure, QUERY).notes[-1]
    assert settled(said, other, QUERY).source == COPIED
    assert settled(dataclasses.replace(said, text="8"), sure, QUERY).source == READ_BOTH
    glued = WordsAnswer("Fresh& Co", 0.9, copied.boxes, True)
    assert settled(dataclasses.replace(said, text="Fresh & Co"), glued, QUERY).text == "Fresh & Co", "a missed space"


def test_look_and_ask_read_a_page_once_and_tell_the_seconds(tmp_path, monkeypatch):
    pixels, texts, boxes = table()
    prepared = prepare(pixels)
    first, again = (prepared.look(QUERY, Options(budget=0.1)) for _ in range(2))
    assert any("(OCR, " in note and " lines, " in note and " s)" in note for note in first.notes)
    assert any("lines, read before)" in note for note in again.notes)
    assert first.seconds["read"] > again.seconds["read"]
    answer = boxes[texts.index("406")]
    assert at(first.relevance.map, answer, pixels.shape) > 5 * first.relevance.map.mean()
    off = examine(pixels, QUERY, Options(budget=0.1, ocr=False))
    assert "read" not in off.seconds
    assert np.array_equal(off.relevance.map, relevance_for("scorer", Scene(pixels), QUERY).map)
    eye = Eye.from_pretrained("mini").set_image(pixels)
    assert any("lines, read before)" in note for note in eye.ask(QUERY, budget=0.1).notes)
    assert eye.ask(QUERY, budget=0.1, options=Options(ocr=False)).source == "pixels"
    assert not any("OCR" in note for note in eye.ask(QUERY, budget=0.1, options=Options(ocr=False)).notes)


def test_a_picture_with_few_letters_is_no_page():
    batch = render("zoo", 1, (512, 512), 7, "test")
    scene = Scene(batch.pictures[0].permute(1, 2, 0).contiguous().numpy(), ocr=12)
    assert reading.reading_pays(scene), "by its pixels it may have letters enough"
    assert 0 < sum(map(len, ocr_words(scene.pixels).texts)) < reading.LEAST_LETTERS
    assert reading.with_words(scene, batch.questions[0]).words is None
