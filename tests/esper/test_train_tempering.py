"""Learning how much to explore: the sign of the gradient, and the real loop for a step on a tiny model."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from esper_models import job_of, tiny_eye
from PIL import Image
from tiny_models import picture, save_stock

from arr_coc.answering.decoding import end_tokens
from arr_coc.answering.pass_settings import EsperSettings
from arr_coc.app.cli import main as arr_coc
from arr_coc.balancing.tempering import BLEND_ABOVE, TemperingConfig, TemperingPolicy
from arr_coc.core.errors import InputError
from arr_coc_lab.classic.tempering import (
    OwnTemperingOptions,
    TemperingExamples,
    TemperingOptions,
    TemperingTask,
    Trial,
    answers_right,
    attempt,
    group_advantages,
    log_odds,
    own_examples,
    policy_loss,
    run_passes,
    train_tempering,
    within_reach,
)
from arr_coc_lab.train.own_data import read_own


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_was_rewarded_becomes_likelier(sign):
    """A world in which more exploration (or less) is right: the policy must go there, from the rule."""
    torch.manual_seed(0)
    policy = TemperingPolicy(TemperingConfig(learned=True))
    told = tuple(torch.full((4, 64), value) for value in (2.0, 0.6, 0.0))
    start = float(policy(*(item[1] for item in told)).detach().mean())
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        with torch.no_grad():
            centre = torch.logit(policy(*(item.flatten() for item in told))).view(4, 64)
        drawn = [centre + torch.randn(centre.shape, generator=generator) for _ in range(4)]
        trials = [Trial(told, draw, (sign * draw[1:].mean(0) > sign * centre.mean()).float()) for draw in drawn]
        optimizer.zero_grad()
        policy_loss(policy, trials, 1.0).backward()
        optimizer.step()
    end = float(policy(*(item[1] for item in told)).detach().mean())
    assert sign * (end - start) > 0.1


@pytest.mark.parametrize("pays", [True, False])
def test_a_policy_that_never_explores_comes_back_where_exploring_pays(pays):
    """Far below the threshold all draws are alike; the centre of what is drawn stays within reach of it."""
    torch.manual_seed(0)
    policy = TemperingPolicy(TemperingConfig(learned=True))
    assert policy.network is not None
    torch.nn.init.constant_(policy.network[-1].bias, -6.0)
    told = tuple(torch.full((2, 64), value) for value in (2.0, 0.6, 0.0))
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(120):
        with torch.no_grad():
            centre = within_reach(log_odds(policy, *(item.flatten() for item in told)), 1.0).view(2, 64)
        drawn = [centre + torch.randn(centre.shape, generator=generator) for _ in range(4)]
        explored = [torch.sigmoid(draw[1]) > BLEND_ABOVE for draw in drawn]
        trials = [Trial(told, draw, (one == pays).float()) for draw, one in zip(drawn, explored, strict=True)]
        optimizer.zero_grad()
        policy_loss(policy, trials, 1.0).backward()
        optimizer.step()
    assert (float(policy(*(item[1] for item in told)).detach().mean()) > BLEND_ABOVE) == pays


def test_advantages_are_relative_to_the_same_pictures():
    rewards = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert group_advantages(rewards).tolist() == [[0.5, 0.0], [-0.5, 0.0]]
    with pytest.raises(InputError, match="group"):
        group_advantages(rewards[:1])


def test_right_is_token_for_token():
    model = tiny_eye().model
    (record,) = run_passes(model, job_of(0, 1), (13, 9), EsperSettings(passes=1, least=1), TemperingPolicy(), most=3)
    ends = end_tokens(model)
    said = record.generated.ids.masked_fill(
        ~record.generated.within | torch.isin(record.generated.ids, torch.tensor(ends)), 0
    )
    longer = torch.nn.functional.pad(said, (0, 2))
    assert answers_right(record, longer, ends).tolist() == [True, True]
    longer[1, 0] += 1
    assert answers_right(record, longer, ends).tolist() == [True, False]


def test_a_step_of_training_on_a_real_loop_moves_the_policy(tmp_path):
    model, job = tiny_eye().model, job_of(0, 1, 2)
    settings = EsperSettings(passes=3, aroused=False, fovea=None)
    generator = torch.Generator().manual_seed(1)
    policy = TemperingPolicy(TemperingConfig(learned=True))
    # True are the answers of a run of its own, so that some draws are right and others are not.
    last = run_passes(model, job, (13, 12), settings, policy, most=2, stop_early=False)[-1]
    ends = torch.tensor(end_tokens(model))
    within = last.generated.within & ~torch.isin(last.generated.ids, ends)
    examples = TemperingExamples(job, last.generated.ids.masked_fill(~within, 0))
    task = TemperingTask(model, lambda step: examples, (13, 12), settings, most=2)
    trial = attempt(task, examples, policy, 1.0, generator)
    assert trial.drawn.shape == (3, 3)
    assert ((trial.reward >= 0) & (trial.reward <= 1)).all()
    options = TemperingOptions(steps=2, group=3, spread=2.0, folder=tmp_path)
    learned, curve = train_tempering(task, options, policy)
    assert len(curve) == 2
    assert all(0 <= reward <= 1 for reward in curve)
    assert torch.isfinite(torch.cat([item.flatten() for item in learned.parameters()])).all()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Six pictures of two shapes; the answers are what a reader that knows nothing says of some."""
    folder, lines = tmp_path_factory.mktemp("own"), []
    for number in range(6):
        Image.fromarray(np.asarray(picture(64 + 32 * (number % 2), 96, number))).save(folder / f"{number}.png")
        lines.append({"image": f"{number}.png", "query": "how many", "answer": "ab"})
    lines.append({"image": "0.png", "query": "how many"})
    (folder / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_own_records_teach_how_much_to_explore_and_ask_takes_the_folder(data, tmp_path, capsys):
    stock = save_stock(tmp_path / "stock")
    given = ["--data", data, "--model", stock, "--relevance", "detail", "--steps", "2", "--batch", "2", "--cpu"]
    given += ["--canvas", "96", "--first", "3", "--later", "2", "--passes", "2", "--new-tokens", "2"]
    given += ["--folder", tmp_path / "run", "--out", tmp_path / "out", "--checkpoint-every", "0"]
    with pytest.raises(SystemExit) as ended:
        arr_coc(["train", "tempering", *map(str, given)])
    assert ended.value.code == 0
    assert "line 7: the answer is empty" in capsys.readouterr().err
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert (record["records"], record["skipped"], record["held_out"], len(record["rewards"])) == (6, 1, 1, 2)
    assert any("held out reward of the rule" in point for point in record["curve"])
    policy = TemperingPolicy.from_pretrained(tmp_path / "out")
    assert policy.config.learned
    asked = ["ask", data / "0.png", "how many", "--model", stock, "--relevance", "detail", "--budget", "6", "--json"]
    for more, code in (
        (["--passes", "2", "--tempering", tmp_path / "out"], 0),
        (["--tempering", tmp_path / "out"], 2),
        (["--passes", "2", "--tempering", tmp_path], 2),
    ):
        with pytest.raises(SystemExit) as ended:
            arr_coc([*map(str, asked), *map(str, more), "--new-tokens", "2"])
        assert ended.value.code == code, capsys.readouterr().err


def test_own_pictures_stand_whole_on_their_canvas(data):
    eye, records = tiny_eye(), read_own(data, "outcomes", say=lambda line: None).records[:2]
    options = OwnTemperingOptions(data=data, canvas=128, relevance="detail")
    examples = own_examples(eye, records, options)
    assert examples.job.relevance.shape == (2, 4, 4)
    assert len(examples.answers) == 2
    for wrong in ({"canvas": 100}, {"passes": 1}, {"held_out": 0.0}):
        with pytest.raises(InputError, match="--"):
            OwnTemperingOptions(data=data, **wrong)
