"""`bench classic` on a tiny reader: rows of the registry, going on, tables, a page."""

from __future__ import annotations

import json

import pytest
import torch
from arr_coc_lab.bench.classic import (
    ClassicPlan,
    ClassicRecord,
    read_classic,
    tables,
    wanted_names,
)

from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json, write_text
from arr_coc.knowing.registry import relevance_source, remove_source
from arr_coc_lab.bench.run import program
from arr_coc_lab.classic.scorer import RGB, Scorer, ScorerConfig
from arr_coc_lab.train.mini_model import MiniConfig, build_mini
from arr_coc_lab.train.rivals import BalancerPlan, Rivals, fit_balancers

PLAN = ClassicPlan(each=2, at_once=2, size=(128, 128), families=("cards",), names=("edges_here", "nowhere"))


@pytest.fixture(scope="module")
def reader():
    torch.manual_seed(0)
    shape = MiniConfig(width=64, vision_layers=2, language_layers=2, heads=1, deepstack=(0,))
    return build_mini(shape).eval()


@pytest.fixture
def rivals() -> Rivals:
    torch.manual_seed(0)
    parts = {name: Scorer(ScorerConfig(width=32, channels=RGB)).eval() for name in ("rgb", "texture")}
    return Rivals(Scorer(ScorerConfig(width=32)).eval(), parts)


@pytest.fixture
def source():
    @relevance_source("edges_here", summary="a map for a test")
    def edges(scene, question):
        return scene.pixels.mean(2)[::16, ::16].astype("float32") / 255

    yield
    remove_source("edges_here")


def test_rows_of_the_registry_are_read_with_ours_and_the_controls(reader, rivals, source, tmp_path):
    learning = BalancerPlan(PLAN.size, PLAN.seed, "cpu", PLAN.families, each=2, steps=2)
    fit_balancers(rivals, learning, tmp_path / "balancers")
    assert {"tension", "adaptive"} <= set(rivals.names)
    kept = []
    record = read_classic(
        reader, rivals, PLAN, ClassicRecord(plan=json.loads(json.dumps(PLAN.__dict__))), keep=kept.append
    )
    assert record.missing == {"nowhere": "not in the registry"}
    read = {cell.partition("@")[0] for cell in record.cells}
    assert {"scorer", "edges_here", "tension", "adaptive", "rgb", "uniform", "random", "shuffled", "full"} <= read
    assert {"clusters", "cascade", "saccades"} <= read, "our map by other layouts"
    assert all(len(text) == 2 for one in record.cells.values() for text in one["cards"].values())
    assert len(kept) == 1
    again = read_classic(reader, rivals, PLAN, record, keep=kept.append)
    assert len(kept) == 1, "nothing is read twice"
    found, claims = tables(again)
    assert {row["row"] for row in found.rows} == read
    assert all(row["n"] == 2 for row in found.rows)
    assert "left out: nowhere" in found.facts
    assert {row["id"] for row in claims.rows} == {"H2", "H3", "H5"}
    document = json.loads(json.dumps(record.to_json()))
    assert ClassicRecord.of(document, PLAN).cells == record.cells
    with pytest.raises(InputError, match="another seed"):
        ClassicRecord.of(document, ClassicPlan(size=(128, 128), at_once=2, seed=5))


def test_large_pictures_are_read_by_the_classic_scale(reader, rivals):
    plan = ClassicPlan(
        each=0, large=2, large_at_once=2, large_size=(320, 320), large_budgets=(80,), families=("cards",)
    )
    record = read_classic(reader, rivals, plan, ClassicRecord(plan=json.loads(json.dumps(plan.__dict__))))
    assert set(record.cells) == {"classic scale@80", "overlay scale@80", "uniform scale@80"}
    (table,) = tables(record)
    assert [row["row"] for row in table.rows] == ["classic", "uniform", "overlay"]


@pytest.mark.parametrize("door", ["arr-coc", "python -m"])
def test_a_saved_record_makes_the_page(door, tmp_path, capsys):
    from arr_coc.app.cli import run

    cells = {f"{name}@64": {"cards": {"0": text}} for name, text in (("scorer", "1101"), ("uniform", "0001"))}
    plan = ClassicPlan(each=4)
    record = ClassicRecord(cells=cells, plan=json.loads(json.dumps(plan.__dict__)))
    write_json(tmp_path / "classic.json", record.to_json())
    write_text(tmp_path / "page.md", "before\n<!-- classic: begin -->\nold\n<!-- classic: end -->\nafter\n")
    given = ["--from", str(tmp_path / "classic.json"), "--page", str(tmp_path / "page.md")]
    assert not (run(["bench", "classic", *given]) if door == "arr-coc" else program("classic")(given))
    page = (tmp_path / "page.md").read_text()
    assert "| uniform | control | 64 | 25.0" in page
    assert page.startswith("before")
    assert "old" not in page
    capsys.readouterr()


def test_phases_that_are_in_the_registry_are_taken():
    usable, missing = wanted_names(("scorer", "glance", "nowhere"))
    assert "scorer" in usable
    assert "model" in missing["glance"]
    assert missing["nowhere"] == "not in the registry"
