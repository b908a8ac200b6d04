"""Files of words: every format gives the same words; what is broken is refused with one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import arr_coc
from arr_coc.core.errors import InputError
from arr_coc.pictures.words import read_words

HOCR = """<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1.dtd">
<html><head><meta charset="utf-8"><title></title></head><body>
 <div class='ocr_page' id='page_1' title='image "a.png"; bbox 0 0 200 100; ppageno 0'>
  <span class='ocr_line' title="bbox 10 10 90 20; baseline 0 0">
   <span class='ocrx_word' title='bbox 10 10 40 20; x_wconf 96'><strong>Due</strong></span>
   <span class='ocrx_word' title='bbox 44 10 90 20; x_wconf 91'>d&acirc;te:</span>
  </span>
  <p class='ocr_line' title="bbox 10 40 90 50"><span class='ocrx_word' title='bbox 10 40 90 50'>03/04/1997</span></p>
 </div>
 <div class='ocr_page' title='bbox 0 0 50 50'><span class='ocrx_word' title='bbox 0 0 25 25'>second</span></div>
</body></html>"""
WORDS = [
    {"text": "Due", "box": [10, 10, 40, 20]},
    {"text": "dâte:", "box": [44, 10, 90, 20]},
    {"text": "03/04/1997", "box": [10, 40, 90, 50]},
]
JSON = json.dumps({"width": 200, "height": 100, "words": WORDS})
SIZE = (100, 200)
FORMATS = {"a.hocr": HOCR, "a.json": JSON}


def written(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_words(tmp_path, name):
    words = read_words(written(tmp_path, name, FORMATS[name]), SIZE)
    assert words.texts == ("Due", "dâte:", "03/04/1997")
    np.testing.assert_allclose(
        words.boxes, [[0.05, 0.1, 0.2, 0.2], [0.22, 0.1, 0.45, 0.2], [0.05, 0.4, 0.45, 0.5]], atol=1e-6
    )
    assert words.lines[0] == words.lines[1] != words.lines[2]
    assert name in words.source
    assert words.size == (100, 200)


def test_a_format_is_known_by_its_content_not_its_name(tmp_path):
    assert read_words(written(tmp_path, "words.txt", HOCR), SIZE).texts[0] == "Due"


def test_the_picture_s_size_serves_where_the_file_has_none(tmp_path):
    path = written(tmp_path, "a.json", json.dumps(WORDS))
    assert read_words(path, SIZE).boxes[0].tolist() == pytest.approx([0.05, 0.1, 0.2, 0.2])


BROKEN = {
    "empty": b"  ",
    "a picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "plain text": b"nothing here",
    "half of a JSON": JSON[:60],
    "JSON of another kind": b'{"answer": 42}',
    "a word without a box": b'[{"text": "Total"}]',
    "a box of words": b'[["Total", ["a", "b", "c", "d"]]]',
    "boxes beyond numbers": b'{"width": 1, "height": 1, "words": [["a", [0, 0, 1e999, 1]]]}',
    "no page": b'{"width": 0, "height": 5, "words": [["a", [0, 0, 1, 1]]]}',
    "a deep nest": b"[" * 100_000 + b"]" * 100_000,
    "another encoding": '[["é", [0, 0, 1, 1]]]'.encode("latin-1"),
    "an unknown encoding": b'<?xml version="1.0" encoding="klingon"?><html/>',
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_files_are_refused_with_one_line(tmp_path, what):
    with pytest.raises(InputError) as error:
        read_words(written(tmp_path, "a.words", BROKEN[what]), SIZE)
    assert "\n" not in str(error.value)


def test_boxes_that_are_wild_are_tamed(tmp_path):
    wild = {
        "width": 100,
        "height": 100,
        "words": [["over", [-50, 90, 300, 120]], ["turned", [60, 40, 20, 30]], ["flat", [5, 5, 5, 9]]],
    }
    words = read_words(written(tmp_path, "a.json", json.dumps(wild)), SIZE)
    assert words.texts == ("over", "turned")
    assert words.boxes.min() >= 0
    assert words.boxes.max() <= 1
    assert (words.boxes[:, 2:] > words.boxes[:, :2]).all()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(FORMATS)), st.integers(0, 4000), st.integers(0, 4000), st.binary(max_size=4))
def test_a_cut_or_changed_file_gives_words_or_one_line(tmp_path_factory, name, at, end, junk):
    raw = FORMATS[name].encode()
    path = written(tmp_path_factory.mktemp("cut"), name, raw[: at % len(raw)] + junk + raw[end % len(raw) :])
    try:
        words = read_words(path, SIZE)
    except InputError:
        return
    assert len(words.texts) == len(words.boxes) == len(words.lines)
    assert np.isfinite(words.boxes).all()


def test_every_entry_point_reads_a_file_of_words_beside_a_picture(tmp_path: Path) -> None:
    """Nothing is written on the picture itself: what is answered stands in the file beside it."""
    picture = tmp_path / "page.png"
    Image.new("RGB", (640, 480), "white").save(picture)
    listed = [{"text": text, "box": [x, 20, x + 60, 40]} for text, x in (("Total:", 10), ("$36.90", 80))]
    (tmp_path / "page.words.json").write_text(json.dumps(listed))
    question, known = "What is the total?", "the words of the picture are known"
    assert known in arr_coc.look(picture, question, 12).notes[0]
    assert known in arr_coc.pack(picture, question, 64, model="qwen3-vl").notes[0]
    answer = arr_coc.ask(picture, question, 12)
    assert (answer.text, answer.source) == ("$36.90", "words")
