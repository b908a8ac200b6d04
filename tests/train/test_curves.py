"""The learning curve: which lines there are, and a picture of them."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from arr_coc.core.errors import InputError
from arr_coc_lab.train.curves import draw_curve, named, plot_record, series, stage_changes

CURVE = [
    {"step": 1, "seconds": 10.0, "stage": 0, "glyph 128": 0.1, "answer 128": 3.0, "right 128 full": 0.0},
    {"step": 2, "seconds": 20.0, "stage": 0, "glyph 128": 0.5, "answer 128": 1.0, "scorer": 0.9},
    {"step": 3, "seconds": 30.0, "stage": 1, "glyph 512": 0.3, "right 512 full": 0.2, "right 512 scorer": 0.4},
    {"step": 4, "seconds": 40.0, "stage": 1, "glyph 512": 0.51, "answer 512": 0.8, "right 512 scorer": 0.5},
]


def test_lines_hold_what_was_noted_and_canvases_are_in_order():
    x, y = series(CURVE, "glyph 128")
    assert (x.tolist(), y.tolist()) == ([10, 20], [0.1, 0.5])
    assert list(named([*CURVE, {"seconds": 50.0, "glyph 1024": 0.1}], r"glyph (\d+)")) == ["128", "512", "1024"]
    assert set(named(CURVE, r"right 512 (\w+)")) == {"full", "scorer"}
    assert stage_changes(CURVE) == [30]


def test_every_line_is_drawn_and_named():
    panes = draw_curve(CURVE).axes
    assert len(panes) == 4
    titles = [pane.get_title(loc="left") for pane in panes]
    assert titles[2] == "Exact match on 512 px, by allocation"
    names = {text.get_text() for text in panes[2].texts}
    assert names == {"full", "scorer"}
    (line,) = [line for line in panes[2].lines if list(line.get_xdata()) == [30, 40]]
    assert list(line.get_ydata()) == [40, 50]
    heights = sorted(text.get_position()[1] for text in panes[0].texts)
    assert heights[1] - heights[0] > 0.05


def test_the_picture_lies_beside_the_record(tmp_path):
    (tmp_path / "record.json").write_text(json.dumps({"curve": CURVE}))
    assert plot_record(tmp_path) == tmp_path / "curve.png"
    with Image.open(tmp_path / "curve.png") as picture:
        assert picture.width > 1200
    assert plot_record(tmp_path / "record.json", tmp_path / "other.png").exists()


@pytest.mark.parametrize(("text", "word"), [("{}", "record"), ("no", "record"), ('{"curve": []}', "two")])
def test_what_is_no_curve_gets_one_line(tmp_path, text, word):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(InputError, match=word):
        plot_record(tmp_path)
