"""Every suite on a few questions: rows by the same seeds, the same scores by every route."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peers_parts import tiny_weights
from PIL import Image

from arr_coc.attending.allocate import allocate
from arr_coc.core.errors import InputError
from arr_coc.pictures.ocr import ocr_words
from arr_coc_lab.bench import fading, hypotheses, needle, rivals, speed, video
from arr_coc_lab.bench.peers import bench as peers_bench
from arr_coc_lab.bench.questions import load_questions, parse_limits, table_questions
from arr_coc_lab.bench.run import bench
from arr_coc_lab.bench.scores import coverage
from arr_coc_lab.bench.suite import HypothesesBenchOptions, NeedleOptions, PeersOptions, SpeedOptions, VideoBenchOptions
from arr_coc_lab.worlds.needle.export import write_dataset

SIZE = (320, 448)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benches of Needle World read with a tiny model."""
    weights = tiny_weights()
    for module in (needle, video, peers_bench):
        monkeypatch.setattr(module, "loaded", lambda folder, device: weights)
    monkeypatch.setattr(needle, "BATCH", {"cpu": 2})
    peers_bench.prunable.cache_clear()
    peers_bench.counted_cost.cache_clear()
    yield weights
    peers_bench.prunable.cache_clear()
    peers_bench.counted_cost.cache_clear()


# ---- Needle World ----------------------------------------------------------------------------------------------------


def test_a_needle_run_that_was_stopped_draws_the_same_chance_for_what_is_left(tiny: Any, tmp_path: Path) -> None:
    options = {"n": 2, "size": "128x128", "family": ("cards",), "seed": 5}
    report = bench("needle", **options, out=tmp_path)
    assert [report.cell(*cell).tokens for cell in (("full", 1.0), ("scorer", 0.25), ("oracle", 0.25))] == [16, 4, 4]
    path = tmp_path / "needle.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2 + 1]))
    assert bench("needle", **options, out=tmp_path).cells == report.cells
    assert sorted(path.read_text().splitlines(keepends=True)) == sorted(lines)
    assert {row["n"] for row in report.tables[-1].rows} == {2}, "calibration of what was asked aloud"


