"""A reading step: prompts, dense targets, allocations; the swift path against the stock class, values and gradients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import characters

from arr_coc.attending.tree import quadtree
from arr_coc.core.alphabet import IDS, NUMBER_OF_IDS, text_row
from arr_coc_lab.train.allocations import KINDS, LOOK_AGAIN, Kind, even_tree_of, leaves_of, looks, target_cells, tree_of
from arr_coc_lab.train.mini_model import (
    CHAT_TEMPLATE,
    VOCABULARY,
    MiniConfig,
    build_mini,
    build_prompt,
    build_tokenizer,
)
from arr_coc_lab.train.pictures import (
    IGNORE,
    READING_LEVELS,
    board_targets,
    glyph_board,
    render_glyphs,
    thing_targets,
)
from arr_coc_lab.train.reader import (
    DenseHeads,
    PictureWindow,
    Reader,
    cut_blocks,
    glyph_loss,
    glyphs_read,
    read,
    reader_losses,
    see,
    see_blocks,
    thing_loss,
)
from arr_coc_lab.train.reader_examples import render_reader_batch, whose_turn
from arr_coc_lab.train.swift import PIECES, compile_pieces
from arr_coc_lab.worlds.needle import render
from arr_coc_lab.worlds.needle.batch import FIRST_COLOUR

SIZE = (128, 256)
COMPILED: dict = {}


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
    assert ids == text_row(text, len(text))
    assert tokenizer.decode(ids) == text
    assert tokenizer("ü")["input_ids"] == text_row("?", 1)
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again(text)["input_ids"] == ids
    assert again.chat_template == CHAT_TEMPLATE
    assert len(VOCABULARY) == len(set(VOCABULARY.values()))


@pytest.mark.parametrize("family", ["cards", "forms"])
def test_glyph_targets_agree_with_the_cell_labels(family):
    """Another route to "what stands in this cell": the renderer's own labels."""
    size = (256, 256)
    glyphs = render_glyphs(family, 4, size, 3, "train", "cpu", 0)[1]
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
    glyphs = render_glyphs("cards", 8, size, 3, "train", "cpu", 0)[1]
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


@pytest.mark.parametrize("kind", [*KINDS, LOOK_AGAIN], ids=lambda kind: f"{kind.name}-{kind.keep}")
def test_every_kind_of_look_is_on_its_budget(kind):
    """Tilings reach what a tiling can, overlays every budget; what is dropped is dropped after the tower."""
    batch = render("forms", 3, (256, 256), 0)
    tree, truth = tree_of((256, 256)), target_cells(batch, 8, 8)
    blocks, kept = looks(kind, truth, tree, torch.Generator().manual_seed(0))
    budget = round(kind.keep * tree.full)
    if kind.name == "again":
        first, second = (set(map(tuple, block[0].tolist())) for block in blocks)
        assert [len(first), len(second)] == [budget, 4]
        assert not first & second, "nothing is looked at twice"
    elif kind.name == "dropped":
        assert blocks[0].shape[1] == tree.full
        assert kept.shape == (3, budget)
        assert (kept.diff(dim=1) > 0).all()
    elif kind.lays_over:
        assert blocks[0].shape[1] == budget
    else:
        assert blocks[0].shape[1] == tree.reach(max(tree.floor, budget))
    if kind.name == "overlay" and kind.keep == 0.25:
        row, col, level = blocks[0].unbind(-1)
        fine = sum(truth[b, row[b][level[b] == 0], col[b][level[b] == 0]].sum() for b in range(3))
        assert fine > 0.5 * truth.sum()


@pytest.fixture(scope="module")
def reader() -> Reader:
    torch.manual_seed(0)
    config = MiniConfig(width=64, vision_layers=3, language_layers=3, heads=2, deepstack=(0, 1))
    reader = Reader(build_mini(config), DenseHeads(64))
    with torch.no_grad():  # far from the initial state, where many terms would vanish
        for parameter in reader.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return reader


