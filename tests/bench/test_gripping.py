"""The grip of a model is measured on drawn texts, and a run that was stopped resumes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from arr_coc.attending.grip import Grip
from arr_coc.core.answer import Answer
from arr_coc_lab.calibrate import gripping
from arr_coc_lab.calibrate.gripping import TextCell, measure, sample


class Reader:
    """Reads letters of 10 to 20 pixels on canvases of less than 2 000, and nothing else."""

    def __init__(self) -> None:
        self.asked = 0

    def set_image(self, pixels):
        self.pixels = pixels
        return self

    def ask(self, question, budget, options):
        self.asked += 1
        assert options.relevance.max() == 1
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
