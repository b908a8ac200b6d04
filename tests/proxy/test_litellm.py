"""LiteLLM's own library and its own proxy with the callback, before upstreams on loopback: `make test-litellm`."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
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


def test_litellms_own_proxy(tmp_path: Path) -> None:
    """Its command with our callback in its configuration, in a process: clients of two forms, a loopback upstream."""
    pytest.importorskip("litellm.proxy.proxy_server", reason="pip install 'litellm[proxy]'")
    (tmp_path / "own.py").write_text(
        'from arr_coc.app.litellm import Foveate\n\nfoveate = Foveate(budget=60, relevance="detail", assume="mini")\n'
    )
    content = [{"type": "image", "source": SOURCE}, {"type": "text", "text": QUESTION}]
    claude = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
    upstream = Upstream(answer=answer)
    with running(upstream) as behind, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        models = {"mini": ("openai/mini", f"{behind}/v1"), "claude": ("anthropic/claude-sonnet-4-5", behind)}
        listed = [
            {"model_name": name, "litellm_params": {"model": model, "api_base": base, "api_key": "none"}}
            for name, (model, base) in models.items()
        ]
        settings = {"model_list": listed, "litellm_settings": {"callbacks": ["own.foveate"]}}
        (tmp_path / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
        line = [str(Path(sys.executable).with_name("litellm")), "--config", "config.yaml", "--host", "127.0.0.1"]
        key = "sk-of-this-test-alone-0123456789abcdef"
        environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key}
        with subprocess.Popen([*line, "--port", str(port)], cwd=tmp_path, env=environment) as gateway:
            try:
                own = {"Authorization": f"Bearer {key}"}
                with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, headers=own) as client:
                    until_ready(client)
                    said = client.post("/v1/chat/completions", json=chat()).json()
                    assert said["choices"][0]["message"]["content"] == "STOP"
                    parts = upstream.last["messages"][0]["content"]
                    assert data_url(PAGE) not in str(parts)
                    assert len([part for part in parts if part["type"] == "image_url"]) >= 1
                    said = client.post("/v1/messages", json=claude).json()
                    assert said["content"][0]["text"] == "STOP"
                    assert SOURCE["data"] not in str(upstream.last)
                    assert "image" in {part["type"] for part in upstream.last["messages"][0]["content"]}
            finally:
                gateway.terminate()


def until_ready(client: Any) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with suppress(httpx.TransportError):
            if client.get("/health/liveliness").status_code == 200:
                return
        time.sleep(0.5)
    raise AssertionError("LiteLLM's proxy does not start")
