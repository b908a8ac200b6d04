"""What the tests of the proxy share: an upstream of any protocol, servers on loopback ports, pictures and requests."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

QUESTION = "What does the red sign say?"


def page_bytes(height: int = 512, width: int = 640, kind: str = "PNG") -> bytes:
    pixels = np.full((height, width, 3), 235, np.uint8)
    pixels[100:140, 300:420] = (200, 30, 30)
    pixels[110:130, 310:410:4] = 255
    memory = io.BytesIO()
    Image.fromarray(pixels).save(memory, kind)
    return memory.getvalue()


PAGE = page_bytes()
SMALL = page_bytes(160, 480)


def data_url(data: bytes, media: str = "image/png") -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def chat(*pictures: bytes, question: str = QUESTION, model: str = "mini", **more: Any) -> dict[str, Any]:
    shown = [{"type": "image_url", "image_url": {"url": data_url(one)}} for one in pictures or (PAGE,)]
    return {
        "model": model,
        "messages": [{"role": "user", "content": [*shown, {"type": "text", "text": question}]}],
        **more,
    }


@dataclass
class Upstream:
    """A server that keeps what it was sent, and answers as it is told: a JSON body, or pieces with pauses between."""

    status: int = 200
    body: bytes = b'{"choices": [{"message": {"content": "STOP"}}]}'
    headers: list[tuple[bytes, bytes]] = field(default_factory=lambda: [(b"content-type", b"application/json")])
    pieces: list[bytes] | None = None
    wait: float = 0.0
    pause: float = 0.005
    break_off: bool = False
    seen: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answer: Callable[[str, dict[str, Any]], dict[str, Any]] | None = None
    respond: Callable[[dict[str, Any]], bytes] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        from starlette.requests import Request

        body = await Request(scope, receive).body()
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.seen.append((scope["path"], headers, body))
        await asyncio.sleep(self.wait)
        reply = self.body
        if self.answer is not None:
            reply = json.dumps(self.answer(scope["path"], json.loads(body))).encode()
        if self.respond is not None:
            reply = self.respond(json.loads(body))
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        async for piece in self._pieces(reply):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if self.break_off:
            raise RuntimeError("broken off on purpose")
        await send({"type": "http.response.body", "body": b""})

    async def _pieces(self, reply: bytes) -> AsyncIterator[bytes]:
        for piece in self.pieces if self.pieces is not None else [reply]:
            yield piece
            await asyncio.sleep(self.pause)

    @property
    def last(self) -> dict[str, Any]:
        """The body of the last request."""
        return json.loads(self.seen[-1][2])


@contextmanager
def running(application: Any) -> Iterator[str]:
    """The address of an ASGI application on a loopback port."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="critical", ws="none", timeout_keep_alive=60))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 60
    while not server.started:
        assert time.monotonic() < end
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def pictures_of(body: dict[str, Any]) -> list[bytes]:
    """The pictures of a chat request as the upstream saw them."""
    parts = [part for message in body["messages"] for part in message["content"] if part["type"] == "image_url"]
    return [base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in parts]


def sizes(pictures: list[bytes]) -> list[tuple[int, int]]:
    return [Image.open(io.BytesIO(one)).size[::-1] for one in pictures]
