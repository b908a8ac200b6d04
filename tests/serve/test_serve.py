"""`arr-coc serve` as OpenAI's own client sees it: the words of `Eye.ask`, whatever else is going on."""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import Zygote
from PIL import Image
from serve_client import GRAY, JSON, PINK, SIGNS, STREET, Gate, Served, data_url, until

from arr_coc.knowing.registry import relevance_source, remove_source
from arr_coc.options import Options


def picture_of(height: int, width: int) -> str:
    memory = io.BytesIO()
    Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(memory, "PNG")
    return data_url(memory.getvalue())


def refusal(served: Served, *arguments: Any, **how: Any) -> tuple[int, str]:
    from openai import APIStatusError

    with pytest.raises(APIStatusError) as raised:
        served.ask(*arguments, **how)
    words = raised.value.response.json()["error"]["message"]
    assert "\n" not in words
    assert "Traceback" not in words
    return raised.value.status_code, words


def test_models_and_health(server: Served) -> None:
    import httpx

    assert [model.id for model in server.client.models.list()] == ["mini"]
    assert httpx.get(f"{server.address}/health").status_code == 200
    # A page of another site that calls itself by this machine's address is not answered.
    assert httpx.get(f"{server.address}/health", headers={"Host": "evil.example"}).status_code == 403


def test_an_answer_is_that_of_ask_and_says_what_it_cost(server: Served, eye: Any, wanted: Callable[..., Any]) -> None:
    said, answer = server.ask(own={"budget": 48, "want": ["allocation"]}), wanted(PINK, budget=48)
    own = said.arr_coc
    assert said.choices[0].message.content == answer.text == "COFFEE"
    assert said.choices[0].finish_reason == "stop"
    assert (own["tokens"], own["full"]) == (answer.tokens, answer.full) == (48, 96)
    assert own["uncertainty"] == pytest.approx(answer.uncertainty, abs=1e-4)
    assert own["relevance"] == answer.notes[0]
    assert set(own["seconds"]) == {*answer.seconds, "wait"}
    assert own["allocation"] == answer.allocation.to_json()
    text = eye.processor.tokenizer(PINK).input_ids
    assert said.usage.prompt_tokens >= 48 + len(text)
    assert said.usage.completion_tokens == len(eye.processor.tokenizer("COFFEE").input_ids) + 1
    assert said.usage.total_tokens == said.usage.prompt_tokens + said.usage.completion_tokens


def test_a_stream_is_the_same_answer_in_pieces(server: Served, wanted: Callable[..., Any]) -> None:
    own = {"budget": 0.25, "want": ["allocation"]}
    chunks = list(server.ask(own=own, stream=True, stream_options={"include_usage": True}))
    answer = wanted(PINK, budget=0.25)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert "".join(pieces) == answer.text
    assert len(pieces) > 1
    assert chunks[-2].arr_coc["tokens"] == answer.tokens
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-2].arr_coc["uncertainty"] == pytest.approx(answer.uncertainty, abs=1e-4)
    assert chunks[-2].arr_coc["allocation"] == answer.allocation.to_json()
    assert chunks[-1].usage.prompt_tokens > answer.tokens


def test_answers_end_where_they_are_told_to(server: Served) -> None:
    short = server.ask(max_tokens=2, own={"budget": 48})
    assert (short.choices[0].message.content, short.choices[0].finish_reason) == ("CO", "length")
    assert short.usage.completion_tokens == 2
    stopped = server.ask(stop=["FE"], own={"budget": 48})
    assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("COF", "stop")


def test_a_caller_may_say_where_to_look(server: Served, wanted: Callable[..., Any]) -> None:
    other = wanted(GRAY, budget=24)
    own = {"budget": 24, "query": GRAY, "want": ["allocation"]}
    assert server.ask(own=own).arr_coc["allocation"] == other.allocation.to_json()
    again = server.ask(GRAY, own={"allocation": other.allocation.to_json()})
    assert again.choices[0].message.content == other.text
    assert again.arr_coc["relevance"] == "the caller's allocation"
    named = server.ask(own={"budget": 24, "relevance": "detail", "strategy": "quadtree"})
    assert named.arr_coc["relevance"].startswith("relevance 'detail'")
    words = [{"text": "coffee", "box": [0.1, 0.1, 0.2, 0.15]}]
    assert server.ask(own={"budget": 24, "words": words}).arr_coc["relevance"].startswith("relevance 'words'")


def test_a_picture_is_read_from_where_the_request_says(server: Served, wanted: Callable[..., Any]) -> None:
    for scale in ("auto", 0.5, 1, 2):
        said = server.ask(own={"budget": 24, "scale": scale, "want": ["allocation"]})
        assert said.arr_coc["allocation"] == wanted(PINK, budget=24, scale=scale).allocation.to_json()
        assert said.arr_coc["allocation"].get("scale", 1) == (1 if scale == "auto" else scale)


