"""The proxy in front of servers that others wrote: llama.cpp's own, and one of Ollama's protocol before it.

`pip install xllamacpp gguf` (llama.cpp's server as a wheel) and `pip install ollama-openai-proxy`; each test says what
it misses. llama.cpp counts the visual tokens of a prompt itself: what the proxy tells is held against that.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from proxy_parts import PAGE, QUESTION, data_url

MODEL = "llama.cpp/qwen3-vl-tiny"
# <|vision_start|> and <|vision_end|>, around every picture.
AROUND = 2
# The wheel of ollama-openai-proxy calls its own modules `src.…`, and puts them beside all others.
OLLAMA_SERVER = """
import sys, types
package = types.ModuleType("src")
package.__path__ = [sys.argv[1]]
sys.modules["src"] = package
import uvicorn
from src.main import app
class Told(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}", flush=True)
Told(uvicorn.Config(app, port=0, log_config=None)).run()
"""


@contextmanager
def program(*call: str, **environment: str) -> Iterator[str]:
    """The address that a Python program tells in a line of its own."""
    process = subprocess.Popen(
        [sys.executable, *call],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        told = next((line.strip() for line in process.stdout if line.startswith("http://127.0.0.1:")), None)
        assert told, f"{call[0]} did not start"
        yield told
    finally:
        process.kill()
        process.wait(30)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    for package in ("xllamacpp", "gguf"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install xllamacpp gguf")
    with program(str(Path(__file__).parent / "tiny_gguf.py"), str(tmp_path_factory.mktemp("gguf"))) as address:
        yield address


@pytest.fixture(scope="module")
def front(llama: str, fronting: Callable[..., Any]) -> Iterator[str]:
    with fronting(llama, budget=60, text=False) as address:
        yield address


def shown(picture: bytes = PAGE) -> list[dict[str, Any]]:
    return [{"type": "image_url", "image_url": {"url": data_url(picture)}}, {"type": "text", "text": QUESTION}]


def test_llama_cpp_counts_what_the_proxy_tells(llama: str, front: str) -> None:
    """By OpenAI's client: prompts with and without the picture, packed and as it is."""
    openai = pytest.importorskip("openai", reason="openai is not installed: pip install 'arr-coc[dev]'")

    def asked(address: str, content: Any, **how: Any) -> Any:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=120)
        messages = [{"role": "user", "content": content}]
        return client.chat.completions.with_raw_response.create(
            model=MODEL, messages=messages, max_tokens=6, temperature=0, **how
        )

    bare = asked(llama, QUESTION).parse().usage.prompt_tokens
    whole = asked(front, shown(), extra_headers={"x-arr-coc": "off"})
    assert whole.parse().usage.prompt_tokens == bare + 320 + AROUND
    packed = asked(front, shown())
    assert packed.headers["x-arr-coc"] == "packed"
    tokens, number = int(packed.headers["x-arr-coc-tokens"]), int(packed.headers["x-arr-coc-pictures"])
    assert packed.headers["x-arr-coc-full"] == "320"
    assert 8 <= tokens <= 60
    assert number >= 2
    assert packed.parse().usage.prompt_tokens == bare + tokens + number * AROUND
    pieces = asked(front, shown(), stream=True).parse()
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert text == packed.parse().choices[0].message.content
    with pytest.raises(openai.BadRequestError):
        asked(front, [{"type": "image_url", "image_url": {"url": data_url(b"no picture")}}, *shown()[1:]])


def test_llama_cpp_by_the_responses_api(llama: str, front: str) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed: pip install 'arr-coc[dev]'")
    content = [{"type": "input_image", "image_url": data_url(PAGE)}, {"type": "input_text", "text": QUESTION}]
    used = []
    for address in (llama, front):
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=120)
        told = client.responses.create(model=MODEL, input=[{"role": "user", "content": content}], max_output_tokens=6)
        assert told.output_text is not None
        used.append(told.usage.input_tokens)
    assert used[1] <= used[0] - 320 + 60 + 3 * AROUND


def test_llama_cpp_by_the_messages_api(llama: str, front: str) -> None:
    """By Anthropic's client, also as a stream."""
    import base64

    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed: pip install 'arr-coc[dev]'")
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PAGE).decode()}
    content: list[Any] = [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]
    how: dict[str, Any] = {"model": MODEL, "max_tokens": 6, "extra_body": {"temperature": 0}}
    how["messages"] = [{"role": "user", "content": content}]
    used, said = [], []
    for address in (llama, front):
        client = anthropic.Anthropic(base_url=address, api_key="none", max_retries=0, timeout=120)
        told = client.messages.create(**how)
        used.append(told.usage.input_tokens + (told.usage.cache_read_input_tokens or 0))
        said.append(told.content[0].text)
    assert used[1] <= used[0] - 320 + 60 + 3 * AROUND
    with client.messages.stream(**how) as pieces:
        assert "".join(pieces.text_stream) == said[1]
