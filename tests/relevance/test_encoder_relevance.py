"""The user's own image-text encoder as a source of relevance: its sign, its windows, and every door."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_encoders import save_encoder

from arr_coc import InputError, look
from arr_coc.looking import examine
from arr_coc.options import Options
from arr_coc.video.stream import VideoStream
from arr_coc_lab.classic.encoder import NOTHING, likeness, load_encoder, phrase

QUERY = "Where is the red car?"


def patchwork() -> np.ndarray:
    """(256, 256, 3): every place another pattern."""
    return np.random.default_rng(3).integers(0, 256, (256, 256, 3), dtype=np.uint8)


@pytest.fixture(scope="module", params=["clip", "siglip", "siglip2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(request.param, tmp_path_factory.mktemp(request.param))


def test_any_encoder_serves_look_and_clips(folder):
    found = examine(patchwork(), QUERY, Options(budget=0.25, relevance=f"encoder:{folder}"))
    assert found.relevance.map.min() == 0
    assert found.relevance.map.max() == 1
    assert found.notes[0].startswith(f"relevance 'encoder:{folder}'")
    assert "red car" in found.notes[1]
    other = examine(patchwork(), "Where is the blue dog?", Options(budget=0.25, relevance=f"encoder:{folder}"))
    assert np.abs(other.relevance.map - found.relevance.map).max() > 1e-3, "the question matters"
    seen = VideoStream(QUERY, options=Options(relevance=f"encoder:{folder}")).see(patchwork())
    assert seen.relevance.notes[0].startswith("relevance 'encoder")


def test_what_is_like_the_text_comes_first(folder, monkeypatch):
    """The sign: a text whose vector is that of the bottom right quarter, against texts that are like the top left."""
    encoder = load_encoder(str(folder))
    picture = np.full((128, 128, 3), 30, np.uint8)
    picture[64:, 64:] = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    tensor = torch.from_numpy(picture).permute(2, 0, 1) / 255
    dense = encoder.image_features(tensor[None])[0]
    there, elsewhere = dense[-1, -1], dense[0, 0]

    def texts(given):
        assert list(given) == [phrase(QUERY), *NOTHING]
        rows = torch.stack([there, *[elsewhere] * len(NOTHING)])[:, None]
        return rows, torch.ones(rows.shape[:2], dtype=torch.bool)

    monkeypatch.setattr(encoder, "text_features", texts)
    found = likeness(encoder, tensor, QUERY)
    half = found.shape[0] // 2
    assert found[half:, half:].mean() > found[:half, :half].mean() + 0.1


def test_what_is_no_encoder_is_one_line(tmp_path):
    with pytest.raises(InputError, match="needs FOLDER; write relevance='encoder:FOLDER'"):
        look(patchwork(), QUERY, relevance="encoder")
    with pytest.raises(InputError, match="cannot load an image-text encoder"):
        look(patchwork(), QUERY, relevance=f"encoder:{tmp_path}")
