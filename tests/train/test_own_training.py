"""The scorer on one's own pictures: it learns, resumes to the bit, and what it leaves is taken by path."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from tiny_weights import ship_tiny

from arr_coc.core.errors import InputError
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer, ReadingScorerConfig
from arr_coc.looking import look
from arr_coc_lab.train import own_credit, train_own, train_scorer
from arr_coc_lab.train.devices import Devices
from arr_coc_lab.train.options import parse
from arr_coc_lab.train.own_credit import Creditor, all_windows, coarse_level, leaf_boxes, refined, window_leaves
from arr_coc_lab.train.own_data import read_own
from arr_coc_lab.train.run import Moment, torch_scope, train
from arr_coc_lab.train.scorer_examples import SEARCHED
from arr_coc_lab.train.train_own import Album, OwnOptions, OwnTraining, own_shelf

TINY = ReadingScorerConfig(
    narrow=8, middle=16, wide=16, query_width=16, fine=1, before=1, after=1, coarse=1, heads=4, waves=4
)
KILLED_AT = 20  # of what a run does to files: in the middle of its eight steps
# What `write_graph` makes of a scorer of this shape, whatever its weights: tracing it takes a quarter of a minute.
SMALL = ("--canvas", "128", "--batch", "3", "--drawn", "14", "--judged", "4", "--device", "cpu")


# The run is watched where tensorboard is there to write for.
WATCHED = ("--log", "tensorboard") if find_spec("tensorboard") else ()


@pytest.fixture(scope="module", autouse=True)
def _judged_on_small_pictures():
    """Of Needle World, beside one's own: drawing large ones would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_own, "JUDGED_CANVAS", 128)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Twelve pictures with a black square, and a scorer to begin with."""
    folder = tmp_path_factory.mktemp("own")
    chance, lines = np.random.default_rng(0), []
    for number in range(12):
        row, col = chance.integers(0, 4, 2)
        page = Image.new("RGB", (128, 128), (200 + number, 210, 220))
        ImageDraw.Draw(page).rectangle((32 * col + 6, 32 * row + 6, 32 * col + 26, 32 * row + 26), "black")
        page.save(folder / f"{number}.png")
        box = [col / 4 + 0.05, row / 4 + 0.05, col / 4 + 0.2, row / 4 + 0.2]
        lines.append({"image": f"{number}.png", "query": "the square?", "answer": str(number), "boxes": [box]})
    (folder / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    torch.manual_seed(0)
    ReadingScorer(TINY).half().save_pretrained(folder / "start")
    return ship_tiny(folder)


def arguments(folder: Path, where: Path, *more: str) -> list[str]:
    given = [
        "--data",
        str(folder),
        "--start",
        str(folder / "start"),
        "--folder",
        str(where),
        "--out",
        str(where / "out"),
    ]
    return [*given, *SMALL, *more]


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("trained")
    with torch_scope(threads=1):
        train_scorer.main(arguments(folder, where, "--steps", "8", "--checkpoint-every", "0", *WATCHED))
    return where


def test_the_folder_is_taken_by_path_and_torch_finds_what_the_runtime_finds(trained, folder):
    """Two routes to one map: by torch, and without it."""
    from arr_coc.knowing.scorer.source import ScorerRelevance

    out = trained / "out"
    assert {path.name for path in out.iterdir()} >= {"config.json", "model.safetensors", "record.json", "README.md"}
    pixels = np.asarray(Image.open(folder / "3.png"))
    scorer = ScorerRelevance(out)
    by_torch = scorer.of_batch(torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None], ["the square?"])[0]
    assert scorer.of_pixels(pixels, "the square?").map == pytest.approx(by_torch.map, abs=0.03)
    allocation = look(folder / "3.png", "the square?", budget=6, relevance=str(out))
    assert allocation.tokens == 6


