"""Real pictures: coverage, tokens and gaze against brute force, and the whole bench on two drawn pictures."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
from arr_coc_lab.bench.workers import done_by
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from arr_coc.app.cli import main
from arr_coc.attending.allocate import allocate
from arr_coc.core.errors import InputError
from arr_coc_lab.bench import real
from arr_coc_lab.bench.real import (
    MeasuredValues,
    PictureWork,
    QuestionMeasures,
    System,
    by_picture,
    correlation,
    coverage,
    fixation_map,
    load_records,
    narrow_table,
    pairs_of,
    real_tables,
    scanpath_hits,
    scanpath_saliency,
    systems_of,
    tokens_to_reach,
    values_of,
    worst_of,
)
from arr_coc_lab.bench.run import bench

KEEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
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


MAPS = ("look", "centre", "uniform", "random", "saliency", "text regions")


def measured_of(folder, systems, records=None, workers=1):
    measured = QuestionMeasures.begun(None, folder, KEEPS, 0)
    jobs = measured.jobs(load_records(folder) if records is None else records, systems)
    for _, found in done_by(jobs, PictureWork.done, workers):
        measured.add(found)
    assert not measured.jobs(load_records(folder), systems)
    return measured


def test_the_bench_covers_what_is_asked_for(folder):
    records, systems = load_records(folder), systems_of(MAPS, ("overlay", "quadtree"))
    measured = measured_of(folder, systems, records)
    values = values_of(measured, records, systems)
    for strategy in ("overlay", "quadtree"):
        asked = [value for _, value in values.found["discs", "coverage", f"look {strategy}", 0.25]]
        assert asked[0] > 0.9, "the question names a colour that is there"
    assert values.found["discs", "coverage", "uniform", 0.25][0][1] == 0
    assert values.found["discs", "scanpath hits", "look overlay", 0.25][0][1] == 1
    tables = {table.title: table for table in real_tables(measured, records, systems)}
    rows = {
        (title, row["source"], row.get("relevance"), row.get("strategy")): row
        for title, table in tables.items()
        for row in table.rows
    }
    assert rows["coverage at half size", "discs", "uniform", "–"]["keep_4"].value > 90  # type: ignore[union-attr]
    assert rows["coverage", "discs", "look", "overlay"]["n"] == 2
    assert rows["coverage", "discs", "look", "overlay"]["pictures"] == 1
    tokens = [
        rows["tokens to 90 %", "discs", name, how]["tokens"].value
        for name, how in (("look", "overlay"), ("uniform", "–"))
    ]  # type: ignore[union-attr]
    assert tokens[0] < tokens[1] <= 140, "to see a place is cheaper than to see everything"
    gazed = [row["relevance"] for row in tables["gaze"].rows]
    assert gazed == ["look", "centre", "random", "saliency"], "once each; bars hold no text to agree with"
    assert not any(key[0].startswith("coverage") and key[1] == "bars" for key in rows)
    assert "not held out" in tables["differences"].facts["tuned"]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9999))
def test_tokens_to_reach_is_what_trying_every_budget_gives(seed):
    generator = np.random.default_rng(seed)
    shown = np.sort(generator.random(57))
    shown[-1] = 1.0
    wanted = float(generator.random())
    assert tokens_to_reach(lambda budget: shown[budget - 1], 57, wanted) == 1 + int((shown >= wanted).argmax())
    relevance = generator.random((10, 14)).astype(np.float32) ** 6
    box = np.array([[0.2, 0.3, 0.5, 0.6]])

    def seen(budget: int) -> float:
        return coverage(allocate(relevance, budget, image_size=SIZE), box)

    found = [tokens_to_reach(seen, 140, share) for share in (0.3, 0.6, 0.9, 1.0)]
    assert seen(found[2]) >= 0.9
    assert found[2] == 1 or seen(found[2] - 1) < 0.9
    assert found == sorted(found), "to see more takes more"


def test_a_sample_is_drawn_by_the_seed_and_grows(tmp_path):
    lines = [{"source": source, "image": f"{n}.png", "query": str(n)} for source in ("a", "b") for n in range(40)]
    (tmp_path / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))

    def names(limit, seed=0, sources=()):
        return [record.name for record in load_records(tmp_path, limit, sources, seed)]

    assert names(10) == names(10) != names(10, seed=1)
    assert set(names(10)) < set(names(15)), "a larger sample goes on with the smaller one"
    assert names(10, sources=("b",)) == names(10)[10:], "whatever the other sources are"
    assert [name[0] for name in names({"": 3, "b": 5})] == [*"aaabbbbb"]
    assert names(10)[:10] != [f"a {n}" for n in range(1, 11)], "not the first ones"
    assert names(None) == names(99)


def test_frames_of_a_clip_are_one_scene(tmp_path):
    lines = [{"source": "s", "image": f"{n}.png", "query": "", "video": "goat"} for n in range(3)]
    (tmp_path / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert {record.scene for record in load_records(tmp_path)} == {"goat"}


def test_a_stopped_run_goes_on(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(real, "KEPT_EVERY", 1)
    out, how = tmp_path / "out", {"relevance": ["centre", "uniform"], "as_json": True}
    asked: list[str] = []
    prepare = real.prepare

    def stopping(picture):
        asked.append(picture.name)
        if picture.name == "bars.png" and asked.count("bars.png") == 1:
            raise KeyboardInterrupt
        return prepare(picture)

    monkeypatch.setattr(real, "prepare", stopping)
    with pytest.raises(KeyboardInterrupt):
        bench("real", data=folder, out=out, **how)
    kept = json.loads((out / "real.json").read_text())
    assert kept["tables"][-1]["facts"]["so far"] == "1 of 2 pictures"
    bench("real", data=folder, out=out, **how)
    assert asked == ["disc.png", "bars.png", "bars.png"], "the first picture is not measured twice"
    bench("real", data=folder, out=tmp_path / "whole", **how)
    one, other = ((place / "real.json").read_text() for place in (out, tmp_path / "whole"))
    assert one == other, "and the result is that of a run that was not stopped"
    with pytest.raises(InputError, match="another keeps"):
        bench("real", data=folder, out=out, keeps="1/2 1/4", **how)
    (out / "real_questions.json").write_text("[]")
    with pytest.raises(InputError, match="give another --out"):
        bench("real", data=folder, out=out, **how)


def test_two_workers_find_what_one_does(folder):
    systems = systems_of(("look", "random"))
    assert measured_of(folder, systems, workers=2).questions == measured_of(folder, systems).questions


def test_the_tables_fit_a_terminal(folder):
    records, systems = load_records(folder), systems_of(MAPS, ("overlay", "quadtree"))
    for table in real_tables(measured_of(folder, systems), records, systems):
        console = Console(width=80, record=True, file=io.StringIO())
        console.print(narrow_table(table).to_rich())
        shown = console.export_text()
        assert "…" not in shown
        for row in table.rows:
            assert str(row.get("relevance") or row["source"]) in shown


def test_the_interval_is_over_pictures_and_differences_are_paired():
    values = MeasuredValues()
    for picture, ours, theirs in (("a", 0.0, 0.1), ("a", 1.0, 0.9), ("b", 1.0, 0.5), ("c", 0.9, 0.4)):
        values.add("s", "coverage", "look", 0.25, picture, ours)
        values.add("s", "coverage", "centre", 0.25, picture, theirs)
    values.add("s", "coverage", "look", 0.25, "d", 0.0)
    estimate, questions, pictures = values.estimate(("s", "coverage", "look", 0.25))  # type: ignore[misc]
    assert (questions, pictures) == (5, 4)
    assert estimate.value == pytest.approx((0.5 + 1 + 0.9) / 4)
    difference = values.difference("s", "look", "centre", 0.25)
    assert difference is not None
    assert difference.value == pytest.approx((0 + 0.5 + 0.5) / 3), "only of pictures that both have"
    assert values.difference("s", "look", "nobody", 0.25) is None


def test_everything_is_compared_with_the_first():
    systems = systems_of(("centre", "uniform", "random"), ("overlay", "quadtree"))
    names = [(first.name, second.name) for first, second in pairs_of(systems)]
    assert names == [
        ("uniform", "centre overlay"),
        ("random overlay", "centre overlay"),
        ("centre quadtree", "centre overlay"),
        ("random quadtree", "random overlay"),
    ]


def test_the_worst_come_first_and_are_drawn(folder, tmp_path):
    records, system = load_records(folder), System("look", "overlay")
    measured = measured_of(folder, [system])
    worst = worst_of(measured, records, system)
    assert {one.source for one in worst} == {"discs"}, "what has no box cannot go wrong"
    shares = [measured.questions[one.name][system.name]["coverage"][1] for one in worst]
    assert shares == sorted(shares)
    report = bench("real", data=folder, relevance=["look", "centre"], worst=tmp_path / "worst")
    assert [path.name for path in (tmp_path / "worst").iterdir()] == ["worst look overlay.png"]
    assert report.said()[-1].startswith("files:")
    with Image.open(tmp_path / "worst" / "worst look overlay.png") as page:
        colours = np.asarray(page.convert("RGB")).reshape(-1, 3)
    assert (colours == (230, 20, 60)).all(1).any(), "the box is drawn"


def test_the_command_writes_and_explains(folder, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- real: begin -->\n<!-- real: end -->\nafter\n")
    out = tmp_path / "out"
    given = ["--data", str(folder), "--relevance", "detail", "--limit", "1", "--source", "discs", "--out", str(out)]
    with pytest.raises(SystemExit):
        main(["bench", "real", *given, "--page", str(page), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "real.json").read_text())
    assert {row["source"] for table in printed["tables"] for row in table["rows"]} == {"discs"}
    assert "| discs | detail | overlay |" in page.read_text()
    with pytest.raises(SystemExit) as left:
        main(["bench", "real", "--data", str(tmp_path / "not there")])
    assert left.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    for wrong, words in (
        ({"source": ["y"]}, "no record of y; choose from discs, bars"),
        ({"limit": ["y=3"]}, "no record of y"),
        ({"limit": ["0"]}, "--limit 0"),
        ({"keeps": "1/4 two"}, "--keeps"),
        ({"workers": 0}, "--workers"),
        ({"strategy": ["random"]}, "choose from overlay, quadtree"),
        ({"relevance": ["centr"]}, "unknown relevance 'centr'.*centre"),
        ({"relevance": ["glance"]}, "needs a model"),
    ):
        with pytest.raises(InputError, match=words):
            bench("real", data=folder, **wrong)
    (folder / "records.jsonl").write_text('{"source": "x"}')
    with pytest.raises(InputError, match="line 1"):
        bench("real", data=folder)
    (folder / "records.jsonl").write_text("")
    with pytest.raises(InputError, match="no record"):
        bench("real", data=folder)


def test_the_order_of_sources_is_that_of_the_records(folder):
    assert [(picture.name, len(several)) for picture, several in by_picture(load_records(folder))] == [
        ("disc.png", 2),
        ("bars.png", 1),
    ]
