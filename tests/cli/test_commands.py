"""What the commands print and write."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_pictures import Outcome, street
from PIL import Image

import arr_coc as library
from arr_coc.app.cli import summaries
from arr_coc.looking import prepare
from arr_coc.pictures.load import Picture

ArrCoc = Callable[..., Outcome]


def test_help_lists_every_command_without_importing_it(arr_coc: ArrCoc) -> None:
    outcome = arr_coc("--help")
    assert outcome.code == 0
    listed = re.findall(r"^  (\w+)  +(.*)$", outcome.out.partition("Commands:")[2], flags=re.MULTILINE)
    assert listed == list(summaries().items())
    assert [name for name, _ in listed][:4] == ["look", "ask", "batch", "serve"]
    code = (
        "import sys\nfrom arr_coc.app.cli import main\ntry:\n main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'cv2', 'numpy', 'PIL', 'rich.console'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"


@pytest.mark.parametrize("name", list(summaries()))
def test_every_command_has_help_with_examples(arr_coc: ArrCoc, name: str) -> None:
    outcome = arr_coc(name, "--help")
    assert outcome.code == 0
    assert f"arr-coc {name} " in outcome.out
    assert "Examples:" in outcome.out


def test_version_and_no_arguments(arr_coc: ArrCoc) -> None:
    assert arr_coc("--version").out.strip() == f"arr-coc {library.__version__}"
    assert arr_coc().out == arr_coc("--help").out


def test_look_writes_both_files_and_prints_its_levels(arr_coc: ArrCoc, photo: Path, tmp_path: Path) -> None:
    outcome = arr_coc(
        "look", photo, "What number is on the red sign?", "--budget", 12, "--out", tmp_path / "new" / "out"
    )
    assert outcome.code == 0, outcome.err
    written = sorted(path.name for path in (tmp_path / "new" / "out").iterdir())
    assert written == ["street.allocation.json", "street.homunculus.png"]
    allocation = library.Allocation.from_json((tmp_path / "new" / "out" / written[0]).read_text())
    assert allocation.tokens == 12
    assert allocation == library.look(photo, "What number is on the red sign?", budget=12)
    for word in ("level", "tokens", "of the area", "budget 12", "seconds:"):
        assert word in outcome.out
    with Image.open(tmp_path / "new" / "out" / "street.homunculus.png") as page:
        assert page.width == 1280


def test_json_is_all_that_is_printed(arr_coc: ArrCoc, photo: Path, tmp_path: Path) -> None:
    outcome = arr_coc("look", photo, "the red sign", "--json", "--out", tmp_path)
    document = json.loads(outcome.out)
    assert outcome.err == ""
    (found,) = document["looks"]
    assert found["query"] == "the red sign"
    assert found["tokens"] <= found["budget"] == 12
    assert library.Allocation.from_json(found["allocation"]).tokens == found["tokens"]
    assert Path(found["files"]["homunculus"]).exists()
    broken = arr_coc("look", tmp_path / "none.png", "the red sign", "--json", "--out", tmp_path)
    assert broken.code == 2
    assert "does not exist" in broken.err


def test_folders_globs_and_lists_are_batches(arr_coc: ArrCoc, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("b.png", "a.jpg", "a.png"):
        Image.fromarray(street()).save(folder / name)
    (folder / "notes.txt").write_text("not a picture, and not looked at")
    outcome = arr_coc("look", folder, "the red sign", "--out", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert outcome.out.count(": the red sign") == 3
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {
        f"{n}.homunculus.png" for n in ("a", "a.2", "b")
    }
    again = arr_coc("look", folder / "b.png", folder / "*.[jp][pn]g", "the red sign", "--json", "--out", tmp_path / "o")
    assert [Path(one["image"]).name for one in json.loads(again.out)["looks"]] == ["b.png", "a.jpg", "a.png"]


def test_ctrl_c_keeps_what_was_written(arr_coc: ArrCoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import arr_coc.looking as looks

    for name in ("a.png", "b.png", "c.png"):
        Image.fromarray(street()).save(tmp_path / name)

    def impatient(path: Path, pages: object):  # type: ignore[no-untyped-def]
        if Path(path).name == "b.png":
            raise KeyboardInterrupt
        return prepare(path)

    monkeypatch.setattr(looks, "prepare", impatient)
    outcome = arr_coc("look", tmp_path / "*.png", "the red sign", "--out", tmp_path / "out")
    assert outcome.code == 130
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.allocation.json", "a.homunculus.png"]


@pytest.mark.parametrize("printed", [(), ("--json",)])
def test_a_folder_of_pictures_is_not_kept(
    arr_coc: ArrCoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: tuple[str, ...]
) -> None:
    """While the fourth picture is looked at, the first two are gone."""
    import gc

    import arr_coc.looking as looks

    held: list[int] = []
    seen: list[weakref.ref[Picture]] = []

    def watched(path: Path, pages: object):  # type: ignore[no-untyped-def]
        gc.collect()
        held.append(sum(picture() is not None for picture in seen))
        prepared = prepare(path)
        seen.append(weakref.ref(prepared.picture))
        return prepared

    for number in range(4):
        Image.fromarray(street(96, 128)).save(tmp_path / f"{number}.png")
    monkeypatch.setattr(looks, "prepare", watched)
    arguments = ("look", tmp_path / "*.png", "the red sign", "--out", tmp_path / "out", *printed)
    assert arr_coc(*arguments).code == 0
    assert len(held) == 4
    assert max(held) <= 1


@pytest.mark.parametrize("loaded", [False, True])
def test_what_is_left_is_collected_only_where_its_owner_would_complain(loaded: bool) -> None:
    """triton's nanobind says on stderr, in some 30 lines, what a command left."""
    code = "import gc, sys, types\ngc.disable()\nclass Left:\n    def __del__(self): print('collected', flush=True)\n"
    code += "left = Left()\nleft.itself = left\ndel left\nsys.argv[1:] = ['doctor', '--help']\n"
    code += "sys.modules['triton'] = types.ModuleType('triton')\n" * loaded
    code += "from arr_coc.app.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("collected" in done.stdout) is loaded
