"""The ranker of words on one's own records: it learns where an office writes its sums, and look takes its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from arr_coc import look
from arr_coc.app.cli import main as arr_coc
from arr_coc.core.errors import InputError
from arr_coc.knowing.words.source import answer_shares, ranker_weights
from arr_coc.pictures.words import as_words
from arr_coc_lab.train.train_words import Ranker, WordsOptions

QUERY, LABELS = "How much is to be paid?", ("Ggf.", "Zbtr.", "Rst.", "Lz.")


def words_of(number: int) -> tuple[list[dict[str, Any]], str]:
    """Four lines of a label that nobody knows and a number; what is to be paid always stands in the last line."""
    chance = np.random.default_rng(number)
    listed, answer = [], ""
    for row, label in enumerate(chance.permutation(LABELS).tolist()):
        value = f"{chance.integers(10, 99)}.{chance.integers(10, 99)}"
        top = 0.1 + 0.2 * row
        for text, left in ((label, 0.1), (value, 0.5)):
            listed.append({"text": text, "box": [left, top, left + 0.2, top + 0.05]})
        answer = value
    return listed, answer


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, lines = tmp_path_factory.mktemp("office"), []
    for number in range(24):
        Image.new("RGB", (128, 128), (255, 255, 200 + number)).save(folder / f"{number}.png")
        words, answer = words_of(number)
        lines.append({"image": f"{number}.png", "query": QUERY, "answer": answer, "words": words})
    lines.append({"image": "0.png", "query": QUERY, "answer": "nowhere", "words": words_of(0)[0]})
    (folder / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_where_an_office_writes_its_sums_is_learned_and_look_takes_the_folder(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
        "--data",
        data,
        "--steps",
        "40",
        "--needle",
        "2",
        "--bills",
        "2",
        "--batch",
        "12",
        "--cpu",
        "--judge-every",
        "1e9",
    ]
    given += ["--folder", tmp_path / "run", "--out", tmp_path / "out", "--rate", "0.03"]
    with pytest.raises(SystemExit) as ended:
        arr_coc(["train", "words", *map(str, given)])
    assert ended.value.code == 0
    assert "line 25: its answer 'nowhere' stands nowhere" in capsys.readouterr().err
    judged = [point for point in json.loads((tmp_path / "run" / "curve.json").read_text()) if "own best" in point]
    assert judged[0]["own best"] <= judged[-1]["own best"]
    assert judged[-1]["own best"] == 1.0, "on pictures that were held out"
    fresh, answer = words_of(99)
    weights = ranker_weights(tmp_path / "out" / "ranker.npz")
    words = as_words(fresh, (128, 128))
    assert words.texts[int(answer_shares(words, QUERY, weights)[:, 0].argmax())] == answer
    where = next(one["box"] for one in fresh if one["text"] == answer)
    found = look(data / "1.png", QUERY, budget=4, relevance=f"words:{tmp_path / 'out'}", words=fresh)
    row, col = int(4 * where[1]), int(4 * where[0])
    assert found.level_map()[row, col] == 0
    assert (found.level_map() == 0).sum() < 16


def test_going_on_begins_where_the_bundled_ranker_stands() -> None:
    from arr_coc_lab.train.word_lessons import examples, needle_lessons

    ranker, bundled = Ranker(list(examples(needle_lessons(1, 0), 0))), ranker_weights()
    ranker.load(bundled)
    for name, value in ranker.export().items():
        np.testing.assert_allclose(value.astype(np.float32), bundled[name], rtol=1e-3, atol=1e-4)


def test_wrong_options_and_rankers_are_one_line(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--mix"):
        WordsOptions(data=data, mix=1.0)
    with pytest.raises(InputError, match="train words wrote"):
        look(data / "1.png", QUERY, budget=4, relevance=f"words:{tmp_path}", words=words_of(1)[0])
