"""The grip of a model is measured on drawn texts, goes on where it was stopped, and the bench of it has its bars."""

from __future__ import annotations

import json

import numpy as np
import pytest
from arr_coc_lab.bench.grip import (
    AUTO,
    LARGER_AUTO,
    NEEDLE,
    ONE,
    SCALES,
    SEVERAL,
    bars_of,
    enlarged,
    questions_of,
    source_of,
    ways_at,
)
from arr_coc_lab.bench.gripping import TextCell, measure, sample

from arr_coc.app.cli import main
from arr_coc.attending.distance import COARSELY, ScaleChoice
from arr_coc.attending.grip import Grip
from arr_coc.core.errors import InputError
from arr_coc.core.values import Answer
from arr_coc.texture.type_height import type_height
from arr_coc_lab.bench import grip_constants, grip_saving, gripping
from arr_coc_lab.bench.run import bench


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
            scores[source, way.name] = np.full(8, 0.5)
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
    assert {f"×{scale:g}" for scale in SCALES} | {ONE, AUTO, SEVERAL} <= {way.way for way in ways_at(0.125)}


# ---- the numbers of the rule -----------------------------------------------------------------------------------------


def read(source: str, gain: float, fine: float, right: bool) -> grip_constants.ReadQuestion:
    """A question of which twice the size reads `gain` times as much, with `fine` of what is needed under fine tokens;
    right: whether it is answered there, and not as it is given, or the other way round."""
    choice = ScaleChoice(np.array([1.0, 2.0]), np.array([1.0, gain]), np.array([1.0, fine]))
    return grip_constants.ReadQuestion(source, {1.0: float(not right), 2.0: float(right)}, choice)


@pytest.mark.parametrize("limit", [1.05, 1.2, 1.4])
def test_the_number_that_tells_gains_from_losses_is_found(limit):
    gains = np.linspace(1.01, 1.6, 60)
    found = [read(source, gain, 1.0, gain >= limit) for gain in gains for source in ("needle", "printed pages")]
    document = grip_constants.report_of(found, {}).document
    assert document["worth"] == limit
    assert document["coarsely"] == COARSELY, "what decides nothing stays as it is"
    assert document["n"] == 120


def test_how_much_coverage_counts_is_found():
    """All letters gain, and it is wrong to take it where the tokens do not cover what is needed."""
    found = [read("needle", 1.5, fine, fine > 0.5) for fine in np.linspace(0.02, 1, 50)]
    worth, coarsely = (grip_constants.report_of(found, {}).document[name] for name in ("worth", "coarsely"))
    assert coarsely < 1
    assert (1.5 * (coarsely + (1 - coarsely) * 0.5)) == pytest.approx(worth, abs=0.12)


def test_both_sources_count_alike_and_nothing_is_derived_from_what_it_is_judged_by():
    found = [read("needle", 1.3, 1.0, False)] * 3 + [read("printed pages", 1.3, 1.0, True)] * 1
    assert grip_constants.weights_of(found).tolist() == pytest.approx([2 / 3] * 3 + [2.0])
    scores = {(1.0, 0.8): np.array([1.0, 0.0, 1.0, 0.0]), (1.5, 0.8): np.array([0.0, 1.0, 0.0, 1.0])}
    # What is best for even questions is worst for the odd ones: derived crosswise it gains nothing.
    assert grip_constants.crossed(scores, np.zeros(4)).value == 0


