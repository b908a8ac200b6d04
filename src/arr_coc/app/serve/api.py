"""What clients see: the routes of an OpenAI-compatible server, its refusals, its numbers for Prometheus."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ...answering.chat import LOST
from ...answering.eye import Eye
from ...answering.pages import as_document
from ...core.errors import InputError, Stopped, of_kind, shown, stopping
from ...core.values import JsonObject
from ...decide_document import LEFT_OUT, document_budget
from ...pictures.document import Document
from .. import web
from ..web import GONE, Guard, Refused, status_routes, unless_gone
from .chat import ChatRequest, read_chat
from .engine import Done, Engine, Late, ReadPrompt, ServeJob, Told

CHAT = "/v1/chat/completions"
# Seconds that open answers have once the server ends; the engine then has a sixth of it for its last batch.
GRACE = 24
Result = TypeVar("Result")


class Metrics:
    """Counters of one server; no picture and no word is in them."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        counter, histogram = partial(Counter, registry=self.registry), partial(Histogram, registry=self.registry)
        self.requests = counter("arr_coc_requests_total", "Chat completions by status.", ["status"])
        self.visual = counter("arr_coc_visual_tokens_total", "Visual tokens: spent, and of whole pictures.", ["kind"])
        self.said = counter("arr_coc_completion_tokens_total", "Tokens of answers.")
        self.seconds = histogram("arr_coc_request_seconds", "From arrival to the last byte.")
        self.batches = histogram("arr_coc_batch_size", "Requests of a batch.", buckets=(1, 2, 4, 8, 16, 32))
        self.batch_seconds = histogram("arr_coc_batch_seconds", "Seconds of a batch.")
        waiting = Gauge("arr_coc_waiting", "Requests in the queue.", registry=self.registry)
        waiting.set_function(lambda: engine.waiting)

    def request(self, path: str, status: int, seconds: float) -> None:
        if path == CHAT:
            self.requests.labels(str(status)).inc()
            self.seconds.observe(seconds)

    def batch(self, size: int, seconds: float) -> None:
        self.batches.observe(size)
        self.batch_seconds.observe(seconds)

    def seen(self, seen: ReadPrompt, notes: dict[str, object]) -> None:
        self.visual.labels("spent").inc(seen.tokens)
        self.visual.labels("full").inc(seen.full)
        notes.update(tokens=seen.tokens, full=seen.full, batch=seen.batch)

    def done(self, done: Done, notes: dict[str, object]) -> None:
        self.said.inc(done.count)
        notes["said"] = done.count


class Call:
    """One request from its arrival: it is read, then what the engine says is awaited, all until its time is over."""

    def __init__(self, request: Request, seconds: float) -> None:
        self.request, self.loop = request, asyncio.get_running_loop()
        self.told: asyncio.Queue[Told] = asyncio.Queue()
        self.deadline, self.until, self.seconds = self.loop.time() + seconds, time.perf_counter() + seconds, seconds
        self.job: ServeJob | None = None

    async def body(self) -> bytes:
        try:
            async with asyncio.timeout_at(self.deadline):
                return await self.request.body()
        except TimeoutError as error:
            raise Refused(408, f"the request did not arrive within {self.seconds:g} s") from error
        except ClientDisconnect as error:
            raise Refused(GONE, "the client has left") from error

    async def within(self, work: Callable[[], Result]) -> Result:
        """The result of work in a thread, unless the client leaves or the time is over, which stops it."""
        wanted = True

        def stoppable() -> Result:
            with stopping(lambda: not wanted or time.perf_counter() > self.until):
                return work()

        async def in_time() -> Result:
            async with asyncio.timeout_at(self.deadline):
                return await asyncio.to_thread(stoppable)

        try:
            return await unless_gone(self.request, in_time())
        except (TimeoutError, Stopped) as error:
            raise self.late() from error
        finally:
            wanted = False

    def late(self) -> Refused:
        self.leave()
        return Refused(504, f"no answer within {self.seconds:g} s; ask for fewer tokens, or later")

    async def submit(self, engine: Engine, asked: ChatRequest) -> None:
        """Raises `Refused`."""

        def tell(item: Told) -> None:
            with suppress(RuntimeError):  # the loop has ended
                self.loop.call_soon_threadsafe(self.told.put_nowait, item)

        self.job = job = ServeJob(asked, tell, self.until)
        if asked.pages_shown is not None:
            await self.within(lambda: engine.look_ahead(job))
        engine.submit(job)

    def leave(self) -> None:
        """The answer is not wanted any more."""
        if self.job is not None:
            self.job.gone = True

    async def next(self) -> ReadPrompt | str | Done:
        """`ReadPrompt`, a text, or `Done`. Raises `Refused`."""
        try:
            async with asyncio.timeout_at(self.deadline):
                item = await self.told.get()
        except TimeoutError as error:
            raise self.late() from error
        if isinstance(item, Exception):
            raise self.late() if isinstance(item, Late) else Refused.of(item)
        return item

    async def rest(self) -> AsyncIterator[str | Done]:
        """Texts and, last, `Done`."""
        while not isinstance(item := await self.next(), Done):
            if isinstance(item, str):  # a batch that broke is looked at again, row by row
                yield item
        yield item

    async def last(self) -> Done:
        return of_kind([item async for item in self.rest()][-1], Done, "the last item")


