"""What a folder of weights was when it was written is held against what it is: damage gets a line that names it."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from tiny_models import picture
from tiny_weights import needs_weights, tiny_weights

from arr_coc import Eye, InputError, look
from arr_coc.core.folders import (
    MANIFEST,
    WEIGHTS,
    hash_of,
    read_manifest,
    verify,
    whole_folder,
)
from arr_coc.knowing.scorer.onnx_scorer import OnnxScorer
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
from arr_coc.knowing.words.chooser import weights_of
from arr_coc.realizing.bundled import Calibration
from arr_coc.video.stream import load_settings
from arr_coc_lab import LAB_WEIGHTS
from arr_coc_lab.train.mini_model import load_shipped

FILES = [*WEIGHTS.rglob("*"), *LAB_WEIGHTS.rglob("*")]
HOLDERS = sorted({path.parent for path in FILES if path.suffix in (".safetensors", ".onnx", ".npz")})


def flip(path: Path) -> str:
    """Change one bit in the middle of a file; returns the hash that it has now, by another route."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("folder", HOLDERS, ids=lambda folder: "/".join(folder.parts[-3:]))
def test_what_comes_with_the_library_is_listed_and_whole(folder):
    listed = read_manifest(folder)
    there = {path.name for path in folder.iterdir() if path.is_file()} - {MANIFEST, "record.json"}
    assert set(listed) == there, f"run sha256sum in {folder}"
    verify(folder)
    assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == found for name, found in listed.items())


@pytest.fixture
def weights(tmp_path) -> Path:
    return tiny_weights(tmp_path)


def refused(path: Path, wanted: str, found: str, load) -> None:
    with pytest.raises(InputError) as raised:
        load()
    line = str(raised.value)
    assert "\n" not in line
    for word in (str(path), wanted, found, "again"):
        assert word in line


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "tokenizer.json", "generation_config.json", "tokenizer_config.json"]
)
def test_a_flipped_bit_is_named_with_both_hashes(weights, name):
    path = weights / "mini" / name
    wanted = read_manifest(path.parent)[name]
    Eye.from_pretrained(str(weights / "mini"))
    found = flip(path)
    refused(path, wanted, found, lambda: Eye.from_pretrained(str(weights / "mini")))


def test_a_truncated_and_a_missing_file(weights):
    path = weights / "mini" / "model.safetensors"
    wanted = read_manifest(path.parent)[path.name]
    path.write_bytes(path.read_bytes()[:1000])
    refused(path, wanted, hash_of(path), lambda: Eye.from_pretrained(str(weights / "mini")))
    path.unlink()
    refused(path, wanted, "missing", lambda: Eye.from_pretrained(str(weights / "mini")))
    with pytest.raises(InputError, match="missing"):
        load_shipped(weights, {"mini": ReadingScorer()})


def test_a_scorer_is_verified_whoever_reads_it(weights):
    path = weights / "scorer" / "model.safetensors"
    wanted = read_manifest(path.parent)[path.name]
    found = flip(path)
    refused(path, wanted, found, lambda: ReadingScorer.from_pretrained(weights / "scorer"))
    spot = picture(64, 64)
    refused(path, wanted, found, lambda: look(spot, "x", 2, relevance=str(weights / "scorer")))


@needs_weights
@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_what_the_scorer_reads_without_torch_is_verified(tmp_path, name):
    shutil.copytree(WEIGHTS / "scorer", tmp_path / "scorer")
    path = tmp_path / "scorer" / name
    wanted, found = read_manifest(path.parent)[name], flip(path)
    refused(path, wanted, found, lambda: OnnxScorer(tmp_path / "scorer"))


@pytest.mark.parametrize(
    ("part", "name", "load"),
    [
        ("words", "chooser.safetensors", lambda folder: weights_of(folder / "chooser.safetensors")),
        ("video", "settings.json", load_settings),
        ("mini", "calibration.json", Calibration.beside),
    ],
)
def test_small_files_are_verified_too(tmp_path, part, name, load):
    for known in (name, MANIFEST):
        shutil.copy(WEIGHTS / part / known, tmp_path / known)
    load(tmp_path)
    weights_of.cache_clear()
    refused(tmp_path / name, read_manifest(tmp_path)[name], flip(tmp_path / name), lambda: load(tmp_path))


@pytest.mark.parametrize("text", [b"nonsense\n", b"\xff\xfe", b"0" * 64 + b"  ../elsewhere\n", b"abc  config.json\n"])
def test_a_damaged_manifest_is_one_line(weights, text):
    (weights / "mini" / MANIFEST).write_bytes(text)
    with pytest.raises(InputError, match=MANIFEST):
        Eye.from_pretrained(str(weights / "mini"))


def test_a_folder_without_a_manifest_is_taken_as_it_is(weights):
    (weights / "scorer" / MANIFEST).unlink()
    ReadingScorer.from_pretrained(weights / "scorer")


def test_a_file_is_read_once_and_again_when_it_changes(tmp_path, monkeypatch):
    (tmp_path / "model.npz").write_bytes(b"one")
    (tmp_path / MANIFEST).write_text(f"{hash_of(tmp_path / 'model.npz')}  model.npz\n")
    verify(tmp_path)
    monkeypatch.setattr("arr_coc.core.folders.hash_of", lambda path: "read again")
    verify(tmp_path)
    (tmp_path / "model.npz").write_bytes(b"longer")
    with pytest.raises(InputError, match="read again"):
        verify(tmp_path)


def test_an_export_that_stops_between_two_files_is_refused(tmp_path, monkeypatch):
    """Old and new files side by side are each whole; only together they are wrong."""
    for turn in ("first", "second"):
        moved = []

        def move(source, target, turn=turn, moved=moved, replace=os.replace):
            moved.append(target)
            if len(moved) > 2 and turn == "second":  # the manifest and one file
                raise KeyboardInterrupt
            replace(source, target)

        monkeypatch.setattr(os, "replace", move)
        with (
            pytest.raises(KeyboardInterrupt) if turn == "second" else pytest.MonkeyPatch.context(),
            whole_folder(tmp_path) as made,
        ):
            for name in ("a.npz", "b.npz", "c.npz"):
                (made / name).write_text(turn + name)
    texts = [(tmp_path / name).read_text() for name in ("a.npz", "b.npz", "c.npz")]
    assert texts == ["seconda.npz", "firstb.npz", "firstc.npz"]
    with pytest.raises(InputError, match=r"b\.npz"):
        verify(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_shards_of_an_earlier_export_go_and_other_files_stay(tmp_path):
    with whole_folder(tmp_path) as made:
        for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
            (made / name).write_text(name)
    for text in ("{}", "{1}"):
        with whole_folder(tmp_path) as made:
            (made / "glance.json").write_text(text)
    assert len(read_manifest(tmp_path)) == 3
    with whole_folder(tmp_path) as made:
        (made / "model.safetensors").write_text("all")
    assert sorted(read_manifest(tmp_path)) == ["glance.json", "model.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [MANIFEST, "glance.json", "model.safetensors"]
    verify(tmp_path)


def test_what_is_measured_later_is_listed_anew(weights):
    Calibration(2.0).write(weights / "mini")
    Calibration(3.0).write(weights / "mini")
    verify(weights / "mini")
    assert Calibration.beside(weights / "mini").temperature == 3.0
    flip(weights / "mini" / "calibration.json")
    with pytest.raises(InputError, match=r"calibration\.json is damaged"):
        Calibration.beside(weights / "mini")
