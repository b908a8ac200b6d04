"""The scorer on one's own pictures: it learns, resumes to the bit, and what it leaves is taken by path."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from tiny_weights import ship_tiny

from arr_coc.core.errors import InputError
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer, ReadingScorerConfig
from arr_coc.looking import look
from arr_coc_lab.train import train_scorer
from arr_coc_lab.train.own_data import read_own
from arr_coc_lab.train.run import torch_scope, train
from arr_coc_lab.train.train_scorer import OwnOptions, OwnTraining, own_shelf

TINY = ReadingScorerConfig(
    narrow=8, middle=16, wide=16, query_width=16, fine=1, before=1, after=1, coarse=1, heads=4, waves=4
)
SMALL = ("--canvas", "128", "--batch", "3", "--drawn", "14", "--judged", "4", "--device", "cpu")


# The run is watched where tensorboard is there to write for.
WATCHED = ("--log", "tensorboard") if find_spec("tensorboard") else ()


@pytest.fixture(scope="module", autouse=True)
def _judged_on_small_pictures():
    """Of Needle World, beside one's own: drawing large ones would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_scorer, "JUDGED_CANVAS", 128)
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
    assert {path.name for path in out.iterdir()} >= {"config.json", "model.safetensors", "record.json"}
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
    held = read_own(trained / "out" / "held_out.jsonl").records
    assert len(held) == record["held_out"] == 2
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(next(trained.rglob("events.out.*")).parent)).Reload()
    assert len(found.Scalars(next(tag for tag in found.Tags()["scalars"] if tag.endswith("loss")))) == 8


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
        given = OwnOptions(**options, steps=2, folder=where, out=where, all_layers=every, device="cpu")
        made = train(OwnTraining, given)
        moved = {
            key.split(".")[0] for key, value in made.scorer.state_dict().items() if not torch.equal(value, begun[key])
        }
        assert ("stem" in moved) is every
        assert "head" in moved


def test_a_shelf_holds_each_record_where_its_picture_has_it(folder):
    records = read_own(folder).records[:3]
    shelf = own_shelf(records, torch.device("cpu"))
    assert shelf.pictures.sizes.tolist() == [[128, 128]] * 3
    assert shelf.boxes[0, 0].numpy() == pytest.approx(records[0].boxes[0] * 128)
    x, y = (shelf.boxes[0, 0, :2] + 4).int().tolist()
    assert shelf.pictures.pixels[y * 128 + x].tolist() == [0, 0, 0], "the square is black"


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
    assert {"held_out.jsonl", "model.safetensors"} <= set(sent["files"])
    scorer.push_to_hub("me/scorer")
    assert {"config.json", "model.safetensors"} <= set(sent["files"])
    assert "held_out.jsonl" not in sent["files"]
    monkeypatch.setattr(hub.HfApi, "create_repo", lambda self, name, **how: (_ for _ in ()).throw(OSError("no net")))
    with pytest.raises(InputError, match="cannot push to 'me/scorer' \\(no net\\)"):
        scorer.push_to_hub("me/scorer")
