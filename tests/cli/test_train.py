"""`arr-coc train`: thin, but a training all the same."""

from __future__ import annotations

import json

from tiny_weights import tiny_weights

from arr_coc.realizing.bundled import Calibration, PlaceDoubt


def test_train_mini_trains(arr_coc, tmp_path):
    options = ["--scale", 0.004, "--width", 64, "--largest", 128, "--steps", 2]
    places = ["--folder", tmp_path / "run", "--out", tmp_path / "export"]
    outcome = arr_coc("train", "mini", *options, *places)
    assert outcome.code == 0, outcome.err
    record = json.loads((tmp_path / "export" / "record.json").read_text())
    assert record["step"] == 2


def test_options_are_those_of_the_trainings(arr_coc):
    for name, option in (
        ("mini", "--start-from"),
        ("scorer", "--print-share"),
        ("video", "--tries"),
    ):
        outcome = arr_coc("train", name, "--help")
        assert outcome.code == 0
        assert outcome.out.startswith(f"usage: arr-coc train {name}")
        assert option in outcome.out
    assert arr_coc("train", "mini", "--wishful", "1").code == 2


def test_calibration_is_written_beside_the_weights(arr_coc, tmp_path):
    folder, place = tiny_weights(tmp_path), PlaceDoubt(1.5, 0.5, -0.25)
    Calibration(place=place).write(folder / "mini")
    outcome = arr_coc("train", "calibration", "--weights", folder, "--family", "scenes", "--n", 1, "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    written = Calibration.beside(folder / "mini")
    assert (written.temperature, written.place) == (found["temperature"], place), "what else is known stays"


def test_mistakes_get_one_line(arr_coc, tmp_path):
    for arguments, word in (
        (("calibration", "--n", 0), "at least 1"),
        (("calibration", "--weights", tmp_path), "no mini"),
    ):
        outcome = arr_coc("train", *arguments)
        assert outcome.code == 2
        assert word in outcome.err
        assert len(outcome.err.strip().splitlines()) == 1
