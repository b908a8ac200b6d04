"""The numbers of a stream on one's own clips: records that follow one another, split by clip, learned and judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageDraw
from tiny_weights import tiny_weights

from arr_coc.app.cli import main as arr_coc
from arr_coc.core.errors import InputError
from arr_coc.video.settings import TemporalSettings, load_settings
from arr_coc_lab.classic.scorer import Scorer
from arr_coc_lab.train.clip_examples import OwnClip, VideoOptions, by_clip, own_clips
from arr_coc_lab.train.own_data import read_own


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five clips of a red patch that wanders; in the last frame of each it is gone."""
    folder, lines = tmp_path_factory.mktemp("clips"), []
    for clip in range(5):
        for frame in (1, 0, 2, 3):  # in any order
            image = Image.new("RGB", (128, 128), (180, 190, 200 + clip))
            left, top = 8 + 24 * frame, 20 * clip
            boxes = [[left / 128, top / 128, (left + 24) / 128, (top + 24) / 128]] if frame < 3 else []
            if boxes:
                ImageDraw.Draw(image).rectangle((left, top, left + 23, top + 23), (230, 30, 30))
            image.save(folder / f"{clip}-{frame}.png")
            line = {"image": f"{clip}-{frame}.png", "query": "the red patch", "boxes": boxes}
            lines.append(line | {"clip": f"c{clip}", "frame": frame})
    lines.append({**lines[0], "frame": "x"})
    (folder / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def clips_of(data: Path, frames: int) -> list[OwnClip]:
    plan = VideoOptions(frames=frames, size=(128, 128), look_share=1.0, threads=1)
    records = by_clip(read_own(data, say=lambda line: None).records)
    assert len(records) == 20
    return own_clips(records, plan, Scorer(), TemporalSettings(), torch.device("cpu"))


def test_records_become_clips_in_the_order_of_their_frames(data: Path) -> None:
    clips = clips_of(data, 3)
    assert len(clips) == 5, "a last frame alone is no clip"
    for clip in clips:
        assert clip.scores.shape == clip.truth.shape == (1, 3, 4, 4)
        columns = clip.truth[0].amax(1).argmax(1).tolist()
        assert columns == sorted(columns), "it wanders to the right"
        assert columns[0] < columns[2]
    longer = clips_of(data, 8)
    assert longer[0].scores.shape[1] == 8
    assert longer[0].truth[0, 3:].sum() == 0, "gone, and a still to the end"


def test_one_frame_is_no_clip(data: Path) -> None:
    assert by_clip(read_own(data, say=lambda line: None).records[:1]) == []


def test_the_numbers_are_learned_with_ones_own_clips(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[Any] = ["temporal", "--data", data, "--weights", tiny_weights(tmp_path / "weights")]
    given += ["--out", tmp_path / "out", "--steps", "6", "--mix", "0", "--evaluate", "0", "--clips", "1", "--cpu"]
    given += ["--frames", "3", "--size", "128", "--families", "cards", "--look-share", "1", "--learning-rate", "0.05"]
    with pytest.raises(SystemExit) as ended:
        arr_coc(["train", "video", *map(str, given)])
    assert ended.value.code == 0
    assert "line 21: frame is the picture's place in its clip" in capsys.readouterr().err
    record = json.loads((tmp_path / "out" / "record-temporal.json").read_text())
    assert (record["records"], record["skipped"], record["own"]) == (20, 1, [4, 1])
    assert record["own_held_out_loss"] < record["own_before"]
    assert load_settings(tmp_path / "out" / "video") != TemporalSettings()
    frames = [Image.open(data / f"0-{number}.png") for number in range(3)]
    frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:])
    asked = ["video", tmp_path / "clip.gif", "the red patch", "--relevance", "look", "--out", tmp_path / "seen"]
    for folder, code in ((tmp_path / "out" / "video", 0), (tmp_path, 2)):
        with pytest.raises(SystemExit) as ended:
            arr_coc([*map(str, asked), "--numbers", str(folder)])
        assert ended.value.code == code, capsys.readouterr().err


def test_wrong_options_are_one_line(data: Path) -> None:
    wrongs: list[dict[str, Any]] = [{"stage": "reader"}, {"mix": 1.0}, {"held_out": 0.0}]
    for wrong in wrongs:
        with pytest.raises(InputError, match="--"):
            VideoOptions(data=data, **wrong)
