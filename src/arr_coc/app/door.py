"""What stands before every server of ours: refusals in OpenAI's form, and the keeper of the door. Needs no torch."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from ..core.errors import InputError
from ..core.values import JsonObject
from . import web

if TYPE_CHECKING:
    from .serve.limits import Limits

GONE = 499
Result = TypeVar("Result")


class Refused(Exception):
    """status: of HTTP. more: further headers. no_model: what is missing is the model."""

    # What other errors become, by their class; those who raise them say so.
    KINDS: ClassVar[dict[type[Exception], Callable[[Any], Refused]]] = {}

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
        missing = ("model", "model_not_found") if self.no_model else (None, self.status)
        return {"error": {"message": self.words, "type": kind, "param": missing[0], "code": missing[1]}}

    @classmethod
    def of(cls, error: Exception) -> Refused:
        if isinstance(error, Refused):
            return error
        for kind, refusal in cls.KINDS.items():
            if isinstance(error, kind):
                return refusal(error)
        if isinstance(error, InputError):
            return cls(400, str(error))
        return cls(500, "something went wrong inside")


def crowded(seconds: int) -> Refused:
    words = f"too many requests are waiting; try again in {seconds} s"
    return Refused(429, words, {"Retry-After": str(seconds)})


def answer_of(refused: Refused) -> JSONResponse:
    return JSONResponse(refused.body(), refused.status, refused.more)


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


class Doorkeeper:
    """Around an application: names of the host, pages of other sites, the key, the kind and the size of a request; one
    line of log for each. limits: with upload, queue and batch."""

    log = logging.getLogger("arr_coc.serve")
    KEY_NEEDED = "a key is needed: Authorization: Bearer …"

    def __init__(
        self, application: web.Application, host: str, key: str | None, limits: Limits, origins: web.Origins
    ) -> None:
        self.application, self.key, self.limits, self.origins = application, key, limits, origins
        self.hosts = web.own_names(host)
        self.open = 0

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Called once a request is over."""

    def must_be_json(self, path: str) -> bool:
        return True

    def given_key(self, headers: Mapping[bytes, bytes]) -> bytes:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        return given.strip() if kind.lower() == b"bearer" else b""

    async def __call__(self, scope: web.Scope, receive: web.Receive, send: web.Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.application(scope, receive, send)
            return
        started, status, notes = time.perf_counter(), 500, {}
        scope["arr_coc"] = notes

        async def noting(message: web.Scope) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *self.origins.told(headers)]
            await send(message)

        headers = {key.lower(): value for key, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        self.open += 1
        try:
            if refusal is None and scope["method"] == "OPTIONS" and self.origins.told(headers):
                await Response(status_code=204)(scope, receive, noting)
            elif refusal is None:
                await self.application(scope, receive, noting)
            else:
                await answer_of(refusal)(scope, receive, noting)
        finally:
            self.open -= 1
            seconds, status = time.perf_counter() - started, notes.pop("status", status)
            self.observe(scope["path"], status, seconds)
            told = " ".join(f"{name}={value}" for name, value in notes.items())
            path = scope["path"] if scope["path"].isprintable() else "?"
            self.log.info("%s %s %d %.2fs %s", scope["method"], path, status, seconds, told)

    def _refusal(self, scope: web.Scope, headers: Mapping[bytes, bytes]) -> Refused | None:
        if self.hosts is not None and web.called_name(headers) not in self.hosts:
            return Refused(403, "this server answers on its own machine only")
        if not self.origins.welcome(headers):
            return Refused(403, web.OTHER_SITE)
        if scope["method"] == "OPTIONS":  # a browser asks by itself, without the key, before a page may ask
            return None
        locked = self.key is not None and scope["path"] != "/health"
        if locked and not secrets.compare_digest(self.given_key(headers), str(self.key).encode()):
            return Refused(401, self.KEY_NEEDED, {"WWW-Authenticate": "Bearer"})
        if scope["method"] == "POST":
            # Before a byte of a picture is taken in: what waits at all is bounded, and with it the memory.
            if self.open >= 2 * (self.limits.queue + self.limits.batch):
                return crowded(1)
            if not web.is_json(headers) and self.must_be_json(scope["path"]):
                return Refused(415, "a request must be JSON and say so; send Content-Type: application/json")
            told = headers.get(b"content-length", b"")
            if not told.isdigit():
                return Refused(411, "a request must say how long it is")
            if int(told) > self.limits.upload:
                return Refused(413, f"a request may have {self.limits.upload / 2**20:g} MB; make the picture smaller")
        return None
