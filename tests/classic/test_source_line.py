"""The source's line as one call: every stage is told, and leaving it out changes what comes out."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tiny_models import tiny_model, tiny_processor

from arr_coc import ask
from arr_coc.answering.eye import Eye
from arr_coc.core.errors import InputError
from arr_coc.options import Options
from arr_coc.pictures.load import load_picture
from arr_coc_lab.classic.source_line import STAGES, SourceLine, open_ground, seen_levels, source_texture
from arr_coc_lab.classic.texture.channels40 import SEMANTIC_NAMES
from arr_coc_lab.worlds.needle import render

QUERY = "What does the red sign say?"
SIZE = (384, 512)  # 12 × 16 cells: 192 tokens


@cache
def eye() -> Eye:
    return Eye(tiny_model(), tiny_processor())


@cache
def seen(seed: int = 0):
    """A drawn picture and its texture."""
    pixels = render("signs", 1, SIZE, 3, difficulty="hard", start=seed).pictures[0]
    shown = load_picture(pixels.permute(1, 2, 0).contiguous().numpy())
    return shown, source_texture(eye(), shown.pixels, QUERY)


@cache
def answered(*without: str, keep: float = 0.5):
    shown, texture = seen()
    line = SourceLine(frozenset(without))
    return line.ask(eye().set_image(shown), shown, QUERY, Options(budget=keep, scale=1), 2, texture)


@cache
def found(*without: str):
    shown, texture = seen()
    return SourceLine(frozenset(without)).relevance(eye(), shown.pixels, QUERY, texture)


@pytest.mark.parametrize("stage", ["texture", "glance", "clusters", "balancing"])
def test_without_a_stage_the_map_is_another(stage):
    whole, less = found(), found(stage)
    assert whole.map.shape == less.map.shape
    assert np.abs(whole.map - less.map).max() > 0.05
    assert any(note.startswith(f"{stage}: left out") for note in less.notes)


def test_the_semantic_channels_and_the_glance_decide():
    shown, texture = seen()
    line = SourceLine(frozenset({"clusters"}))
    whole = found("clusters")
    turned = {name: -texture[name].flip(1) for name in SEMANTIC_NAMES}
    for changed in (turned, {"current_attention": texture["current_attention"].flip(1, 2)}):
        other = line.relevance(eye(), shown.pixels, QUERY, texture.replacing(**changed))
        assert np.abs(whole.map - other.map).max() > 0.01


def test_the_second_look_goes_to_what_the_first_left_open():
    first = answered("passes")
    levels, again = seen_levels(first.allocation), open_ground(found(), first, QUERY)
    assert again.shape == levels.shape
    assert (levels == 0).any()
    assert not again[levels == 0].any()
    assert again.max() > 0


def test_every_stage_is_told_and_the_eye_takes_the_preset():
    shown, _ = seen()
    answer = eye().set_image(shown).ask(QUERY, budget=0.5, options=Options(scale=1, preset="source", max_new_tokens=2))
    assert answer.text == answered().text
    for stage in STAGES:
        assert any(note.startswith(f"{stage}: ") for note in answer.notes), stage
    with pytest.raises(InputError, match="cannot be combined with strategy"):
        eye().ask(QUERY, options=Options(preset="source", strategy="overlay"))
    with pytest.raises(InputError, match="got 2 budgets for one picture"):
        eye().ask(QUERY, [64, 64], options=Options(preset="source"))
    with pytest.raises(InputError, match="no stage 'colour'"):
        SourceLine(frozenset({"colour"}))


def test_looks_keep_to_the_budget_whatever_is_left_out():
    twice, once, leaves = (answered(*without) for without in ((), ("passes",), ("passes", "scale")))
    assert [len(one.passes) for one in (twice, once, leaves)] == [2, 1, 1]
    assert twice.tokens == once.tokens == leaves.tokens == 96
    assert (once.allocation.strategy, leaves.allocation.strategy) == ("classic", "overlay")
    assert once.allocation.counts.max() >= 64
    assert any(note.startswith("passes: two looks") for note in twice.notes)
    assert any(QUERY in note and twice.passes[0].text in note for note in twice.notes if note.startswith("words: "))
    small = answered(keep=70 / 192)
    assert (len(small.passes), small.tokens) == (1, 70)
    assert any("the first needs 64" in note for note in small.notes)


@pytest.mark.parametrize(
    ("name", "budget", "expected"),
    [("v01", None, ("top_k", 37)), ("v02", 96, ("classic", 96)), ("classic", 96, ("classic", 96))],
)
def test_the_versions_of_the_source_are_one_call_each(name, budget, expected):
    shown, _ = seen()
    answer = eye().set_image(shown).ask(QUERY, budget, Options(preset=name, scale=1, max_new_tokens=2))
    assert (answer.allocation.strategy, answer.tokens) == expected


def test_the_example_of_the_docs_is_answered():
    answer = ask(
        "src/arr_coc/examples/receipt.png", "How much is the corn?", budget=0.5, options=Options(preset="source")
    )
    assert answer.text == "$2.14"
