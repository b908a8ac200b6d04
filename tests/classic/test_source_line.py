"""The source's line as one call: every stage is told, and leaving it out changes what comes out."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from tiny_models import picture, tiny_model, tiny_processor

from arr_coc.answering import presets
from arr_coc.answering.esper import Esper
from arr_coc.answering.eye import Eye
from arr_coc.attending.request import Request
from arr_coc.core.errors import InputError
from arr_coc.pictures.load import load_picture
from arr_coc.texturing import at_most
from arr_coc_lab.bench import source as bench
from arr_coc_lab.bench.suite import SourceOptions
from arr_coc_lab.classic.source_line import STAGES, SourceLine, open_ground, seen_levels, source_texture
from arr_coc_lab.train.pictures import render_family

QUERY = "What does the red sign say?"
SIZE = (384, 512)  # 12 × 16 cells: 192 tokens


@cache
def eye() -> Eye:
    return Eye(tiny_model(), tiny_processor())


@cache
def seen(seed: int = 0):
    """A drawn picture and its texture."""
    pixels = render_family("signs", 1, SIZE, 3, seed, "cpu", "hard", "train").pictures[0]
    shown = load_picture(pixels.permute(1, 2, 0).contiguous().numpy())
    return shown, source_texture(eye(), shown.pixels, QUERY)


def answered(*without: str, keep: float = 0.5):
    shown, texture = seen()
    line = SourceLine(frozenset(without))
    return line.ask(eye().set_image(shown), shown, QUERY, Request.of(keep=keep, scale=1), 2, texture)


@pytest.mark.parametrize("stage", ["texture", "clusters", "balancing"])
def test_without_a_stage_the_map_is_another(stage):
    shown, texture = seen()
    whole, less = (
        SourceLine(frozenset(left_out)).relevance(eye(), shown.pixels, QUERY, texture) for left_out in ((), (stage,))
    )
    assert whole.map.shape == less.map.shape
    assert np.abs(whole.map - less.map).max() > 0.05
    assert any(note.startswith(f"{stage}: left out") for note in less.notes)


def test_learned_mips_choose_other_candidates_than_averages():
    chosen = []
    for seed in range(4):
        shown, texture = seen(seed)
        chosen.append([SourceLine(frozenset(one)).candidates(texture, shown.pixels, QUERY) for one in ((), ("mips",))])
    assert any((learned[0] != averaged[0]).any() for learned, averaged in chosen)
    assert all(0 < learned[0].mean() < 1 for learned, _ in chosen)
    assert chosen[0][0][1][0].startswith("mips: learned")


def test_the_semantic_channels_and_the_glance_decide():
    shown, texture = seen()
    line = SourceLine(frozenset({"clusters"}))
    whole = line.relevance(eye(), shown.pixels, QUERY, texture)
    turned = {name: -np.asarray(texture[name])[::-1] for name in texture.names if name.startswith("semantic_")}
    for changed in (turned, {"current_attention": np.asarray(texture["current_attention"])[::-1, ::-1]}):
        other = line.relevance(eye(), shown.pixels, QUERY, texture.replacing(**changed))
        assert np.abs(whole.map - other.map).max() > 0.01


def test_without_the_scale_the_tokens_lie_elsewhere():
    patches, leaves = (answered(*one, "passes").allocation for one in ((), ("scale",)))
    assert patches.strategy == "classic"
    assert patches.counts.max() >= 64
    assert leaves.strategy == "overlay"
    assert leaves.counts.max() == 1
    assert patches.tokens == leaves.tokens == 96


def test_an_unsure_answer_is_looked_at_again_within_the_budget():
    twice, once = answered(), answered("passes")
    assert len(twice.passes) == 2
    assert len(once.passes) == 1
    assert twice.tokens == once.tokens == 96
    assert any(note.startswith("passes: two looks") for note in twice.notes)


def test_the_second_look_goes_to_what_the_first_left_open():
    shown, texture = seen()
    found = SourceLine().relevance(eye(), shown.pixels, QUERY, texture)
    first = answered("passes")
    levels, again = seen_levels(first.allocation), open_ground(found, first, QUERY)
    assert again.shape == levels.shape
    assert (levels == 0).any()
    assert not again[levels == 0].any()
    assert again.max() > 0


def test_a_budget_that_is_too_small_for_two_looks_is_told():
    answer = answered(keep=70 / 192)
    assert len(answer.passes) == 1
    assert answer.tokens == 70
    assert any("the first needs 64" in note for note in answer.notes)


def test_every_stage_is_told_and_the_eye_takes_the_preset():
    shown, _ = seen()
    answer = eye().set_image(shown).ask(QUERY, keep=0.5, scale=1, preset="source", max_new_tokens=2)
    assert answer.text == answered().text
    for stage in STAGES:
        assert any(note.startswith(f"{stage}: ") for note in answer.notes), stage
    with pytest.raises(InputError, match="leave out strategy=, readings="):
        eye().ask(QUERY, preset="source", strategy="overlay", readings=2)
    for preset in ("source", "two_pass"):
        with pytest.raises(InputError, match="got 2 budgets for one picture"):
            eye().ask(QUERY, [64, 64], preset=preset)
    with pytest.raises(InputError, match="one question about one picture"):
        Eye(tiny_model(), tiny_processor()).ask(QUERY, preset="source")
    with pytest.raises(InputError, match="no stage 'colour'"):
        SourceLine(frozenset({"colour"}))


def test_presets_of_passes_are_those_of_esper():
    shown = picture(256, 256)
    how = {"max_new_tokens": 2, "scale": 1}
    by_eye = eye().set_image(shown).ask(QUERY, 32, preset="two_pass", **how)
    by_esper = Esper(eye(), "two_pass").set_image(shown).ask(QUERY, 32, **how)
    assert by_eye.text == by_esper.text
    assert [one.tokens for one in by_eye.passes] == [one.tokens for one in by_esper.passes]


def test_a_preset_that_is_unknown_or_not_installed_is_one_line(monkeypatch):
    with pytest.raises(InputError, match="unknown preset 'thrice'; choose from esper, two_pass"):
        presets.find_preset("thrice")
    monkeypatch.setattr(presets, "plugins", lambda group: {})
    with pytest.raises(InputError, match="part of the laboratory; install it"):
        presets.find_preset("source")


def test_the_command_tells_each_stage(monkeypatch, tmp_path, capsys):
    from arr_coc.app.cli import run

    monkeypatch.setattr(Eye, "from_pretrained", lambda name, **options: eye())
    picture(512, 384).save(tmp_path / "picture.png")
    given = ["ask", str(tmp_path / "picture.png"), QUERY, "--preset", "source"]
    assert run([*given, "--keep", "0.5", "--new-tokens", "2", "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert all(any(note.startswith(f"{stage}: ") for note in notes) for stage in STAGES)
    for wrong in (["--passes", "3"], ["--strategy", "overlay"], ["--relevance", "look"], ["--readings", "2"]):
        with pytest.raises(InputError, match=r"--preset source|--readings"):
            run([*given, *wrong])


def test_a_model_views_no_more_than_the_texture_shows():
    assert at_most(np.zeros((100, 400, 3), np.uint8), 200).shape == (50, 200, 3)
    assert at_most(np.zeros((100, 400, 3), np.uint8), (300, 600)).shape == (100, 400, 3)


def test_the_benchmark_reads_every_line(monkeypatch):
    monkeypatch.setattr(bench, "eye_of", lambda model, device: eye())
    plan = bench.plan(SourceOptions(each=1, side=384, keep=0.8))
    job = plan.jobs[5]
    rows = list(plan.work(job.what, job.keys))
    assert {row.key for row in rows} == set(job.keys)
    assert all(row.tokens <= 0.8 * 144 for row in rows)
    table = plan.report(rows).tables[0]
    assert {row["system"] for row in table.rows} == {"ours", "source", *(f"without {one}" for one in bench.LEFT_OUT)}
