"""The goldens of `arr-coc serve` and `arr-coc proxy`: processes on loopback ports, an upstream and a plain client."""

from __future__ import annotations

import base64
import io
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from PIL import Image

from .golden_parts import QUESTIONS, Golden, data_url, drawn, example, laid, masked, png

OPENER = build_opener(ProxyHandler({}))  # loopback only, whatever the environment says


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request(address: str, path: str, body: object = None, **headers: str) -> Reply:
    """Send a request; body: None for GET, bytes as they are, else as JSON. headers: with _ for -."""
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        answer = OPENER.open(Request(f"{address}{path}", content, sent), timeout=120)
    except HTTPError as refused:
        answer = refused
    with answer:
        return Reply(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read())


@contextmanager
def running(*arguments: object) -> Iterator[str]:
    """The address of `arr-coc` with these arguments, once /health answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [sys.executable, "-m", "arr_coc", *map(str, arguments), "--bind", str(port)]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address, end = f"http://127.0.0.1:{port}", time.monotonic() + 120
    try:
        while True:
            try:
                request(address, "/health")
                break
            except URLError as error:
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{' '.join(line[1:])} does not answer") from error
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(60)


class Upstream:
    """An API behind the proxy: keeps path and body of the last request, answers with `status`."""

    def __init__(self) -> None:
        self.seen: tuple[str, bytes] = ("", b"")
        self.status = 200
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                upstream.seen = (self.path, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                body = b'{"choices": [{"message": {"content": "STOP"}}]}'
                self.send_response(upstream.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Upstream:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def chat(question: str, *pictures: bytes, model: str = "mini", **more: Any) -> dict[str, Any]:
    shown = [{"type": "image_url", "image_url": {"url": data_url(one)}} for one in pictures]
    content = [*shown, {"type": "text", "text": question}]
    return {"model": model, "temperature": 0, "messages": [{"role": "user", "content": content}], **more}


def serve() -> Iterator[Golden]:
    """Answers of `arr-coc serve`; error texts are notes."""
    with Image.open(example("street")) as street:
        signs, left = png(street.crop((229, 0, 613, 256))), png(street.crop((0, 128, 384, 512)))
    page, words, _ = drawn()
    scan, pink = png(Image.fromarray(page)), "What does the pink sign say?"
    asked = {
        "budget": chat(pink, signs, arr_coc={"budget": 24}),
        "share": chat("What does the gray sign say?", signs, arr_coc={"budget": "50%", "want": ["allocation"]}),
        "quadtree": chat(pink, signs, arr_coc={"budget": 40, "strategy": "quadtree", "want": ["allocation"]}),
        "detail": chat(pink, signs, arr_coc={"budget": 40, "relevance": "detail", "want": ["allocation"]}),
        "two pictures": chat(pink, left, signs, arr_coc={"budget": 60}),
        "scale": chat(pink, signs, arr_coc={"budget": 60, "scale": 1.5}),
        "words": chat("What is the total?", scan, arr_coc={"budget": 64, "words": list(words), "ocr": False}),
        "stream": chat(pink, signs, arr_coc={"budget": 24}, stream=True),
        "bad budget": chat(pink, signs, arr_coc={"budget": -1}),
        "unknown option": chat(pink, signs, arr_coc={"bugdet": 24}),
        "not a picture": chat(pink, b"no picture"),
        "other model": chat(pink, signs, model="maxi"),
    }
    with running("serve") as address:
        for key, body in asked.items():
            reply = request(address, "/v1/chat/completions", body)
            if key == "stream":
                events = [
                    json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: {")
                ]
                pieces = [event["choices"][0]["delta"].get("content") or "" for event in events]
                yield key, {"status": reply.status, "text": "".join(pieces), "tokens": events[-1]["arr_coc"]["tokens"]}
            elif reply.status != 200:
                yield key, {"status": reply.status, "type": reply.json["error"]["type"]}
                yield f"{key}.notes", masked([reply.json["error"]["message"]])
            else:
                own, choice = reply.json["arr_coc"], reply.json["choices"][0]
                told = {"text": choice["message"]["content"], "finish": choice["finish_reason"]}
                told |= {"usage": reply.json["usage"], "uncertainty": round(own["uncertainty"], 4)}
                shown = laid(own["allocation"]) if isinstance(own.get("allocation"), dict) else None
                yield key, {**told, "tokens": own["tokens"], "full": own["full"], "allocation": shown}
                yield f"{key}.notes", masked(own["notes"])
        yield "health", request(address, "/health").json
        yield "models", [one["id"] for one in request(address, "/v1/models").json["data"]]
        yield "not JSON", request(address, "/v1/chat/completions", b"{").status


def proxy() -> Iterator[Golden]:
    """What the upstream sees behind `arr-coc proxy`, and the headers of the answers."""
    street, question = example("street").read_bytes(), QUESTIONS["street"][1]
    small = png(Image.new("RGB", (96, 64), (200, 30, 30)))
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(street).decode()}
    content = [{"type": "image", "source": source}, {"type": "text", "text": question}]
    claude = {"model": "claude-opus-4-7", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
    completions = "/v1/chat/completions"
    asked: dict[str, tuple[str, Any, dict[str, str]]] = {
        "packed": (completions, chat(question, street, model="qwen3-vl"), {}),
        "header budget": (completions, chat(question, street, model="gpt-4o"), {"x_arr_coc_budget": "600"}),
        "off": (completions, chat(question, street, model="gpt-4o"), {"x_arr_coc": "off"}),
        "bad budget": (completions, chat(question, street, model="gpt-4o"), {"x_arr_coc_budget": "many"}),
        "small": (completions, chat(question, small, model="qwen3-vl"), {}),
        "text": (completions, chat("hello", model="qwen3-vl"), {}),
        "messages": ("/v1/messages", claude, {}),
        "another path": ("/v1/embeddings", {"input": "hello"}, {}),
    }
    with (
        Upstream() as upstream,
        running("proxy", "--upstream", upstream.address, "--budget", 200, "--set", "relevance=look") as front,
    ):
        for key, (path, body, headers) in asked.items():
            upstream.seen, upstream.status = ("", b""), 429 if key == "another path" else 200
            reply = request(front, path, body, **headers)
            own = {
                name: value
                for name, value in reply.headers.items()
                if name.startswith("x-arr-coc") and "fall" not in name
            }
            seen = json.loads(upstream.seen[1] or b"{}")
            parts = [part for one in seen.get("messages", ()) for part in one["content"]]
            urls = [part["image_url"]["url"].partition(",")[2] for part in parts if part["type"] == "image_url"]
            urls += [part["source"]["data"] for part in parts if part["type"] == "image"]
            sizes = [Image.open(io.BytesIO(base64.b64decode(url))).size for url in urls]
            same = seen == body
            yield key, {"status": reply.status, "headers": own, "path": upstream.seen[0], "sizes": sizes, "same": same}
            refused = [] if upstream.seen[0] else [reply.json["error"]["message"]]
            yield f"{key}.notes", [*refused, *(part["text"] for part in parts if part["type"] == "text")]
