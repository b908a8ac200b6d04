"""`arr_coc.sense` and `arr-coc sense`: every channel of a layout has somebody who tells it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_encoders import save_encoder
from tiny_weights import ship_tiny

import arr_coc
from arr_coc.answering.eye import Eye
from arr_coc.app.cli import main
from arr_coc.core.errors import InputError
from arr_coc.texture.texture import FULL40
from arr_coc.texturing import MIPS, mips_of, save_texture, silent_channels

# What a single picture cannot have, whoever looks at it.
HISTORY = {"motion", "previous_relevance", "previous_saliency", "fixation_history", "previous_attention"}
ATTENTION = {"previous_attention", "current_attention"}


@pytest.fixture(scope="module")
def eye(tmp_path_factory) -> Eye:
    return Eye.from_pretrained(str(ship_tiny(tmp_path_factory.mktemp("weights"), heads=2) / "mini"))


@pytest.fixture(autouse=True)
def no_detector(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ARR_COC_PARTS", str(tmp_path / "parts"))


def frames(number: int = 3) -> list[np.ndarray]:
    """A dark square that moves to the right over noise, under a line."""
    ground = np.random.default_rng(0).integers(120, 200, (128, 192, 3), dtype=np.uint8)
    ground[100:104] = 20
    found = []
    for step in range(number):
        frame = ground.copy()
        frame[30:70, 40 + 4 * step : 80 + 4 * step] = (200, 30, 30)
        found.append(frame)
    return found


def test_on_a_clip_with_a_model_every_channel_lives(eye: Eye):
    texture = arr_coc.sense(frames(), "the red square", "full40", video=True, model=eye)
    assert texture.names == FULL40.names
    assert not silent_channels(texture), f"no producer: {', '.join(silent_channels(texture))}"
    for channel in FULL40.channels:
        assert texture[channel.name].min() >= channel.low - 1e-6, channel.name
        assert texture[channel.name].max() <= channel.high + 1e-6, channel.name
    length = np.linalg.norm(texture.semantic, axis=0)
    assert np.allclose(length, 1, atol=1e-4)
    # What was looked at lies where the square was, and motion where it is.
    assert texture["motion"][35:65, 44:80].mean() > 4 * texture["motion"][:20].mean()
    assert texture["previous_relevance"][30:70, 40:90].mean() > texture["previous_relevance"].mean()


def test_a_single_picture_says_which_channels_it_cannot_have(eye: Eye):
    alone = arr_coc.sense(frames()[0], layout="full40")
    assert set(silent_channels(alone)) == HISTORY | ATTENTION | {"gaze"} | {f"semantic_{n}" for n in range(16)}
    assert {note.split(":")[0] for note in alone.notes} >= {"no encoder", "no model", "a single picture has no history"}
    seen = arr_coc.sense(frames()[0], "the red square", "full40", model=eye)
    assert set(silent_channels(seen)) == HISTORY
    # The gaze is where the model looks, and eccentricity is measured from there.
    place = np.unravel_index(seen["gaze"].argmax(), seen["gaze"].shape)
    assert seen["eccentricity"][place] < 0.05


def test_a_projection_that_was_kept_makes_pictures_comparable(eye: Eye, tmp_path: Path):
    first, last = frames()[0], frames()[-1]
    kept = tmp_path / "pca.safetensors"
    one = arr_coc.sense(first, layout="full40", model=eye, projection=kept)
    again = arr_coc.sense(first, layout="full40", model=eye, projection=kept)
    other = arr_coc.sense(last, layout="full40", model=eye, projection=kept)
    assert np.allclose(one.semantic, again.semantic, atol=1e-5)
    assert any(str(kept) in note for note in other.notes)
    with pytest.raises(InputError, match="two frames"):
        arr_coc.sense(frames(1), layout="full40", video=True)


def test_a_users_encoder_tells_the_semantic_channels(tmp_path: Path):
    texture = arr_coc.sense(frames()[0], "a red dog", "full40", encoder=str(save_encoder("clip", tmp_path)))
    assert not {name for name in silent_channels(texture) if name.startswith("semantic")}
    assert any("the encoder" in note for note in texture.notes)


def test_a_texture_goes_through_a_file(tmp_path: Path):
    texture = arr_coc.sense(frames()[0], layout="mvp13", size=64)
    save_texture(tmp_path / "t.npz", texture)
    with np.load(tmp_path / "t.npz", allow_pickle=False) as file:
        assert tuple(file["names"]) == tuple(texture.names)
        assert np.array_equal(file["data"][texture.names.index("saliency")], texture["saliency"])


def test_the_command_writes_numbers_and_a_sheet(tmp_path: Path, capsys):
    Image.fromarray(frames()[0]).save(tmp_path / "a.png")
    out = ["--out", str(tmp_path / "t.npz"), "--out", str(tmp_path / "t.png")]
    with pytest.raises(SystemExit) as ended:
        main(["sense", str(tmp_path / "a.png"), *out, "--mips", "average", "--levels", "3", "--json"])
    assert not ended.value.code
    said = json.loads(capsys.readouterr().out)
    assert said["silent"] == []
    assert len(said["levels"]) == 3
    with np.load(tmp_path / "t.npz") as file:
        assert file["data"].shape == (13, 128, 192)
        assert file["level_2"].shape == (13, 32, 48)
        assert list(file["names"])[:3] == ["red", "green", "blue"]
    assert Image.open(tmp_path / "t.png").width == 1920


@pytest.mark.parametrize("layout", ["mvp13", "full40"])
def test_mips_by_averaging_by_what_was_learned_and_by_attention(layout: str):
    texture = arr_coc.sense(frames()[0], layout=layout, size=64)
    average, learned, weighted = (mips_of(texture, kind, 3)[2] for kind in MIPS)
    for other in (learned, weighted):
        assert other.data.shape == average.data.shape
        assert not np.allclose(other["red"], average["red"], atol=1e-4)
    # What was learned leaves the centres of cells alone; attention moves them to where it rests.
    assert np.allclose(learned["x"], average["x"], atol=1e-3)
    assert not np.allclose(weighted["x"], average["x"], atol=1e-4)
    with pytest.raises(InputError, match="average, learned, attention"):
        mips_of(texture, "sharpest")