def test_what_cannot_be_answered_is_one_line(server: Served) -> None:
    address = "http://127.0.0.1:9/x.png"
    for own, part in (
        ({"budget": 0}, "budget"),
        ({"budget": "x"}, "budget"),
        ({"keep": 2}, "keep"),
        ({"strategy": "magic"}, "magic"),
        ({"relevance": "/etc"}, "relevance"),
        ({"words": "/etc/passwd"}, "words"),
        ({"allocation": {"schema": 1}}, "allocation"),
        ({"want": ["weights"]}, "want"),
        ({"tokens": 9}, "arr_coc.tokens"),
        *(({"scale": wrong}, "give auto") for wrong in (0, 1000, "near", True)),
        ({"readings": 2}, "arr_coc.readings is unknown"),
    ):
        status, words = refusal(server, own=own)
        assert (status, part in words) == (400, True), words
    for how, part in (
        ({"temperature": 0.7}, "temperature"),
        ({"n": 2}, "n=2"),
        ({"max_tokens": 65}, "64"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"logprobs": True}, "logprobs"),
    ):
        status, words = refusal(server, **how)
        assert (status, part in words) == (400, True), words
    for pictures, part in (
        ((address,), "data:"),
        (("file:///etc/passwd",), "data:"),
        (("data:image/png;base64,???",), "base64"),
        ((data_url(b"no picture"),), "picture"),
        ((data_url(SIGNS[:5000]),), "the bytes given"),
        ((picture_of(1500, 1500),), "pixels"),
        (
            (picture_of(1500, 1500)[: len("data:image/png;base64,") + 180],),
            "pixels",
        ),  # by its header: the rest never came
        ((picture_of(1000, 1500), picture_of(1000, 1500)), "pixels"),
        ((picture_of(64, 64),) * 9, "9 pictures"),
    ):
        status, words = refusal(server, PINK, *pictures)
        assert (status, part in words) == (400, True), words
    assert refusal(server, "")[0] == 400
    assert refusal(server, model="gpt")[0] == 404
    assert refusal(server, PINK, data_url(bytes(3 * 2**20)))[0] == 413


def test_bodies_that_are_no_chat(server: Served) -> None:
    import httpx

    address = f"{server.address}/v1/chat/completions"
    for body in (b"", b"{", b"[]", b"[" * 100_000, b'{"model": "mini"}', b'{"model": "mini", "messages": [1]}'):
        answer = httpx.post(address, content=body, headers=JSON)
        assert answer.status_code == 400, body[:20]
        assert answer.json()["error"]["message"]
    assert httpx.post(address, content=iter([b"{}"]), headers=JSON).status_code == 411


def test_twelve_at_once_all_get_their_own_answer(server: Served, wanted: Callable[..., Any], gate: Gate) -> None:
    """While the engine is held up, all of them come to wait, and are answered eight and four at a time."""
    questions = [(PINK, 48), (GRAY, 24), (PINK, 24)] * 4
    street = data_url(STREET.read_bytes())
    before = server.counted("arr_coc_batch_size_count")
    with ThreadPoolExecutor(13) as pool:
        held = pool.submit(server.ask, own={"budget": 12, "relevance": "gate"})
        assert gate.reached.wait(60)
        asked = [pool.submit(server.ask, question, own={"budget": budget}) for question, budget in questions[:-1]]
        larger = pool.submit(server.ask, PINK, street, own={"budget": 192})
        until(lambda: server.engine.waiting == 12)
        assert server.counted("arr_coc_waiting") == 12
        gate.opened.set()
        said = [one.result() for one in asked]
        assert larger.result().choices[0].message.content == "COFFEE"
        assert larger.result().arr_coc["tokens"] == 192
        held.result()
    assert server.counted("arr_coc_batch_size_count") == before + 3
    assert sorted(one.arr_coc["batch"] for one in (*said, larger.result())) == [4] * 4 + [8] * 8
    for (question, budget), one in zip(questions, said, strict=False):
        answer = wanted(question, budget=budget)
        assert (one.choices[0].message.content, one.arr_coc["tokens"]) == (answer.text, answer.tokens)
        assert one.arr_coc["uncertainty"] == pytest.approx(answer.uncertainty, abs=1e-3)