def test_look_takes_the_folder_where_torch_cannot_be_imported(trained, folder):
    script = "import sys; sys.modules['torch'] = None\nfrom arr_coc import look\n"
    script += f"print(look({str(folder / '3.png')!r}, 'the square?', budget=6, relevance={str(trained / 'out')!r}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "6 of 16 tokens" in done.stdout


def test_what_is_left_tells_the_run(trained):
    record = json.loads((trained / "out" / "record.json").read_text())
    assert (record["records"], record["skipped"], record["step"]) == (12, 0, 8)
    assert record["before"].keys() == record["after"].keys() >= {"held out 1/8", "needle 1/8"}
    card = (trained / "out" / "README.md").read_text()
    assert "12 records of 12" in card
    assert f"| held out 1/8 | {100 * record['before']['held out 1/8']:.1f} %" in card
    held = read_own(trained / "out" / "held_out.jsonl").records
    assert len(held) == record["held_out"] == 2
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(next(trained.rglob("events.out.*")).parent)).Reload()
    assert len(found.Scalars(next(tag for tag in found.Tags()["scalars"] if tag.endswith("loss")))) == 8


def test_a_run_killed_without_warning_goes_on_to_the_bit(run, folder, tmp_path):
    """All runs in processes of one kind: on ARM the last bits depend on what a process did before."""
    whole, halves = (
        arguments(folder, tmp_path / part, "--steps", "8", "--checkpoint-every", "0") for part in ("whole", "halves")
    )
    how = {"call": "arr_coc_lab.train.train_own:main"}
    killed = run(*halves, **how, event=KILLED_AT)
    assert killed.code == -9, killed.err
    assert 0 < torch.load(tmp_path / "halves" / "state.pt", weights_only=True)["progress"]["step"] < 8
    for given in (halves, whole):
        ended = run(*given, **how)
        assert ended.code == 0, ended.err
    one, two = (torch.load(tmp_path / part / "state.pt", weights_only=True) for part in ("whole", "halves"))
    assert one["progress"]["step"] == two["progress"]["step"] == 8
    for part, values in one["modules"].items():
        for key, value in values.items():
            assert torch.equal(value, two["modules"][part][key]), (part, key)


def test_the_layers_that_read_stay_unless_all_are_asked_for(folder, tmp_path):
    options: dict[str, Any] = {
        "data": folder,
        "start": str(folder / "start"),
        "canvas": 128,
        "batch": 2,
        "drawn": 14,
        "judged": 2,
    }
    begun = ReadingScorer.from_pretrained(folder / "start").state_dict()
    for every in (False, True):
        where = tmp_path / str(every)
        made = train(
            OwnTraining,
            OwnOptions(**options, steps=2, folder=where, out=where, all_layers=every, device="cpu"),
            ships=False,
        )
        moved = {
            key.split(".")[0] for key, value in made.scorer.state_dict().items() if not torch.equal(value, begun[key])
        }
        assert ("stem" in moved) is every
        assert "head" in moved


