"""A full disk, a folder that cannot be written, damaged weights: one line, exit code 2, nothing half-written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fault_runs import COMMANDS, assert_whole, hidden, words
from forked import Ended, Run

from arr_coc.core.folders import hash_of, read_manifest

# Larger than any line that is printed, smaller than any picture or weight file.
ROOM = 4096


def assert_one_line(ended: Ended, *expected: str) -> None:
    assert ended.code == 2, (ended.code, ended.err)
    assert "Traceback" not in ended.err
    line = ended.err.strip()
    assert len(line.splitlines()) == 1, line
    assert line.startswith("arr-coc: ")
    for word in expected:
        assert word in line, line


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("calibration", "pages")])
def test_a_full_disk_is_one_line(run: Run, things: Path, tmp_path: Path, name: str) -> None:
    """No file may grow beyond a few kilobytes, as on a disk that has no more: the system refuses the write."""
    ended = run(*words(COMMANDS[name][0], things, tmp_path), bytes=ROOM)
    assert_one_line(ended, "cannot write")
    assert_whole(tmp_path / "out")
    assert not [path for path in (tmp_path / "out").rglob("*") if hidden(path, tmp_path / "out")]


def unwritable(tmp_path: Path) -> list[Path]:
    """Folders that nobody can make a file in, root neither; and one that only root can."""
    (tmp_path / "file").write_text("not a folder")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    places = [tmp_path / "file" / "out", Path("/proc/self/out")]
    return [place for place in places if place.parent.exists()] + ([] if os.access(closed, os.W_OK) else [closed])


@pytest.mark.parametrize("name", ["look", "needle", "train"])
def test_a_folder_that_cannot_be_written_is_one_line(run: Run, things: Path, tmp_path: Path, name: str) -> None:
    places = unwritable(tmp_path)
    for place in places if name == "look" else places[:1]:
        arguments = words(COMMANDS[name][0], things, tmp_path)
        arguments = [str(place) + word.removeprefix("out") if word.startswith("out") else word for word in arguments]
        assert_one_line(run(*arguments), "cannot write", str(place))


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_damaged_weights_are_named_with_both_hashes(run: Run, things: Path, tmp_path: Path, damage: str) -> None:
    for part in ("mini", "scorer"):
        shutil.copytree(things / part, tmp_path / part)
    path = tmp_path / "mini" / "model.safetensors"
    wanted, data = read_manifest(path.parent)[path.name], bytearray(path.read_bytes())
    data[len(data) // 2] ^= 128
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data if damage == "flipped" else data[: len(data) // 2])
    found = "missing" if damage == "gone" else hash_of(path)
    ended = run("ask", things / "street.png", "red", "--model", tmp_path / "mini")
    assert_one_line(ended, str(path), wanted, found, "again")
    assert ended.out == ""