def own_fields(seen: ReadPrompt, done: Done | None = None, want: frozenset[str] = frozenset()) -> JsonObject:
    """The field `arr_coc` of an answer; before the last word, what is known by then."""
    own: dict[str, object] = {"tokens": seen.tokens, "full": seen.full, "relevance": seen.relevance}
    if done is not None:
        answer = done.answer
        own |= {"uncertainty": answer.uncertainty, "seconds": dict(answer.seconds)}
        own |= {"notes": list(answer.notes), "batch": seen.batch}
        if warnings := [note for note in answer.notes if note.startswith((LOST, LEFT_OUT))]:
            own["warnings"] = warnings
        if answer.pages:
            own |= {"pages": list(answer.pages), "of_pages": answer.of_pages}
        if "allocation" in want:
            allocations = [look.allocation.to_json() for look in answer.passes]
            own["allocation"] = allocations[0] if len(allocations) == 1 else allocations
    return own


def usage_of(seen: ReadPrompt, done: Done) -> dict[str, int]:
    counts = {"prompt_tokens": seen.prompt, "completion_tokens": done.count}
    return {**counts, "total_tokens": seen.prompt + done.count}


async def streamed(
    call: Call, asked: ChatRequest, seen: ReadPrompt, head: Mapping[str, object], finished: Callable[[Done], None]
) -> AsyncIterator[str]:
    """Server-sent events: the first says where the tokens went, the last how sure the answer is."""

    def event(choices: list[object], **more: object) -> str:
        return f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', 'choices': choices, **more})}\n\n"

    def delta(finish: str | None = None, **content: str) -> list[object]:
        return [{"index": 0, "delta": content, "finish_reason": finish}]

    try:
        yield event(delta(role="assistant", content=""), arr_coc=own_fields(seen))
        async for item in call.rest():
            if isinstance(item, str):
                yield event(delta(content=item))
                continue
            finished(item)
            yield event(delta(item.finish), arr_coc=own_fields(seen, item, asked.want))
            if asked.usage:
                yield event([], usage=usage_of(seen, item))
        yield "data: [DONE]\n\n"
    except Refused as refused:  # the status is out already
        yield f"data: {json.dumps(refused.body())}\n\n"
    finally:
        call.leave()


