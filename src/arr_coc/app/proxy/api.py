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
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ...core.checks import whole
from ...core.errors import InputError
from ...core.values import JsonObject
from ...options import check_budget
from .. import web
from ..media import allowed_host, check_structure, picture_bytes
from ..web import Guard, Refused, status_routes, unless_gone
from .boxes import ASKED, SeenPicture, translated, unit_of
from .packer import Packer, header_size
from .protocols import MESSAGES, NOT_PACKED, Protocol, protocol_of
from .settings import ProxySettings

PORT = 8010
TOKENS, SAVINGS = "/v1/tokens", "/v1/savings"
OWN = "x-arr-coc"
# Between two machines only; RFC 9110 and what its forerunners had. The length is set again, the host is another.
HOP = {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade"}
HOP |= {b"transfer-encoding", b"proxy-connection"}
CONNECT_SECONDS, GRACE = 10, 30
LONGEST_REASON = 200
log = logging.getLogger("arr_coc.proxy")


class ProxyNumbers:
    """What a proxy has done so far, for Prometheus and as totals; no picture, no word, no key is in them."""

    def __init__(self, packer: Packer) -> None:
        self.registry = CollectorRegistry()
        counter, histogram = partial(Counter, registry=self.registry), partial(Histogram, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self.requests = counter("arr_coc_proxy_requests_total", "Requests by status.", ["status"])
        self.pictures = counter("arr_coc_proxy_pictures_total", "Pictures by what became of them.", ["outcome"])
        self.tokens = counter("arr_coc_proxy_tokens_total", "Visual tokens: as sent, and as they were.", ["kind"])
        self.seconds = histogram("arr_coc_proxy_pack_seconds", "Seconds to pack a picture.")
        self.lasted = histogram("arr_coc_proxy_request_seconds", "From arrival to the last byte.")
        cache = packer.cache
        gauge("arr_coc_proxy_cache_bytes", "Packed pictures that are kept.").set_function(lambda: cache.size)
        self.totals = {"requests": 0, "pictures": 0, "packed": 0, "fallbacks": 0, "tokens": 0, "full": 0}

    def picture(self, outcome: str, full: int = 0, spent: int = 0, seconds: float = 0.0) -> None:
        self.pictures.labels(outcome).inc()
        self.totals["pictures"] += 1
        self.totals["packed"] += outcome in ("packed", "cached")
        self.totals["fallbacks"] += outcome == "fallback"
        self.totals["tokens"] += spent
        self.totals["full"] += full
        self.tokens.labels("sent").inc(spent)
        self.tokens.labels("full").inc(full)
        if outcome == "packed":
            self.seconds.observe(seconds)

    def to_json(self) -> JsonObject:
        return {**self.totals, "tokens_saved": self.totals["full"] - self.totals["tokens"]}


@dataclass
class ProxyCall:
    """One request on its way: what it will send, and what its answer's headers will tell."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    seen: list[SeenPicture] = field(default_factory=list)
    boxes: float | str | None = ""

    @property
    def changed(self) -> bool:
        """Whether any picture was packed."""
        return any(one.packed is not None for one in self.seen)

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
        if path not in ("/health", "/metrics", SAVINGS):
            self.numbers.requests.labels(str(status)).inc()
            self.numbers.lasted.observe(seconds)

    def must_be_json(self, path: str) -> bool:
        """Others, such as uploads of files, only pass through."""
        return protocol_of(path) is not None or path == TOKENS

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
    numbers.totals["requests"] += 1
    if headers.get(OWN, "").strip().lower() == "off":
        call.note(state="off")
        return call
    budget = headers.get(f"{OWN}-budget") or packer.settings.options.budget
    check_budget(budget)
    if f"{OWN}-boxes" in headers:
        call.boxes = unit_of(headers[f"{OWN}-boxes"])
    try:
        await pack_request(call, protocol, packer, numbers, budget)
    except Exception as error:  # whatever it is, the client gets its answer
        known = isinstance(error, InputError | TimeoutError)
        if not known:
            log.exception("a request went on as it came")
        call.body, call.seen = body, []
        reason = (
            str(error) if isinstance(error, InputError) else "it took too long" if known else "something went wrong"
        )
        numbers.picture("fallback")
        call.note(state="unchanged", fallback=reason)
    return call


async def pack_request(
    call: ProxyCall, protocol: Protocol, packer: Packer, numbers: ProxyNumbers, budget: object
) -> None:
    """Put packed pictures into the body. Raises what goes wrong; nothing is changed then."""
    if b"image" not in call.body:  # no protocol has pictures without this word; reading JSON would be all we did
        call.note(state="unchanged")
        return
    check_structure(call.body)
    try:
        body = await asyncio.to_thread(json.loads, call.body)
    except (ValueError, RecursionError):
        call.note(state="unchanged")  # what is wrong with it the upstream says better
        return
    found = protocol.find(body) if isinstance(body, dict) else None
    if found is None or not found.slots:
        call.note(state="unchanged")
        return
    settings = packer.settings
    if len(found.slots) > settings.limits.pictures:
        raise InputError(
            f"the request shows {len(found.slots)} pictures; {settings.limits.pictures} are packed at a time"
        )
    chosen = [
        slot for slot in found.slots if slot.detail not in NOT_PACKED and may_be_read(slot.address, settings.media)
    ]
    if not chosen:
        call.note(state="unchanged")
        return
    table = packer.table(body.get("model"))
    made = await asyncio.gather(
        *(packer.pack(slot.address, found.question, table, budget, len(found.slots)) for slot in chosen)
    )
    number, done = 1, dict(zip(map(id, chosen), made, strict=True))
    for slot in found.slots:
        own = done.get(id(slot))
        if own is not None and own.packed is not None:
            asked = (own.text(number) if settings.text else "", "" if call.boxes == "" else ASKED)
            text = " ".join(asked).strip()
            slot.parts = protocol.made(slot.part, own.files, text)
        count = len(own.files) if own is not None and own.files else 1
        call.seen.append(SeenPicture(number, count, own.packed if own is not None else None))
        number += count
    for own in made:
        numbers.picture(own.outcome, own.full, own.spent, own.seconds)
    if call.changed:
        found.apply()
        call.body = await asyncio.to_thread(lambda: json.dumps(body, ensure_ascii=False).encode())
    call.note(
        state="packed" if call.changed else "unchanged",
        tokens=sum(own.spent for own in made),
        full=sum(own.full for own in made),
        pictures=number - 1,
    )


def may_be_read(address: str, hosts: Sequence[str]) -> bool:
    """Pictures by address go on as they are, unless their host may be asked."""
    return address[:5].lower() == "data:" or allowed_host(address, hosts) is not None


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


def answered(headers: Sequence[tuple[bytes, bytes]], more: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in headers if name.lower() not in HOP]
    return [*((name.lower(), value) for name, value in kept), *((k.encode(), v.encode()) for k, v in more.items())]


def unreachable(error: httpx.HTTPError) -> Refused:
    if isinstance(error, httpx.TimeoutException):
        return Refused(504, "the upstream did not answer in time")
    return Refused(502, f"the upstream cannot be reached ({type(error).__name__})")


async def passed_on(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Every byte as it comes."""
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        await answer.aclose()


async def answer_to(call: ProxyCall, answer: httpx.Response, protocol: Protocol | None) -> Response:
    wanted = call.boxes != "" and call.changed
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    plain = kind == "application/json" and answer.headers.get("content-encoding", "identity") == "identity"
    if wanted and protocol is not None and plain and answer.is_success:
        return await with_boxes(call, answer, protocol)
    if wanted:
        call.note(boxes="left as they are: the answer is no plain JSON")
    response = StreamingResponse(passed_on(answer), answer.status_code)
    response.raw_headers = answered(answer.headers.raw, call.headers)
    return response


async def with_boxes(call: ProxyCall, answer: httpx.Response, protocol: Protocol) -> Response:
    """A JSON answer whose boxes are in pixels of the original."""
    raw = b"".join([piece async for piece in passed_on(answer)])
    body, count = None, 0
    with suppress(ValueError, RecursionError):
        body = json.loads(raw)
    if isinstance(body, dict):
        assert not isinstance(call.boxes, str)
        for holder, key in protocol.answers(body):
            holder[key], number = translated(holder[key], call.seen, call.boxes)
            count += number
    call.note(boxes=f"{count} translated")
    made = Response(json.dumps(body, ensure_ascii=False).encode() if count else raw, answer.status_code)
    kept = [(name, value) for name, value in answer.headers.raw if name.lower() != b"content-length"]
    made.raw_headers = [*answered(kept, call.headers), (b"content-length", str(len(made.body)).encode())]
    return made


# ---- the application -------------------------------------------------------------------------------------------------


def build_proxy(settings: ProxySettings, *, host: str = web.LOOPBACK, key: str | None = None) -> web.Application:
    """The proxy behind its guard, as an ASGI application. key: that clients must send in x-arr-coc-key."""
    web.check_exposure(host, key)
    packer = Packer(settings)
    numbers = ProxyNumbers(packer)
    seconds = settings.limits.seconds
    timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
    held: dict[str, httpx.AsyncClient] = {}

    @asynccontextmanager
    async def life(application: FastAPI) -> AsyncGenerator[None]:
        direct = web.is_loopback(httpx.URL(settings.upstream).host)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
        async with httpx.AsyncClient(trust_env=not direct, limits=limits, timeout=timeout) as client:
            held["client"] = client
            yield
        packer.close()

    api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=life)

    status_routes(api, numbers.registry, lambda: ("ok", 200))

    @api.get(SAVINGS)
    async def savings() -> Response:
        return JSONResponse(numbers.to_json())

    @api.post(TOKENS)
    async def tokens(request: Request) -> Response:
        try:
            return JSONResponse(await asyncio.to_thread(count_tokens, await request.body(), packer))
        except InputError as error:
            return Refused.of(error).answer()

    @api.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"])
    async def through(request: Request, path: str) -> Response:
        try:
            return await onward(request)
        except (Refused, InputError) as error:
            refused = Refused.of(error)
            if request.url.path.endswith(MESSAGES):  # as Anthropic's clients expect it
                return JSONResponse({"type": "error", **refused.body()}, refused.status, refused.more)
            return refused.answer()

    async def onward(request: Request) -> Response:
        notes = request.scope["arr_coc"]
        body, protocol = await request.body(), protocol_of(request.url.path)
        call = await unless_gone(request, prepare(request, body, protocol, packer, numbers))
        notes.update({name.removeprefix(f"{OWN}-"): value for name, value in call.headers.items() if name != OWN})
        upstream = httpx.Request(
            request.method,
            settings.address(request.url.path, request.url.query),
            headers=forwarded(request.headers.raw),
            content=call.body if call.body or request.method in ("POST", "PUT", "PATCH") else None,
            extensions={"timeout": timeout.as_dict()},
        )
        try:
            answer = await unless_gone(request, held["client"].send(upstream, stream=True))
        except httpx.HTTPError as error:
            raise unreachable(error) from error
        try:
            return await answer_to(call, answer, protocol)
        except httpx.HTTPError as error:
            raise unreachable(error) from error

    most_open = 2 * (settings.limits.queue + settings.limits.batch)
    guard = ProxyGuard(api, host, key, settings.limits.upload, most_open)
    guard.numbers = numbers
    return guard


def count_tokens(body: bytes, packer: Packer) -> JsonObject:
    """{"model", "pictures": [{"width", "height"} or {"image_url"}]} → what each costs, and how that is known."""
    check_structure(body)
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("the request is not JSON; send model and pictures") from error
    pictures = given.get("pictures") if isinstance(given, dict) else None
    if not isinstance(pictures, list) or not pictures or not all(isinstance(one, dict) for one in pictures):
        raise InputError("pictures must be a list of {width, height} or {image_url}")
    table, limits = packer.table(given.get("model")), packer.settings.limits
    sizes = []
    for one in pictures:
        if isinstance(one.get("image_url"), str):
            data = picture_bytes(one["image_url"], limits, packer.settings.media)
            sizes.append(header_size(data, limits.pixels))
        else:
            sizes.append((whole(one.get("height"), "height", 1, 1 << 16), whole(one.get("width"), "width", 1, 1 << 16)))
    counts = [table.tokens(size) for size in sizes]
    rows = [
        {"height": height, "width": width, "tokens": count}
        for (height, width), count in zip(sizes, counts, strict=True)
    ]
    facts = {"table": table.name, "counted": table.as_told, "source": table.source}
    return {"model": given.get("model"), "pictures": rows, "tokens": sum(counts), **facts}


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
