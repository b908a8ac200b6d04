"""What is written into pages, before any browser: seeds, splits, questions, typefaces."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from arr_coc_lab.worlds.pages import families as families_package
from arr_coc_lab.worlds.pages.families import FAMILIES
from arr_coc_lab.worlds.pages.sheet import PageSheet, environment, readable, wordings
from arr_coc_lab.worlds.pages.typefaces import HELD, TRAIN, typefaces
from arr_coc_lab.worlds.words import vocabulary

CODE = """
import hashlib
from arr_coc_lab.worlds.pages.families import FAMILIES
from arr_coc_lab.worlds.pages.sheet import PageSheet
digest = hashlib.sha256()
for name, family in FAMILIES.items():
    for layout, write in [*family.train.items(), *family.held.items()]:
        sheet = PageSheet("train", 3, 5)
        digest.update((sheet.document(write(sheet)) + repr(sheet.questions)).encode())
print(digest.hexdigest())
"""


def written(split: str = "train", seed: int = 3):
    for name, family in FAMILIES.items():
        for layout, write in (family.train if split == "train" else family.held).items():
            sheet = PageSheet(split, seed, 5)
            yield name, layout, sheet, sheet.document(write(sheet))


def test_the_same_seed_writes_the_same_pages_in_another_process():
    found = {
        subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(found) == 1


def test_no_layout_and_no_typeface_serves_both_splits():
    for family in FAMILIES.values():
        assert not family.train.keys() & family.held.keys()
    assert TRAIN.keys() == HELD.keys()
    shared = {face for manner in TRAIN for face in typefaces("train", manner)} & {
        face for manner in HELD for face in typefaces("val", manner)
    }
    assert not shared


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_page_names_its_layout_and_only_typefaces_of_its_split(split):
    other = "val" if split == "train" else "train"
    foreign = [face for manner in TRAIN for face in typefaces(other, manner)]
    for family, layout, sheet, html in written(split):
        assert sheet.layout, (family, layout)
        assert not [face for face in foreign if f"'{face}'" in html], (family, layout)


def test_every_question_is_in_the_alphabet_and_answered_by_its_marks():
    asked = 0
    for _, layout, sheet, _ in written():
        for question in sheet.questions:
            asked += 1
            assert readable(question.text)
            assert readable(question.answer)
            assert question.answers
            if question.kind not in ("count",):
                assert question.answer == " ".join(sheet.marks[key] for key in question.answers), (layout, question)
    assert asked > 500


def test_what_stands_twice_is_not_asked_for():
    sheet = PageSheet("train", 0, 0)
    pairs = [
        (sheet.mark(f"{label}:"), sheet.mark(value))
        for label, value in (("Date", "1 May"), ("DATE", "2 May"), ("To", "Ann"))
    ]
    for label, value in pairs:
        sheet.ask_field(label.text, "date", value, label)
    clear = [q.answer for q in sheet.questions if sheet.one_meaning(q, sheet.marks)]
    assert clear == ["Ann"]
    # Where the second one was cut off at the page's end, the first has one meaning again.
    left = [key for key in sheet.marks if key not in (pairs[1][0].key, pairs[1][1].key)]
    assert [q.answer for q in sheet.questions if sheet.one_meaning(q, left)] == ["1 May", "2 May", "Ann"]


def test_every_template_is_filled_by_some_layout():
    for seed in range(4):
        for split in ("train", "val"):
            list(written(split, seed))
    filled = {name for _, name in environment().cache}
    assert filled == set(environment().list_templates())


def test_text_is_escaped_and_marks_are_spans_that_carry_their_keys():
    mark = PageSheet("train", 0, 0).mark("a < b & c")
    shown = environment().from_string('{{ text }} {{ mark|style("color:red") }}').render(text="<i>'", mark=mark)
    assert shown == '&lt;i&gt;&#x27; <span data-t="1" style="color:red">a &lt; b &amp; c</span>'


def test_every_wording_and_vocabulary_that_is_named_is_there():
    lists = {"word": 0, "some": 0, "vocabulary": 0}
    wording = {"ask": 1, "asked": 1, "titled": 2}
    checked = 0
    for path in Path(families_package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            for places, look_up in ((lists, vocabulary), (wording, wordings)):
                at = places.get(name, 99)
                if isinstance(node, ast.Call) and len(node.args) > at and isinstance(node.args[at], ast.Constant):
                    checked += 1
                    assert look_up(node.args[at].value), (path.name, node.args[at].value)
    assert checked > 50
