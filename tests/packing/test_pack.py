"""Packing: never above the budget, exact for open models, no word cut, and the way back to the original's pixels."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import arr_coc
from arr_coc.attending.grip import Grip
from arr_coc.core.errors import InputError
from arr_coc.packing.pack import pack
from arr_coc.packing.packed import Packed
from arr_coc.packing.prices.tables import own_tables

QUESTION = "What does it say?"


def page(height: int = 640, width: int = 896) -> np.ndarray:
    """A picture whose every pixel tells where it is: red its column, green its row."""
    pixels = np.full((height, width, 3), 128, np.uint8)
    pixels[..., 0] = np.arange(width) * 255 // width
    pixels[..., 1] = (np.arange(height) * 255 // height)[:, None]
    return pixels


def spot(*places: tuple[int, int, int, int], shape: tuple[int, int] = (20, 28)) -> np.ndarray:
    """Relevance with ones in (row, col, height, width)."""
    found = np.full(shape, 0.01, np.float32)
    for row, col, height, width in places:
        found[row : row + height, col : col + width] = 1
    return found


def packed_of(pixels: np.ndarray, relevance: np.ndarray, budget: Any, **how: Any) -> Packed:
    own = {name: how.pop(name) for name in ("scale", "grip") if name in how}
    options = arr_coc.Options(relevance=relevance, **own)
    return pack(pixels, QUESTION, budget, **{"model": "mini", **how}, options=options)


def cut_words(words: np.ndarray, box: tuple[float, float, float, float]) -> float:
    """How many words a box cuts, each by how much of it is on the smaller side."""
    inside = visible_share(words, box)
    return float(np.minimum(inside, 1 - inside).sum())


def visible_share(words: np.ndarray, box: tuple[float, float, float, float]) -> np.ndarray:
    """(N,) share of every word that lies in the box."""
    y, x, height, width = box
    across = np.clip(np.minimum(words[:, 2], x + width) - np.maximum(words[:, 0], x), 0, None)
    down = np.clip(np.minimum(words[:, 3], y + height) - np.maximum(words[:, 1], y), 0, None)
    area = np.maximum((words[:, 2] - words[:, 0]) * (words[:, 3] - words[:, 1]), 1e-6)
    return across * down / area


def test_crops_hold_what_is_relevant() -> None:
    packed = packed_of(page(), spot((3, 5, 2, 3)), 70)
    assert packed.layout == "crops"
    assert packed.tokens <= 70 < packed.full == 560
    top, left, height, width = packed.pictures[1].source
    assert top <= 3 * 32 + 16
    assert left <= 5 * 32 + 16
    assert top + height >= 5 * 32 - 16
    assert left + width >= 8 * 32 - 16
    assert packed.pictures[1].scale == pytest.approx(1, abs=0.12)
    assert "Picture 1 is the whole picture, reduced. Picture 2 shows area A" in packed.text


def test_two_far_places_are_two_crops() -> None:
    packed = packed_of(page(), spot((1, 1, 2, 3), (16, 24, 2, 3)), 60)
    letters = [one.letter for one in packed.pictures]
    assert letters == ["", "A", "B"]


@pytest.mark.parametrize("layout", ["crops", "overview", "auto"])
@pytest.mark.parametrize("table", own_tables(), ids=lambda one: one.name)
def test_never_above_the_budget(table: Any, layout: str) -> None:
    pixels, relevance = page(800, 1100), spot((3, 5, 2, 3), (20, 20, 3, 2), shape=(25, 35))
    # What auto does is what one of the others does.
    budgets = {table.least, 300} if layout == "auto" else {table.least, 3 * table.least, 300, 700}
    for budget in sorted(budgets):
        if table.fit((800, 1100), budget) is None:  # a strip may be cheaper than any picture of this shape
            assert budget < table.tokens((800, 1100))
            continue
        packed = packed_of(pixels, relevance, budget, model=table, layout=layout)
        assert packed.tokens <= budget
        assert packed.tokens == sum(table.tokens(one.size) for one in packed.pictures)
        assert 1 <= len(packed.pictures) <= 4


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(64, 700),
    st.integers(64, 700),
    st.integers(8, 200),
    st.integers(0, 10_000),
    st.sampled_from(["auto", "crops"]),
)
def test_any_size_and_budget(height: int, width: int, budget: int, seed: int, layout: str) -> None:
    relevance = np.random.default_rng(seed).random((-(-height // 32), -(-width // 32)), np.float32) ** 8
    packed = packed_of(np.zeros((height, width, 3), np.uint8), relevance, budget, layout=layout)
    assert packed.tokens <= budget or packed.layout == "whole"
    for one in packed.pictures:
        y, x, tall, wide = one.source
        assert min(y, x) >= 0
        assert min(tall, wide) >= 1
        assert y + tall <= height
        assert x + wide <= width
        assert one.drawn[0] <= one.size[0]
        assert one.drawn[1] <= one.size[1]


def test_exact_as_the_stock_processor_counts() -> None:
    images = pytest.importorskip("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    limits = {"shortest_edge": 65536, "longest_edge": 16777216}
    processor = images.Qwen2VLImageProcessorPil(size=limits, patch_size=16, merge_size=2)
    packed = packed_of(page(1000, 1400), spot((3, 5, 2, 3), shape=(32, 44)), 333, model="Qwen/Qwen3-VL-8B-Instruct")
    made = processor(images=[one.pixels for one in packed.pictures], return_tensors="np")
    assert int(made["image_grid_thw"].prod(1).sum()) // 4 == packed.tokens


@pytest.mark.parametrize("layout", ["crops", "overview"])
def test_points_find_their_way_back(layout: str) -> None:
    pixels = page()
    packed = packed_of(pixels, spot((3, 5, 3, 4), (15, 20, 2, 4)), 90, layout=layout)
    for number, one in enumerate(packed.pictures, 1):
        x, y = one.drawn[1] * 0.5, one.drawn[0] * 0.6
        found = packed.to_original((x, y), number)
        shown = one.pixels[int(y), int(x)].astype(int)
        there = pixels[int(found.y), int(found.x)].astype(int)
        assert np.abs(shown - there).max() <= 12
        share = packed.to_original((1000 * x / one.size[1], 1000 * y / one.size[0]), number, of=1000)
        assert share.x == pytest.approx(found.x)
    assert packed.to_original((0, 0))[:2] == (0, 0)
    assert packed.to_original((1, 1), of=1)[:2] == (896, 640)
    with pytest.raises(InputError, match="picture must be at most"):
        packed.to_original((0, 0), 9)
    with pytest.raises(InputError, match="a point is"):
        packed.to_original((0, float("nan")))


def test_small_pictures_are_left_as_they_are() -> None:
    pixels = page(64, 96)
    packed = packed_of(pixels, spot((0, 0, 1, 1), shape=(2, 3)), 6)
    assert packed.layout == "whole"
    assert packed.text == ""
    assert (packed.pictures[0].pixels == pixels).all()


def test_words_are_not_cut() -> None:
    lines = np.array([[x, y, x + 70.0, y + 14.0] for y in range(10, 620, 30) for x in range(12, 800, 90)])
    given_words = [("word", tuple(box / (896, 640, 896, 640))) for box in lines]
    packed = packed_of(page(), spot((7, 9, 2, 3)), 80, words=given_words, layout="crops")
    for one in packed.pictures[1:]:
        assert cut_words(lines, tuple(map(float, one.source))) < 0.05
    assert packed.tokens <= 80


def test_pages_share_a_budget() -> None:
    pages = [page(), page(), page()]
    flat, hot = np.full((20, 28), 0.01, np.float32), spot((3, 5, 2, 3))
    maps = iter([flat, hot, flat, flat, hot, flat])

    def relevance(pixels: np.ndarray, question: str) -> np.ndarray:
        return next(maps)

    packed = pack(pages, QUESTION, 150, model="mini", options=arr_coc.Options(relevance=relevance))
    spent = [sum(one.tokens for one in packed.pictures if one.page == number) for number in range(3)]
    assert packed.tokens <= 150
    assert spent[1] > max(spent[0], spent[2])
    assert "page 2" in packed.text
    tight = pack(pages, QUESTION, 9, model="mini", options=arr_coc.Options(relevance=lambda pixels, question: flat))
    assert tight.tokens <= 9
    assert tight.left_out
    assert "Not shown: page" in tight.text


def test_saved_and_read_again(tmp_path: Path) -> None:
    packed = packed_of(page(), spot((3, 5, 2, 3)), 70)
    files = packed.save(tmp_path / "out")
    assert [path.name for path in files] == ["picture-1.png", "picture-2.png", "pack.json"]
    told = json.loads(files[-1].read_text())
    assert told["tokens"] == packed.tokens
    assert Image.open(files[0]).size == (told["pictures"][0]["width"], told["pictures"][0]["height"])
    assert repr(packed).startswith("Packed(crops: ")
    memory = io.BytesIO()
    Image.fromarray(page()).save(memory, "JPEG")
    own = arr_coc.Options(relevance=spot((3, 5, 2, 3)))
    for image, media in ((memory.getvalue(), "image/jpeg"), (page(), "image/png")):
        packed = pack(image, QUESTION, 70, model="mini", options=own)
        data, told_media = packed.encoded()[0]
        assert told_media == media
        assert Image.open(io.BytesIO(data)).size == packed.pictures[0].size[::-1]


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"layout": "magic"}, "layout 'magic' is unknown"),
        ({"model": "bert"}, "no table says how"),
        ({"scale": 9}, "scale=9"),
        ({"grip": "nobody"}, "no grip of 'nobody' was measured"),
        ({"budget": 0}, "budget"),
        ({"budget": 10, "model": "gpt-4o"}, "pays for no picture of gpt-4o; the cheapest costs 255"),
    ],
)
def test_one_line_for_what_will_not_do(how: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        packed_of(page(), spot((3, 5, 2, 3)), how.pop("budget", 60), **how)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from arr_coc.app.cli import main

    path = tmp_path / "page.png"
    Image.fromarray(page(256, 320)).save(path)
    arguments = ["pack", str(path), QUESTION, "--for", "mini", "--set", "relevance=detail", "--budget", "20"]
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--out", str(tmp_path / "out"), "--json"])
    assert end.value.code == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tokens"] <= 20
    assert (tmp_path / "out" / told["pictures"][0]["file"]).exists()
    with pytest.raises(SystemExit) as end:
        main(["pack", str(path), "--for", "mini"])
    assert end.value.code == 2
    assert "give pictures and a question" in capsys.readouterr().err


def lettered(height: int, letters: int, size: tuple[int, int] = (640, 896)) -> np.ndarray:
    """A page of rows of letters so many pixels tall, which the sense of type finds."""
    from arr_coc.pictures.lettering import letter_mask

    pixels = np.full((*size, 3), 255, np.uint8)
    mask = letter_mask("HANDEL 1729 MINOR", height)
    for top in range(20, size[0] - mask.shape[0], 3 * mask.shape[0]):
        row = np.tile(mask, (1, letters))[:, : size[1] - 40]
        pixels[top : top + row.shape[0], 20 : 20 + row.shape[1]] = 255 - row[..., None]
    return pixels


# A model that reads few sizes of letters, so that there is one to choose.
NARROW = Grip((5.0, 8.0, 13.0, 19.0, 28.0, 48.0), (0.35, 0.65, 1.0, 0.94, 0.4, 0.03), 14.0, 11.0, 18.5, 2048, "mini")


def test_parts_are_drawn_as_the_model_reads_best() -> None:
    from arr_coc.texture.type_height import letters_of

    relevance = spot((3, 5, 2, 3))
    pages = {height: lettered(height, 9) for height in (8, 40)}
    scales = {}
    for height, pixels in pages.items():
        tall = letters_of(pixels, size=(640, 896)).median()
        packed = packed_of(pixels, relevance, 70, grip=NARROW)
        scales[height] = packed.pictures[1].scale
        assert NARROW.low * 0.8 <= tall * scales[height] <= NARROW.high * 1.25
        assert packed.tokens <= 70
        assert any("reads best" in note for note in packed.notes)
        fixed = packed_of(pixels, relevance, 70, scale=1.0)
        assert fixed.pictures[1].scale == pytest.approx(1, abs=0.12)
    assert scales[8] > 1.2
    assert scales[40] < 0.7
    # Where nothing is known of a model, letters that many read are left as they are.
    careful = packed_of(lettered(20, 9), relevance, 400, model="gpt-4.1-mini", layout="crops")
    assert careful.pictures[1].scale == pytest.approx(1, abs=0.12)
    large = Grip((8, 16, 40, 80), (0.1, 0.2, 1.0, 0.9), 50, 30, 80, model="x")
    given_one = packed_of(pages[8], relevance, 70, grip=large)
    assert given_one.pictures[1].scale > scales[8]


def test_large_type_needs_only_the_overview() -> None:
    pixels, relevance = lettered(100, 9, (1280, 1792)), spot((3, 5, 2, 3), shape=(40, 56))
    assert packed_of(pixels, relevance, 200, grip=NARROW).layout == "overview"
    assert packed_of(pixels, relevance, 200, scale=1.0).layout == "crops"
