"""What every server here holds to: who may reach it, how much a request may hold, and how a port is taken.

Imports neither a web framework nor torch, so that a command can refuse its options at once.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError
from ..pictures.load import MAX_PIXELS

if TYPE_CHECKING:
    from socket import socket

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = "127.0.0.1"
SHORTEST_SECRET = 8


@dataclass(frozen=True)
class Limits:
    """upload: bytes of one request. pixels: of all its pictures, refused by their headers. new_tokens: of one answer.
    queue: requests that may wait. batch: those that are answered at once. seconds: from arrival to the last token.
    pictures: of one request, and pages of its documents that are shown. pages: that its documents have together.
    max_budget: visual tokens that one picture may cost; None: any number."""

    upload: int = 24 * 1024 * 1024
    pixels: int = 20_000_000
    new_tokens: int = 512
    queue: int = 64
    batch: int = 8
    seconds: float = 120
    pictures: int = 8
    pages: int = 200
    max_budget: int | None = None

    def __post_init__(self) -> None:
        check_limits(self)
        if self.pixels > MAX_PIXELS:
            raise InputError(f"the limit pixels={self.pixels} is not safe; give at most {MAX_PIXELS}")


LIMITS = tuple(one.name for one in fields(Limits))


def check_limits(limits: object) -> None:
    for name, value in vars(limits).items():
        if value is not None and not 1 <= value < math.inf:
            raise InputError(f"the limit {name}={value} cannot be held; give a number of at least 1")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, secret: str | None, kind: str = "key", variable: str = "ARR_COC_API_KEY") -> None:
    """Refuse to be reached from other machines without a secret. kind: what the secret is called."""
    if secret is not None and len(secret) < SHORTEST_SECRET:
        raise InputError(f"the {kind} has {len(secret)} characters; give at least {SHORTEST_SECRET}")
    if not is_loopback(host) and secret is None:
        raise InputError(f"--bind {host} lets other machines in: set a {kind} in {variable}, or stay on {LOOPBACK}")


def same_site(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request comes from a page of this server, or from no page at all."""
    origin, own = headers.get(b"origin"), headers.get(b"host", b"").lower()
    return origin is None or (bool(own) and origin.lower() in (b"http://" + own, b"https://" + own))


def run(application: Application, host: str, port: int, ready: Callable[[str], None], grace: int = 2) -> None:
    """Serve until interrupted or terminated. ready: gets the address. grace: seconds that open answers then have."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    uvicorn = import_module("uvicorn")
    family = "[" + host.strip("[]") + "]" if ":" in host else host

    class ReadyServer(uvicorn.Server):
        async def startup(self, sockets: list[socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            if self.started:
                ready(f"http://{family}:{self.servers[0].sockets[0].getsockname()[1]}/")

        async def shutdown(self, sockets: list[socket] | None = None) -> None:
            # Open pages hold streams that never end by themselves; that they are cut off is no news.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            await super().shutdown(sockets=sockets)

    configuration = uvicorn.Config(
        application, host=host.strip("[]"), port=port, log_level="warning", ws="none", server_header=False,
        timeout_keep_alive=30, timeout_graceful_shutdown=grace,
    )  # fmt: skip
    try:
        ReadyServer(configuration).run()
    except SystemExit as error:
        raise InputError(f"port {port} of {host} cannot be used; choose another with --bind") from error
