"""The pieces of a reading step: prompts, dense targets, allocations, the table."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from tiny_models import characters

from arr_coc.attending.quadtree import quadtree
from arr_coc.core.alphabet import encode
from arr_coc_lab.train.allocations import (
    KINDS,
    LOOK_AGAIN,
    LeafTable,
    box_cover,
    make_leaves,
    target_cells,
    tree_of,
)
from arr_coc_lab.train.evaluate import format_table
from arr_coc_lab.train.mini_model import CHAT_TEMPLATE, IMAGE, VOCABULARY, MiniConfig, build_mini, build_tokenizer
from arr_coc_lab.train.pictures import (
    IGNORE,
    READING_LEVELS,
    TrainingBatch,
    board_targets,
    cut,
    glyph_board,
    join,
    render_family,
    thing_targets,
)
from arr_coc_lab.train.prompts import build_prompt
from arr_coc_lab.worlds.needle import render
from arr_coc_lab.worlds.needle.batch import FIRST_COLOUR


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


def glyph_targets(glyphs, leaves, size):
    return board_targets([glyph_board(glyphs, size, depth) for depth in range(READING_LEVELS)], leaves)


def test_the_prompt_is_what_the_chat_template_and_the_tokenizer_make(tokenizer):
    """Two routes: tensors in training, text in use."""
    prompt = build_prompt(characters("How much?", "Total, please: user?"), characters("$3.50", "7"), visual_tokens=3)
    for row, (question, answer) in enumerate((("How much?", "$3.50"), ("Total, please: user?", "7"))):
        messages = [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]},
        ]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        text = text.replace("<|image_pad|>", "<|image_pad|>" * 3) + answer + "<|im_end|>"
        wanted = tokenizer(text)["input_ids"]
        ids = prompt.input_ids[row].tolist()
        assert ids[: len(wanted)] == wanted
        assert set(ids[len(wanted) :]) <= {0}
        said = prompt.input_ids[row][prompt.answers[row]]
        assert tokenizer.decode(said, skip_special_tokens=True) == answer


def test_the_tokenizer_is_one_token_a_character_and_survives_a_round_trip(tokenizer, tmp_path):
    from transformers import AutoTokenizer

    text = 'What is "Total" (€ & $)? a_b~|'
    ids = tokenizer(text)["input_ids"]
    assert ids == encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer("ü")["input_ids"] == encode("?")
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again(text)["input_ids"] == ids
    assert again.chat_template == CHAT_TEMPLATE
    assert len(VOCABULARY) == len(set(VOCABULARY.values()))


@pytest.mark.parametrize("family", ["cards", "forms"])
def test_glyph_targets_agree_with_the_cell_labels(family):
    """Another route to "what stands in this cell": the renderer's own labels."""
    size = (256, 256)
    glyphs = render_family(family, 4, size, seed=3, start=0, device="cpu").glyphs
    leaves = quadtree(torch.ones(4, 8, 8), tree_of(size), 64).cells
    targets = glyph_targets(glyphs, leaves, size)
    labels = render(family, 4, size, seed=3).cell_labels[..., :FIRST_COLOUR].view(4, 64, -1)
    assert int((targets > 0).sum()) > 20
    for picture, leaf in (targets > 0).any(-1).nonzero().tolist():
        found = {c for c in targets[picture, leaf].tolist() if c > 0}
        labelled = set(labels[picture, leaf].nonzero()[:, 0].tolist())
        assert found <= labelled
        assert len(labelled - found) <= 2, "two glyphs may share a sub-cell, hardly more"


def test_glyph_targets_of_coarse_leaves_ask_only_what_can_be_read():
    size = (256, 256)
    glyphs = render_family("cards", 8, size, seed=3, start=0, device="cpu").glyphs
    tree = tree_of(size)
    coarse = quadtree(torch.ones(8, 8, 8), tree, 16).cells
    assert set(coarse[..., 2].flatten().tolist()) == {1}
    targets = glyph_targets(glyphs, coarse, size)
    small, large = (glyphs.character > 0) & (glyphs.size < 16), (glyphs.character > 0) & (glyphs.size >= 16)
    assert small.any()
    assert large.any()
    assert (targets == IGNORE).any(), "small type at half resolution is not asked for"
    assert (targets > 0).any(), "large type is"
    coarsest = quadtree(torch.ones(8, 8, 8), tree, 4).cells
    assert (glyph_targets(glyphs, coarsest, size) == IGNORE).all()


def test_thing_targets_take_the_union_of_what_a_leaf_covers():
    things = torch.zeros(1, 4, 4, 2, dtype=torch.uint8)
    things[0, 1, 2, 0] = 1
    things[0, 0, 3, 1] = 1
    leaves = torch.tensor([[[0, 0, 1], [0, 2, 1], [1, 2, 0], [0, 0, 2]]])
    found, asked = thing_targets(things, leaves)
    assert found[0].tolist() == [[0, 0], [1, 1], [1, 0], [0, 0]]
    assert asked[0].tolist() == [True, True, True, False]


