"""`bench esper` and `demo zoo`: the rows are there and say what they should; nothing here judges the weights."""

from __future__ import annotations

import json

import pytest
import torch

from arr_coc.balancing.tempering import TemperingPolicy
from arr_coc.bench import esper_runs
from arr_coc.bench.esper import COLUMNS, Models, accuracy_row, arousal_rows, cost_rows, hard_rows, zoo_rows
from arr_coc.bench.esper_runs import Outcome, blurred, hard_scenes, paired, share, zoo_scenes
from arr_coc.bench.esper_tuning import train, tune
from arr_coc.bench.table import Quantity, Table
from arr_coc.bundled import WEIGHTS
from arr_coc.esper import Esper, EsperSettings
from arr_coc.esper.passes import run_passes
from arr_coc.knowing.scorer import Scorer
from arr_coc.learning.checkpoints import ship
from arr_coc.learning.mini_model import MiniConfig, build_mini

# Switch on when the shipped weights are final: these tests judge them.
FINAL_WEIGHTS = False
shipped = pytest.mark.skipif(
    not (WEIGHTS / "mini" / "config.json").is_file() or not (WEIGHTS / "scorer" / "config.json").is_file(),
    reason="the bundled weights are not installed",
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("weights")
    ship({"mini": build_mini(MiniConfig(width=64, heads=1, language_layers=3)), "scorer": Scorer()}, folder)
    return folder


@pytest.fixture(scope="module")
def models(weights):
    return Models.load(weights)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small pictures and short answers: the rows matter here, not the numbers."""
    monkeypatch.setattr(esper_runs, "SIZE", (256, 256))
    monkeypatch.setattr(esper_runs, "LONGEST_ANSWER", 4)
    for module in ("esper", "esper_tuning"):
        monkeypatch.setattr(f"arr_coc.bench.{module}.FIRST", 13)
        monkeypatch.setattr(f"arr_coc.bench.{module}.LATER", 9)


def test_the_experiment_prints_every_row(models):
    scenes = hard_scenes(4, 1, "test", models.device)
    steps = []
    rows = hard_rows(models, scenes, EsperSettings(), TemperingPolicy(), steps.append)
    table = Table("Esper", COLUMNS, tuple(rows))
    text = table.to_markdown()
    for words in ("once for 2 to 4 passes", "2 to 4 passes", "passes needed", "learned", "tokens saved"):
        assert words in text
    json.dumps(table.to_json())
    assert all(len(str(row["what"])) <= 28 and row["about"] for row in rows)
    by_name = {row["what"]: row for row in rows}
    assert by_name["hard, 2 passes"]["tokens"] <= 13 + 9
    # One pass never gets fewer tokens than the passes it is compared with.
    for name in ("2 passes", "3 passes", "4 passes"):
        once = by_name[f"hard, once for {name}"]
        assert once["tokens"] >= by_name[f"hard, {name}"]["tokens"]


def test_zoo_and_arousal_rows(models):
    scenes = zoo_scenes(3, 5, models.device)
    assert set(scenes.questions) == {"What are the ingredients in this snack?"}
    assert all(len(answer.split(", ")) == 3 for answer in scenes.answers)
    again = zoo_scenes(1, 5, models.device, first=2)
    assert torch.equal(again.pictures[0], scenes.pictures[2])
    rows = zoo_rows(models, scenes, EsperSettings(), None, lambda name: None)
    assert sum("in the end" in str(row["what"]) for row in rows) == 2
    verdicts = {row["what"]: row["kept"] for row in arousal_rows(models, scenes)}
    assert verdicts == {"arousal, casual": True, "arousal, plain": True, "arousal, high stakes": True}


def test_cost_and_sameness(models):
    rows = cost_rows(models, 1, (256,))
    same = next(row for row in rows if row["what"] == "logits, with caches")
    assert same["kept"] is True
    assert sum("cost 256²" in str(row["what"]) for row in rows) == 3


def test_tuning_and_training_run(models, monkeypatch):
    grid = [EsperSettings(fovea=fovea) for fovea in (1.0, 3.0)]
    monkeypatch.setattr("arr_coc.bench.esper_tuning.tuning_grid", lambda: grid)
    settings, tried = tune(models, 4, lambda name: None)
    best = max(row["accuracy"] for row in tried)
    assert any(row["accuracy"] == best and row["settings"]["fovea"] == settings.fovea for row in tried)
    policy, curve = train(models, EsperSettings(passes=2), 1, 4)
    assert len(curve) == 1
    assert policy.config.learned


def test_the_scorer_is_blurred_but_not_blind():
    scores = torch.zeros(64, 16, 16)
    scores[:, 3, 12] = 1
    maps = blurred(scores, 3)
    assert torch.equal(maps, blurred(scores, 3))
    assert not torch.equal(maps, blurred(scores, 4))
    assert ((maps >= 0) & (maps <= 1)).all()
    # Often, but not always, the highest place is another one; the right one still stands out on average.
    wrong = (maps.flatten(1).argmax(1) != 3 * 16 + 12).float().mean()
    assert 0.3 < wrong < 0.95
    assert maps[:, 3, 12].mean() > 2 * maps.mean()


def test_outcomes_shares_and_differences():
    right = torch.tensor([[False, True, True], [True, False, True]])
    unsure = torch.tensor([[0.1, 0.1, 0.1], [0.9, 0.5, 0.4]])
    found = Outcome(right, unsure, torch.tensor([[5, 2, 2], [5, 3, 1]]), unsure)
    stopped, tokens, passes = found.stopped(EsperSettings(passes=3))
    assert (stopped.tolist(), tokens.tolist(), passes.tolist()) == ([True, True], [7, 9], [2, 3])
    assert found.at(0)[1].tolist() == [5, 5]
    row = accuracy_row("x", "y", right[:, 1], tokens, right[:, 0])
    assert isinstance(row["measured"], Quantity)
    assert row["measured"].value == 50
    assert paired(right[:, 2], right[:, 0])["difference"] == 0.5
    assert share(right[:, 2])["low"] < 1 == share(right[:, 2])["accuracy"]


def test_the_bench_and_esper_answer_alike(weights, models):
    """Two routes: one picture through `Esper`, and through the bench's batch."""
    scenes = zoo_scenes(2, 9, models.device)
    settings = EsperSettings(stop=0.0, aroused=False)
    maps = models.scorer.score(scenes.pictures, scenes.question_ids)
    lesson = esper_runs.lesson_of(models, scenes, maps)
    with esper_runs.measuring(models):
        records = run_passes(
            models.reader, lesson.job, settings.shares(32), settings, TemperingPolicy(), most=4, stop_early=False
        )
    esper = Esper.from_pretrained(str(weights / "mini"), settings)
    for number in range(2):
        image = scenes.pictures[number].permute(1, 2, 0).numpy()
        found = esper.set_image(image).examine(scenes.questions[number], budget=32, max_new_tokens=4)
        for step, record in zip(found.answer.passes, records, strict=True):
            assert step.tokens == int(record.tokens[number])
            assert step.uncertainty == pytest.approx(float(record.uncertainty[number]), abs=1e-3)
            ids = record.said.ids[number][record.said.spoken[number]]
            assert step.text == models.processor.tokenizer.decode(ids, skip_special_tokens=True).strip()


@shipped
def test_demo_zoo_runs_on_a_held_out_scene(tmp_path, capsys, monkeypatch):
    from arr_coc.cli.demo_zoo import zoo

    monkeypatch.setattr(esper_runs, "SIZE", (512, 512))
    zoo(scene=1, passes=2, out=tmp_path, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["query"] == "What are the ingredients in this snack?"
    assert document["tokens"] == sum(step["tokens"] for step in document["passes"])
    assert document["right"] == (document["text"] == document["truth"])
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("zoo.png", "strip.png", "story.json"))


@shipped
@pytest.mark.skipif(not FINAL_WEIGHTS, reason="judges the shipped weights, which are not final")
def test_the_zoo_is_read_right(tmp_path, capsys, monkeypatch):
    from arr_coc.cli.demo_zoo import zoo

    monkeypatch.setattr(esper_runs, "SIZE", (512, 512))
    right = []
    for scene in range(3):
        zoo(scene=scene, out=tmp_path, as_json=True)
        right.append(json.loads(capsys.readouterr().out)["right"])
    assert sum(right) >= 2
