"""`arr-coc ask` on a tiny random Qwen3-VL in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from tiny_models import picture, save_stock
from tiny_weights import needs_weights

from arr_coc.core.values import Allocation


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return save_stock(tmp_path_factory.mktemp("model"))


@pytest.fixture
def image(tmp_path) -> Path:
    path = tmp_path / "square.png"
    picture(256, 320).save(path)
    return path


def test_lines_for_people_and_files_for_later(arr_coc, model, image, tmp_path):
    out = tmp_path / "out"
    outcome = arr_coc(
        "ask", image, "what colour", "--model", model, "--budget", 20, "--set", "max_new_tokens=3", "--out", out
    )
    assert outcome.code == 0, outcome.err
    for word in ("answer", "uncertainty", "20 of 80", "seconds"):
        assert word in outcome.out
    assert sorted(path.name for path in out.iterdir()) == [
        "square.allocation.json",
        "square.answer.json",
        "square.homunculus.png",
    ]
    assert Allocation.from_json((out / "square.allocation.json").read_text()).tokens == 20


def test_json_for_machines(arr_coc, model, image):
    outcome = arr_coc("ask", image, "what colour", "-m", model, "--budget", 0.25, "--set", "max_new_tokens=2", "--json")
    document = json.loads(outcome.out)
    assert document["tokens"] == 20
    assert document["query"] == "what colour"
    assert 0 <= document["uncertainty"] <= 1


def test_a_picture_may_be_read_larger(arr_coc, model, image):
    given = ("ask", image, "what colour", "-m", model, "--budget", 20, "--set", "max_new_tokens=2", "--json")
    plain, larger = (json.loads(arr_coc(*given, *more).out) for more in ((), ("--set", "scale=1.5")))
    assert (plain["tokens"], plain["full"]) == (20, 80)
    assert (larger["tokens"], larger["full"]) == (20, 80)
    assert larger["passes"][0]["allocation"]["scale"] == 1.5
    assert larger["passes"][0]["allocation"]["image"] == {"height": 256, "width": 320}
    for wrong, word in ((0, "scale"), (9, "0.25 to 4")):
        outcome = arr_coc(*given, "--set", f"scale={wrong}")
        assert outcome.code == 2
        assert word in outcome.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["missing.png", "x"], "missing.png"),
        (["{image}", " "], "question"),
        (["{image}", "x", "-m", "{image}"], "cannot load"),
        (["{image}", "x", "-m", "{model}", "--set", "strategy=wishful"], "wishful"),
        (["{image}", "x", "-m", "{model}", "--set", "relevance=wishful"], "wishful"),
        (["{image}", "x", "--set", "device=abacus"], "abacus"),
        (["{image}", "x", "-m", "{model}", "--budget", "9", "--out", "{image}/x"], "cannot write"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_two(arr_coc, model, image, arguments, word):
    outcome = arr_coc("ask", *(argument.format(image=image, model=model) for argument in arguments))
    assert outcome.code == 2
    assert word in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


@needs_weights
def test_without_a_model_the_bundled_one_is_asked(arr_coc, image, tmp_path):
    outcome = arr_coc("ask", image, "what colour is it?", "--out", tmp_path / "out", "--json")
    document = json.loads(outcome.out)
    assert document["model"] == "mini"
    assert (document["tokens"], document["full"]) == (20, 80)
    assert document["passes"][0]["margin"] >= 0
    assert document["passes"][0]["entropy"] >= 0
    # With the scorer's map there are four panes instead of three.
    with Image.open(document["files"]["homunculus"]) as page:
        assert page.height > page.width


@needs_weights
def test_relevance_may_be_chosen(arr_coc, image):
    answers = [
        json.loads(
            arr_coc(
                "ask", image, "what colour is it?", "--set", f"relevance={name}", "--set", "max_new_tokens=2", "--json"
            ).out
        )
        for name in ("auto", "scorer", "look")
    ]
    places = [answer["passes"][0]["allocation"]["regions"] for answer in answers]
    assert places[0] == places[1] != places[2]


@needs_weights
def test_looking_by_the_scorer(arr_coc, image, tmp_path):
    documents = [
        json.loads(arr_coc("look", image, "what colour is it?", *how, "--out", tmp_path, "--json").out)["looks"][0]
        for how in ((), ("--set", "relevance=scorer"))
    ]
    assert documents[0]["tokens"] == documents[1]["tokens"]
    assert documents[0]["allocation"]["regions"] != documents[1]["allocation"]["regions"]
    assert "scorer" in documents[1]["notes"][-1]
    refused = arr_coc("look", image, "x", "--set", "relevance=wishful", "--out", tmp_path)
    assert refused.code == 2
    assert "wishful" in refused.err
