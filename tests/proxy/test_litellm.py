"""LiteLLM's own library with the callback, before upstreams on loopback: `make test-litellm`."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from proxy_parts import PAGE, QUESTION, Upstream, chat, data_url, running

litellm = pytest.importorskip("litellm", reason="LiteLLM has an environment of its own: make test-litellm")
SOURCE = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PAGE).decode()}


@pytest.fixture
def foveate(monkeypatch: pytest.MonkeyPatch) -> Any:
    from arr_coc.app.litellm import Foveate

    made = Foveate(budget=60, relevance="detail", assume="mini")
    monkeypatch.setattr(litellm, "callbacks", [made])
    return made


def answer(path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path.endswith("/messages"):
        usage = {"input_tokens": 1, "output_tokens": 1}
        own = {"id": "m", "type": "message", "role": "assistant", "model": body["model"], "stop_reason": "end_turn"}
        return {**own, "content": [{"type": "text", "text": "STOP"}], "usage": usage}
    message = {"role": "assistant", "content": "STOP"}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"], "choices": choices}


def test_openais_form(foveate: Any) -> None:
    upstream, sent = Upstream(answer=answer), chat()
    with running(upstream) as behind:
        how = {"model": "openai/mini", "api_base": f"{behind}/v1", "api_key": "none"}
        metadata: dict[str, Any] = {"user": "me"}
        got = asyncio.run(litellm.acompletion(messages=sent["messages"], metadata=metadata, **how))
        assert got.choices[0].message.content == "STOP"
        parts = upstream.last["messages"][0]["content"]
        assert parts[-1] == {"type": "text", "text": QUESTION}
        assert data_url(PAGE) not in [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        assert sent["messages"][0]["content"][0]["image_url"]["url"] == data_url(PAGE)  # the caller's own stays
        schema = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}
        click = {"type": "function", "function": {"name": "click_screen", "parameters": schema}}
        asyncio.run(litellm.acompletion(messages=sent["messages"], tools=[click], **how))
        assert upstream.last["messages"][0]["content"][0]["image_url"]["url"] == data_url(PAGE)


def test_anthropics_form(foveate: Any) -> None:
    upstream = Upstream(answer=answer)
    content = [{"type": "image", "source": SOURCE}, {"type": "text", "text": QUESTION}]
    with running(upstream) as behind:
        how = {"model": "anthropic/claude-sonnet-4-5", "api_base": behind, "api_key": "none", "max_tokens": 9}
        asyncio.run(litellm.anthropic_messages(messages=[{"role": "user", "content": content}], **how))
    parts = upstream.last["messages"][0]["content"]
    assert SOURCE["data"] not in [part["source"]["data"] for part in parts if part["type"] == "image"]
    assert "arr_coc" not in str(upstream.last.get("metadata"))


def test_savings_are_metadata(foveate: Any) -> None:
    made = asyncio.run(foveate.async_pre_call_deployment_hook(chat(), "acompletion"))
    assert made["metadata"]["arr_coc"]["tokens"] <= 60 < made["metadata"]["arr_coc"]["full"] == 320
    failed = asyncio.run(foveate.async_pre_call_deployment_hook(chat(question=" "), "acompletion"))
    assert "no question" in failed["metadata"]["arr_coc"]["reason"]
    assert asyncio.run(foveate.async_pre_call_deployment_hook({"input": "text"}, "aembedding")) is None
