"""Pages as Chromium draws them: boxes on ink, answers inside their boxes, the same bytes again. Skipped without it."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from arr_coc.app.cli import main
from arr_coc.core.errors import InputError
from arr_coc_lab.worlds.pages import drawing, export
from arr_coc_lab.worlds.pages.drawing import Artist, browser, check_tools, make_page
from arr_coc_lab.worlds.pages.families import FAMILIES
from arr_coc_lab.worlds.pages.pack import picture_of, read_pack


def tools_missing() -> str:
    try:
        check_tools()
    except InputError as error:
        return str(error)
    return ""


needs_browser = pytest.mark.skipif(bool(tools_missing()), reason=tools_missing() or "all there")


@pytest.fixture(scope="module")
def pages():
    """One page of every family, and of those kept aside."""
    with browser() as running:
        artist = Artist(running)
        return [make_page(artist, split, 9, 0, (name,)) for split in ("train", "val") for name in FAMILIES]


@needs_browser
def test_every_family_gives_a_page_with_questions(pages):
    assert [page.family for page in pages] == [*FAMILIES] * 2
    for page in pages:
        assert page.questions, page.name
        assert picture_of(page).shape == (page.height, page.width, 3)
        assert page.width % 32 == page.height % 32 == 0


@needs_browser
def test_words_stand_where_their_ink_is(pages):
    inked = words = 0
    for page in pages:
        picture = picture_of(page).astype(int)
        for x0, y0, x1, y1 in page.word_boxes.tolist():
            region = picture[y0:y1, x0:x1].reshape(-1, 3)
            words += 1
            inked += bool(np.ptp(region, axis=0).max() > 60)
    assert words > 1000
    assert inked / words > 0.985  # a dot or a pale grey sign may stay below


@needs_browser
def test_characters_lie_in_their_word_from_left_to_right(pages):
    for page in pages:
        lengths = [len(word) for word in page.words]
        assert sum(lengths) == len(page.char_boxes)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        words, chars = page.word_boxes[owner].astype(int), page.char_boxes.astype(int)
        assert (chars[:, :2] >= words[:, :2] - 1).all()
        assert (chars[:, 2:] <= words[:, 2:] + 2).all()


@needs_browser
def test_answers_are_the_words_inside_their_boxes(pages):
    asked = 0
    for page in pages:
        centres = (page.word_boxes[:, :2].astype(float) + page.word_boxes[:, 2:]) / 2
        for question in page.questions:
            if question.kind in ("count",):
                continue
            asked += 1
            inside = np.zeros(len(page.words), dtype=bool)
            for x0, y0, x1, y1 in question.boxes.tolist():
                inside |= ((centres > (x0, y0)) & (centres < (x1, y1))).all(1)
            found = [word for word, here in zip(page.words, inside, strict=True) if here]
            assert set(question.answer.split()) <= set(found), (page.name, question.text)
    assert asked > 200


@needs_browser
def test_the_same_seed_gives_the_same_bytes(pages):
    with browser() as running:
        artist = Artist(running)
        make_page(artist, "train", 1, 3)  # what was drawn before does not matter
        again = make_page(artist, "train", 9, 0, ("forms",))
    before = next(page for page in pages if page.family == "forms")
    assert again.picture == before.picture
    assert again.words == before.words


@needs_browser
def test_the_command_writes_resumes_and_packs(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(export, "PART", 2)
    out = tmp_path / "pages"
    arguments = [
        "pages",
        *["--n", "3", "--seed", "2", "--families", "receipts,bars", "--json", "--out"],
        str(out),
    ]
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    told = json.loads(capsys.readouterr().out)
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert told["pages"] == 3
    assert told["questions"] == len(records)
    keys = {"id", "source", "image", "w", "h", "query", "answer", "boxes", "box_kind", "any_of", "ctx_boxes", "qtype"}
    assert all(record.keys() == keys for record in records)
    assert all(0 <= value <= 1 for record in records for box in record["boxes"] for value in box)
    assert Image.open(out / records[0]["image"]).size == (records[0]["w"], records[0]["h"])
    assert (out / "contact_sheet.png").exists()
    packed = read_pack(told["packs"])
    assert sum(len(page.questions) for page in packed) == len(records)
    # A part that is there is not drawn again; one that was lost is.
    parts = sorted((out / "packs").iterdir())
    kept, lost = parts[0].stat().st_mtime_ns, parts[1].read_bytes()
    parts[1].unlink()
    with pytest.raises(SystemExit):
        main(arguments)
    assert parts[0].stat().st_mtime_ns == kept
    assert parts[1].read_bytes() == lost


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--n", "0"], "--n 0 makes no page"),
        (["--split", "test"], "--split 'test' is unknown; take one of train, val"),
        (["--families", "poems"], "--families 'poems' is unknown"),
        (["--workers", "0"], "--workers 0 draws nothing"),
    ],
)
def test_bad_input_is_one_line(arguments, line, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["pages", *arguments])
    told = capsys.readouterr().err.strip()
    assert stopped.value.code == 2
    assert line in told
    assert "\n" not in told


def test_missing_tools_are_named_with_the_remedy(tmp_path, capsys, monkeypatch):
    pytest.importorskip("playwright")
    monkeypatch.setattr(drawing, "BROWSERS", ("no-such-browser",))
    with pytest.raises(SystemExit) as stopped:
        main(["pages", "--n", "1", "--out", str(tmp_path)])
    assert stopped.value.code == 2
    assert "apt-get install chromium" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(drawing, "missing", lambda: tuple("abcdefghijk"))
    if shutil.which("chromium"):
        with pytest.raises(InputError, match="11 typefaces are missing"):
            check_tools()
