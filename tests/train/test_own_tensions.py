"""The tensions of look on one's own records: what the office's pictures need is found, and look takes the folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from arr_coc.app.cli import main as arr_coc
from arr_coc.balancing.tension import DEFAULT_TENSIONS
from arr_coc.core.errors import InputError
from arr_coc.looking import prepare
from arr_coc_lab.train.own_data import ground_of


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A red patch, which the question names, beside a chequered one, which stands out and holds much detail."""
    folder, chance, lines = tmp_path_factory.mktemp("patches"), np.random.default_rng(0), []
    for number in range(8):
        image = Image.new("RGB", (128, 128), (180, 190, 200))
        red, other = chance.permutation(16)[:2]
        pen = ImageDraw.Draw(image)
        for place in range(0, 32, 4):
            top, left = 32 * (other // 4), 32 * (other % 4)
            pen.rectangle((left + place, top + 4 * (place // 4 % 2), left + place + 1, top + 31), "black")
        top, left = 32 * (red // 4), 32 * (red % 4)
        pen.rectangle((left + 4, top + 4, left + 27, top + 27), (230, 30, 30))
        image.save(folder / f"{number}.png")
        box = [(left + 4) / 128, (top + 4) / 128, (left + 28) / 128, (top + 28) / 128]
        lines.append({"image": f"{number}.png", "query": "the red patch", "boxes": [box]})
    lines.append({"image": "none.png", "query": "the red patch", "boxes": [[0, 0, 0.5, 0.5]]})
    (folder / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_what_the_questions_name_gains_and_look_takes_the_folder(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--data", data, "--steps", "40", "--cpu", "--folder", tmp_path / "run", "--out", tmp_path / "out"]
    with pytest.raises(SystemExit) as ended:
        arr_coc(["train", "tensions", *map(str, given)])
    assert ended.value.code == 0
    assert "line 9: there is no picture none.png" in capsys.readouterr().err
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert (record["records"], record["skipped"]) == (8, 1)
    judged = [point for point in record["curve"] if "held out loss" in point]
    assert judged[-1]["held out loss"] < judged[0]["held out loss"] - 0.05
    assert judged[-1]["held out lift"] > 1.05 * judged[0]["held out lift"]
    found = prepare(data / "0.png").look("the red patch", 4, relevance=f"look:{tmp_path / 'out'}").relevance
    plain = prepare(data / "0.png").look("the red patch", 4, relevance="look:fixed").relevance
    assert found.tensions["compress_particularize"] > DEFAULT_TENSIONS["compress_particularize"] + 0.1
    assert plain.tensions == dict(DEFAULT_TENSIONS)
    assert not np.allclose(found.map, plain.map)


def test_the_truth_on_a_grid_is_the_boxes_ground() -> None:
    ground = ground_of(np.array([[0.0, 0.5, 0.25, 1.0], [0.875, 0.0, 1.0, 0.25]]), 4, 4)
    assert ground.tolist() == [[0, 0, 0, 0.5], [0] * 4, [1, 0, 0, 0], [1, 0, 0, 0]]


@pytest.mark.parametrize("text", ["", "[]", '{"tensions": {"exploit_explore": 1}}', '{"tensions": 3}'])
def test_a_folder_without_tensions_is_one_line(data: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "tensions.json").write_text(text)
    with pytest.raises(InputError, match="tensions"):
        prepare(data / "0.png").look("red", 4, relevance=f"look:{tmp_path}")
