"""The swift path of the training against the stock class: same losses, same gradients."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arr_coc.core.alphabet import IDS, NUMBER_OF_IDS
from arr_coc_lab.train import pictures as picture_room
from arr_coc_lab.train.allocations import (
    KINDS,
    NURSERY_KINDS,
    Kind,
    LeafTable,
    even_tree_of,
    make_leaves,
    tree_of,
)
from arr_coc_lab.train.mini_model import MiniConfig, build_mini
from arr_coc_lab.train.pictures import (
    READING_LEVELS,
    TrainingBatch,
    board_targets,
    glyph_board,
    render_family,
    thing_targets,
    vary,
)
from arr_coc_lab.train.reader import (
    DenseHeads,
    PictureWindow,
    Reader,
    copying_loss,
    cut_blocks,
    glyph_loss,
    glyphs_read,
    leaves_meant,
    pointing_loss,
    read,
    reader_losses,
    see,
    see_blocks,
    thing_loss,
)
from arr_coc_lab.train.reader_examples import ReaderBatch, render_reader_batch, whose_turn
from arr_coc_lab.train.swift import PIECES, compile_pieces

SIZE = (128, 256)
COMPILED: dict = {}


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


def stock_reading(reader, batch, leaves) -> dict[str, torch.Tensor]:
    """Answers and dense losses by the stock class, leaf by leaf from the glyphs themselves."""
    answers, tokens = read(reader.mini, batch, leaves), see(reader.mini, batch.pictures, leaves)[0]
    glyphs, things = reader.heads(tokens.embeds)
    boards = [glyph_board(batch.glyphs, SIZE, depth) for depth in range(READING_LEVELS)]
    target = board_targets(boards, leaves).flatten(0, 1)
    thing = thing_loss(things, *(part.flatten(0, 1) for part in thing_targets(batch.things, leaves)))
    dense = {"glyph": glyph_loss(glyphs, target), "thing": thing, "glyph_right": glyphs_read(glyphs, target)}
    return {"answer": answers.loss, "right": answers.right, **dense}


@pytest.mark.parametrize("kind", [Kind("full", 1, 1), Kind("random", 0.5, 1)], ids=["full", "random"])
def test_losses_and_gradients_are_those_of_the_stock_class(reader, kind):
    batch = render_family("cards", 3, SIZE, 5, 0, "cpu")
    pages = render_reader_batch("cards", 3, SIZE, 5, 0, "cpu", questions=1)
    tree = tree_of(SIZE)
    leaves = make_leaves(kind, batch, tree, torch.Generator().manual_seed(1), None)
    stock = stock_reading(reader, batch, leaves)
    swift = reader_losses(reader, pages, [leaves], cut_blocks(pages, [leaves], tree.levels + 1, torch.float32))
    dense = swift.dense
    made = {"answer": swift.answer, "glyph": dense.glyph, "thing": dense.thing, "glyph_right": dense.glyph_right}
    for name, value in made.items():
        torch.testing.assert_close(value, stock[name], rtol=1e-4, atol=1e-5)
    assert torch.equal(swift.right, stock["right"])
    assert min(dense.patches, swift.pointing, swift.copying) > 0
    expected = gradients(reader, stock["answer"] + stock["glyph"] + stock["thing"])
    found = gradients(reader, swift.answer + dense.glyph + dense.thing)
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
        table = LeafTable(even_tree_of(size), "cpu")
        found = {}
        for kind in (Kind("full", 1, 1), Kind("overlay", 0.5, 1)):
            blocks, _ = table.looks(kind, pages.targets[:, 0].float(), torch.Generator().manual_seed(0))
            patches = cut_blocks(pages, blocks, 5, torch.float32, kind.whole)
            for wanted in (False, True):
                for piece in PIECES:
                    piece.run = COMPILED[piece] if wanted else piece.work
                lesson = reader_losses(reader, pages, blocks, patches)
                loss = lesson.answer + lesson.dense.glyph + lesson.dense.thing + lesson.dense.patches
                found[wanted] = loss.detach(), gradients(reader, loss)
            torch.testing.assert_close(found[True][0], found[False][0], rtol=1e-4, atol=1e-5)
            assert set(found[True][1]) == set(found[False][1])
            for name, value in found[False][1].items():
                torch.testing.assert_close(found[True][1][name], value, rtol=1e-3, atol=1e-5)


def test_whole_pictures_are_cut_without_a_gather(reader):
    pages = render_reader_batch("cards", 3, SIZE, 5, 0, "cpu", questions=1)
    table = LeafTable(even_tree_of(SIZE), "cpu")
    (leaves,), _ = table.looks(Kind("full", 1, 1), pages.targets[:, 0].float(), torch.Generator())
    assert leaves.shape == (1, 32, 3)
    (laid,), (gathered,) = (cut_blocks(pages, [leaves], 4, torch.float32, whole) for whole in (True, False))
    assert torch.equal(laid, gathered)
    # Leaves that are the same for all pictures give what the same leaves for each give.
    one = reader_losses(reader, pages, [leaves], [laid])
    each = reader_losses(reader, pages, [leaves.expand(3, -1, -1)], [laid])
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
    window = see_blocks(core, [inside], cut_blocks(small, [inside], 1, torch.float32, True), PictureWindow(4, 0, 8, 8))
    torch.testing.assert_close(window.embeds, whole.embeds)
    alone = see_blocks(core, [inside], cut_blocks(small, [inside], 1, torch.float32, True), PictureWindow(0, 0, 4, 4))
    assert not torch.allclose(alone.embeds, whole.embeds)


def test_two_in_one_sub_cell_are_not_asked_for():
    y, x = torch.tensor([[4, 4, 4, 20]]), torch.tensor([[1, 2, 9, 1]])
    glyphs = picture_room.Glyphs(y, x, torch.tensor([[5, 6, 7, 8]]), torch.tensor([[8, 8, 8, 5]]))
    board = picture_room.glyph_board(glyphs, (32, 32), 0)
    assert board[0, 0, :4].tolist() == [picture_room.IGNORE, 0, 7, 0]
    assert board[0, 2, 0] == picture_room.IGNORE, "too small"


def test_two_questions_at_once_are_the_same_as_each_alone(reader):
    pages = render_reader_batch("forms", 4, SIZE, 5, 0, "cpu", questions=2)
    table = LeafTable(even_tree_of(SIZE), "cpu")
    leaves = table.leaves(Kind("uniform", 0.25, 1), pages.targets[:, 0].float(), torch.Generator())
    patches = cut_blocks(pages, [leaves], table.tree.levels + 1, torch.float32)
    both = reader_losses(reader, pages, [leaves], patches)
    said = []
    for question in range(2):
        alone = pages.one_question(torch.full((4,), question))
        one = reader_losses(reader, alone, [leaves], patches)
        letters = pages.said[:, question].sum()
        said.append((one.answer * letters, letters, one.right))
    losses, letters, right = zip(*said, strict=True)
    torch.testing.assert_close(both.answer, sum(losses) / sum(letters))
    assert torch.equal(both.right.view(4, 2), torch.stack(right, 1))


TILINGS = [kind for kind in (*KINDS, *NURSERY_KINDS) if not kind.lays_over]


@cache
def signs(size: tuple[int, int]) -> tuple[TrainingBatch, ReaderBatch]:
    """The same pictures by either renderer."""
    return render_family("signs", 5, size, 3, 0, "cpu"), render_reader_batch("signs", 5, size, 3, 0, "cpu", questions=1)


@pytest.mark.parametrize("kind", TILINGS, ids=lambda kind: f"{kind.name}-{kind.keep}")
def test_the_leaf_table_makes_the_very_leaves_of_the_quadtree(kind):
    size = (256, 512)
    batch, pages = signs(size)
    tree = tree_of(size)
    slow = make_leaves(kind, batch, tree, torch.Generator().manual_seed(4), None)
    fast = LeafTable(tree, "cpu").leaves(kind, pages.targets[:, 0].float(), torch.Generator().manual_seed(4))
    assert torch.equal(fast, slow)


def test_pages_hold_what_the_renderer_tells():
    batch = render_family("zoo", 3, (256, 256), 9, 40, "cpu")
    pages = render_reader_batch("zoo", 3, (256, 256), 9, 40, "cpu", questions=3)
    assert torch.equal(pages.pictures, batch.pictures)
    assert torch.equal(pages.questions[:, 0, :72].long(), batch.question_ids)
    assert not pages.questions[..., 72:].any()
    assert torch.equal(pages.things, batch.things)
    assert (pages.questions[:, 1] != pages.questions[:, 0]).any()
    assert int((pages.tails > 0).sum(2).max()) < pages.tails.shape[2]


@given(st.lists(st.floats(0.2, 3), min_size=2, max_size=8), st.integers(0, 60))
def test_every_family_has_its_share_at_any_time(shares, turns):
    had = [whose_turn(tuple(shares), 1, turn) for turn in range(turns)]
    for number, share in enumerate(shares):
        assert abs(had.count(number) - turns * share / sum(shares)) < 2
    assert [whose_turn(tuple(shares), len(shares), turn) for turn in range(len(shares))] == list(range(len(shares)))


def test_a_second_look_is_finer_and_goes_to_the_answer_in_half_of_the_pictures():
    size = (512, 512)
    table = LeafTable(even_tree_of(size), "cpu")
    truth = torch.zeros(64, 16, 16)
    truth[:, 4:6, 8:12] = 1
    first, second = table.again(truth, torch.Generator().manual_seed(0), None, 16)
    assert first.shape == (64, 32, 3)
    assert second.shape == (64, 16, 3)
    assert second[..., 2].float().mean() < first[..., 2].float().mean()
    row, col, level = second.unbind(-1)
    assert (level == 0).all()
    seen = torch.zeros_like(truth)
    for block in (first, second):
        row, col, level = block.unbind(-1)
        seen[torch.arange(64)[:, None], row, col] += level == 0
    assert seen.max() == 1, "nothing is looked at twice"
    lucky = ((seen * truth).sum((1, 2)) == 8).float().mean()
    assert 0.3 < lucky < 0.7


def test_two_looks_are_those_of_the_separate_path(reader):
    """The swift path with two blocks against Esper's own reading of the same looks."""
    from arr_coc_lab.train.swift import cut_patches, run_language, run_tower, together

    size = (256, 256)
    pages = render_reader_batch("cards", 3, size, 5, 0, "cpu", questions=1)
    table = LeafTable(even_tree_of(size), "cpu")
    blocks = table.again(pages.targets[:, 0].float(), torch.Generator().manual_seed(0), None, 4)
    patches = cut_blocks(pages, blocks, table.tree.levels + 1, torch.float32)
    reading = reader_losses(reader, pages, blocks, patches)
    core = reader.mini.model
    looks = [run_tower(core.visual, cut_patches(pages.pictures, one, 4, torch.float32), one, (8, 8)) for one in blocks]
    alone = run_tower(core.visual, cut_patches(pages.pictures, blocks[0], 4, torch.float32), blocks[0], (8, 8))
    assert torch.equal(together(looks).embeds[:, : blocks[0].shape[1]], alone.embeds)
    one = run_language(core, alone, pages.tails, blocks[0], (8, 8)).said
    two = run_language(core, together(looks), pages.tails, torch.cat(blocks, 1), (8, 8)).said
    assert not torch.allclose(one, two)
    assert reading.answer > 0