def test_drawn_questions_are_about_what_stands_there_and_again_alike():
    first, again = (list(grip_constants.drawn_pages(2, 3, None)) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert (one.text, one.answer) == (other.text, other.answer)
        np.testing.assert_array_equal(one.pixels, other.pixels)
        assert one.answer
        assert one.pixels.shape == (768, 1024, 3)
        assert one.score(one.answer) == 1
    names = [one.name for one in grip_constants.drawn_needles(9, 3)]
    assert len(set(names)) == 9


def test_constants_are_derived_by_one_command_that_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(grip_constants, "SIZES", (0.7, 1.0))
    run = ["bench", "grip", "--constants", "--n", "2", "--out", str(tmp_path), "--json"]
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main(run)
        assert not ended.value.code
        document = json.loads(capsys.readouterr().out)
        assert document["n"] == 4
        rows = (tmp_path / "constants_answers.jsonl").read_text().splitlines()
        assert len(rows) == 8, "the second time nothing is read"
    for more, line in ((["--source", "x"], "draws its own pictures"), (["--keeps", "1/4 1/8"], "one share")):
        with pytest.raises(SystemExit) as ended:
            main([*run, *more])
        assert ended.value.code == 2
        assert line in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["bench", "grip", "--n", "2"])
    assert ended.value.code == 2
    assert "give --data FOLDER, or --constants" in capsys.readouterr().err


def test_families_of_one_world_are_one_source_and_stopped_runs_have_as_many_of_each(tmp_path):
    names = ["pages/forms", "pages/bars", "pages/forms", "pages/bars", "funsd", "funsd", "chartqa"]
    rows = [{"source": name, "image": f"img/{n}.png", "query": "What?", "answer": "x1"} for n, name in enumerate(names)]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [source_of(one) for one in questions_of([tmp_path], ["funsd"], 3, 0)]
    assert found == ["pages", "funsd", "pages", "funsd", "pages"]


@pytest.mark.parametrize(
    ("auto", "given", "first", "second"),
    [
        ([0.0, 1.0, 1.0], [0.0, 0.0, 1.0], 128, 256),
        ([0.94, 0.96, 1.0], [0.0, 0.5, 0.96], 128, 256),
        ([1.0, 1.0, 1.0], [0.0, 0.0, 0.9], 64, None),
    ],
)
def test_the_smallest_budget_that_is_enough_is_found(auto, given, first, second):
    scores = {name: np.tile(values, (20, 1)) for name, values in (("auto", auto), ("×1", given))}
    assert grip_saving.enough(scores, "auto", (64, 128, 256)) == (first, first, first)
    assert grip_saving.enough(scores, "×1", (64, 128, 256)) == (second, second, second)


def test_what_is_enough_is_told_with_the_chance_of_its_questions():
    one, none = np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0])
    scores = {"auto": np.array([one] * 5 + [none]), "×1": np.array([none] * 6)}
    middle, low, high = grip_saving.enough(scores, "auto", (64, 128, 256))
    assert (middle, low, high) == (256, 128, 256)
    assert "above 256 tokens" in grip_saving.told((None, 128, None), (64, 128, 256))


def test_saving_is_measured_by_one_command_that_goes_on_where_it_was(tmp_path, monkeypatch):
    for name, value in (("page", [256, 256]), ("smallest", 10.0)):
        monkeypatch.setitem(grip_saving.SAVING, name, value)
    given = {"saving": True, "n": 2, "budgets": (8, 16), "out": tmp_path}
    report = bench("grip", **given)
    kept = (tmp_path / "saving_answers.jsonl").read_bytes()
    assert [row["budget"] for row in report.document["rows"]] == [8, 16]
    assert report.document["n"] == 2
    rows = [json.loads(line) for line in kept.splitlines()]
    assert len(rows) == 8
    assert all(row["tokens"] <= int(row["cell"].split()[1]) for row in rows)
    assert all(row["scale"] == 1 for row in rows if row["cell"].startswith("×1"))
    assert bench("grip", **given).document["enough"] == report.document["enough"]
    assert (tmp_path / "saving_answers.jsonl").read_bytes() == kept, "the second time nothing is read"
    with pytest.raises(InputError, match="--budgets"):
        bench("grip", **{**given, "budgets": (8,)})


def test_an_enlarged_picture_is_as_if_given_so():
    from arr_coc.pictures.load import load_picture

    picture = load_picture(np.zeros((20, 30, 3), np.uint8))
    assert enlarged(picture, 1) is picture
    assert enlarged(picture, 2).size == (40, 60)
    assert not type_height(enlarged(picture, 2).pixels)
