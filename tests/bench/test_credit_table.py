"""One table of what a scorer learns by: trained, read, written; and what cannot be compared."""

from __future__ import annotations

import json

import pytest
import torch
from tiny_weights import ship_tiny

from arr_coc.core.errors import InputError
from arr_coc_lab.bench import credit
from arr_coc_lab.bench.run import program
from arr_coc_lab.train.evaluate import FAMILIES


def test_every_rule_is_trained_from_one_start_and_read_beside_the_controls(tmp_path):
    ship_tiny(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- credit: begin -->\n<!-- credit: end -->\nafter\n", encoding="utf-8")
    numbers = {"steps": 1, "batch": 4, "size": 128, "width": 32, "number": 7, "net": "small", "keeps": 0.5}
    plan = [part for name, value in numbers.items() for part in (f"--{name}", str(value))]
    rules = ("boxes", "critic")
    program("credit")(
        [
            "--weights",
            str(tmp_path),
            "--out",
            str(tmp_path / "out"),
            *plan,
            "--cpu",
            "--page",
            str(page),
            "--rules",
            *rules,
        ]
    )
    found = json.loads((tmp_path / "out" / "compared.json").read_text())
    names = [row["rule"] for row in found["rows"]]
    assert names == ["full", *credit.CONTROLS, *rules, credit.OWN_STOPS]
    by_name = dict(zip(names, found["rows"], strict=True))
    assert {row["n"] for row in found["rows"]} == {7}
    assert by_name["boxes"]["steps"] == by_name["critic"]["steps"] == 1
    assert by_name["full"]["tokens"] == 16
    assert by_name["critic"]["tokens"] == by_name["shuffled"]["tokens"] == 8
    assert 2 <= by_name[credit.OWN_STOPS]["tokens"] <= 2 + 4 + 8
    assert all(family in by_name["boxes"] for family in FAMILIES)
    assert "| critic | 0 |" in page.read_text(encoding="utf-8")
    page.write_text("<!-- credit: begin -->\n<!-- credit: end -->\n", encoding="utf-8")
    program("credit")(["--measured", str(tmp_path / "out" / "compared.json"), "--page", str(page)])
    assert "| critic | 0 |" in page.read_text(encoding="utf-8"), "the same from the file"
    start = [torch.load(tmp_path / "out" / rule / "state.pt", weights_only=True)["modules"]["scorer"] for rule in rules]
    moved = [float((start[0][name] - start[1][name]).abs().max()) for name in start[0]]
    assert max(moved) < 0.05, "one small step from the same weights"


def test_what_cannot_be_compared_is_told(tmp_path):
    with pytest.raises(InputError, match="no compared"):
        program("credit")(["--measured", str(tmp_path / "nothing.json")])
    with pytest.raises(InputError, match="named once"):
        program("credit")(["--rules", "boxes", "boxes"])
