"""Spoilt requests: to `arr-coc serve`, within this process, and to the microscope, on a loopback port."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzzing import Case
from hunt_files import coloured, encoded, whole_pictures
from PIL import Image
from spoiling import TEXTS, plain, spoil_bytes, spoil_json

import arr_coc

CHAT = "/v1/chat/completions"
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE")
HEADERS = ("content-type", "content-length", "authorization", "host", "origin", "accept", "transfer-encoding", "cookie")


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def header_of(chance: random.Random) -> dict[str, str]:
    if chance.random() < 0.7:
        return {}
    value = chance.choice(TEXTS).encode("ascii", "ignore").decode().replace("\n", "").replace("\0", "").strip()
    return {chance.choice(HEADERS): value}


def server(folder: Path) -> Callable[[random.Random], Case]:
    from starlette.testclient import TestClient

    from arr_coc.app.serve.api import Engine, build_api
    from arr_coc.app.web import Limits

    sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
    from tiny_weights import tiny_weights

    eye = arr_coc.Eye.from_pretrained(str(tiny_weights(folder / "weights") / "mini"))
    engine = Engine(eye, Limits(upload=2**20, pixels=10**6, new_tokens=4, seconds=30))
    client = TestClient(build_api(engine, host="127.0.0.1"), base_url="http://127.0.0.1")  # type: ignore[arg-type]
    client.__enter__()  # its end is the end of this process
    small = data_url(encoded(Image.fromarray(coloured(64, 96)), "PNG"))
    content = [{"type": "image_url", "image_url": {"url": small}}, {"type": "text", "text": "What is red?"}]
    whole = {
        "model": eye.engine.name,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 2,
        "temperature": 0,
        "stream": False,
        "arr_coc": {"budget": 4, "strategy": "overlay", "relevance": "detail", "return": ["allocation"]},
    }
    pictures = whole_pictures()

    def draw(chance: random.Random) -> Case:
        document: Any = spoil_json(chance, whole)
        method, path, headers = "POST", CHAT, header_of(chance)
        kind = chance.randrange(10)
        if kind == 0:  # anywhere
            method, path = chance.choice(METHODS), chance.choice(("/", "/v1/models", "/health", "/metrics", "/x", CHAT))
            path += chance.choice(("", "?x=1", "/..%2f..%2fetc/passwd", "/%00", "//"))
        if kind in (1, 2):  # another picture
            document = json.loads(json.dumps(whole))
            _, data = chance.choice(pictures)
            given = chance.choice(
                (data_url(spoil_bytes(chance, data)), data_url(data), "data:,", "data:image/png;base64,!!", *TEXTS[:20])
            )
            document["messages"][0]["content"][0]["image_url"]["url"] = given
        if kind == 3 and isinstance(document, dict):
            document["stream"] = True
        body = json.dumps(document).encode()
        if kind == 4:
            body = spoil_bytes(chance, body)

        def call() -> None:
            answer = client.request(method, path, content=body, headers={"content-type": "application/json", **headers})
            text = answer.text
            assert answer.status_code < 500, (answer.status_code, text[:500])
            assert "Traceback" not in text
            if answer.status_code >= 400 and path == CHAT and method == "POST":
                line = error_line(answer.json())
                assert line.strip(), text
                assert "\n" not in line, line

        return f"{method} {path} {headers} {body!r}", call

    return draw


def error_line(body: Any) -> str:
    """As OpenAI's clients read it, or as the guard says it."""
    error = body.get("error", body.get("detail", ""))
    return error["message"] if isinstance(error, dict) else str(error)


