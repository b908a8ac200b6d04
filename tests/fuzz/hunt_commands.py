"""The arguments of every command, by the tree that `--help` is made from.

Quick commands are run to their end. The long ones are run with one argument that they refuse after all others were read
(a device that is none, a folder below a file), or, where they have none, only read.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fuzzing import Case
from hunt_files import coloured
from PIL import Image
from spoiling import NUMBERS, TEXTS, spoil_bytes
from typer.main import get_command

from arr_coc.app.cli import COMMANDS, build, main

# Commands that end by themselves in about a second, whatever they are given.
QUICK = {"look", "ask", "needle", "video", "doctor", "config"}
REFUSED = ("--device", "abacus")
# What an option gets that must not be left to chance: amounts of work, and places outside the folder of the hunt.
WORK = {"--n": ("1", "2", "0", "-1", "x"), "--new-tokens": ("1", "2", "0", "-1", "x"), "--frames": ("2", "0", "x")}
WORK |= {"--size": ("64x64", "96x128", "0x0", "1", "x", "-5x7", "64x"), "--repeats": ("0", "-1", "x")}
WORK |= {"--passes": ("1", "2", "0", "9", "x"), "--pixels": ("0", "x", "9999999999")}
PLACES = {"--out", "--folder", "--save"}
NEVER = {"--open", "--help", "-h"}


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inside = getattr(command, "commands", None)
    if not inside:
        yield path, command
        return
    for name, one in inside.items():
        yield from leaves(one, (*path, name))


def commands(folder: Path) -> Callable[[random.Random], Case]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
    from tiny_weights import tiny_weights

    tiny_weights(folder / "weights")
    Image.fromarray(coloured(64, 96)).save(folder / "a.png")
    frames = [Image.fromarray(coloured(64, 96, seed)) for seed in range(3)]
    frames[0].save(folder / "clip.gif", save_all=True, append_images=frames[1:], duration=100)
    (folder / "damaged.png").write_bytes(spoil_bytes(random.Random(0), (folder / "a.png").read_bytes()))
    (folder / "file").write_text("not a folder")
    (folder / "record.json").write_text('{"curve": [{"step": 1, "loss": 2.0}], "plan": {}}')
    tree = [found for name in COMMANDS for found in leaves(get_command(build([name])).commands[name], (name,))]  # type: ignore[attr-defined]
    files = ("a.png", "clip.gif", "damaged.png", "file", "nowhere.png", ".", "*.png", "weights", "record.json", "")

    def value_of(chance: random.Random, flag: str) -> str:
        if flag in WORK:
            return chance.choice(WORK[flag])
        if flag in PLACES:
            return chance.choice(("out", "file/out", "out/deep/er"))
        if flag == "--model":
            return chance.choice(("weights/mini", "weights/mini", "weights", "nowhere", "a.png", "", "\0", "a/b"))
        if flag == "--device":
            return chance.choice(("cpu", "cpu", "cpu", "abacus", "cuda:99", "", "meta"))
        kind = chance.randrange(4)
        text = str(chance.choice(NUMBERS)) if kind == 0 else chance.choice(files if kind == 1 else TEXTS)
        return text.replace("\0", "0") if chance.random() < 0.9 else text

    def draw(chance: random.Random) -> Case:
        path, command = chance.choice(tree)
        name = " ".join(path)
        given, flags = list(path), [one for one in command.params if one.param_type_name == "option"]
        for place in [one for one in command.params if one.param_type_name == "argument"]:
            least = 2 if place.nargs == -1 else 1
            given += [
                chance.choice((*files, *TEXTS)) for _ in range(chance.choice((least, least, least, 0, least + 1)))
            ]
        if path[0] in ("look", "ask", "video") and chance.random() < 0.7:
            given[len(path) :] = [chance.choice(("a.png", "clip.gif", "damaged.png")), chance.choice(("red", *TEXTS))]
        for one in chance.sample(flags, min(len(flags), chance.choice((0, 1, 1, 2, 3)))):
            flag = chance.choice((*one.opts, *one.secondary_opts))
            if flag not in NEVER:
                given += [flag] if one.is_flag else [flag, value_of(chance, one.opts[0])]
        if chance.random() < 0.1:
            given.insert(chance.randrange(len(given) + 1), chance.choice((*TEXTS, "--no-such-option", "--json")))
        known = {flag for one in command.params for flag in one.opts}
        if path[0] in ("ask", "video") and "--model" not in given:
            given += ["--model", "weights/mini"] if path[0] == "ask" else []
        if "--new-tokens" in known and "--new-tokens" not in given:
            given += ["--new-tokens", "2"]
        if name == "needle":
            given += [*([] if "--n" in given else ["--n", "1"]), *([] if "--size" in given else ["--size", "64x64"])]
        short = name in QUICK
        if not short and "--device" in known:
            given += REFUSED
            short = True

        def call() -> None:
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), standard_input():
                code = run(given) if short else read(command, given[len(path) :])
            said = err.getvalue()
            assert "Traceback" not in said + out.getvalue(), said
            assert code in (0, 1, 2), (code, said)
            if code == 2 and "usage:" not in said:
                assert said.strip(), "nothing was said"
                assert all(line.startswith("arr-coc: ") for line in said.strip().splitlines()), said

        return " ".join(map(repr, given)), call

    return draw


@contextlib.contextmanager
def standard_input() -> Iterator[None]:
    kept = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"not a picture"))
    try:
        yield
    finally:
        sys.stdin = kept
        os.chdir(os.getcwd())


def run(given: list[str]) -> int:
    try:
        main(given)
    except SystemExit as ended:
        return int(ended.code or 0)
    raise AssertionError("the command did not exit")


def read(command: Any, given: list[str]) -> int:
    """Only what the command line itself makes of it: a usage error is one line, by `main`."""
    import typer

    usage_error = typer.BadParameter.__mro__[2]
    try:
        command.make_context("arr-coc", given)
    except (usage_error, typer.Exit, typer.Abort):
        return 0
    return 0
