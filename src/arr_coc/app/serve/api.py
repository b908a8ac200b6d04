"""What clients see: the routes of an OpenAI-compatible server, its refusals, its numbers for Prometheus."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import signal
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import ClientDisconnect

from ...allocation.request import Request as Amount
from ...core.errors import InputError
from ...eye.eye import Eye
from .. import web
from .chat import Asked, Limits, UnknownModel, read_chat
from .engine import Closed, Done, Engine, Full, Job, Seen

log = logging.getLogger("arr_coc.serve")
PORT = 8000
CHAT = "/v1/chat/completions"
FEEDBACK = "/v1/feedback"
# Seconds that open answers have once the server is told to end.
GRACE = 30
GONE = 499


class Refused(Exception):
    """status: of HTTP. more: further headers."""

    def __init__(self, status: int, words: str, more: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        # Words of the request may be among them, and hold half a character, which cannot be sent.
        self.status, self.words, self.more = status, words.encode(errors="replace").decode(), dict(more or {})

    def body(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = "rate_limit_error" if self.status == 429 else kind
        return {"error": {"message": self.words, "type": kind, "param": None, "code": self.status}}

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
            return cls(404 if isinstance(error, UnknownModel) else 400, str(error))
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
    """Around the application: names of the host, the key, the size of a request; one line of log for each."""

    def __init__(
        self, application: web.Application, host: str, key: str | None, limits: Limits, metrics: Metrics
    ) -> None:
        self.application, self.key, self.limits, self.metrics = application, key, limits, metrics
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
            await send(message)

        refusal = self._refusal(scope)
        self.open += 1
        try:
            if refusal is None:
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

    def _refusal(self, scope: web.Scope) -> Refused | None:
        headers = {key.lower(): value for key, value in scope["headers"]}
        if self.hosts is not None and web.called_name(headers) not in self.hosts:
            return Refused(403, "this server answers on its own machine only")
        if self.key is not None and scope["path"] != "/health":
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer" or not secrets.compare_digest(given.strip(), self.key.encode()):
                return Refused(401, "a key is needed: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"})
        if scope["method"] == "POST":
            # Before a byte of a picture is taken in: what waits at all is bounded, and with it the memory.
            if self.open >= 2 * (self.limits.queue + self.limits.batch):
                return Refused.of(Full(1))
            told = headers.get(b"content-length", b"")
            if not told.isdigit():
                return Refused(411, "a request must say how long it is")
            if int(told) > self.limits.upload:
                return Refused(413, f"a request may have {self.limits.upload / 2**20:g} MB; make the picture smaller")
        return None


class Call:
    """One request while it is answered: what the engine tells, awaited, until its time is over."""

    def __init__(self, asked: Asked, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.told: asyncio.Queue[Any] = asyncio.Queue()
        self.deadline, self.seconds = loop.time() + seconds, seconds

        def tell(item: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it all who listened
                loop.call_soon_threadsafe(self.told.put_nowait, item)

        self.job = Job(asked, tell)

    async def next(self) -> Any:
        """`Seen`, a text, or `Done`. Raises `Refused`."""
        try:
            async with asyncio.timeout_at(self.deadline):
                item = await self.told.get()
        except TimeoutError as error:
            self.job.gone = True
            raise Refused(504, f"no answer within {self.seconds:g} s; ask for fewer tokens, or later") from error
        if isinstance(item, Exception):
            raise Refused.of(item)
        return item

    async def seen(self) -> Seen:
        return await self.next()

    async def rest(self) -> AsyncIterator[str | Done]:
        """Texts and, last, `Done`."""
        while True:
            item = await self.next()
            if not isinstance(item, Seen):  # a batch that broke is looked at again, row by row
                yield item
            if isinstance(item, Done):
                return

    async def whole(self) -> tuple[Seen, Done]:
        seen = await self.seen()
        done = [item async for item in self.rest()][-1]
        assert isinstance(done, Done)
        return seen, done


def answer_of(refused: Refused) -> JSONResponse:
    return JSONResponse(refused.body(), refused.status, refused.more)


async def unless_gone(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
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


def told_of(seen: Seen, done: Done | None = None, want: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The field `arr_coc` of an answer; before the last word, what is known by then."""
    told: dict[str, Any] = {"tokens": seen.tokens, "full": seen.full, "relevance": seen.relevance}
    if done is not None:
        told |= {"uncertainty": done.answer.uncertainty, "seconds": dict(done.answer.seconds)}
        told |= {"notes": list(done.answer.notes), "batch": seen.batch}
        if "allocation" in want:
            allocations = [look.allocation.to_json() for look in done.answer.passes]
            told["allocation"] = allocations[0] if len(allocations) == 1 else allocations
    return told


def usage_of(seen: Seen, done: Done) -> dict[str, int]:
    counts = {"prompt_tokens": seen.prompt, "completion_tokens": done.count}
    return {**counts, "total_tokens": seen.prompt + done.count}


async def streamed(
    call: Call, seen: Seen, head: Mapping[str, Any], finished: Callable[[Done], None]
) -> AsyncIterator[str]:
    """Server-sent events: the first tells where the tokens went, the last how sure the answer is."""

    def event(choices: list[Any], **more: Any) -> str:
        return f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', 'choices': choices, **more})}\n\n"

    def delta(finish: str | None = None, **content: str) -> list[Any]:
        return [{"index": 0, "delta": content, "finish_reason": finish}]

    asked = call.job.asked
    try:
        yield event(delta(role="assistant", content=""), arr_coc=told_of(seen))
        async for item in call.rest():
            if isinstance(item, str):
                yield event(delta(content=item))
                continue
            finished(item)
            yield event(delta(item.finish), arr_coc=told_of(seen, item, asked.want))
            if asked.usage:
                yield event([], usage=usage_of(seen, item))
        yield "data: [DONE]\n\n"
    except Refused as refused:  # the status is out already
        yield f"data: {json.dumps(refused.body())}\n\n"
    finally:
        call.job.gone = True


