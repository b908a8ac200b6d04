"""Faster forms of known things, held equal to them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import pytest
import torch
from torch import nn

from arr_coc_lab.train.swift import BatchedMuon, Prefetcher, Twin, each_tensor


def test_batched_muon_equals_the_stock_one():
    torch.manual_seed(0)
    shapes = [(32, 64), (64, 32), (32, 64), (64, 32), (48, 48)]
    first = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    second = [nn.Parameter(parameter.detach().clone()) for parameter in first]
    how = {"lr": 2e-2, "weight_decay": 0.01, "adjust_lr_fn": "match_rms_adamw"}
    stock, batched = torch.optim.Muon(first, **how), BatchedMuon(second, **how)
    for _ in range(4):
        for one, two in zip(first, second, strict=True):
            one.grad = torch.randn_like(one)
            two.grad = one.grad.clone()
        stock.step()
        batched.step()
    for one, two in zip(first, second, strict=True):
        assert torch.allclose(one, two, atol=2e-3)


def test_a_twin_trains_its_master():
    torch.manual_seed(0)
    master = nn.ModuleDict({"network": nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))})
    twin = Twin(master)
    inputs = torch.randn(64, 4)
    target = inputs.sum(1, keepdim=True)
    optimizer = torch.optim.AdamW(master.parameters(), lr=1e-2)
    losses = []
    for _ in range(150):
        loss = (twin.worker["network"](inputs.bfloat16()).float() - target).square().mean()
        loss.backward()
        twin.pull_gradients()
        optimizer.step()
        twin.push_weights()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.1 * losses[0]
    assert all(parameter.dtype == torch.float32 for parameter in master.parameters())
    assert torch.equal(twin.worker["network"][0].weight, master["network"][0].weight.bfloat16())


def test_a_twin_keeps_buffers_in_full_precision():
    class Rotary(nn.Linear):
        def __init__(self) -> None:
            super().__init__(2, 2)
            self.register_buffer("frequencies", torch.linspace(0, 1, 7))

    twin = Twin(nn.ModuleDict({"rotary": Rotary()}))
    assert twin.worker["rotary"].frequencies.dtype == torch.float32
    assert twin.worker["rotary"].weight.dtype == torch.bfloat16


# ---- made ahead: the same batches, in the same order, and errors are not swallowed -----------------------------------

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
