"""The clients that people have: OpenAI's, Anthropic's and Ollama's own packages, through the proxy."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache
from typing import Any

import pytest
from PIL import Image
from proxy_parts import PAGE, QUESTION, Upstream, data_url, running, sizes
from tiny_weights import has_weights, signs

from arr_coc.packing.prices.tables import table_for

STREET = "What does the pink sign say?"


@pytest.fixture(scope="module")
def serving() -> Iterator[str]:
    """`arr-coc serve` on mini, which shows its model what it is sent, in full."""
    pytest.importorskip("openai", reason="openai is not installed: pip install 'arr-coc[dev]'")
    if not has_weights():
        pytest.skip("the bundled weights are not here")
    import arr_coc
    from arr_coc.app.serve.api import Engine, build_api
    from arr_coc.app.web import Limits

    engine = Engine(copy(arr_coc.Eye.from_pretrained("mini")), Limits())
    with running(build_api(engine, budget=1.0)) as address:
        yield address


@cache
def street() -> bytes:
    """A part of the example, 96 tokens."""
    memory = io.BytesIO()
    Image.fromarray(signs()).save(memory, "PNG")
    return memory.getvalue()


def ask(address: str, **how: Any) -> Any:
    from openai import OpenAI

    client = OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=120)
    content: list[Any] = [
        {"type": "image_url", "image_url": {"url": data_url(street())}},
        {"type": "text", "text": STREET},
    ]
    return client.chat.completions.create(
        model="mini", messages=[{"role": "user", "content": content}], temperature=0, **how
    )


def test_openai_and_our_own_server(serving: str, fronting: Callable[..., Any]) -> None:
    with fronting(serving, budget="25%", relevance="auto") as address:
        packed = ask(address)
        pieces = [piece for piece in ask(address, stream=True) if piece.choices]
        off = ask(address, extra_headers={"x-arr-coc": "off"})
    assert off.arr_coc["tokens"] == 96
    assert off.choices[0].message.content == "COFFEE"
    assert packed.arr_coc["tokens"] <= 24
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == packed.choices[0].message.content


def test_openai_sees_the_upstreams_errors(serving: str, fronting: Callable[..., Any]) -> None:
    import openai

    with fronting(serving) as address:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
        with pytest.raises(openai.NotFoundError, match="is not served here"):
            client.chat.completions.create(model="other", messages=[{"role": "user", "content": "hi"}])
        assert [one.id for one in client.models.list()] == ["mini"]


def anthropic_answer(path: str, body: dict[str, Any]) -> dict[str, Any]:
    pictures = [part for part in body["messages"][0]["content"] if part["type"] == "image"]
    own = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "stop_reason": "end_turn"}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {**own, "content": [{"type": "text", "text": f"{len(pictures)} pictures"}], "usage": usage}


def test_anthropic(fronting: Callable[..., Any]) -> None:
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed: pip install 'arr-coc[dev]'")
    upstream = Upstream(answer=anthropic_answer)
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PAGE).decode()}
    content = [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]
    with running(upstream) as behind, fronting(behind, budget=100) as address:
        client = anthropic.Anthropic(base_url=address, api_key="sk-ant-secret", max_retries=0)
        how: dict[str, Any] = {"model": "claude-opus-4-7", "max_tokens": 9}
        said = client.messages.create(messages=[{"role": "user", "content": content}], **how)
        assert int(said.content[0].text.split()[0]) >= 2
        sent = upstream.seen[-1][1]  # which header holds the key depends on the client's version
        assert "sk-ant-secret" in (sent.get("x-api-key") or sent["authorization"])
        shown = [
            base64.b64decode(part["source"]["data"])
            for part in upstream.last["messages"][0]["content"]
            if part["type"] == "image"
        ]
        assert sum(table_for("claude-opus-4-7").tokens(size) for size in sizes(shown)) <= 100
        upstream.answer, upstream.pieces = None, anthropic_stream()
        upstream.headers = [(b"content-type", b"text/event-stream")]
        with client.messages.stream(messages=[{"role": "user", "content": content}], **how) as stream:
            assert "".join(stream.text_stream) == "STOP here"
        upstream.answer, upstream.pieces, upstream.status = None, None, 529
        upstream.headers = [(b"content-type", b"application/json")]
        upstream.body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}'
        with pytest.raises(anthropic.APIStatusError, match="busy"):
            client.messages.create(messages=[{"role": "user", "content": content}], **how)


def anthropic_stream() -> list[bytes]:
    begin = {"id": "1", "type": "message", "role": "assistant", "content": [], "model": "claude-opus-4-7"}
    begin |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": begin}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "STOP"}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": " here"}}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 2}}),
        ("message_stop", {}),
    ]
    return [f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode() for name, data in events]


def test_openai_responses(fronting: Callable[..., Any]) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed: pip install 'arr-coc[dev]'")

    def answer(path: str, body: dict[str, Any]) -> dict[str, Any]:
        shown = [part for part in body["input"][0]["content"] if part["type"] == "input_image"]
        text = {"type": "output_text", "text": f"{len(shown)} pictures", "annotations": []}
        message = {"id": "1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
        own = {"id": "r", "object": "response", "created_at": 1, "model": body["model"], "output": [message]}
        return {**own, "parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "status": "completed"}

    upstream = Upstream(answer=answer)
    with running(upstream) as behind, fronting(behind, budget=300) as address:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
        content = [
            {"type": "input_image", "image_url": data_url(PAGE), "detail": "auto"},
            {"type": "input_text", "text": QUESTION},
        ]
        said = client.responses.create(model="gpt-4.1-mini", input=[{"role": "user", "content": content}])
        assert int(said.output_text.split()[0]) >= 2
