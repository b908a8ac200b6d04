"""Pages of many words: the neighbours of a page that is compared pair by pair, from work that grows with the words."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from arr_coc import InputError
from arr_coc.knowing.words.answer import answer_shares
from arr_coc.pictures import words as sensed
from arr_coc.pictures.words import MOST_WORDS, as_words, make_words, neighbours_right


def table(rows: int, columns: int, jitter: float = 0.1) -> np.ndarray:
    """(N, 4) boxes of a table whose cells are as ragged as those of a scan."""
    lots = np.random.default_rng(0)
    row, column = np.divmod(np.arange(rows * columns), columns)
    x0 = (column + lots.uniform(0, 0.1, len(row))) / columns
    y0 = (row + lots.uniform(0, jitter, len(row))) / rows
    wide = lots.uniform(0.3, 0.8, len(row)) / columns
    return np.stack([x0, y0, x0 + wide, y0 + 0.6 / rows], axis=1)


@pytest.mark.parametrize(("rows", "columns"), [(80, 30), (30, 80)])
def test_a_large_page_has_the_neighbours_of_every_pair(
    rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes = table(rows, columns)
    following = [neighbours_right(boxes.astype(np.float32), gap) for gap in (0.9, np.inf)]
    monkeypatch.setattr(sensed, "_AT_ONCE", len(boxes))
    for found, gap in zip(following, (0.9, np.inf), strict=True):
        np.testing.assert_array_equal(found, neighbours_right(boxes.astype(np.float32), gap))


@pytest.mark.parametrize("kind", ["pile", "figures"])
def test_no_page_of_words_takes_a_gigabyte(kind: str) -> None:
    """All words on one another; 19 000 figures, which were compared with each other in arrays of 19 000²."""
    number = 6_000
    lots = np.random.default_rng(1)
    place = lots.uniform(0, 0.9, (number, 2))
    boxes = [[0.1 + 1e-6 * n, 0.1, 0.9, 0.9] for n in range(number)]
    if kind == "figures":
        boxes = np.concatenate([place, place + 0.01], axis=1).tolist()
    words = make_words([f"{n}" if kind == "figures" else f"word{n}" for n in range(number)], boxes)
    tracemalloc.start()
    try:
        found = answer_shares(words, "What is the highest number?")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.isfinite(found).all()
    assert most < 250e6  # before: 0.4 GB of this number, 4 GB of 19 000


def test_too_many_words_are_refused_before_one_is_read() -> None:
    class Entry(dict[str, object]):
        def get(self, *_: object) -> object:
            raise AssertionError("an entry was read")

    with pytest.raises(InputError, match="one page at a time"):
        as_words([Entry()] * (MOST_WORDS + 1), (100, 100))
