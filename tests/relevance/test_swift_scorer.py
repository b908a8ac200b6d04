"""The scorer as a GPU runs it: other kernels, the same map."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from arr_coc.core.folders import part_folder
from arr_coc.relevance.scene import Scene
from arr_coc.relevance.scorer.gpu_scorer import GpuScorer
from arr_coc.relevance.scorer.reading_scorer import ReadingScorer, ReadingScorerConfig, SplitDepthwise, swift
from arr_coc.relevance.scorer.source import ScorerRelevance, scorer_maps

SMALL = ReadingScorerConfig(narrow=8, middle=16, wide=16, query_width=16, heads=2)


@pytest.mark.parametrize("kernel", [(3, 11), (5, 9), (3, 5), (3, 4)])
def test_square_kernels_side_by_side_are_the_wide_one(kernel):
    torch.manual_seed(0)
    whole = nn.Conv2d(6, 6, kernel, padding=(kernel[0] // 2, kernel[1] // 2), groups=6)
    picture = torch.randn(2, 6, 9, 17)
    wide = whole(picture)[..., :17]  # an even kernel gives a column more
    assert torch.allclose(SplitDepthwise(whole)(picture), wide, atol=1e-5)


def test_the_swift_scorer_finds_the_same():
    torch.manual_seed(0)
    scorer = ReadingScorer(SMALL).eval()
    with torch.no_grad():
        scorer.head.weight.mul_(20)
        pictures, ids = torch.rand(2, 3, 64, 96), torch.randint(1, 90, (2, 20))
        plain, fast = scorer.score(pictures, ids), swift(scorer).score(pictures, ids)
        exact = swift(scorer).float().score(pictures, ids)
    assert torch.allclose(exact, swift(scorer).float().score(pictures, F.pad(ids, (0, 30))), atol=1e-5), "padding"
    assert plain.std() > 1e-4
    assert torch.allclose(plain, fast, atol=0.03), "half precision"


def test_pictures_on_a_device_are_scored_together_as_alone():
    scorer, rows = ScorerRelevance(part_folder("scorer")), torch.rand(2, 3, 64, 96)
    queries = ["What is the total?", "who?"]
    together = scorer.of_batch(rows, queries)
    for one, picture, query in zip(together, rows, queries, strict=True):
        assert torch.allclose(torch.tensor(one.map), torch.tensor(scorer._by_torch(picture, query).map), atol=1e-5)
    scenes = [Scene(picture, device="cuda") for picture in rows]
    for one, other in zip(scorer_maps(scenes, queries).relevance, together, strict=True):
        assert one.query == other.query
        assert (one.map == other.map).all()


def test_a_graph_is_kept_for_each_size_that_comes_again_and_forgotten_in_turn():
    scorer = GpuScorer(ReadingScorer(SMALL).eval())
    ids = torch.randint(1, 90, (1, 8), generator=torch.Generator().manual_seed(0))
    pictures = {side: torch.rand(1, 3, side, 32) for side in (32, 64, 96, 128, 160)}
    first = {side: scorer.score(picture, ids) for side, picture in pictures.items()}
    assert not len(scorer.graphs), "what came once is not recorded"
    for side, picture in pictures.items():
        found = scorer.score(picture, ids)
        assert found.shape == (1, side // 32, 1)
        torch.testing.assert_close(found, first[side])
    assert len(scorer.graphs) == 8
    assert next(reversed(scorer.graphs.held)) == ("find", (1, 16, 20, 4), (1, 8))
    found = scorer.score(pictures[160], ids)
    scorer.score(torch.zeros_like(pictures[160]), ids)
    torch.testing.assert_close(found, first[160], msg="a later call leaves it alone")
