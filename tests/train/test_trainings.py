"""Every training by its command: a few steps, the same bits after a stop, and an export that the library uses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from tiny_weights import tiny_scorer

from arr_coc import look
from arr_coc.app.cli import main as arr_coc
from arr_coc.core.errors import InputError
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.options import Options
from arr_coc_lab.classic import phases
from arr_coc_lab.classic.selectors import QuestionWords
from arr_coc_lab.train import train_scorer
from arr_coc_lab.train.mini_model import MiniConfig, build_mini, load_shipped, ship
from arr_coc_lab.train.own_data import read_own
from arr_coc_lab.train.run import Loop, torch_scope
from arr_coc_lab.train.scorer_worlds import own_page, shelf_of

QUERY = "the square?"


@pytest.fixture(scope="module", autouse=True)
def _small():
    """Two small canvases instead of five, and one shape: drawing large ones would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        stages = [stage._replace(until=until) for stage, until in zip(train_scorer.STAGES, (0.5, 1.01), strict=False)]
        patch.setattr(train_scorer, "STAGES", stages)
        patch.setattr(train_scorer, "JUDGED_CANVAS", 128)
        patch.setattr(phases, "SHAPES", ((192, 192),))
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Twelve own pictures with a black square and its words, and small weights to begin with."""
    folder = tmp_path_factory.mktemp("home")
    chance, lines = np.random.default_rng(0), []
    for number in range(12):
        row, col = chance.integers(0, 4, 2)
        page = Image.new("RGB", (128, 128), (200 + number, 210, 220))
        ImageDraw.Draw(page).rectangle((32 * col + 6, 32 * row + 6, 32 * col + 26, 32 * row + 26), "black")
        page.save(folder / f"{number}.png")
        box = [col / 4 + 0.05, row / 4 + 0.05, col / 4 + 0.2, row / 4 + 0.2]
        words = [{"text": str(number), "box": box}, {"text": "square", "box": [0.4, 0.9, 0.6, 0.95]}]
        lines.append({"image": f"{number}.png", "query": QUERY, "answer": str(number), "boxes": [box], "words": words})
    (folder / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with torch_scope(0):
        tiny_scorer().half().save_pretrained(folder / "start")
        mini = build_mini(MiniConfig(width=64, vision_layers=2, language_layers=2, heads=1, deepstack=(0,)))
        ship({"mini": mini, "scorer": tiny_scorer()}, folder)
    load_scorer(folder / "scorer", "cpu")  # the first load of a process draws random numbers, later ones do not
    return folder


def line(home: Path, name: str) -> list[str]:
    """The arguments of a training, as small as can be."""
    own = f"--data {home}"
    lines = {
        "mini": "mini --scale 0.004 --width 64 --largest 256",
        "mini on print": "mini --scale 0.004 --width 64 --largest 128 --print needle",
        "scorer": f"scorer --start {home / 'start'} --scale 0.01 --judged 14",
        "scorer on print": f"scorer --start {home / 'start'} --scale 0.002 --judged 14 --print needle",
        "scorer, own": f"scorer {own} --start {home / 'start'} --canvas 128 --batch 3 --drawn 14 --judged 4",
        "scorer, own answers": f"scorer {own} --from outcomes --reader {home} --start {home / 'start'} --canvas 128 "
        "--batch 2 --drawn 14 --judged 2",
        "words": "words --pages 3 --aside 2 --questions 2 --others 1 --batch 4 --width 16 --layers 1 --workers 1",
        "words, own": f"words {own} --others 0 --batch 4 --workers 1",
    }
    return lines[name].split()


def run(home: Path, name: str, folder: Path, steps: int) -> Path:
    """Train, by the command line of `arr-coc`; returns the export."""
    places = ["--folder", str(folder), "--out", str(folder / "export"), "--device", "cpu"]
    with torch_scope(threads=1), pytest.raises(SystemExit) as ended:
        arr_coc(["train", *line(home, name), *places, "--steps", str(steps), "--checkpoint-every", "0"])
    assert ended.value.code == 0
    return folder / "export"


def lose(home: Path, name: str, folder: Path, steps: int, after: int) -> None:
    """The same, where the machine goes away after some steps."""
    taken, left = Loop.take_step, iter(range(after))

    def take_step(loop: Loop) -> None:
        if next(left, None) is None:
            raise ConnectionError
        taken(loop)

    places = ["--folder", str(folder), "--out", str(folder / "export"), "--device", "cpu"]
    kind, *given = line(home, name)
    with pytest.MonkeyPatch.context() as patch, torch_scope(threads=1):
        patch.setattr(Loop, "take_step", take_step)
        with pytest.raises(ConnectionError):
            import_module(f"arr_coc_lab.train.train_{kind}").main(
                [*given, *places, "--steps", str(steps), "--checkpoint-every", "0"]
            )


def state_of(folder: Path) -> dict[str, Any]:
    (found,) = folder.glob("state-*/training-0.pt")
    return torch.load(found, weights_only=True)


def without_seconds(curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in point.items() if name != "seconds"} for point in curve]


RESUMED = ["mini", "mini on print", "scorer", "scorer, own answers", "words"]


@pytest.mark.parametrize("name", RESUMED)
def test_a_lost_training_goes_on_to_the_bit(home, tmp_path, name):
    """Stopped after two of four steps, then the same command again, against a run that was left alone."""
    lose(home, name, tmp_path / "lost", 4, 2)
    assert state_of(tmp_path / "lost")["progress"]["step"] == 2
    run(home, name, tmp_path / "lost", 4)
    run(home, name, tmp_path / "whole", 4)
    first, second = (state_of(tmp_path / part) for part in ("lost", "whole"))
    assert first["progress"]["step"] == 4
    for part, values in second["modules"].items():
        for key, value in values.items():
            assert torch.equal(value, first["modules"][part][key]), (part, key)
    curves = [without_seconds(state["progress"]["curve"]) for state in (first, second)]
    assert curves[0] == curves[1]
    assert first["chance"] == second["chance"]


def looked(home: Path, relevance: str) -> None:
    words = json.loads((home / "records.jsonl").read_text().splitlines()[3])["words"]
    how = {"words": words} if relevance.startswith("words") else {}
    assert look(home / "3.png", QUERY, budget=6, relevance=relevance, **how).tokens == 6


def answered(home: Path, model: str) -> None:
    from arr_coc.answering.eye import Eye

    answer = (
        Eye.from_pretrained(model).set_image(home / "3.png").ask(QUERY, budget=0.5, options=Options(max_new_tokens=2))
    )
    assert answer.allocation.tokens <= 8


USES: dict[str, Callable[[Path, Path], object]] = {
    "mini": lambda home, out: answered(home, str(out / "mini")),
    "scorer": lambda home, out: looked(home, str(out / "scorer")),
    "scorer on print": lambda home, out: looked(home, str(out / "scorer")),
    "scorer, own": lambda home, out: looked(home, str(out)),
    "words": lambda home, out: looked(home, str(out)),
    "words, own": lambda home, out: looked(home, str(out)),
}


@pytest.mark.parametrize("name", list(USES))
def test_an_export_loads_in_the_library_and_answers(home, tmp_path, name, capsys):
    out = run(home, name, tmp_path, 2)
    USES[name](home, out)
    assert (out / "record.json").is_file()
    first = json.loads(next(row for row in capsys.readouterr().out.splitlines() if row.startswith("{")))
    assert first["doing"] == "drawing and loading", "a line from the first second on"


def test_the_loss_falls_and_an_export_is_a_start(home, tmp_path):
    out = run(home, "mini", tmp_path, 14)
    curve = json.loads((out / "record.json").read_text())["curve"]
    losses = [value for point in curve for name, value in point.items() if name.startswith("answer")]
    assert sum(losses[-3:]) < sum(losses[:3])
    modules = {"mini": build_mini(MiniConfig(width=64, heads=1))}
    load_shipped(out, modules)
    for key, value in modules["mini"].state_dict().items():
        assert torch.allclose(value, state_of(tmp_path)["modules"]["mini"][key], atol=2e-3), key
    with pytest.raises(InputError, match="no weights"):
        load_shipped(tmp_path / "none", modules)


def test_answers_alone_never_look_at_a_box(home, tmp_path):
    """The boxes of the file are spoilt: the steps must be the same ones."""
    lines = [json.loads(row) for row in (home / "records.jsonl").read_text().splitlines()]
    for one in lines:
        one |= {"image": str(home / one["image"]), "boxes": [[0.0, 0.0, 0.1, 0.1]]}
    (tmp_path / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    given = line(home, "scorer, own answers")[1:]
    spoilt = [str(tmp_path) if word == str(home) and given[place - 1] == "--data" else word
              for place, word in enumerate(given)]  # fmt: skip
    for part, arguments in (("as it is", given), ("spoilt", spoilt)):
        with torch_scope(threads=1):
            train_scorer.main([*arguments, "--folder", str(tmp_path / part), "--cpu", "--steps", "1"])
    one, two = (state_of(tmp_path / part) for part in ("as it is", "spoilt"))
    for key, value in one["modules"]["scorer"].items():
        assert torch.equal(value, two["modules"]["scorer"][key]), key
    assert 0 < one["progress"]["likelihood"] < 1


def test_selectors_of_the_first_phases_are_taught_together(tmp_path, capsys):
    few = ("--steps", "1", "--pictures", "7", "--judged", "7", "--batch", "2", "--device", "cpu")
    phases.main((*few, "--folder", str(tmp_path / "run"), "--out", str(tmp_path)))
    QuestionWords.from_pretrained(tmp_path / "words")
    for one in phases.TAUGHT:
        one.kind.from_pretrained(tmp_path / one.part)
    covered = json.loads((tmp_path / "record.json").read_text())["coverage at 1/4 [value, low, high]"]
    assert covered["oracle"][0] > covered["uniform"][0]
    assert {"realizer", "query_aware_lod", "patch_trunk", "participatory", "edge_lod"} < set(covered)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("scorer --data none.jsonl", "does not exist"),
        ("scorer --data . --mix 1", "--mix"),
        ("scorer --data . --canvas 100", "--canvas"),
        ("words --forget 1", "--forget"),
        ("video --data .", "takes no --data"),
    ],
)
def test_a_wrong_option_is_one_line(given, words, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        arr_coc(["train", *given.split(), "--device", "cpu", "--folder", str(tmp_path)])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


# ---- the scorer on one's own pictures --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(home, tmp_path_factory) -> Path:
    return run(home, "scorer, own", tmp_path_factory.mktemp("trained"), 8)


def test_the_folder_is_taken_by_path_and_torch_finds_what_the_runtime_finds(trained, home):
    """Two routes to one map: by torch, and without it."""
    from arr_coc.knowing.scene import Scene
    from arr_coc.knowing.scorer.source import ScorerRelevance

    pixels = np.asarray(Image.open(home / "3.png"))
    scorer = ScorerRelevance(trained)
    by_torch = scorer.of_scenes([Scene(torch.from_numpy(pixels.copy()).permute(2, 0, 1))], [QUERY])[0]
    assert scorer(pixels, QUERY).map == pytest.approx(by_torch.map, abs=0.03)
    script = "import sys; sys.modules['torch'] = None\nfrom arr_coc import look\n"
    script += f"print(look({str(home / '3.png')!r}, {QUERY!r}, budget=6, relevance={str(trained)!r}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "6 of 16 tokens" in done.stdout


def test_what_is_left_tells_the_run(trained):
    record = json.loads((trained / "record.json").read_text())
    assert (record["records"], record["skipped"], record["step"]) == (12, 0, 8)
    assert record["before"].keys() == record["after"].keys() >= {"held out 1/8", "needle 1/8"}
    assert len(read_own(trained / "held_out.jsonl").records) == record["held_out"] == 2


def test_the_layers_that_read_letters_stay(home, trained):
    begun = ReadingScorer.from_pretrained(home / "start").state_dict()
    after = state_of(trained.parent)["modules"]["scorer"]
    moved = {key.split(".")[0] for key, value in after.items() if not torch.equal(value, begun[key])}
    assert "head" in moved
    assert not moved & {*train_scorer.READING}


def test_a_shelf_holds_each_record_where_its_picture_has_it(home):
    records = read_own(home).records[:3]
    shelf = shelf_of([own_page(record) for record in records], "cpu")
    assert shelf.pictures.sizes.tolist() == [[128, 128]] * 3
    assert shelf.boxes[0, 0].numpy() == pytest.approx(records[0].boxes[0] * 128)
    x, y = (shelf.boxes[0, 0, :2] + 4).int().tolist()
    assert shelf.pictures.pixels[y * 128 + x].tolist() == [0, 0, 0], "the square is black"
