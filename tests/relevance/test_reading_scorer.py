"""The scorer that reads: what it takes and gives, in torch and without it."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from arr_coc.core.alphabet import IDS, QUESTION, question_row
from arr_coc.core.errors import InputError
from arr_coc.core.kept import ByteStore, PictureStore
from arr_coc.knowing.scorer import reduced
from arr_coc.knowing.scorer.onnx_scorer import OnnxScorer, canvas_of, question_of, score_picture
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer, ReadingScorerConfig
from arr_coc.knowing.scorer.reduced import MOST_PIXELS
from arr_coc.knowing.scorer.source import ScorerRelevance
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


def test_questions_are_read_regardless_of_case_and_accents():
    assert question_row("Crème BRÛLÉE?") == question_row("creme brulee?")
    assert len(question_row("x" * 500)) == QUESTION
    assert question_row("日")[0] == IDS["?"]


def test_two_questions_give_two_maps_and_two_places_two_scores():
    scorer = small_scorer()
    pictures = torch.from_numpy(picture()).permute(2, 0, 1)[None]
    maps = [scorer.score(pictures, torch.tensor([question_row(query)])) for query in ("total?", "date?")]
    assert maps[0].shape == (1, 3, 5)
    assert (maps[0] - maps[1]).abs().max() > 1e-6
    assert maps[0].std() > 1e-6


def test_capitals_are_read_as_small_letters():
    """Needle World's identifiers come as they are written, not through `question_row`."""
    scorer, pictures = small_scorer(), torch.rand(1, 3, 64, 64)
    capital, small = (torch.tensor([[IDS[letter] for letter in text]]) for text in ("TOTAL", "total"))
    assert torch.equal(scorer(pictures, capital), scorer(pictures, small))


def test_padding_of_the_question_changes_nothing():
    scorer, pictures = small_scorer(), torch.rand(1, 3, 64, 64)
    row = question_row("total?")
    long, short = torch.tensor([row]), torch.tensor([row[:40]])
    torch.testing.assert_close(scorer(pictures, long), scorer(pictures, short), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("query", ["What is the total?", "", "x", "x" * 500])
@pytest.mark.parametrize("size", [(96, 160), (70, 45), (32, 32)])
def test_without_torch_it_says_what_torch_says(exported, tmp_path, size, query):
    """Single precision to the last digits; whole numbers nearly so."""
    pixels = picture(*size)
    canvas = canvas_of(pixels)
    stock = ReadingScorer.from_pretrained(exported).float()
    with torch.no_grad():
        expected = stock((torch.from_numpy(canvas) + 1) / 2, torch.tensor([question_row(query)]))[0].numpy()
    shutil.copytree(exported, tmp_path / "exact")
    write_scorer_graphs(tmp_path / "exact", exact=True)
    exact = OnnxScorer(tmp_path / "exact")(canvas, question_of(query))
    assert exact.shape == (-(-size[0] // 32), -(-size[1] // 32))
    np.testing.assert_allclose(exact, expected, atol=1e-4, rtol=1e-4)
    quick = score_picture(exported, pixels, query)
    np.testing.assert_allclose(quick, 1 / (1 + np.exp(-expected)), atol=0.05)
    assert np.array_equal(quick, score_picture(exported, pixels, query))


def test_the_graph_runs_without_torch(exported, tmp_path):
    code = (
        "import sys, numpy as np; from pathlib import Path; "
        "from arr_coc.knowing.scorer.onnx_scorer import score_picture; "
        f"score_picture(Path({str(exported)!r}), np.zeros((64, 64, 3), np.uint8), 'x'); print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_a_picture_that_was_scaled_and_scaled_back_has_the_same_map(exported):
    pixels = picture()
    scaled = (pixels.astype(np.float32) / 255 - 0.5) / 0.25 * 0.25 + 0.5 + 1e-7
    assert np.array_equal(score_picture(exported, pixels, "total?"), score_picture(exported, scaled, "total?"))


def test_a_large_picture_is_read_reduced():
    canvas = canvas_of(picture(3000, 4000))
    assert canvas.shape[2] * canvas.shape[3] < 1.1 * MOST_PIXELS
    assert canvas.shape[2] % 32 == canvas.shape[3] % 32 == 0


@pytest.mark.parametrize("data", [None, b"not weights"])
def test_a_folder_without_weights_and_with_broken_ones_say_so(exported, tmp_path, data):
    shutil.copy(exported / "config.json", tmp_path)
    if data is not None:
        (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(InputError, match="cannot be read"):
        score_picture(tmp_path, picture(), "x")


def test_what_is_read_of_a_picture_is_read_once(exported, monkeypatch):
    """On a processor without torch and with it; the maps are those of asking anew."""
    pixels = np.random.default_rng(5).integers(0, 256, (70, 100, 3), np.uint8)
    scorer, seen = ScorerRelevance(exported), []
    for kind in (OnnxScorer, ReadingScorer):
        see = kind.see
        monkeypatch.setattr(kind, "see", lambda self, given, see=see: seen.append(1) or see(self, given))
    sensed, low = [], reduced.is_low
    monkeypatch.setattr(reduced, "is_low", lambda *given: sensed.append(1) or low(*given))
    anew = [scorer.of_pixels(pixels, query).map for query in ("Who?", "What is the total?")]
    tensor = torch.from_numpy(pixels).permute(2, 0, 1) / 255
    by_torch = [scorer.of_batch(tensor[None], [query])[0].map for query in ("Who?", "What is the total?")]
    assert len(seen) == 4
    kept = PictureStore(ByteStore(1 << 24), "picture")
    for query, one, other in zip(("Who?", "What is the total?"), anew, by_torch, strict=True):
        assert (scorer.of_pixels(pixels, query, kept=kept).map == one).all()
        assert np.allclose(scorer.of_batch(tensor[None], [query], kept)[0].map, other, atol=1e-5)
    assert (len(seen), len(sensed)) == (6, 6)
    assert (anew[0] != anew[1]).any()
