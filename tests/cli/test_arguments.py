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
from arr_coc.attending.request import check_amount
from arr_coc.core.errors import InputError

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
        *(("--scale", "0"), ("--scale", "nan"), ("--for", "bert"), ("--for", ""), ("--table", NOWHERE)),
        *(("--pages", "2"), ("--table", "."), ("--relevance", "x"), ("--cost", "--for", "bert")),
    ),
    "proxy": (
        *(("--upstream", text) for text in ("", "x", "ftp://x", "http://", "http://me:secret@x", "http://x?key=1")),
        *(("--budget", "0"), ("--budget", "many"), ("--for", "bert"), ("--port", "-1"), ("--scale", "9")),
        *(("--port", "70000"), ("--host", "0.0.0.0"), ("--relevance", "x"), ("--allow-origin", "x")),
        *(("--limit", text) for text in ("seconds=0", "batch=0", "upload=0", "pixels=nan", "cache=-1", "x=1", "queue")),
        *(("--limit", "look_seconds=0"), ("--table", NOWHERE)),
    ),
    "look": (
        *(("--budget", text) for text in ("0", "-3", "2.5", "many", "", "0%", "-5%", "200%", "%", "1e-3", "٣٪")),
        *(("--keep", text) for text in ("0", "1.5", "nan", "inf", "-0.1", "x", "", "101%")),
        *(("--seed", "x"), ("--strategy", ""), ("--strategy", "magic"), ("--device", "cuda:x"), ("--device", "")),
        *(("--compare", text) for text in ("", ",", "a", "quadtree,", "quadtree,magic", "a,b,c")),
        *(("--relevance", "x"), ("--query",), ("--budget", "9", "--keep", "0.5")),
    ),
    "ask": (
        *(("--new-tokens", text) for text in ("0", "-1", "x")),
        *(("--passes", text) for text in ("0", "5", "x", "-1")),
        *(("--budget", "0"), ("--keep", "2"), ("--device", "abacus"), ("--passes", "2", "--strategy", "uniform")),
        *(("--preset", "thrice"), ("--preset", "two_pass", "--strategy", "uniform")),
        *(("--model", text) for text in ("", "no such model", "../..//x", "a/b/c")),
        *(("--record", text) for text in (".", "feedback.txt")),
    ),
    "batch": (
        *(("--workers", text) for text in ("0", "-1", "x")),
        *(("--engine", ""), ("--questions", NOWHERE), ("--query", ""), ("--budget", "0"), ("--device", "abacus"), ()),
    ),
    "bench vqa": (("--task", ""), ("--keeps", "x"), ("--limit", "0"), ("--model", "no such model"), ()),
    "calibrate": (
        *(("--n", text) for text in ("0", "5", "x")),
        *(("--batch", "0"), ("--size", "1"), ("--device", "abacus"), ("--model", "no such model")),
    ),
    "video": (("--budget", "0"), ("--keep", "x"), ("--passes", "2"), ("--every", "x"), ("--device", "x")),
    "microscope": (
        *(("--port", text) for text in ("99999", "-1", "x")),
        *(("--limit", text) for text in ("upload=0", "pixels=0", "queue=0", "seconds=3")),
        *(("--host", "0.0.0.0"), ("--device", "abacus")),
    ),
    "serve": (
        *(("--port", text) for text in ("99999", "-1", "x")),
        *(("--limit", f"{name}=0") for name in ("batch", "queue", "upload", "pixels", "new_tokens", "seconds")),
        *(("--host", "0.0.0.0"), ("--budget", "x"), ("--limit", "pixels=9999"), ("--device", "abacus")),
        *(("--model", text) for text in ("", "no such model")),
    ),
    "demo": (("--keep", "0"), ("--questions", "-1"), ("--device", "abacus"), ("--seed", "x")),
    "needle": (
        ("--n", "0"),
        ("--n", "x"),
        ("--size", "1"),
        ("--size", "0x5"),
        ("--family", "dragons"),
        ("--split", "x"),
    ),
    "pages": (("--n", "0"), ("--n", "x"), ("--families", "dragons"), ("--split", "x"), ("--workers", "0")),
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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.text(max_size=8), max_size=4))
def test_words_that_mean_nothing_are_never_a_traceback(arr_coc: ArrCoc, words: list[str]) -> None:
    """Any words at all after `look`: a refusal, or help where it was asked for."""
    outcome = arr_coc("look", "nowhere.png", *words, "--no-draw")
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize(
    ("budget", "keep", "meant"),
    [("64", None, (64, None)), ("25%", None, (None, 0.25)), (None, "25%", (None, 0.25)), (None, "0.5", (None, 0.5))],
)
def test_budgets_and_shares(budget: str | None, keep: str | None, meant: tuple[int | None, float | None]) -> None:
    assert check_amount(budget, keep) == meant
    with pytest.raises(InputError, match="one of them"):
        check_amount(budget or "1", keep or "1")


