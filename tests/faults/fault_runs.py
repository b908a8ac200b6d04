"""Commands whose results are spoilt while they are written, and how each kind of result is known to be whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from PIL import Image
from safetensors import safe_open

from arr_coc.app.batch.looker import failed
from arr_coc.app.batch.rows import Store
from arr_coc.core.folders import MANIFEST
from arr_coc.core.values import Allocation


def opened(path: Path) -> None:
    with Image.open(path) as image:
        image.load()


def lines(path: Path) -> None:
    text = path.read_text()
    assert text.endswith("\n")
    for line in text.splitlines():
        json.loads(line)


def decoded(path: Path) -> None:
    from arr_coc.video.decode import read_clip

    assert len(read_clip(path)[0]) == 3


def stored(path: Path) -> None:
    with safe_open(path, "pt") as file:
        assert list(file.keys())


def allocated(path: Path) -> None:
    found = json.loads(path.read_text())
    if path.name.endswith("allocation.json"):
        Allocation.from_json(found)


def measured(path: Path) -> None:
    with np.load(path) as held:
        assert held.files


# How each kind of file is read as whole. A new kind of output has to be added here.
READERS: dict[str, Callable[[Path], object]] = {
    ".png": opened,
    ".webp": opened,
    ".json": allocated,
    ".jsonl": lines,
    ".mp4": decoded,
    ".npz": measured,
    ".safetensors": stored,
    ".pt": lambda path: torch.load(path, map_location="cpu", weights_only=True),
    ".onnx": lambda path: onnx.load(path, load_external_data=False),
    ".pkl": lambda path: torch.load(path, weights_only=False),
    ".jinja": Path.read_text,
    ".csv": Path.read_text,
}


def hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def assert_whole(root: Path) -> None:
    """Every file under a plain name can be read to its end; folders with a manifest are whole or refused."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not hidden(path, root) and path.name != MANIFEST:
            assert path.suffix in READERS, f"say in READERS how {path.name} is known to be whole"
            READERS[path.suffix](path)
    for records in root.rglob("records.jsonl"):
        for line in records.read_text().splitlines():
            record = json.loads(line)
            with Image.open(records.parent / record["image"]) as image:
                assert image.size == (record["w"], record["h"]), "records of one run, pictures of another"


# Name → arguments of a first run that ends, and of the one that is killed over its results.
COMMANDS = {
    "look": (
        "look {things}/street.png red --set strategy=quadtree --set relevance=look --out out",
        "look {things}/street.png blue --set relevance=look --out out",
    ),
    "passes": (
        "ask {things}/street.png red --model {things}/mini --budget 8 --set preset=two_pass --out out",
        "ask {things}/street.png blue --model {things}/mini --budget 9 --set preset=two_pass --out out",
    ),
    "video": ("video {things}/clip.gif red --out out", "video {things}/clip.gif blue --budget 9 --out out"),
    "needle": (
        "needle --family signs --n 3 --size 128x160 --out out",
        "needle --family signs --n 3 --size 160x128 --out out",
    ),
    "train": (
        "train mini --scale 0.004 --width 64 --largest 256 --steps 1 --folder out/run --out out/export",
        "train mini --scale 0.004 --width 64 --largest 256 --steps 1 --checkpoint-every 0 "
        "--folder out/run --out out/export",
    ),
    "pages": ("pages --n 2 --out out", "pages --n 2 --seed 3 --out out"),
    "calibration": (
        "train calibration --weights {copy} --family scenes --n 1",
        "train calibration --weights {copy} --family scenes --n 1 --seed 3",
    ),
}


def words(text: str, things: Path, copy: Path) -> list[str]:
    return [word.format(things=things, copy=copy) for word in text.split(" ")]


STORED = 4


def store_rows(arguments: list[str]) -> None:
    """A batch's driver without its workers: four rows, each a part of its own; those that are there are left out."""
    store = Store(Path(arguments[0]), {"budget": 4}, rows=1)
    for number in range(STORED):
        store.add([failed(f"{number}.png", "what?", "unread")])
    store.close()
