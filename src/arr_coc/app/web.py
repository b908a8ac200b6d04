"""Shared parts of all servers: limits, access control, error responses, metrics, and the start of uvicorn.

Imports neither a web framework nor torch before they are needed, so that a command can refuse its options at once.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import logging
import math
import re
import secrets
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.errors import InputError, check_stop, stopping
from ..core.folders import give_back
from ..core.values import JsonObject
from ..pictures.load import MAX_PIXELS
from ..pictures.opening import isolated

if TYPE_CHECKING:
    from socket import socket

    from starlette.requests import Request
    from starlette.responses import Response

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = "127.0.0.1"
GONE = 499
Result = TypeVar("Result")
SHORTEST_SECRET = 8
GIVE_BACK = 5.0  # seconds
# Maximum of commas and brackets in a request: a page of words has about 200 000, and each is an object in memory.
MOST_STRUCTURE = 400_000


@dataclass(frozen=True)
class Limits:
    """Limits of a server. upload: bytes of a request. pixels: of all its pictures, checked by their headers.
    new_tokens: of an answer. queue: requests that may wait. batch: requests answered at once. seconds: from arrival to
    the last token. pictures: in a request, and document pages shown to the model. pages: of all its documents.
    max_budget: visual tokens of one picture; None: unlimited."""

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
        for name, value in vars(self).items():
            if value is not None and not 1 <= value < math.inf:
                raise InputError(f"the limit {name}={value} is not possible; give a number of at least 1")
        if self.pixels > MAX_PIXELS:
            raise InputError(f"the limit pixels={self.pixels} is too high to be safe; give at most {MAX_PIXELS}")


LIMITS = tuple(one.name for one in fields(Limits))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, secret: str | None, kind: str = "key", variable: str = "ARR_COC_API_KEY") -> None:
    """Refuse to listen for other machines without a secret. kind: "key" or "password", for messages."""
    if secret is not None and len(secret) < SHORTEST_SECRET:
        raise InputError(f"the {kind} has {len(secret)} characters; give at least {SHORTEST_SECRET}")
    if not is_loopback(host) and secret is None:
        raise InputError(f"--bind {host} lets other machines in: set a {kind} in {variable}, or bind to {LOOPBACK}")


class Refused(Exception):
    """A request that is refused. status: of HTTP. more: further headers. no_model: the model is unknown."""

    def __init__(
        self, status: int, words: str, more: Mapping[str, str] | None = None, *, no_model: bool = False
    ) -> None:
        super().__init__(words)
        self.no_model = no_model
        # Quoted words of the request may contain a lone surrogate, which cannot be encoded.
        self.status, self.words, self.more = status, words.encode(errors="replace").decode(), dict(more or {})

    def body(self) -> JsonObject:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = "rate_limit_error" if self.status == 429 else kind
        param, code = ("model", "model_not_found") if self.no_model else (None, self.status)
        return {"error": {"message": self.words, "type": kind, "param": param, "code": code}}

    def answer(self) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse(self.body(), self.status, self.more)

    @classmethod
    def of(cls, error: Exception) -> Refused:
        if isinstance(error, Refused):
            return error
        return cls(400, str(error)) if isinstance(error, InputError) else cls(500, "internal error; see the log")


def crowded(seconds: int) -> Refused:
    words = f"too many requests are waiting; try again in {seconds} s"
    return Refused(429, words, {"Retry-After": str(seconds)})


def too_late(seconds: float) -> Refused:
    return Refused(504, f"no answer within {seconds:g} s; ask for fewer tokens, or try again later")


async def stoppable(work: Callable[[], Result], seconds: float, threads: Executor | None = None) -> Result:
    """Run work in a thread and return its result. Raises `TimeoutError` after `seconds`, which also stops the work."""
    unwanted = threading.Event()

    def run() -> Result:
        with stopping(unwanted.is_set):
            check_stop()
            return work()

    try:
        async with asyncio.timeout(seconds):
            return await asyncio.get_running_loop().run_in_executor(threads, run)
    finally:
        unwanted.set()


async def unless_gone(request: Request, work: Coroutine[object, None, Result]) -> Result:
    """Return the result of work; raise `Refused` as soon as the client disconnects."""

    async def hung_up() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(hung_up())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Refused(GONE, "the client has left")
    except asyncio.CancelledError as error:
        raise Refused(503, "this server is shutting down") from error
    finally:
        working.cancel()
        leaving.cancel()


async def giving_back() -> None:
    """Return freed memory to the operating system every few seconds; in a busy server no moment is a quiet one."""
    while True:
        await asyncio.sleep(GIVE_BACK)
        await asyncio.to_thread(give_back)


class Guard:
    """Middleware that checks the host name, the origin, the secret, and the type and size of every request, and logs a
    line for each. observe: called with path, status and seconds of every request."""

    log = logging.getLogger("arr_coc.serve")
    SECRET_NEEDED = "a key is needed: Authorization: Bearer …"
    # Name of the secret and its environment variable, the WWW-Authenticate header for clients without it, and headers
    # added to every answer.
    SECRET = ("key", "ARR_COC_API_KEY")
    CHALLENGE = "Bearer"
    HEADERS: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(
        self,
        application: Application,
        host: str,
        secret: str | None,
        limits: Limits,
        observe: Callable[[str, int, float], None] = lambda path, status, seconds: None,
    ) -> None:
        check_exposure(host, secret, *self.SECRET)
        self.application, self.secret = application, secret
        self.upload, self.most_open, self.open = limits.upload, 2 * (limits.queue + limits.batch), 0
        self.observe = observe
        # DNS rebinding: a page of another site could reach a loopback server through its own host name.
        self.hosts = {"localhost", LOOPBACK, "[::1]"} if is_loopback(host) else None

    def must_be_json(self, path: str) -> bool:
        return True

    def most_bytes(self, path: str) -> int:
        return self.upload

    def given_secret(self, headers: Mapping[bytes, bytes]) -> bytes:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        return given.strip() if kind.lower() == self.CHALLENGE.partition(" ")[0].lower().encode() else b""

    def refusal_of(self, refused: Refused) -> Response:
        return refused.answer()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.application(scope, receive, send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            with isolated():
                giving = asyncio.create_task(giving_back())
                await self.application(scope, receive, send)
                giving.cancel()
        if scope["type"] != "http":  # web sockets are not used
            return
        started, status, notes = time.perf_counter(), 500, {}
        scope["arr_coc"] = notes
        headers = {key.lower(): value for key, value in scope["headers"]}

        async def noting(message: Scope) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *self.HEADERS]
            await send(message)

        refused = self.refusal(scope, headers)
        self.open += 1
        try:
            work = self.answer if refused is None else self.refusal_of(refused)
            await work(scope, receive, noting)
        finally:
            self.open -= 1
            seconds, status = time.perf_counter() - started, notes.pop("status", status)
            self.observe(scope["path"], status, seconds)
            words = " ".join(f"{name}={value}" for name, value in notes.items())
            path = scope["path"] if scope["path"].isprintable() else "?"
            self.log.info("%s %s %d %.2fs %s", scope["method"], path, status, seconds, words)

    def refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Refused | None:
        own, origin = headers.get(b"host", b"").lower(), headers.get(b"origin")
        if self.hosts is not None and re.sub(rb":\d+$", b"", own).decode("latin-1") not in self.hosts:
            return Refused(403, "this server answers requests from its own machine only")
        if origin is not None and (not own or origin.lower() not in (b"http://" + own, b"https://" + own)):
            return Refused(403, "pages of other sites may not send requests here")
        locked = self.secret is not None and scope["path"] != "/health"
        if locked and not secrets.compare_digest(self.given_secret(headers), str(self.secret).encode()):
            return Refused(401, self.SECRET_NEEDED, {"WWW-Authenticate": self.CHALLENGE})
        if scope["method"] != "POST":
            return None
        # Checked before the body is read, so that open requests and their memory are bounded.
        if self.open >= self.most_open:
            return crowded(1)
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        # Browsers let pages of any site send text or forms, but not JSON.
        if kind != b"application/json" and self.must_be_json(scope["path"]):
            return Refused(415, "a request must be JSON; send the header Content-Type: application/json")
        length = headers.get(b"content-length", b"")
        if not length.isdigit():
            return Refused(411, "a request must have a Content-Length")
        if int(length) > self.most_bytes(scope["path"]):
            return Refused(413, f"the request exceeds {self.upload / 2**20:g} MB; make the picture smaller")
        return None


def check_structure(body: bytes) -> None:
    """Refuse, before it is parsed, JSON that would become too many objects."""
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > MOST_STRUCTURE:
        raise InputError(f"the request has more than {MOST_STRUCTURE} values; send one page of words at a time")


def picture_bytes(address: str) -> bytes:
    """Return the bytes of a data: URL."""
    head, comma, data = address.partition(",")
    if address[:5].lower() != "data:":
        raise InputError("image_url must be a data: URL; this server downloads nothing")
    if not comma or not head.lower().endswith(";base64"):
        raise InputError("a data: URL must have the form data:image/png;base64,…")
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise InputError("the data: URL is not base64; send data:image/png;base64,…") from error


class Numbers:
    """Metrics for Prometheus, free of pictures, words and keys. name: the prefix of the server's own metrics."""

    def __init__(self, name: str) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self.registry = CollectorRegistry()
        self.counter = partial(Counter, registry=self.registry)
        self.requests = self.counter(f"{name}_requests_total", "Requests by status.", ["status"])
        self.seconds = Histogram(f"{name}_request_seconds", "From arrival to the last byte.", registry=self.registry)

    def request(self, path: str, status: int, seconds: float) -> None:
        if path not in ("/health", "/metrics"):
            self.requests.labels(str(status)).inc()
            self.seconds.observe(seconds)

    def add_routes(self, api: Any, health: Callable[[], tuple[str, int]]) -> None:
        """Add GET /health and /metrics. health: returns the text of /health and a status."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
        from starlette.responses import JSONResponse, Response

        async def alive(request: Request) -> Response:
            words, status = health()
            return JSONResponse({"status": words}, status)

        async def numbers(request: Request) -> Response:
            return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)

        api.add_route("/health", alive, methods=["GET"])
        api.add_route("/metrics", numbers, methods=["GET"])


def run(application: Application, host: str, port: int, ready: Callable[[str], None], grace: int = 2) -> None:
    """Serve until interrupted or terminated. ready: called with the address. grace: seconds to finish open answers."""
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
            # Open pages hold endless streams; do not log that they are cut off.
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
