"""The scorer as a GPU runs it: other kernels, the same map."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from arr_coc.core.folders import part_folder
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.scorer.gpu_scorer import GpuScorer
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer, ReadingScorerConfig
from arr_coc.knowing.scorer.source import ScorerRelevance, scorer_maps
from arr_coc.knowing.scorer.swift import DepthwiseNorm, SplitDepthwise, swift

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


KERNELS = """
import torch
from torch import nn
from arr_coc.knowing.scorer.reading_scorer import ChannelNorm, ReadingScorer, ReadingScorerConfig
from arr_coc.knowing.scorer.swift import DepthwiseNorm, SwiftBlock, fused_depthwise, swift

torch.manual_seed(0)
for width, kernel in ((64, (5, 5)), (192, (5, 9)), (192, (3, 11)), (256, (7, 7))):
    whole = nn.Conv2d(width, width, kernel, padding=(kernel[0] // 2, kernel[1] // 2), groups=width)
    norm = ChannelNorm(width)
    norm.last = True
    norm.weight.data.uniform_(0.5, 2)
    part = DepthwiseNorm(whole, norm, kernel=True).to(torch.bfloat16)
    picture = torch.randn(2, width, 7, 13).to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        plain = part(picture).float()
        fused = fused_depthwise(picture, part.taps, part.bias, norm.weight, kernel)
    assert fused.is_contiguous(memory_format=torch.channels_last)
    assert (plain - fused.float()).norm() <= 1e-2 * plain.norm(), (width, kernel)
    assert (plain - fused.float()).abs().max() <= 1e-2 * plain.abs().max(), (width, kernel)

scorer = ReadingScorer(ReadingScorerConfig(narrow=8, middle=24, wide=16, query_width=16, heads=2)).eval()
picture, ids = torch.rand(1, 3, 32, 64), torch.randint(1, 90, (1, 20))
with torch.no_grad():
    scorer.head.weight.mul_(20)
    plain = swift(scorer, kernel=False).score(picture, ids)
    DepthwiseNorm.fits = lambda self, features: True
    count, run = [0], DepthwiseNorm.forward
    def counted(self, features):
        count[0] += self.kernel
        return run(self, features)
    DepthwiseNorm.forward = counted
    fused = swift(scorer, kernel=True).score(picture, ids)
assert count[0] == 13 and DepthwiseNorm.broken is None, DepthwiseNorm.broken
assert torch.allclose(plain, fused, atol=0.01), (plain, fused)
"""


def test_the_kernel_gives_what_the_convolution_and_the_norm_give():
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", KERNELS], env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr[-2000:]


def test_a_kernel_that_fails_is_told_once_and_the_map_is_the_same(monkeypatch):
    scorer, picture, ids = ReadingScorer(SMALL).eval(), torch.rand(1, 3, 64, 64), torch.randint(1, 90, (1, 9))
    monkeypatch.setattr(DepthwiseNorm, "broken", None)
    monkeypatch.setattr(DepthwiseNorm, "fits", lambda self, features: type(self).broken is None)
    monkeypatch.setattr("arr_coc.knowing.scorer.swift.fused_depthwise", lambda *given: 1 / 0)
    plain = swift(scorer, kernel=False).score(picture, ids)
    with pytest.warns(UserWarning, match="without its kernel") as told:
        found = swift(scorer).score(picture, ids)
    assert len([one for one in told if "kernel" in str(one.message)]) == 1
    assert torch.equal(plain, found)
    monkeypatch.setenv("ARR_COC_KERNELS", "0")
    assert not any(part.kernel for part in swift(scorer).modules() if isinstance(part, DepthwiseNorm))


def test_one_question_for_many_pictures_is_read_once():
    torch.manual_seed(0)
    scorer = swift(ReadingScorer(SMALL).eval(), kernel=False).float()
    pictures, ids = torch.rand(3, 3, 64, 96), torch.randint(1, 90, (1, 20))
    rows = []
    scorer.question.register_forward_hook(lambda module, given, made: rows.append(len(given[0])))
    once = scorer.score(pictures, ids)
    assert rows == [1]
    torch.testing.assert_close(once, scorer.score(pictures, ids.expand(3, -1)))


def test_a_batch_is_recorded_unless_it_is_large():
    scorer = GpuScorer(ReadingScorer(SMALL).eval(), most=2 * 64 * 64)
    ids = torch.randint(1, 90, (1, 8))
    for _ in range(2):
        scorer.score(torch.rand(2, 3, 64, 64), ids)
        scorer.score(torch.rand(3, 3, 64, 64), ids)
    assert list(scorer.graphs.held) == [("see", (2, 3, 64, 64)), ("find", (2, 16, 8, 8), (1, 8))]


def test_pictures_on_a_device_are_scored_together_as_alone():
    scorer, rows = ScorerRelevance(part_folder("scorer")), torch.rand(2, 3, 64, 96)
    queries = ["What is the total?", "who?"]
    together = scorer.of_batch(rows, queries)
    for one, picture, query in zip(together, rows, queries, strict=True):
        alone = scorer.of_batch(picture[None], [query])[0]
        assert np.allclose(one.map, alone.map, atol=1e-5)
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
