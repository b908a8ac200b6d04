"""Documents before models: pages as pictures of one prompt, one budget over all, and page by page for `mini`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_pdf import small_pdf
from tiny_models import GREEDY, picture, prompt, save_stock, tiny_model, tiny_processor

from arr_coc import Eye, InputError, ask, attach
from arr_coc.answering.chat import USER, Turn
from arr_coc.answering.esper import Esper
from arr_coc.answering.pages import ask_page_by_page
from arr_coc.app.cli import main
from arr_coc.core.answer import Answer
from arr_coc.options import Options
from arr_coc.pictures.document import Document

ROWS = [([picture(64, 64, 1), picture(160, 96, 2), picture(96, 128, 4)], "where is the red square on the left")]


@pytest.fixture(scope="module")
def stock(tmp_path_factory) -> Path:
    return save_stock(tmp_path_factory.mktemp("stock"))


@pytest.fixture
def report(tmp_path) -> Path:
    pytest.importorskip("pypdfium2")
    pages = tuple((f"72 {700 - n} Td (Total of {n}: {n}0.50) Tj", "") for n in range(1, 6))
    return small_pdf(tmp_path / "report.pdf", pages)


def test_one_budget_over_the_pictures_of_a_prompt_is_exact_and_follows_relevance() -> None:
    model, processor = tiny_model(), tiny_processor()
    inputs = prompt(processor, ROWS)
    maps = [np.zeros((2, 2), np.float32), np.full((5, 3), 0.9, np.float32), np.zeros((3, 4), np.float32)]
    with attach(model, processor, budget=14, relevance=maps, options=Options(total=True)) as foveation:
        model.generate(**inputs, **GREEDY)
        assert [one.tokens for one in foveation.last] == [1, 12, 1]
        model.generate(**inputs, **GREEDY, budget=9, total=False)
        assert [one.tokens for one in foveation.last] == [4, 9, 9]
        with pytest.raises(InputError, match="leaves some without any"):
            model.generate(**inputs, **GREEDY, budget=2)


@torch.no_grad()
def test_everything_kept_is_the_stock_model_with_the_same_pictures() -> None:
    model, processor = tiny_model(), tiny_processor()
    inputs = prompt(processor, [*ROWS, ([picture(128, 192, 3)], "how many")])
    expected = model(**inputs).logits
    with attach(model, processor, budget=9999, options=Options(total=True)):
        assert (model(**inputs).logits - expected).abs().max() < 1e-5


def test_a_model_sees_the_pages_with_marks_and_is_told_what_is_hidden(stock, report) -> None:
    eye = Eye.from_pretrained(str(stock)).set_image(report)
    looked = eye.prepare("What is the total of 3?", Options(budget=48))
    text = eye.processor.tokenizer.decode(looked.inputs["input_ids"][0])
    assert "Page 3 of 5:" in text
    assert len(looked.views) == 5
    assert sum(one.tokens for one in looked.plan.allocations) == 48
    answer = eye.ask("What is the total of 3?", budget=48, options=Options(max_new_tokens=2))
    assert answer.tokens == 48
    assert answer.pages == (1, 2, 3, 4, 5)
    assert max(zip([step.tokens for step in answer.passes], answer.pages, strict=True))[1] == 3
    few = eye.prepare("What is the total of 3?", Options(budget=6))
    hidden = eye.processor.tokenizer.decode(few.inputs["input_ids"][0])
    assert "not shown" in hidden
    assert sum(one.tokens for one in few.plan.allocations) == 6
    assert (
        "".join(eye.stream("What is the total of 3?", budget=48, options=Options(max_new_tokens=2))).strip()
        == answer.text
    )


def test_documents_and_pictures_in_one_conversation(stock, report) -> None:
    eye = Eye.from_pretrained(str(stock))
    turns = (Turn(USER, (Document.of(report), picture(128, 96), "What is the total of 3?")),)
    each = eye.prepare(turns, Options(budget=24))
    assert sum(one.tokens for one in each.plan.allocations) == 24 + 12
    together = eye.prepare(turns, Options(budget=24, total=True))
    assert sum(one.tokens for one in together.plan.allocations) == 24
    with pytest.raises(InputError, match="one number"):
        eye.prepare(turns, Options(budget=[3, 4]))
    # A small picture before it takes nothing from the document's own budget, and a share is one of all its pages.
    first = (Turn(USER, (picture(128, 96), Document.of(report), "What is the total of 3?")),)
    assert sum(one.tokens for one in eye.prepare(first, Options(budget=24)).plan.allocations) == 12 + 24
    full = sum(-(-page.size[0] // 32) * -(-page.size[1] // 32) for page in Document.of(report))
    shared = eye.prepare(first, Options(budget=0.01), pages_shown=2)
    assert sum(one.tokens for one in shared.plan.allocations) == 1 + full // 100


def test_full_pages_of_a_document_are_the_stock_class_with_the_same_images(stock) -> None:
    pages = [np.asarray(one) for one in ROWS[0][0]]
    eye = Eye.from_pretrained(str(stock)).set_image(pages)
    looked = eye.prepare("how many", Options(budget=1.0))
    with torch.no_grad():
        realized = eye.engine.realize(looked)
        ours = eye.model(**realized.inputs).logits[0, -1]
        kinds = (looked.inputs["input_ids"] == eye.model.config.image_token_id).long()
        stock_logits = eye.model(**looked.inputs, mm_token_type_ids=kinds).logits[0, -1]
    assert (ours - stock_logits).abs().max() < 1e-5


def test_page_by_page_the_next_is_asked_where_the_first_is_unsure(report) -> None:
    asked: list[Any] = []

    def asker(page, words, tokens, known):
        asked.append((words.texts[2], tokens))
        return Answer(f"said of {words.texts[2]}", unsure[len(asked) - 1], seconds={"answer": 1.0})

    how = (Document.of(report), "What is the total of 3?", Options(budget=60, relevance="auto"), None, asker)
    unsure = [0.1]
    assert ask_page_by_page(*how).text == "said of 3:"
    assert len(asked) == 1
    asked.clear()
    unsure = [0.9, 0.2]
    answer = ask_page_by_page(*how)
    assert len(asked) == 2
    assert sum(tokens for _, tokens in asked) <= 60
    assert answer.seconds["answer"] == 2
    assert any("answers; looked at" in note for note in answer.notes)


def test_mini_reads_the_best_page(report) -> None:
    answer = ask(report, "What is the total of 4?", budget=64, options=Options(max_new_tokens=6))
    assert answer.of_pages == 5
    assert 4 in answer.pages
    assert answer.tokens <= 64
    assert answer.to_json()["pages"]
    one = ask(report, "What is the total of 4?", budget=64, pages=4, options=Options(max_new_tokens=6))
    assert one.pages == ()
    with pytest.raises(InputError, match="several pages"):
        ask(report, "What?", budget=64, words=[])


def test_passes_go_over_the_best_pages_and_share_the_budget(report, capsys) -> None:
    esper = Esper.from_pretrained().set_image(report)
    answer = esper.ask("What is the total of 4?", budget=96, passes=2, options=Options(max_new_tokens=6))
    assert answer.of_pages == 5
    assert 4 in answer.pages
    assert len(answer.pages) == len(answer.passes)
    assert answer.tokens <= 96
    one = esper.set_image(report, pages=4).ask("What is the total of 4?", budget=32, passes=1)
    assert one.pages == ()
    with pytest.raises(SystemExit) as ended:
        main(["ask", str(report), "What is the total of 4?", "--budget", "64", "--set", "preset=two_pass", "--json"])
    assert not ended.value.code
    told = json.loads(capsys.readouterr().out)
    assert 4 in told["pages"]


def test_a_document_is_asked_with_and_without_hints(report) -> None:
    eye = Eye.from_pretrained("mini").set_image(str(report))
    for hints in ("words", "none"):
        answer = eye.ask("What is the total of 4?", budget=32, options=Options(max_new_tokens=3, hints=hints))
        assert 4 in answer.pages
        assert (answer.source == "pixels") == (hints == "none")
