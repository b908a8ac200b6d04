"""Stage 2 on a CPU, a few steps: it runs, goes on where it was stopped, and leaves what the library reads."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
import torch
from tiny_weights import ship_tiny

from arr_coc.core.errors import InputError
from arr_coc.video.settings import TemporalSettings, load_settings
from arr_coc.video.spending import cells_of
from arr_coc.video.stream import VideoStream
from arr_coc_lab.train import train_video
from arr_coc_lab.train.allocations import (
    APART,
    KINDS,
    LOOK_AGAIN,
    SCORER_KINDS,
    SEGMENTS,
    Kind,
    LeafTable,
    even_tree_of,
)
from arr_coc_lab.train.clip_examples import (
    EXAMPLES_KEPT,
    ClipBatch,
    Stills,
    VideoOptions,
    look_scores,
    maps_of_examples,
)
from arr_coc_lab.train.outcomes import load_reader
from arr_coc_lab.train.pictures import render_family
from arr_coc_lab.train.reader import picture_loss, read
from arr_coc_lab.train.reader_examples import RingBuffer, render_reader_batch
from arr_coc_lab.train.temporal_model import TemporalBlend
from arr_coc_lab.train.train_video import main, temporal_loss
from arr_coc_lab.train.train_video import train_video as train_stage
from arr_coc_lab.train.video_judging import changes, needed_loss
from arr_coc_lab.worlds.needle.clips import render_clip

SMALL = {
    "clips": 2, "frames": 3, "size": (128, 128), "families": ("cards",), "evaluate": 2, "threads": 1, "stills": 3,
    "largest": 128,
}  # fmt: skip


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return ship_tiny(tmp_path_factory.mktemp("weights"), heads=2, layers=1, scorer=32)


def lost_after(steps: int, monkeypatch) -> None:
    """The machine goes away after so many steps."""
    done = iter(range(steps))

    def loss(*arguments):
        if next(done, None) is None:
            raise ConnectionError
        return temporal_loss(*arguments)

    monkeypatch.setattr(train_video, "temporal_loss", loss)


def test_temporal_numbers_are_learned_and_resumed(tmp_path, weights, monkeypatch) -> None:
    plan = VideoOptions(steps=4, checkpoint_every=0, weights=weights, device="cpu", **SMALL)

    def trained(name: str) -> dict:
        train_stage(replace(plan, out=tmp_path / name))
        return json.loads((tmp_path / name / "record-temporal.json").read_text())

    whole = trained("whole")
    lost_after(2, monkeypatch)
    with pytest.raises(ConnectionError):
        trained("parts")
    monkeypatch.undo()
    parts = trained("parts")
    assert len(parts["curve"]) == len(whole["curve"])
    for name, value in whole["settings"].items():
        assert parts["settings"][name] == value, name
    assert whole["settings"]["decay"] != pytest.approx(0.8, abs=1e-4), "nothing was learned"
    assert whole["validation"]["cuts"] + whole["validation"]["frames_inside"] == 4
    assert whole["validation_before"]["settings"]["decay"] == pytest.approx(0.8)
    assert set(whole["validation"]["maps"]) == {"scorer", "look"}
    for found in whole["validation"]["maps"].values():
        assert found["read"]["temporal"]["n"] == 2
        assert 0 <= found["looked"] <= 1
    settings = load_settings(tmp_path / "whole" / "video")
    assert settings.decay == pytest.approx(whole["settings"]["decay"])
    assert isinstance(TemporalBlend.from_pretrained(tmp_path / "whole" / "video"), TemporalBlend)
    assert json.loads((tmp_path / "whole" / "record-temporal.json").read_text())["step"] == 4


def test_both_sources_of_maps_are_studied_in_every_family() -> None:
    """Families take turns too: none may see only the one source."""
    plan = VideoOptions(families=("cards", "forms", "signs", "zoo"))
    rounds = 10
    seen = [(plan.families[number % 4], maps_of_examples(plan, number)) for number in range(rounds * 4)]
    for family in plan.families:
        assert sum(one == (family, "look") for one in seen) == rounds / 2
    for share, expected in ((0.0, 0), (0.25, rounds), (1.0, rounds * 4)):
        shares = [maps_of_examples(replace(plan, look_share=share), number) for number in range(rounds * 4)]
        assert shares.count("look") == pytest.approx(expected, abs=2)
    with pytest.raises(InputError, match="look-share"):
        VideoOptions(look_share=1.5)


def test_a_lesson_has_the_maps_that_a_stream_begins_with() -> None:
    clip = render_clip("cards", range(2), 2, (128, 128), 0, "train", cuts=1)
    found = look_scores(clip)
    assert found.shape == (2, 2, 4, 4)
    stream = VideoStream(clip.questions[1], keep=0.25, photos=False, settings=TemporalSettings())
    begun = stream.see(clip.pictures[1, 0].permute(1, 2, 0).contiguous().numpy())
    cells = torch.from_numpy(cells_of(begun.relevance.map, (4, 4)))
    torch.testing.assert_close(found[1, 0], cells, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(found[1, 0], found[1, 1]), "after a cut everything is elsewhere"


def test_the_loss_asks_where_and_not_how_loud() -> None:
    truth = torch.zeros(1, 1, 4, 4)
    truth[..., 1, 1] = 1
    near, far = torch.full_like(truth, 0.05), torch.full_like(truth, 0.05)
    near[..., 1, 1], far[..., 3, 3] = 0.2, 0.2
    assert needed_loss(near, truth) < needed_loss(far, truth)
    assert float(needed_loss(near / 4, truth)) == pytest.approx(float(needed_loss(near, truth)), rel=1e-5)


def test_the_reader_leaves_a_stock_checkpoint_that_knows_video(tmp_path, weights) -> None:
    from transformers import Qwen3VLForConditionalGeneration

    arguments = ["reader", "--weights", str(weights), "--out", str(tmp_path), "--device", "cpu", "--steps", "2"]
    arguments += ["--clips", "2", "--frames", "3", "--size", "128", "--families", "cards", "--evaluate", "2"]
    main([*arguments, "--stills", "3", "--largest", "128"])
    record = json.loads((tmp_path / "record-reader.json").read_text())
    # Stills and clips, before and after, so that one can decide whether to ship it.
    names = {"still, full 1/1", "still, uniform 1/4", "still, scorer 1/4", "clip, temporal 1/16, video"}
    for part in ("validation_before", "validation", "validation_change"):
        assert names <= set(record[part])
        assert all(cell["n"] == 2 for cell in record[part].values())
    assert {"video", "still", "still right"} <= set(record["curve"][0])
    model = Qwen3VLForConditionalGeneration.from_pretrained(tmp_path / "mini")
    assert model.config.trained_on_video
    before = Qwen3VLForConditionalGeneration.from_pretrained(weights / "mini")
    assert not torch.equal(model.lm_head.weight, before.lm_head.weight)


def test_stills_are_those_of_the_readers_own_training() -> None:
    """Every kind of allocation and only canvases that were printed; no picture number is used by two lessons."""
    plan = VideoOptions(stage="reader", stills=2, largest=256, families=("cards",))
    stills, chance = Stills(plan, torch.device("cpu")), random.Random(0)
    generator = torch.Generator().manual_seed(0)
    pages = [stills.make(number) for number in range(3)]
    assert not torch.equal(pages[0].tails, pages[1].tails)
    assert torch.equal(stills.make(1).pictures, pages[1].pictures), "a resumed run sees what it would have seen"
    for number, each in enumerate(pages):
        stills.add(each, number)
    drawn = [stills.draw(chance, generator) for _ in range(400)]
    assert {pages.size for pages, _ in drawn} == {each.size for each in pages}
    large = {kind.name for pages, kind in drawn if min(pages.size) >= 256}
    assert large == {kind.name for kind in (*KINDS, *SCORER_KINDS, LOOK_AGAIN, SEGMENTS, APART)}


def test_the_still_loss_is_that_of_the_stock_class(weights) -> None:
    """The swift path of the stills against the reading that the bench uses."""
    mini = load_reader(weights / "mini", torch.device("cpu"))
    batch = render_family("cards", 3, (128, 128), 0, 0, "cpu")
    pages = render_reader_batch("cards", 3, (128, 128), 0, 0, "cpu", None, 1)
    assert torch.equal(pages.pictures, batch.pictures)
    table = LeafTable(even_tree_of(pages.size), "cpu")
    leaves = table.leaves(Kind("uniform", 1 / 4, 1.0), pages.targets[:, 0].float(), torch.Generator())
    loss, right = picture_loss(mini, pages, [leaves], table.tree.levels + 1)
    expected = read(mini, batch, leaves)
    assert float(loss) == pytest.approx(float(expected.loss), rel=1e-4)
    assert torch.equal(right, expected.right)


def test_a_buffer_of_clips_forgets_the_oldest() -> None:
    buffer, generator = RingBuffer(2 * EXAMPLES_KEPT), torch.Generator().manual_seed(0)
    for lesson in range(EXAMPLES_KEPT + 2):
        buffer.add(ClipBatch(*(torch.full((2, 1), float(lesson)) for _ in range(6))))
    drawn = buffer.draw(400, generator)
    assert set(drawn.pictures.flatten().tolist()) == set(range(2, EXAMPLES_KEPT + 2))
    assert torch.equal(drawn.pictures, drawn.relevance), "a clip keeps what belongs to it"


def test_what_was_gained_has_the_right_sign() -> None:
    before, after = {"clip": [True, False, False, False] * 5}, {"clip": [True, True, True, False] * 5}
    found = changes(before, after)["clip"]
    assert found["gained"] == pytest.approx(0.5)
    assert 0 < found["low"] < 0.5 < found["high"]
