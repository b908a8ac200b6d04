"""The proxy: pictures packed to the budget, everything else untouched, and every failure of ours harmless."""

from __future__ import annotations

import io
import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from proxy_parts import PAGE, QUESTION, SMALL, Upstream, chat, data_url, page_bytes, pictures_of, running, sizes

from arr_coc.packing.prices.tables import table_for

CHAT = "/v1/chat/completions"


def post(address: str, body: Any, path: str = CHAT, **headers: str) -> httpx.Response:
    sent = {"authorization": "Bearer secret-key", **{name.replace("_", "-"): value for name, value in headers.items()}}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(
        f"{address}{path}", content=content, headers={"content-type": "application/json", **sent}, timeout=60
    )


def test_pictures_are_packed_and_the_rest_is_untouched(upstream: Upstream, address: str) -> None:
    sent = chat(temperature=0.3, tools=[{"type": "function", "function": {"name": "ä"}}], seed=7)
    answer = post(address, sent)
    assert answer.content == upstream.body
    assert answer.headers["x-arr-coc"] == "packed"
    got = upstream.last
    pictures = pictures_of(got)
    spent = sum(table_for("mini").tokens(size) for size in sizes(pictures))
    assert len(pictures) >= 2
    assert spent <= 60
    assert (answer.headers["x-arr-coc-tokens"], answer.headers["x-arr-coc-full"]) == (str(spent), "320")
    assert got["messages"][0]["content"][-1] == {"type": "text", "text": QUESTION}
    assert got["messages"][0]["content"][0]["text"].startswith("Picture 1 is the whole picture, reduced.")
    assert {key: got[key] for key in got if key != "messages"} == {k: sent[k] for k in sent if k != "messages"}


def test_headers_go_both_ways(upstream: Upstream, address: str) -> None:
    upstream.headers += [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"x-ratelimit-left", b"9")]
    answer = post(address, chat(), x_custom="own", openai_organization="org")
    _, headers, _ = upstream.seen[-1]
    assert headers["authorization"] == "Bearer secret-key"
    assert headers["x-custom"] == "own"
    assert headers["openai-organization"] == "org"
    assert not [name for name in headers if name.startswith("x-arr-coc")]
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert answer.headers["x-ratelimit-left"] == "9"


def test_headers_of_one_connection_stay(upstream: Upstream, address: str) -> None:
    upstream.headers += [(b"connection", b"x-hop"), (b"x-hop", b"1"), (b"date", b"Mon, 01 Jan 2024 00:00:00 GMT")]
    answer = post(address, chat(SMALL), connection="keep-alive, X-Mine", x_mine="1", expect="100-continue")
    assert not {"x-mine", "expect"} & set(upstream.seen[-1][1])
    assert "x-hop" not in answer.headers
    assert len(answer.headers.get_list("date")) == 1


