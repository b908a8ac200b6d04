"""The systems that the hypotheses compare: what they see, how sharply, and what is kept of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from arr_coc.attending.quadtree import quadtree
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc_lab.bench.measure import Measuring, _other_questions, _overlaps, top_cells
from arr_coc_lab.bench.rivals import Rivals, sharpened, three_ways
from arr_coc_lab.classic.balancers import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from arr_coc_lab.classic.scorer import RGB, Scorer, ScorerConfig
from arr_coc_lab.train.allocations import fine_cells, target_cells, tree_of
from arr_coc_lab.train.evaluate import recall
from arr_coc_lab.train.pictures import render_family
from arr_coc_lab.worlds.needle.renderer import render


@pytest.fixture(scope="module")
def rivals() -> Rivals:
    torch.manual_seed(0)
    scorer = Scorer(ScorerConfig(width=32))
    parts = {
        "rgb": Scorer(ScorerConfig(width=32, channels=RGB)),
        "tension": TensionBalancer(),
        "adaptive": AdaptiveTensionBalancer(AdaptiveConfig(query_width=scorer.config.query_width)),
    }
    return Rivals(scorer.eval(), {name: part.eval() for name, part in parts.items()})


@pytest.fixture(scope="module")
def batch():
    return render_family("cards", 3, (256, 256), 0, 0, "cpu")


def test_what_is_seen_in_full_is_counted_cell_by_cell(batch):
    tree = tree_of((256, 256))
    generator = torch.Generator().manual_seed(0)
    leaves = quadtree(torch.rand(3, 8, 8, generator=generator) ** 9, tree, 31).cells
    truth = target_cells(batch, 8, 8)
    fine = fine_cells(leaves, 8, 8)
    for picture in range(3):
        cells = {(row, col) for row, col, level in leaves[picture].tolist() if level == 0}
        assert {tuple(place) for place in fine[picture].nonzero().tolist()} == cells
        needed = {tuple(place) for place in truth[picture].nonzero().tolist()}
        assert float(recall(leaves, truth)[picture]) == pytest.approx(len(needed & cells) / len(needed))


def test_the_best_cells_are_the_best():
    scores = torch.rand(2, 4, 6, generator=torch.Generator().manual_seed(1))
    leaves = top_cells(scores, 5)
    assert leaves.shape == (2, 5, 3)
    for picture in range(2):
        chosen = fine_cells(leaves, 4, 6)[picture] > 0
        assert scores[picture][chosen].min() > scores[picture][~chosen].max()


def test_three_ways_are_three_maps_of_the_cells(rivals, batch):
    ways = three_ways(batch, rivals.scorer, at_once=2)
    for one in ways.maps:
        assert one.shape == (3, 8, 8)
        assert 0 <= float(one.min()) <= float(one.max()) <= 1
    # What there is to be read is on the cards, not on the bare table: the sign of the first way.
    there = batch.things.sum(-1) > 0
    assert ways.propositional[there].mean() > ways.propositional[~there].mean()
    maps = rivals.maps(batch, ways)
    assert set(maps) == set(rivals.names) >= {"scorer", "rgb", "tension", "adaptive", "fixed weights"}
    assert all(one.shape == (3, 8, 8) for one in maps.values())


def test_each_rival_gets_the_sharpness_that_serves_it_best(rivals, batch):
    tree = tree_of((256, 256))
    fitted = Rivals(rivals.scorer, rivals.parts)
    fitted.choose_powers(batch, tree, 16)
    truth = target_cells(batch, 8, 8)
    maps = fitted.maps(batch)
    for name, one in Rivals(rivals.scorer, rivals.parts).maps(batch).items():
        plain = [recall(quadtree(one**power, tree, 16).cells, truth).mean() for power in (1, 2, 4, 8)]
        odds = [
            recall(quadtree((one / (1.0000001 - one)) ** power, tree, 16).cells, truth).mean() for power in (0.5, 1)
        ]
        mine = float(recall(quadtree(maps[name], tree, 16).cells, truth).mean())
        assert mine >= float(max(*plain, *odds)) - 1e-4, name


def test_odds_tell_apart_what_is_nearly_certain_everywhere():
    """High stakes: almost every cell is 1 to seven digits, yet one is likelier by far."""
    logits = torch.full((1, 8, 8), 18.0, dtype=torch.float64)
    logits[0, 5, 2] = 25
    flat, sharp = (sharpened(logits.sigmoid(), 1.0, by_odds) for by_odds in (False, True))
    assert float(flat.amax() - flat.amin()) < 1e-6
    assert float(sharp[0, 5, 2]) == pytest.approx(1)
    assert float(sharp.flatten().sort().values[-2]) == pytest.approx(math.exp(-7), rel=1e-3)
    assert torch.equal(sharpened(torch.zeros(1, 2, 2), 0.5, True), torch.zeros(1, 2, 2))


def test_a_saved_rival_is_the_same_rival(rivals, batch, tmp_path):
    rivals.save(tmp_path)
    write_json(tmp_path / "record.json", {"powers": {"rgb": 2.0}, "odds": ["rgb"]})
    again = Rivals.load(rivals.scorer, tmp_path)
    assert set(again.parts) == set(rivals.parts)
    before = Rivals(rivals.scorer, rivals.parts, {"rgb": 2.0}, frozenset({"rgb"})).maps(batch)
    for name, one in again.maps(batch).items():
        assert torch.allclose(one, before[name], atol=5e-3), name
    assert (again.powers, again.odds) == ({"rgb": 2.0}, {"rgb"})
    assert Rivals.load(rivals.scorer, tmp_path / "nothing").parts == {}
    write_json(tmp_path / "record.json", {"other": 1})
    with pytest.raises(InputError, match="not a record"):
        Rivals.load(rivals.scorer, tmp_path)
    assert np.isfinite(before["rgb"].numpy()).all()


def test_overlap_with_ones_own_target_and_with_the_others():
    """Two questions whose maps point at their own targets, a third that asks for the same place as the first."""
    tree = tree_of((256, 256))
    targets = torch.zeros(3, 1, 8, 8)
    targets[0, 0, :2, :2] = targets[1, 0, 6:, 6:] = targets[2, 0, :2, :2] = 1
    scores = [target + 1e-3 for target in targets]
    (found,) = _overlaps(scores, targets, tree, 16, "cards", 0.25)
    assert (found["own"], found["others"]) == (1, 0)
    (found,) = _overlaps([scores[1], scores[0], scores[1]], targets, tree, 16, "cards", 0.25)
    assert (found["own"], found["others"]) == (0, 1), "looking where the other question's answer is"
    same = targets[:1].expand(3, -1, -1, -1)
    assert _overlaps(scores, same, tree, 16, "cards", 0.25) == [], "one and the same target tells nothing"


def test_further_questions_are_those_of_the_same_pictures():
    """Asked without painting again: the very questions and boxes that `render` has for question 1 and 2."""
    plan = Measuring(size=(256, 256))
    for family in ("cards", "scenes"):
        found = _other_questions(family, plan, range(3, 5), torch.device("cpu"))
        first = render(family, 2, plan.size, plan.seed, plan.split, start=3)
        for number, asked in enumerate(found, 1):
            again = render(family, 2, plan.size, plan.seed, plan.split, start=3, question=number)
            assert torch.equal(again.pictures, first.pictures)
            for name in ("question_ids", "boxes", "box_mask"):
                assert torch.equal(getattr(asked, name), getattr(again, name)), (family, number, name)