def test_varied_pictures_stay_close_and_differ_each_in_its_own_way():
    pictures = render_family("forms", 12, (128, 128), 5, 0, "cpu").pictures
    varied = vary(pictures, torch.Generator().manual_seed(0))
    assert varied.dtype == torch.uint8
    assert varied.shape == pictures.shape
    change = (varied.float() - pictures.float()).abs().mean((1, 2, 3))
    assert (change > 0).all()
    assert (change < 40).all()
    assert len(change.unique()) == 12
    assert torch.equal(varied, vary(pictures, torch.Generator().manual_seed(0)))


def test_a_pointer_learns_which_leaves_a_question_means():
    """Gradient steps on the pointer alone find the meant leaves; a question that means none teaches nothing."""
    targets = torch.zeros(2, 1, 4, 4, dtype=torch.bool)
    targets[0, 0, 0, 3] = True
    leaves = torch.tensor([[[0, 0, 1], [0, 2, 1], [2, 0, 1], [2, 2, 0], [2, 3, 0], [3, 2, 0], [3, 3, 0]]] * 2)
    meant = leaves_meant(targets, leaves)
    assert meant.tolist() == [[False, True] + [False] * 5, [False] * 7]
    # What a leaf of level 3 holds cannot be seen in it, even where its first cell is a target.
    targets[1, 0, 0, 0] = True
    assert not leaves_meant(targets[1:], torch.tensor([[[0, 0, 3]]])).any()
    assert leaves_meant(targets[1:], torch.tensor([[[0, 0, 2]]])).all()
    torch.manual_seed(0)
    heads = DenseHeads(32)
    asking, places = torch.randn(2, 32), torch.randn(2, 7, 32)
    optimizer = torch.optim.Adam(heads.parameters(), 0.01)
    for _ in range(30):
        optimizer.zero_grad()
        loss = pointing_loss(heads.point(asking, places), meant)
        loss.backward()
        optimizer.step()
    assert heads.point(asking, places)[0].argmax() == 1
    assert loss < 0.1
    assert pointing_loss(heads.point(asking, places)[1:], meant[1:]) == 0


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