def test_boxes_cover_the_cells_they_touch():
    cover = box_cover(torch.tensor([[[0.25, 0.0, 0.5, 0.125]]]), torch.ones(1, 1, dtype=torch.bool), 4, 4)
    assert cover[0].tolist() == [[0, 0.5, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    hidden = box_cover(torch.tensor([[[0.0, 0.0, 1.0, 1.0]]]), torch.zeros(1, 1, dtype=torch.bool), 2, 2)
    assert hidden.sum() == 0


@cache
def lessons(number: int) -> TrainingBatch:
    drawn = join([render_family(family, number, (256, 256), 0, 0, "cpu") for family in ("cards", "forms")])
    return cut(drawn, 1, number + 1)


@pytest.mark.parametrize("kind", [*KINDS, LOOK_AGAIN], ids=lambda kind: f"{kind.name}-{kind.keep}")
def test_every_kind_of_look_is_on_its_budget(kind):
    """Tilings reach what a tiling can, overlays every budget; what is dropped is dropped after the tower."""
    batch = lessons(3)
    table, truth = LeafTable(tree_of((256, 256)), "cpu"), target_cells(batch, 8, 8)
    blocks, kept = table.looks(kind, truth, torch.Generator().manual_seed(0), truth)
    budget = round(kind.keep * table.tree.full)
    if kind.name == "again":
        first, second = (set(map(tuple, block[0].tolist())) for block in blocks)
        assert [len(first), len(second)] == [budget, 4]
        assert not first & second, "nothing is looked at twice"
    elif kind.name == "dropped":
        assert blocks[0].shape[1] == table.tree.full
        assert kept.shape == (3, budget)
        assert (kept.diff(dim=1) > 0).all()
    elif kind.lays_over:
        assert blocks[0].shape[1] == budget
    else:
        assert blocks[0].shape[1] == table.tree.reach(max(table.tree.floor, budget))
    if kind.name == "overlay" and kind.keep == 0.25:
        row, col, level = blocks[0].unbind(-1)
        fine = sum(truth[b, row[b][level[b] == 0], col[b][level[b] == 0]].sum() for b in range(3))
        assert fine > 0.5 * truth.sum()


TILINGS = [kind for kind in KINDS if not kind.lays_over and kind.name != "dropped"]


@pytest.mark.parametrize("kind", TILINGS, ids=lambda kind: f"{kind.name}-{kind.keep}")
def test_every_tiling_has_one_length_and_its_budget(kind):
    batch = lessons(4)
    tree = tree_of((256, 256))
    leaves = make_leaves(kind, batch, tree, torch.Generator().manual_seed(0), None)
    assert leaves.shape[1] == tree.reach(max(tree.floor, round(kind.keep * tree.full)))
    if kind.name == "oracle":
        truth = target_cells(batch, 8, 8)
        row, col, level = leaves.unbind(-1)
        fine = [truth[b, row[b][level[b] == 0], col[b][level[b] == 0]].sum() for b in range(len(batch))]
        if kind.keep == 0.25:
            assert sum(fine) > 0.3 * truth.sum()


def test_the_model_stays_inside_the_stock_class_and_its_size():
    model = build_mini()
    number = sum(value.numel() for value in model.parameters())
    assert type(model).__name__ == "Qwen3VLForConditionalGeneration"
    assert number < 30e6
    assert model.config.image_token_id == IMAGE


def test_the_table_shows_every_number_with_its_interval():
    row = {"family": "cards", "strategy": "full", "keep": 1.0, "tokens": 256, "accuracy": 0.5, "low": 0.4, "high": 0.6}
    text = format_table([row, {**row, "family": "forms", "accuracy": 0.7}])
    assert "50.0 (40.0–60.0)" in text
    assert "| 60.0 |" in text


def test_a_tiny_model_has_the_requested_shape():
    model = build_mini(MiniConfig(width=64, heads=1))
    assert model.config.text_config.hidden_size == 64


def test_cut_and_join_are_inverse():
    cards = render_family("cards", 4, (128, 128), 0, 0, "cpu")
    forms = render_family("forms", 2, (128, 128), 0, 0, "cpu")
    both = join([cards, forms])
    assert torch.equal(cut(both, 0, 4).pictures, cards.pictures)
    assert torch.equal(cut(both, 4, 6).answer_ids, forms.answer_ids)
    assert int((cut(both, 4, 6).glyphs.character > 0).sum()) == int((forms.glyphs.character > 0).sum())
