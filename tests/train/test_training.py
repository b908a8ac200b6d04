"""The training script itself, a few steps of it, and what it leaves behind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from arr_coc.core.errors import InputError
from arr_coc_lab.classic.scorer import Scorer, ScorerConfig
from arr_coc_lab.train import train_mini
from arr_coc_lab.train.checkpoints import load_shipped, ship
from arr_coc_lab.train.devices import Devices
from arr_coc_lab.train.mini_model import MiniConfig, build_mini
from arr_coc_lab.train.reader import DenseHeads
from arr_coc_lab.train.run import Moment


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """A folder that was trained to one number of steps after another."""

    def to(*steps: int) -> Path:
        folder = tmp_path_factory.mktemp("run")
        ship({"scorer": Scorer(ScorerConfig(width=32))}, folder / "guide")
        arguments = ["--scale", "0.004", "--width", "64", "--evaluate", "0", "--largest", "256"]
        arguments += ["--folder", str(folder), "--guide", str(folder / "guide" / "scorer")]
        for number in steps:
            train_mini.main([*arguments, "--steps", str(number), "--out", str(folder / "out")])
        return folder

    return to


@pytest.fixture(scope="module")
def run(train):
    return train(2)


def test_fourteen_steps_resume_and_lower_the_loss(train):
    run = train(8, 14)
    record = json.loads((run / "out" / "record.json").read_text())
    assert record["step"] == 14
    curve = record["curve"]
    assert [point["step"] for point in curve] == list(range(1, 15))
    losses = [value for point in curve for name, value in point.items() if name.startswith("answer")]
    assert sum(losses[-3:]) < sum(losses[:3])
    assert all(value == value for value in losses)


def load(run, name: str) -> dict:
    modules = {"mini": build_mini(MiniConfig(width=64, heads=1)), "heads": DenseHeads(64)}
    load_shipped(run / name, modules)
    return modules


def test_what_is_exported_is_a_stock_checkpoint(run):
    from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration

    out = run / "out"
    model, info = Qwen3VLForConditionalGeneration.from_pretrained(out / "mini", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    tokenizer = AutoTokenizer.from_pretrained(out / "mini")
    ids = torch.tensor([tokenizer("hello")["input_ids"]])
    assert model(input_ids=ids).logits.shape[-1] == len(tokenizer)
    assert all(file.stat().st_size < 16 * 2**20 for file in out.rglob("*") if file.is_file())
    assert Scorer.from_pretrained(out / "scorer").config.width == 32, "its guide stands beside it"


def test_a_carried_export_is_a_start(run):
    assert len(list((run / "out").iterdir())) == 5  # mini, scorer, its heads, the record, its curve
    modules = load(run, "out")
    state = torch.load(run / "state.pt", weights_only=True)["modules"]
    for name, module in modules.items():
        for key, value in module.state_dict().items():
            assert torch.allclose(value, state[name][key], atol=2e-3), key


def test_going_on_from_an_export_keeps_the_progress(run, tmp_path):
    arguments = ["--scale", "0.004", "--width", "64", "--evaluate", "0", "--largest", "256", "--steps", "2"]
    places = ["--folder", str(tmp_path), "--start-from", str(run / "out"), "--out", str(tmp_path / "out")]
    places += ["--guide", str(run / "guide" / "scorer")]
    train_mini.main([*arguments, *places])
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["step"] == 4
    assert len(record["curve"]) == 4


def test_letters_teach_the_tower_and_leave_the_language_model_alone(tmp_path):
    torch.manual_seed(0)
    options = train_mini.MiniOptions(scale=0.004, largest=128, steps=9, folder=tmp_path)
    training = train_mini.MiniTraining(options, Devices("cpu"), MiniConfig(width=64, heads=1))
    at = Moment(0, 0, 0.0)
    training.step(at)  # leaves gradients everywhere, which must not be followed again
    training.plan = replace(options, letter_share=1.0)
    before = {name: value.clone() for name, value in training.model.named_parameters()}
    assert set(training.step(at)) <= {"letters 128 full", "letters 128 uniform"}
    moved = {name for name, value in training.model.named_parameters() if not torch.equal(value, before[name])}
    assert all(name.startswith("model.visual.") for name in moved)
    assert any("blocks.0" in name for name in moved)
    assert any("patch_embed" in name for name in moved)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_answers_are_misheard_as_often_as_asked_for(tmp_path, share):
    options = train_mini.MiniOptions(scale=0.004, largest=128, steps=1, folder=tmp_path, misheard=share)
    training = train_mini.MiniTraining(options, Devices("cpu"), MiniConfig(width=64, heads=1))
    batch, _ = training.next_batch(Moment(0, 0, 0.0))
    assert bool((batch.heard != batch.tails).any()) == (share > 0)


def test_without_a_guide_every_kind_finds_its_leaves(tmp_path):
    """Second looks ask a scorer now and then; a training without one must not stop there after minutes."""
    options = train_mini.MiniOptions(scale=0.004, largest=256, steps=1, folder=tmp_path, guide="", seed=3)
    training = train_mini.MiniTraining(options, Devices("cpu"), MiniConfig(width=64, heads=1))
    training.done["stage"] = len(train_mini.STAGES) - 1
    late = Moment(0, 0, 0.9)
    names = set()
    for _ in range(60):
        size, kind = train_mini.draw_step(2, late.progress, training.chance["chance"], 256, guided=False)
        if min(size) < 256 or (kind.name in names and kind.name != "again"):
            continue
        names.add(kind.name)
        pages, _ = training.next_batch(late)
        blocks, _ = training.blocks(pages, kind if min(pages.size) >= 256 else train_mini.KINDS[0])
        assert all(block.shape[-1] == 3 for block in blocks)
    assert "again" in names
    assert "scorer" not in names


def test_an_empty_folder_is_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match="no weights"):
        load_shipped(tmp_path, {"mini": build_mini(MiniConfig(width=64, heads=1))})


def test_a_stage_ends_when_it_is_read_well_or_its_time_is_up():
    assert train_mini.next_stage(0, progress=0.05, glyphs_right=0.5) == 0
    assert train_mini.next_stage(0, progress=0.05, glyphs_right=0.95) == 1
    assert train_mini.next_stage(0, progress=0.21, glyphs_right=0.1) == 1
    last = len(train_mini.STAGES) - 1
    assert train_mini.next_stage(last, progress=1.0, glyphs_right=1.0) == last