def test_the_copying_loss_falls_when_the_right_leaf_and_spot_are_named(reader):
    pages = render_reader_batch("cards", 4, (256, 256), 5, 0, "cpu", questions=1)
    table = LeafTable(even_tree_of((256, 256)), "cpu")
    leaves = table.leaves(Kind("full", 1, 1), pages.targets[:, 0].float(), torch.Generator())
    heads = DenseHeads(16)

    class Knowing(Reader):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.heads = heads

    spot = pages.copied[:, 0, 1:].long().clamp_min(0)
    y, x = spot // 64, spot % 64
    index = (y // 4) * 8 + x // 8  # the full tree is in raster order
    length = index.shape[1]
    certain = torch.zeros(4, length, 64).scatter_(2, index[..., None], 50.0)
    inside = torch.zeros(4, length, 32).scatter_(2, ((y % 4) * 8 + x % 8)[..., None], 50.0)
    heads.copy = lambda saying, places: (certain.log_softmax(-1), inside)
    right = copying_loss(Knowing(), torch.zeros(4, length, 16), torch.zeros(4, 64, 16), pages, leaves)
    heads.copy = lambda saying, places: (certain.roll(1, 2).log_softmax(-1), inside)
    wrong = copying_loss(Knowing(), torch.zeros(4, length, 16), torch.zeros(4, 64, 16), pages, leaves)
    assert right < 1e-3
    assert wrong > 10


def test_pointing_has_read_the_question_and_nothing_of_the_answer(reader):
    size = (256, 256)
    pages = render_reader_batch("cards", 4, size, 5, 0, "cpu", questions=1)
    table = LeafTable(even_tree_of(size), "cpu")
    leaves = table.leaves(Kind("full", 1, 1), pages.targets[:, 0].float(), torch.Generator())
    patches = cut_blocks(pages, [leaves], table.tree.levels + 1, torch.float32)

    def pointing(tails: torch.Tensor) -> torch.Tensor:
        return reader_losses(reader, replace(pages, heard=tails), [leaves], patches).pointing

    before = pointing(pages.tails)
    other_answer = torch.where(pages.said, IDS["x"], pages.tails)
    torch.testing.assert_close(pointing(other_answer), before)
    asked = (pages.tails > 0) & (pages.tails < NUMBER_OF_IDS) & ~pages.said
    assert not torch.allclose(pointing(torch.where(asked, IDS["x"], pages.tails)), before)
