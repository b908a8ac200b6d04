"""What both servers, the microscope and `arr-coc serve`, hold to: who may reach them, and how a port is taken."""

from __future__ import annotations

import ipaddress
import logging
import math
import re
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from ..core.checks import positive
from ..core.errors import InputError

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from socket import socket

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = "127.0.0.1"
OTHER_SITE = "a page of another site may not ask here; name its origin with --allow-origin"
SHORTEST_SECRET = 8


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def own_names(host: str) -> set[str] | None:
    """Names by which a loopback server may be called: a page of another site could reach it through a name of its own.
    None: any."""
    return {"localhost", LOOPBACK, "[::1]"} if is_loopback(host) else None


def called_name(headers: Mapping[bytes, bytes]) -> str:
    """The name that a request calls its server by, without the port."""
    return re.sub(rb":\d+$", b"", headers.get(b"host", b"")).decode("latin-1")


class Origins:
    """Whose pages may ask: those that this server sent itself, and those of the sites that were named."""

    def __init__(self, named: Sequence[str] = ()) -> None:
        for one in named:
            parts = urlsplit(one)
            if parts.scheme not in ("http", "https") or not parts.netloc or one != f"{parts.scheme}://{parts.netloc}":
                raise InputError(f"--allow-origin {one} is no origin; give one such as https://example.org")
        self.named = frozenset(one.lower().encode() for one in named)

    def welcome(self, headers: Mapping[bytes, bytes]) -> bool:
        """May this request be answered? What comes from no page, as from a program, says no origin."""
        origin = headers.get(b"origin")
        if origin is None:
            return True
        own = headers.get(b"host", b"").lower()
        return origin.lower() in self.named or (bool(own) and origin.lower() in (b"http://" + own, b"https://" + own))

    def told(self, headers: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        """The headers by which a browser lets a page of a named site read the answer."""
        origin = headers.get(b"origin", b"")
        if origin.lower() not in self.named:
            return []
        allowed = {b"origin": origin, b"methods": b"GET, POST", b"headers": b"authorization, content-type"}
        return [(b"access-control-allow-" + name, value) for name, value in allowed.items()] + [(b"vary", b"Origin")]


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """A page of any site may send text or a form without being asked; JSON it may not."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == b"application/json"


def check_exposure(host: str, secret: str | None, kind: str, remedy: str) -> None:
    """Beyond this machine only with a secret. kind: what it is called. remedy: how one is given."""
    if secret is not None and len(secret) < SHORTEST_SECRET:
        raise InputError(f"the {kind} has {len(secret)} characters; give at least {SHORTEST_SECRET}")
    if not is_loopback(host) and secret is None:
        raise InputError(f"--host {host} lets other machines in: also set a {kind}, {remedy}, or stay on {LOOPBACK}")


class _Stay(HTTPRedirectHandler):
    """A host that was named must not send us, and a key, to one that was not."""

    def redirect_request(
        self, req: object, fp: object, code: object, msg: object, headers: object, newurl: object
    ) -> None:
        return None


def open_directly(request: Request, seconds: float) -> HTTPResponse:
    """The answer of the very host that is named: no redirection is followed, no proxy asked."""
    return build_opener(_Stay, ProxyHandler({})).open(request, timeout=seconds)


def whole_units(number: float, unit: float, name: str) -> int:
    """A size of megabytes or megapixels as bytes or pixels, or one clear line."""
    return int(positive(number, name) * unit)


def check_limits(limits: object) -> None:
    for name, value in vars(limits).items():
        if value is not None and not 1 <= value < math.inf:
            raise InputError(f"the limit {name}={value} cannot be held; give a number of at least 1")


def run(application: Application, host: str, port: int, ready: Callable[[str], None], grace: int = 2) -> None:
    """Serve until interrupted. ready: gets the address. grace: seconds that open answers have at the end. A port that
    is taken is told in one line. Told to end, it ends as after Ctrl-C."""
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
            logger = logging.getLogger("uvicorn.error")
            before = logger.level
            logger.setLevel(logging.CRITICAL)
            try:
                await super().shutdown(sockets=sockets)
            finally:
                logger.setLevel(before)

    configuration = uvicorn.Config(
        application, host=host.strip("[]"), port=port, log_level="warning", ws="none", server_header=False,
        timeout_keep_alive=30, timeout_graceful_shutdown=grace,
    )  # fmt: skip
    try:
        ReadyServer(configuration).run()
    except SystemExit as error:
        raise InputError(f"port {port} of {host} cannot be used; choose another with --port") from error
