"""Places as rows of a table agree with the library's positions, which are numbers. No vLLM is needed here."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.app.vllm.places import PromptPicture, halved_table, prompt_places, rotations, tower_places
from arr_coc.attending.allocate import allocate
from arr_coc.attending.leaves import leaves_of
from arr_coc.core.errors import InputError
from arr_coc.realizing.patches import LeafBatch
from arr_coc.realizing.qwen3_vl.encode import leaf_positions

ROWS, BASE, SIZE = 512, 10000.0, 64


def pictures(seed: int, grids) -> LeafBatch:
    generator = torch.Generator().manual_seed(seed)
    maps = [torch.rand(rows, cols, generator=generator).numpy() for rows, cols in grids]
    chosen = [allocate(one, max(1, one.size // 3), image_size=tuple(32 * n for n in one.shape)) for one in maps]
    return LeafBatch.pack([leaves_of(one) for one in chosen], grids)


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=4),
    st.lists(st.integers(1, 9), min_size=5, max_size=5),
)
def test_rows_of_the_table_are_the_positions_of_the_library(seed, grids, texts):
    batch = pictures(seed, grids)
    ids, shown = [0] * texts[0], []
    for number, part in enumerate(batch.leaves.split(batch.counts)):
        shown.append(PromptPicture(len(ids), part, batch.grid[number]))
        ids += [1] * len(part) + [0] * texts[number + 1]
    expected, after = leaf_positions(torch.tensor([ids]), batch, 1)
    table = halved_table(rotations(torch.arange(ROWS), BASE, SIZE), BASE, ROWS)
    places, beyond = prompt_places(len(ids), shown[::-1], ROWS, spare=ROWS)
    for axis in range(3):
        torch.testing.assert_close(table[places[axis]], rotations(expected[1 + axis, 0], BASE, SIZE))
    assert len(ids) + beyond == int(after)


def test_nobody_leaves_the_table_however_many_pictures_there_are():
    leaves, grid, longest, room = torch.tensor([[0, 0, 6]]), torch.tensor([64, 64]), 100, 28
    shown = [PromptPicture(1 + 2 * number, leaves, grid) for number in range(40)]
    places, beyond = prompt_places(longest, shown, longest + room, room)
    assert int((places % (longest + room)).max()) + 1 <= longest + room
    assert beyond <= room
    assert (places[0].diff() >= 0).all()


def test_the_table_keeps_its_rows_and_may_grow():
    table = rotations(torch.arange(20), BASE, SIZE).bfloat16()
    longer = halved_table(table, BASE, 30)
    assert torch.equal(longer[:20], table)
    torch.testing.assert_close(longer[20:30], rotations(torch.arange(20, 30), BASE, SIZE).bfloat16())
    torch.testing.assert_close(longer[30:], rotations(torch.arange(30) + 0.5, BASE, SIZE).bfloat16())


@pytest.mark.parametrize("wrong", [lambda t: 1.1 * t, lambda t: rotations(torch.arange(20) / 4, BASE, SIZE)])
def test_a_scaled_table_is_refused(wrong):
    with pytest.raises(InputError, match="scales its rotary positions"):
        halved_table(wrong(rotations(torch.arange(20), BASE, SIZE)), BASE, 20)


def test_whole_leaves_stand_where_an_untouched_tower_has_them():
    rows, cols, merge, side = 3, 4, 2, 48
    leaves = torch.cartesian_prod(torch.arange(rows), torch.arange(cols))
    leaves = torch.cat([leaves, torch.zeros_like(leaves[:, :1])], 1)
    indices, weights, cosines, sines = tower_places(leaves, torch.tensor([[rows, cols]] * 12), merge, side, BASE, 32)
    block = torch.arange(rows * cols * merge**2).view(rows * merge, cols * merge)
    order = block.view(rows, merge, cols, merge).permute(0, 2, 1, 3).flatten()
    y, x = order // (cols * merge), order % (cols * merge)
    wanted = torch.cat([rotations(y, BASE, 32)[:, :16], rotations(x, BASE, 32)[:, :16]], 1)
    torch.testing.assert_close(cosines, wanted)
    assert sines.shape == (48, 32)
    torch.testing.assert_close(weights.sum(1), torch.ones(48))
    assert int(indices[0, 0]) == 0
    assert int(indices[-1, 0]) == side**2 - 1
