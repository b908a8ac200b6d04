"""What stands before the server: refusals in OpenAI's form, numbers for Prometheus, and the guard at the door."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping, MutableMapping
from typing import Any

from fastapi.responses import JSONResponse, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ...core.errors import InputError
from .. import web
from .chat import Limits, UnknownModel
from .engine import Closed, Engine, Full

log = logging.getLogger("arr_coc.serve")
CHAT = "/v1/chat/completions"
TOKENS = "/v1/tokens"
GONE = 499


class Refused(Exception):
    """status: of HTTP. more: further headers. no_model: what is missing is the model."""

    def __init__(
        self, status: int, words: str, more: Mapping[str, str] | None = None, *, no_model: bool = False
    ) -> None:
        super().__init__(words)
        self.no_model = no_model
        # Words of the request may be among them, and hold half a character, which cannot be sent.
        self.status, self.words, self.more = status, words.encode(errors="replace").decode(), dict(more or {})

    def body(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = "rate_limit_error" if self.status == 429 else kind
        missing = ("model", "model_not_found") if self.no_model else (None, self.status)
        return {"error": {"message": self.words, "type": kind, "param": missing[0], "code": missing[1]}}

    @classmethod
    def of(cls, error: Exception) -> Refused:
        if isinstance(error, Refused):
            return error
        if isinstance(error, Full):
            words = f"too many requests are waiting; try again in {error.seconds} s"
            return cls(429, words, {"Retry-After": str(error.seconds)})
        if isinstance(error, Closed):
            return cls(503, "this server is ending")
        if isinstance(error, InputError):
            missing = isinstance(error, UnknownModel)
            return cls(404 if missing else 400, str(error), no_model=missing)
        return cls(500, "something went wrong inside")


class Metrics:
    """Counters of one server; no picture and no word is in them."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("arr_coc_requests_total", "Chat completions by status.", ["status"], **own)
        self.visual = Counter(
            "arr_coc_visual_tokens_total", "Visual tokens: spent, and of whole pictures.", ["kind"], **own
        )
        self.said = Counter("arr_coc_completion_tokens_total", "Tokens of answers.", **own)
        self.seconds = Histogram("arr_coc_request_seconds", "From arrival to the last byte.", **own)
        self.batches = Histogram("arr_coc_batch_size", "Requests of a batch.", buckets=(1, 2, 4, 8, 16, 32), **own)
        self.batch_seconds = Histogram("arr_coc_batch_seconds", "Seconds of a batch.", **own)
        Gauge("arr_coc_waiting", "Requests in the queue.", **own).set_function(lambda: engine.waiting)

    def batch(self, size: int, seconds: float) -> None:
        self.batches.observe(size)
        self.batch_seconds.observe(seconds)


class Guard:
    """Around the application: names of the host, pages of other sites, the key, the kind and the size of a request; one
    line of log for each."""

    def __init__(
        self,
        application: web.Application,
        host: str,
        key: str | None,
        limits: Limits,
        metrics: Metrics,
        origins: web.Origins,
    ) -> None:
        self.application, self.key, self.limits, self.metrics = application, key, limits, metrics
        self.origins = origins
        self.hosts = web.own_names(host)
        self.open = 0

    async def __call__(self, scope: web.Scope, receive: web.Receive, send: web.Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.application(scope, receive, send)
            return
        started, status, notes = time.perf_counter(), 500, {}
        scope["arr_coc"] = notes

        async def noting(message: MutableMapping[str, Any]) -> None:
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
            if scope["path"] == CHAT:
                self.metrics.requests.labels(str(status)).inc()
                self.metrics.seconds.observe(seconds)
            told = " ".join(f"{name}={value}" for name, value in notes.items())
            path = scope["path"] if scope["path"].isprintable() else "?"
            log.info("%s %s %d %.2fs %s", scope["method"], path, status, seconds, told)

    def _refusal(self, scope: web.Scope, headers: Mapping[bytes, bytes]) -> Refused | None:
        if self.hosts is not None and web.called_name(headers) not in self.hosts:
            return Refused(403, "this server answers on its own machine only")
        if not self.origins.welcome(headers):
            return Refused(403, web.OTHER_SITE)
        if scope["method"] == "OPTIONS":  # a browser asks by itself, without the key, before a page may ask
            return None
        if self.key is not None and scope["path"] != "/health":
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer" or not secrets.compare_digest(given.strip(), self.key.encode()):
                return Refused(401, "a key is needed: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"})
        if scope["method"] == "POST":
            # Before a byte of a picture is taken in: what waits at all is bounded, and with it the memory.
            if self.open >= 2 * (self.limits.queue + self.limits.batch):
                return Refused.of(Full(1))
            if not web.is_json(headers):
                return Refused(415, "a request must be JSON and say so; send Content-Type: application/json")
            told = headers.get(b"content-length", b"")
            if not told.isdigit():
                return Refused(411, "a request must say how long it is")
            if int(told) > self.limits.upload:
                return Refused(413, f"a request may have {self.limits.upload / 2**20:g} MB; make the picture smaller")
        return None


def answer_of(refused: Refused) -> JSONResponse:
    return JSONResponse(refused.body(), refused.status, refused.more)
