"""Pictures and leaves -> patches: two routes to the same pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2VLImageProcessorPil

from arr_coc import InputError
from arr_coc.attending.allocate import allocate
from arr_coc.attending.leaves import check_grid, leaves_of
from arr_coc.core.values import Allocation
from arr_coc.realizing.patches import (
    LeafBatch,
    area_patches,
    gather_leaf_patches,
    leaf_boxes,
    mip_pyramid,
    unpatchify,
)


def processed(*sizes: tuple[int, int]) -> tuple[torch.Tensor, list[tuple[int, int]], list[np.ndarray]]:
    """Pixel values of a stock processor for random pictures whose sides it need not change."""
    processor = Qwen2VLImageProcessorPil(
        patch_size=16, merge_size=2, temporal_patch_size=2, size={"shortest_edge": 1024, "longest_edge": 1 << 24}
    )
    random = np.random.default_rng(0)
    pictures = [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]
    output = processor(images=pictures, return_tensors="pt")
    grids = [(rows, cols) for _, rows, cols in output["image_grid_thw"].tolist()]
    mean, deviation = np.array(processor.image_mean), np.array(processor.image_std)
    normalised = [((picture / 255 - mean) / deviation).transpose(2, 0, 1) for picture in pictures]
    return output["pixel_values"], grids, normalised


def full_leaves(rows: int, cols: int) -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
    return torch.stack([y, x, torch.zeros_like(y)], -1).view(-1, 3)


def test_level_zero_everywhere_is_the_processors_output_to_the_bit() -> None:
    patches, grids, _ = processed((96, 64), (64, 160), (96, 64))
    pyramid = mip_pyramid(unpatchify(patches, grids, 16, 2, 2), levels=3)
    parts = [full_leaves(rows // 2, cols // 2) for rows, cols in grids]
    owner = torch.arange(3).repeat_interleave(torch.tensor([len(part) for part in parts]))
    assert torch.equal(gather_leaf_patches(pyramid, torch.cat(parts), owner), patches)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 9),
    cols=st.integers(1, 9),
    level=st.integers(0, 3),
    place=st.tuples(st.integers(0, 8), st.integers(0, 8)),
)
def test_a_leaf_shows_the_mean_of_its_pixels(rows: int, cols: int, level: int, place: tuple[int, int]) -> None:
    picture = torch.randn(1, 3, rows * 8, cols * 8, generator=torch.Generator().manual_seed(rows * 10 + cols))
    row, col = (min(axis, limit - 1) >> level << level for axis, limit in zip(place, (rows, cols), strict=True))
    patches = gather_leaf_patches(
        mip_pyramid(picture, levels=4, cell=8, patch_size=4), torch.tensor([[[row, col, level]]]), temporal=3
    ).view(2, 2, 3, 3, 4, 4)
    # The slow way: average the picture by numpy, then repeat the last row and column as far as the leaf reaches.
    scale = 1 << level
    array = picture[0].numpy()
    array = np.pad(array, [(0, 0), (0, -array.shape[1] % scale), (0, -array.shape[2] % scale)], mode="edge")
    small = array.reshape(3, array.shape[1] // scale, scale, array.shape[2] // scale, scale).mean((2, 4))
    small = np.pad(small, [(0, 0), (0, 8), (0, 8)], mode="edge")
    top, left = (row >> level) * 8, (col >> level) * 8
    expected = small[:, top : top + 8, left : left + 8]
    for time in range(3):
        seen = patches[:, :, :, time].permute(2, 0, 3, 1, 4).reshape(3, 8, 8)
        np.testing.assert_allclose(seen, expected, atol=1e-5)


def test_a_batch_of_equal_length_is_the_same_as_packed() -> None:
    pictures = torch.randn(4, 3, 128, 96)
    leaves = torch.stack(
        [leaves_batch[torch.randperm(len(leaves_batch))[:5]] for leaves_batch in [full_leaves(4, 3)] * 4]
    )
    leaves[:, 0] = torch.tensor([0, 0, 1])
    pyramid = mip_pyramid(pictures, levels=2)
    packed = LeafBatch.equal(leaves, (4, 3), levels=2)
    assert torch.equal(gather_leaf_patches(pyramid, leaves), gather_leaf_patches(pyramid, packed.leaves, packed.owner))
    assert packed.counts == (5, 5, 5, 5)


def test_errors_are_one_clear_line() -> None:
    good = allocate(np.ones((4, 4)), 16, image_size=(128, 128))
    with pytest.raises(InputError, match="4×4 tokens but the processor made 5×4"):
        check_grid(good, 5, 4)
    with pytest.raises(InputError, match="more than one token"):
        leaves_of(allocate(np.ones((16, 16)), 64, strategy="classic"))
    one = np.ones(1)
    moved = Allocation(np.array([[32, 0, 64, 64]]), one, one, one, 128, 128, 4, 16, "quadtree")
    with pytest.raises(InputError, match="multiple of"):
        leaves_of(moved)
    with pytest.raises(InputError, match="needs at least one token"):
        leaves_of(Allocation(np.zeros((0, 4)), one[:0], one[:0], one[:0], 128, 128, 4, 16, "top_k", sparse=True))
    with pytest.raises(InputError, match="has 10 patches but the grids"):
        unpatchify(torch.zeros(10, 1536), [(2, 4)], 16, 2, 2)


def test_tokens_of_any_size_are_cut_by_area_and_whole_ones_exactly() -> None:
    pictures = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(3))
    leaves = torch.tensor([[[0, 0, 0], [2, 1, 0]], [[1, 2, 0], [0, 0, 1]]])
    by_level = gather_leaf_patches(mip_pyramid(pictures, levels=2), leaves, temporal=2)
    owner = torch.tensor([0, 0, 1, 1])
    by_area = area_patches(pictures, leaf_boxes(leaves.flatten(0, 1)), owner, temporal=2)
    torch.testing.assert_close(by_area, by_level)
    assert torch.equal(by_area[:12], by_level[:12]), "a whole cell is its own pixels, to the bit"
    # A token of 1.5 × 3 cells: each of its pixels is the mean of 1.5 × 3 pixels of the picture.
    odd = area_patches(pictures, torch.tensor([[0.75, 0.0, 1.5, 3.0]]), torch.tensor([1]), temporal=1)
    fine = pictures[1].repeat_interleave(2, 1)[:, 48:144]  # half pixels, so that 1.5 of them are 3
    expected = fine.unflatten(1, (32, 3)).unflatten(3, (32, 3)).mean((2, 4))
    expected = expected.view(3, 2, 16, 2, 16).permute(1, 3, 0, 2, 4).reshape(4, -1)
    torch.testing.assert_close(odd, expected)