def test_peers_read_every_way_in_any_order(tiny: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(peers_bench, "SIDE", 256)
    monkeypatch.setattr(peers_bench, "TOKENS", 64)
    monkeypatch.setattr(peers_bench, "AT_ONCE", {"cpu": 2})
    names = ("scorer + overlay", "random + overlay", "FastV, K = 2")
    options = {"n": 2, "family": ("forms",), "keeps": (0.25,), "out": tmp_path}
    first = bench("peers", **options, peers=names[:1])
    both = bench("peers", **options, peers=names)
    alone = bench("peers", **{**options, "out": None}, peers=names[::-1])
    by_key = {row.key: row for row in alone.rows}
    assert {row.key: row for row in both.rows} == by_key
    assert all(by_key[row.key] == row for row in first.rows)
    assert both.cell("FastV, K = 2", 0.25).minus is not None
    titles = [table.title for table in both.tables]
    assert any(title.startswith("Equal compute") for title in titles)
    with pytest.raises(InputError, match="unknown system"):
        peers_bench.plan(PeersOptions(peers=("magic",)))
    with pytest.raises(InputError, match="share"):
        peers_bench.plan(PeersOptions(keeps=(2.0,)))


def test_hypotheses_have_a_verdict_for_every_claim(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hypotheses, "SIZE", (256, 256))
    monkeypatch.setattr(hypotheses, "AT_ONCE", {"cpu": 2})
    plan = hypotheses.plan(HypothesesBenchOptions(n=2))
    rows = [row for job in plan.jobs[:1] for row in plan.work(job.what, job.keys)]
    assert {row.key for row in rows} == set(plan.jobs[0].keys)
    report = plan.report(rows)
    table = report.tables[0]
    ids = [row["id"] for row in table.rows]
    assert {"H1", "H2", "H3", "H4", "H6", "questions"} == set(ids)
    again = plan.work(plan.jobs[0].what, plan.jobs[0].keys)
    assert list(again) == rows, "chance is that of the picture, not of the run"


def test_the_best_cells_are_the_best() -> None:
    scores = torch.rand(2, 5, 7, generator=torch.Generator().manual_seed(0))
    cells = hypotheses.top_cells(scores, 6)
    for one, chosen in zip(scores, cells, strict=True):
        picked = one[chosen[:, 0], chosen[:, 1]]
        assert picked.min() >= one.flatten().sort(descending=True).values[5]


def test_clips_are_read_by_every_system(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "SIZE", (128, 128))
    options = {"n": 2, "frames": 3, "batch": 1, "keep": (1 / 16, 1 / 4)}
    report = bench("video", **options)
    spent = {(cell.system, cell.keep): cell.tokens for cell in report.cells if cell.score == "clearest"}
    assert spent["temporal", 1 / 4] == spent["frame by frame", 1 / 4] == spent["uniform", 1 / 4] == 12
    assert spent[video.LESS, 1 / 4] == 4, "the smaller share is really smaller"
    found = {cell.score: cell for cell in report.cells if cell.system == video.DETECTED}
    assert found["cuts found"].n == 1, "every second batch has a cut"
    assert found["false cuts"].n == 2
    with pytest.raises(InputError, match="--keep"):
        video.plan(VideoBenchOptions(keep=(2.0,)))


# ---- real pictures ---------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9999))
def test_coverage_is_what_counting_pixels_gives(seed: int) -> None:
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
    best = max(coverage(allocation, box), coverage(allocation, other[1:]))
    assert coverage(allocation, other, any_of=True) == pytest.approx(best, abs=1e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A red disc on grey with two questions, and stripes with one."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    disc = np.full((*SIZE, 3), 120, np.uint8)
    disc[(y - 80) ** 2 + (x - 330) ** 2 < 40**2] = (220, 30, 30)
    Image.fromarray(disc).save(tmp_path / "disc.png")
    Image.fromarray(np.repeat(((x // 8) % 2 * 255).astype(np.uint8)[..., None], 3, 2)).save(tmp_path / "bars.png")
    box = [290 / SIZE[1], 40 / SIZE[0], 370 / SIZE[1], 120 / SIZE[0]]
    lines = [
        {"source": "discs", "image": "disc.png", "query": "Where is the red disc?", "boxes": [box]},
        {"source": "discs", "image": "disc.png", "query": "the grey ground", "boxes": [[0, 0.8, 0.2, 1]], "any_of": 1},
        {"source": "bars", "image": "bars.png", "query": "the bars", "boxes": [[0.2, 0.2, 0.4, 0.4]]},
    ]
    (tmp_path / "records.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    return tmp_path


def test_the_bench_covers_what_is_asked_for(folder: Path, tmp_path: Path) -> None:
    options = {"data": str(folder), "relevance": ("look", "centre", "uniform"), "keeps": "1/8"}
    report = bench("real", **options, out=tmp_path / "out")
    disc = {row.system: row for row in report.rows if row.question == "discs 1"}
    assert disc["look"].scores["coverage"] > 0.9
    assert disc["uniform"].scores["coverage"] == 0
    assert report.cell("look", 1 / 8, "discs", "coverage").units == 1, "two questions about one picture"
    assert bench("real", **options, out=tmp_path / "out", seconds=0.0).cells == report.cells
    with pytest.raises(InputError, match="seed"):
        bench("real", **options, out=tmp_path / "out", seed=3)


def test_a_sample_is_drawn_by_the_seed_and_grows(tmp_path: Path) -> None:
    (tmp_path / "x.png").touch()
    lines = [{"source": "ab"[n % 2], "image": "x.png", "query": f"{n}", "boxes": [[0, 0, 1, 1]]} for n in range(40)]
    (tmp_path / "records.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    few, more = ({one.name for one in load_questions(str(tmp_path), {"": number})} for number in (3, 7))
    assert few < more
    assert len(more) == 14
    only = load_questions(str(tmp_path), {"": 7}, ("b",))
    assert {one.name for one in only} == {name for name in more if name.startswith("b")}
    assert {one.name for one in load_questions(str(tmp_path), {"": 3}, seed=1)} != few
    assert parse_limits(["5", "b=9"]) == {"": 5, "b": 9}
    for wrong in ("0", "b=", "x"):
        with pytest.raises(InputError, match="--limit"):
            parse_limits([wrong])
    with pytest.raises(InputError, match="choose from a, b"):
        load_questions(str(tmp_path), None, ("c",))


@pytest.mark.parametrize(
    ("line", "why"),
    [("{", "line 1"), ('{"image": "x.png"}', "question is empty"), ('{"image": 3, "query": "x"}', "names no picture")],
)
def test_broken_records_are_named(line: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=why):
        load_questions(str(tmp_path))


HUB = [
    ({"questionId": "337", "question": "what is the date?", "answers": ["1/8/93", "January 8"]}, "337"),
    ({"query": "How many?", "label": ["14"]}, "set.jsonl#0"),
    ({"question_id": 2, "question": "Where?", "answers": [{"answer": "down", "answer_id": n} for n in range(10)]}, "2"),
    ({"text": "What colour?\n(A) red\n(B) blue\nAnswer with the letter.", "label": "B"}, "set.jsonl#0"),
]


@pytest.mark.parametrize(("row", "name"), HUB)
def test_rows_of_public_sets_are_read(row: dict[str, Any], name: str, tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({**row, "image": "x.png"}) + "\n")
    (question,) = table_questions(path)
    assert question.name == name
    assert question.answers in (("1/8/93", "January 8"), ("14",), ("down",) * 10, ("B",))
    assert "\n" not in question.bare
    path.write_text(json.dumps({"question": "x", "image": "x.png"}) + "\n")
    with pytest.raises(InputError, match="no true answer"):
        list(table_questions(path))


# ---- answers ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def signs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drawn sign with its question."""
    folder = tmp_path_factory.mktemp("signs")
    write_dataset("signs", range(1), 5, folder, (256, 256), split="test")
    return folder


def test_mini_answers_by_every_system(signs: Path, tmp_path: Path) -> None:
    options = {"data": str(signs), "ask": True, "keeps": "1/4", "out": tmp_path}
    report = bench("real", **options)
    systems = {"full", "ours", "around the true boxes", "uniform", "random", "shuffled", "smaller picture"}
    assert {row.system for row in report.rows} == systems
    budget = {row.question: row.extras["full"] // 4 for row in report.rows}
    assert all(0 < row.tokens <= budget[row.question] for row in report.rows if row.system != "full")
    assert report.cell("full", score="exact").estimate.value == 1, "mini reads its own world"
    before = (tmp_path / "real_ask.jsonl").read_bytes()
    assert bench("real", **options).cells == report.cells
    assert (tmp_path / "real_ask.jsonl").read_bytes() == before, "nothing is asked twice"


def test_pack_stands_beside_what_others_do_and_beside_attach(signs: Path) -> None:
    report = bench("rivals", data=(str(signs),))
    rows = {row.system: row for row in report.rows}
    assert set(rows) == {"full", *rivals.WAYS}
    most = rows["full"].tokens / 4
    assert all(0 < row.tokens <= most for name, row in rows.items() if name not in ("full", *rivals.TEXTS))
    assert rows["attached"].scores["exact"] == 1
    assert rows["pack"].scores["prefix"] == rows["pack"].scores["clicks"] == 1
    (line,) = report.tables[-1].rows
    assert line["n"] == 1
    assert line["kept"] == (rows["pack"].scores["exact"] == 1)
    alone = bench("rivals", data=(str(signs),), ways=("smaller",))
    assert {row.system for row in alone.rows} == {"smaller picture"}


def test_drawn_pages_stand_in_where_no_data_is_given() -> None:
    report = bench("rivals", limit=2, seed=3, ways=("text",))
    assert {row.group for row in report.rows} == {"pages"}
    assert len({row.question for row in report.rows}) == 2
    (fewer,), (first, _) = (rivals.drawn_pages(number, 3) for number in (1, 2))
    assert (fewer.text, fewer.image) == (first.text, first.image), "more pages are the same and others"


def test_text_is_counted_by_the_tokenizer_of_the_model(signs: Path) -> None:
    (question,) = load_questions(str(signs))
    ask = rivals.RivalQuestion(question)
    words = ocr_words(ask.picture.pixels).texts
    letters = sum(len(one) + 1 for one in words)
    assert ask.answer(rivals.TEXT, 10_000)[1] == letters
    assert ask.answer(rivals.SHORT, 10_000)[1] == math.ceil(letters / 4)
    assert ask.answer(rivals.TEXT, len(words[0]))[1] == 0, "the first word and its space cost one more"


def test_screens_that_fade_cost_less_and_miss_the_cache_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fading, "STEPS", 4)
    monkeypatch.setattr(fading, "FADED", 2)
    monkeypatch.setattr(fading, "WAYS", {"as they were": None, "--fade 2": 2})
    monkeypatch.setattr(fading, "read_by_stock", lambda pictures, question: f"{len(pictures)} pictures")
    rows = bench("fading", n=1).rows
    missed = {way: sum(row.extras["missed"] for row in rows if row.system == way) for way in fading.WAYS}
    assert missed == {"as they were": 0, "--fade 2": 1}
    last, faded = (one.extras for one in rows if one.question == "0 3")
    assert faded["tokens"] < last["tokens"]
    assert faded["cached"] == 0 < last["cached"]
    assert sum("exact" in one.scores for one in rows) == 4


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"task": "x"}, "--task"),
        ({"keeps": "1"}, "all tokens"),
        ({"relevance": ("auto", "look")}, "once"),
    ],
)
def test_what_cannot_be_asked_is_refused(given: dict[str, Any], why: str, signs: Path) -> None:
    with pytest.raises(InputError, match=why):
        bench("real", data=str(signs), ask=True, **given)


# ---- speed -----------------------------------------------------------------------------------------------------------


def test_a_bar_is_kept_or_missed_by_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "use_processors", lambda number: None)
    plan = speed.plan(SpeedOptions(repeats=1))
    job = next(one for one in plan.jobs if one.what == "quadtree")
    rows = list(plan.work(job.what, job.keys))
    assert {row.key for row in rows} == set(job.keys)
    monkeypatch.setitem(speed.BARS, "quadtree, single", speed.SpeedBar(most=1e-9))
    monkeypatch.setitem(
        speed.BARS, f"quadtree, batch {speed.BATCH}", speed.SpeedBar(most=9.0, least_ratio=1e-6, naive="x")
    )
    lines = {row["what"]: row for row in plan.report(rows).tables[0].rows}
    assert lines["quadtree, single"]["kept"] is False
    assert lines[f"quadtree, batch {speed.BATCH}"]["kept"] is True


def test_a_whole_command_is_timed_with_its_memory() -> None:
    nothing, several = ([sys.executable, "-c", f"held = bytearray({size})"] for size in (0, 64 << 20))
    (_, little), (seconds, much) = speed._runs([nothing, several], 1)
    assert seconds > 0
    assert 60 << 20 < much - little < 70 << 20
    assert 0 < speed.measure_help(1)["arr-coc --help", "ours"] < 30


def test_the_tables_of_a_card_run_on_a_processor(tmp_path: Path) -> None:
    report = bench("speed", tiny=True, out=tmp_path)
    (stages,) = report.tables
    assert [row["system"] for row in stages.rows] == ["full", "scorer", "scorer"] * 2
    one, eight = stages.rows[:3], stages.rows[3:]
    assert all(row[stage] > 0 for row in one for stage in ("search", "tower", "prompt", "rate"))
    assert all(row[stage] > 0 for row in eight[1:] for stage in ("search", "tower", "prompt"))


def test_the_command_of_needle_takes_the_options_that_it_shows() -> None:
    plan = needle.plan(NeedleOptions(n=2, family=("zoo",)))
    assert [job.what for job in plan.jobs] == [("zoo", 0, 2)]
    assert len(plan.jobs[0].keys) == 2 * len(needle.CELLS)
