"""A narrow `mini` grown into a wide one: the same answers, and everything new can learn."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from arr_coc.core.errors import InputError
from arr_coc_lab.train.allocations import Kind, LeafTable, even_tree_of
from arr_coc_lab.train.checkpoints import save_model
from arr_coc_lab.train.grow import grow, load_grown, wider
from arr_coc_lab.train.mini_model import MiniConfig, build_mini
from arr_coc_lab.train.reader import DenseHeads, Reader, cut_blocks, reader_losses
from arr_coc_lab.train.reader_examples import render_reader_batch
from arr_coc_lab.train.swift import run_language, run_tower

NARROW = MiniConfig(width=64, vision_layers=3, language_layers=3, heads=2, deepstack=(0, 1))
SIZE = (128, 256)


def built(config: MiniConfig):
    torch.manual_seed(0)
    model = build_mini(config)
    with torch.no_grad():  # far from the initial state, where many terms would vanish
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def answers(model, pages, leaves, patches):
    """What is said, and DeepStack's planes."""
    core, grid = model.model, pages.grid
    seen = run_tower(core.visual, patches[0], leaves, grid)
    said = run_language(core, seen, pages.heard, leaves, grid).said
    return model.lm_head(said), seen


@pytest.fixture(scope="module")
def lesson():
    pages = render_reader_batch("cards", 3, SIZE, 5, 0, "cpu", questions=1)
    table = LeafTable(even_tree_of(SIZE), "cpu")
    leaves = table.leaves(Kind("overlay", 0.5, 1), pages.targets[:, 0].float(), torch.Generator().manual_seed(0))
    return pages, leaves, cut_blocks(pages, [leaves], 4, torch.float32)


@pytest.mark.parametrize("width", [96, 128])
@pytest.mark.parametrize("deepstack", [(), (0, 1)], ids=["plain", "deepstack"])
def test_grown_it_answers_as_before(lesson, width, deepstack):
    config = replace(NARROW, deepstack=deepstack)
    narrow, wide = built(config), build_mini(wider(config, width))
    grow(narrow, wide)
    with torch.no_grad():
        (before, seen), (after, grown) = (answers(model, *lesson) for model in (narrow, wide))
    torch.testing.assert_close(grown.embeds[..., :64], seen.embeds, rtol=1e-3, atol=1e-4)
    assert not grown.embeds[..., 64:].any()
    # DeepStack's mergers take the spread over four patches, to which the new channels add a little.
    close = {"rtol": 1e-3, "atol": 5e-4} if not deepstack else {"rtol": 0.02, "atol": 0.02 * float(before.std())}
    torch.testing.assert_close(after, before, **close)


def test_everything_new_learns(lesson):
    pages, leaves, patches = lesson
    narrow, wide = built(NARROW), build_mini(wider(NARROW, 96))
    grow(narrow, wide)
    reader = Reader(wide, DenseHeads(96))
    optimizer = torch.optim.SGD(wide.parameters(), 1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        found = reader_losses(reader, pages, [leaves], patches)
        (found.reading.answer + found.reading.glyph).backward()
        optimizer.step()
    for name, parameter in wide.named_parameters():
        still = parameter.grad.abs().flatten(1).sum(1) if parameter.ndim > 1 else parameter.grad.abs()
        quiet = float((still == 0).float().mean())
        # Characters and places that no prompt and no picture shows have no gradient, old or new.
        assert quiet == 0 or "embed" in name, f"{name}: {quiet:.2f} of the rows never move"


def test_a_narrow_start_is_grown_and_a_wide_one_refused(tmp_path):
    narrow = built(NARROW)
    save_model(narrow, tmp_path / "mini")
    wide = build_mini(wider(NARROW, 96))
    load_grown(tmp_path, {"mini": wide, "heads": DenseHeads(96)}, wider(NARROW, 96))
    assert torch.equal(wide.model.visual.patch_embed.proj.weight[:64], narrow.model.visual.patch_embed.proj.weight)
    with pytest.raises(InputError, match="another mini"):
        load_grown(tmp_path, {"mini": build_mini(wider(NARROW, 32))}, wider(NARROW, 32))