@contextmanager
def logging_to(path: Path, upstream: str, *limits: str) -> Iterator[str]:
    """The address of a proxy in a process of its own, so that everything that it writes is seen."""
    line = [sys.executable, "-m", "arr_coc", "proxy", "--upstream", upstream, "--bind", "0"]
    with path.open("w") as log:
        process = subprocess.Popen([*line, *limits], stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[0].rstrip("/")
    finally:
        process.terminate()
        process.wait(60)


def test_a_client_that_leaves_and_an_upstream_that_stalls_are_one_line(tmp_path: Path) -> None:
    slow = Upstream(pieces=[b"data: 1\n\n"] * 3, pause=4.0)
    with running(slow) as behind, logging_to(tmp_path / "log", behind, "--limit", "seconds=1") as address:
        for _ in range(3):  # half a body, and gone
            with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as wire:
                head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                wire.sendall(f"{head}Content-Length: 5000\r\n\r\n{{".encode())
                time.sleep(0.2)
        for _ in range(3):
            with pytest.raises(httpx.RemoteProtocolError):
                post(address, chat(SMALL))
        time.sleep(0.5)
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 6, lines
    assert sum(" 499 " in line for line in lines) == sum("upstream=stalled" in line for line in lines) == 3


def test_two_hundred_clients_and_an_upstream_that_is_killed_are_one_line_each(tmp_path: Path) -> None:
    behind, body = Upstream(), chat()
    with running(behind) as place, logging_to(tmp_path / "log", place) as address:
        post(address, body)  # packed once; then every client finds it
        limits = httpx.Limits(max_connections=200)
        with ThreadPoolExecutor(200) as clients, httpx.Client(limits=limits, timeout=120) as client:
            found = clients.map(lambda _: client.post(f"{address}{CHAT}", json=body).status_code, range(200))
            assert set(found) <= {200, 429}
        behind.pieces, behind.break_off = [b"data: 1\n\n"], True  # killed while it answers
        with pytest.raises(httpx.RemoteProtocolError):
            post(address, body)
    with logging_to(tmp_path / "gone", place) as address:  # nothing listens there any more
        assert post(address, body).status_code == 502
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 202, lines
    assert "upstream=broke-off" in lines[-1]
    assert len((tmp_path / "gone").read_text().splitlines()) == 1


def test_budgets_and_off(upstream: Upstream, address: str) -> None:
    assert int(post(address, chat(), x_arr_coc_budget="25%").headers["x-arr-coc-tokens"]) <= 80
    assert int(post(address, chat(), x_arr_coc_budget="30").headers["x-arr-coc-tokens"]) <= 30
    answer = post(address, chat(), x_arr_coc="off")
    assert answer.headers["x-arr-coc"] == "off"
    assert pictures_of(upstream.last) == [PAGE]
    refused = post(address, chat(), x_arr_coc_budget="many")
    assert refused.status_code == 400
    assert "budget" in refused.json()["error"]["message"]


def test_small_pictures_and_low_detail_are_left_alone(upstream: Upstream, address: str) -> None:
    body = json.dumps(chat(SMALL)).encode()
    answer = post(address, body, x_arr_coc_budget="100")
    assert upstream.seen[-1][2] == body
    assert answer.headers["x-arr-coc"] == "unchanged"
    assert "x-arr-coc-fallback" not in answer.headers
    low = chat()
    low["messages"][0]["content"][0]["image_url"]["detail"] = "low"
    post(address, low)
    assert upstream.last == low


def test_other_paths_and_errors_of_the_upstream_pass(upstream: Upstream, address: str) -> None:
    upstream.status, upstream.body = 418, b"teapot"
    answer = httpx.get(f"{address}/v1/models?limit=3")
    assert (answer.status_code, answer.content) == (418, b"teapot")
    assert upstream.seen[-1][0] == "/v1/models"
    answer = httpx.post(f"{address}/v1/files", files={"file": ("a.txt", b"x")})
    assert answer.status_code == 418
    assert b"a.txt" in upstream.seen[-1][2]
    upstream.status, upstream.body = 429, b'{"error": {"message": "slow down", "code": "rate"}}'
    upstream.headers.append((b"retry-after", b"7"))
    answer = post(address, chat())
    assert (answer.status_code, answer.content, answer.headers["retry-after"]) == (429, upstream.body, "7")


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_streams_are_equal_byte_for_byte(encoding: str, upstream: Upstream, address: str) -> None:
    pieces = [b'data: {"a": "\xc3', b'\xa4"}\n\n', b": comment\r\n\r\n", b"data: [DONE]\n\n"] * 20
    upstream.pieces = pieces
    upstream.headers = [(b"content-type", b"text/event-stream"), (b"content-encoding", encoding.encode())]
    how = {"json": chat(stream=True), "headers": {"accept-encoding": encoding}, "timeout": 60}
    with httpx.stream("POST", f"{address}{CHAT}", **how) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert b"".join(answer.iter_raw()) == b"".join(pieces)


def bomb() -> bytes:
    memory = io.BytesIO()
    Image.new("1", (10_000, 10_000)).save(memory, "PNG")
    return memory.getvalue()


BAD_PICTURES = {
    "is damaged": lambda: data_url(PAGE[: len(PAGE) // 2]),
    "the picture cannot be read": lambda: data_url(b"hello" * 100),
    "not base64": lambda: "data:image/png;base64,@@@",
    "100 megapixels": lambda: data_url(bomb()),
}


@pytest.mark.parametrize("reason", BAD_PICTURES)
def test_pictures_that_cannot_be_read_go_on_as_they_are(reason: str, upstream: Upstream, address: str) -> None:
    body = chat()
    body["messages"][0]["content"][0]["image_url"]["url"] = BAD_PICTURES[reason]()
    answer = post(address, body)
    assert answer.status_code == 200
    assert upstream.last == body
    assert reason in answer.headers["x-arr-coc-fallback"]


def test_unknown_models_and_missing_questions_go_on(upstream: Upstream, address: str) -> None:
    body = chat(model="nobody-knows")
    assert "no token table" in post(address, body).headers["x-arr-coc-fallback"]
    assert upstream.last == body
    body = chat(question=" ")
    assert "no question" in post(address, body).headers["x-arr-coc-fallback"]
    assert upstream.last == body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"model":"x",   "messages": [{"role":"user","content":"hi"}]}',
        b"image",
        b"[1, 2]",
        b'{"messages": "image"}',
        b'{"messages": [{"content": [{"type": "image_url"}]}]}',
        b'{"messages": [{"content": [{"type": "image_url", "image_url": 3}]}, 7, null]}',
        b'{"messages": [{"role": 3, "content": [{"type": "image_url", "image_url": {"url": ["x"]}}]}]}',
        b'{"a": ' + b"[" * 5000 + b'"image"',
        b'{"image": "\xff\xfe"}',
    ],
)
def test_malformed_bodies_reach_the_upstream_as_they_are(body: bytes, upstream: Upstream, address: str) -> None:
    for path in (CHAT, "/v1/responses", "/v1/messages", "/api/chat"):
        answer = post(address, body, path)
        assert answer.status_code == 200
        assert upstream.seen[-1][2] == body


