"""An installation without torch and transformers: what can do without them works, the rest is one line with the
command that brings them. And other systems: what only Linux has is asked for nowhere at import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tiny_weights import signs

SIGNS = "signs.png"  # a part of the example street, which the fixture makes
ABSENT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""
# Runs commands and lines of Python; prints [code, lines on the standard error] of the former, the error of the latter.
PROGRAM = (
    ABSENT
    + """
import contextlib, io, json
from arr_coc.app.cli import main
found = {}
for arguments in COMMANDS:
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        try:
            main(arguments)
        except SystemExit as error:
            code = error.code
        except BaseException as error:
            code = repr(error)
    found[" ".join(arguments)] = [code, err.getvalue()]
for line in LINES:
    try:
        exec(line)
        found[line] = [0, ""]
    except BaseException as error:
        found[line] = [type(error).__name__, str(error)]
print(json.dumps(found))
"""
)
COMMANDS = [
    ["look", SIGNS, "red", "--budget", "8"],
    ["ask", SIGNS, "What does the pink sign say?", "--budget", "24"],
    ["look", SIGNS, "red", "--budget", "8", "--set", "relevance=detail"],
    ["ask", SIGNS, "red", "--set", "preset=two_pass"],
    ["look", SIGNS, "red", "--set", "strategy=random"],
    ["train", "scorer", "--steps", "1"],
]
SERVE = f"""
import queue
from arr_coc import load_picture
from arr_coc.answering.chat import Turn
from arr_coc.app.serve.api import ChatRequest, Done, ServeJob
from arr_coc.app.serve.engine import QuickEngine
from arr_coc.asking import loaded_or_light
engine, told = QuickEngine(loaded_or_light("mini", "cpu")), queue.Queue()
engine.start()
asked = ChatRequest((Turn("user", (load_picture({SIGNS!r}), "What does the pink sign say?")),))
engine.submit(ServeJob(asked, told.put))
answer = next(one for one in iter(told.get, None) if isinstance(one, Done)).answer
assert answer.text == engine.eye.set_image({SIGNS!r}).ask("What does the pink sign say?").text
engine.close()
"""
LINES = [
    f"import arr_coc; arr_coc.look({SIGNS!r}, 'red', budget=8)",
    f"import arr_coc; arr_coc.ask({SIGNS!r}, 'What does the pink sign say?', budget=24)",
    f"import arr_coc; arr_coc.ask({SIGNS!r}, 'red', budget=1.0)",
    "from arr_coc import *; import arr_coc, pydoc; pydoc.render_doc(arr_coc); look, allocate",
    "from arr_coc.app.batch.looker import Looker, LookerOptions; looker = Looker(LookerOptions('mini')); "
    f"row = looker(dict(path={SIGNS!r}, query='What does the pink sign say?')); assert row['text'], row",
    SERVE,
    "from arr_coc import attach",
    "import arr_coc; arr_coc.Eye.from_pretrained('mini')",
]
WORKS = (0, 1, 2)  # of the commands


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    head = f"ABSENT = {{'torch', 'transformers'}}\nCOMMANDS = {COMMANDS!r}\nLINES = {LINES!r}\n"
    folder = tmp_path_factory.mktemp("without")
    Image.fromarray(signs()).save(folder / SIGNS)
    done = subprocess.run(
        [sys.executable, "-c", head + PROGRAM], capture_output=True, text=True, cwd=folder, timeout=1200
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_a_command_works_without_torch_or_names_the_extra(found: dict[str, list[Any]], number: int) -> None:
    code, err = found[" ".join(COMMANDS[number])]
    if number in WORKS:
        assert (code, err) == (0, "")
        return
    assert code == 2, (code, err)
    assert len(err.strip().splitlines()) == 1
    assert 'pip install "arr-coc[torch]"' in err


@pytest.mark.parametrize("number", range(len(LINES)))
def test_the_library_works_without_torch_or_names_the_extra(found: dict[str, list[Any]], number: int) -> None:
    kind, line = found[LINES[number]]
    if number < 6:
        assert (kind, line) == (0, "")
        return
    assert kind == "MissingPackage"
    assert 'pip install "arr-coc[torch]"' in line
    assert "\n" not in line


def test_other_systems_import_it_all_the_same(tmp_path: Path) -> None:
    """As on Windows: no fork, no fcntl, no resource, no priorities of threads; a look is written with its files."""
    head = "ABSENT = {'fcntl', 'resource', 'pwd', 'grp', 'termios'}\n"
    # Other people's packages know their systems themselves.
    head += "import typer, rich.console, torch, transformers, gradio, fastapi, uvicorn, prometheus_client, cv2, av\n"
    head += "import subprocess, multiprocessing, concurrent.futures, tempfile, asyncio, pyarrow.parquet\n"
    program = """
import os
for name in ("fork", "setpriority", "getpriority", "getloadavg", "sched_getaffinity", "mkfifo"):
    if hasattr(os, name):
        delattr(os, name)
sys.platform = "win32"
import arr_coc.app.cli as cli
import arr_coc.app.serve.engine, arr_coc.app.serve.api, arr_coc.app.microscope.serving, arr_coc.app.batch.engines
import arr_coc.answering.eye, arr_coc.video.decode, arr_coc.answering
from arr_coc.core.folders import replacing
from arr_coc.core.runs import check_folder
check_folder("results")
with replacing("results/a.json") as temporary:
    temporary.write_text("{}")
print(open("results/a.json").read())
"""
    done = subprocess.run(
        [sys.executable, "-c", head + ABSENT + program], capture_output=True, text=True, cwd=tmp_path, timeout=1200
    )
    assert (done.returncode, done.stdout.strip()) == (0, "{}"), done.stderr
