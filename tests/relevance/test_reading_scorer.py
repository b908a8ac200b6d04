"""The scorer that reads: what it takes and gives, in torch and without it."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from torch.nn import functional as F

from arr_coc.core.alphabet import question_row
from arr_coc.core.errors import InputError
from arr_coc.core.folders import part_folder
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.scorer.onnx_scorer import (
    TALL,
    WANTED,
    OnnxScorer,
    canvas_of,
    reading_size,
    reduced_batch,
    reduced_pixels,
)
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer, ReadingScorerConfig, for_gpu
from arr_coc.knowing.scorer.source import ScorerRelevance, scorer_maps
from arr_coc.texture.type_height import READ_PIXELS, letters_of
from arr_coc_lab.train.onnx_graphs import write_scorer_graphs

SMALL = ReadingScorerConfig(
    narrow=16, middle=32, wide=32, query_width=32, fine=1, before=1, after=1, coarse=1, heads=4, waves=3
)


def small_scorer() -> ReadingScorer:
    torch.manual_seed(3)
    scorer = ReadingScorer(SMALL)
    for parameter in scorer.parameters():  # nothing may stay at zero, or parts would be cut off
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    return scorer.eval()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scorer")
    small_scorer().half().save_pretrained(folder)
    write_scorer_graphs(folder)
    return folder


def picture(height=96, width=160, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("query", ["What is the total?", "", "x", "x" * 500])
@pytest.mark.parametrize("size", [(96, 160), (70, 45), (32, 32)])
def test_without_torch_it_says_what_torch_says(exported, tmp_path, size, query):
    """Single precision to the last digits; whole numbers nearly so."""
    pixels = picture(*size)
    canvas = canvas_of(reduced_pixels(pixels))
    stock = ReadingScorer.from_pretrained(exported).float()
    with torch.no_grad():
        expected = stock((torch.from_numpy(canvas) + 1) / 2, torch.tensor([question_row(query)]))[0].numpy()
    shutil.copytree(exported, tmp_path / "exact")
    write_scorer_graphs(tmp_path / "exact", exact=True)
    scorer = OnnxScorer(tmp_path / "exact")
    exact = scorer.find(scorer.see(pixels), query)
    assert exact.shape == (-(-size[0] // 32), -(-size[1] // 32))
    np.testing.assert_allclose(exact, expected, atol=1e-4, rtol=1e-4)
    quick = ScorerRelevance(exported)(pixels, query).map
    np.testing.assert_allclose(quick, 1 / (1 + np.exp(-expected)), atol=0.05)
    assert np.array_equal(quick, ScorerRelevance(exported)(pixels, query).map)


def test_the_graph_runs_without_torch(exported, tmp_path):
    code = (
        "import sys, numpy as np; from pathlib import Path; "
        "from arr_coc.knowing.scorer.source import ScorerRelevance; "
        f"ScorerRelevance(Path({str(exported)!r}))(np.zeros((64, 64, 3), np.uint8), 'x'); "
        "print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_a_picture_that_was_scaled_and_scaled_back_has_the_same_map(exported):
    pixels = picture()
    scaled = (pixels.astype(np.float32) / 255 - 0.5) / 0.25 * 0.25 + 0.5 + 1e-7
    first, second = (ScorerRelevance(exported)(one, "total?").map for one in (pixels, scaled))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("data", [None, b"not weights"])
def test_a_folder_without_weights_and_with_broken_ones_say_so(exported, tmp_path, data):
    shutil.copy(exported / "config.json", tmp_path)
    if data is not None:
        (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(InputError, match="cannot be read"):
        OnnxScorer(tmp_path)


def test_a_picture_is_read_once_and_a_question_asked_once(exported, monkeypatch):
    pixels = np.random.default_rng(5).integers(0, 256, (70, 100, 3), np.uint8)
    seen, found, (see, find) = [], [], (OnnxScorer.see, OnnxScorer.find)
    monkeypatch.setattr(OnnxScorer, "see", lambda self, given: seen.append(1) or see(self, given))
    monkeypatch.setattr(OnnxScorer, "find", lambda self, *given: found.append(1) or find(self, *given))
    scorer, queries = ScorerRelevance(exported), ("Who?", "What is the total?", "Who?")
    maps = [scorer(pixels, query).map for query in queries]
    assert (len(seen), len(found)) == (1, 2)
    assert (maps[0] == maps[2]).all()
    assert (maps[0] != maps[1]).any()
    assert (scorer(pixels[::-1], "Who?").map != maps[0]).any()
    assert len(seen) == 2


# ---- the size at which a picture is read -----------------------------------------------------------------------------


def sheet(em: int, size: tuple[int, int] = (700, 900)) -> np.ndarray:
    page = Image.new("RGB", size[::-1], (250, 250, 246))
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(em)
    for number, line in enumerate(("Invoice 4821 of March", "Total amount due", "Reference HX 20391")):
        pen.text((12, 10 + number * round(1.6 * em)), line, (20, 20, 20), font)
    return np.asarray(page)


def test_large_pictures_and_tall_letters_are_reduced_and_it_is_told(exported):
    pixels = sheet(18)
    assert reduced_pixels(pixels) is pixels
    assert not ScorerRelevance(exported)(pixels, "total?").notes
    pixels = sheet(64)
    height, width = reading_size(pixels)
    assert letters_of(pixels).median() * height / pixels.shape[0] == pytest.approx(WANTED, rel=0.05)
    assert f"{width}×{height} pixels" in ScorerRelevance(exported)(pixels, "total?").notes[0]
    height, width = reading_size(np.zeros((2000, 1524, 3), np.uint8))
    assert height * width <= 1.01 * READ_PIXELS


PAGE_SIZES = [(14, (700, 900)), (30, (700, 900)), (64, (710, 930)), (90, (2100, 1700)), (40, (700, 3600))]


@pytest.mark.parametrize(("em", "size"), PAGE_SIZES)
def test_a_device_makes_the_picture_that_a_processor_makes(em: int, size: tuple[int, int]):
    pages = [sheet(em, size), sheet(em + 9, size)]
    tensors = torch.from_numpy(np.stack(pages)).permute(0, 3, 1, 2)
    wanted = [reading_size(page) for page in pages]
    for scene, read in zip([Scene(one / 255) for one in tensors], wanted, strict=True):
        assert reading_size(scene.pixels, scene.letters) == read
    tall = [letters_of(page).median() for page in pages]
    assert [one != size for one in wanted] == [letters > TALL or max(size) > 2000 for letters in tall]
    found = (reduced_batch(tensors[:1] / 255, wanted[0])[0].permute(1, 2, 0).numpy() * 255).round().astype(int)
    assert np.abs(found - reduced_pixels(pages[0]).astype(int)).max() <= 1


# ---- on a GPU --------------------------------------------------------------------------------------------------------


def test_the_scorer_of_a_gpu_finds_the_same():
    scorer = small_scorer()
    pictures, ids = torch.rand(2, 3, 64, 96), torch.randint(1, 90, (2, 20))
    with torch.no_grad():
        plain, fast = scorer.score(pictures, ids), for_gpu(scorer).score(pictures, ids)
        rounded = small_scorer().bfloat16().float().score(pictures, ids)
        exact = for_gpu(scorer).float().score(pictures, F.pad(ids, (0, 30)))
    assert plain.std() > 1e-4
    assert torch.allclose(rounded, exact, atol=1e-5), "wide kernels are square ones side by side"
    assert torch.allclose(plain, fast, atol=0.03), "half precision"


def test_pictures_on_a_device_are_scored_together_as_alone():
    scorer, rows = ScorerRelevance(part_folder("scorer")), torch.rand(2, 3, 64, 96)
    queries = ["What is the total?", "who?"]
    together = scorer.of_scenes([Scene(row) for row in rows], queries)
    for one, tensor, query in zip(together, rows, queries, strict=True):
        assert np.allclose(one.map, scorer.of_scenes([Scene(tensor)], [query])[0].map, atol=1e-5)
    scenes = [Scene(tensor, device="cuda") for tensor in rows]
    for one, other in zip(scorer_maps(scenes, queries).relevance, together, strict=True):
        assert one.query == other.query
        assert (one.map == other.map).all()


PAGES = """
import os
import numpy as np
from arr_coc import look

def kept(height, width):
    page = np.full((height, width, 3), 255, np.uint8)
    page[40::40, 40:-40] = 0
    look(page, "What is the total?", budget=64, relevance="scorer")
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

first = kept(256, 256)
print(max(kept(1754, 1240), kept(1240, 1754)) - first)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is asked to give back what is free")
def test_a_page_leaves_little_behind() -> None:
    """The graphs kept what each had needed, 577 MB here. What was read of the last pages is kept, up to 64 MB."""
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 200