def test_something_of_ours_breaks(upstream: Upstream, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from arr_coc.app.proxy import packer

    def broken(*given: Any) -> Any:
        raise RuntimeError("secret path /home/me")

    monkeypatch.setattr(packer, "pack_pages", broken)
    body = chat(page_bytes(500, 600))
    answer = post(address, body)
    assert upstream.last == body
    assert answer.headers["x-arr-coc-fallback"] == "packing failed; see the log"


def test_a_look_that_takes_too_long(upstream: Upstream, pair: Any, fronting: Callable[..., Any]) -> None:
    from arr_coc.app.proxy.packer import ProxyLimits

    def slow(pixels: Any, question: str) -> Any:
        time.sleep(1.5)
        return pixels[..., 0] / 255.0

    with running(upstream) as behind, fronting(behind, limits=ProxyLimits(look_seconds=1), relevance=slow) as address:
        body = chat()
        answer = post(address, body)
        assert upstream.last == body
        assert answer.headers["x-arr-coc-fallback"] == "it took longer than 1 s"


def test_addresses_are_left_alone(upstream: Upstream, fronting: Callable[..., Any]) -> None:
    picture = Upstream(body=PAGE, headers=[(b"content-type", b"image/png")])
    with running(picture) as there, running(upstream) as behind:
        body = chat()
        body["messages"][0]["content"][0]["image_url"]["url"] = f"{there}/page.png"
        with fronting(behind) as address:
            answer = post(address, body)
            assert upstream.last == body
            assert answer.headers["x-arr-coc"] == "unchanged"
            assert not picture.seen


def test_the_same_picture_is_packed_once(upstream: Upstream, address: str) -> None:
    def counted() -> float:
        lines = httpx.get(f"{address}/metrics").text.splitlines()
        name = 'arr_coc_proxy_pictures_total{outcome="cached"}'
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)), 0.0)

    body = chat(page_bytes(530, 610))
    post(address, body)
    first, before = upstream.last, counted()
    post(address, body)
    assert upstream.last == first
    assert counted() == before + 1


