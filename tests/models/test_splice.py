"""Shortening a prompt, against the obvious loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc import InputError
from arr_coc.realizing.positions import placeholder_owner
from arr_coc.realizing.query import pack, take


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_pack_and_take_do_what_a_loop_would(data: st.DataObject) -> None:
    rows, length = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 9))
    keep = torch.tensor(
        data.draw(st.lists(st.lists(st.booleans(), min_size=length, max_size=length), min_size=rows, max_size=rows))
    )
    if not keep.any():
        return
    side = data.draw(st.sampled_from(["left", "right"]))
    values = torch.arange(rows * length).view(rows, length) + 1
    short = take(values, pack(keep, side), fill=-9)
    kept = [row[mask].tolist() for row, mask in zip(values, keep, strict=True)]
    longest = max(map(len, kept))
    padded = [
        [-9] * (longest - len(row)) + row if side == "left" else row + [-9] * (longest - len(row)) for row in kept
    ]
    assert short.tolist() == padded


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_placeholder_knows_its_picture_and_rank(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    flat: list[tuple[int, int]] = []
    for number, count in enumerate(counts):
        flat += [(-1, -1)] * data.draw(st.integers(0, 3)) + [(number, rank) for rank in range(count)]
    flat += [(-1, -1)] * (-len(flat) % 2)
    expected = torch.tensor(flat).view(2, -1, 2)
    owner, rank = placeholder_owner(expected[..., 0] >= 0, torch.tensor(counts))
    assert torch.equal(owner, expected[..., 0])
    assert torch.equal(rank, expected[..., 1])


def test_a_mismatch_of_prompt_and_pictures_is_named() -> None:
    with pytest.raises(InputError, match="3 picture placeholders but its 2 pictures need 5"):
        placeholder_owner(torch.tensor([[True, True, True]]), torch.tensor([2, 3]))
