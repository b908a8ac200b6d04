"""Editors and type checkers know every public name: wrong calls are errors before anything runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import arr_coc

ROOT = Path(__file__).parents[1]
HEAD = """
from typing import Any
import arr_coc
from arr_coc.looking import examine, prepare
from arr_coc import VideoStream, watch
def about(model: Any, processor: Any, frames: Any, eye: arr_coc.Eye) -> None:
"""
WRONG = """
    arr_coc.look("a.png", "what?", budegt=3)
    arr_coc.look("a.png", 3)
    arr_coc.look("a.png", "what?", strategy=3)
    arr_coc.look("a.png", "what?", options={"levels": 2})
    arr_coc.look("a.png", "what?").text
    arr_coc.lok("a.png", "what?")
    arr_coc.Options(cell="wide")
    arr_coc.Options(lvels=2)
    examine("a.png", "what?", relevence="look")
    prepare("a.png").look("what?", strategy=3)
    arr_coc.ask("a.png", "what?", bugdet=3)
    arr_coc.ask("a.png", "what?").answer
    eye.ask("what?", allocation="here")
    eye.chat("a.png").ask("what?", bugdet=3)
    eye.chat("a.png").ask("what?", budget=None).answer
    eye.chat(sytem="be brief")
    eye.stream("what?", bugdet=3)
    arr_coc.Eye.from_pretrained(3)
    arr_coc.attach(model, processor, relevence="look")
    arr_coc.attach(model, processor, videos=3)
    watch(frames, "what?", bugdet=3)
    VideoStream(3)
"""
RIGHT = """
    oracle = arr_coc.Options(strategy="oracle", strategy_options={"boxes": [[0, 0, 1, 1]]}, words=[], budget="10%")
    arr_coc.look("a.png", "what?", "25%", relevance="scorer").tokens
    arr_coc.look("a.png", "what?", options=oracle)
    examine("a.png", "what?", arr_coc.Options(budget=64, levels=2, canvas=(512, 512))).notes
    prepare("a.png").look("what?", arr_coc.Options(relevance=lambda picture, question: picture))
    arr_coc.ask("a.png", "what?", 64, model=eye, relevance="glance").allocation.tokens
    eye.set_image("a.png").ask("what?", "10%", oracle).text
    eye.chat("a.png", system="be brief").show("b.png").ask("what?", [3, 4], oracle).tokens
    next(eye.stream("what?", 3, oracle)).upper()
    arr_coc.attach(model, processor, [3, 4], relevance="look").last[0].tokens
    watch(frames, "what?", 0.1, options=arr_coc.Options(relevance="scorer")).tokens
"""


NAMES = [name for name in arr_coc.__all__ if name != "__version__"]
# File → the calls in it. A name that is Any would pass for an int.
CALLS = {"wrong": WRONG, "right": RIGHT, "names": "".join(f"    _{name}: int = arr_coc.{name}\n" for name in NAMES)}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """File → the lines in which the type checker finds an error."""
    folder = tmp_path_factory.mktemp("typed")
    files = [folder / f"{name}.py" for name in CALLS]
    for file, calls in zip(files, CALLS.values(), strict=True):
        file.write_text(HEAD + calls, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("ty")), "check", "--output-format", "concise", *map(str, files)]
    command += ["--python", sys.prefix, "--color", "never"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    found = re.findall(r"(\w+)\.py:(\d+):\d+: error", done.stdout)
    assert found, done.stdout + done.stderr
    return {name: {int(line) for file, line in found if file == name} for name in CALLS}


def test_every_wrong_call_is_an_error(told):
    lines = (HEAD + WRONG).splitlines()
    first = len(HEAD.splitlines()) + 1
    assert not [lines[number] for number in range(first, len(lines)) if number + 1 not in told["wrong"]]


def test_no_right_call_is_one(told):
    assert not told["right"]


def test_every_public_name_is_there_for_checkers_and_at_run_time(told):
    assert all(getattr(arr_coc, name) is not None for name in NAMES)
    assert set(NAMES) <= set(dir(arr_coc))
    assert len(told["names"]) == len(NAMES)
