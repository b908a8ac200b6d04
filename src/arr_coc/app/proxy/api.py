"""The HTTP side of the proxy: requests are forwarded with packed pictures, answers return byte for byte."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.requests import ClientDisconnect

from ...core.errors import InputError
from ...core.values import JsonObject
from ...options import check_budget
from .. import web
from ..web import GONE, Guard, Numbers, Receive, Refused, Scope, Send, check_structure, unless_gone
from .packer import PackedRequest, PackedSlot, Packer, ProxySettings
from .pointing import Pointing, TranslatedAnswer
from .protocols import Protocol, model_of, protocol_of

OWN = "x-arr-coc"
# Hop-by-hop headers, which are not forwarded: RFC 9110 and its predecessors. Length and host are set again.
HOP = {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade"}
HOP |= {b"transfer-encoding", b"proxy-connection"}
CONNECT_SECONDS, GRACE = 10, 30
LONGEST_REASON = 200
# A request without any of these words has no pictures in any protocol.
MEDIA = (b"image", b"screenshot", b"pdf")
log = logging.getLogger("arr_coc.proxy")


class ProxyNumbers(Numbers):
    """Metrics of a proxy."""

    def __init__(self) -> None:
        super().__init__("arr_coc_proxy")
        self.pictures = self.counter("arr_coc_proxy_pictures_total", "Pictures by what became of them.", ["outcome"])
        self.tokens = self.counter("arr_coc_proxy_tokens_total", "Visual tokens: as sent, and as they were.", ["kind"])


@dataclass
class ProxyCall:
    """One request. headers: added to its answer. pointing: how coordinates in the answer are translated, if at all."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    pointing: Pointing | None = None

    def note(self, **values: object) -> None:
        for name, value in values.items():
            text = str(value).encode("ascii", "replace").decode()[:LONGEST_REASON]
            self.headers[OWN if name == "state" else f"{OWN}-{name}"] = text


class BrokenOff(Exception):
    """The upstream broke off an answer; already logged."""


class ProxyGuard(Guard):
    """The guard of the proxy. Its key has its own header, because Authorization belongs to the upstream."""

    log = log
    SECRET_NEEDED = f"a key is needed: {OWN}-key: …"

    def must_be_json(self, path: str) -> bool:
        """Return whether the path belongs to a known protocol; others, such as file uploads, only pass through."""
        return protocol_of(path) is not None

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.application(scope, receive, send)
        except BrokenOff:
            return  # send no end, so that the client sees that the answer is incomplete
        except ClientDisconnect:
            scope["arr_coc"]["status"] = GONE

    def given_secret(self, headers: Mapping[bytes, bytes]) -> bytes:
        return headers.get(f"{OWN}-key".encode(), b"").strip()


# ---- the request -----------------------------------------------------------------------------------------------------


async def prepare(
    request: Request, body: bytes, protocol: Protocol | None, packer: Packer, numbers: ProxyNumbers
) -> ProxyCall:
    """Pack the pictures of a request; leave it unchanged if it has none or if packing fails."""
    call, headers = ProxyCall(body), request.headers
    if protocol is None or request.method != "POST":
        return call
    off = headers.get(OWN, "").strip().lower() == "off"
    call.note(state="off" if off else "unchanged")
    budget = check_budget(headers.get(f"{OWN}-budget")) or packer.settings.options.budget
    if off or not any(word in body for word in MEDIA):  # without pictures, parsing the JSON would be wasted
        return call
    try:
        check_structure(body)
        read = await asyncio.to_thread(json.loads, body)
        if not isinstance(read, dict):
            return call
        packed = await packer.request(read, protocol, model_of(read, request.url.path), budget)
        if packed.changed:
            call.body = await asyncio.to_thread(lambda: json.dumps(read, ensure_ascii=False).encode())
    except InputError as error:
        packed = PackedRequest((PackedSlot("fallback"),), reason=str(error))
    except (ValueError, RecursionError):
        return call  # not valid JSON: let the upstream report it
    except Exception:  # a failure here must not fail the request
        log.exception("packing failed, the request was forwarded unchanged")
        packed = PackedRequest((PackedSlot("fallback"),), reason="packing failed; see the log")
    for one in packed.slots:
        numbers.pictures.labels(one.outcome).inc()
    numbers.tokens.labels("sent").inc(packed.spent)
    numbers.tokens.labels("full").inc(packed.full)
    if packed.changed:
        call.note(state="packed")
        call.pointing = packed.pointing
    if packed.pictures:
        call.note(tokens=packed.spent, full=packed.full, pictures=packed.pictures)
    if packed.reason:
        call.note(fallback=packed.reason)
    return call


# ---- the answer ------------------------------------------------------------------------------------------------------


