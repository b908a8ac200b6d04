"""Pages for the reader: letters where the ink is, answers that are asked for and copied from where they stand."""

from __future__ import annotations

import pytest
import torch
from plain_pages import plain_pack

from arr_coc.core.alphabet import NUMBER_OF_IDS, decode
from arr_coc.core.errors import InputError
from arr_coc_lab.train import train_mini
from arr_coc_lab.train.pictures import UNKNOWN, thing_targets
from arr_coc_lab.train.prompts import ADDITIONS, reword
from arr_coc_lab.train.reader_examples import misheard
from arr_coc_lab.train.reader_pages import PageBook
from arr_coc_lab.train.scorer_worlds import crops


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "train-00.bin"
    plain_pack(path)
    return path


@pytest.fixture(scope="module")
def book(pack):
    return PageBook(str(pack), "cpu", seed=3)


@pytest.mark.parametrize("neighbours", [0, 12])
def test_every_letter_of_an_answer_is_copied_from_its_ink(pack, book, neighbours):
    own, book = book, PageBook(str(pack), "cpu", seed=3, neighbours=neighbours)
    assert (len(book) > len(own)) == bool(neighbours)
    batch = book.render(12, (256, 256), 0)
    assert batch.pictures.shape == (12, 3, 256, 256)
    grey = batch.pictures.float().mean(1)
    for number in range(12):
        for asked in range(3):
            spots = batch.copied[number, asked]
            spots = spots[spots >= 0].long()
            said = batch.tails[number, asked][batch.said[number, asked]][:-1]
            assert len(spots) == len(said), "every letter, and nothing else"
            rows, cols = spots // 64, spots % 64
            assert (cols.diff() >= 0).all(), "a line is read from left to right"
            # The board says which letter stands there, and the cell is one that the question needs.
            found = batch.fine[number, rows, cols]
            assert ((found == said) | (found == 255)).float().mean() > 0.95, "hardly any share a sub-cell"
            assert batch.targets[number, asked, rows // 4, cols // 8].all()
            ink = grey[number].unfold(0, 8, 8).unfold(1, 4, 4).std((-1, -2))
            assert ink[rows, cols].mean() > ink.mean()


def whole(book: PageBook, page: torch.Tensor) -> torch.Tensor:
    corner = torch.zeros_like(page)
    return book.pictures.windows(page, corner, corner, 512)


def test_as_drawn_is_the_page_and_the_question_as_it_was_written(book):
    which = torch.tensor([0, 5])
    batch = book.render(2, (256, 320), 0, which, as_drawn=True)
    assert torch.equal(batch.pictures, whole(book, book.asked.page[which])[:, :, :256, :320])
    tail = batch.tails[0, 0].long()
    question = decode(book.asked.questions[0].long())
    assert decode(tail[: len(question)]) == question == "What is the total?"


def test_the_same_number_gives_the_same_batch(book):
    first, again, other = (book.render(4, (256, 256), start) for start in (7, 7, 8))
    assert torch.equal(first.pictures, again.pictures)
    assert torch.equal(first.tails, again.tails)
    assert not torch.equal(first.tails, other.tails)


def test_no_letter_is_torn_where_others_reckon_coarsely(book):
    plain = book.render(4, (256, 256), 0)
    with torch.autocast("cpu", torch.bfloat16):
        coarse = book.render(4, (256, 256), 0)
    assert (coarse.pictures.int() - plain.pictures.int()).abs().max() <= 2
    # Whatever the device: a crop at the page's own scale is the page, up to its last column.
    place = torch.zeros(2)
    page = torch.tensor([0, 1])
    shown = crops(book.pictures, page, (place, place), place + 1, (256, 320), lambda *n: torch.zeros(n), False, 1.0)
    assert torch.equal((shown * 255).round().byte(), whole(book, page)[:, :, :256, :320])


def test_letters_of_an_answer_are_misheard_and_nothing_else(book):
    batch = book.render(64, (256, 256), 0)
    assert torch.equal(batch.heard, batch.tails)
    first, again, never = (misheard(batch, share, torch.Generator().manual_seed(1)) for share in (0.2, 0.2, 0.0))
    assert torch.equal(first.heard, again.heard)
    assert torch.equal(never.heard, batch.tails)
    assert torch.equal(first.tails, batch.tails)
    changed = first.heard != batch.tails
    letters = batch.said & (batch.tails < NUMBER_OF_IDS)
    assert not changed[~letters].any()
    assert 0.12 < changed[letters].float().mean() < 0.28
    assert (first.heard[changed] > 0).all()
    assert (first.heard[changed] < NUMBER_OF_IDS).all()


def test_nobody_is_asked_for_things_that_nobody_wrote_down(book):
    batch = book.render(2, (256, 256), 0)
    leaves = torch.tensor([[[0, 0, 0], [0, 0, 1]]] * 2)
    assert (batch.things == UNKNOWN).all()
    assert not thing_targets(batch.things, leaves)[1].any()


def test_large_canvases_show_more_pages_and_never_only_pages(pack):
    few, many = (PageBook(str(pack), "cpu", seed=3, share=share) for share in (0.2, 0.8))
    assert few.share_of((256, 512)) < few.share < few.share_of((512, 1024))
    assert many.share_of((1024, 1024)) < 1


def test_questions_come_in_other_letters_and_with_additions():
    ids = torch.tensor([[40, 73, 85, 1]] * 400)  # "Ght" and a space
    words = {decode(row) for row in reword(ids, ids[:, :2], 88, torch.Generator().manual_seed(0))}
    plain = decode(ids[0])
    assert {plain, plain.lower(), plain.upper()} <= words
    assert {plain + text for text in ADDITIONS} <= words
    tight = {decode(row) for row in reword(ids, ids[:, :2], 12, torch.Generator().manual_seed(0))}
    assert tight == {plain, plain.lower(), plain.upper()}, "no addition without room for the answer"


def test_the_reader_trains_on_pages_and_clips_beside_needle_world(pack, tmp_path):
    arguments = ["--scale", "0.004", "--width", "64", "--evaluate", "0", "--largest", "256", "--steps", "3"]
    more = ["--pages", str(pack), "--page-share", "0.9", "--clip-share", "0.4", "--heads-first", "1"]
    train_mini.main([*arguments, *more, "--folder", str(tmp_path), "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "mini" / "config.json").is_file()
    with pytest.raises(InputError, match="no pack of pages"):
        PageBook(str(tmp_path / "*.bin"), "cpu")