def build_api(
    engine: Engine,
    *,
    host: str = web.LOOPBACK,
    key: str | None = None,
    media: Sequence[str] = (),
    default: Mapping[str, Any] | None = None,
) -> web.Application:
    """The server behind its guard, as an ASGI application; its life starts and ends the engine.

    media: hosts that pictures may be fetched from. default: budget or keep of requests that give neither.
    """
    check_exposure(host, key)
    limits, name, metrics = engine.limits, engine.eye.name, Metrics(engine)
    engine.observe = metrics.batch

    @asynccontextmanager
    async def life(application: FastAPI) -> AsyncGenerator[None]:
        engine.start()
        yield
        await asyncio.to_thread(engine.close, GRACE)

    api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=life)
    since = int(time.time())

    @api.post(CHAT)
    async def chat(request: Request) -> Response:
        try:
            return await completion(request)
        except (Refused, Full, Closed, InputError) as error:
            return answer_of(Refused.of(error))

    async def completion(request: Request) -> Response:
        notes = request.scope["arr_coc"]
        try:
            async with asyncio.timeout(limits.seconds):
                body = await request.body()
        except TimeoutError as error:
            raise Refused(408, f"the request did not arrive within {limits.seconds:g} s") from error
        except ClientDisconnect as error:
            raise Refused(GONE, "the client has left") from error
        engine.check_room()
        # Reading a large picture would hold up everybody else's words.
        asked = await asyncio.to_thread(read_chat, body, name, limits, media, default)
        call = Call(asked, limits.seconds)
        engine.submit(call.job)
        head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": name}

        def finished(done: Done) -> None:
            metrics.said.inc(done.count)
            notes["said"] = done.count

        def looked(seen: Seen) -> None:
            metrics.visual.labels("spent").inc(seen.tokens)
            metrics.visual.labels("full").inc(seen.full)
            notes.update(tokens=seen.tokens, full=seen.full, batch=seen.batch)

        streaming = False
        try:
            if asked.stream:
                seen = await unless_gone(request, call.seen())
                looked(seen)
                streaming = True
                return StreamingResponse(streamed(call, seen, head, finished), media_type="text/event-stream")
            seen, done = await unless_gone(request, call.whole())
        finally:
            call.job.gone = not streaming
        looked(seen)
        finished(done)
        message = {"role": "assistant", "content": done.answer.text}
        choice = {"index": 0, "message": message, "finish_reason": done.finish, "logprobs": None}
        told = {"usage": usage_of(seen, done), "arr_coc": told_of(seen, done, asked.want)}
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice], **told})

    @api.post(FEEDBACK)
    async def judge(request: Request) -> Response:
        """{"id", "judged", "boxes", "answer"}: what a client says of an answer that was recorded."""
        try:
            if engine.eye.record is None:
                raise Refused(404, "nothing is recorded here; start the server with --record FILE.jsonl")
            told = json.loads(await request.body())
            if not isinstance(told, dict) or not isinstance(told.get("id"), str):
                raise Refused(400, "give the id of a record, and judged: right, wrong or better")
            boxes, answer = told.get("boxes") or (), str(told.get("answer") or "")
            await asyncio.to_thread(engine.eye.record.judge, told.get("judged"), told["id"], boxes=boxes, answer=answer)
        except (Refused, InputError) as error:
            return answer_of(Refused.of(error))
        except (ValueError, TypeError) as error:
            return answer_of(Refused(400, f"this is no JSON of a judgement ({error})"))
        return JSONResponse({"id": told["id"], "judged": told["judged"]})

    @api.get("/v1/models")
    async def models() -> Response:
        served = {"id": name, "object": "model", "created": since, "owned_by": "arr-coc"}
        return JSONResponse({"object": "list", "data": [served]})

    @api.get("/health")
    async def health() -> Response:
        alive = engine.is_alive()
        return JSONResponse({"status": "ok" if alive else "the engine is dead"}, 200 if alive else 503)

    @api.get("/metrics")
    async def numbers() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return Guard(api, host, key, limits, metrics)


def check_exposure(host: str, key: str | None) -> None:
    web.check_exposure(host, key, "key", "in the variable ARR_COC_API_KEY or with --api-key")


def serve(
    model: str = "mini",
    *,
    host: str = web.LOOPBACK,
    port: int = PORT,
    key: str | None = None,
    device: str = "cpu",
    limits: Limits | None = None,
    media: Sequence[str] = (),
    default: Mapping[str, Any] | None = None,
    ready: Callable[[str], None] = lambda address: None,
    **options: Any,
) -> None:
    """Serve until interrupted; then open answers are finished. ready: gets the address. options: of the `Eye`, such as
    relevance and record."""
    check_exposure(host, key)
    Amount.of(**(default or {}))
    engine = Engine(Eye.from_pretrained(model, device=device, **options), limits)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):  # by now everything has been answered
        web.run(build_api(engine, host=host, key=key, media=media, default=default), host, port, ready, GRACE)
