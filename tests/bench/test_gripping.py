"""The grip of a model is measured on drawn texts, goes on where it was stopped, and the bench of it has its bars."""

from __future__ import annotations

import json

import numpy as np
import pytest

from arr_coc.allocation.grip import Grip
from arr_coc.core.values import Answer
from arr_coc.sensing.type_height import type_height
from arr_coc_lab.bench import gripping
from arr_coc_lab.bench.grip import AUTO, LARGER_AUTO, NEEDLE, ONE, SCALES, SEVERAL, bars_of, enlarged, ways_at
from arr_coc_lab.bench.gripping import TextCell, measure, sample


class Reader:
    """Reads letters of 10 to 20 pixels on canvases of less than 2 000, and nothing else."""

    def __init__(self) -> None:
        self.asked = 0

    def set_image(self, pixels):
        self.pixels = pixels
        return self

    def ask(self, question, budget, relevance=None, max_new_tokens=64):
        self.asked += 1
        assert relevance.max() == 1
        return Answer(self.text, 0.1)


@pytest.fixture
def reader(monkeypatch):
    made, drawn = Reader(), gripping.sample

    def remembered(cell, seed=gripping.SEED):
        found = drawn(cell, seed)
        if found is not None:
            made.text = found.answer if 10 <= cell.height <= 20 and cell.side < 2000 else "?"
        return found

    monkeypatch.setattr(gripping, "sample", remembered)
    return made


def test_texts_are_drawn_at_the_height_they_should_have_and_again_alike():
    for height in (11, 23):
        found, again = (sample(TextCell(height, 512, 0)) for _ in range(2))
        np.testing.assert_array_equal(found.pixels, again.pixels)
        x0, y0, x1, y1 = found.box
        part = found.pixels[int(y0 * 512) : int(y1 * 512) + 1, int(x0 * 512) : int(x1 * 512) + 1]
        ink = np.flatnonzero((part < part.max() - 60).any(axis=(1, 2)))
        assert height <= np.ptp(ink) + 1 <= 1.6 * height
    assert sample(TextCell(96, 128, 0)) is None


def test_the_curve_of_a_reader_is_found(reader, tmp_path):
    found = measure(reader, "small", number=2)
    assert 9 < found["range"][0] < 14
    assert 14 < found["range"][1] < 22
    assert found["largest"] == 1536
    path = tmp_path / "grip.json"
    path.write_text(json.dumps(found))
    assert Grip.load(path, "small").best == found["best"]


def test_what_was_answered_is_not_asked_again(reader, tmp_path):
    kept = tmp_path / "kept.jsonl"
    first = measure(reader, "small", number=2, kept=kept)
    asked = reader.asked
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join(lines[:-3]) + '\n{"cell": "11 51')
    again = measure(reader, "small", number=2, kept=kept)
    assert again == first
    assert reader.asked - asked <= 4


def test_the_bars_are_told_with_what_was_measured():
    scores = {}
    for source in ("funsd", "pages", NEEDLE):
        for way in ways_at(0.125):
            scores[source, way.key] = np.full(8, 0.5)
        scores[source, f"{AUTO} 0.125"] = np.full(8, 0.6)
        scores[source, f"{SEVERAL} 0.125"] = np.full(8, 0.61)
    scores["pages", f"{LARGER_AUTO} 0.125"] = np.full(8, 0.4)
    found = {
        name: (round(quantity.value, 3), holds)
        for name, quantity, _, holds in bars_of(scores, ["funsd", "pages", NEEDLE])
    }
    assert found["mean of the pages: auto minus ×1"] == (10.0, "kept")
    assert found[f"mean of the pages: {SEVERAL} minus one reading"] == (1.0, "missed")
    assert found["pages upscaled, auto, minus as they are, auto"] == (-20.0, "missed")
    assert found["needle: auto minus ×1"][1] == "kept"
    assert len([name for name in found if "best size" in name]) == 2
    assert {f"×{scale:g}" for scale in SCALES} | {ONE, AUTO, SEVERAL} <= {way.name for way in ways_at(0.125)}


def test_an_enlarged_picture_is_as_if_given_so():
    from arr_coc.pictures.load import load_picture

    picture = load_picture(np.zeros((20, 30, 3), np.uint8))
    assert enlarged(picture, 1) is picture
    assert enlarged(picture, 2).size == (40, 60)
    assert not type_height(enlarged(picture, 2).pixels)
