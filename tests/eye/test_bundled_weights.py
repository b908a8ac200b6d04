"""What comes with the library: found, calibrated, and its scorer asked; on tiny random weights and on the real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import picture
from tiny_weights import needs_weights, signs, tiny_weights

from arr_coc import Eye, InputError, ask, look
from arr_coc import asking as quick
from arr_coc.core import folders
from arr_coc.core.folders import WEIGHTS, part_folder
from arr_coc.knowing.scorer.source import ScorerRelevance, load_scorer, scorer_beside
from arr_coc.options import Options
from arr_coc.realizing.bundled import Calibration, PlaceDoubt, as_trained
from arr_coc_lab.train.allocations import LEVELS, tree_of
from arr_coc_lab.train.evaluate import evaluation_leaves
from arr_coc_lab.worlds.needle import decode, render


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    return tiny_weights(tmp_path_factory.mktemp("weights"))


def test_a_missing_part_is_one_line_with_a_remedy(tmp_path):
    with pytest.raises(InputError, match=r"no mini in .*install arr-coc again") as raised:
        part_folder("mini", tmp_path)
    assert "\n" not in str(raised.value)


def test_an_installation_without_weights_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "WEIGHTS", tmp_path)
    with pytest.raises(InputError, match="with this installation"):
        Eye.from_pretrained("mini")
    with pytest.raises(InputError, match="no scorer"):
        look(picture(128, 128), "the red square", relevance="scorer")


def test_a_calibration_survives_its_file(tmp_path):
    assert Calibration.beside(tmp_path) == Calibration(1.0, None, None)
    Calibration(1.75, 4).write(tmp_path, rows=[1, 2])
    assert Calibration.beside(tmp_path) == Calibration(1.75, 4)
    assert json.loads((tmp_path / "calibration.json").read_text())["rows"] == [1, 2]
    Calibration(1.0, 3, "overlay").write(tmp_path)
    assert Calibration.beside(tmp_path).strategy == "overlay"
    doubting = Calibration(1.2, place=PlaceDoubt(0.8, 3.0, -2.5))
    doubting.write(tmp_path)
    assert Calibration.beside(tmp_path) == doubting


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"temperature": 0}', '{"temperature": "warm"}', '{"temperature": 1, "place": {"slope": 1}}'],
)
def test_a_broken_calibration_is_one_line(tmp_path, text):
    (tmp_path / "calibration.json").write_text(text)
    with pytest.raises(InputError, match="calibrat"):
        Calibration.beside(tmp_path)


def test_only_a_scorer_is_taken_for_one(weights, tmp_path):
    assert scorer_beside(weights / "mini") == weights / "scorer"
    assert scorer_beside(tmp_path / "mini") is None
    (tmp_path / "scorer").mkdir()
    (tmp_path / "scorer" / "config.json").write_text('{"kind": "Judge"}')
    assert scorer_beside(tmp_path / "mini") is None


@pytest.mark.parametrize("keep", [1 / 4, 1 / 8, 1 / 16])
def test_asking_allocates_as_the_evaluation_does(weights, keep):
    """Two routes to the same leaves: the eye on a picture, and the tensors of the evaluation."""
    eye = Eye.from_pretrained(str(weights / "mini"))
    assert isinstance(eye.scorer, ScorerRelevance)
    batch = render("forms", 1, (256, 384), 3, "validation")
    pixels = batch.pictures[0].permute(1, 2, 0).numpy()
    answer = eye.set_image(pixels).ask(decode(batch.question_ids[0]), budget=keep, options=Options(max_new_tokens=1))
    scorer = load_scorer(weights / "scorer")
    leaves = evaluation_leaves("scorer", keep, batch, tree_of((256, 384)), scorer, torch.Generator())
    assert sorted(map(tuple, answer.allocation.leaf_cells().tolist())) == sorted(map(tuple, leaves[0].tolist()))
    assert len(set(answer.allocation.levels.tolist())) > 1


def test_the_question_moves_the_scorers_map(weights):
    source = ScorerRelevance(weights / "scorer")
    pixels = torch.randint(0, 256, (3, 128, 192), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    first, second = source(pixels, "What is the total?"), source(pixels, "Where is the tiger?")
    assert first.map.shape == (4, 6)
    assert abs(first.map - second.map).max() > 1e-4
    assert abs(source(pixels.float() / 255, "What is the total?").map - first.map).max() < 1e-5


def test_keeping_everything_asks_no_scorer(weights, monkeypatch):
    eye = Eye.from_pretrained(str(weights / "mini")).set_image(picture(128, 128))

    def refuse(*_):
        raise AssertionError("there was nothing to choose")

    monkeypatch.setattr(ScorerRelevance, "of_scene", refuse)
    assert eye.ask("x", budget=1.0, options=Options(max_new_tokens=1)).tokens == 16
    with pytest.raises(AssertionError, match="nothing to choose"):
        eye.ask("x", budget=0.5, options=Options(max_new_tokens=1))
    assert eye.ask("x", budget=0.5, options=Options(relevance="detail", max_new_tokens=1)).tokens <= 8


def test_the_calibrated_temperature_and_levels_are_used(weights, tmp_path):
    tiny_weights(tmp_path)
    Calibration(3.0, 1).write(tmp_path / "mini")
    plain, calibrated = (Eye.from_pretrained(str(folder / "mini")) for folder in (weights, tmp_path))
    spot = np.zeros((8, 8), dtype=np.float32)
    spot[:4, :4] = 1
    options = Options(budget=0.3, relevance=spot, max_new_tokens=2)
    answers = [eye.set_image(picture(256, 256)).ask("x", options=options) for eye in (plain, calibrated)]
    assert calibrated.calibration.temperature == 3.0
    assert answers[1].uncertainty > answers[0].uncertainty
    assert answers[1].passes[0].entropy > answers[0].passes[0].entropy
    assert answers[1].passes[0].margin < answers[0].passes[0].margin
    assert set(answers[1].allocation.levels.tolist()) <= {0, 1}
    assert set(answers[0].allocation.levels.tolist()) - {0, 1}


def test_one_shot_questions_do_not_share_a_picture(weights):
    name, before = str(weights / "mini"), quick._loaded.cache_info().misses
    small, large = picture(128, 128), picture(256, 256)
    first = ask(small, "x", 8, model=name, options=Options(max_new_tokens=2))
    second = ask(large, "x", 8, model=name, options=Options(max_new_tokens=2))
    assert (first.full, second.full) == (16, 64)
    assert ask(small, "x", 8, model=name, options=Options(max_new_tokens=2)).allocation == first.allocation
    assert quick._loaded(name, "cpu")._view is None, "what is shared never sees a picture"
    assert quick._loaded.cache_info().misses == before + 1, "read once"


# ---- the real ones --------------------------------------------------------------------------------------------------

# The stock classes of transformers alone: no import of this library may be needed.
STOCK = """
import sys
from PIL import Image
from transformers import AutoImageProcessor, AutoTokenizer, Qwen3VLForConditionalGeneration
folder, picture, question = sys.argv[1:]
model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype="float32").eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
pixels = AutoImageProcessor.from_pretrained(folder)(images=[Image.open(picture).convert("RGB")], return_tensors="pt")
content = [{"type": "image"}, {"type": "text", "text": question}]
text = tokenizer.apply_chat_template([{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True)
number = int(pixels["image_grid_thw"].prod()) // 4
inputs = tokenizer([text.replace("<|image_pad|>", "<|image_pad|>" * number)], return_tensors="pt")
kinds = (inputs["input_ids"] == model.config.image_token_id).long()
output = model.generate(**inputs, **pixels, mm_token_type_ids=kinds, max_new_tokens=64, do_sample=False)
assert not [name for name in sys.modules if name.startswith("arr_coc")]
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip())
"""


@needs_weights
def test_the_stock_class_gives_the_same_answer_without_this_library(tmp_path):
    from arr_coc_lab.worlds import needle
    from arr_coc_lab.worlds.needle.export import picture as drawn

    batch = needle.render("signs", 1, (256, 320), 5, "test")
    drawn(batch, 0).save(tmp_path / "signs.png")
    question = batch.questions[0]
    command = [sys.executable, "-c", STOCK, str(part_folder("mini")), str(tmp_path / "signs.png"), question]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = Eye.from_pretrained("mini").set_image(tmp_path / "signs.png").ask(question, budget=1.0)
    assert answer.text == done.stdout.strip()
    assert answer.text
    assert answer.tokens == answer.full == 80


@needs_weights
def test_what_is_bundled_keeps_to_its_size():
    from safetensors import safe_open

    def parameters(part: str) -> int:
        total = 0
        for path in part_folder(part).glob("*.safetensors"):
            assert path.stat().st_size < 16 * 2**20
            with safe_open(path, "pt") as file:
                total += sum(torch.Size(file.get_slice(name).get_shape()).numel() for name in file.keys())  # noqa: SIM118
        return total

    assert 0 < parameters("mini") <= 40e6
    assert 0 < parameters("scorer") <= 10e6
    shipped = [path for path in WEIGHTS.rglob("*") if path.suffix in (".safetensors", ".onnx", ".npz")]
    assert sum(path.stat().st_size for path in shipped) <= 97e6


@needs_weights
def test_the_bundled_levels_are_those_of_the_training():
    assert Calibration.beside(part_folder("mini")).levels in (None, LEVELS)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("WHAT DOES THE PINK SIGN SAY?", "What does the pink sign say?"),
        ("what does the pink sign say?", "What does the pink sign say?"),
        ("What does the pink sign say? Answer in one word.", "What does the pink sign say?"),
        ("What is the total? Please answer with a single number.", "What is the total?"),
        ("What is the total? Reply with the text only.", "What is the total?"),
        ("What is the title, please.", "What is the title,"),
        ("What is the price of TEA 194?", "What is the price of TEA 194?"),
        ("Which question has no answer?", "Which question has no answer?"),
        ("Answer in one word.", "Answer in one word."),
        ("?", "?"),
    ],
)
def test_a_question_is_put_as_mini_learned_them(written: str, read: str) -> None:
    scorer = ScorerRelevance.bundled()
    assert as_trained(written, scorer) == read
    assert as_trained(written, None) == written, "other models read what was written"


@needs_weights
def test_capitals_and_manners_change_no_answer() -> None:
    street, plain = signs(), "What does the pink sign say?"
    asked = (plain, plain.upper(), plain.lower() + " Answer in one word.")
    assert {ask(street, query, budget=48).text for query in asked} == {"COFFEE"}
    eye = Eye.from_pretrained("mini").set_image(street)
    assert eye.ask(plain.upper(), budget=48).text == "COFFEE"
