"""Depth routing: bands, places, costs; and exactness where everything passes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from arr_coc import InputError
from arr_coc.realizing.tokens.depth import DepthRouting, HierarchicalRelevance, last_blocks, route_planes


def planes(count: int = 3, leaves: int = 4) -> list[torch.Tensor]:
    return [torch.full((leaves, 2), 10.0**plane) for plane in range(count)]


def test_bands_send_relevant_leaves_deeper() -> None:
    relevance = torch.tensor([[0.9, 0.6, 0.5, 0.0]]).expand(3, -1)
    routing = DepthRouting()
    routed = route_planes(planes(), relevance, depth=28, routing=routing)
    assert [plane[:, 0].tolist() for plane in routed] == [[1, 1, 1, 1], [10, 10, 0, 0], [100, 0, 0, 0]]
    torch.testing.assert_close(routing.cost(relevance), torch.tensor([1.0, 0.5, 0.1, 0.1]))


def test_full_relevance_at_stock_places_changes_nothing() -> None:
    given = [torch.randn(5, 3) for _ in range(3)]
    routed = route_planes(given, torch.ones(3, 5), depth=28, routing=DepthRouting())
    assert all(torch.equal(a, b) for a, b in zip(given, routed, strict=True))


@pytest.mark.parametrize(
    ("depth", "layers"), [(32, [3, 8, 13, 18, 23]), (28, [2, 7, 11, 15, 20]), (4, [0, 1, 1, 2, 2])]
)
def test_spread_scales_the_layers_to_the_depth(depth: int, layers: list[int]) -> None:
    injections = DepthRouting("spread").layers(planes=3, depth=depth)
    assert [layer for layer, _, _ in injections] == layers
    assert [plane for _, plane, _ in injections] == [0, 0, 1, 1, 2]
    routed = route_planes(planes(), torch.ones(3, 4), depth, DepthRouting("spread"))
    # Each plane is injected with the same total as before.
    assert sum(routed)[0, 0].item() == 111
    assert len(routed) == layers[-1] + 1


def test_three_maps_decide_each_for_its_own_depth() -> None:
    low, middle, high = np.zeros((4, 4)), np.zeros((2, 2)), np.zeros((8, 8))
    middle[0, 0], high[7, 7] = 1, 1
    leaves = np.array([[0, 0, 1], [2, 2, 1], [3, 3, 0]])
    under = HierarchicalRelevance(low, middle, high).at(leaves, 4, 4)
    np.testing.assert_allclose(under, [[0, 0, 0], [1, 0, 0], [0, 1 / 16, 1 / 4]])
    gates = DepthRouting(thresholds=(0, 0.5, 0.2)).gates(torch.from_numpy(under))
    assert gates.tolist() == [[True] * 3, [True, False, False], [False, False, True]]


def test_a_flat_map_is_three_equal_ones() -> None:
    values = np.random.default_rng(0).random((5, 7))
    leaves = np.array([[0, 0, 2], [4, 4, 1], [4, 6, 0]])
    under = HierarchicalRelevance.flat(values).at(leaves, 5, 7)
    assert (under[0] == under[1]).all()
    assert (under[0] == under[2]).all()
    np.testing.assert_allclose(under[0], [values[:4, :4].mean(), values[4:, 4:6].mean(), values[4, 6]], rtol=1e-5)


def test_errors_are_one_clear_line() -> None:
    with pytest.raises(InputError, match="use 'stock' or 'spread'"):
        DepthRouting("deep")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no DeepStack planes"):
        route_planes([], torch.ones(3, 1), 28, DepthRouting())
    with pytest.raises(InputError, match="NaN"):
        HierarchicalRelevance(np.full((2, 2), np.nan), np.ones((2, 2)), np.ones((2, 2)))


def test_leaves_stop_behind_the_block_of_their_deepest_plane() -> None:
    reach = torch.tensor([0, 1, 2])
    assert last_blocks(reach, [5, 11, 17], 24).tolist() == [5, 11, 23]
    assert last_blocks(reach, [3], 8).tolist() == [3, 3, 7]
    assert last_blocks(reach, [1, 3, 5, 7, 9], 12).tolist() == [3, 7, 11]
    routing = DepthRouting.named("early")
    assert routing.early
    assert routing.reach(torch.tensor([[0.9, 0.6, 0.0]]).expand(3, -1)).tolist() == [2, 1, 0]
    with pytest.raises(InputError, match="stock, spread, early"):
        DepthRouting.named("late")