def gradients(reader: Reader, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    reader.zero_grad()
    loss.backward()
    return {name: value.grad.clone() for name, value in reader.named_parameters() if value.grad is not None}


def stock_reading(reader, batch, glyphs_of_batch, leaves) -> dict[str, torch.Tensor]:
    """Answers and dense losses by the stock class, leaf by leaf from the glyphs themselves."""
    answers, tokens = read(reader.mini, batch, leaves), see(reader.mini, batch.pictures, leaves)[0]
    glyphs, things = reader.heads(tokens.embeds)
    boards = [glyph_board(glyphs_of_batch, SIZE, depth) for depth in range(READING_LEVELS)]
    target = board_targets(boards, leaves).flatten(0, 1)
    thing = thing_loss(
        things, *(part.flatten(0, 1) for part in thing_targets(batch.cell_labels[..., FIRST_COLOUR:], leaves))
    )
    dense = {"glyph": glyph_loss(glyphs, target), "thing": thing, "glyph_right": glyphs_read(glyphs, target)}
    return {"answer": answers.loss, "right": answers.right, **dense}


@pytest.mark.parametrize("kind", [Kind("full", 1, 1), Kind("random", 0.5, 1)], ids=["full", "random"])
def test_losses_and_gradients_are_those_of_the_stock_class(reader, kind):
    batch, glyphs = render_glyphs("cards", 3, SIZE, 5, "train", "cpu", 0)
    pages = render_reader_batch("cards", 3, SIZE, 5, 0, "cpu", questions=1)
    tree = even_tree_of(SIZE)
    leaves = leaves_of(kind, pages.targets[:, 0].float(), tree, torch.Generator().manual_seed(1))
    stock = stock_reading(reader, batch, glyphs, leaves)
    swift = reader_losses(reader, pages, [leaves], cut_blocks(pages, [leaves], tree.levels + 1, torch.float32))
    dense, answers = swift
    made = {"answer": answers.answer, "glyph": dense.glyph, "thing": dense.thing, "glyph_right": dense.glyph_right}
    for name, value in made.items():
        torch.testing.assert_close(value, stock[name], rtol=1e-4, atol=1e-5)
    assert torch.equal(answers.right, stock["right"])
    assert min(dense.patches, answers.pointing, answers.copying) > 0
    expected = gradients(reader, stock["answer"] + stock["glyph"] + stock["thing"])
    found = gradients(reader, answers.answer + dense.glyph + dense.thing)
    assert set(found) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, rtol=1e-3, atol=1e-5, msg=lambda text, name=name: f"{name} {text}"
        )


@pytest.fixture
def compiled():
    """Every piece compiled, for any number of pictures and leaves; without the kernels, which take minutes here."""
    compile_pieces(backend="aot_eager")
    COMPILED.update({piece: piece.run for piece in PIECES})
    yield
    compile_pieces(False)


def test_compiled_it_is_the_same_and_once_for_all_lengths(reader, compiled):
    """Two canvases and two allocations: same losses, same gradients, and nothing is compiled a second time."""
    for number, size in ((3, (128, 256)), (2, (256, 256))):
        pages = render_reader_batch("cards", number, size, 5, 0, "cpu", questions=2)
        found = {}
        for kind in (Kind("full", 1, 1), Kind("overlay", 0.5, 1)):
            truth, chance = pages.targets[:, 0].float(), torch.Generator().manual_seed(0)
            blocks, _ = looks(kind, truth, even_tree_of(size), chance)
            patches = cut_blocks(pages, blocks, 5, torch.float32)
            for wanted in (False, True):
                for piece in PIECES:
                    piece.run = COMPILED[piece] if wanted else piece.work
                loss = reader_losses(reader, pages, blocks, patches).total()
                found[wanted] = loss.detach(), gradients(reader, loss)
            torch.testing.assert_close(found[True][0], found[False][0], rtol=1e-4, atol=1e-5)
            assert set(found[True][1]) == set(found[False][1])
            for name, value in found[False][1].items():
                torch.testing.assert_close(found[True][1][name], value, rtol=1e-3, atol=1e-5)


def test_leaves_that_all_pictures_share_are_those_leaves_for_each(reader):
    pages = render_reader_batch("cards", 3, SIZE, 5, 0, "cpu", questions=1)
    (leaves,), _ = looks(Kind("full", 1, 1), pages.targets[:, 0].float(), even_tree_of(SIZE), torch.Generator())
    assert leaves.shape == (1, 32, 3)
    patches = cut_blocks(pages, [leaves], 1, torch.float32)
    assert torch.equal(patches[0], cut_blocks(pages, [leaves], 4, torch.float32)[0])
    one = reader_losses(reader, pages, [leaves], patches).answers
    each = reader_losses(reader, pages, [leaves.expand(3, -1, -1)], patches).answers
    torch.testing.assert_close(one.answer, each.answer)
    torch.testing.assert_close(one.pointing, each.pointing)


def test_a_window_is_read_as_that_part_of_the_larger_picture(reader):
    """The leaves of a quarter of a picture, by themselves and as a window of the size of the quarter."""
    pages = render_reader_batch("cards", 2, (256, 256), 5, 0, "cpu", questions=1)
    row, col = torch.meshgrid(torch.arange(4, 8), torch.arange(4), indexing="ij")
    quarter = torch.stack([row, col, torch.zeros_like(row)], -1).view(1, 16, 3)
    core, parts = reader.mini.model, cut_blocks(pages, [quarter], 1, torch.float32)
    whole = see_blocks(core, [quarter], parts, PictureWindow(0, 0, 8, 8))
    small = replace(pages, pictures=pages.pictures[:, :, 128:, :128])
    inside = quarter - torch.tensor([4, 0, 0])
    window = see_blocks(core, [inside], cut_blocks(small, [inside], 1, torch.float32), PictureWindow(4, 0, 8, 8))
    torch.testing.assert_close(window.embeds, whole.embeds)
    alone = see_blocks(core, [inside], cut_blocks(small, [inside], 1, torch.float32), PictureWindow(0, 0, 4, 4))
    assert not torch.allclose(alone.embeds, whole.embeds)


