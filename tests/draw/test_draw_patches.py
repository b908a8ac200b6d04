"""Patches of many tokens and scanpaths, drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from arr_coc.attending import allocate
from arr_coc.draw import foveated, homunculus, overlay
from arr_coc.draw.legend import level_rows


def test_a_patch_of_many_tokens_is_drawn_as_its_grid_and_at_its_own_resolution() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (320, 640, 3), dtype=np.uint8)
    relevance = np.zeros((20, 40), dtype=np.float32)
    relevance[:, 30:] = 1
    allocation = allocate(relevance, 464, strategy="classic", cell=16)
    assert allocation.counts.tolist() == [64, 400]
    seen = foveated(noise, allocation)
    assert np.array_equal(seen[:, 320:], noise[:, 320:]), "400 tokens are the cells themselves"
    blocks = seen[:, :320].reshape(320, 320 * 3)
    assert len(np.unique(blocks[:5], axis=0)) == 2, "64 tokens: blocks of 2.5 pixels, two in five"
    lines = overlay(np.full_like(noise, 200), allocation)
    assert (lines[:, 320] != lines[:, 330]).any()
    assert homunculus(noise, allocation, relevance, "the right half").width == 1280
    assert [row.tokens for row in level_rows(allocation)] == [400, 64]


def test_a_scanpath_is_drawn_over_the_regions() -> None:
    relevance = np.zeros((16, 16), dtype=np.float32)
    relevance[2:4, 2:4], relevance[12:14, 11:13] = 1.0, 0.8
    allocation = allocate(relevance, 32, strategy="saccades", image_size=(512, 512))
    grey = np.full((512, 512, 3), 120, dtype=np.uint8)
    with_path = overlay(grey, allocation)
    without = overlay(grey, replace(allocation, scanpath=()))
    changed = (with_path != without).any(axis=2)
    for y, x in allocation.scanpath:
        assert changed[y, x]
    assert 0 < changed.mean() < 0.1
