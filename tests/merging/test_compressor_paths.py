"""The five paths of the classic scale: counts, order, batching by level, learning, saving."""

from __future__ import annotations

import pytest
import torch

from arr_coc.core.errors import InputError
from arr_coc_lab.classic.compressor import CompressorConfig, MultiResolutionCompressor

COUNTS = [64, 100, 160, 256, 400]


@pytest.fixture
def module() -> MultiResolutionCompressor:
    torch.manual_seed(0)
    made = MultiResolutionCompressor(CompressorConfig(6, 8))
    for path in made.paths:  # as if it had been trained: untrained, every path averages
        torch.nn.init.normal_(path.refine[2].weight, std=0.3)
    return made


def features(patches: int, seed: int = 0, side: int = 24) -> torch.Tensor:
    return torch.randn(patches, 6, side, side, generator=torch.Generator().manual_seed(seed))


def test_batched_by_level_equals_one_by_one_in_the_order_of_the_input(module: MultiResolutionCompressor):
    levels, patches = torch.tensor([3, 0, 4, 0, 1, 2, 3, 1]), features(8)
    together = module(patches, levels).split()
    for index, made in enumerate(together):
        alone = module(patches[index : index + 1], levels[index : index + 1]).tokens
        assert torch.allclose(made, alone, atol=1e-5)
    assert not torch.allclose(together[1], together[3], atol=1e-2)  # two patches of one level, not one twice


def test_gradients_reach_the_neck_and_every_used_path_only(module: MultiResolutionCompressor):
    tokens = module(features(4), torch.tensor([0, 2, 2, 4])).tokens
    (tokens * torch.randn(tokens.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
    gradient = {name: p.grad is not None and bool(p.grad.abs().sum() > 0) for name, p in module.named_parameters()}
    used = {name for name in gradient if name.startswith(("neck", "paths.0", "paths.2", "paths.4"))}
    assert {name for name, reached in gradient.items() if reached} == used


def test_before_any_training_it_averages():
    untrained = MultiResolutionCompressor(CompressorConfig(6, 6))
    patches = features(1, side=16)
    expected = torch.nn.functional.avg_pool2d(patches, 2).flatten(2)[0].T
    assert torch.allclose(untrained(patches, torch.tensor([0])).tokens, expected, atol=1e-6)


def test_training_reduces_the_loss(module: MultiResolutionCompressor):
    """Tokens must tell the mean colour of what they cover, through a fixed read-out."""
    torch.manual_seed(1)
    readout = torch.nn.Linear(8, 6)
    patches, levels = features(10, side=20), torch.arange(10) % 5
    targets = torch.cat(
        [
            torch.nn.functional.adaptive_avg_pool2d(patch, grid).flatten(1).T
            for patch, grid in zip(patches, [(8, 8), (10, 10), (10, 16), (16, 16), (20, 20)] * 2, strict=True)
        ]
    )
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    losses = []
    for _ in range(40):
        loss = torch.nn.functional.mse_loss(readout(module(patches, levels).tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_saving_and_loading_give_the_same_numbers(module: MultiResolutionCompressor, tmp_path):
    module.save_pretrained(tmp_path / "compressor")
    loaded = MultiResolutionCompressor.from_pretrained(tmp_path / "compressor")
    levels = torch.arange(5)
    assert torch.equal(module(features(5), levels).tokens, loaded(features(5), levels).tokens)
    written = {path.name for path in (tmp_path / "compressor").iterdir()}
    assert written == {"config.json", "model.safetensors", "SHA256SUMS"}
    with pytest.raises(InputError, match="no MultiResolutionCompressor could be read"):
        MultiResolutionCompressor.from_pretrained(tmp_path / "nowhere")


def test_wrong_shapes_are_named(module: MultiResolutionCompressor):
    with pytest.raises(InputError, match=r"shape \(2, 6, h, w\)"):
        module(torch.zeros(2, 5, 8, 8), torch.tensor([0, 1]))
    with pytest.raises(InputError, match="from 0 to 4"):
        module(features(2), torch.tensor([0, 5]))
