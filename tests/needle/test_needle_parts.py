"""The parts under the renderer: chance, strings, clips, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from arr_coc.core.alphabet import CHARACTERS, text_row
from arr_coc_lab.worlds import needle
from arr_coc_lab.worlds.needle.batch import decode
from arr_coc_lab.worlds.needle.content import digits, join, money, string_table


@given(st.text(alphabet=CHARACTERS, max_size=20))
def test_text_round_trips(text: str) -> None:
    assert decode(torch.tensor(text_row(text, len(text)), dtype=torch.long)) == text


@given(st.lists(st.text(alphabet=CHARACTERS, min_size=0, max_size=6), min_size=1, max_size=4))
@settings(max_examples=50)
def test_join_closes_gaps(pieces: list[str]) -> None:
    tables = [string_table((piece,)) for piece in pieces]
    joined = join(tables, 30)
    assert decode(joined[0]) == "".join(pieces)
    length = len("".join(pieces))
    assert (joined[0, :length] > 0).all()
    assert (joined[0, length:] == 0).all()


@given(st.integers(0, 999_999))
def test_numbers_and_amounts(value: int) -> None:
    number = torch.tensor([value])
    assert decode(digits(number, 6)[0]) == str(value)
    assert decode(digits(number, 6, leading_zeros=True)[0]) == f"{value:06d}"
    assert decode(money(number)[0]) == f"${value // 100}.{value % 100:02d}"


@pytest.mark.parametrize("family", tuple(needle.FAMILIES))
def test_clips_move_and_keep_their_question(family: str) -> None:
    clip = needle.render_clip(family, range(3), frames=6, size=(256, 256), seed=2, cuts=1)
    assert clip.pictures.shape == (3, 6, 3, 256, 256)
    assert (clip.cuts.sum(1) == 1).all()
    assert not clip.cuts[:, 0].any()
    for row in range(3):
        frames = slice(row * 6, row * 6 + 6)
        assert len(set(clip.frames.questions[frames])) == 1
        assert len(set(clip.frames.answers[frames])) == 1
        steps = (clip.pictures[row, 1:].int() - clip.pictures[row, :-1].int()).abs().float().mean((1, 2, 3))
        cut = int(clip.cuts[row].nonzero()[0]) - 1
        # A page that pans changes as many pixels as a cut does; among scattered things the cut stands out.
        assert steps[cut] > 1
        assert steps.argmax() == cut or family in ("forms", "receipts", "charts")
        assert clip.questions[row] == clip.frames.questions[row * 6]


def test_a_dataset_on_disk(tmp_path: Path) -> None:
    written = needle.write_dataset("forms", range(3, 8), 7, tmp_path / "set", size=(256, 320))
    lines = [json.loads(line) for line in (tmp_path / "set" / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == written
    assert len(lines) == 5
    batch = needle.render("forms", 5, (256, 320), seed=7, start=3)
    for row, record in enumerate(lines):
        image = Image.open(tmp_path / "set" / record["image"])
        assert image.size == (record["w"], record["h"]) == (320, 256)
        assert image.tobytes() == batch.pictures[row].permute(1, 2, 0).contiguous().numpy().tobytes()
        assert record["query"] == batch.questions[row]
        assert record["answer"] == batch.answers[row]
        (x0, y0, x1, y1) = record["boxes"][0]
        assert 0 <= x0 < x1 <= 1
        assert 0 <= y0 < y1 <= 1
        assert {"id", "source", "box_kind", "any_of", "ctx_boxes"} <= set(record)
    assert Image.open(tmp_path / "set" / "contact_sheet.png").width > 900