def count_tokens(eye: Eye, asked: ChatRequest) -> JsonObject:
    """What a request will cost, by sizes alone. tokens: visual ones at most. full: of whole pictures and pages. text:
    tokens of the words."""
    options, cell = asked.options, eye.engine.cell
    parts = [part for turn in asked.turns for part in turn.parts]
    words = sum(len(eye.engine.tokenizer.encode(part)) for part in parts if isinstance(part, str))
    each = [
        sum(-(-page.size[0] // cell) * -(-page.size[1] // cell) for page in as_document(part))
        for part in parts
        if not isinstance(part, str)
    ]
    if options.allocation is not None:
        tokens = sum(one.tokens for one in options.allocation)
    elif isinstance(options.budget, list):
        tokens = sum(map(min, each, options.budget))
    elif options.total or any(isinstance(part, Document) for part in parts):
        tokens = document_budget(options, sum(each), sum(each))[0]
    else:
        tokens = sum(map(options.tokens, each))
    return {"tokens": tokens, "full": sum(each), "text": words}


async def refused(request: Request, error: Exception) -> Response:
    return Refused.of(error).answer()


async def elsewhere(request: Request, error: Exception) -> Response:
    """What no route serves, as OpenAI's clients expect it."""
    assert isinstance(error, HTTPException)
    words = f"{request.method} {shown(request.url.path)} is not served here; see /v1/models and POST {CHAT}"
    return Refused(error.status_code, words, error.headers).answer()


def build_api(
    engine: Engine,
    *,
    host: str = web.LOOPBACK,
    key: str | None = None,
    budget: object = None,
) -> web.Application:
    """The server behind its guard, as an ASGI application; its life starts and ends the engine.

    budget: of requests that give none.
    """
    limits, name, metrics = engine.limits, engine.eye.name, Metrics(engine)
    engine.observe = metrics.batch

    @asynccontextmanager
    async def life(application: FastAPI) -> AsyncGenerator[None]:
        # One thread for each request that may be open: some may wait long for their files.
        threads = ThreadPoolExecutor(limits.queue + limits.batch, "arr-coc read")
        asyncio.get_running_loop().set_default_executor(threads)
        engine.start()
        yield
        await asyncio.to_thread(engine.close, GRACE / 6)

    handlers: Any = {Refused: refused, InputError: refused, HTTPException: elsewhere}
    api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=life, exception_handlers=handlers)
    served = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "arr-coc"}

    @api.post(CHAT)
    async def chat(request: Request) -> Response:
        notes, call = request.scope["arr_coc"], Call(request, limits.seconds)
        body = await call.body()
        engine.check_room()
        asked = await call.within(lambda: read_chat(body, name, limits, budget))
        await call.submit(engine, asked)
        head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": name}
        streaming = False
        try:
            seen = of_kind(await unless_gone(request, call.next()), ReadPrompt, "the first item")
            metrics.seen(seen, notes)
            if asked.stream:
                streaming = True
                events = streamed(call, asked, seen, head, lambda done: metrics.done(done, notes))
                return StreamingResponse(events, media_type="text/event-stream")
            done = await unless_gone(request, call.last())
        finally:
            if not streaming:
                call.leave()
        metrics.done(done, notes)
        message = {"role": "assistant", "content": done.answer.text}
        choice = {"index": 0, "message": message, "finish_reason": done.finish, "logprobs": None}
        more = {"usage": usage_of(seen, done), "arr_coc": own_fields(seen, done, asked.want)}
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice], **more})

    @api.post("/v1/tokens")
    async def tokens(request: Request) -> Response:
        """What a chat completion would cost, before it is asked for: nothing is looked at."""
        call = Call(request, limits.seconds)
        body = await call.body()
        counted = await call.within(lambda: count_tokens(engine.eye, read_chat(body, name, limits, budget)))
        return JSONResponse({"object": "tokens", "model": name, **counted})

    @api.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": [served]})

    @api.get("/v1/models/{wanted:path}")
    async def model(wanted: str) -> Response:
        if wanted == name:
            return JSONResponse(served)
        words = f"model {shown(wanted)} is not served here; this is {name!r}"
        return Refused(404, words, no_model=True).answer()

    status_routes(api, metrics.registry, lambda: ("ok", 200) if engine.is_alive() else ("the engine is dead", 503))
    return Guard(api, host, key, limits, metrics.request)