def test_several_pictures_are_numbered_through(upstream: Upstream, address: str) -> None:
    post(address, chat(PAGE, page_bytes(512, 704)))
    texts = [part["text"] for part in upstream.last["messages"][0]["content"] if part["type"] == "text"]
    first = len([part for part in texts[0].split("Picture ") if part])
    assert texts[0].startswith("Picture 1 is")
    assert texts[1].startswith(f"Picture {first + 1} is")


def test_keys_are_never_logged(upstream: Upstream, address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    post(address, chat(), x_api_key="sk-other-secret")
    httpx.get(f"{address}/v1/models?key=query-secret")
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("arr_coc"))
    assert "POST /v1/chat/completions 200" in logged
    assert "secret" not in logged
    assert QUESTION not in logged


def test_who_may_ask(upstream: Upstream, fronting: Callable[..., Any]) -> None:
    from arr_coc.app.proxy.packer import ProxyLimits

    with running(upstream) as behind, fronting(behind, key="long-enough", limits=ProxyLimits(upload=10_000)) as address:
        assert post(address, chat(SMALL)).status_code == 401
        assert post(address, b"{}", x_arr_coc_key="long-enough").status_code == 200
        assert "x-arr-coc-key" not in upstream.seen[-1][1]
        assert post(address, b"x" * 20_000, x_arr_coc_key="long-enough").status_code == 413
        own = {"x-arr-coc-key": "long-enough"}
        assert httpx.post(f"{address}{CHAT}", content=b"{}", headers=own).status_code == 415
        other = {**own, "origin": "https://evil.example", "content-type": "application/json"}
        assert httpx.post(f"{address}{CHAT}", content=b"{}", headers=other).status_code == 403
        assert httpx.get(f"{address}/v1/models", headers={**own, "host": "evil.example"}).status_code == 403
    number = len(upstream.seen)
    assert number == 1


def test_a_dead_and_a_slow_upstream(upstream: Upstream, fronting: Callable[..., Any]) -> None:
    from arr_coc.app.proxy.packer import ProxyLimits

    with running(upstream) as behind:
        pass  # nobody is there any more
    with fronting(behind) as address:
        answer = post(address, chat())
        assert answer.status_code == 502
        assert "cannot be reached" in answer.json()["error"]["message"]
        answer = post(address, chat(), "/v1/messages")
        assert answer.json()["type"] == "error"
    slow = Upstream(wait=2.5)
    with running(slow) as behind, fronting(behind, limits=ProxyLimits(seconds=1)) as address:
        assert post(address, chat(SMALL)).status_code == 504


def test_an_upstream_that_breaks_off(upstream: Upstream, address: str) -> None:
    upstream.pieces, upstream.break_off = [b"data: 1\n\n"], True
    with (
        pytest.raises(httpx.RemoteProtocolError),
        httpx.stream("POST", f"{address}{CHAT}", json=chat(), timeout=60) as answer,
    ):
        b"".join(answer.iter_raw())
    upstream.pieces, upstream.break_off = None, False
    assert post(address, chat()).status_code == 200


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"upstream": "ftp://x"}, "is not an address"),
        ({"upstream": "http://me:secret@x"}, "must not hold a password"),
        ({"upstream": "http://x", "assume": "bert"}, "no table"),
    ],
)
def test_settings_that_will_not_do(how: dict[str, Any], line: str) -> None:
    from arr_coc.app.proxy.packer import ProxySettings
    from arr_coc.core.errors import InputError

    with pytest.raises(InputError, match=line):
        ProxySettings(**how)


def test_a_proxy_needs_no_torch() -> None:
    code = "import sys, arr_coc.app.proxy.api; print({'torch', 'transformers'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"
