"""The scorer that reads: what it takes and gives, in torch and without it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from arr_coc.alphabet import IDS, QUESTION, question_row
from arr_coc.errors import InputError
from arr_coc.knowing.onnx_scorer import MOST_PIXELS, canvas_of, score_picture, session
from arr_coc.knowing.reading_scorer import ReadingScorer, ReadingScorerConfig

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
    pytest.importorskip("onnxscript")
    from arr_coc.lab.train.scorer_onnx import export_scorer

    folder = tmp_path_factory.mktemp("scorer")
    export_scorer(small_scorer(), folder)
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


@pytest.mark.parametrize("size", [(96, 160), (70, 45), (32, 32)])
def test_the_graph_says_what_torch_says(exported, size):
    pixels = picture(*size)
    with torch.no_grad():
        expected = (
            ReadingScorer.from_pretrained(exported)
            .float()
            .score(torch.from_numpy(pixels).permute(2, 0, 1)[None], torch.tensor([question_row("What is the total?")]))[
                0
            ]
        )
    found = score_picture(exported, pixels, "What is the total?")
    assert found.shape == (-(-size[0] // 32), -(-size[1] // 32))
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-3)


def test_a_scorer_of_the_same_shape_has_the_same_graph(exported, tmp_path, monkeypatch):
    """Taught further, it is not traced again; of another shape or elsewhere in its file, it is."""
    from arr_coc.lab.train import scorer_onnx

    torch.manual_seed(8)
    other = ReadingScorer(SMALL).eval()
    monkeypatch.setattr(scorer_onnx, "as_graph", lambda scorer: pytest.fail("traced again"))
    scorer_onnx.export_scorer(other, tmp_path / "other", exported)
    pixels, row = picture(), torch.tensor([question_row("total?")])
    expected = other.score(torch.from_numpy(pixels).permute(2, 0, 1)[None], row)[0]
    np.testing.assert_allclose(score_picture(tmp_path / "other", pixels, "total?"), expected.numpy(), atol=1e-3)
    assert np.abs(score_picture(exported, pixels, "total?") - expected.numpy()).max() > 0.01
    ReadingScorer(replace(SMALL, waves=2)).half().save_pretrained(tmp_path / "waves")
    ReadingScorer(replace(SMALL, heads=2)).half().save_pretrained(tmp_path / "heads")
    ReadingScorer(SMALL).save_pretrained(tmp_path / "single")
    for name in ("waves", "heads", "single"):
        assert scorer_onnx.laid_out(tmp_path / name) != scorer_onnx.laid_out(exported)


def test_the_graph_holds_no_second_copy_of_the_weights(exported):
    assert (exported / "model.onnx").stat().st_size < 0.5 * (exported / "model.safetensors").stat().st_size + 200_000


def test_the_graph_runs_without_torch(exported, tmp_path):
    code = (
        "import sys, numpy as np; from pathlib import Path; from arr_coc.knowing.onnx_scorer import score_picture; "
        f"score_picture(Path({str(exported)!r}), np.zeros((64, 64, 3), np.uint8), 'x'); print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_a_large_picture_is_read_reduced():
    canvas = canvas_of(picture(3000, 4000))
    assert canvas.shape[2] * canvas.shape[3] < 1.1 * MOST_PIXELS
    assert canvas.shape[2] % 32 == canvas.shape[3] % 32 == 0


def test_a_folder_without_a_graph_and_a_broken_one_say_so(tmp_path):
    with pytest.raises(InputError, match="holds no model"):
        session(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(InputError, match="cannot be read"):
        session(tmp_path)
