"""A model on one's own foveated prompts: adapters that load again and answer."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from tiny_models import save_stock

from arr_coc.answering.eye import Eye
from arr_coc.app.cli import main as arr_coc
from arr_coc.core.errors import InputError
from arr_coc_lab.train import train_prompts
from arr_coc_lab.train.run import torch_scope

ROOM = ("--judged", "2", "--device", "cpu", "--held-out", "0.2", "--batch", "4")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Ten pictures of one colour each; the eight that are learned from have answers of one word."""
    folder = tmp_path_factory.mktemp("colours")
    lines = []
    for number in range(10):
        Image.new("RGB", (128, 96), (25 * number, 40, 250 - 25 * number)).save(folder / f"{number}.png")
        answer = "red" if number % 2 else "square"
        lines.append({"image": f"{number}.png", "query": f"what colour is the {number}", "answer": answer})
    (folder / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_adapters_lower_the_loss_and_load_again(data, tmp_path, capsys, monkeypatch):
    peft = pytest.importorskip("peft")
    stock = save_stock(tmp_path / "stock")
    before = {path.name: path.read_bytes() for path in stock.glob("*.safetensors")}
    given = ["--model", str(stock), "--data", str(data), "--steps", "16", "--learning-rate", "0.03", "--keeps", "0.5"]
    given += ["--relevance", "detail", "--folder", str(tmp_path), "--out", str(tmp_path / "out"), *ROOM]
    with torch_scope(threads=1):
        train_prompts.main(given)
    curve = [point["loss"] for point in json.loads((tmp_path / "curve.json").read_text()) if "loss" in point]
    assert sum(curve[-4:]) < 0.7 * sum(curve[:4])
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["after"]["held out loss"] < record["before"]["held out loss"]
    assert {path.name: path.read_bytes() for path in stock.glob("*.safetensors")} == before
    held = torch.load(tmp_path / "state.pt", weights_only=True)["modules"]["trained"]
    assert all(1 in value.shape or 8 in value.shape for value in held.values()), "adapters of rank 8, not the model"
    # Two routes to the same answer: adapters beside the weights, and merged into them.
    eye = Eye.from_pretrained(str(stock), relevance="detail")
    alone = eye.set_image(data / "1.png").ask("what colour is the 1", budget=0.5)
    adapted = peft.PeftModel.from_pretrained(eye.model, tmp_path / "out")
    assert any("lora" in name for name, _ in adapted.named_parameters())
    one = eye.set_image(data / "1.png").ask("what colour is the 1", budget=0.5)
    merged = Eye.from_pretrained(str(tmp_path / "out"), relevance="detail").set_image(data / "1.png")
    two = merged.ask("what colour is the 1", budget=0.5)
    assert merged.name == str(tmp_path / "out")
    assert (two.text, two.uncertainty) == (one.text, pytest.approx(one.uncertainty, abs=1e-4))
    assert one.uncertainty != pytest.approx(alone.uncertainty, abs=1e-4)
    # The command takes the folder as well; adapters whose model is gone, or without peft, are one line.
    asked = ["ask", str(data / "1.png"), "what colour is the 1", "--keep", "0.5", "--relevance", "detail", "--json"]
    asked += ["--model", str(tmp_path / "out")]
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        arr_coc(asked)
    assert (ended.value.code, json.loads(capsys.readouterr().out)["text"]) == (0, one.text)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError, match="need peft"):
        Eye.from_pretrained(str(tmp_path / "out"))
    shutil.rmtree(stock)
    with pytest.raises(InputError, match="is gone"):
        Eye.from_pretrained(str(tmp_path / "out"))


def test_what_cannot_be_learned_from_is_one_line(data):
    with pytest.raises(InputError, match="--keeps"):
        train_prompts.PromptOptions(data=data, keeps=(2.0,))
