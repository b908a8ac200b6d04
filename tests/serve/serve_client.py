"""What the tests of the server share: a picture, OpenAI's client, and a way to hold the engine up."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tiny_weights import signs

import arr_coc

EXAMPLES = Path(arr_coc.__file__).parent / "examples"
STREET = EXAMPLES / "street.png"
JSON = {"Content-Type": "application/json"}
PINK, GRAY = "What does the pink sign say?", "What does the gray sign say?"


def as_png(pixels: np.ndarray) -> bytes:
    memory = io.BytesIO()
    Image.fromarray(pixels).save(memory, "PNG")
    return memory.getvalue()


SIGNS = as_png(signs())  # 96 tokens


def data_url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def messages(question: str = PINK, *pictures: str) -> list[Any]:
    shown = pictures or (data_url(SIGNS),)
    content = [{"type": "image_url", "image_url": {"url": url}} for url in shown]
    return [{"role": "user", "content": [*content, {"type": "text", "text": question}]}]


class Served:
    """One server, as its clients reach it."""

    def __init__(self, address: str, engine: Any, key: str = "none") -> None:
        from openai import OpenAI

        self.address, self.engine = address, engine
        self.client = OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0, timeout=120)

    def ask(self, question: str = PINK, *pictures: str, own: dict[str, Any] | None = None, **how: Any) -> Any:
        return self.talk(messages(question, *pictures), own, **how)

    def talk(self, chat: list[Any], own: dict[str, Any] | None = None, **how: Any) -> Any:
        how = {"model": self.engine.eye.engine.name if self.engine else "mini", "temperature": 0, **how}
        extra = {"arr_coc": {"budget": 24} if own is None else own}
        return self.client.chat.completions.create(messages=chat, extra_body=extra, **how)

    def counted(self, name: str) -> float:
        import httpx

        lines = httpx.get(f"{self.address}/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + " ")), 0.0)


class Gate:
    """A source of relevance, "gate", that keeps the engine at a picture until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, scene: Any, question: str) -> Any:
        self.reached.set()
        assert self.opened.wait(60)
        return scene.pixels[..., 0] / 255.0


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
