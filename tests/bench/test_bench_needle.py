"""`arr-coc bench needle`: the statistics by hand, the run on tiny weights, the page made from the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_weights import tiny_weights

from arr_coc.app.cli import main
from arr_coc_lab.bench.needle import (
    BY_HAND,
    CELLS,
    FULL,
    SMALL_TYPE,
    NeedlePlan,
    Outcomes,
    Resampled,
    Weights,
    digest,
    hand_written,
    markdown,
    measure_needle,
    oracle_words,
    summarise,
    tables,
)
from arr_coc_lab.statistics import interval, wilson
from arr_coc_lab.worlds import needle

KEEP = 0.25


def outcomes(family: str, shares: dict[str, float], number: int = 400, seed: int = 0) -> Outcomes:
    """Answers of which so many are right; full and the scorer agree as much as they can."""
    place = np.random.default_rng(seed).permutation(number)
    cells = {(name, 1.0 if name == "full" else KEEP): share for name, share in shares.items()}
    right = {cell: place < share * number for cell, share in cells.items()}
    confidence = {
        cell: np.stack([np.full(number, 0.99), np.full(number, cells[cell])]) for cell in (FULL, ("scorer", KEEP))
    }
    return Outcomes(family, right, confidence, dict.fromkeys(cells, 64), 256)


SHARES = {"full": 0.8, "uniform": 0.5, "random": 0.4, "shuffled": 0.3, "scorer": 0.76, "oracle": 0.9}


@pytest.fixture(scope="module")
def document() -> dict:
    families = (outcomes("cards", SHARES), outcomes("scenes", {**SHARES, "scorer": 0.8}, seed=1))
    return {"schema": 1, "kind": "needle", "facts": {"weights": "abc"}, **summarise(families)}


def row(rows: list[dict], **wanted: object) -> dict:
    (found,) = [one for one in rows if all(one.get(name) == value for name, value in wanted.items())]
    return found


def test_cells_means_and_shares_of_full(document):
    cell = row(document["cells"], family="cards", strategy="scorer")
    assert (cell["right"], cell["n"], cell["value"]) == (304, 400, 0.76)
    assert (cell["low"], cell["high"]) == wilson(304, 400)
    mean = row(document["means"], strategy="scorer")
    assert mean["value"] == pytest.approx(0.78)
    assert mean["of_full"]["value"] == pytest.approx(0.78 / 0.8)
    assert mean["of_full"]["low"] < 0.975 < mean["of_full"]["high"] < 1


def test_differences_are_paired_and_have_the_right_sign(document):
    lead = row(document["differences"], over="cards", against="uniform")
    assert lead["value"] == pytest.approx(0.26)
    assert row(document["differences"], over="cards", against="oracle")["value"] == pytest.approx(-0.14)
    assert row(document["differences"], over="small type", against="uniform")["value"] == pytest.approx(0.26)
    assert row(document["differences"], over="all", against="uniform")["value"] == pytest.approx(0.28)
    # 26 % of pictures differ, all one way: far narrower than two independent shares of 400 would allow (± 6.5).
    half = (lead["high"] - lead["low"]) / 2
    assert half == pytest.approx(1.96 * np.sqrt(0.26 * 0.74 / 400), rel=0.15)


def test_intervals_of_means_have_the_textbook_width():
    resampled = Resampled([outcomes("cards", SHARES), outcomes("forms", SHARES, seed=3)])
    found = interval(resampled.mean(FULL))
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.sqrt(0.8 * 0.2 / 800), rel=0.15)


def test_bars_are_kept_missed_or_left_open(document):
    verdicts = {one["what"]: one["kept"] for one in document["bars"]}
    assert verdicts["all tokens, cards"] is False
    assert verdicts["of full's accuracy, scorer at 1/4"] is False
    assert verdicts["scorer − uniform at 1/4, cards"] is True
    assert verdicts["scorer − shuffled at 1/4, small type, mean"] is True
    many = summarise([outcomes("cards", SHARES, number=2000)])
    assert row(many["bars"], what="ECE, cards, all tokens")["kept"] is True
    assert not any("scenes" in what and "uniform" in what for what in verdicts)
    few = summarise([outcomes("cards", SHARES, number=20)])
    assert row(few["bars"], what="ECE, cards, all tokens")["kept"] is None
    boastful = outcomes("cards", SHARES, number=2000)
    wrong = {cell: np.stack([values[0], np.full(2000, 0.97)]) for cell, values in boastful.confidence.items()}
    worse = summarise([Outcomes("cards", boastful.right, wrong, boastful.tokens, 256)])
    assert row(worse["bars"], what="ECE, cards, all tokens")["kept"] is False


def test_calibration_is_told_before_and_after(document):
    found = row(document["calibration"], family="cards", strategy="full")
    assert found["ece_before"] == pytest.approx(0.19, abs=0.05)
    assert found["ece_after"] < found["ece_before"]


def test_a_part_that_beats_the_whole_is_a_finding(document):
    assert oracle_words(document).endswith("the oracle at 1/4.")
    assert "scorer" not in oracle_words(document)
    plain = {**document, "means": [one for one in document["means"] if one["strategy"] == "full"]}
    assert oracle_words(plain).startswith("No part")


def test_every_table_says_what_the_document_says(document):
    shown = {table.title: table.to_markdown() for table in tables(document)}
    assert "76.0±4.2" in shown["1/4 of the tokens (tokens in brackets)"]
    text = markdown(document, by_hand="\n## What was tried\n\nMuch.\n")
    low, high = wilson(304, 400)
    assert f"76.0 [{100 * low:.1f}, {100 * high:.1f}]" in text
    assert "97.5 [" in text
    assert text.count("| missed |") == sum(one["kept"] is False for one in document["bars"])
    assert text.rstrip().endswith("Much.")


def test_small_type_is_small():
    """The rule behind the list, where it is clear with a few pictures."""
    for family, small in (("forms", True), ("receipts", True), ("scenes", False)):
        sizes = needle.render(family, 24, (512, 512), 5, "validation").type_sizes
        share = float(((sizes > 0) & (sizes <= 14)).float().mean())
        assert (share > 0.5) is small is (family in SMALL_TYPE)


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    return tiny_weights(tmp_path_factory.mktemp("weights"))


def test_a_run_measures_every_cell_on_the_same_pictures(weights):
    loaded = Weights.load(weights)
    seen: list[str] = []
    plan = NeedlePlan(number=2, families=("cards", "scenes"), size=(128, 128))
    found = json.loads(json.dumps(measure_needle(loaded, plan, seen.append)))
    assert seen == ["cards", "scenes"]
    assert len(found["cells"]) == 2 * len(CELLS)
    assert {one["n"] for one in found["cells"]} == {2}
    assert {one["tokens"] for one in found["cells"] if one["keep"] == 0.25} == {4}
    assert found["facts"]["weights"] == digest(weights / "mini", weights / "scorer") == loaded.name
    assert {one["family"] for one in found["calibration"]} == {"cards", "scenes", "all"}


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "needle", *map(str, arguments)])
    printed = capsys.readouterr()
    return int(stopped.value.code or 0), printed.out, printed.err


def test_the_page_is_made_again_and_keeps_what_was_written_by_hand(document, tmp_path, capsys):
    saved, page = tmp_path / "needle.json", tmp_path / "docs" / "results.md"
    saved.write_text(json.dumps(document))
    code, out, _ = run(capsys, "--from", saved, "--markdown", page)
    assert code == 0
    assert "bars kept" in out
    page.write_text(page.read_text() + "\nIt was tried twice.\n")
    assert run(capsys, "--from", saved, "--markdown", page, "--json")[0] == 0
    text = page.read_text()
    assert text.count(BY_HAND) == 1
    assert hand_written(page).strip() == "It was tried twice."
    assert text.startswith("# Results on Needle World")


def test_other_canvases_are_measured_and_named(weights, capsys):
    how = ("--n", 1, "--family", "scenes", "--size", "128x256", "--weights", weights, "--json")
    code, out, _ = run(capsys, *how)
    assert code == 0
    found = json.loads(out)
    assert {one["full"] for one in found["cells"]} == {4 * 8}
    assert "128×256" in found["facts"]["pictures"]


def test_json_is_the_document(document, tmp_path, capsys):
    (tmp_path / "needle.json").write_text(json.dumps(document))
    _, out, _ = run(capsys, "--from", tmp_path / "needle.json", "--json", "--out", tmp_path / "again")
    assert (
        json.loads(out)
        == json.loads((tmp_path / "again" / "needle.json").read_text())
        == json.loads(json.dumps(document))
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--from", "{folder}/none.json"), "cannot read"),
        (("--from", "{folder}/text.json"), "not JSON"),
        (("--from", "{folder}/other.json"), "not written by"),
        (("--n", "0"), "at least 1"),
        (("--family", "dragons"), "dragons"),
        (("--size", "huge"), "huge"),
        (("--weights", "{folder}"), "no mini in"),
        (("--device", "abacus"), "abacus"),
    ],
)
def test_mistakes_get_one_line(tmp_path, capsys, arguments, word):
    (tmp_path / "text.json").write_text("no")
    (tmp_path / "other.json").write_text("{}")
    code, out, err = run(capsys, *(argument.format(folder=tmp_path) for argument in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert word in err
