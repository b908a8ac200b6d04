"""Frames in and out: what is written is read back, what is broken is said in a line."""

from __future__ import annotations

import numpy as np
import pytest
from clip_scenes import scene

from arr_coc import InputError
from arr_coc.video.decode import open_film, read_clip, write_clip

pytest.importorskip("av", reason="PyAV is not installed: pip install 'arr-coc[video]'")


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("clips") / "cards.mp4"
    write_clip(path, scene(1, 12, step=3), 8)
    return path


def test_a_clip_comes_back(clip) -> None:
    import av

    frames, seconds, notes = read_clip(clip)
    assert frames.shape == (12, 256, 256, 3)
    assert np.allclose(seconds, np.arange(12) / 8, atol=1e-3)
    assert np.abs(frames.astype(int) - np.stack(scene(1, 12, step=3))).mean() < 5
    assert notes == []
    with av.open(str(clip)) as container:
        assert container.streams.video[0].codec_context.name == "h264"


def test_every_limit_and_multiple(clip) -> None:
    frames, seconds, _ = read_clip(clip, every=3, limit=3)
    assert len(frames) == 3
    assert np.allclose(seconds, [0, 0.375, 0.75], atol=1e-3)
    with open_film(clip, every=5, multiple=96) as film:
        assert film.frames == 3
        assert film.per_second == pytest.approx(8)
        assert next(iter(film))[1].shape == (288, 288, 3)
        assert film.notes == ["frames of 256×256 were resized to 288×288"]


def test_what_cannot_be_read_is_said_in_a_line(tmp_path, clip) -> None:
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("this is not a film\n" * 50)
    (tmp_path / "cut.mp4").write_bytes(clip.read_bytes()[:600])
    cases = {
        "missing.mp4": "no file",
        "empty.mp4": "is empty",
        "text.mp4": "could not be opened",
        "cut.mp4": "could not be opened|could not be decoded|holds no",
        ".": "is a folder",
    }
    for name, words in cases.items():
        with pytest.raises(InputError, match=words) as told:
            read_clip(tmp_path / name)
        assert "\n" not in str(told.value)
    with pytest.raises(InputError, match="no file"):
        read_clip("rtsp://127.0.0.1:9/none")
    with pytest.raises(InputError, match="every=0"):
        read_clip(clip, every=0)


def test_a_clip_that_breaks_off_gives_what_it_has(tmp_path, clip) -> None:
    """A transport stream, as cameras send it, torn in the middle: the frames before the tear, and a note or none."""
    import av

    path = tmp_path / "stream.ts"
    with av.open(str(path), "w", format="mpegts") as writer:
        stream = writer.add_stream("libx264", rate=8)
        stream.width = stream.height = 256
        stream.pix_fmt = "yuv420p"
        for frame in scene(1, 12, step=3):
            writer.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        writer.mux(stream.encode(None))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    frames, _, _ = read_clip(path)
    assert 0 < len(frames) <= 12
