"""Packs come back as they went in, and damaged ones say so."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from arr_coc.core.errors import InputError
from arr_coc_lab.worlds.pages.pack import DrawnPage, DrawnQuestion, read_pack, write_pack


def page(seed: int, words: list[str], questions: int = 2, name: str = "forms-train-0-000000") -> DrawnPage:
    """A page with boxes anywhere at all: the pack must not rely on neat ones."""
    source = np.random.default_rng(seed)

    def boxes(n: int) -> np.ndarray:
        low = source.integers(0, 900, (n, 2))
        return np.concatenate([low, low + source.integers(0, 120, (n, 2))], 1).astype(np.uint16)

    held = io.BytesIO()
    Image.fromarray(source.integers(0, 255, (32, 64, 3), dtype=np.uint8)).save(held, "WEBP", lossless=True)
    asked = [DrawnQuestion("field", f"What? {i} €", "a b", boxes(1 + i), boxes(i)) for i in range(questions)]
    letters = boxes(sum(map(len, words)))
    return DrawnPage(name, "forms", "boxed", "train", 64, 32, held.getvalue(), words, boxes(len(words)), letters, asked)


def same(left: DrawnPage, right: DrawnPage) -> None:
    assert left[:8] == right[:8]
    np.testing.assert_array_equal(left.word_boxes, right.word_boxes)
    np.testing.assert_array_equal(left.char_boxes, right.char_boxes)
    for a, b in zip(left.questions, right.questions, strict=True):
        assert a[:3] == b[:3]
        np.testing.assert_array_equal(a.boxes, b.boxes)
        np.testing.assert_array_equal(a.context, b.context)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.text("abcé€7", min_size=1, max_size=5), max_size=6), min_size=1, max_size=4),
    st.integers(0, 99),
)
def test_a_pack_comes_back_whole(tmp_path_factory, texts, seed):
    path = tmp_path_factory.mktemp("pack") / "a.bin"
    pages = [page(seed + i, words, questions=i) for i, words in enumerate(texts)]
    write_pack(path, pages)
    for left, right in zip(pages, read_pack(path), strict=True):
        same(left, right)


@pytest.mark.parametrize("data", [b"nothing", b"PK\x03\x04 no archive", b""])
def test_what_is_no_pack_is_named(tmp_path, data):
    (tmp_path / "a.bin").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.bin"):
        read_pack(tmp_path / "a.bin")
    with pytest.raises(InputError, match="cannot read"):
        read_pack(tmp_path / "b.bin")