def test_one_that_goes_wrong_takes_nobody_along(server: Served, wanted: Callable[..., Any], gate: Gate) -> None:
    from arr_coc import look

    def broken(scene: Any, question: str) -> Any:
        raise RuntimeError("a secret")

    relevance_source("broken")(broken)
    misfit = look(SIGNS, PINK, budget=12, options=Options(cell=64)).to_json()
    try:
        with ThreadPoolExecutor(5) as pool:
            held = pool.submit(server.ask, own={"budget": 12, "relevance": "gate"})
            assert gate.reached.wait(60)
            wrong = pool.submit(refusal, server, own={"relevance": "broken"})
            unfit = pool.submit(refusal, server, own={"allocation": misfit})
            right = [pool.submit(server.ask, PINK, own={"budget": budget}) for budget in (48, 24)]
            until(lambda: server.engine.waiting == 4)
            gate.opened.set()
            held.result()
            assert wrong.result() == (500, "internal error; see the log")
            assert unfit.result()[0] == 400
            for one, budget in zip(right, (48, 24), strict=True):
                assert one.result().choices[0].message.content == wanted(PINK, budget=budget).text
    finally:
        remove_source("broken")


def test_limits_of_queue_and_time(serving: Callable[..., Any], gate: Gate) -> None:
    from openai import RateLimitError

    with serving(queue=1) as served, ThreadPoolExecutor(3) as pool:
        held = pool.submit(served.ask, own={"budget": 12, "relevance": "gate"})
        assert gate.reached.wait(60)
        queued = pool.submit(served.ask)
        until(lambda: served.engine.waiting == 1)
        with pytest.raises(RateLimitError) as raised:
            served.ask()
        assert int(raised.value.response.headers["retry-after"]) >= 1
        gate.opened.set()
        assert held.result().choices
        assert queued.result().choices


def test_the_time_of_a_request_is_over_whether_it_waits_or_is_looked_at(
    serving: Callable[..., Any], gate: Gate
) -> None:
    with serving(seconds=1.5) as served, ThreadPoolExecutor(2) as pool:
        held = pool.submit(refusal, served, own={"budget": 12, "relevance": "gate"})
        queued = pool.submit(refusal, served, own={"budget": 12, "relevance": "gate"})
        assert held.result()[0] == 504
        assert queued.result()[0] == 504
        assert served.engine.waiting == 0  # nobody listens: its place is free
        gate.opened.set()
        assert served.counted('arr_coc_requests_total{status="504"}') == 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_gives_up_its_place(server: Served, gate: Gate, stream: bool) -> None:
    from openai import APITimeoutError

    before = server.counted("arr_coc_batch_size_sum")
    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(server.ask, own={"budget": 12, "relevance": "gate"})
        assert gate.reached.wait(60)
        with pytest.raises(APITimeoutError):
            server.ask(stream=stream, timeout=0.5)
        until(lambda: server.engine.waiting == 0)
        gate.opened.set()
        held.result()
    server.ask(own={"budget": 12})
    assert server.counted("arr_coc_batch_size_sum") == before + 2
    assert server.counted('arr_coc_requests_total{status="499"}') >= 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_engine_is_told(serving: Callable[..., Any]) -> None:
    import httpx

    def deadly(scene: Any, question: str) -> Any:
        raise SystemExit

    relevance_source("deadly")(deadly)
    try:
        with serving() as served:
            assert refusal(served, own={"relevance": "deadly"})[0] == 503
            until(lambda: not served.engine.is_alive())
            assert httpx.get(f"{served.address}/health").status_code == 503
            assert refusal(served)[0] == 503
    finally:
        remove_source("deadly")


def test_a_key_opens_everything_but_health(serving: Callable[..., Any]) -> None:
    import httpx
    from openai import AuthenticationError

    with serving(key="long enough") as served:
        assert [model.id for model in served.client.models.list()] == ["mini"]
        with pytest.raises(AuthenticationError):
            served.client.with_options(api_key="long enougH").models.list()
        assert httpx.get(f"{served.address}/metrics").status_code == 401
        assert httpx.get(f"{served.address}/health").status_code == 200


def test_told_to_end_it_finishes_what_it_says(zygote: Zygote, eye: Any, tmp_path: Path) -> None:
    """The command itself; eye: only for its skips."""
    with zygote.going(tmp_path, "serve", "--bind", "0") as process:
        found = re.search(r"http://127\.0\.0\.1:\d+", process.line)
        assert found
        pieces = []
        for chunk in Served(found[0], None).ask(own={"budget": 48}, stream=True):
            if not pieces:  # where the tokens went is told; no word is said yet
                os.kill(process.pid, signal.SIGTERM)
            pieces.append(chunk.choices[0].delta.content or "")
        ended = process.ended()
    assert "".join(pieces) == "COFFEE"
    assert ended.code == 0
    assert "Traceback" not in ended.err
    assert re.search(r"POST /v1/chat/completions 200 .*tokens=48 full=96", ended.err)