def test_two_questions_at_once_are_the_same_as_each_alone(reader):
    pages = render_reader_batch("forms", 4, SIZE, 5, 0, "cpu", questions=2)
    tree = even_tree_of(SIZE)
    leaves = leaves_of(Kind("uniform", 0.25, 1), pages.targets[:, 0].float(), tree, torch.Generator())
    patches = cut_blocks(pages, [leaves], tree.levels + 1, torch.float32)
    both = reader_losses(reader, pages, [leaves], patches).answers
    said = []
    for question in range(2):
        alone = pages.one_question(torch.full((4,), question))
        one = reader_losses(reader, alone, [leaves], patches).answers
        letters = pages.said[:, question].sum()
        said.append((one.answer * letters, letters, one.right))
    losses, letters, right = zip(*said, strict=True)
    torch.testing.assert_close(both.answer, sum(losses) / sum(letters))
    assert torch.equal(both.right.view(4, 2), torch.stack(right, 1))


def test_pages_hold_what_the_renderer_tells():
    batch = render("zoo", 3, (256, 256), 9, start=40)
    pages = render_reader_batch("zoo", 3, (256, 256), 9, 40, "cpu", questions=3)
    assert torch.equal(pages.pictures, batch.pictures)
    assert torch.equal(pages.things, batch.cell_labels[..., FIRST_COLOUR:])
    assert (pages.tails[:, 1] != pages.tails[:, 0]).any()
    assert int((pages.tails > 0).sum(2).max()) < pages.tails.shape[2]


@given(st.lists(st.floats(0.2, 3), min_size=2, max_size=8), st.integers(0, 60))
def test_every_family_has_its_share_at_any_time(shares, turns):
    had = [whose_turn(tuple(shares), 1, turn) for turn in range(turns)]
    for number, share in enumerate(shares):
        assert abs(had.count(number) - turns * share / sum(shares)) < 2
    assert [whose_turn(tuple(shares), len(shares), turn) for turn in range(len(shares))] == list(range(len(shares)))


@pytest.mark.parametrize("family", ["cards", "forms", "receipts", "signs", "zoo"])
def test_written_answers_are_copied_letter_by_letter_from_where_they_stand(family):
    """The sub-cell named for each letter must hold that letter on the glyph board, wherever two do not share one."""
    size = (512, 512)
    pages = render_reader_batch(family, 12, size, 5, 0, "cpu", questions=2)
    copied, tails = pages.copied.long(), pages.tails.long()
    there = copied >= 0
    assert there.any(2).float().mean() > 0.3  # many answers of every family are written in the picture
    assert not (there & ~pages.said).any()
    board = pages.fine[:, : size[0] // 8, : size[1] // 4].long().flatten(1)
    found = board[:, None].expand(-1, 2, -1).gather(2, copied.clamp_min(0))
    readable = there & (found != 255)
    assert (found == tails)[readable].float().mean() > 0.95  # hardly any share a sub-cell
    # Letters of a written answer are copied all or not at all.
    letters = pages.said & (tails != IDS[" "]) & (tails < NUMBER_OF_IDS)
    assert ((there.sum(2) == letters.sum(2)) | (there.sum(2) == 0)).all()


def test_pointing_has_read_the_question_and_nothing_of_the_answer(reader):
    size = (256, 256)
    pages = render_reader_batch("cards", 4, size, 5, 0, "cpu", questions=1)
    tree = even_tree_of(size)
    leaves = leaves_of(Kind("full", 1, 1), pages.targets[:, 0].float(), tree, torch.Generator())
    patches = cut_blocks(pages, [leaves], tree.levels + 1, torch.float32)

    def pointing(tails: torch.Tensor) -> torch.Tensor:
        return reader_losses(reader, replace(pages, heard=tails), [leaves], patches).answers.pointing

    before = pointing(pages.tails)
    other_answer = torch.where(pages.said, IDS["x"], pages.tails)
    torch.testing.assert_close(pointing(other_answer), before)
    asked = (pages.tails > 0) & (pages.tails < NUMBER_OF_IDS) & ~pages.said
    assert not torch.allclose(pointing(torch.where(asked, IDS["x"], pages.tails)), before)