# ---- where pictures come from ---------------------------------------------------------------------------------------


def test_a_picture_through_a_pipe(arr_coc: ArrCoc, photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for data, code in ((photo.read_bytes(), 0), (b"", 2), (b"not a picture", 2)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        outcome = arr_coc("look", "-", "the red sign", "--budget", "25%", "--json")
        assert outcome.code == code, outcome
    assert Path("out/stdin.allocation.json").exists()
    assert "stdin" in outcome.err


def test_addresses_are_fetched_only_when_that_is_said(arr_coc: ArrCoc) -> None:
    for address in ("https://127.0.0.1:9/a.png", "HTTP://127.0.0.1:9/a.png"):
        assert "--allow-url" in arr_coc("look", address, "what?").err
        refused = arr_coc("look", address, "what?", "--allow-url")
        assert_refused(refused)
        assert "cannot fetch" in refused.err
    assert_refused(arr_coc("look", "", "what?"))


def test_an_address_is_fetched(arr_coc: ArrCoc, photo: Path) -> None:
    import threading
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(photo.parent))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/street.png"
        outcome = arr_coc("look", address, "the red sign", "--allow-url", "--no-draw", "--json")
        server.shutdown()
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["looks"][0]["image"] == address
    assert [path.name for path in Path("out").iterdir()] == ["street.allocation.json"]


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
@pytest.mark.parametrize("arguments", [("look", "{photo}", "red", "--json", "--no-draw"), ("--help",)])
def test_a_full_disk_behind_the_output_is_one_line(photo: Path, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = run_process(*(word.format(photo=photo) for word in arguments), stdout=full)
    assert done.returncode == 2
    assert done.stderr.decode().count("\n") == 1
    assert "standard output" in done.stderr.decode()


def test_a_terminal_without_the_letters_gets_their_numbers(photo: Path) -> None:
    how = {"stdout": subprocess.PIPE, "env": {**os.environ, "PYTHONIOENCODING": "ascii"}}
    done = run_process("look", str(photo), "röd ×", "--no-draw", "--json", **how)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["looks"][0]["query"] == "röd ×"
    assert run_process("look", str(photo), "röd ×", "--no-draw", **how).returncode == 0


# ---- defaults of a user's own ---------------------------------------------------------------------------------------


def budget_of(outcome: Outcome) -> int:
    return json.loads(outcome.out)["looks"][0]["budget"]


def test_files_variables_and_options_in_their_order(
    arr_coc: ArrCoc, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("look", photo, "the red sign", "--json", "--no-draw")
    assert budget_of(arr_coc(*call)) == 12
    (tmp_path / "config" / "arr-coc").mkdir(parents=True)
    (tmp_path / "config" / "arr-coc" / "config.toml").write_text('[look]\nkeep = 0.5\nout = "mine"\n')
    assert budget_of(arr_coc(*call)) == 24
    Path("arr-coc.toml").write_text("[look]\nbudget = 20\n\n[bench.needle]\nquick = true\n")
    assert budget_of(arr_coc(*call)) == 20
    monkeypatch.setenv("ARR_COC_LOOK_BUDGET", "25%")
    assert budget_of(arr_coc(*call)) == 12
    assert budget_of(arr_coc(*call, "--keep", "1")) == 48
    assert Path("mine/street.allocation.json").exists()


@pytest.mark.parametrize(
    "text", ["[look", "look = 3", "[peek]", "[look]\ncolour = 'red'", "[bench]\nneedle = 1", "[look]\nbudget = 'x'"]
)
def test_files_that_cannot_be_used_are_one_line(arr_coc: ArrCoc, photo: Path, text: str) -> None:
    Path("arr-coc.toml").write_text(text)
    assert_refused(arr_coc("bench" if "bench" in text else "look", photo, "the red sign"))


def test_doctor_says_what_works(arr_coc: ArrCoc) -> None:
    outcome = arr_coc("doctor", "--json")
    document = json.loads(outcome.out)
    works = {one["feature"]: one["works"] for one in document["findings"]}
    assert works["look, without a model"]
    assert outcome.code == (0 if all(one["works"] for one in document["findings"] if one["core"]) else 2)
    assert all(one["remedy"] for one in document["findings"] if not one["works"] and one["feature"] != "CUDA")
    assert "What works here" in arr_coc("doctor").out


def test_a_shell_can_complete_commands_and_options(photo: Path) -> None:
    for line, place, expected in (("arr-coc mic", 1, "microscope"), ("arr-coc look --bud", 2, "--budget")):
        words = {"_ARR_COC_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(place)}
        done = run_process(stdout=subprocess.PIPE, env={**os.environ, **words})
        assert done.stdout.decode().split() == [expected], done.stderr
