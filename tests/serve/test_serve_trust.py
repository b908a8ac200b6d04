"""A hostile client: nobody else waits for it, what it sends is measured before it is worked on, no page drives it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from serve_client import JSON, PINK, SIGNS, Gate, Served, messages, until

from arr_coc.core.errors import InputError, Stopped, check_stop, stopping
from arr_coc.knowing.registry import relevance_source, remove_source
from arr_coc.options import Options


@contextmanager
def asking(served: Served, own: dict[str, Any]) -> Iterator[None]:
    """A client that has asked and waits; at the end it hangs up."""
    place = urlsplit(served.address)
    client = HTTPConnection(place.hostname or "", place.port, timeout=60)
    body = {"model": "mini", "messages": messages(), "arr_coc": own}
    client.request("POST", "/v1/chat/completions", json.dumps(body), JSON)
    try:
        yield
    finally:
        client.close()


MANY = [{"text": f"word{n}", "box": [n / 3000, 0.1, (n + 1) / 3000, 0.2]} for n in range(2100)]


# ---- nobody waits for it --------------------------------------------------------------------------------------------


def test_what_costs_as_much_as_many_others_is_answered_beside_them(
    server: Served, gate: Gate, wanted: Callable[..., Any]
) -> None:
    """The worker of such requests is kept at one; the others get their answers all the same."""
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(server.ask, own={"budget": 12, "relevance": "gate", "words": MANY})
        assert gate.reached.wait(60)
        assert server.ask(own={"budget": 48}).choices[0].message.content == wanted(PINK, budget=48).text
        assert not held.done()
        gate.opened.set()
        assert held.result().arr_coc["batch"] == 1


def test_what_is_heavy_is_told_by_words_and_tokens() -> None:
    pytest.importorskip("torch")
    import numpy as np

    from arr_coc.app.serve.chat import is_heavy
    from arr_coc.pictures.load import Picture

    large = Picture(np.zeros((2, 2, 3), np.uint8), "large", 2048, 2048)

    def heavy(pictures: int = 1, **how: Any) -> bool:
        return is_heavy(Options(**how), [large] * pictures)

    assert heavy(words=MANY)
    assert heavy(words={"words": MANY})
    assert heavy(2, words=[None, MANY], budget=0.01)
    assert heavy(budget=0.5)
    assert heavy(budget=4000)
    assert not heavy()
    assert not heavy(budget=4000, ceiling=256)
    assert not heavy(words=MANY[:100], budget=64)
    assert heavy(2, budget=[1000, 1000])


def test_a_worker_that_does_not_answer_is_replaced(
    serving: Callable[..., Any], gate: Gate, monkeypatch: pytest.MonkeyPatch, wanted: Callable[..., Any]
) -> None:
    from arr_coc.app.serve import engine

    monkeypatch.setattr(engine, "PATIENCE", 0.1)
    with serving() as served:
        with asking(served, {"budget": 12, "relevance": "gate"}):
            assert gate.reached.wait(60)
        # The gate is still closed: the thread behind it will not come back.
        assert served.ask(own={"budget": 48}).choices[0].message.content == wanted(PINK, budget=48).text
        assert not gate.opened.is_set()
        gate.opened.set()


def test_work_for_a_client_who_is_gone_stops(serving: Callable[..., Any]) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(scene: Any, question: str) -> Any:
        begun.set()
        try:
            while True:
                check_stop()
        except Stopped:
            ended.set()
            raise

    relevance_source("endless")(endless)
    try:
        with serving() as served:
            with asking(served, {"relevance": "endless"}):
                assert begun.wait(60)
                assert not ended.is_set()
            assert ended.wait(60)
    finally:
        remove_source("endless")


def test_the_time_of_a_request_holds_while_looking(serving: Callable[..., Any]) -> None:
    from openai import APIStatusError

    def endless(scene: Any, question: str) -> Any:
        while True:
            check_stop()

    relevance_source("endless")(endless)
    try:
        with serving(seconds=1) as served:
            with pytest.raises(APIStatusError) as raised:
                served.ask(own={"relevance": "endless"})
            assert raised.value.status_code == 504
            until(lambda: not any(job.asked for job in served.engine._jobs))
    finally:
        remove_source("endless")


def test_words_and_layers_ask_whether_anybody_waits(eye: Any) -> None:
    from arr_coc.app.serve.engine import asking_layers
    from arr_coc.pictures.words import as_words

    with stopping(lambda: True), pytest.raises(Stopped):
        as_words(MANY, (100, 100))
    looked = eye.prepare([_turn()], Options(budget=12))
    hooks = [len(module._forward_pre_hooks) for module in eye.model.modules()]
    with asking_layers(eye.model):
        eye.engine.realize(looked)
        eye.memory = type(eye.memory)()  # what was seen would be kept, and nothing be left to do
        with stopping(lambda: True), pytest.raises(Stopped):
            eye.engine.realize(looked)
    assert [len(module._forward_pre_hooks) for module in eye.model.modules()] == hooks


def _turn() -> Any:
    from arr_coc.answering.chat import Turn

    return Turn("user", (SIGNS, PINK))


def test_nobody_is_padded_to_the_length_of_another(eye: Any) -> None:
    from types import SimpleNamespace

    from arr_coc.app.serve.engine import together

    rows: Any = [SimpleNamespace(tokens=tokens) for tokens in (64, 4096, 48, 192, 3000, 64)]
    assert [[one.tokens for one in group] for group in together(rows)] == [[48, 64, 64, 192], [3000, 4096]]


@pytest.fixture
def trickle() -> Iterator[tuple[int, threading.Event]]:
    """A host whose picture never ends, and when somebody has hung up on it."""
    left = threading.Event()

    class Host(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while not left.wait(0.02):
                    self.wfile.write(b"\0")
            except OSError:
                left.set()

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    host = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    threading.Thread(target=host.serve_forever, daemon=True).start()
    yield host.server_address[1], left
    left.set()
    host.shutdown()
    host.server_close()


def test_a_host_that_never_ends_keeps_nobody(serving: Callable[..., Any], trickle: tuple[int, threading.Event]) -> None:
    from openai import APIStatusError

    port, left = trickle
    with serving(seconds=1, media=("127.0.0.1",)) as served:
        with pytest.raises(APIStatusError) as raised:
            served.ask(PINK, f"http://127.0.0.1:{port}/x.png")
        assert raised.value.status_code == 504
        assert left.wait(60), "the picture is still being fetched"


# ---- what it sends is measured before it is worked on --------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"arr_coc": {"words": [{"text": "a", "box": [0, 0, 1, 1]}] * 200_000}}, "values"),
        ({"arr_coc": {"words": [["a", [0, 0, 1, 1]]] * 20_001}}, "20001 words"),
        ({"arr_coc": {"words": {"words": [["a", [0, 0, 1, 1]]] * 20_001}}}, "20001 words"),
        ({"stop": "x" * 300}, "stop"),
        ({"messages": [{"role": "user", "content": "x"}] * 1000}, "messages: .*at most 256"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}] * 5000}]}, "content: .*at most 256"),
    ],
)
def test_too_much_is_refused_by_its_count(
    change: dict[str, Any], part: str, eye: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arr_coc.app.serve.chat import read_chat
    from arr_coc.app.web import Limits
    from arr_coc.pictures import words

    def read(*_: Any) -> Any:
        raise AssertionError("a word was read")

    monkeypatch.setattr(words, "_pair", read)
    body = {"model": "mini", "messages": messages(), **change}
    with pytest.raises(InputError, match=part):
        read_chat(json.dumps(body).encode(), "mini", Limits())


@pytest.mark.parametrize(
    "change",
    [
        {"model": "x" * 10_000},
        {"x" * 10_000: 1},
        {"arr_coc": {"x" * 10_000: 1}},
        {"messages": [{"role": "x" * 10_000, "content": "y"}]},
        {"messages": [{"role": "user", "x" * 10_000: "y"}]},
        {"messages": [{"role": "user", "content": [{"type": "x" * 10_000}]}]},
        {"temperature": "x" * 10_000},
    ],
)
def test_what_was_sent_comes_back_cut(server: Served, change: dict[str, Any]) -> None:
    import httpx

    body = {"model": "mini", "messages": messages(), **change}
    answer = httpx.post(f"{server.address}/v1/chat/completions", json=body)
    assert answer.status_code in (400, 404)
    assert len(answer.content) < 400


# ---- no page drives it ---------------------------------------------------------------------------------------------


def test_pages_of_other_sites_are_not_answered(server: Served) -> None:
    import httpx

    body = json.dumps({"model": "mini", "messages": messages(), "arr_coc": {"budget": 12}, "max_tokens": 1})

    def post(served: Served, **headers: str) -> httpx.Response:
        return httpx.post(f"{served.address}/v1/chat/completions", content=body, headers=headers, timeout=60)

    before = server.counted("arr_coc_batch_size_sum")
    plain = {"Content-Type": "text/plain"}
    assert post(server, **plain).status_code == 415
    assert post(server, **plain, Origin="http://evil.example").status_code == 403
    assert post(server, **JSON, Origin="http://evil.example").status_code == 403
    assert post(server, **JSON, Origin="null").status_code == 403
    assert server.counted("arr_coc_batch_size_sum") == before, "it was answered"
    assert post(server, **JSON, Origin=server.address).status_code == 200


# ---- as OpenAI's clients expect -------------------------------------------------------------------------------------


def test_a_client_that_sends_its_default_temperature_is_answered(server: Served, wanted: Callable[..., Any]) -> None:
    said = server.ask(own={"budget": 48}, temperature=1.0)
    assert said.choices[0].message.content == wanted(PINK, budget=48).text
    assert any("temperature 1 was not used" in note for note in said.arr_coc["notes"])
    assert not any("temperature" in note for note in server.ask(own={"budget": 48}).arr_coc["notes"])


def test_models_and_places_that_are_not_there_are_told_in_its_form(server: Served) -> None:
    import httpx
    from openai import NotFoundError

    assert server.client.models.retrieve("mini").id == "mini"
    with pytest.raises(NotFoundError) as raised:
        server.client.models.retrieve("gpt")
    assert raised.value.code == "model_not_found"
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("POST", "/v1/embeddings", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models", 405),
    ):
        answer = httpx.request(method, f"{server.address}{path}", headers=JSON, content=b"{}")
        assert answer.status_code == status
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert path in answer.json()["error"]["message"]
    assert "POST" in httpx.get(f"{server.address}/v1/chat/completions").headers["allow"]


def test_a_picture_of_many_frames_is_not_counted_to_the_end(eye: Any) -> None:
    """A TIFF of a megabyte held ten thousand frames, and counting them took seconds; 24 MB may be sent."""
    import io

    from PIL import Image

    frames = [Image.new("RGB", (64, 64), (n, 0, 0)) for n in range(60)]
    memory = io.BytesIO()
    frames[0].save(memory, "TIFF", save_all=True, append_images=frames[1:])
    assert len(memory.getvalue()) > 1 << 18
    from arr_coc.pictures.load import load_picture

    assert load_picture(memory.getvalue()).notes == ("frame 1 of several: the others are not looked at",)
