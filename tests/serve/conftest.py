"""Real servers on loopback ports, all on one `mini`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import pytest
from serve_client import SIGNS, Gate, Served, until
from tiny_weights import has_weights

import arr_coc
from arr_coc.knowing.registry import relevance_source, remove_source


@pytest.fixture(scope="session")
def eye() -> Any:
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'arr-coc[serve]'")
    for package in ("openai", "httpx"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'arr-coc[dev]'")
    if not has_weights():
        pytest.skip("the bundled weights are not here")
    return arr_coc.Eye.from_pretrained("mini")


@pytest.fixture(scope="session")
def serving(eye: Any) -> Callable[..., Any]:
    """A server for the length of a `with`; limits by name, the rest is `build_api`'s. model: another eye than mini."""

    @contextmanager
    def start(
        key: str | None = None,
        model: Any = None,
        budget: Any = None,
        **limits: Any,
    ) -> Iterator[Served]:
        import uvicorn

        from arr_coc.app.serve.api import Engine, build_api
        from arr_coc.app.web import Limits

        engine = Engine(copy(eye) if model is None else model, Limits(**limits))
        api = build_api(engine, key=key, budget=budget)
        config = uvicorn.Config(api, port=0, log_level="warning")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield Served(f"http://127.0.0.1:{port}", engine, key or "none")
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()
            assert not engine.is_alive()

    return start


@pytest.fixture(scope="session")
def server(serving: Callable[..., Any]) -> Iterator[Served]:
    with serving(upload=2 * 2**20, pixels=2_000_000, new_tokens=64) as served:
        yield served


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    relevance_source("gate")(gate)
    yield gate
    gate.opened.set()
    remove_source("gate")


@pytest.fixture(scope="session")
def wanted(eye: Any) -> Callable[..., Any]:
    """`Eye.ask` on the same picture, each question once."""
    own, known = copy(eye).set_image(SIGNS), {}

    def ask(question: str, **how: Any) -> Any:
        key = (question, *how.items())
        if key not in known:
            known[key] = own.ask(question, options=arr_coc.Options(**how))
        return known[key]

    return ask
