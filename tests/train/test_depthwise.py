"""The own kernels of depth-wise convolutions give what the plain convolution gives, forward and backward."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from torch import nn

from arr_coc.knowing.scorer.reading_scorer import ConvBlock, ReadingScorer
from arr_coc_lab.train.depthwise import OwnDepthwise, quicken

TRY = """
from torch import nn
from arr_coc_lab.train.depthwise import agrees
for kernel in ((5, 5), (5, 9), (3, 11), (7, 7)):
    whole = nn.Conv2d(64, 64, kernel, padding=(kernel[0] // 2, kernel[1] // 2), groups=64)
    assert agrees(whole, (5, 18)), kernel
"""


def test_the_kernels_agree_with_the_plain_convolution() -> None:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", TRY], env=environment, check=True)


def test_without_kernels_a_scorer_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arr_coc_lab.train.depthwise_kernel", None)
    scorer = ReadingScorer()
    assert quicken(scorer).startswith("depth-wise convolutions stay cuDNN's: ")
    blocks = [module for module in scorer.modules() if isinstance(module, ConvBlock)]
    assert all(isinstance(block.spatial, nn.Conv2d) for block in blocks)


def test_own_convolutions_keep_names_and_order_of_parameters() -> None:
    whole = nn.Conv2d(64, 64, 5, padding=2, groups=64)
    own = OwnDepthwise(whole)
    assert [name for name, _ in own.named_parameters()] == [name for name, _ in whole.named_parameters()]
    assert own.weight is whole.weight