class Said(logging.Handler):
    """Tracebacks that a library writes down by itself."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def page(folder: Path) -> Callable[[random.Random], Case]:
    import h11
    import httpx
    import uvicorn

    from arr_coc.app.microscope.desk import Desk
    from arr_coc.app.microscope.serving import build_app

    desk, said = Desk(), Said()
    for name in ("uvicorn.error", "asyncio", "gradio"):
        logging.getLogger(name).addHandler(said)
    settings = uvicorn.Config(build_app(desk), host="127.0.0.1", port=0, log_level="error")
    running = uvicorn.Server(settings)
    threading.Thread(target=running.run, daemon=True).start()
    while not running.started:
        time.sleep(0.05)
    port = running.servers[0].sockets[0].getsockname()[1]
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
    found = client.get("/config").json()["dependencies"]
    # What each part of the page sends is not ours to know; lists of the right length are near enough.
    doors = [(one["id"], len(one["inputs"]), one.get("api_name")) for one in found if one.get("backend_fn", True)]
    ask = next((number, count, name) for number, count, name in doors if name == "ask")
    (street,) = client.post(
        "/gradio_api/upload", files={"files": ("a.png", encoded(Image.fromarray(coloured(64, 96)), "PNG"))}
    ).json()
    pictures = whole_pictures()
    paths = ("/", "/config", "/gradio_api/info", "/gradio_api/upload", "/gradio_api/queue/join", "/gradio_api/file=")
    paths += (
        "/gradio_api/queue/data",
        "/gradio_api/heartbeat/",
        "/gradio_api/cancel",
        "/theme.css",
        "/x",
        "/assets/x.js",
    )

    def upload(chance: random.Random) -> Callable[[], None]:
        name, data = chance.choice(pictures)
        data = spoil_bytes(chance, data) if chance.random() < 0.8 else data
        title = chance.choice((f"case.{name}", "../../x.png", "a b.png", "", "x" * 300 + ".png", "émoji🦊.png", ".png"))

        def call() -> None:
            answer = client.post("/gradio_api/upload", files={"files": (title, data)})
            assert answer.status_code < 500, answer.text[:300]
            if answer.status_code == 200:
                asked(ask[0], [picture_of(answer.json()[0]), None, "What is red?", 25, "mini", 1])

        return call

    def asked(number: int, data: Any) -> None:
        session = f"{random.getrandbits(64):x}"
        message = {"data": data, "fn_index": number, "session_hash": session}
        answer = client.post("/gradio_api/queue/join", content=json.dumps(message))  # NaN too
        assert answer.status_code < 500 or answer.status_code == 503, answer.text[:300]
        if answer.status_code != 200:
            return
        with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    heard = json.loads(line[5:])
                    assert "Traceback" not in line
                    if heard["msg"] in ("process_completed", "unexpected_error", "close_stream"):
                        told = str((heard.get("output") or {}).get("error") or "")
                        assert str(desk.folder) not in told or str(desk.folder) in str(data), heard
                        return

    def draw(chance: random.Random) -> Case:
        kind = chance.randrange(4)
        if kind == 0:
            method, path = chance.choice(METHODS), chance.choice(paths)
            body, headers = spoil_bytes(chance, b'{"data": [1, 2], "fn_index": 1}'), header_of(chance)
            path += chance.choice(("", "", "x", "?a=%00", "..%2f..%2fetc%2fpasswd", "/etc/passwd"))
            if "heartbeat" in path or "queue/data" in path:  # streams that last as long as their page
                method = "POST"

            def anywhere() -> None:
                # A body longer than it says never leaves this end.
                never_sent = h11.LocalProtocolError, httpx.ProtocolError, httpx.InvalidURL, httpx.ReadError
                with contextlib.suppress(*never_sent):
                    answer = client.request(method, path, content=body, headers=headers)
                    assert answer.status_code < 500 or answer.status_code == 501, (
                        answer.status_code,
                        answer.text[:300],
                    )
                    assert "root:" not in answer.text

            return f"{method} {path} {headers} {body!r}", quiet(anywhere)
        if kind == 1:
            return "an upload", quiet(upload(chance))
        number, count, name = chance.choice(doors) if chance.random() < 0.6 else ask
        data: Any = [chance.choice((picture_of(street), None, "mini", 4, 25, "red")) for _ in range(count)]
        if name == "ask":
            data = [picture_of(street), None, "What is red?", 25, "mini", 1][:count]
        if name != "ask" or chance.random() < 0.9:
            data = spoil_json(chance, data)
            if isinstance(data, list) and len(data) < count:
                data += [plain(chance) for _ in range(count - len(data))]
        return f"{name} {data!r}", quiet(lambda: asked(number, data))

    def quiet(call: Callable[[], None]) -> Callable[[], None]:
        def checked() -> None:
            said.lines.clear()
            call()
            assert not said.lines, said.lines[0]

        return checked

    return draw


def picture_of(path: str) -> dict[str, Any]:
    return {"path": path, "meta": {"_type": "gradio.FileData"}}
