"""Verdicts: each can come out three ways, and the interval decides."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from arr_coc.core.errors import InputError
from arr_coc_lab.bench.hypotheses import HypothesisMeasurement, compare, hypotheses_table, narrow_table, share
from arr_coc_lab.bench.report import written
from arr_coc_lab.bench.run import PlainScreen, bench, perform
from arr_coc_lab.bench.suite import suite
from arr_coc_lab.statistics import Estimate, mean, paired, proportion, ratio


def document(**shares: float) -> dict:
    """A measurement in which each system is right on the first so many per cent of 200 pictures."""
    number = 200
    systems = {"scorer": 0.9, "uniform": 0.5, "random": 0.3, "shuffled": 0.4, "top_k": 0.6} | shares
    cells = {
        f"{name}@0.25": {
            "tokens": 64,
            "right": "".join("01"[place < share * number] for place in range(number)),
            "recall": [1.0 if place < share * number else 0.0 for place in range(number)],
        }
        for name, share in systems.items()
    }
    return {
        "cells": cells,
        "families": ["cards"],
        "each": number,
        "n": number,
        "size": [512, 512],
        "large": [1024, 1024],
        "full": 256,
        "seed": 1,
        "split": "test",
        "best_cells": {"scorer@200": [1.0] * 199 + [0.9], "random@200": [0.2] * 200},
        "questions": [
            {"family": "cards", "keep": 0.25, "tokens": 64, "own": 0.9, "others": 0.1 + 0.1 * (place % 2)}
            for place in range(100)
        ],
        "stakes": {name: {"recall": [share] * 200, "waste": [share / 2] * 200} for name, share in
                   (("medical", 0.9), ("casual", 0.6))},
    }  # fmt: skip


def verdicts(measured: HypothesisMeasurement) -> dict[tuple[str, str], str]:
    return {(str(row["claim"]), str(row["against"])): str(row["verdict"]) for row in hypotheses_table(measured).rows}


def test_a_better_system_holds_a_worse_one_fails_and_an_equal_one_is_undecided():
    shown = {
        0.5: "holds",
        0.9: "undecided",
        0.99: "fails",
    }
    for other, verdict in shown.items():
        found = verdicts(HypothesisMeasurement(document(uniform=other)))
        assert found["H1 query-aware beats uniform", "uniform"] == verdict, other


def test_a_margin_is_part_of_the_claim():
    assert (
        verdicts(HypothesisMeasurement(document(shuffled=0.9)))["H1 a shuffled map loses", "shuffled + 2 points"]
        != "holds"
    )
    assert (
        verdicts(HypothesisMeasurement(document(shuffled=0.7)))["H1 a shuffled map loses", "shuffled + 2 points"]
        == "holds"
    )


def test_outcomes_need_only_come_near():
    claim = ("outcomes teach as well as boxes", "scorer × 0.95")
    assert verdicts(HypothesisMeasurement(document(outcomes=0.89)))[claim] == "holds"
    assert verdicts(HypothesisMeasurement(document(outcomes=0.70)))[claim] == "fails"
    row = compare(
        HypothesisMeasurement(document(outcomes=0.89)),
        {"claim": "", "system": "outcomes", "other": "scorer", "scale": 0.95},
        "0.25",
    )
    assert row["difference"].value == pytest.approx(100 * (0.89 - 0.95 * 0.9))  # type: ignore[union-attr]


def test_questions_recall_and_stakes_have_their_rows():
    table = hypotheses_table(HypothesisMeasurement(document(medical=0.9, casual=0.8)))
    rows = {str(row["claim"]): row for row in table.rows}
    assert rows["each question gets its own target"]["verdict"] == "holds"
    assert rows["each question gets its own target"]["difference"].value == pytest.approx(6)  # type: ignore[union-attr]
    assert rows["H4 the best 200 of 1024 cells keep what is needed"]["verdict"] == "holds"
    assert rows["medical stakes miss less"]["verdict"] == "holds"
    assert rows["and wastes more"]["verdict"] == "holds"
    assert "H5 the texture beats RGB alone" not in rows
    assert "rgb" in table.facts["not trained, so not compared"]


def test_tensions_by_question_are_held_against_both_rivals():
    """H3 can come out either way, by each rival alone."""
    for adaptive, verdict in ((0.95, "holds"), (0.8, "undecided"), (0.5, "fails")):
        measured = HypothesisMeasurement(document(adaptive=adaptive, tension=0.8, **{"fixed weights": 0.6}))
        found = verdicts(measured)
        assert found["H3 adaptive beats learned but fixed", "learned tensions"] == verdict
        fixed = "fails" if adaptive == 0.5 else "holds"
        assert found["H3 adaptive beats fixed weights", "fixed weights"] == fixed


def test_stakes_are_compared_at_half_of_the_tokens_too_and_can_fail():
    measured = document(medical=0.6, casual=0.8)
    for name, seen in (("medical", 0.95), ("casual", 0.7)):
        recall = [1.0 if place < seen * 200 else 0.0 for place in range(200)]
        measured["cells"][f"{name}@0.5"] = {"tokens": 128, "right": "1" * 200, "recall": recall}
    measured["stakes"]["medical"]["waste"] = [0.1] * 200
    rows = [row for row in hypotheses_table(HypothesisMeasurement(measured)).rows if row["id"] == "stakes"]
    assert [(row["tokens"], row["verdict"]) for row in rows] == [
        (64, "fails"),
        (128, "holds"),
        (None, "holds"),
        (None, "fails"),
    ]


def test_rivals_that_were_not_trained_are_told_with_the_remedy(tmp_path):
    path = tmp_path / "measured.json"
    for systems, told in (({}, "adaptive, medical, casual"), ({"medical": 0.9, "casual": 0.8}, "rows of adaptive;")):
        path.write_text(json.dumps(document(**systems)))
        report = bench("hypotheses", saved=path)
        assert any(line.startswith("left out: ") and told in line for line in report.said())


def test_a_collapse_is_a_row_and_the_start_is_told():
    training = {"pictures": 448, "keep": 0.25, "random": 0.2, "start": 0.21, "end": 0.8, "observations": 30,
                "bands": {"share_band": [0.9, 1.0], "entropy_band": [0.15, 0.98]}, "alarms": []}  # fmt: skip
    for alarms, verdict in (([], "holds"), (["map_entropy left [0.15, 0.98]"], "fails")):
        table = hypotheses_table(
            HypothesisMeasurement(document(outcomes=0.89) | {"training": training | {"alarms": alarms}})
        )
        rows = {str(row["claim"]): row for row in table.rows}
        assert rows["outcomes train without collapse"]["verdict"] == verdict
    assert "from 21.0 % (random trees: 20.0 %) to 80.0 %" in table.facts["learning from outcomes"]


def test_pairing_takes_the_pictures_difficulty_away():
    """Two systems that differ on few pictures: told apart when paired, not when taken alone."""
    generator = np.random.default_rng(0)
    first = (generator.random(400) < 0.5).astype(float)
    second = first.copy()
    second[np.flatnonzero(first)[:12]] = 0
    alone = proportion(first).low > proportion(second).high
    assert not alone
    assert paired(first, second).above() == "holds"
    assert paired(second, first).above() == "fails"


def test_no_spread_is_not_certainty():
    same = paired(np.ones(5), np.ones(5))
    assert same.low < 0 < same.high
    assert mean(np.ones(1)).high == math.inf
    assert Estimate(1, 0.5, 1.5).above(0.5) == "undecided"
    with pytest.raises(InputError, match="two values"):
        paired(np.ones(3), np.ones(4))


def test_a_ratio_is_resampled_by_picture():
    generator = np.random.default_rng(1)
    own, others = generator.random(500), 0.2 * generator.random(500)
    found = ratio(own, others)
    assert found.low < found.value < found.high
    assert found.low > 4
    assert found.high < 6
    assert ratio(own, others) == found
    assert ratio(np.ones(3), np.zeros(3)) == Estimate(1000.0, 1000.0, 1000.0)


def test_a_terminal_of_80_columns_shows_every_word_and_number():
    shares = {"medical": 0.9, "casual": 0.8, "outcomes": 0.89, "tension": 0.92, "adaptive": 0.93}
    shares |= {"fixed weights": 0.9, "propositional": 0.5, "perspectival": 0.4}
    table = hypotheses_table(HypothesisMeasurement(document(**shares)))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(narrow_table(table).to_rich())
    shown = console.export_text()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("undecided") + shown.count("holds") + shown.count("fails") == len(table.rows)
    # Numbers stand whole, one below the other; words may wrap, but not into more than four lines.
    for row in table.rows:
        assert all(written(row[name]) in shown for name in ("accuracy", "other", "difference"))
    assert len(shown.splitlines()) <= 4 * len(table.rows) + 5
    assert {"claim", "system", "against", "accuracy", "measure"} <= set(table.to_json()["rows"][0])


def test_a_share_ends_at_all_of_it():
    found = share(np.array([1.0] * 20 + [0.9]))
    assert found.high == 100
    assert found.low is not None
    assert 97 < found.low < found.value < 100
    assert share(np.array([0.0] * 20 + [0.1])).low == 0


def test_the_command_reads_a_measurement(tmp_path, capsys):
    (tmp_path / "measured.json").write_text(json.dumps(document()))
    chosen = suite("hypotheses")
    options = chosen.options(saved=tmp_path / "measured.json", out=tmp_path / "out", as_json=True)
    perform(chosen, options, PlainScreen())
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "hypotheses.json").read_text())
    assert printed["rows"][0]["verdict"] == "holds"
    (tmp_path / "measured.json").write_text("{}")
    with pytest.raises(InputError, match="not a measurement"):
        bench("hypotheses", saved=tmp_path / "measured.json")


def test_a_page_gets_its_table_anew_and_keeps_its_prose(tmp_path, capsys):
    (tmp_path / "measured.json").write_text(json.dumps(document()))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- hypotheses: begin -->\nstale\n<!-- hypotheses: end -->\nafter\n")
    for _ in range(2):
        bench("hypotheses", saved=tmp_path / "measured.json", page=page)
    text = page.read_text()
    assert text.startswith("before\n<!--")
    assert text.endswith("-->\nafter\n")
    assert "stale" not in text
    assert text.count("| H1 | query-aware beats random: scorer > random | 64 |") == 1
    assert "| % | rival's % | difference | n | verdict |" in text
    page.write_text("no markers")
    with pytest.raises(InputError, match="needs one"):
        bench("hypotheses", saved=tmp_path / "measured.json", page=page)
