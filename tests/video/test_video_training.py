"""Stage 2 on a CPU, a few steps: it runs, goes on where it was stopped, and leaves what the library reads."""

from __future__ import annotations

import json

import pytest
import torch

from arr_coc.knowing.scorer import Scorer, ScorerConfig
from arr_coc.learning.checkpoints import ship
from arr_coc.learning.mini_model import MiniConfig, build_mini
from arr_coc.learning.train_video import VideoPlan, main, train
from arr_coc.video import TemporalBlend, load_settings

SMALL = {"clips": 2, "frames": 3, "size": (128, 128), "families": ("cards",), "evaluate": 2, "threads": 1}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    mini = build_mini(MiniConfig(width=64, vision_layers=1, language_layers=1, heads=2, deepstack=(0,)))
    ship({"mini": mini, "scorer": Scorer(ScorerConfig(width=32))}, folder)
    return folder


def test_temporal_numbers_are_learned_and_resumed(tmp_path, weights) -> None:
    whole = train(VideoPlan(steps=4, **SMALL), tmp_path / "whole", weights)
    train(VideoPlan(steps=2, **SMALL), tmp_path / "parts", weights)
    # The second part reads what the first left, by the same names as a user would.
    parts = train(VideoPlan(steps=4, **SMALL), tmp_path / "parts", weights)
    for name, value in whole["settings"].items():
        assert parts["settings"][name] == pytest.approx(value, abs=1e-5), name
    assert whole["settings"]["decay"] != pytest.approx(0.8, abs=1e-4), "nothing was learned"
    assert whole["validation"]["cuts"] + whole["validation"]["frames_inside"] == 4
    settings = load_settings(tmp_path / "whole" / "video")
    assert settings.decay == pytest.approx(whole["settings"]["decay"])
    assert isinstance(TemporalBlend.from_pretrained(tmp_path / "whole" / "video"), TemporalBlend)
    assert json.loads((tmp_path / "whole" / "record-temporal.json").read_text())["step"] == 4


def test_the_reader_leaves_a_stock_checkpoint_that_knows_video(tmp_path, weights) -> None:
    from transformers import Qwen3VLForConditionalGeneration

    arguments = ["reader", "--weights", str(weights), "--out", str(tmp_path), "--device", "cpu", "--steps", "2"]
    arguments += ["--clips", "2", "--frames", "3", "--size", "128", "--families", "cards", "--evaluate", "2"]
    main(arguments)
    record = json.loads((tmp_path / "record-reader.json").read_text())
    assert record["validation"]["temporal"]["n"] == 2
    model = Qwen3VLForConditionalGeneration.from_pretrained(tmp_path / "mini")
    assert model.config.trained_on_video
    before = Qwen3VLForConditionalGeneration.from_pretrained(weights / "mini")
    assert not torch.equal(model.lm_head.weight, before.lm_head.weight)
