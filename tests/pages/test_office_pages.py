"""Office World: words and letters stand on ink, answers in their boxes, and what is written to a folder can be read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from forked import Run
from PIL import Image

from arr_coc_lab.bench.run import bench
from arr_coc_lab.worlds.office import Page, layout_names, make_page


@pytest.fixture(scope="module")
def pages() -> list[Page]:
    return [make_page("train", 9, number) for number in range(0, len(layout_names()), 5)]


def inked(pixels: np.ndarray, boxes: np.ndarray) -> float:
    """The share of these boxes, in pixels, that hold ink."""
    parts = (pixels[y0:y1, x0:x1].reshape(-1, 3).astype(int) for x0, y0, x1, y1 in boxes.round().astype(int).tolist())
    return float(np.mean([bool(len(part)) and np.ptp(part, axis=0).max() > 30 for part in parts]))


def test_words_and_letters_stand_where_their_ink_is(pages: list[Page]) -> None:
    for page in pages:
        pixels = page.pixels()
        height, width = pixels.shape[:2]
        assert inked(pixels, page.words.boxes * (width, height, width, height)) > 0.95, page.layout
        x, y = np.array([place[:2] for place in page.paper.letters() if place[2].isalnum()]).T
        here = (x > 4) & (y > 6) & (x < width - 4) & (y < height - 6)
        assert inked(pixels, np.stack([x - 4, y - 6, x + 4, y + 6], 1)[here]) > 0.95, page.layout


def test_answers_are_the_words_inside_their_boxes(pages: list[Page]) -> None:
    asked = 0
    for page in pages:
        middles = (page.words.boxes[:, :2] + page.words.boxes[:, 2:]) / 2
        for one in page.questions:
            boxes = page.boxes(one.answer)[:, None]
            inside = ((middles > boxes[..., :2]) & (middles < boxes[..., 2:])).all(-1).any(0)
            words = " ".join(np.array(page.words.texts)[inside])
            asked += 1
            assert words.replace(" ", "").strip(".,:;") == one.answer.text.replace(" ", "").strip(".,:;"), one
    assert asked > 100


def test_the_command_writes_pages_with_words_and_records_that_the_bench_reads(run: Run, tmp_path: Path) -> None:
    names = "pie,letter_block"
    for workers, out in ((1, tmp_path / "one"), (2, tmp_path / "two")):
        how = ("--n", 3, "--seed", 4, "--layouts", names, "--workers", workers, "--out", out)
        assert run("pages", *how).code == 0
    one, two = ((tmp_path / name / "records.jsonl").read_text() for name in ("one", "two"))
    assert one == two
    records = [json.loads(line) for line in one.splitlines()]
    assert {record["source"] for record in records} == {"pages/pie", "pages/letter_block"}
    assert Image.open(tmp_path / "one" / records[0]["image"]).size == (records[0]["w"], records[0]["h"])
    report = bench("real", data=str(tmp_path / "one"), limit=("4",), keeps="1/4", relevance=("words", "uniform"))
    words, uniform = (
        np.mean([cell.estimate.value for cell in report.cells if cell.system == name and cell.score == "coverage"])
        for name in ("words", "uniform")
    )
    assert words > uniform
