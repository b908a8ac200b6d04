"""One microscope for all tests: the real page, served from a thread, on any free port of this machine."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from microscope_visits import PATIENCE

with suppress(ImportError):  # before processes are forked, which then need not import it again
    import gradio  # noqa: F401

from arr_coc.core.folders import MINI, WEIGHTS


@pytest.fixture(scope="session")
def outgoing() -> Iterator[list[str]]:
    """Every address outside this machine that this process tried to reach."""
    found: list[str] = []
    original = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple) and not str(address[0]).startswith(("127.", "::1", "localhost")):
            found.append(str(address))
        return original(self, address)

    socket.socket.connect = connect  # type: ignore[method-assign]
    yield found
    socket.socket.connect = original  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def desk() -> Iterator[Any]:
    from arr_coc.app.microscope.desk import Desk

    if not (WEIGHTS / MINI / "config.json").is_file():
        pytest.skip("the bundled weights are not here")
    desk = Desk()
    yield desk
    desk.close()


@pytest.fixture(autouse=True)
def the_folder_of_this_page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradio has one folder for uploads in a process; a page that another module has built since must not keep it."""
    if "server" in request.fixturenames:
        monkeypatch.setenv("GRADIO_TEMP_DIR", str(request.getfixturevalue("server").desk.folder))


@pytest.fixture(scope="session")
def application(desk: Any, outgoing: list[str]) -> Any:
    pytest.importorskip("gradio", reason="gradio is not installed: pip install 'arr-coc[microscope]'")
    from arr_coc.app.microscope.serving import build_app

    return build_app(desk)


@pytest.fixture(scope="session")
def server(application: Any, desk: Any) -> Iterator[SimpleNamespace]:
    """address: of the page. desk: behind it."""
    import uvicorn

    settings = uvicorn.Config(application, host="127.0.0.1", port=0, log_level="warning", timeout_graceful_shutdown=1)
    running = uvicorn.Server(settings)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    desk.warm_up()
    while not running.started:
        time.sleep(0.05)
    port = running.servers[0].sockets[0].getsockname()[1]
    yield SimpleNamespace(address=f"http://127.0.0.1:{port}/", desk=desk)
    running.should_exit = True
    thread.join(5)


def chromium_path() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium of the system, or the one that playwright installed; playwright has room for one at a time."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser")
    with playwright.sync_playwright() as play:
        path = chromium_path() or play.chromium.executable_path
        if not Path(path).is_file():
            pytest.skip("no Chromium on this machine: make test-browser installs one where it can")
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, server: SimpleNamespace) -> Iterator[Any]:
    """A visitor's page. Fails if anything left the machine or the console had something to complain about."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    troubles: list[str] = []
    addresses: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: addresses.append(request.url))
    page.troubles = troubles
    yield page
    context.close()
    elsewhere = [one for one in addresses if not one.startswith((server.address, "data:", "blob:"))]
    assert addresses, "no request was recorded: the test saw nothing"
    assert not elsewhere
    assert not troubles
