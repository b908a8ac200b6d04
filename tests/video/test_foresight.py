"""What a stream foresees, clusters by name, a cascade that changes the result, and further frames while unsure."""

from __future__ import annotations

import importlib
import json
from types import SimpleNamespace

import numpy as np
import pytest
from clip_scenes import pan, scene

from arr_coc import InputError
from arr_coc.core.values import Answer, Pass
from arr_coc.video.answering import answer_clip
from arr_coc.video.clusters import finder_of, through_clusters
from arr_coc.video.stream import VideoStream
from arr_coc.video.watching import watch
from arr_coc_lab.bench.run import program

QUERY = "What number is on the red card?"


def red(frame: np.ndarray, query: str) -> np.ndarray:
    """Where it is red: a source that a test can rely on."""
    return ((frame[..., 0] > 180) & (frame[..., 1] < 90)).astype(np.float32)


def middle(allocation) -> float:
    """Mean column of the finest leaves."""
    fine = allocation.levels == allocation.levels.min()
    return float((allocation.boxes[fine, 1] + allocation.boxes[fine, 3] / 2).mean())


def test_what_moves_is_foreseen_where_it_will_be() -> None:
    stream = VideoStream(QUERY, budget=8, relevance=red, cell=16, foresee=True, clusters=False)
    with pytest.raises(InputError, match="no frame yet"):
        stream.foresee()
    clip = scene(3, 4, step=24)
    for frame in clip[:3]:
        last = stream.see(frame)
    ahead = stream.foresee()
    seen = stream.see(clip[3])
    assert middle(ahead) > middle(last.standing), "it goes on in the direction in which it came"
    assert abs(middle(ahead) - middle(seen.standing)) < abs(middle(last.standing) - middle(seen.standing))
    assert seen.foreseen is not None
    assert 0 <= seen.foreseen <= 1
    still = [VideoStream(QUERY, budget=8, foresee=True, clusters=False)]
    found = [still[0].see(frame).foreseen for frame in scene(1, 3)]
    assert found == [None, 1.0, 1.0]
    assert watch(iter(scene(1, 3)), QUERY, keep=0.3, foresee=True).foreseen == 1.0


def test_a_cascade_through_clusters_changes_where_tokens_go(tmp_path) -> None:
    with pytest.raises(InputError, match="goes through clusters"):
        VideoStream(QUERY, clusters=False, cascade=True)
    clip = pan(5, 4, 6)
    plain, through = (VideoStream(QUERY, keep=0.2, cascade=one) for one in (False, True))
    differing = [plain.see(frame).standing != through.see(frame).standing for frame in clip]
    assert sum(differing) >= 3
    told = [watch(iter(clip[:2]), QUERY, keep=0.2, clusters=True, cascade=one).notes for one in (False, True)]
    assert ["cascade only" in " ".join(notes) for notes in told] == [True, False]
    through.save(tmp_path / "stream.npz")
    assert VideoStream.resume(tmp_path / "stream.npz").cascade


def test_the_best_clusters_are_opened_and_the_others_fade() -> None:
    labels = np.arange(16)[None, :].repeat(4, 0).astype(np.int32)
    relevance = np.linspace(0, 1, 16, dtype=np.float32)[None, :].repeat(4, 0)
    found = through_clusters(relevance, labels, np.zeros_like(relevance))
    assert np.allclose(found[:, :6], 0.25 * relevance[:, :6])
    assert (found[:, 6:] >= 0.8 * relevance[:, 6:]).all()


def test_clusters_are_named(monkeypatch) -> None:
    for wrong in ("sam", "kmeans", "sam:"):
        with pytest.raises(InputError, match="sam:FOLDER"):
            finder_of(wrong)
    pytest.importorskip("transformers")
    room = importlib.import_module("arr_coc.texture.sam")

    calls = []

    class Masks:
        @classmethod
        def from_pretrained(cls, folder):
            calls.append(folder)
            return cls()

        def masks(self, picture, points=16, **limits):
            import torch

            calls.append("masks")
            found = torch.zeros(1, 64, 64)
            found[0, :, :32] = 1
            return found > 0

    monkeypatch.setattr(room, "MaskGenerator", Masks)
    stream = VideoStream(QUERY, budget=8, clusters="sam:folder", settings=None)
    first = stream.see(scene(1, 1)[0])
    for frame in scene(1, 3)[1:]:
        later = stream.see(frame)
    assert calls == ["folder", "masks"], "SAM is read once, and asked on keyframes alone"
    assert first.clusters is not None
    assert (later.clusters == first.clusters).mean() > 0.9
    by_slic = VideoStream(QUERY, budget=8, clusters="slic").see(scene(1, 1)[0]).clusters
    assert not np.array_equal(first.clusters, by_slic)


def test_further_frames_are_looked_at_while_the_answer_is_unsure() -> None:
    watched = watch(iter(scene(1, 3) + scene(2, 3)), QUERY, keep=0.3)
    order = watched.by_clearness()
    assert order[0] == watched.clearest()
    assert {watched.frames[number].scene for number in order[:2]} == {0, 1}, "another scene before another frame"
    asked: list[float] = []

    class Unsure:
        """An eye whose answers grow surer."""

        model = SimpleNamespace(config=SimpleNamespace(model_type="none"))

        def set_image(self, image):
            return self

        def ask(self, query, allocation, max_new_tokens):
            asked.append(0.9 - 0.4 * len(asked))
            step = Pass(allocation, allocation.tokens, text=str(len(asked)), uncertainty=asked[-1])
            return Answer(str(len(asked)), asked[-1], (step,), {"answer": 1.0})

    frames = scene(1, 3) + scene(2, 3)
    once = answer_clip(Unsure(), watched, frames, "clearest")
    assert (once.text, len(once.passes)) == ("1", 1)
    asked.clear()
    answer = answer_clip(Unsure(), watched, frames, "clearest", passes=5)
    assert (answer.text, len(answer.passes)) == ("3", 3), "sure after the third, so no fourth"
    assert answer.tokens == sum(watched.frames[number].tokens for number in order[:3])
    assert answer.seconds == {"answer": 3.0}
    with pytest.raises(InputError, match="at least 1"):
        answer_clip(Unsure(), watched, frames, "clearest", passes=0)


def test_the_bench_of_foresight_runs(tmp_path, capsys) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- foresight: begin -->\n<!-- foresight: end -->\n")
    given = ["--clips", "2", "--frames", "3", "--keep", "0.1", "--relevance", "detail", "--page", str(page)]
    program("foresight")([*given, "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "foresight.json").read_text())["rows"]
    assert [row["row"] for row in rows] == ["foreseen", "carried over", "seen"]
    assert "| foreseen |" in page.read_text()
    assert "1/10 of a frame" in capsys.readouterr().out
    program("foresight")([*given[:-2], "--clips", "1", "--mips", "0.5", "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "mips.json").read_text())["rows"]
    assert [row["row"] for row in rows] == ["none", "0.5"]
