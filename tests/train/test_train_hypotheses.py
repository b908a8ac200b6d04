"""The script that trains and measures every rival: a few steps of it, resuming, and the table of what it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_weights import ship_tiny

from arr_coc.core.errors import InputError
from arr_coc_lab.classic.balancers import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from arr_coc_lab.classic.scorer import RGB, Scorer, ScorerConfig
from arr_coc_lab.train import train_hypotheses
from arr_coc_lab.train.measure import Measuring, measure, steps_of
from arr_coc_lab.train.outcomes import load_reader
from arr_coc_lab.train.rivals import KINDS, SCORERS, Rivals

NUMBER = 7


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a reader and a scorer that nobody trained."""
    folder = tmp_path_factory.mktemp("hypotheses")
    ship_tiny(folder / "reader")
    Scorer(ScorerConfig(width=32)).save_pretrained(folder / "scorer")
    return folder


@pytest.fixture(scope="module")
def run(made) -> Path:
    """The same with every rival, trained for two steps."""
    train_hypotheses.main(arguments(made))
    return made


def arguments(folder: Path) -> list[str]:
    numbers = {"steps": 2, "batch": 4, "size": 128, "large": 128, "width": 32, "group": 2, "number": NUMBER}
    numbers |= {"chosen-on": 7, "probe": 7}
    places = {"reader": folder / "reader", "scorer": folder / "scorer", "folder": folder / "run", "out": folder / "out"}
    return ["--cpu", *(part for name, value in (numbers | places).items() for part in (f"--{name}", str(value)))]


def test_every_part_is_trained_and_kept(run):
    record = json.loads((run / "out" / "record.json").read_text())
    assert set(record["phases"]) == {"boxes", "stakes", "balance", "outcomes"}
    assert {phase["step"] for phase in record["phases"].values()} == {2}
    assert set(record["powers"]) >= set(KINDS)
    for name, kind in KINDS.items():
        kind.from_pretrained(run / "out" / name)
    assert Scorer.from_pretrained(run / "out" / "rgb").config.channels == RGB
    tensions = record["phases"]["balance"]["tensions"]
    assert [point["step"] for point in tensions["tension"]["points"]] == [1, 2]
    assert (
        tensions["adaptive"]["points"][-1]["focus_diversify low"]
        <= tensions["adaptive"]["points"][-1]["focus_diversify"]
    )
    outcomes = record["phases"]["outcomes"]
    assert [point["map_entropy"] <= 1 for point in outcomes["monitors"]["points"]] == [True, True]
    assert any("probe random" in point for point in outcomes["curve"])


def test_what_ships_is_small():
    shipped = sum(value.numel() for value in Scorer().parameters())
    small = Scorer(ScorerConfig(width=train_hypotheses.HypothesesOptions.width))
    others = (len(SCORERS) - 1) * sum(value.numel() for value in small.parameters())
    assert 2 * (shipped + others) < 8e6, "all rivals together, in fp16"


def test_a_second_run_does_nothing_twice(run):
    before = {path: path.read_bytes() for path in sorted((run / "out").rglob("model.safetensors"))}
    assert len(before) == len(KINDS)
    train_hypotheses.main([*arguments(run), "--number", "0"])
    assert json.loads((run / "out" / "record.json").read_text())["phases"]["boxes"]["step"] == 2
    for path, content in before.items():
        assert path.read_bytes() == content, path


def test_the_steps_that_are_announced_are_those_that_come(joined):
    plan = Measuring(number=14, also=7)
    assert (plan.each, plan.each_also, len(steps_of(plan))) == (2, 1, 21)
    _, heard = joined
    assert heard == steps_of(in_rounds(1))
    assert heard[-1] == "questions about signs, round 2 of 2"


@pytest.fixture(scope="module")
def parts(made) -> tuple[Any, Any]:
    """A reader and all rivals, as they are before their training."""
    scorer = Scorer.from_pretrained(made / "scorer")
    torch.manual_seed(1)
    found: dict[str, Any] = {name: Scorer(ScorerConfig(width=32)).eval() for name in SCORERS}
    found["rgb"] = Scorer(ScorerConfig(width=32, channels=RGB)).eval()
    found["tension"] = TensionBalancer()
    found["adaptive"] = AdaptiveTensionBalancer(AdaptiveConfig(query_width=scorer.config.query_width))
    assert found.keys() == KINDS.keys()
    rivals = Rivals(scorer.eval(), found, dict.fromkeys((*found, "scorer"), 1.0))
    return load_reader(made / "reader", torch.device("cpu")), rivals


def measured(parts: tuple[Any, Any], plan: Measuring, **how: Any) -> dict[str, Any]:
    model, rivals = parts
    return measure(model, rivals, plan, **how)


def in_rounds(at_once: int, **more) -> Measuring:
    return Measuring(4, families=("cards", "signs"), size=(128, 128), large=(128, 128), at_once=at_once, **more)


@pytest.fixture(scope="module")
def joined(parts) -> tuple[dict[str, Any], list[str]]:
    """What two rounds measure, and the steps that were announced meanwhile."""
    heard: list[str] = []
    return measured(parts, in_rounds(1), advance=heard.append), heard


def test_rounds_join_to_what_one_round_measures(parts, joined):
    whole, (joined, _) = measured(parts, in_rounds(2)), joined
    assert (whole["n"], joined["n"], whole["each"]) == (4, 4, 2)
    assert whole["cells"].keys() == joined["cells"].keys()
    for name in ("full@1", "uniform@0.25", "scorer@0.125", "rgb@0.25", "top_k@0.25"):
        assert whole["cells"][name] == joined["cells"][name], name
    assert whole["best_cells"]["scorer@100"] == joined["best_cells"]["scorer@100"]
    assert whole["stakes"] == joined["stakes"]
    key = ("family", "keep", "own", "others")
    first, second = (sorted([one[k] for k in key] for one in document["questions"]) for document in (whole, joined))
    assert first == second


def test_when_time_runs_out_whole_rounds_remain(parts):
    document = measured(parts, in_rounds(1, seconds=0.0))
    assert (document["each"], document["wanted"], document["n"]) == (1, 2, 2), "one picture of every family"
    assert {len(cell["recall"]) for cell in document["cells"].values()} == {2}


def test_an_interrupted_measurement_goes_on_where_it_stood(parts, joined, tmp_path):
    plan = in_rounds(1)
    kept = train_hypotheses.RoundsKept.of(tmp_path, plan, parts[1], "weights")

    def stop_after_one(rounds: list) -> None:
        kept.save(rounds)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(parts, plan, keep=stop_after_one)
    assert len(kept.load()) == 1
    heard: list[str] = []
    assert measured(parts, plan, advance=heard.append, done=kept.load()) == joined[0]
    assert heard == steps_of(plan)[6:], "the first round is not measured again"
    assert train_hypotheses.RoundsKept.of(tmp_path, plan, parts[1], "other weights").load() == []


def test_a_folder_stays_with_the_reader_it_began_with(made):
    train_hypotheses.check_begun(made / "run", made / "reader", made / "scorer")
    train_hypotheses.check_begun(made / "run", made / "reader", made / "scorer")
    Scorer(ScorerConfig(width=32)).save_pretrained(made / "another")
    given = arguments(made)
    given[given.index("--scorer") + 1] = str(made / "another")
    with pytest.raises(InputError, match="another scorer; give a new --folder"):
        train_hypotheses.main(given)
