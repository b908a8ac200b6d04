"""Where to look next: the sign of everything that moves the map."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from arr_coc.answering.decoding import Generated
from arr_coc.answering.pass_settings import PRESETS, SACCADES, TWO_PASS, EsperSettings, as_settings
from arr_coc.answering.passes import (
    LookAnswer,
    Traces,
    examined,
    gather_around,
    glimpse,
    next_map,
    paint,
    smooth,
    traces,
)
from arr_coc.core.errors import InputError

GRID = (8, 8)
SPREAD = EsperSettings(fovea=None, aroused=False)
NOTHING = torch.zeros(1, *GRID)


def steer(settings=SPREAD, *, relevance=None, levels=None, found=None, exploration=0.0, arousal=0.0, fixated=None):
    relevance = torch.full((1, *GRID), 0.3) if relevance is None else relevance
    levels = torch.full((1, *GRID), 2) if levels is None else levels
    found = Traces(NOTHING + 0.35, NOTHING, NOTHING) if found is None else found
    fixated = NOTHING if fixated is None else fixated
    numbers = torch.tensor([exploration]), torch.tensor([arousal])
    return next_map(relevance, levels, found, *numbers, fixated, settings)


def spot(row: int, col: int, value: float = 1.0) -> torch.Tensor:
    result = NOTHING.clone()
    result[0, row, col] = value
    return result


def test_ground_in_full_detail_gets_nothing_more():
    levels = torch.full((1, *GRID), 2)
    levels[0, :4] = 0
    for exploration in (0.0, 0.5):
        found, _ = steer(levels=levels, exploration=exploration)
        assert (found[0, :4] == 0).all()
        assert (found[0, 4:] > 0).all()


def test_attention_and_the_question_raise_the_places_they_look_at():
    for which in ("doubt", "asked"):
        found = replace(Traces(NOTHING + 0.35, NOTHING, NOTHING), **{which: spot(2, 5)})
        weight = {"doubt": "attention", "asked": "question"}[which]
        seen = [steer(replace(SPREAD, **{weight: share}), found=found)[0][0, 2, 5] for share in (0.0, 1.0)]
        assert seen[1] > seen[0]


def test_exploration_lifts_fresh_ground_over_what_was_examined():
    levels = torch.full((1, *GRID), 3)
    levels[0, :, :4] = 1
    relevance = torch.rand(1, *GRID, generator=torch.Generator().manual_seed(0)) * 0.5
    relevance[0, :, 4:] *= 0.2
    shares = []
    for exploration in (0.05, 0.3, 0.5):
        found, _ = steer(relevance=relevance, levels=levels, exploration=exploration)
        shares.append(float(found[0, :, 4:].sum() / found.sum()))
    assert shares[0] < shares[1] < shares[2]
    assert (examined(torch.tensor([0, 1, 2])) == torch.tensor([1.0, 0.25, 0.0625])).all()


def test_unsure_places_gain_and_sure_ones_lose_in_the_two_pass_preset():
    unsure = Traces(NOTHING + 0.35, NOTHING, NOTHING)
    unsure.uncertainty[0, 1, 1], unsure.uncertainty[0, 6, 6] = 0.6, 0.2
    found, _ = steer(replace(TWO_PASS, fovea=None, aroused=False), found=unsure)
    middle = float(found[0, 3, 3])
    assert float(found[0, 1, 1]) == pytest.approx(1.5 * middle)
    assert float(found[0, 6, 6]) == pytest.approx(0.7 * middle)


def test_inhibition_keeps_the_eye_from_going_back():
    relevance = spot(1, 1) + spot(6, 6, 0.9) + 0.01
    settings = replace(SACCADES, fovea=1.5, aroused=False, attention=0.0, question=0.0)
    _, first = steer(settings, relevance=relevance)
    assert first.tolist() == [[1, 1]]
    fixated = glimpse(first, GRID, 1.5)
    assert steer(settings, relevance=relevance, fixated=fixated)[1].tolist() == [[6, 6]]
    assert steer(replace(settings, inhibition=0.0), relevance=relevance, fixated=fixated)[1].tolist() == [[1, 1]]


def test_high_stakes_sharpen_the_map_and_casual_ones_leave_it_alone():
    relevance = torch.rand(1, *GRID, generator=torch.Generator().manual_seed(1))

    def entropy(arousal: float) -> float:
        weights = steer(replace(SPREAD, aroused=True), relevance=relevance, arousal=arousal)[0].flatten()
        weights = weights / weights.sum()
        return float(-(weights * weights.clamp_min(1e-12).log()).sum())

    assert entropy(0.8) < entropy(0.5) < entropy(0.1) == entropy(0.0)


def test_detail_gathers_around_the_warmest_spot_and_keeps_a_trace_elsewhere():
    maps = NOTHING + 0.1
    maps[0, 5:7, 2:4] = 0.8
    found, point = gather_around(maps, 2.0)
    assert point[0, 0] in (5, 6)
    assert point[0, 1] in (2, 3)
    assert found.flatten().argmax() == point[0, 0] * 8 + point[0, 1]
    assert (found > 0).all()
    assert float(found[0, 0, 7]) < 0.01 * float(found.max())


def test_smoothing_keeps_an_even_map_even():
    assert torch.allclose(smooth(NOTHING + 0.4, 1.5), NOTHING + 0.4)
    assert smooth(spot(4, 4), 1.0)[0, 4, 4] < 1


def test_painting_spreads_what_it_is_given():
    leaves = torch.tensor([[[0, 0, 2], [4, 4, 1], [7, 7, 0], [-1, -1, -1]]])
    values = torch.tensor([[0.5, 0.3, 0.2, 9.0]])
    board = paint(values * (leaves[..., 2] >= 0), leaves, GRID)
    assert float(board.sum()) == pytest.approx(1.0)
    assert float(board[0, :4, :4].sum()) == pytest.approx(0.5)
    assert float(board[0, 5, 5]) == pytest.approx(0.3 / 4)
    # A child adds to its parent's ground.
    both = paint(torch.tensor([[0.4, 0.6]]), torch.tensor([[[0, 0, 1], [0, 0, 0]]]), GRID)
    assert float(both[0, 0, 0]) == pytest.approx(0.7)


def test_a_place_is_as_unsure_as_the_tokens_that_looked_at_it():
    logits = torch.tensor([[[9.0, 0.0], [0.2, 0.0]]])
    said = Generated(torch.zeros(1, 2, dtype=torch.int64), logits, torch.ones(1, 2, dtype=torch.bool))
    leaves = torch.tensor([[[0, 0, 2], [4, 4, 2]]])
    looked = torch.tensor(
        [[[0.8, 0.0], [0.0, 0.8]]]
    )  # the sure token looks at the first leaf, the unsure at the second
    even = torch.full((1, 2), 0.1)
    found = traces(LookAnswer(said, leaves, looked, even, even), 1.0, GRID)
    sure, unsure = found.uncertainty[0, 1, 1], found.uncertainty[0, 5, 5]
    assert float(sure) == pytest.approx(1 - float(torch.sigmoid(torch.tensor(9.0))), abs=1e-4)
    assert float(unsure) == pytest.approx(1 - float(torch.sigmoid(torch.tensor(0.2))), abs=1e-4)
    assert found.doubt[0, 5, 5] > found.doubt[0, 1, 1] == 0
    assert found.asked.sum() == 0  # the question looks where any token does
    warm = traces(LookAnswer(said, leaves, looked, even, even), 4.0, GRID)
    assert warm.uncertainty[0, 1, 1] > sure


def test_settings_share_out_the_total_and_refuse_nonsense(tmp_path):
    for preset in PRESETS.values():
        for total in (20, 81, 320):
            first, later = preset.shares(total)
            assert first + (preset.passes - 1) * later <= total
            assert first >= 2 * later > 0
    assert EsperSettings().shares(80) == (32, 16)
    EsperSettings(fovea=1.25).save(tmp_path)
    assert EsperSettings.load(tmp_path) == EsperSettings(fovea=1.25)
    assert as_settings("saccades") is SACCADES
    for wrong in (
        {"passes": 0}, {"least": 5}, {"stop": 1.5}, {"attention": -1.0}, {"fovea": 0.0}, {"layers": (0.5, 0.5)},
        {"layout": "pile"}, {"inhibition": 2.0},
    ):  # fmt: skip
        with pytest.raises(InputError):
            EsperSettings(**wrong)
    with pytest.raises(InputError, match="preset"):
        as_settings("thrice")
    with pytest.raises(InputError, match="settings"):
        EsperSettings.load(tmp_path / "none")
