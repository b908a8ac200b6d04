"""`Esper` from end to end on tiny random models: passes, tokens, stopping, layouts, tables, pictures."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from esper_models import QUESTIONS, SIDE, bright, job_of, tiny_eye
from merging_families import build_model, numbered_words
from pass_runs import run_passes
from tiny_models import picture, tiny_model, tiny_processor

from arr_coc import Eye, InputError
from arr_coc.answering.esper import Esper
from arr_coc.answering.pass_settings import FOUR_PASS, SACCADES, TWO_PASS, EsperSettings
from arr_coc.answering.story import convergence_rate, pass_statistics
from arr_coc.answering.story_drawing import convergence_plot, strip, write_story
from arr_coc.app.cli.ask import story_table
from arr_coc.balancing.tempering import TemperingPolicy
from arr_coc.core.values import Allocation, Answer, Pass
from arr_coc_lab.bench.esper_runs import passes_needed

ALWAYS = EsperSettings(stop=0.0)


@pytest.fixture(scope="module")
def esper() -> Esper:
    return Esper(tiny_eye(), ALWAYS).set_image(picture(SIDE, SIDE, 0))


@pytest.fixture(scope="module")
def story(esper):
    found = esper.examine(QUESTIONS[0], keep=0.5, max_new_tokens=5)
    assert esper.pass_history == found.passes
    return found


def test_four_passes_spread_and_saccades_rest_on_one_place_after_the_other(esper):
    """On a map of two equal spots far apart, the second look of four passes goes to both, a fixation to one."""
    relevance = np.full((8, 8), 0.02, np.float32)
    relevance[0:3, 0:3] = relevance[5:8, 5:8] = 0.8
    spent = {}
    for preset in (FOUR_PASS, SACCADES):
        settings = replace(preset, stop=0.0, least=1, attention=0.0, question=0.0, learned=False, aroused=False)
        looking = Esper(esper.eye, settings).set_image(picture(SIDE, SIDE, 0))
        looking.examine(QUESTIONS[0], budget=20, max_new_tokens=2, relevance=relevance)
        boxes = looking.pass_history[1].added
        spent[preset] = {bool(y >= SIDE // 2) for y, *_ in boxes.tolist()}
        assert bool(looking.pass_history[1].step.allocation.scanpath) == (preset is SACCADES)
    assert spent[FOUR_PASS] == {False, True}
    assert len(spent[SACCADES]) == 1


def test_four_passes_within_the_total(story):
    answer = story.answer
    assert len(answer.passes) == len(story.passes) == 4
    assert answer.tokens == sum(step.tokens for step in answer.passes) <= 0.5 * answer.full == 32
    for before, after in zip(answer.passes, answer.passes[1:], strict=False):
        assert (after.allocation.level_map() <= before.allocation.level_map()).all()
    # The leaves of all looks: each counted once, and the finest of them tile the picture.
    assert sum(len(note.added) for note in story.passes) == answer.tokens
    assert (answer.allocation.level_map() >= 0).all()
    assert answer.passes[0].exploration == pytest.approx(0.1)
    assert story.passes[0].point is None
    assert all(note.point is not None for note in story.passes[1:])
    assert [len(step.allocation.scanpath) for step in answer.passes] == [0, 1, 2, 3]
    assert answer.allocation.scanpath[-1] == story.passes[-1].point


def test_one_pass_is_what_the_eye_says(esper):
    """Two routes: the loop with one pass, and `Eye.ask` with the same allocation."""
    once = esper.examine(QUESTIONS[1], budget=25, passes=1, max_new_tokens=5)
    eye = esper.eye.set_image(picture(SIDE, SIDE, 0))
    asked = eye.ask(QUESTIONS[1], budget=25, max_new_tokens=5)
    assert once.answer.allocation.level_map().tolist() == asked.allocation.level_map().tolist()
    assert once.answer.text == asked.text
    assert once.answer.uncertainty == pytest.approx(asked.uncertainty, abs=1e-4)
    last = once.answer.passes[0], asked.passes[0]
    assert last[0].entropy == pytest.approx(last[1].entropy, abs=1e-3)
    assert last[0].tokens == last[1].tokens


def test_a_batch_goes_the_way_of_each_picture_alone(esper):
    model, settings = tiny_eye().model, replace(ALWAYS, aroused=False)
    together = run_passes(model, job_of(0, 1, 2), (13, 9), settings, TemperingPolicy(), most=5, stop_early=False)
    for number in range(3):
        alone = run_passes(model, job_of(number), (13, 9), settings, TemperingPolicy(), most=5, stop_early=False)
        for one, all_of_them in zip(alone, together, strict=True):
            assert one.tokens[0] == all_of_them.tokens[number]
            assert one.uncertainty[0] == pytest.approx(float(all_of_them.uncertainty[number]), abs=1e-4)
            assert torch.equal(one.looks.levels()[0], all_of_them.looks.levels()[number])
    # And `Esper` goes the same way as the batch.
    quiet = Esper(tiny_eye(), settings).set_image(picture(SIDE, SIDE, 0))
    said = quiet.examine(QUESTIONS[0], budget=40, max_new_tokens=5)
    shares = settings.shares(40)
    record = run_passes(model, job_of(0), shares, settings, TemperingPolicy(), most=5, stop_early=False)
    assert [step.tokens for step in said.answer.passes] == [int(one.tokens[0]) for one in record]
    assert said.answer.uncertainty == pytest.approx(float(record[-1].uncertainty[0]), abs=1e-4)


def test_it_stops_when_it_is_sure_and_not_before_two_passes():
    easy = Esper(tiny_eye(), EsperSettings(stop=1.0)).set_image(picture(SIDE, SIDE, 0))
    found = easy.examine(QUESTIONS[0], max_new_tokens=3)
    assert len(found.passes) == 2
    assert found.converged
    assert len(easy.examine(QUESTIONS[0], max_new_tokens=3, passes=1).passes) == 1
    assert len(easy.examine(QUESTIONS[0], max_new_tokens=3, stop_early=False).passes) == 4
    for style, counts in (("two_pass", (1, 2)), ("saccades", (3, 4))):
        styled = Esper(tiny_eye(), style).set_image(picture(SIDE, SIDE))
        assert len(styled.examine("how many", max_new_tokens=3).passes) in counts


def test_early_stopping_can_be_read_off_a_run_without_it():
    """Two routes: stop while running, or run to the end and ask where it would have stopped."""
    model, settings = tiny_eye().model, replace(EsperSettings(), aroused=False)
    policy = TemperingPolicy()
    always = run_passes(model, job_of(0, 1, 2), (13, 9), settings, policy, most=1, stop_early=False)
    history = torch.stack([record.uncertainty for record in always], 1)
    settings = replace(settings, stop=float(history[:, 1].median()) + 1e-6)
    needed = passes_needed(history, settings)
    assert len(set(needed.tolist())) > 1
    stopping = run_passes(model, job_of(0, 1, 2), (13, 9), settings, policy, most=1)
    spent = torch.stack([record.tokens for record in stopping]).sum(0)
    for number, last in enumerate(needed.tolist()):
        assert int(spent[number]) == sum(int(record.tokens[number]) for record in always[:last])
        final = stopping[-1].uncertainty[number]
        assert float(final) == pytest.approx(float(always[last - 1].uncertainty[number]), abs=1e-4)


def test_a_pass_in_vain_is_the_last_one():
    history = torch.tensor([[0.9, 0.5, 0.2, 0.1], [0.9, 0.5, 0.48, 0.1], [0.9, 0.95, 0.3, 0.1], [0.1, 0.1, 0.1, 0.1]])
    assert passes_needed(history, EsperSettings()).tolist() == [4, 4, 4, 2]
    assert passes_needed(history, EsperSettings(gain=0.05)).tolist() == [4, 3, 4, 2]
    # One look in vain after the first is no reason to give up; nothing ends before `least`.
    assert passes_needed(history, EsperSettings(gain=0.0, least=3)).tolist() == [4, 4, 4, 3]
    with pytest.raises(InputError, match="gain"):
        EsperSettings(gain=-0.1)


def test_layouts_agree_on_the_first_look_and_count_what_they_read():
    job, policy = job_of(0), TemperingPolicy()
    found = {
        layout: run_passes(tiny_eye().model, job, (13, 9), replace(ALWAYS, layout=layout, fovea=None), policy, most=3)
        for layout in ("append", "rebuild", "fresh")
    }
    first = [records[0].generated.logits for records in found.values()]
    assert torch.allclose(first[0], first[1], atol=1e-5)
    assert torch.allclose(first[0], first[2], atol=1e-5)
    for layout, records in found.items():
        second = records[1]
        added, whole = int(second.looks.counts[0, -1]), int((second.looks.leaves()[..., 2] >= 0).sum())
        assert int(second.tokens[0]) == (added if layout == "append" else whole)
    again = [found[layout][1].generated.logits[0, 0] for layout in ("rebuild", "fresh")]
    assert not torch.allclose(again[0], again[1], atol=1e-3)  # leaves encoded apart did not see each other


def test_high_stakes_sharpen_and_casual_questions_do_not():
    esper = Esper(tiny_eye(), ALWAYS).set_image(picture(SIDE, SIDE, 0))
    maps = {}
    for question in ("is it funny", "how many", "is there poison or a weapon"):
        found = esper.examine(question, passes=1, max_new_tokens=1, failures=10 if "poison" in question else 0)
        maps[question] = found.passes[0]
    casual, plain, high = maps.values()
    assert casual.mood == plain.mood == "calm"
    assert high.mood in ("alert", "fear")
    assert np.allclose(casual.steered, plain.steered)

    def entropy(values: np.ndarray) -> float:
        weights = values.ravel() / values.sum()
        return float(-(weights * np.log(np.maximum(weights, 1e-12))).sum())

    assert entropy(high.steered) < entropy(casual.steered)


def test_a_salient_first_look_has_not_heard_the_question():
    image = np.full((SIDE, SIDE, 3), 120, dtype=np.uint8)
    image[160:200, 170:210] = (240, 30, 30)
    dark = Esper(Eye(tiny_eye().model, tiny_eye().processor, relevance=bright), ALWAYS, glance="salient")
    found = dark.set_image(image).examine("how many", keep=1.0, max_new_tokens=2)
    levels = found.answer.passes[0].allocation.level_map()
    assert levels[5, 5] == 0 < levels[0, 0]


def test_the_story_is_told_in_a_table_a_strip_and_numbers(story, tmp_path):
    from rich.console import Console

    console = Console(width=100, record=True)
    console.print(story_table(story, truth="nothing like it"))
    text = console.export_text()
    assert all(f"{step.uncertainty:.2f}" in text for step in story.answer.passes)
    assert f"{story.answer.tokens}/{story.answer.full}" in text
    assert "wrong" in text
    page = np.asarray(strip(story, width=900))
    assert page.shape[1] == 900
    assert page.std() > 20
    assert np.asarray(convergence_plot(story)).std() > 5
    files = write_story(story, tmp_path)
    assert sorted(files) == ["convergence.png", "story.json", "strip.png"]
    document = json.loads((tmp_path / "story.json").read_text(encoding="utf-8"))
    assert document["tokens"] == story.answer.tokens
    assert len(document["passes"]) == 4
    by_pass = document["statistics"]["by_pass"]
    assert [row["tokens"] for row in by_pass] == [step.tokens for step in story.answer.passes]
    assert sum(by_pass[-1]["levels"].values()) == pytest.approx(1.0)


def test_statistics_of_several_answers():
    allocation = Allocation(np.array([[0, 0, 32, 32]]), [0], [1], [0.5], 32, 32, 1, 1, "esper")
    steps = [Pass(allocation, 4, 0.1, "a", 0.8), Pass(allocation, 2, 0.5, "b", 0.2)]
    answers = [Answer("b", 0.2, tuple(steps)), Answer("a", 0.8, tuple(steps[:1]))]
    found = pass_statistics(answers)
    assert (found["passes"], found["tokens"]) == (1.5, 5)
    assert [row["answers"] for row in found["by_pass"]] == [2, 1]
    assert found["convergence_rate"] == pytest.approx(0.75)
    assert convergence_rate([0.2, 0.8]) < 0 < convergence_rate([0.8, 0.4, 0.2])
    assert convergence_rate([0.5]) is None


def merged_eye() -> Eye:
    """A tiny family that is merged after its encoder, with a tokenizer of numbered words."""
    from transformers import Qwen2_5_VLProcessor
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    class PictureProcessor(Qwen2_5_VLProcessor):
        def check_argument_for_proper_class(self, argument_name, argument):
            if argument_name == "video_processor":
                return type(argument)
            return super().check_argument_for_proper_class(argument_name, argument)

    tokenizer = numbered_words("<|image_pad|>")
    sizes = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 64, "max_pixels": 16384}
    images = Qwen2VLImageProcessorPil(**sizes, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    processor = PictureProcessor(
        image_processor=images, tokenizer=tokenizer, video_processor=None, chat_template=tokenizer.chat_template
    )
    return Eye(build_model("qwen2_5_vl"), processor, relevance="detail")


def test_a_family_without_a_memory_asks_again_and_counts_it_in_full():
    esper = Esper(merged_eye(), ALWAYS).set_image(picture(96, 128))
    found = esper.examine("w20 w21", keep=0.9, max_new_tokens=3)
    answer = found.answer
    assert len(answer.passes) == 4
    assert all(step.tokens == step.allocation.tokens for step in answer.passes)
    assert answer.tokens <= 0.9 * answer.full
    assert answer.passes[0].tokens < answer.passes[-1].tokens
    assert found.passes[0].uncertainty_map is None
    assert np.asarray(strip(found)).std() > 10


def test_the_eyes_coarsest_level_holds_in_every_pass():
    eye = Eye(tiny_eye().model, tiny_eye().processor, relevance=bright, levels=1)
    found = Esper(eye, ALWAYS).set_image(picture(SIDE, SIDE)).examine("how many", keep=1.0, max_new_tokens=1)
    assert found.answer.passes[0].allocation.levels.max() == 1
    small = Esper(eye, ALWAYS).set_image(picture(SIDE, SIDE)).examine("how many", keep=0.1, max_new_tokens=1)
    assert small.answer.tokens <= 0.1 * small.answer.full  # no tiling is that small, and none is needed
    assert small.answer.allocation.levels.max() <= 1


def test_mistakes_get_one_clear_line(esper):
    fresh = Esper(tiny_eye())
    with pytest.raises(InputError, match="set_image"):
        fresh.ask("how many")
    for wrong, word in (
        ({"query": " "}, "question"),
        ({"query": "x", "budget": 0}, "budget"),
        ({"query": "x", "budget": 4, "keep": 0.5}, "keep"),
        ({"query": "x", "passes": 0}, "passes"),
        ({"query": "x", "relevance": "glance"}, "relevance"),
    ):
        with pytest.raises(InputError, match=word):
            esper.examine(**wrong)
    with pytest.raises(InputError, match="glance"):
        Esper(tiny_eye(), glance="sideways")


def test_the_model_is_left_as_it_was(esper):
    model = tiny_model()
    eye = Eye(model, tiny_processor(), relevance=bright)
    Esper(eye, ALWAYS).set_image(picture(SIDE, SIDE)).ask("how many", max_new_tokens=2)
    same = tiny_model().state_dict()
    assert all(torch.equal(value, same[name]) for name, value in model.state_dict().items())
    assert model.model.visual.config._attn_implementation == "sdpa"


def test_ask_takes_a_preset_and_what_the_first_look_follows(monkeypatch, tmp_path, capsys):
    from arr_coc.app.cli import run

    asked = {}

    def tiny(name, settings=None, *, glance="relevant", **options):
        asked.update(settings=settings, glance=glance)
        return Esper(tiny_eye(), settings, glance=glance)

    monkeypatch.setattr(Esper, "from_pretrained", tiny)
    picture(SIDE, SIDE, 0).save(tmp_path / "picture.png")
    given = ["ask", str(tmp_path / "picture.png"), QUESTIONS[0], "--budget", "32", "--new-tokens", "3", "--json"]
    assert run([*given, "--preset", "two_pass"]) == 0
    assert asked == {"settings": TWO_PASS, "glance": "relevant"}
    said = json.loads(capsys.readouterr().out)
    assert 1 <= len(said["passes"]) <= 2
    assert run([*given, "--preset", "four_pass", "--first-look", "salient"]) == 0
    assert asked == {"settings": FOUR_PASS, "glance": "salient"}
    assert "scanpath" not in json.loads(capsys.readouterr().out)["passes"][-1]["allocation"], "no place is rested on"
    assert run([*given, "--preset", "saccades"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["passes"][-1]["allocation"]["scanpath"]) == len(said["passes"]) - 1
