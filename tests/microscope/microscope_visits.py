"""A visitor without a browser: uploads a file and asks through the page's own queue, as its script does."""

from __future__ import annotations

import asyncio
import io
import json
import uuid
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

# Milliseconds that a browser waits: a machine that others use too is slow, not wrong; speed has a test of its own.
PATIENCE = 180_000


@dataclass
class Visit:
    """One visitor. address: of the page."""

    address: str
    session: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.address, timeout=120)

    def upload(self, name: str, data: bytes) -> httpx.Response:
        return self.http.post("gradio_api/upload", files={"files": (name, data)})

    def join(self, path: str, query: str, share: float) -> httpx.Response:
        """Put a question into the queue."""
        dependencies = self.http.get("config").json()["dependencies"]
        number = next(one["id"] for one in dependencies if one["api_name"] == "ask")
        picture = {"path": path, "meta": {"_type": "gradio.FileData"}}
        data = [picture, query, share, "mini", 1]
        message = {"data": data, "fn_index": number, "session_hash": self.session}
        return self.http.post("gradio_api/queue/join", json=message)

    def wait(self) -> dict[str, Any]:
        """The queue's last word about it."""
        with self.http.stream("GET", "gradio_api/queue/data", params={"session_hash": self.session}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    message = json.loads(line[5:])
                    if message["msg"] in ("process_completed", "unexpected_error"):
                        return message
        raise AssertionError("the queue fell silent")

    def ask(self, picture: Path, query: str, share: float) -> str:
        """The HTML of the answer."""
        (path,) = self.upload(picture.name, picture.read_bytes()).json()
        assert self.join(path, query, share).status_code == 200
        message = self.wait()
        assert message["success"], message
        return message["output"]["data"][0]


def png(width: int, height: int, seed: int = 0) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    memory = io.BytesIO()
    Image.fromarray(pixels).save(memory, "PNG")
    return memory.getvalue()


def request(application, method, path, *, host="127.0.0.1", **options) -> httpx.Response:
    """One request to the application itself, without a server."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return await client.request(method, path, **options)

    return in_own_loop(send())


def in_own_loop(work: Coroutine) -> Any:
    """Run it in a thread of its own: a browser that other tests opened keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
