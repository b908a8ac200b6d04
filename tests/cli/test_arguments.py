"""What no command should take: each gets one line and exit code 2, whatever it is and wherever it comes from."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_pictures import Outcome, street
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from arr_coc.app.cli import COMMANDS, IN_THE_LAB

ArrCoc = Callable[..., Outcome]
NOWHERE = "nowhere/nothing.png"
# Commands without what follows their name, so that what is wrong is the argument alone.
CALLS = {
    "look": ("{photo}", "what?"),
    "ask": ("{photo}", "what?"),
    "pack": ("{photo}", "what?", "--for", "mini"),
    "proxy": ("--upstream", "http://127.0.0.1:9"),
    "batch": ("{photo}",),
    "calibrate": (),
    "video": ("{photo}", "what?"),
    "microscope": (),
    "serve": (),
    "mcp": (),
    "demo": (),
    "needle": (),
    "pages": (),
    "train curve": ("{photo}",),
    "bench speed": (),
    "bench needle": (),
    "bench vqa": ("--data", "{photo}", "--task", "needle"),
    "doctor": (),
}
EVERYWHERE = (("--no-such-option",), ("--json=maybe",), ("surplus", "surplus", "surplus", "--no"))
BAD = {
    "pack": (
        *(("--budget", text) for text in ("0", "-3", "2.5", "many", "", "0%")),
        *(("--set", "scale=0"), ("--set", "scale=nan"), ("--for", "bert"), ("--for", ""), ("--table", NOWHERE)),
        *(("--pages", "2"), ("--table", "."), ("--set", "relevance=x")),
    ),
    "proxy": (
        *(("--upstream", text) for text in ("", "x", "ftp://x", "http://", "http://me:secret@x", "http://x?key=1")),
        *(("--budget", "0"), ("--budget", "many"), ("--for", "bert"), ("--bind", "-1"), ("--set", "scale=9")),
        *(("--bind", "70000"), ("--bind", "0.0.0.0:0"), ("--set", "relevance=x")),
        *(("--limit", text) for text in ("seconds=0", "batch=0", "upload=0", "pixels=nan", "cache=-1", "x=1", "queue")),
        *(("--limit", "look_seconds=0"),),
    ),
    "mcp": (("--root", NOWHERE), ("--bind", "-1"), ("--limit", "x=1"), ("--limit", "pages=0"), ("--for", "bert")),
    "look": (
        *(("--budget", text) for text in ("0", "-3", "2.5", "many", "", "0%", "-5%", "200%", "%", "٣٪")),
        *(("--budget", text) for text in ("0", "1.5", "nan", "inf", "-0.1", "x", "", "101%")),
        *(
            ("--set", "seed=x"),
            ("--set", "strategy="),
            ("--set", "strategy=magic"),
            ("--set", "device=cuda:x"),
            ("--set", "device="),
        ),
        *(("--set", "relevance=x"), ("--set", "levels"), ("--set", "lvels=2")),
    ),
    "ask": (
        *(("--set", f"max_new_tokens={text}") for text in ("0", "-1", "x")),
        *(
            ("--budget", "0"),
            ("--set", "device=abacus"),
            ("--set", "preset=two_pass", "--set", "strategy=uniform"),
        ),
        *(("--set", "preset=thrice"), ("--set", "preset=two_pass", "--set", "strategy=uniform")),
        *(("--model", text) for text in ("", "no such model", "../..//x", "a/b/c")),
        *(("--record", text) for text in (".", "feedback.txt")),
    ),
    "batch": (
        *(("--workers", text) for text in ("0", "-1", "x")),
        *(
            ("--engine", ""),
            ("--questions", "is gone"),
            ("--query", ""),
            ("--budget", "0"),
            ("--set", "device=abacus"),
            (),
        ),
    ),
    "bench vqa": (("--task", ""), ("--keeps", "x"), ("--limit", "0"), ("--model", "no such model"), ()),
    "calibrate": (
        *(("--n", text) for text in ("0", "5", "x")),
        *(("--device", "abacus"), ("--model", "no such model")),
    ),
    "video": (
        ("--budget", "0"),
        ("--budget", "x"),
        ("--every", "x"),
        ("--set", "device=x"),
    ),
    "microscope": (
        *(("--bind", text) for text in ("99999", "-1", "x")),
        *(("--limit", text) for text in ("upload=0", "pixels=0", "queue=0", "seconds=3")),
        *(("--bind", "0.0.0.0:0"), ("--set", "device=abacus")),
    ),
    "serve": (
        *(("--bind", text) for text in ("99999", "-1", "x")),
        *(("--limit", f"{name}=0") for name in ("batch", "queue", "upload", "pixels", "new_tokens", "seconds")),
        *(("--bind", "0.0.0.0:0"), ("--budget", "x"), ("--limit", "pixels=9999"), ("--set", "device=abacus")),
        *(("--model", text) for text in ("", "no such model")),
    ),
    "demo": (("--keep", "0"), ("--device", "abacus"), ("--seed", "x")),
    "needle": (
        ("--n", "0"),
        ("--n", "x"),
        ("--size", "1"),
        ("--size", "0x5"),
        ("--family", "dragons"),
        ("--split", "x"),
    ),
    "pages": (("--n", "0"), ("--n", "x"), ("--layouts", "dragons"), ("--split", "x"), ("--workers", "0")),
    "bench speed": (("--repeats", "0"),),
    "bench needle": (("--n", "0"), ("--family", "dragons"), ("--size", "x"), ("--from", NOWHERE)),
}
CASES = [
    (name, bad) for name in CALLS for bad in (*EVERYWHERE[: 1 if name == "train curve" else 3], *BAD.get(name, ()))
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of the machine's owner takes part, and nothing is left in the checkout."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


def assert_refused(outcome: Outcome) -> None:
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("arr-coc: "), outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(("name", "bad"), CASES, ids=[f"{name} {' '.join(bad)}" for name, bad in CASES])
def test_bad_arguments_get_one_line_and_exit_code_two(
    arr_coc: ArrCoc, photo: Path, name: str, bad: tuple[str, ...]
) -> None:
    call = [*name.split(), *(word.format(photo=photo) for word in CALLS[name]), *bad]
    assert_refused(arr_coc(*call))


def test_every_command_is_tried() -> None:
    assert {name.split()[0] for name in CALLS} == {*COMMANDS, *IN_THE_LAB}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.text(max_size=8), max_size=4))
def test_words_that_mean_nothing_are_never_a_traceback(arr_coc: ArrCoc, words: list[str]) -> None:
    """Any words at all after `look`: a refusal, or help where it was asked for."""
    outcome = arr_coc("look", "nowhere.png", *words)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


# ---- where pictures come from ---------------------------------------------------------------------------------------


def test_a_picture_through_a_pipe(arr_coc: ArrCoc, photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for data, code in ((photo.read_bytes(), 0), (b"", 2), (b"not a picture", 2)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        outcome = arr_coc("look", "-", "the red sign", "--budget", "25%", "--json")
        assert outcome.code == code, outcome
    assert Path("out/stdin.allocation.json").exists()
    assert "stdin" in outcome.err


def test_addresses_are_not_fetched(arr_coc: ArrCoc) -> None:
    for address in ("https://127.0.0.1:9/a.png", "HTTP://127.0.0.1:9/a.png", ""):
        assert_refused(arr_coc("look", address, "what?"))


def test_a_hub_that_cannot_be_reached_is_told_at_once(arr_coc: ArrCoc, photo: Path) -> None:
    refused = arr_coc("ask", photo, "what?", "--model", "somebody/something")
    assert_refused(refused)
    assert "cannot be reached" in refused.err


# ---- what is printed ------------------------------------------------------------------------------------------------


def test_names_in_brackets_are_not_markup(arr_coc: ArrCoc) -> None:
    for folder in ("one", "two"):
        Path(folder).mkdir()
        Image.fromarray(street()).save(f"{folder}/[b]a.png")
    outcome = arr_coc("look", "one/[b]a.png", "[the] red [/sign]")
    assert "[b]a.png: [the] red [/sign]" in outcome.out
    assert "files: out/[b]a.homunculus.png" in outcome.out
    outcome = arr_coc("look", "one", "two", "the red sign")
    assert outcome.out.count("[b]a.png") == 2


def run_process(*arguments: str, **how: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "arr_coc", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=120, **how)  # type: ignore[call-overload]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("arguments", [("look", "{photo}", "red", "--json"), ("--help",)])
def test_a_full_disk_behind_the_output_is_one_line(photo: Path, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = run_process(*(word.format(photo=photo) for word in arguments), stdout=full)
    assert done.returncode == 2
    assert done.stderr.decode().count("\n") == 1
    assert "standard output" in done.stderr.decode()


def test_a_terminal_without_the_letters_gets_their_numbers(photo: Path) -> None:
    how = {"stdout": subprocess.PIPE, "env": {**os.environ, "PYTHONIOENCODING": "ascii"}}
    done = run_process("look", str(photo), "röd ×", "--json", **how)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["looks"][0]["query"] == "röd ×"
    assert run_process("look", str(photo), "röd ×", **how).returncode == 0
