"""What can be told without torch is told before it is imported, and odd numbers, closed and narrow terminals are no
reason for a traceback. Nothing is timed: torch is taken away, and whoever wants it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import arr_coc

STREET = str(Path(arr_coc.__file__).parent / "examples" / "street.png")
# Runs each line of arguments in one process whose torch and transformers are gone; prints code and lines of each.
WITHOUT_TORCH = """
import contextlib, io, json, sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "gradio", "scipy"):
            raise ModuleNotFoundError(f"{name} is being imported", name=name)
sys.meta_path.insert(0, Gone())
from arr_coc.app.cli import main
found = []
for arguments in json.loads(sys.argv[1]):
    err = io.StringIO()
    code = None
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(arguments)
        except SystemExit as error:
            code = error.code
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"
    found.append([code, err.getvalue()])
print(json.dumps(found))
"""
WRONG: list[tuple[list[str], str]] = [
    (["ask", STREET, "red", "--model", "/nope"], "/nope"),
    (["ask", STREET, "red", "--set", "device=zzz"], "zzz"),
    (["ask", STREET, "red", "--record", "/nope/x.jsonl"], "/nope"),
    (["ask", STREET, "red", "--out", "AFILE"], "AFILE"),
    (["ask", STREET, "red", "--set", "strategy=zzz"], "zzz"),
    (["look", STREET, "red", "--out", "AFILE"], "AFILE"),
    (["look", STREET, "red", "--out=AFILE/deeper"], "AFILE"),
    (["look", STREET, "red", "--set", "strategy=zzz"], "zzz"),
    (["look", STREET, "red", "--set", "device=zzz"], "zzz"),
    (["look", STREET, "red", "--set", "relevance=zzz"], "zzz"),
    (["video", "http://127.0.0.1:9/a.mp4", "red"], "no file"),
    (["serve", "--upload", "nan"], "--upload"),
    (["serve", "--upload", "inf"], "--upload"),
    (["serve", "--pixels", "nan"], "--pixels"),
    (["serve", "--seconds", "nan"], "seconds"),
    (["serve", "--seconds", "inf"], "seconds"),
    (["serve", "--limit", "upload=0"], "upload"),
    (["serve", "--model", "/nope"], "/nope"),
    (["serve", "--record", "/nope/x.jsonl"], "/nope"),
    (["microscope", "--limit", "upload=nan"], "upload"),
    (["microscope", "--limit", "pixels=nan"], "pixels"),
    (["microscope", "--limit", "pixels=inf"], "pixels"),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, str]]:
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "AFILE").write_text("not a folder")
    given = json.dumps([arguments for arguments, _ in WRONG])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, given], capture_output=True, text=True, cwd=folder, timeout=1200
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not list(Path("/nope").parent.glob("nope")), "a folder was made"
    return {" ".join(arguments): tuple(one) for (arguments, _), one in zip(WRONG, found, strict=True)}


@pytest.mark.parametrize(("arguments", "part"), WRONG, ids=[" ".join(one[0][-2:]) for one in WRONG])
def test_a_wrong_option_is_told_before_torch_is_imported(
    told: dict[str, tuple[Any, str]], arguments: list[str], part: str
) -> None:
    code, err = told[" ".join(arguments)]
    assert code == 2, (code, err)
    assert len(err.strip().splitlines()) == 1
    assert part in err


# ---- closed and narrow terminals ------------------------------------------------------------------------------------


def test_a_closed_output_is_no_traceback(tmp_path: Path) -> None:
    words = ["look", STREET, "red", "--budget", "8", "--set", "relevance=detail", "--out", str(tmp_path)]
    command = ["sh", "-c", 'exec "$0" "$@" >&-', sys.executable, "-m", "arr_coc", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "street.allocation.json").exists()
