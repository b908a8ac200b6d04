"""A proxy in front of an upstream that does as it is told, both on loopback ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from proxy_parts import Upstream, running


@pytest.fixture(scope="session", autouse=True)
def needed() -> None:
    for package in ("fastapi", "uvicorn", "prometheus_client", "httpx"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'arr-coc[serve]'")


@pytest.fixture(scope="session")
def fronting() -> Callable[..., Any]:
    """(upstream's address, settings) → a proxy for the length of a `with`. Relevance is detail, which is quick."""

    @contextmanager
    def start(
        upstream: str, key: str | None = None, budget: Any = 60, relevance: Any = "detail", **how: Any
    ) -> Iterator[str]:
        from arr_coc.app.proxy.api import build_proxy
        from arr_coc.app.proxy.packer import ProxySettings
        from arr_coc.options import Options

        options = Options(budget=budget, relevance=relevance)
        with running(build_proxy(ProxySettings(upstream, options=options, **how), key=key)) as address:
            yield address

    return start


@pytest.fixture(scope="module")
def pair(fronting: Callable[..., Any]) -> Iterator[tuple[Upstream, str]]:
    upstream = Upstream()
    with running(upstream) as behind, fronting(behind) as address:
        yield upstream, address


@pytest.fixture
def upstream(pair: tuple[Upstream, str]) -> Upstream:
    """As new, for every test."""
    fresh = Upstream()
    vars(pair[0]).update(vars(fresh))
    return pair[0]


@pytest.fixture
def address(pair: tuple[Upstream, str], upstream: Upstream) -> str:
    return pair[1]
