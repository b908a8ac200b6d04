"""The microscope with a running server for a model: what it asks over the API is drawn as its own answers are."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve_client import PINK, SIGNS, Served

from arr_coc import InputError


@pytest.fixture
def desk(server: Served) -> Iterator[Any]:
    from arr_coc.app.microscope import Desk
    from arr_coc.app.microscope.remote import Remote

    desk = Desk((), server=Remote(f"{server.address}/v1/"))
    yield desk
    desk.close()


@pytest.fixture
def path(desk: Any) -> str:
    file = desk.folder / "upload" / "signs.png"
    file.parent.mkdir()
    file.write_bytes(SIGNS)
    return str(file)


def test_what_the_server_answers_is_drawn(
    server: Served, desk: Any, path: str, eye: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from copy import copy

    from arr_coc.app.microscope.ask_tab import show_answer, show_full
    from arr_coc.app.microscope.linking import PageState

    (name,) = desk.models
    assert name == f"mini @ {server.address.removeprefix('http://')}"
    state = PageState(picture="upload", q=PINK, model=name)
    before = server.counted('arr_coc_requests_total{status="200"}')
    shown = show_answer(desk, path, state, 48)
    assert server.counted('arr_coc_requests_total{status="200"}') == before + 1
    answer = copy(eye).set_image(SIGNS).ask(PINK, 48)
    assert (shown.kept.text, shown.kept.tokens, shown.kept.full) == (answer.text, answer.tokens, answer.full)
    assert shown.kept.allocation == answer.allocation
    assert shown.kept.uncertainty == pytest.approx(answer.uncertainty, abs=1e-3)
    assert "COFFEE" in shown.html
    assert "Where the tokens go" in shown.html
    assert shown.picture().width == 1280
    assert "96" in show_full(desk, path, state, shown.kept)
    # The lines that make it again ask the same server.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "signs.png").write_bytes(SIGNS)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(shown.lines, "exported", "exec"), names)
    assert names["answer"].allocation == answer.allocation


def test_what_a_server_cannot_do_or_refuses_is_a_sentence(desk: Any, path: str) -> None:
    (name,) = desk.models
    with pytest.raises(InputError, match="looks once"):
        desk.esper(name)
    with pytest.raises(InputError, match="not offered here"):
        desk.eye("mini")
    with pytest.raises(InputError, match="budget"):
        desk.eye(name).set_image(path).ask(PINK, budget=0)
    assert desk.local == ()


def test_a_key_is_sent_and_a_wrong_one_is_told(serving: Any) -> None:
    from arr_coc.app.microscope.remote import Remote

    with serving(key="long enough") as served:
        assert Remote(served.address, "long enough").models() == ["mini"]
        with pytest.raises(InputError, match="a key is needed"):
            Remote(served.address, "something else").models()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:8000",
        "file:///etc/passwd",
        "ftp://127.0.0.1",
        "http://",
        "http://a:b@127.0.0.1",
        "http://[",
        "http://h:x",
    ],
)
def test_only_addresses_of_servers_are_taken(address: str) -> None:
    from arr_coc.app.microscope.remote import Remote

    with pytest.raises(InputError, match="no address of a server"):
        Remote(address)


def test_other_servers_and_none_are_told_in_a_sentence() -> None:
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from arr_coc.app.microscope.remote import Remote

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if self.path.startswith("/away") else 200)
            self.send_header("Location", "/v1/models")
            self.end_headers()
            self.wfile.write(json.dumps([]).encode())

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    other = HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{other.server_address[1]}"
    try:
        with pytest.raises(InputError, match="does not list its models"):
            Remote(address).models()
        with pytest.raises(InputError, match="status 302"):  # a key goes to nobody else
            Remote(f"{address}/away").models()
    finally:
        other.shutdown()
        other.server_close()
    with pytest.raises(InputError, match="does not answer"):
        Remote(address).models()


def test_the_command_takes_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("typer")
    pytest.importorskip("gradio", reason="gradio is not installed: pip install 'arr-coc[microscope]'")
    from arr_coc.app.cli import microscope
    from arr_coc.app.microscope import serving

    told: list[Any] = []
    monkeypatch.setattr(serving, "serve", lambda models, **how: told.append((models, how["server"])))
    monkeypatch.setenv("ARR_COC_API_KEY", "from outside")
    microscope.command(server="http://127.0.0.1:9/v1")
    microscope.command(server="https://example.org", api_key="given here", model=["mini"])
    microscope.command()
    (none, first), (mini, second), (alone, nobody) = told
    assert (none, mini, alone, nobody) == ((), ("mini",), ("mini",), None)
    assert (first.address, first.key) == ("http://127.0.0.1:9", "from outside")
    assert (second.address, second.key) == ("https://example.org", "given here")
