"""One engine of vLLM, float32 on a processor: it answers and counts as `ask` does, whoever chooses the leaves."""

from __future__ import annotations

import os

import numpy as np
import pytest
import vllm_cases

import arr_coc
from arr_coc.core.errors import InputError

vllm = pytest.importorskip("vllm", reason="vLLM is not installed here; `make test-vllm` builds an environment with it")
PINK, GRAY = "What does the pink sign say?", "What does the gray sign say?"


@pytest.fixture(scope="module")
def expected():
    """Before the engine starts: `ask` has the processor for itself."""
    return vllm_cases.cases()


@pytest.fixture(scope="module")
def llm(expected):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1"))
        patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        yield vllm.LLM(
            vllm_cases.MODEL,
            dtype="float32",
            enforce_eager=True,
            max_model_len=2048,
            max_num_batched_tokens=256,  # prefill in chunks that end inside pictures
            block_size=32,  # of 128, as is usual on a processor, no overview would fill one
            limit_mm_per_prompt={"image": 8, "video": 0},
            hf_overrides=vllm_cases.OVERRIDES,
            mm_processor_kwargs={"arr_coc": {"budget": 96, "max_budget": 800}},
        )


def asked(llm, *prompts):
    how = vllm.SamplingParams(temperature=0, max_tokens=vllm_cases.LONGEST, logprobs=0)
    return llm.generate([vllm_cases.prompt(*one) for one in prompts], how, use_tqdm=False)


def visual(llm, out) -> int:
    image = llm.get_tokenizer().convert_tokens_to_ids("<|image_pad|>")
    return sum(token == image for token in out.prompt_token_ids)


def street():
    return vllm_cases.shown()[2][0]


def test_small_print_is_read_from_nearer_by_itself(expected):
    """Or the batch below says nothing about `auto`."""
    assert any(case.nearer and "scale" not in case.wish for case in expected)


def test_seventy_prompts_of_one_batch_are_answered_as_ask_does(llm, expected):
    assert len(expected) >= 60
    outs = asked(llm, *((case.question, [case.picture], case.wish) for case in expected))
    worst = max(abs(out.outputs[0].cumulative_logprob - case.logprob) for out, case in zip(outs, expected, strict=True))
    differing = [
        (case.question, list(case.wish), case.text, out.outputs[0].text, case.tokens, visual(llm, out))
        for out, case in zip(outs, expected, strict=True)
        if (out.outputs[0].text.strip(), visual(llm, out)) != (case.text, case.tokens)
    ]
    nearer = sum(case.nearer for case in expected)
    print(f"{len(outs) - len(differing)} of {len(outs)} equal ({nearer} resized), log-probability within {worst:.2g}")
    assert not differing
    assert worst < 1e-4


def test_two_questions_about_one_picture_never_share_an_allocation(llm):
    eye = arr_coc.Eye.from_pretrained().set_image(street())
    right = {question: eye.ask(question, budget=40).text for question in (PINK, GRAY)}
    assert right[PINK] != right[GRAY]
    for _ in range(2):
        for question in (PINK, GRAY):
            (out,) = asked(llm, (question, [street()], {"budget": 40}))
            assert (out.outputs[0].text.strip(), visual(llm, out)) == (right[question], 40)
    # The pink sign's question steers the answer about the gray one, and spoils it, where the caller says so.
    (spoilt,) = asked(llm, (GRAY, [street()], {"budget": 8, "query": PINK}))
    (right_one,) = asked(llm, (GRAY, [street()], {"budget": 8}))
    assert spoilt.outputs[0].cumulative_logprob != right_one.outputs[0].cumulative_logprob


def test_several_pictures_of_one_prompt_each_as_wished(llm):
    eye = arr_coc.Eye.from_pretrained()
    pictures = [vllm_cases.shown()[number][0] for number in (2, 4, 2)]
    plans = [
        eye.set_image(picture).prepare(PINK, arr_coc.Options(budget=budget)).plan.allocations[0]
        for picture, budget in zip(pictures, (50, 31, 70), strict=True)
    ]
    wishes = [{"budget": 50}, {"budget": 31}, {"budget": 70}]
    expected = attached(eye, pictures, plans)
    for _ in range(2):  # the second time by the caches
        (out,) = asked(llm, (PINK, pictures, wishes))
        assert (out.outputs[0].text.strip(), visual(llm, out)) == (expected, 50 + 31 + 70)
    # One of them known, the others not: each keeps its own wish.
    (out,) = asked(llm, (PINK, [pictures[1], pictures[0]], [{"budget": 33}, {"budget": 50}]))
    assert visual(llm, out) == 83
    (out,) = asked(llm, (PINK, pictures, None))
    assert visual(llm, out) == 3 * 96


def attached(eye, pictures, plans) -> str:
    """What the same model says to the same pictures and allocations through `attach`."""
    content = [*({"type": "image"} for _ in pictures), {"type": "text", "text": PINK}]
    chat = [{"role": "user", "content": content}]
    text = eye.processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    inputs = eye.processor(text=[text], images=pictures, return_tensors="pt")
    with arr_coc.attach(eye.model, eye.processor, budget=64):
        ids = eye.model.generate(**inputs, allocation=plans, max_new_tokens=vllm_cases.LONGEST, do_sample=False)
    new = ids[0, inputs["input_ids"].shape[1] :] if ids.shape[1] > inputs["input_ids"].shape[1] else ids[0]
    return eye.processor.tokenizer.decode(new, skip_special_tokens=True).split("assistant")[-1].strip()


def test_words_of_the_caller_steer(llm):
    words = [{"text": "COFFEE", "box": [0.40332, 0.26432, 0.45215, 0.28646]}]
    eye = arr_coc.Eye.from_pretrained().set_image(street())
    answer = eye.ask("Where is COFFEE?", budget=31, options=arr_coc.Options(words=words, hints="none"))
    (out,) = asked(llm, ("Where is COFFEE?", [street()], {"budget": 31, "words": words}))
    assert (out.outputs[0].text.strip(), visual(llm, out)) == (answer.text, 31)


@pytest.mark.parametrize("wish", [{"budget": 0}, {"budget": 801}, {"allocation": {"schema": 99}}])
def test_a_bad_wish_ends_its_own_request_only(llm, wish):
    with pytest.raises(InputError):
        asked(llm, (PINK, [street()], wish))
    (out,) = asked(llm, (PINK, [street()], None))
    assert (out.outputs[0].text.strip(), visual(llm, out)) == ("COFFEE", 96)


def test_a_prompt_without_pictures_is_the_stock_models(llm):
    (out,) = asked(llm, ("Hello", [], None))
    assert visual(llm, out) == 0
    assert np.isfinite(out.outputs[0].cumulative_logprob)
