"""What stands before every server here: refusals in OpenAI's form, and a guard around the application. No torch."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..core.errors import InputError
from ..core.values import JsonObject
from . import web

GONE = 499
OTHER_SITE = "pages of other sites may not ask here"
Result = TypeVar("Result")


class Refused(Exception):
    """status: of HTTP. more: further headers. no_model: what is missing is the model."""

    def __init__(
        self, status: int, words: str, more: Mapping[str, str] | None = None, *, no_model: bool = False
    ) -> None:
        super().__init__(words)
        self.no_model = no_model
        # Words of the request may be among them, and hold half a character, which cannot be sent.
        self.status, self.words, self.more = status, words.encode(errors="replace").decode(), dict(more or {})

    def body(self) -> JsonObject:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = "rate_limit_error" if self.status == 429 else kind
        param, code = ("model", "model_not_found") if self.no_model else (None, self.status)
        return {"error": {"message": self.words, "type": kind, "param": param, "code": code}}

    def answer(self) -> Response:
        return JSONResponse(self.body(), self.status, self.more)

    @classmethod
    def of(cls, error: Exception) -> Refused:
        if isinstance(error, Refused):
            return error
        return cls(400, str(error)) if isinstance(error, InputError) else cls(500, "something went wrong inside")


def crowded(seconds: int) -> Refused:
    words = f"too many requests are waiting; try again in {seconds} s"
    return Refused(429, words, {"Retry-After": str(seconds)})


async def unless_gone(request: Request, work: Coroutine[object, None, Result]) -> Result:
    """The result, or `Refused` as soon as the client has hung up."""

    async def hung_up() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(hung_up())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Refused(GONE, "the client has left")
    finally:
        working.cancel()
        leaving.cancel()


class Guard:
    """Around an application: the name of the host, pages of other sites, the secret, the kind and the size of a
    request; one line of log for each. most_open: requests that may be open at once."""

    log = logging.getLogger("arr_coc.serve")
    SECRET_NEEDED = "a key is needed: Authorization: Bearer …"
    # What a client must send to be asked for the secret, and the headers of every answer.
    CHALLENGE = "Bearer"
    HEADERS: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(
        self,
        application: web.Application,
        host: str,
        secret: str | None,
        upload: int,
        most_open: int,
    ) -> None:
        self.application, self.secret = application, secret
        self.upload, self.most_open, self.open = upload, most_open, 0
        # A page of another site could reach a loopback server through a name of its own.
        self.hosts = {"localhost", web.LOOPBACK, "[::1]"} if web.is_loopback(host) else None

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Called once a request is over."""

    def must_be_json(self, path: str) -> bool:
        return True

    def most_bytes(self, path: str) -> int:
        return self.upload

    def given_secret(self, headers: Mapping[bytes, bytes]) -> bytes:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        return given.strip() if kind.lower() == b"bearer" else b""

    def refusal_of(self, refused: Refused) -> Response:
        return refused.answer()

    async def __call__(self, scope: web.Scope, receive: web.Receive, send: web.Send) -> None:
        if scope["type"] != "http":  # there are no web sockets here
            if scope["type"] == "lifespan":
                await self.application(scope, receive, send)
            return
        started, status, notes = time.perf_counter(), 500, {}
        scope["arr_coc"] = notes
        headers = {key.lower(): value for key, value in scope["headers"]}

        async def noting(message: web.Scope) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *self.HEADERS]
            await send(message)

        refused = self.refusal(scope, headers)
        self.open += 1
        try:
            if refused is not None:
                await self.refusal_of(refused)(scope, receive, noting)
            else:
                await self.answer(scope, receive, noting)
        finally:
            self.open -= 1
            seconds, status = time.perf_counter() - started, notes.pop("status", status)
            self.observe(scope["path"], status, seconds)
            words = " ".join(f"{name}={value}" for name, value in notes.items())
            path = scope["path"] if scope["path"].isprintable() else "?"
            self.log.info("%s %s %d %.2fs %s", scope["method"], path, status, seconds, words)

    async def answer(self, scope: web.Scope, receive: web.Receive, send: web.Send) -> None:
        await self.application(scope, receive, send)

    def refusal(self, scope: web.Scope, headers: Mapping[bytes, bytes]) -> Refused | None:
        called = re.sub(rb":\d+$", b"", headers.get(b"host", b"")).decode("latin-1")
        if self.hosts is not None and called not in self.hosts:
            return Refused(403, "this server answers on its own machine only")
        if not web.same_site(headers):
            return Refused(403, OTHER_SITE)
        locked = self.secret is not None and scope["path"] != "/health"
        if locked and not secrets.compare_digest(self.given_secret(headers), str(self.secret).encode()):
            return Refused(401, self.SECRET_NEEDED, {"WWW-Authenticate": self.CHALLENGE})
        if scope["method"] != "POST":
            return None
        # Before a byte of a picture is taken in: what waits at all is bounded, and with it the memory.
        if self.open >= self.most_open:
            return crowded(1)
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        # A page of any site may send text or a form unasked; JSON it may not.
        if kind != b"application/json" and self.must_be_json(scope["path"]):
            return Refused(415, "a request must be JSON and say so; send Content-Type: application/json")
        length = headers.get(b"content-length", b"")
        if not length.isdigit():
            return Refused(411, "a request must say how long it is")
        if int(length) > self.most_bytes(scope["path"]):
            return Refused(413, f"a request may have {self.upload / 2**20:g} MB; make the picture smaller")
        return None


def status_routes(api: Any, metrics: Any, health: Any) -> None:
    """GET /health and /metrics. metrics: a registry of Prometheus. health: gives the words of /health and a status."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    async def alive(request: Request) -> Response:
        words, status = health()
        return JSONResponse({"status": words}, status)

    async def numbers(request: Request) -> Response:
        return Response(generate_latest(metrics), media_type=CONTENT_TYPE_LATEST)

    api.add_route("/health", alive, methods=["GET"])
    api.add_route("/metrics", numbers, methods=["GET"])