@pytest.mark.parametrize("by", ["mini", "tiles"])
def test_answers_alone_teach_too_and_boxes_are_never_looked_at(folder, tmp_path, by):
    """The boxes of the file are spoilt where they are learned from: the steps must be the same ones."""
    given = ["--from", "outcomes", "--model", str(folder if by == "mini" else folder / "mini"), "--steps", "1"]
    for name in ("as it is", "spoilt"):
        data = folder
        if name == "spoilt":
            data = tmp_path / "data"
            data.mkdir()
            lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
            for line in lines:
                line |= {"image": str(folder / line["image"]), "boxes": [[0.0, 0.0, 0.1, 0.1]]}
            (data / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
        with torch_scope(threads=1):
            options = parse(OwnOptions, arguments(folder, tmp_path / name, *given), None)
            train(OwnTraining, replace(options, data=data), ships=False)
    one, two = (torch.load(tmp_path / name / "state.pt", weights_only=True) for name in ("as it is", "spoilt"))
    for key, value in one["modules"]["scorer"].items():
        assert torch.equal(value, two["modules"]["scorer"][key]), key
    assert 0 < one["progress"]["likelihood"] < 1
    kept = Creditor(lambda record: pytest.fail("it was asked twice"), lambda *_: pytest.fail("it was asked twice"))
    kept.load_state(one["data"])
    assert kept.likelihood == pytest.approx(one["progress"]["likelihood"])
    records = [record for record in read_own(folder, "outcomes").records if kept.knows(record)]
    assert records
    assert all(kept.placed(record).boxes.shape[1] == 4 for record in records)


def test_the_curriculum_goes_from_lone_pictures_to_clips_to_what_it_fails_on(folder, tmp_path):
    """The first records are frames: the first stage never asks about them, the last takes what is seen least of."""
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        line |= {"image": str(folder / line["image"])} | ({"clip": "one", "frame": number} if number < 6 else {})
    (tmp_path / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    given = arguments(folder, tmp_path / "run", "--curriculum", "--steps", "4", "--mix", "0")
    training = OwnTraining(replace(parse(OwnOptions, given, None), data=tmp_path), Devices("cpu"))
    asked: list[Any] = []
    training.asked_lessons = lambda records, number: (
        asked.append(records)
        or OwnTraining.asked_lessons(  # type: ignore
            training, records, number
        )
    )
    seen = {}
    for progress in (0.0, 0.5, 0.9):
        lessons = training.own_lessons(4, Moment(0, 0, progress))
        assert len(lessons.pictures) == 4
        seen[training.stage] = asked[-1]
    assert list(seen) == ["static", "video", "adversarial"]
    assert not any(record.clip for record in seen["static"])
    assert any(record.clip for record in seen["video"])
    covers = []

    def coverage(scorer: Any, lessons: Any, keeps: Any) -> torch.Tensor:
        covers.append(lessons)
        return torch.arange(len(lessons.pictures), 0, -1.0)[:, None]  # the last candidates are the hardest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_own, "coverage", coverage)
        lessons = training.own_lessons(4, Moment(0, 0, 0.9))
    assert len(covers[0].pictures) == 2 * SEARCHED
    assert torch.equal(lessons.pictures[2:], covers[0].pictures[-2:].flip(0))


def test_the_window_that_is_credited_is_the_answers_own_and_no_larger(monkeypatch):
    """A reader that needs four cells, and is put off by every other: found alone, wherever it stands; and by two that
    are alike, nowhere."""
    reader = torch.nn.Linear(1, 1)
    needed = {(3, 5), (3, 6), (4, 5), (4, 6)}
    twice = False

    def judged(reader: Any, batch: Any, leaves: torch.Tensor) -> Any:
        seen = [{(row, col) for row, col, _ in window} for window in leaves[0].tolist()]
        good = [max(len(one & needed), len({(r, c + 8) for r, c in one} & needed) if twice else 0) for one in seen]
        return SimpleNamespace(log_likelihood=torch.tensor([[float(one) - 4 for one in good]]))

    monkeypatch.setattr(own_credit, "judge", judged)
    pixels = np.random.default_rng(0).integers(0, 255, (8 * 32, 16 * 32, 3), np.uint8)
    boxes, log = own_credit.mini_boxes(reader, pixels, "where?", "12.15")
    assert boxes.tolist() == [[5 / 16, 3 / 8, 7 / 16, 5 / 8]]
    assert log == 0
    needed, twice = {(3, 9), (3, 10), (4, 9), (4, 10)}, True
    assert own_credit.mini_boxes(reader, pixels, "where?", "12.15")[0].shape == (0, 4)
    assert own_credit.mini_boxes(reader, 0 * pixels, "where?", "12.15")[0].shape == (0, 4), "blank paper"


@pytest.mark.parametrize("length", [1, 5, 40])
def test_windows_lie_inside_and_meet_everything(length):
    windows = all_windows(7, 13, length)
    assert (windows[:, :2] >= 0).all()
    assert (windows[:, 2:] <= (7, 13)).all()
    cells = window_leaves(windows)
    assert {(row, col) for row, col, _ in cells.reshape(-1, 3).tolist()} == {
        (r, c) for r in range(7) for c in range(13)
    }
    assert (cells[3, 0, 0], cells[3, -1, 1]) == (windows[3, 0], windows[3, 3] - 1)
    assert all_windows(1, 2, length).tolist() == [[0, 0, 1, 2]]


def test_one_leaf_more_keeps_the_ground_whole():
    rows, cols = 10, 7
    level = coarse_level(rows, cols)
    coarse = np.array([[row, col, level] for row in range(0, rows, 4) for col in range(0, cols, 4)])
    for place in range(len(coarse)):
        leaves = refined(coarse, place, 0, rows, cols)
        ground = np.zeros((rows, cols), int)
        for x0, y0, x1, y1 in leaf_boxes(leaves, rows, cols) * (cols, rows, cols, rows):
            ground[round(y0) : round(y1), round(x0) : round(x1)] += 1
        assert (ground == 1).all()
    assert coarse_level(100, 100) == 5


def test_a_shelf_holds_each_record_where_its_picture_has_it(folder):
    records = read_own(folder).records[:3]
    shelf = own_shelf(Album(), records, torch.device("cpu"))
    assert shelf.pictures.sizes.tolist() == [[128, 128]] * 3
    assert shelf.boxes[0, 0].numpy() == pytest.approx(records[0].boxes[0] * 128)
    x, y = (shelf.boxes[0, 0, :2] + 4).int().tolist()
    assert shelf.pictures.pixels[y * 128 + x].tolist() == [0, 0, 0], "the square is black"


def test_an_album_keeps_what_it_may(folder):
    album = Album(most=2 * 128 * 128 * 3)
    records = read_own(folder).records[:4]
    for record in (*records, records[0]):
        assert np.array_equal(album.pixels(record), record.load().pixels)
    assert len(album.kept) == 2
    assert album.held == sum(one.nbytes for one in album.kept.values())


def test_wrong_options_are_told_before_anything_is_read(tmp_path):
    wrongs: list[tuple[dict[str, Any], str]]
    wrongs = [({"mix": 1.0}, "--mix"), ({"held_out": 0.0}, "--held-out"), ({"canvas": 100}, "--canvas")]
    for wrong, words in wrongs:
        with pytest.raises(InputError, match=words):
            OwnOptions(data=tmp_path, **wrong)
    with pytest.raises(InputError, match="does not exist"):
        train_scorer.main(["--data", str(tmp_path / "none.jsonl"), "--device", "cpu"])


def test_a_push_uploads_the_whole_folder(trained, monkeypatch):
    """Offline: what would be uploaded, by the hub's own client up to its two calls."""
    hub = pytest.importorskip("huggingface_hub")
    sent: dict[str, Any] = {}
    monkeypatch.setattr(hub.HfApi, "create_repo", lambda self, name, **how: sent.update(name=name, **how))

    def upload(self, *, repo_id, folder_path):
        sent["files"] = sorted(path.name for path in Path(folder_path).iterdir())
        return f"https://hub/{repo_id}"

    monkeypatch.setattr(hub.HfApi, "upload_folder", upload)
    scorer = ReadingScorer.from_pretrained(trained / "out")
    assert scorer.push_to_hub("me/scorer", folder=trained / "out", private=True) == "https://hub/me/scorer"
    assert sent["name"] == "me/scorer"
    assert sent["private"] is True
    assert {"README.md", "model.safetensors"} <= set(sent["files"])
    scorer.push_to_hub("me/scorer")
    assert {"config.json", "model.safetensors"} <= set(sent["files"])
    assert "README.md" not in sent["files"]
    monkeypatch.setattr(hub.HfApi, "create_repo", lambda self, name, **how: (_ for _ in ()).throw(OSError("no net")))
    with pytest.raises(InputError, match="cannot push to 'me/scorer' \\(no net\\)"):
        scorer.push_to_hub("me/scorer")
