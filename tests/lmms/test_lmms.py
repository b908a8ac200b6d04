"""The adapter for lmms-eval, offline, in an environment of its own: `make test-lmms`."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arr_coc.options import Options

pytest.importorskip("lmms_eval", reason="lmms-eval has an environment of its own: make test-lmms")

from arr_coc.answering.eye import Eye
from arr_coc_lab.bench import lmms, scores
from arr_coc_lab.worlds.needle.export import write_dataset

TASKS = Path(__file__).parent
LIMIT, BUDGET = 20, 64


def test_a_local_task_runs_offline_and_answers_as_ask_does(tmp_path: Path) -> None:
    records = write_dataset("signs", range(LIMIT), 5, tmp_path / "needle", split="test")
    given = f"pretrained=mini,budget={BUDGET},tokens={tmp_path / 'tokens.json'}"
    line = [sys.executable, "-m", "lmms_eval", "--model", "arr_coc", "--model_args", given, "--tasks", "needle_local"]
    line += ["--include_path", str(TASKS), "--output_path", str(tmp_path / "out"), "--log_samples"]
    offline = {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "hf"),
        "OMP_NUM_THREADS": "2",
    }
    ran = subprocess.run(line, cwd=tmp_path, env={**os.environ, **offline}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    (found,) = (tmp_path / "out").rglob("*_results.json")
    score = json.loads(found.read_text())["results"]["needle_local"]["exact_match,none"]
    eye = Eye.from_pretrained("mini")
    right = [
        eye.set_image(tmp_path / "needle" / str(one["image"]))
        .ask(str(one["query"]), BUDGET, options=Options(max_new_tokens=24))
        .text
        == one["answer"]
        for one in records
    ]
    assert score == pytest.approx(sum(right) / LIMIT)
    assert json.loads((tmp_path / "tokens.json").read_text()) == {
        "questions": LIMIT, "tokens": LIMIT * BUDGET, "full": LIMIT * 256
    }  # fmt: skip
    print(f"exact match {score} of {LIMIT}, {LIMIT * BUDGET} of {LIMIT * 256} visual tokens")


def test_the_question_alone_says_where_tokens_go(tmp_path: Path) -> None:
    (record,) = write_dataset("signs", range(1), 7, tmp_path, split="test")
    asked: list[Any] = []

    class Watched:
        def set_image(self, image: Any) -> None:
            pass

        def ask(self, query: str, **how: Any) -> Any:
            asked.append((query, how["look_for"], how["budget"], how["keep"]))
            return SimpleNamespace(text="RED\n\nUser: and", tokens=64, full=256)

    model = lmms.ArrCoc(pretrained="mini", keep="25%")
    model.eye = Watched()
    row = {"question": "What is red?\n(A) x\n(B) y", "image": record["image"]}
    model.task_dict = {"t": {"s": [row]}}
    from PIL import Image

    visual = lambda one: [Image.open(tmp_path / one["image"])]  # noqa: E731
    context = row["question"] + "\nAnswer with the option's letter."
    request = SimpleNamespace(args=(context, {"until": ["\n\n"]}, visual, 0, "t", "s"))
    assert model.generate_until([request]) == ["RED"]
    assert asked == [(context, "What is red?", None, 0.25)]


def test_metrics_agree_with_those_of_lmms_eval() -> None:
    from lmms_eval.api.metrics import anls
    from lmms_eval.tasks._task_utils.vqa_eval_metric import EvalAIAnswerProcessor
    from lmms_eval.tasks.chartqa.utils import relaxed_correctness

    theirs, draw = EvalAIAnswerProcessor(), random.Random(0)
    words = [
        *theirs.CONTRACTIONS,
        *theirs.CONTRACTIONS.values(),
        *theirs.NUMBER_MAP,
        *("a", "The", "3,000", "3.5", "U.S."),
    ]
    words += ["N/A", "yes.", "what?", "it-is", "x , y", "dog's", "($5)", "50%", ".5", "5.", "Red", ";", "12", "-3", "0"]
    for _ in range(5000):
        said, true = (" ".join(draw.choices(words, k=draw.randint(1, 3))) for _ in range(2))
        said = said.replace(" ", draw.choice("-/\t "), 1)
        assert scores.normalised(scores._tokenised(said)) == theirs(said)
        plain = said.replace("\t", " ").strip()
        assert scores.normalised(said) == theirs.process_digit_article(theirs.process_punctuation(plain))
        assert scores.anls(said, [true]) == anls([true], [said])["anls"]
        first, second = draw.choices(words, k=2)
        assert scores.relaxed_accuracy(first, [second]) == relaxed_correctness(first, second)
