"""What clients of the proxy see: their requests go on with packed pictures, answers come back byte for byte."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CollectorRegistry, Counter, Histogram

from ...core.errors import InputError
from ...options import check_budget
from ...packing.packed import told
from .. import web
from ..web import Guard, Refused, check_structure, status_routes, unless_gone
from .packer import PackedSlot, Packer, ProxySettings
from .protocols import Protocol, protocol_of

PORT = 8010
OWN = "x-arr-coc"
# Between two machines only; RFC 9110 and what its forerunners had. The length is set again, the host is another.
HOP = {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade"}
HOP |= {b"transfer-encoding", b"proxy-connection"}
CONNECT_SECONDS, GRACE = 10, 30
LONGEST_REASON = 200
log = logging.getLogger("arr_coc.proxy")


class ProxyNumbers:
    """What a proxy has done so far, for Prometheus; no picture, no word, no key is in them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        self.requests = counter("arr_coc_proxy_requests_total", "Requests by status.", ["status"])
        self.pictures = counter("arr_coc_proxy_pictures_total", "Pictures by what became of them.", ["outcome"])
        self.tokens = counter("arr_coc_proxy_tokens_total", "Visual tokens: as sent, and as they were.", ["kind"])
        name, meaning = "arr_coc_proxy_request_seconds", "From arrival to the last byte."
        self.seconds = Histogram(name, meaning, registry=self.registry)

    def count(self, own: PackedSlot) -> None:
        """Add one picture."""
        self.pictures.labels(own.outcome).inc()
        self.tokens.labels("sent").inc(own.spent)
        self.tokens.labels("full").inc(own.full)


@dataclass
class ProxyCall:
    """One request on its way. headers: of its answer."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    def note(self, **values: object) -> None:
        for name, value in values.items():
            text = str(value).encode("ascii", "replace").decode()[:LONGEST_REASON]
            self.headers[OWN if name == "state" else f"{OWN}-{name}"] = text


class ProxyGuard(Guard):
    """The guard of the proxy: its key has a header of its own, because Authorization belongs to the upstream."""

    log = log
    SECRET_NEEDED = f"a key is needed: {OWN}-key: …"
    numbers: ProxyNumbers

    def observe(self, path: str, status: int, seconds: float) -> None:
        if path not in ("/health", "/metrics"):
            self.numbers.requests.labels(str(status)).inc()
            self.numbers.seconds.observe(seconds)

    def must_be_json(self, path: str) -> bool:
        """Others, such as uploads of files, only pass through."""
        return protocol_of(path) is not None

    def given_secret(self, headers: Mapping[bytes, bytes]) -> bytes:
        return headers.get(f"{OWN}-key".encode(), b"").strip()


# ---- the request -----------------------------------------------------------------------------------------------------


async def prepare(
    request: Request, body: bytes, protocol: Protocol | None, packer: Packer, numbers: ProxyNumbers
) -> ProxyCall:
    """The request with its pictures packed; as it came where there is nothing to pack, or where we fail."""
    call, headers = ProxyCall(body), request.headers
    if protocol is None or request.method != "POST":
        return call
    if headers.get(OWN, "").strip().lower() == "off":
        call.note(state="off")
        return call
    budget = headers.get(f"{OWN}-budget") or packer.settings.options.budget
    check_budget(budget)
    call.note(state="unchanged")
    try:
        await pack_request(call, protocol, packer, numbers, budget)
    except Exception as error:  # whatever it is, the client gets its answer
        reason = "something went wrong"
        if isinstance(error, InputError | TimeoutError):
            reason = str(error) or "it took too long"
        else:
            log.exception("a request went on as it came")
        call.body = body
        numbers.count(PackedSlot("fallback", 0, 0))
        call.note(fallback=reason)
    return call


async def pack_request(
    call: ProxyCall, protocol: Protocol, packer: Packer, numbers: ProxyNumbers, budget: object
) -> None:
    """Put packed pictures into the body. Raises what goes wrong; nothing is sent of it then."""
    if b"image" not in call.body:  # no protocol has pictures without this word; reading JSON would be all we did
        return
    check_structure(call.body)
    try:
        body = await asyncio.to_thread(json.loads, call.body)
    except (ValueError, RecursionError):
        return  # what is wrong with it the upstream says better
    slots, question = protocol.find(body) if isinstance(body, dict) else ([], "")
    most = packer.settings.limits.pictures
    if len(slots) > most:
        raise InputError(f"the request shows {len(slots)} pictures; {most} are packed at a time")
    # Pictures by address go on as they are.
    chosen = [one for one in slots if one.address[:5].lower() == "data:" and one.detail != "low"]
    if not chosen:
        return
    table = packer.table(body.get("model"))
    made = await asyncio.gather(*(packer.pack(one.address, question, table, budget, len(slots)) for one in chosen))
    own = dict(zip(chosen, made, strict=True))
    first = 1
    for slot in slots:
        packed = own[slot].packed if slot in own else None
        if packed is not None:
            slot.fill(protocol.made(slot.part, own[slot].files, told(packed.pictures, packed.sizes, first)))
        first += 1 if packed is None else len(packed.pictures)
    for one in made:
        numbers.count(one)
    if any(one.packed is not None for one in made):
        call.body = await asyncio.to_thread(lambda: json.dumps(body, ensure_ascii=False).encode())
        call.note(state="packed")
    call.note(tokens=sum(one.spent for one in made), full=sum(one.full for one in made), pictures=first - 1)


# ---- the answer ------------------------------------------------------------------------------------------------------


def forwarded(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The client's headers as the upstream gets them: keys and all, without ours."""
    kept = [
        (name, value)
        for name, value in headers
        if name.lower() not in HOP | {b"host", b"content-length"} and not name.lower().startswith(OWN.encode())
    ]
    if not any(name.lower() == b"accept-encoding" for name, _ in kept):
        kept.append((b"accept-encoding", b"identity"))
    return kept


async def passed_on(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Every byte as it comes."""
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        await answer.aclose()


def answer_to(call: ProxyCall, answer: httpx.Response) -> Response:
    """The upstream's answer with our headers."""
    headers = [(name.lower(), value) for name, value in answer.headers.raw if name.lower() not in HOP]
    response = StreamingResponse(passed_on(answer), answer.status_code)
    response.raw_headers = [*headers, *((name.encode(), value.encode()) for name, value in call.headers.items())]
    return response


# ---- the application -------------------------------------------------------------------------------------------------


def build_proxy(settings: ProxySettings, *, host: str = web.LOOPBACK, key: str | None = None) -> web.Application:
    """The proxy behind its guard, as an ASGI application. key: that clients must send in x-arr-coc-key."""
    web.check_exposure(host, key)
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
    status_routes(api, numbers.registry, lambda: ("ok", 200))

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
            headers=forwarded(request.headers.raw),
            content=call.body if call.body or request.method in ("POST", "PUT", "PATCH") else None,
            extensions={"timeout": timeout.as_dict()},
        )
        answer = await unless_gone(request, client.send(upstream, stream=True))
        return answer_to(call, answer)

    guard = ProxyGuard(api, host, key, limits.upload, 2 * (limits.queue + limits.batch))
    guard.numbers = numbers
    return guard


def run_proxy(
    settings: ProxySettings,
    *,
    host: str = web.LOOPBACK,
    port: int = PORT,
    key: str | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until interrupted; then open answers are finished."""
    with suppress(KeyboardInterrupt):
        web.run(build_proxy(settings, host=host, key=key), host, port, ready, GRACE)
