"""The user's script in examples/, run as it stands on a tiny model saved by the stock classes."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
from tiny_models import picture, prompt, save_stock, tiny_model, tiny_processor

from arr_coc.realizing.query import load_processor

SCRIPT = Path(__file__).parents[2] / "examples" / "qwen3_vl_foveated.py"


@pytest.mark.parametrize(
    ("relevance", "dtype"),
    [("glance", torch.float32), ("glance", torch.bfloat16), ("look", torch.float32), ("detail", torch.float32)],
)
def test_the_example_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: torch.dtype, relevance: str
) -> None:
    folder = save_stock(tmp_path / "model", dtype)
    picture(256, 320).save(tmp_path / "one.png")
    picture(128, 128, 1).save(tmp_path / "two.png")
    main = runpy.run_path(str(SCRIPT))["main"]
    arguments = ["--model", folder, "--image", tmp_path / "one.png", tmp_path / "two.png", "--question", "what colour"]
    arguments += ["--budget", "20", "--new-tokens", "5", "--device", "cpu", "--relevance", relevance]
    answer = main([str(item) for item in arguments])
    printed = capsys.readouterr().out
    assert "one.png: 20 of 80 tokens" in printed
    assert "two.png: 16 of 16 tokens, by level {0: 16}" in printed
    assert printed.rstrip("\n").endswith(answer.rstrip("\n"))


def test_at_full_budget_the_example_answers_as_the_stock_model(tmp_path: Path) -> None:
    folder = save_stock(tmp_path / "model")
    picture(128, 128, 1).save(tmp_path / "two.png")
    main = runpy.run_path(str(SCRIPT))["main"]
    arguments = ["--model", folder, "--image", tmp_path / "two.png", "--question", "where", "--new-tokens", "6"]
    answer = main([*map(str, arguments), "--budget", "16", "--device", "cpu"])
    inputs = prompt(tiny_processor(), [([picture(128, 128, 1)], "where")])
    output = tiny_model().generate(**inputs, max_new_tokens=6, do_sample=False)
    tokenizer = tiny_processor().tokenizer
    assert answer == tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def test_load_processor_equals_the_processor_that_was_saved(tmp_path: Path) -> None:
    loaded = load_processor(save_stock(tmp_path))
    rows = [([picture(96, 64)], "where is the square")]
    ours, theirs = prompt(loaded, rows), prompt(tiny_processor(), rows)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_folder_that_is_not_there_is_not_blamed_on_torchvision(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        load_processor(tmp_path / "nowhere")
