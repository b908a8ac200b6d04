"""The committed typefaces: every glyph is there and legible, lines have room, and the held-out ones stay held out."""

from __future__ import annotations

import zlib
from functools import cache

import pytest
import torch

from arr_coc_lab.worlds import needle
from arr_coc_lab.worlds.needle.atlas import ASSETS, GlyphAtlas, glyphs
from arr_coc_lab.worlds.needle.draws import Draws
from arr_coc_lab.worlds.needle.renderer import lay_out
from arr_coc_lab.worlds.needle.scene import Text

FACES = needle.typefaces()
HELD_OUT = ("Hanken Grotesk", "Caladea", "Manrope")
# crc32 of all that is stored of a held-out typeface: its metrics, then its coverage.
HELD_OUT_CHECKSUMS = {"Hanken Grotesk": "1da81083", "Caladea": "0dbc1495", "Manrope": "a64a9e32"}


@cache
def atlas() -> GlyphAtlas:
    return glyphs("cpu")


def test_there_are_many_training_typefaces_and_three_held_out() -> None:
    assert needle.typefaces("test") == HELD_OUT
    assert len(needle.typefaces("train")) >= 70
    assert needle.typefaces("validation") == needle.typefaces("train")
    assert len(set(FACES)) == len(FACES) == len(needle.typefaces("train")) + 3


def test_no_style_of_a_held_out_family_is_trained_on() -> None:
    families = {name.split()[0] for name in HELD_OUT}
    assert not [name for name in needle.typefaces("train") if name.split()[0] in families]


@pytest.mark.parametrize("name", HELD_OUT)
def test_held_out_typefaces_are_what_they_always_were(name: str) -> None:
    face, value = FACES.index(name), 0
    for part in (atlas().advance, atlas().height, atlas().ascent, atlas().cap):
        value = zlib.crc32(part[face].numpy().tobytes(), value)
    first, last = int(atlas().first[face].min()), int(atlas().first[face, -1, -1])
    last += int(atlas().advance[face, -1, -1] * atlas().height[face, -1])
    assert f"{zlib.crc32(atlas().coverage[first:last].numpy().tobytes(), value):08x}" == HELD_OUT_CHECKSUMS[name]


def used_faces(text: Text) -> set[str]:
    return {FACES[face] for face in text.face[text.width() > 0].tolist()}


@pytest.mark.parametrize("family", ["cards", "forms", "charts", "signs", "zoo"])
def test_held_out_typefaces_only_in_test(family: str) -> None:
    for split in needle.SPLITS:
        draws = Draws.of(4, split, family, torch.arange(64))
        used = used_faces(lay_out(family, draws, (256, 256), split, needle.NORMAL).text)
        assert used == set(HELD_OUT) if split == "test" else len(used) >= 30 and not used & set(HELD_OUT)


def test_every_typeface_has_its_licence_beside_it() -> None:
    text = (ASSETS / "LICENSES.txt").read_text(encoding="utf-8")
    head = text.split("=" * 100)[0].splitlines()
    listed = {line.split(":")[0]: line.split(": ", 1)[1] for line in head if line and line[0] != " " and ": " in line}
    assert set(listed) == set(FACES)
    titles = [line for line in text.splitlines() if line in {entry.split(" (held")[0] for entry in listed.values()}]
    assert {entry.split(" (held")[0] for entry in listed.values()} == set(titles)
    assert {name for name, entry in listed.items() if entry.endswith("(held out for testing)")} == set(HELD_OUT)
    notices = [line for line in head if line.startswith("    ")]
    assert len(notices) == len(FACES)
