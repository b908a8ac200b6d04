"""Reading attention changes nothing: not the numbers, not the model, not another thread's work."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest
import torch
from tiny_models import picture, prompt, tiny_model, tiny_processor

from arr_coc import attach
from arr_coc.answering.decoding import steps
from arr_coc.realizing.glance import language_model, reading_attention

ROWS = [([picture(128, 192)], "what colour is the square"), ([picture(96, 96, 1)], "how many")]


QUERIES = torch.tensor([[3, 9], [5, 8]])
KEYS = torch.arange(4).expand(2, -1)


def hooks(model: torch.nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_numbers_are_as_without_it_and_the_model_is_as_before(attention: str) -> None:
    model, inputs = tiny_model(attention=attention), prompt(tiny_processor(), ROWS)
    with torch.no_grad():
        plain = model(**inputs).logits
        with reading_attention(model, QUERIES, KEYS) as record:
            read = model(**inputs).logits
    there = inputs["attention_mask"].bool()  # what stands in padding is nobody's business
    torch.testing.assert_close(read[there], plain[there], atol=1e-5, rtol=0)
    assert [one.shape for one in record.values()] == [(2, 4, 2, 4)] * 4
    assert language_model(model).config._attn_implementation == attention


@pytest.mark.parametrize("relevance", ["auto", "glance", "detail"])
def test_attach_generate_detach_leaves_no_trace(relevance: str) -> None:
    """Also while an exception passes through; a model with transformers' capture hooks on it cannot be saved."""
    model, processor = tiny_model(), tiny_processor()
    inputs = prompt(processor, ROWS)
    before, names = hooks(model), set(vars(model))
    with attach(model, processor, budget=8, relevance=relevance):
        model.generate(**inputs, max_new_tokens=2, do_sample=False)

    def breaks(*_: Any) -> None:
        raise RuntimeError("no")

    handle = language_model(model).layers[1].register_forward_pre_hook(breaks)
    with pytest.raises(RuntimeError, match="no"), attach(model, processor, budget=8, relevance=relevance):
        model.generate(**inputs, max_new_tokens=2)
    handle.remove()
    assert hooks(model) == before
    assert set(vars(model)) == names
    assert language_model(model).config._attn_implementation == "sdpa"
    torch.save(model, io.BytesIO())


def test_threads_that_read_and_threads_that_do_not_never_meet() -> None:
    model, processor = tiny_model(attention="eager"), tiny_processor()
    inputs = [prompt(processor, ROWS[:1]), prompt(processor, ROWS[1:])]
    with torch.no_grad():
        alone = []
        for one in inputs:
            with reading_attention(model, QUERIES[:1], KEYS[:1]) as record:
                model(**one)
            alone.append(record[2])
        plain = model(**inputs[0]).logits
    wrong: list[str] = []

    @torch.no_grad()
    def read(number: int) -> None:
        for _ in range(6):
            with reading_attention(model, QUERIES[:1], KEYS[:1]) as record:
                model(**inputs[number])
            if not torch.allclose(record[2], alone[number], atol=1e-6):
                wrong.append(f"read {number}")

    @torch.no_grad()
    def run() -> None:
        wrong.extend("plain" for _ in range(6) if not torch.equal(model(**inputs[0]).logits, plain))

    threads = [threading.Thread(target=read, args=(0,)), threading.Thread(target=read, args=(1,))]
    threads.append(threading.Thread(target=run))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert language_model(model).config._attn_implementation == "eager"


def test_a_consumer_may_end_rows() -> None:
    """The loop says what `generate` says; `send` ends it early."""
    model, inputs = tiny_model(), prompt(tiny_processor(), ROWS)
    with attach(model, tiny_processor(), budget=8, relevance="detail") as attachment:
        realized = attachment.prepare(inputs)
    words = model.generate(**attachment.prepare(inputs).inputs, max_new_tokens=6, do_sample=False)
    said = torch.stack([step.ids for step in steps(model, realized, 6)], 1)
    assert torch.equal(said, words[:, -said.shape[1] :])
    loop = steps(model, realized, 6)
    next(loop)
    loop.send(torch.tensor([True, False]))
    with pytest.raises(StopIteration):
        loop.send(torch.tensor([False, True]))
