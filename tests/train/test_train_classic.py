"""The small trainings of the classic parts, a step each: what they export is what the library loads."""

from __future__ import annotations

import json

import pytest

from arr_coc.texture.reducers import LearnedDownsampler
from arr_coc_lab.classic import mips, phases, tensions
from arr_coc_lab.classic.balancers import AdaptiveTensionBalancer
from arr_coc_lab.classic.selectors import QuestionWords

FEW = ("--steps", "1", "--pictures", "7", "--judged", "7", "--batch", "2", "--device", "cpu")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch):
    """Pictures of half the side, of one shape."""
    monkeypatch.setattr(phases, "SHAPES", ((192, 192),))
    monkeypatch.setattr(tensions, "SIDE", 192)


def test_selectors_are_taught_together_and_judged_by_what_they_cover(tmp_path, capsys):
    phases.main((*FEW, "--folder", str(tmp_path / "run"), "--out", str(tmp_path)))
    QuestionWords.from_pretrained(tmp_path / "words")
    for one in phases.TAUGHT:
        one.kind.from_pretrained(tmp_path / one.part)
    covered = json.loads((tmp_path / "record.json").read_text())["coverage at 1/4 [value, low, high]"]
    taught = {"realizer", "query_aware_lod", "patch_trunk", "participatory"}
    assert taught | {"edge_lod", "uniform", "oracle"} == set(covered)
    assert covered["oracle"][0] > covered["uniform"][0]
    alone = tmp_path / "alone"
    phases.main((*FEW, "--only", "patch_trunk", "--folder", str(tmp_path / "one"), "--out", str(alone)))
    assert sorted(path.name for path in alone.iterdir()) == ["patch_trunk", "patch_trunk.json"]


def test_mips_are_learned_beside_averages(tmp_path, capsys):
    mips.main((*FEW, "--size", "128", "--folder", str(tmp_path / "run"), "--out", str(tmp_path)))
    assert LearnedDownsampler.from_pretrained(tmp_path / "mips_mvp13").layout.name == "mvp13"
    covered = json.loads((tmp_path / "mips_mvp13.json").read_text())["coverage at 1/4 [value, low, high]"]
    assert "learned − average" in covered


def test_tensions_are_learned_beside_those_set_by_hand(tmp_path, capsys):
    tensions.main((*FEW, "--folder", str(tmp_path / "run"), "--out", str(tmp_path)))
    AdaptiveTensionBalancer.from_pretrained(tmp_path / "adaptive")
    found = json.loads((tmp_path / "tensions.json").read_text())
    assert "adaptive − hand-set 0.25" in found["coverage [value, low, high]"]
    assert set(found["tensions"]) == {"compress_particularize", "exploit_explore", "focus_diversify"}
