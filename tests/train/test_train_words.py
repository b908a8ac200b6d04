"""The chooser of words: drawn pages repeat, numpy and torch agree, it learns, also from one's own records."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from arr_coc import look
from arr_coc.app.cli import main as arr_coc
from arr_coc.core.errors import InputError
from arr_coc.knowing.words.answer import copied_answer
from arr_coc.knowing.words.chooser import WEIGHTS, ask_board, choose, weights_of
from arr_coc.pictures.words import as_words
from arr_coc_lab.train.train_words import Chooser, WordsOptions, loss_of
from arr_coc_lab.train.word_lessons import Example, WordPage, collate, drawn, example, foreign, other_pages
from arr_coc_lab.worlds.office import layout_names, make_page

QUERY, LABELS = "How much is to be paid?", ("Ggf.", "Zbtr.", "Rst.", "Lz.")


@pytest.fixture(scope="module")
def pages() -> list[WordPage]:
    return [drawn(("train", 3, number, 3))[0] for number in (2, 10, 41)] + list(other_pages(1, 5))[:4]


def examples(pages: list[WordPage], noisy: bool = False) -> list[Example]:
    return [example(page, 0, random.Random(number), noisy) for number, page in enumerate(pages)]


def test_pages_repeat_and_hold_the_answers_to_their_questions() -> None:
    for split in ("train", "val"):
        assert len(layout_names(split)) >= {"train": 40, "val": 10}[split]
    assert not {*layout_names("train")} & {*layout_names("val")}
    for number in range(0, 60, 7):
        first, second = (make_page("train", 4, number) for _ in range(2))
        assert first.words.texts == second.words.texts
        assert first.questions == second.questions
        for asked in first.questions:
            written = " ".join(first.words.texts[asked.answer.first : asked.answer.end])
            assert asked.answer.text.split()[0].lower().strip(".,:;") in written.lower()
    np.testing.assert_array_equal(first.pixels(), second.pixels())


def test_an_answer_follows_from_word_to_word(pages: list[WordPage]) -> None:
    for one in examples(pages):
        assert one.start == one.onward[0, 0]
        assert one.onward[:, 1:].sum() == len(one.onward) - 1, "every word of an answer but the last goes on"


def test_numpy_and_torch_give_the_same_logits_alone_and_in_a_batch(pages: list[WordPage], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Chooser(32, 2).eval()
    for layer in model.layers:
        for part in (layer.place, layer.found, layer.asked):
            torch.nn.init.normal_(part.weight)
    model.half().float().save(tmp_path / WEIGHTS.name, np.array([1.0, 0.0]))
    weights, found = weights_of(tmp_path / WEIGHTS.name), examples(pages)
    with torch.no_grad():
        together = model(collate(found)).numpy()
        alone = model(collate(found[:1])).numpy()
    for row, one in enumerate(found):
        mine = choose(ask_board(one.board, one.query, one.seen), weights)
        np.testing.assert_allclose(mine[:-1], together[row, : len(one.board)], atol=1e-4)
        np.testing.assert_allclose(mine[-1, 0], together[row, -1, 0], atol=1e-4)
    np.testing.assert_allclose(alone[0, :-1], together[0, : alone.shape[1] - 1], atol=1e-4)


def test_words_that_ocr_misreads_keep_their_place_and_foreign_questions_have_no_answer(pages: list[WordPage]) -> None:
    for one in examples(pages, noisy=True):
        assert one.start < len(one.board)
        assert np.isfinite(ask_board(one.board, one.query, one.seen).features).all()
    asked = foreign(pages[0], pages[1]._replace(kinds=frozenset({"other"})))
    if asked is not None:
        assert example(pages[0], 0, random.Random(0), instead=asked).start == -1


def test_a_few_steps_learn(pages: list[WordPage]) -> None:
    torch.manual_seed(0)
    model, batch = Chooser(32, 2), collate(examples(pages))
    optimizer, curve = torch.optim.AdamW(model.parameters(), lr=3e-3), []
    for _ in range(25):
        loss = loss_of(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(float(loss.detach()))
    assert curve[-1] < 0.5 * curve[0]


def words_of(number: int) -> tuple[list[dict[str, object]], str]:
    """Four lines of a label that no page has and a number; what is to be paid always stands in the last line."""
    chance = np.random.default_rng(number)
    listed: list[dict[str, object]] = []
    answer = ""
    for row, label in enumerate(chance.permutation(LABELS).tolist()):
        answer = f"{chance.integers(10, 99)}.{chance.integers(10, 99)}"
        top = 0.1 + 0.2 * row
        for text, left in ((label, 0.1), (answer, 0.5)):
            listed.append({"text": text, "box": [left, top, left + 0.2, top + 0.05]})
    return listed, answer


def test_where_an_office_writes_its_sums_is_learned_and_look_takes_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for number in range(16):
        Image.new("RGB", (128, 128), (255, 255, 200 + number)).save(tmp_path / f"{number}.png")
        words, answer = words_of(number)
        lines.append({"image": f"{number}.png", "query": QUERY, "answer": answer, "words": words})
    lines.append({"image": "0.png", "query": QUERY, "answer": "nowhere", "words": words_of(0)[0]})
    (tmp_path / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    given = f"--data {tmp_path} --steps 40 --others 0 --batch 8 --rate 1e-3 --cpu --workers 1 --judge-every 1e9".split()
    with pytest.raises(SystemExit) as ended:
        arr_coc(["train", "words", *given, "--folder", str(tmp_path / "run"), "--out", str(tmp_path / "out")])
    assert ended.value.code == 0
    assert "its answer 'nowhere' stands nowhere" in capsys.readouterr().err
    fresh, answer = words_of(99)
    own = tmp_path / "out" / WEIGHTS.name
    found = copied_answer(as_words(fresh, (128, 128)), QUERY, weights=own)
    assert found is not None
    assert found.text == answer
    where = next(one["box"] for one in fresh if one["text"] == answer)
    assert isinstance(where, list)
    allocation = look(tmp_path / "1.png", QUERY, budget=4, relevance=own.parent, words=fresh)
    assert allocation.level_map()[int(4 * where[1]), int(4 * where[0])] == 0


def test_wrong_options_and_folders_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--forget"):
        WordsOptions(forget=1.0)
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    (tmp_path / WEIGHTS.name).write_bytes(b"no weights")
    with pytest.raises(InputError, match="chooser of words"):
        look(tmp_path / "a.png", QUERY, budget=4, relevance=tmp_path, words=words_of(1)[0])
