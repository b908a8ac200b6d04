"""Whatever the laboratory adds to the library by an entry point loads and runs once through the library's own calls."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from tiny_models import tiny_model, tiny_processor

from arr_coc import look
from arr_coc.answering.eye import Eye
from arr_coc.core.plugins import load_plugin, plugins
from arr_coc.looking import examine
from arr_coc.options import Options
from arr_coc_lab.classic.outcomes import missing
from arr_coc_lab.classic.texture.superpixels import superpixels

POINTS = tomllib.loads(Path("lab/pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
GROUPS = [f"arr_coc.{name}" for name in ("relevance", "strategies", "presets")]
QUERY = "Where is the red sign?"
PICTURE = np.random.default_rng(0).integers(0, 256, (256, 320, 3), dtype=np.uint8)  # 8 × 10 cells


@pytest.mark.parametrize("group", GROUPS)
def test_every_entry_point_loads(group: str):
    assert {name: point.value for name, point in plugins(group).items()} == POINTS[group]
    for point in plugins(group).values():
        assert load_plugin(point) is not None


READY = [name for name in POINTS["arr_coc.relevance"] if name != "outcomes" or missing() is None]


@pytest.mark.parametrize("name", READY)
def test_look_takes_every_relevance(name: str):
    for picture in (PICTURE, PICTURE[:40]):
        seen = examine(picture, QUERY, Options(budget=0.5, relevance=name))
        assert f"relevance {name!r}" in seen.notes[0]
        assert 0 <= seen.relevance.map.min() < seen.relevance.map.max() <= 1


@pytest.mark.parametrize("name", POINTS["arr_coc.strategies"])
def test_look_and_ask_take_every_strategy(name: str):
    own = {"clusters": {"labels": superpixels(PICTURE)}, "oracle": {"boxes": [[0.1, 0.2, 0.4, 0.5]]}}
    options = Options(strategy=name, strategy_options=own.get(name, {}), scale=1, max_new_tokens=1)
    assert look(PICTURE, QUERY, 70, relevance="detail", options=options).tokens == 70
    eye = Eye(tiny_model(), tiny_processor(), relevance="detail").set_image(PICTURE)
    answer = eye.ask(QUERY, 70, options)
    assert (answer.tokens, answer.allocation.strategy) == (70, name)