def end_to_end(headers: Sequence[tuple[bytes, bytes]], *more: bytes) -> list[tuple[bytes, bytes]]:
    """Drop hop-by-hop headers, those that the header Connection names, and `more`."""
    named = b",".join(value for name, value in headers if name.lower() == b"connection")
    dropped = HOP | {one.strip().lower() for one in named.split(b",")} | set(more)
    return [(name.lower(), value) for name, value in headers if name.lower() not in dropped]


def forwarded(headers: Sequence[tuple[bytes, bytes]], *, plain: bool) -> list[tuple[bytes, bytes]]:
    """Return the client's headers for the upstream, keys included, without ours. plain: ask for no compression."""
    kept = end_to_end(headers, b"host", b"content-length", b"expect", *([b"accept-encoding"] if plain else []))
    kept = [(name, value) for name, value in kept if not name.startswith(OWN.encode())]
    if not any(name == b"accept-encoding" for name, _ in kept):
        kept.append((b"accept-encoding", b"identity"))
    return kept


async def passed_on(answer: httpx.Response, call: ProxyCall, notes: JsonObject) -> AsyncIterator[bytes]:
    """Yield the answer byte for byte, or with its coordinates translated; raise `BrokenOff` if it is incomplete."""
    try:
        if call.pointing is None:
            async for piece in answer.aiter_raw():
                yield piece
        else:
            streamed = "event-stream" in answer.headers.get("content-type", "")
            translated = TranslatedAnswer(call.pointing, streamed=streamed)
            async for piece in answer.aiter_bytes():
                yield translated.feed(piece)
            yield translated.feed(b"", end=True)
    except httpx.HTTPError as error:
        notes["upstream"] = "stalled" if isinstance(error, httpx.TimeoutException) else "broke-off"
        raise BrokenOff from None
    finally:
        await answer.aclose()


def answer_to(call: ProxyCall, answer: httpx.Response, notes: JsonObject) -> Response:
    """Build the response from the upstream's answer, with our headers added."""
    changed = () if call.pointing is None else (b"content-length", b"content-encoding")
    headers = end_to_end(answer.headers.raw, b"date", *changed)  # our own server sets the date
    response = StreamingResponse(passed_on(answer, call, notes), answer.status_code)
    response.raw_headers = [*headers, *((name.encode(), value.encode()) for name, value in call.headers.items())]
    return response


# ---- the application -------------------------------------------------------------------------------------------------


def build_proxy(settings: ProxySettings, *, host: str = web.LOOPBACK, key: str | None = None) -> web.Application:
    """Build the proxy behind its guard, as an ASGI application. key: clients must send it in x-arr-coc-key."""
    packer, numbers, limits = Packer(settings), ProxyNumbers(), settings.limits
    timeout = httpx.Timeout(limits.seconds, connect=min(CONNECT_SECONDS, limits.seconds))
    direct = web.is_loopback(httpx.URL(settings.upstream).host)
    kept = httpx.Limits(max_connections=None, max_keepalive_connections=32)
    client = httpx.AsyncClient(trust_env=not direct, limits=kept, timeout=timeout)

    @asynccontextmanager
    async def life(application: FastAPI) -> AsyncGenerator[None]:
        async with client:
            yield
        packer.close()

    api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=life)
    numbers.add_routes(api, lambda: ("ok", 200))

    @api.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"])
    async def through(request: Request, path: str) -> Response:
        protocol = protocol_of(request.url.path)
        try:
            return await onward(request, protocol)
        except httpx.TimeoutException:
            refused = Refused(504, "the upstream did not answer in time")
        except httpx.HTTPError as error:
            refused = Refused(502, f"the upstream cannot be reached ({type(error).__name__})")
        except (Refused, InputError) as error:
            refused = Refused.of(error)
        more = {} if protocol is None else protocol.error
        return JSONResponse({**more, **refused.body()}, refused.status, refused.more)

    async def onward(request: Request, protocol: Protocol | None) -> Response:
        body = await request.body()
        call = await unless_gone(request, prepare(request, body, protocol, packer, numbers))
        notes = {name.removeprefix(f"{OWN}-"): value for name, value in call.headers.items() if name != OWN}
        request.scope["arr_coc"].update(notes)
        upstream = httpx.Request(
            request.method,
            settings.address(request.url.path, request.url.query),
            headers=forwarded(request.headers.raw, plain=call.pointing is not None),
            content=call.body if call.body or request.method in ("POST", "PUT", "PATCH") else None,
            extensions={"timeout": timeout.as_dict()},
        )
        answer = await unless_gone(request, client.send(upstream, stream=True))
        return answer_to(call, answer, request.scope["arr_coc"])

    return ProxyGuard(api, host, key, limits, numbers.request)
