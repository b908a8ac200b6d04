"""A hostile client: nobody else waits for it, what it sends is measured before it is worked on, no page drives it."""

from __future__ import annotations

import base64
import ctypes
import gc
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter, sleep
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from forked import Zygote
from hostile import HOSTILE, empty_scans, nested_forms
from serve_client import JSON, PINK, SIGNS, STREET, Served, messages, until

from arr_coc.core.errors import InputError, Stopped, check_stop, stopping
from arr_coc.knowing.registry import relevance_source, remove_source
from arr_coc.options import Options
from arr_coc.pictures import opening


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


# ---- what it sends is measured before it is worked on --------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"arr_coc": {"words": [{"text": "a", "box": [0, 0, 1, 1]}] * 200_000}}, "values"),
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


# ---- files that never end -------------------------------------------------------------------------------------------


def resident() -> float:
    """Megabytes of this process and of those that open its files."""
    gc.collect()
    helpers = [one.process.pid for one in (*opening._helpers.idle, *opening._helpers.busy)]
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in (os.getpid(), *helpers)]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def as_part(name: str, data: bytes) -> dict[str, Any]:
    text = base64.b64encode(data).decode()
    if name.endswith(".pdf"):
        return {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{text}"}}
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text}"}}


def test_ten_hostile_files_among_a_hundred(serving: Callable[..., Any]) -> None:
    """Prints what docs/trust.md says: pytest -rP -k among_a_hundred."""
    from openai import APIStatusError

    hostile = {name: make() for name, make in HOSTILE.items()}
    good = STREET.read_bytes()

    def ask(served: Any, name: str, data: bytes) -> tuple[float, int]:
        started, status = perf_counter(), 200
        try:
            served.talk([{"role": "user", "content": [as_part(name, data), {"type": "text", "text": PINK}]}])
        except APIStatusError as error:
            status = error.status_code
        return perf_counter() - started, status

    def p95(served: Any) -> float:
        with ThreadPoolExecutor(2) as clients:
            answers = list(clients.map(lambda number: ask(served, "street.png", good), range(100)))
        assert {status for _, status in answers} == {200}
        return float(np.percentile([seconds for seconds, _ in answers], 95))

    with serving() as served:
        ask(served, "street.png", good)
        alone = p95(served)
        ctypes.CDLL(None).malloc_trim(0)  # afterwards the server has to do this by itself
        before = resident()
        with ThreadPoolExecutor(len(hostile)) as strangers:
            waits = [strangers.submit(ask, served, name, data) for name, data in hostile.items()]
            beside = p95(served)
            ended = dict(zip(hostile, (one.result() for one in waits), strict=True))
        assert {status for _, status in ended.values()} <= {200, 400}
        end = perf_counter() + 10
        # What was read of the pictures that were no trap is kept for a next question, up to 256 MB.
        while (after := resident()) > before + 256 + 100 and perf_counter() < end:
            sleep(0.2)
    longest = max(seconds for seconds, _ in ended.values())
    print(f"95th percentile alone {alone:.2f} s, beside ten {beside:.2f} s; the longest of the ten {longest:.1f} s")
    print(f"{before:.0f} MB before, {after:.0f} MB within ten seconds after the last of them")
    assert after <= before + 256 + 100
    assert beside <= 2 * alone


def test_told_to_end_it_ends_whatever_it_reads(zygote: Zygote, eye: Any, tmp_path: Path) -> None:
    """Prints what docs/trust.md says. The command itself; eye: only for its skips."""
    files = [("scans.png", empty_scans())] * 8 + [("forms.pdf", nested_forms())] * 2
    with zygote.going(tmp_path, "serve", "--bind", "0") as process:
        found = re.search(r"http://127\.0\.0\.1:\d+", process.line)
        assert found
        served = Served(found[0], None)

        def status(file: tuple[str, bytes]) -> int:
            from openai import APIStatusError

            with pytest.raises(APIStatusError) as raised:
                served.talk([{"role": "user", "content": [as_part(*file), {"type": "text", "text": PINK}]}])
            return raised.value.status_code

        with ThreadPoolExecutor(len(files)) as strangers:
            waits = [strangers.submit(status, file) for file in files]
            sleep(3)
            told = perf_counter()
            os.kill(process.pid, signal.SIGTERM)
            ended = process.ended()
            seconds = perf_counter() - told
        answered = [one.result() for one in waits]
    print(f"ended {seconds:.1f} s after SIGTERM, answers {answered}")
    assert ended.code == 0
    assert set(answered) <= {400, 503}
    assert "Traceback" not in ended.err
    assert seconds < 30
