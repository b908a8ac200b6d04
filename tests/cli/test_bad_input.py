"""The list of bad input, through the command line and through Python: the right result, or one line and exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_pictures import Outcome, bomb, street
from PIL import Image

import arr_coc as library
from arr_coc.core.errors import InputError

ArrCoc = Callable[..., Outcome]


def refused(outcome: Outcome, *words: str) -> None:
    """Exit code 2, nothing on stdout, one line on stderr that says all of `words`, no traceback."""
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    lines = outcome.err.strip().splitlines()
    assert len(lines) == 1, outcome.err
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in lines[0], lines[0]


def unusable_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Name → file and a word that its line must contain."""
    text = folder / "text.png"
    text.write_text("This is not a picture.")
    empty = folder / "empty.png"
    empty.touch()
    whole = folder / "whole.jpg"
    Image.fromarray(street(600, 800)).save(whole, quality=95)
    cut = folder / "cut.jpg"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    whole.unlink()
    return {
        "missing": (folder / "missing.png", "does not exist"),
        "text": (text, "not a picture"),
        "truncated": (cut, "damaged"),
        "empty": (empty, "empty"),
        "bomb": (bomb(folder / "bomb.png"), "too many pixels"),
    }


@pytest.mark.parametrize("kind", ["missing", "text", "truncated", "empty", "bomb"])
def test_files_that_cannot_be_used(arr_coc: ArrCoc, tmp_path: Path, kind: str) -> None:
    path, word = unusable_files(tmp_path)[kind]
    refused(arr_coc("look", path, "what?", "--out", tmp_path / "out"), path.name, word)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match=word):
        library.look(path, "what?")


def usable_files(folder: Path) -> dict[str, tuple[Path, tuple[int, int]]]:
    """Name → file and (height, width) that the allocation must be made for."""
    pixels = street(96, 160)
    image = Image.fromarray(pixels)
    files: dict[str, tuple[Path, tuple[int, int]]] = {}

    def keep(
        name: str, suffix: str, picture: Image.Image, size: tuple[int, int] = (96, 160), **options: object
    ) -> None:
        path = folder / f"{name}{suffix}"
        picture.save(path, **options)  # type: ignore[arg-type]
        files[name] = (path, size)

    exif = Image.Exif()
    exif[0x0112] = 6
    alpha = image.copy()
    alpha.putalpha(Image.linear_gradient("L").resize(image.size))
    keep("one_pixel", ".png", Image.new("RGB", (1, 1), "red"), (1, 1))
    keep("sixteen_bit", ".png", Image.fromarray(pixels[..., 0].astype(np.uint16) * 257))
    keep("cmyk", ".jpg", image.convert("CMYK"))
    keep("palette", ".png", image.convert("P"))
    keep("alpha", ".png", alpha)
    keep("exif", ".jpg", image, (160, 96), exif=exif)
    keep("animated", ".gif", image, save_all=True, append_images=[Image.new("RGB", image.size, "blue")])
    return files


@pytest.mark.parametrize("kind", ["one_pixel", "sixteen_bit", "cmyk", "palette", "alpha", "exif", "animated"])
def test_unusual_files_that_work(arr_coc: ArrCoc, tmp_path: Path, kind: str) -> None:
    path, (height, width) = usable_files(tmp_path)[kind]
    # Half of them: below four tokens an overlay has no overview, and may leave ground out.
    outcome = arr_coc("look", path, "the red sign", "--budget", "0.5", "--out", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    document = json.loads((tmp_path / "out" / f"{path.stem}.allocation.json").read_text())
    assert document["image"] == {"height": height, "width": width}
    allocation = library.Allocation.from_json(document)
    assert allocation.tokens <= allocation.budget
    assert (allocation.level_map() >= 0).all(), "no place is left out"
    with Image.open(tmp_path / "out" / f"{path.stem}.homunculus.png") as page:
        page.verify()
    if kind in ("animated", "exif"):
        assert "note:" in outcome.out


REQUESTS = {
    "empty query": (["  "], {"query": "  "}, "question is empty"),
    "budget 0": (["what?", "--budget", "0"], {"budget": 0}, "at least 1"),
    "negative budget": (["what?", "--budget", "-5"], {"budget": -5}, "at least 1"),
    "budget not whole": (["what?", "--budget", "2.5"], {"budget": 2.5}, "budget"),
    "budget no number": (["what?", "--budget", "many"], {"budget": "many"}, "budget"),
    "share 0": (["what?", "--budget", "0.0"], {"budget": 0.0}, "budget"),
    "share above 1": (["what?", "--budget", "1.5"], {"budget": 1.5}, "budget"),
    "share NaN": (["what?", "--budget", "nan"], {"budget": float("nan")}, "budget"),
    "strategy": (["what?", "--set", "strategy=magic"], {"strategy": "magic"}, "unknown strategy"),
    "strategy with needs": (["what?", "--set", "strategy=oracle"], {"strategy": "oracle"}, "needs boxes"),
    "device": (["what?", "--set", "device=abacus"], {"device": "abacus"}, "device"),
}


@pytest.mark.parametrize("kind", list(REQUESTS))
def test_requests_that_make_no_sense(arr_coc: ArrCoc, photo: Path, tmp_path: Path, kind: str) -> None:
    arguments, keywords, words = REQUESTS[kind]
    refused(arr_coc("look", photo, *arguments, "--out", tmp_path / "out"), words)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match=words):
        library.look(photo, **{"query": "what?", **keywords})  # type: ignore[arg-type]


def test_the_budget_can_be_everything_and_one(arr_coc: ArrCoc, photo: Path, tmp_path: Path) -> None:
    for budget in (1, 48, 49):
        outcome = arr_coc("look", photo, "what?", "--budget", budget, "--out", tmp_path)
        assert outcome.code == 0
        assert json.loads((tmp_path / "street.allocation.json").read_text())["budget"] == min(budget, 48)
        assert ("shown in full detail" in outcome.out) == (budget > 48), "a ceiling is no mistake, but it is told"


def test_usage_errors_are_one_line_too(arr_coc: ArrCoc, photo: Path, tmp_path: Path) -> None:
    refused(arr_coc("look"), "IMAGE", "--help")
    refused(arr_coc("look", photo), "no question")
    refused(arr_coc("peek"), "peek")
    refused(arr_coc("look", photo, "what?", "--colour", "red"), "--colour")
    refused(arr_coc("look", photo, "what?", "--set", "levels"), "NAME=VALUE")
    refused(arr_coc("look", tmp_path / "*.bmp", "what?"), "no file matches")
    empty = tmp_path / "nothing"
    empty.mkdir()
    refused(arr_coc("look", empty, "what?"), "without pictures")
    occupied = tmp_path / "occupied"
    occupied.write_text("a file, not a folder")
    refused(arr_coc("look", photo, "what?", "--out", occupied), "cannot write", "--out")
    refused(arr_coc("needle", "--size", "big"), "512x512")


def test_a_bad_file_is_one_line_and_what_was_written_stays(arr_coc: ArrCoc, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a.png", "c.png"):
        Image.fromarray(street()).save(folder / name)
    (folder / "b.png").write_text("not a picture")
    outcome = arr_coc("look", folder, "the red sign", "--out", tmp_path / "out")
    assert outcome.code == 2
    assert len(outcome.err.strip().splitlines()) == 1
    assert "b.png" in outcome.err
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["a.allocation.json", "a.homunculus.png"]


def test_a_real_process_exits_with_2_and_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "arr_coc", "look", str(tmp_path / "none.png"), "what?"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "does not exist" in result.stderr
