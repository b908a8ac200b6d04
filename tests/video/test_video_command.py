"""`arr-coc video` from end to end, and the answer of a tiny random model through both readings."""

from __future__ import annotations

import json

import pytest
from clip_scenes import scene
from tiny_weights import ship_tiny

from arr_coc.app.cli import main
from arr_coc.video.decode import read_clip, write_clip

pytest.importorskip("av", reason="PyAV is not installed: pip install 'arr-coc[video]'")
QUERY = "What number is on the red card?"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("clips") / "cards.mp4"
    write_clip(path, scene(1, 4, step=2) + scene(2, 3, step=2), 8)
    return str(path)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(ship_tiny(tmp_path_factory.mktemp("weights"), heads=2, scorer=32) / "mini")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["video", *arguments])
    return int(ended.value.code or 0)


def test_it_writes_a_clip_and_a_document(clip, tmp_path, capsys) -> None:
    assert run(clip, QUERY, "--budget", "100", "--out", str(tmp_path), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tokens"] <= 100 < found["tokens"] + 3
    assert found["cuts"] == [4]
    assert [row["scene"] for row in found["frames"]] == [0] * 4 + [1] * 3
    assert found["answer"] is None
    assert read_clip(tmp_path / "homunculus.mp4")[0].shape[0] == 7
    assert len(json.loads((tmp_path / "video.json").read_text())["allocations"]) == 7


def test_it_prints_the_tokens_of_the_clip(clip, tmp_path, capsys) -> None:
    assert run(clip, QUERY, "--out", str(tmp_path), "--every", "2") == 0
    shown = capsys.readouterr().out
    assert "4 frames, cuts: 1" in shown


def test_a_model_answers(clip, tmp_path, tiny, capsys) -> None:
    how = ("--model", tiny, "--frames", "5", "--budget", "0.2", "--out", str(tmp_path), "--json")
    assert run(clip, QUERY, *how) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found["answer"]["text"], str)
    assert json.loads((tmp_path / "video.json").read_text())["answer"] == found["answer"]
    # A mini that knows no video reads the frames that show ground of their own.
    assert max(row["tokens"] for row in found["frames"]) <= found["answer"]["tokens"] <= found["tokens"]


@pytest.mark.parametrize("scale", ["0.5", "2"])
def test_frames_are_read_from_where_they_are_told_to_be(clip, tmp_path, tiny, capsys, scale) -> None:
    """As many tokens, on a grid of frames of another size, which the model then sees."""
    how = ("--model", tiny, "--set", f"scale={scale}", "--frames", "3", "--budget", "40", "--json")
    assert run(clip, QUERY, *how, "--out", str(tmp_path)) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tokens"], found["full"], found["scale"]) == (40, 3 * 64, float(scale))
    assert any(f"read {scale} times as large" in note for note in found["notes"])
    assert isinstance(found["answer"]["text"], str)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.mp4", QUERY), "no file missing.mp4"),
        (("CLIP", " "), "question is empty"),
        (("CLIP", QUERY, "--set", "relevance=taste"), "relevance='taste' is unknown"),
        (("CLIP", QUERY, "--budget", "2"), "does not fit 7 frames"),
        (("CLIP", QUERY, "--every", "0"), "every=0"),
        *(
            (("CLIP", QUERY, "--set", f"scale={wrong}"), "is not possible; give auto")
            for wrong in ("0", "nan", "1000", "near")
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(clip, capsys, tmp_path, arguments, words) -> None:
    given = [clip if one == "CLIP" else one for one in arguments]
    assert run(*given, "--out", str(tmp_path)) == 2
    told = capsys.readouterr().err.strip()
    assert words in told
    assert len(told.splitlines()) == 1
