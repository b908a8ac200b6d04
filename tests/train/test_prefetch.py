"""Making batches ahead: the same batches, in the same order, and errors are not swallowed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import pytest
import torch

from arr_coc_lab.train.acceleration import Prefetcher, each_tensor

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


@dataclass(frozen=True)
class Nest:
    outer: torch.Tensor
    inner: tuple[torch.Tensor, str]


@pytest.mark.parametrize("device", DEVICES)
def test_items_come_in_order(device):
    numbers = count()
    with Prefetcher(lambda: torch.full((3,), next(numbers), device=device), torch.device(device)) as ahead:
        assert [int(ahead.next()[0]) for _ in range(7)] == list(range(7))


@pytest.mark.parametrize("device", DEVICES)
def test_an_error_reaches_the_reader(device):
    def fail() -> torch.Tensor:
        raise ValueError("no picture")

    with Prefetcher(fail, torch.device(device)) as ahead, pytest.raises(ValueError, match="no picture"):
        ahead.next()


def test_every_tensor_of_a_nest_is_visited():
    seen = []
    each_tensor([Nest(torch.zeros(1), (torch.zeros(2), "text"))], lambda tensor: seen.append(len(tensor)))
    assert seen == [1, 2]
