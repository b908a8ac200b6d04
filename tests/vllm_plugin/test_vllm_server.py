"""vLLM's own OpenAI server with the plugin, asked by the real client over loopback."""

from __future__ import annotations

import base64
import io
import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.request import urlopen

import pytest
import vllm_cases

import arr_coc

pytest.importorskip("vllm", reason="vLLM is not installed here; `make test-vllm` builds an environment with it")
openai = pytest.importorskip("openai")
PINK, GRAY = "What does the pink sign say?", "What does the gray sign say?"
SECONDS = 900


@pytest.fixture(scope="module")
def picture():
    return vllm_cases.shown()[2][0]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--model", vllm_cases.MODEL, "--served-model-name", "mini", "--dtype", "float32", "--enforce-eager"]
    command += ["--max-model-len", "2048", "--max-num-batched-tokens", "2048", "--trust-request-mm-kwargs"]
    command += ["--hf-overrides", json.dumps(vllm_cases.OVERRIDES), "--no-mm-device-do-normalize"]
    command += ["--mm-processor-kwargs", json.dumps({"arr_coc": {"budget": 96, "max_budget": 400}})]
    command += ["--limit-mm-per-prompt", json.dumps({"image": 2, "video": 0})]
    log = tmp_path_factory.mktemp("vllm") / "log"
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", **os.environ}
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=settings)
        try:
            wait(f"http://127.0.0.1:{port}/health", server, log)
            yield openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=300)
        finally:
            server.terminate()
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait(address, server, log):
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            with urlopen(address, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(1)
    pytest.fail(f"the server did not start:\n{log.read_text()[-4000:]}")


def ask(client, picture, question, wish=None, **more):
    data = io.BytesIO()
    picture.save(data, "PNG")
    url = "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": question}]
    extra = {} if wish is None else {"extra_body": {"mm_processor_kwargs": {"arr_coc": wish}}}
    chat = [{"role": "user", "content": content}]
    return client.chat.completions.create(model="mini", messages=chat, temperature=0, max_tokens=64, **extra, **more)


def text(answer) -> str:
    return answer.choices[0].message.content.strip()


def test_a_budget_of_the_server_and_one_of_the_request(client, picture):
    eye = arr_coc.Eye.from_pretrained().set_image(picture)
    around = None
    for wish, tokens in ((None, 96), ({"budget": 60}, 60), ({"budget": 192}, 192), ({"budget": 0.1}, 76)):
        answer = ask(client, picture, PINK, wish)
        expected = eye.ask(PINK, budget=tokens)
        assert text(answer) == expected.text == "COFFEE"
        assert expected.tokens == tokens
        usage = answer.usage
        around = usage.prompt_tokens - tokens if around is None else around
        assert usage.prompt_tokens == around + tokens
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    # The chat's markers and words, letter by letter.
    assert 0 < around < 64


def test_two_questions_about_one_picture_also_when_repeated(client, picture):
    eye = arr_coc.Eye.from_pretrained().set_image(picture)
    right = {question: eye.ask(question, budget=40).text for question in (PINK, GRAY)}
    said = [text(ask(client, picture, question, {"budget": 40})) for question in (PINK, GRAY, PINK, GRAY)]
    assert said == [right[PINK], right[GRAY]] * 2
    assert right[PINK] != right[GRAY]


@pytest.mark.parametrize(
    ("wish", "line"),
    [
        ({"budget": 0}, "at least 1"),
        ({"budget": "x"}, "whole number"),
        ({"budget": 401}, "above this server's limit of 400"),
        ({"bugdet": 9}, "is unknown"),
        ({"relevance": "glance"}, "needs a model"),
        ({"allocation": {"schema": 99}}, "schema"),
        ([{}, {}], "2 entries for 1 pictures"),
        ({"scale": 1000}, "is not possible; give auto"),
    ],
)
def test_bad_wishes_are_400_with_one_line(client, picture, wish, line):
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, picture, PINK, wish)
    assert line in str(error.value)


def test_streaming_says_the_same_in_pieces(client, picture):
    pieces = list(ask(client, picture, GRAY, {"budget": 60}, stream=True, stream_options={"include_usage": True}))
    said = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    whole = ask(client, picture, GRAY, {"budget": 60})
    assert said.strip() == text(whole)
    assert sum(bool(piece.choices and piece.choices[0].delta.content) for piece in pieces) > 1
    assert pieces[-1].usage.prompt_tokens == whole.usage.prompt_tokens


def test_many_at_once_each_by_its_own_budget(client, picture):
    budgets = [31, 60, 96, 120, 192, 300] * 2
    with ThreadPoolExecutor(len(budgets)) as pool:
        answers = list(pool.map(lambda budget: ask(client, picture, PINK, {"budget": budget}), budgets))
    assert {text(answer) for answer in answers} == {"COFFEE"}
    spent = [answer.usage.prompt_tokens - budget for answer, budget in zip(answers, budgets, strict=True)]
    assert len(set(spent)) == 1


def test_the_proxy_in_front_of_it(client, picture):
    """What vLLM counts is what the proxy tells; streams and errors come through."""
    from proxy_parts import running

    from arr_coc.app.proxy.api import build_proxy
    from arr_coc.app.proxy.packer import ProxySettings

    settings = ProxySettings(str(client.base_url), options=arr_coc.Options(budget=90))
    with running(build_proxy(settings)) as address:
        front = client.with_options(base_url=f"{address}/v1")
        raw = ask(front.with_raw_response, picture, PINK, {"budget": 400})
        answer, tokens = raw.parse(), int(raw.headers["x-arr-coc-tokens"])
        assert raw.headers["x-arr-coc"] == "packed"
        assert tokens <= 90
        pieces = ask(front, picture, PINK, {"budget": 400}, stream=True)
        said = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        assert said.strip() == text(answer)
        with pytest.raises(openai.BadRequestError):
            ask(front, picture, PINK, {"budget": 0})
