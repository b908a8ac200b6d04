"""`arr-coc look` of a picture never imports torch, and what it finds is what the torch lane finds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cli_pictures import street
from PIL import Image
from plain_pages import cloudy

from arr_coc.attending.allocate import allocate
from arr_coc.balancing.choosing import relevance_for
from arr_coc.core.values import Relevance
from arr_coc.knowing.photos.source import find_files
from arr_coc.knowing.scene import Scene
from arr_coc.looking import prepare

QUESTIONS = ("What number is on the red sign?", "what is at the top left", "is anybody happy", "the blue price")

# Runs each list of arguments of a JSON list as one call of the command line, with heavy imports made impossible.
WITHOUT = """
import json, sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "scipy"}:
            raise ImportError(f"{name} may not be imported here")

sys.meta_path.insert(0, Forbidden())
from arr_coc.app.cli import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as stopped:
        if stopped.code:
            raise
"""


PICTURES = {
    "street": street(),
    "tall": cloudy(900, 211),
    "tiny": cloudy(7, 5),
    "blank": np.full((150, 200, 3), 200, dtype=np.uint8),
    "point": np.full((1, 1, 3), 7, dtype=np.uint8),
}


def in_process(picture: np.ndarray, query: str, share: float) -> Relevance:
    """The relevance as a program finds it that has torch."""
    return relevance_for("look", Scene(prepare(picture).picture.pixels, share=share), query)


def assert_same_allocation(document: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal but for the scores' last digits."""
    scores = [[region.pop("score") for region in each["regions"]] for each in (document, expected)]
    assert document == expected
    np.testing.assert_allclose(*scores, atol=1e-5)


def test_the_command_runs_where_torch_cannot_be_imported_and_finds_the_same(tmp_path: Path):
    calls, expected = [], {}
    for number, (name, pixels) in enumerate(PICTURES.items()):
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
        full = -(-pixels.shape[0] // 32) * -(-pixels.shape[1] // 32)
        budget = max(1, (full // 10, full // 4, full * 2 // 3)[number % 3])
        query, out = QUESTIONS[number % len(QUESTIONS)], tmp_path / name
        calls.append(["look", str(tmp_path / f"{name}.png"), query, "--budget", str(budget), "--out", str(out)])
        calls[-1] += ["--set", "relevance=look"]
        relevance = in_process(pixels, query, budget / full)
        expected[out] = allocate(relevance, budget, image_size=pixels.shape[:2])
    done = subprocess.run([sys.executable, "-c", WITHOUT, json.dumps(calls)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for out, allocation in expected.items():
        document = json.loads((out / f"{out.name}.allocation.json").read_text(encoding="utf-8"))
        assert all(document.pop(said) for said in ("notes", "ways", "tensions"))  # what the look says about itself
        assert_same_allocation(document, json.loads(json.dumps(allocation.to_json())))
    assert (tmp_path / "street" / "street.homunculus.png").stat().st_size > 1000


def test_every_choice_of_auto_does_without_torch(tmp_path: Path):
    """A page, a photograph, and a page with its words beside it."""
    Image.fromarray(cloudy(401, 613)).save(tmp_path / "cloudy.png")
    for name in ("drawn", "words"):
        Image.fromarray(street()).save(tmp_path / f"{name}.png")
    words = {"words": [{"text": "dog", "box": [0.1, 0.1, 0.2, 0.2]}]}
    (tmp_path / "words.words.json").write_text(json.dumps(words), encoding="utf-8")
    pictures = [str(tmp_path / f"{name}.png") for name in ("cloudy", "drawn", "words")]
    call = ["look", *pictures, "Where is the dog?", "--out", str(tmp_path), "--json"]
    done = subprocess.run([sys.executable, "-c", WITHOUT, json.dumps([call])], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    photograph, drawn, known = (look["relevance"] for look in json.loads(done.stdout)["looks"])
    assert photograph.startswith("relevance 'photos', chosen" if find_files() else "relevance 'look', chosen")
    assert drawn.startswith("relevance 'scorer', chosen because the picture is drawn or a page")
    assert known.startswith("relevance 'words', chosen because the words of the picture are known")


def test_the_hook_does_stop_what_needs_torch(tmp_path: Path):
    Image.fromarray(street()).save(tmp_path / "street.png")
    call = ["look", str(tmp_path / "street.png"), "the red sign", "--set", "strategy=uniform", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", WITHOUT, json.dumps([call])], capture_output=True, text=True)
    assert done.returncode != 0
    assert "torch may not be imported here" in done.stderr
