"""The scorer's training script on a tiny frozen reader: judging, resuming, both sources; one process and two."""

from __future__ import annotations

import json
import os
import random
import socket
import sys
from pathlib import Path

import pytest
import torch
from tiny_weights import ship_tiny

from arr_coc.core.errors import InputError
from arr_coc.realizing.qwen3_vl.encode import dense_vision_attention
from arr_coc_lab.classic.scorer import Scorer
from arr_coc_lab.train import train_scorer
from arr_coc_lab.train.allocations import tree_of
from arr_coc_lab.train.devices import Devices
from arr_coc_lab.train.evaluate import FAMILIES
from arr_coc_lab.train.monitors import Monitors
from arr_coc_lab.train.outcomes import judge, load_reader
from arr_coc_lab.train.pictures import TrainingBatch, cut, join, render_family
from arr_coc_lab.train.policy_gradient import draw_noise, node_logits, sample_allocations
from arr_coc_lab.train.reader import read
from arr_coc_lab.train.scorer_examples import SEARCHED, Curriculum, Sources


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> Path:
    """A tiny untrained reader, exported as `train mini` exports it."""
    return ship_tiny(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def batch() -> TrainingBatch:
    return join([render_family(family, 2, (256, 256), 0, 0, "cpu") for family in ("cards", "scenes")])


def test_judging_a_group_is_reading_each_of_its_allocations(reader, batch):
    """Two routes: groups that share their pictures, and plain reading of every allocation by itself."""
    model = load_reader(reader, torch.device("cpu"))
    assert not any(parameter.requires_grad for parameter in model.parameters())
    tree = tree_of((256, 256))
    generator = torch.Generator().manual_seed(0)
    leaves = sample_allocations(
        node_logits(torch.randn(4, 8, 8, generator=generator), tree), tree, 16, draw_noise(4, 3, tree, generator)
    ).leaves
    with dense_vision_attention(model):
        found = judge(model, batch, leaves)
        in_parts = judge(model, batch, leaves, most=6)
        for member in range(3):
            for picture in range(4):
                one = read(model, cut(batch, picture, picture + 1), leaves[picture : picture + 1, member])
                assert float(-found.log_likelihood[picture, member]) == pytest.approx(float(one.loss), abs=1e-4)
                assert bool(found.right[picture, member]) == bool(one.right)
    assert torch.allclose(found.log_likelihood, in_parts.log_likelihood, atol=1e-5)
    assert found.confidence.min() > 0
    assert found.confidence.max() <= 1


def arguments(reader: Path, folder: Path, *more: str) -> list[str]:
    numbers = {"batch": 8, "group": 2, "size": 128, "keeps": 7 / 16, "width": 32, "probe": 7, "evaluate": 0}
    plan = [part for name, value in numbers.items() for part in (f"--{name}", str(value))]
    return ["--reader", str(reader), "--folder", str(folder), "--out", str(folder / "out"), *plan, "--cpu", *more]


def test_the_script_runs_resumes_and_leaves_a_record(reader, tmp_path):
    train_scorer.main(arguments(reader, tmp_path, "--steps", "3", "--policy-from", "0"))
    first = torch.load(tmp_path / "state.pt", weights_only=True)["modules"]["scorer"]
    train_scorer.main(arguments(reader, tmp_path, "--steps", "5", "--policy-from", "0"))
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["step"] == 5
    assert record["reward"]["likelihood"] == 1.0
    rewards = [point for point in record["curve"] if "reward" in point]
    assert [point["step"] for point in rewards] == [1, 2, 3, 4, 5]
    assert {point["stage"] for point in rewards} == {"static", "video", "adversarial"}
    probes = [point for point in record["curve"] if "probe right" in point]
    assert "probe random" in probes[0]
    assert len(probes) >= 3
    monitors = Monitors.from_json(record["monitors"])
    assert monitors.series("budget_share")[1] == [1.0] * 5
    assert json.loads((tmp_path / "curve.json").read_text()) == record["curve"]
    shipped = Scorer.from_pretrained(tmp_path / "out" / "scorer")
    moved = max(float((value - first[name]).abs().max()) for name, value in shipped.state_dict().items())
    assert moved > 1e-4, "two more steps must have changed the scorer"


def test_the_credit_opens_the_training_and_the_policy_gradient_joins(reader, tmp_path):
    plan = ("--steps", "4", "--probe", "0", "--policy-from", "0.5")
    train_scorer.main(arguments(reader, tmp_path / "both", *plan))
    curve = json.loads((tmp_path / "both" / "out" / "record.json").read_text())["curve"]
    assert ["reward" in point for point in curve] == [False, False, True, True]
    assert all("credit" in point and point["budget share"] == 1 for point in curve)
    train_scorer.main(arguments(reader, tmp_path / "one", *plan[:4], "--credit", "policy"))
    curve = json.loads((tmp_path / "one" / "out" / "record.json").read_text())["curve"]
    assert all("reward" in point and "credit" not in point for point in curve)


def options(**values) -> train_scorer.ScorerOptions:
    return train_scorer.ScorerOptions(reader=Path("nowhere"), **values)


def test_small_canvases_come_first_and_return():
    plan = options(batch=8, small_until=0.4)
    chance = random.Random(0)
    early = {plan.canvas(0.1, chance) for _ in range(50)}
    assert early == {((256, 256), 32)}, "as many pixels a step as on the large canvas"
    late = [plan.canvas(0.9, chance)[0] for _ in range(400)]
    assert 0.1 < late.count((256, 256)) / 400 < 0.3
    same = options(batch=8, size=(256, 256))
    assert {same.canvas(0.1, chance) for _ in range(9)} == {((256, 256), 8)}
    large_only = options(batch=8, small_until=0)
    assert {large_only.canvas(share, chance) for share in (0.0, 0.5, 1.0)} == {((512, 512), 8)}


def test_boxes_teach_the_scorer_by_every_stake(reader, tmp_path):
    losses = {}
    for stakes in ("cross_entropy", "medical"):
        folder = tmp_path / stakes
        train_scorer.main(
            arguments(reader, folder, "--from", "boxes", "--stakes", stakes, "--steps", "9", "--probe", "0")
        )
        record = json.loads((folder / "out" / "record.json").read_text())
        losses[stakes] = [point["loss"] for point in record["curve"]]
    for stakes, values in losses.items():
        assert sum(values[-3:]) < 0.9 * sum(values[:3]), stakes


def test_the_sources_follow_the_curriculum():
    sources = Sources(Curriculum(), FAMILIES[:2], (1.0, 1.0), 0, "cpu")
    for number in (1, 4, 7):
        batch, weights = sources.take(number, (128, 128), 0.0, random.Random(0))
        assert len(batch) == len(weights) == number
    assert sources.rendered["video"] == 0
    batch, weights = sources.take(10, (128, 128), 1.0, random.Random(0))
    assert float(weights.mean()) == pytest.approx(1)
    assert float(weights.max() / weights.min()) == pytest.approx(2), "adversaries count double"
    assert min(sources.rendered.values()) > 0


def test_adversaries_are_the_candidates_on_which_it_fails():
    """Two routes: what the search takes, and all candidates rendered and sorted by hand."""
    asked: list[TrainingBatch] = []

    def ease(batch: TrainingBatch) -> torch.Tensor:
        asked.append(batch)
        return batch.pictures.float().mean((1, 2, 3))  # dark pictures are hard

    sources = Sources(Curriculum(), FAMILIES[:2], (1.0, 1.0), 0, "cpu")
    pieces = sources.choose(10, (128, 128), 1.0, random.Random(0), ease)
    batch, weights = sources.render(pieces)
    assert len(batch) == 10
    found = ease(cut(batch, 6, 10)).sort().values
    candidates = ease(asked[0]).sort().values
    assert len(candidates) == 4 * SEARCHED
    assert torch.equal(found, candidates[:4])
    assert weights[6:].tolist() == pytest.approx([float(weights[0]) * 2] * 4)


def test_what_cannot_be_done_is_said_in_one_line(tmp_path):
    with pytest.raises(InputError, match="no reader"):
        load_reader(tmp_path, torch.device("cpu"))
    with pytest.raises(InputError, match="outcomes or from boxes"):
        options(source="guesses")
    with pytest.raises(InputError, match="cross_entropy or one of"):
        options(stakes="none at all")
    with pytest.raises(InputError, match="2 processes wanted"):
        Devices("cpu", processes=2)


def in_two_processes(given: list[str]) -> None:
    """What torchrun does, by two forks."""
    import accelerate  # noqa: F401 (once for both)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    os.environ.update(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    children = []
    for rank in ("0", "1"):
        children.append(os.fork())
        if not children[-1]:
            os.environ.update(RANK=rank, LOCAL_RANK=rank)
            train_scorer.main(given)
            os._exit(0)
    ends = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(any(ends))


def test_two_processes_do_what_one_does(run, reader, tmp_path):
    """The whole script with gloo, half of every batch in each process, against one process."""
    pytest.importorskip("accelerate")
    plan = ("--steps", "2", "--probe", "0", "--policy-from", "0")
    train_scorer.main(arguments(reader, tmp_path / "one", *plan))
    done = run(*arguments(reader, tmp_path / "two", *plan), call=f"{__name__}:in_two_processes")
    assert done.code == 0, done.err[-2000:]
    one, two = (torch.load(tmp_path / name / "state.pt", weights_only=True) for name in ("one", "two"))

    def gradients(state: dict) -> torch.Tensor:
        """The running mean of the clipped gradients. (AdamW's steps would blow rounding up where they are tiny.)"""
        moments = state["optimizers"][0]["state"].values()
        return torch.cat([moment["exp_avg"].flatten() for moment in moments])

    assert float(gradients(one).norm()) > 1e-3
    assert float((gradients(one) - gradients(two)).norm() / gradients(one).norm()) < 1e-3
    for name, value in one["modules"]["scorer"].items():
        assert torch.allclose(value, two["modules"]["scorer"][name], atol=2e-4), name
    for first, second in zip(one["progress"]["curve"], two["progress"]["curve"], strict=True):
        for name in ("reward", "loss", "gradient", "map entropy"):
            assert first[name] == pytest.approx(second[name], abs=3e-4), name
