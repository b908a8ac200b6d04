"""Real pictures: coverage and gaze against brute force, and the whole bench on two drawn pictures."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from arr_coc.app.cli import bench_real
from arr_coc.attending.allocate import allocate
from arr_coc.errors import InputError
from arr_coc.lab.bench import real
from arr_coc.lab.bench.real import (
    Values,
    correlation,
    coverage,
    fixation_map,
    load_records,
    measure_real,
    narrow_table,
    real_table,
    scanpath_hits,
    scanpath_saliency,
    steps_of,
)

SIZE = (320, 448)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9999))
def test_coverage_is_what_counting_pixels_gives(seed):
    generator = np.random.default_rng(seed)
    relevance = generator.random((10, 14)).astype(np.float32) ** 6
    allocation = allocate(relevance, int(generator.integers(20, 120)), image_size=SIZE)
    x0, y0 = generator.integers(0, 400), generator.integers(0, 280)
    x1, y1 = generator.integers(x0 + 1, 449), generator.integers(y0 + 1, 321)
    box = np.array([[x0 / SIZE[1], y0 / SIZE[0], x1 / SIZE[1], y1 / SIZE[0]]])
    for level in (0, 1):
        seen = np.zeros(SIZE, bool)
        for y, x, height, width in allocation.boxes[allocation.levels <= level]:
            seen[y : y + height, x : x + width] = True
        wanted = float(seen[y0:y1, x0:x1].mean())
        assert coverage(allocation, box, level=level) == pytest.approx(wanted, abs=1e-6)
    other = np.concatenate([box, [[0, 0, 1, 1]]])
    whole = coverage(allocation, other[1:])
    best = max(coverage(allocation, box), whole)
    assert coverage(allocation, other, any_of=True) == pytest.approx(best, abs=1e-6)


def test_people_are_agreed_with_where_the_map_is_high():
    looked = np.array([[0.25, 0.25, 300.0], [0.26, 0.24, 200.0], [1.2, 0.5, 900.0]])
    there, elsewhere = np.zeros((40, 40)), np.zeros((40, 40))
    there[8:13, 8:13] = 1
    elsewhere[30:35, 30:35] = 1
    seen = fixation_map(looked, (40, 40))
    assert np.unravel_index(seen.argmax(), seen.shape) == pytest.approx((10, 10), abs=1)
    assert correlation(there, seen) > 0.5 > 0 > correlation(elsewhere, seen)
    assert scanpath_saliency(there, looked) > 1 > 0 > scanpath_saliency(elsewhere, looked)
    assert math.isnan(correlation(np.ones((40, 40)), seen))
    fine = np.zeros((10, 14), np.float32)
    fine[2:4, 2:4] = 1
    allocation = allocate(fine, 20, image_size=SIZE)
    path = [[0.9, 0.9], [3 / 14, 3 / 10], [0.99, 0.99]]
    assert scanpath_hits(allocation, [path]) == 0.5, "the first does not count, one of the others is seen in full"
    assert math.isnan(scanpath_hits(allocation, [[[0.5, 0.5]]]))


@pytest.fixture
def folder(tmp_path):
    """A red disc on grey, and stripes: one with boxes and paths, one with fixations."""
    (tmp_path / "img").mkdir()
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    disc = np.full((*SIZE, 3), 120, np.uint8)
    disc[(y - 80) ** 2 + (x - 330) ** 2 < 40**2] = (220, 30, 30)
    Image.fromarray(disc).save(tmp_path / "img" / "disc.png")
    Image.fromarray(np.repeat(((x // 8) % 2 * 255).astype(np.uint8)[..., None], 3, 2)).save(
        tmp_path / "img" / "bars.png"
    )
    box = [290 / SIZE[1], 40 / SIZE[0], 370 / SIZE[1], 120 / SIZE[0]]
    common = {"answer": "", "w": SIZE[1], "h": SIZE[0], "ctx_boxes": []}
    lines = [
        {"source": "discs", "image": "img/disc.png", "query": "Where is the red disc?", "boxes": [box], "any_of": False,
         "scanpaths": [[[0.5, 0.5], [330 / SIZE[1], 80 / SIZE[0]]]], **common},
        {"source": "discs", "image": "img/disc.png", "query": "the grey ground", "boxes": [[0, 0.8, 0.2, 1]],
         "any_of": True, **common},
        {"source": "bars", "image": "img/bars.png", "query": "(free viewing)", "boxes": [],
         "fixations": [[0.5, 0.5, 200], [0.4, 0.6, 100]], **common},
    ]  # fmt: skip
    (tmp_path / "records.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    return tmp_path


def test_the_bench_covers_what_is_asked_for(folder):
    records = load_records(folder)
    steps: list[str] = []
    values = measure_real(records, folder / "no scorer", steps.append)
    assert steps == steps_of(records) == ["discs, picture 1 of 1", "bars, picture 1 of 1"]
    table = real_table(values)
    rows = {(row["source"], row["measure"], row["system"]): row for row in table.rows}
    asked = [value for _, value in values.found["discs", "coverage", "look", 0.25]]
    assert asked[0] > 0.9, "the question names a colour that is there"
    assert values.found["discs", "coverage", "uniform", 0.25][0][1] == 0
    assert rows["discs", "coverage at half size", "uniform"]["quarter"].value > 90  # type: ignore[union-attr]
    assert rows["discs", "coverage", "look"]["n"] == 2
    assert rows["discs", "coverage", "look"]["pictures"] == 1
    assert values.found["discs", "scanpath hits", "look", 0.25][0][1] == 1
    assert ("bars", "correlation with fixations", "center") in rows
    assert not any(key[0] == "bars" and "coverage" in key[1] for key in rows)
    assert "not held out" in table.facts["tuned"]


def test_a_long_run_keeps_what_it_has(folder, monkeypatch):
    monkeypatch.setattr(real, "KEPT_EVERY", 1)
    kept: list[tuple[set[str], int]] = []

    def keep(values: Values, pictures: int) -> None:
        kept.append(({key[0] for key in values.found}, pictures))

    measure_real(load_records(folder), folder / "no scorer", keep=keep)
    assert kept == [({"discs"}, 1)], "after the first of two pictures; the rest is the result itself"


def test_the_table_fits_a_terminal(folder):
    table = real_table(measure_real(load_records(folder), folder / "no scorer"))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(narrow_table(table).to_rich())
    shown = console.export_text()
    assert "…" not in shown
    for row in table.rows:
        assert str(row["system"]) in shown
        assert str(row["measure"]) in shown


def test_the_interval_is_over_pictures_and_stays_within_shares():
    values = Values()
    for picture, value in (("a", 0.0), ("a", 1.0), ("b", 1.0), ("c", 0.9)):
        values.add("s", "coverage", "look", 0.25, Path(picture), value)
    estimate, questions, pictures = values.estimate(("s", "coverage", "look", 0.25))  # type: ignore[misc]
    assert (questions, pictures) == (4, 3)
    assert estimate.value == pytest.approx((0.5 + 1 + 0.9) / 3)
    cell = real_table(values).rows[0]["quarter"]
    assert cell.high <= 100  # type: ignore[union-attr,operator]


def test_the_command_writes_and_skips_and_explains(folder, tmp_path, capsys):
    bench_real.real(folder, limit=1, source=["discs"], scorer=folder / "none", out=tmp_path / "out", as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "real.json").read_text())
    assert {row["source"] for row in printed["rows"]} == {"discs"}
    bench_real.real(tmp_path / "not there")
    assert "skipped" in capsys.readouterr().err
    (folder / "records.jsonl").write_text('{"source": "x"}')
    with pytest.raises(InputError, match="line 1"):
        bench_real.real(folder)
    (folder / "records.jsonl").write_text("")
    with pytest.raises(InputError, match="no record of y"):
        bench_real.real(folder, source=["y"])
