"""The run of the comparison: it goes on where it stopped, compares what it should, fills the page, complains well."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from peers_parts import SIZE, tiny_weights

from arr_coc.core.errors import InputError
from arr_coc_lab.bench.peers.bench import (
    PeersPlan,
    compute_table,
    difference,
    measure_peers,
    packed,
    summarise,
    token_table,
    unpacked,
    wins,
)
from arr_coc_lab.bench.peers.registry import WAYS, chosen_ways
from arr_coc_lab.bench.run import bench, program
from arr_coc_lab.train.run import door

NAMES = ("scorer + overlay", "uniform down-sampling", "random + overlay", "DivPrune")
PLAN = PeersPlan(
    chosen_ways(NAMES),
    number=4,
    families=("forms", "signs"),
    keeps=(1 / 4, 1 / 16),
    more=(1 / 2,),
    size=SIZE,
    at_once=2,
)


@pytest.fixture(scope="module")
def whole():
    return measure_peers(tiny_weights(), PLAN)


def comparable(document):
    return [{**row, "GFLOP": row["GFLOP"]["total"]} for row in document["rows"]]


def test_a_run_that_was_stopped_goes_on_and_finds_the_same(tmp_path, whole):
    lines: list[str] = []
    few = replace(PLAN, ways=chosen_ways(["random + overlay", "DivPrune"]), seconds=1e-9)
    stopped = measure_peers(tiny_weights(), few, tmp_path, lines.append)
    assert {row["n"] for row in stopped["rows"]} == {4}  # one round of two families
    assert "the time is over after 2 pictures of each family" in lines[-1]
    went_on = measure_peers(tiny_weights(), PLAN, tmp_path)
    assert comparable(went_on) == comparable(whole)
    lines.clear()
    assert comparable(measure_peers(tiny_weights(), PLAN, tmp_path, lines.append)) == comparable(whole)
    assert not lines  # nothing was left to read


def test_the_order_of_the_ways_changes_nothing(whole):
    turned = measure_peers(tiny_weights(), replace(PLAN, ways=PLAN.ways[::-1]))
    assert sorted(comparable(turned), key=str) == sorted(comparable(whole), key=str)


def test_a_folder_of_another_run_is_not_gone_on_with(tmp_path):
    plan = replace(PLAN, ways=chosen_ways(["DivPrune"]), number=1, families=("forms",), more=())
    measure_peers(tiny_weights(), plan, tmp_path)
    with pytest.raises(InputError, match="another seed; remove it or give another --out"):
        measure_peers(tiny_weights(), replace(plan, seed=2), tmp_path)
    (tmp_path / "peers_raw.json").write_text("[")
    with pytest.raises(InputError, match="cannot go on with"):
        measure_peers(tiny_weights(), plan, tmp_path)


def test_every_row_says_what_it_cost_and_how_sure_it_is(whole):
    rows = {row["cell"]: row for row in whole["rows"]}
    assert {"full @ 64", "scorer + overlay @ 32", "scorer + overlay @ 4", "DivPrune @ 16"} <= set(rows)
    assert "DivPrune @ 32" not in rows
    for row in rows.values():
        assert row["n"] == 8
        assert set(row["families"]) == {"forms", "signs"}
        assert 0 <= row["low"] <= row["value"] <= row["high"] <= 1
        assert row["GFLOP"]["total"] == pytest.approx(
            sum(row["GFLOP"][part] for part in ("tower", "language", "chooser")), abs=1e-3
        )
    assert rows["DivPrune @ 4"]["GFLOP"]["tower"] == rows["full @ 64"]["GFLOP"]["tower"]
    assert rows["scorer + overlay @ 4"]["GFLOP"]["tower"] < rows["scorer + overlay @ 16"]["GFLOP"]["tower"]


def made_up() -> tuple[list[dict], dict]:
    """Ours at three budgets, one peer that pays for the tower, one control that is cheaper than our cheapest."""
    costs = {"scorer + overlay @ 192": 19.0, "scorer + overlay @ 128": 12.0, "scorer + overlay @ 64": 6.0}
    costs |= {"FastV, K = 2 @ 64": 20.0, "uniform down-sampling @ 64": 5.0, "CDPruner @ 64": 12.0}
    keeps = {"192": 0.75, "128": 0.5, "64": 0.25}
    generator = np.random.default_rng(0)
    rows, bits = [], {}
    for place, (cell, cost) in enumerate(costs.items()):
        way, _, tokens = cell.partition(" @ ")
        known = next(one for one in WAYS if one.name == way)
        rows.append(
            {
                "cell": cell,
                "way": way,
                "group": known.group,
                "where": known.where,
                "asks": known.asks,
                "paper": known.paper,
            }
            | {"keep": keeps[tokens], "tokens": int(tokens), "layers": [int(tokens)], "patches": []}
            | {"GFLOP": {"tower": cost - 1, "language": 1.0, "chooser": 0.0, "total": cost}}
        )
        bits[cell] = {family: generator.random(50) < 0.9 - 0.1 * place for family in ("forms", "signs")}
    return rows, bits


def test_equal_compute_takes_the_largest_budget_that_costs_no_more():
    rows, bits = made_up()
    document = {"facts": {}, **summarise(rows, bits)}
    ours = {one["cell"]: one["ours"] for one in document["equal compute"]}
    assert ours == {
        "FastV, K = 2 @ 64": "scorer + overlay @ 192",
        "CDPruner @ 64": "scorer + overlay @ 128",
        "uniform down-sampling @ 64": None,
    }
    gap = next(one for one in document["equal compute"] if one["cell"].startswith("FastV"))["ours minus this"]
    mean = np.mean(
        [
            bits["scorer + overlay @ 192"][name].mean() - bits["FastV, K = 2 @ 64"][name].mean()
            for name in ("forms", "signs")
        ]
    )
    assert gap["value"] == pytest.approx(mean)
    assert gap["low"] < gap["value"] < gap["high"]
    text = compute_table(document).to_markdown()
    assert "uniform down-sampling" in text
    assert "–" in text
    same = next(row for row in document["rows"] if row["cell"] == "FastV, K = 2 @ 64")["ours minus this"]
    assert same == difference(bits["scorer + overlay @ 64"], bits["FastV, K = 2 @ 64"])
    assert "0.5" not in token_table(document).columns  # a share at which no peer was read is no column


def test_where_a_peer_wins_is_said():
    rows, bits = made_up()
    nothing = wins(summarise(rows, bits))
    assert nothing == ["nowhere beyond chance"]
    bits["FastV, K = 2 @ 64"] = {name: np.ones(50, bool) for name in ("forms", "signs")}
    bits["scorer + overlay @ 64"] = {name: np.arange(50) < 20 for name in ("forms", "signs")}
    bits["scorer + overlay @ 192"] = bits["FastV, K = 2 @ 64"]
    lines = wins(summarise(rows, bits))
    assert any(
        line.startswith("FastV, K = 2 at 1/4 of the tokens, equal tokens: ahead by 60.0 points") for line in lines
    )
    assert any("better on forms, signs" in line for line in lines)
    assert not any("FastV" in line and "equal compute" in line for line in lines)


def test_page_and_plot_are_made_of_the_document(tmp_path, whole):
    page = tmp_path / "peers.md"
    page.write_text("by hand\n<!-- peers: begin -->\nold\n<!-- peers: end -->\nbelow\n")
    saved = tmp_path / "peers.json"
    saved.write_text(json.dumps(whole))
    picture = tmp_path / "peers.png"
    pytest.importorskip("matplotlib")
    program("peers")(["--from", str(saved), "--page", str(page), "--plot", str(picture)])
    text = page.read_text()
    assert text.startswith("by hand\n")
    assert text.endswith("below\n")
    assert "### Equal tokens" in text
    assert "### Equal compute" in text
    assert "old" not in text
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_bits_survive_packing():
    right = np.random.default_rng(1).random(13) < 0.5
    assert np.array_equal(unpacked(packed(right), 13), right)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--n", "0"], "--n 0 measures nothing"),
        (["--seconds", "-1"], "--seconds -1 measures nothing"),
        (["--peers", "FastVV"], "no way is called 'FastVV'"),
        (["--family", "dogs"], "unknown family dogs"),
        (["--keeps", "2"], "--keeps 2 is not a share"),
        (["--device", "cuda:99"], "device 'cuda:99' cannot be used"),
        (["--from", "nowhere.json"], "cannot read nowhere.json"),
        (["--weights", "nowhere"], "no mini in nowhere"),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as stopped:
        door(lambda: program("peers")(arguments))
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_the_command_line_knows_it(tmp_path, whole):
    from typer.testing import CliRunner

    from arr_coc_lab.cli.bench import app

    saved = tmp_path / "peers.json"
    saved.write_text(json.dumps(whole))
    result = CliRunner().invoke(app, ["peers", "--from", str(saved)])
    assert result.exit_code == 0
    assert "Equal tokens" in result.output
    assert json.loads(CliRunner().invoke(app, ["peers", "--from", str(saved), "--json"]).output) == whole


def test_a_page_without_its_place_is_complained_about(tmp_path, whole):
    (tmp_path / "peers.json").write_text(json.dumps(whole))
    with pytest.raises(InputError, match="peers: begin"):
        bench("peers", saved=tmp_path / "peers.json", page=tmp_path / "missing.md")
