"""The HTTP side of `arr-coc serve`: OpenAI-compatible routes, error responses, metrics for Prometheus."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import Gauge, Histogram
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ...answering.chat import LOST
from ...core.errors import InputError, Stopped, shown
from ...core.values import JsonObject
from ...decide_document import LEFT_OUT
from .. import web
from ..web import GONE, Guard, Numbers, Refused, stoppable, too_late, unless_gone
from .chat import ChatRequest, read_chat
from .engine import Done, Engine, Event, ServeJob

CHAT = "/v1/chat/completions"
# Seconds to finish open answers when the server shuts down; then the engine has a sixth of it for its last batch.
GRACE = 24
Result = TypeVar("Result")


class Metrics(Numbers):
    """Counters of one server."""

    def __init__(self, engine: Engine) -> None:
        super().__init__("arr_coc")
        self.visual = self.counter(
            "arr_coc_visual_tokens_total", "Visual tokens: spent, and of whole pictures.", ["kind"]
        )
        self.said = self.counter("arr_coc_completion_tokens_total", "Tokens of answers.")
        self.batches = Histogram("arr_coc_batch_size", "Requests of a batch.", registry=self.registry)
        waiting = Gauge("arr_coc_waiting", "Requests in the queue.", registry=self.registry)
        waiting.set_function(lambda: engine.waiting)

    def done(self, done: Done, notes: dict[str, object]) -> None:
        answer = done.answer
        self.visual.labels("spent").inc(answer.tokens)
        self.visual.labels("full").inc(answer.full)
        self.said.inc(done.count)
        notes.update(tokens=answer.tokens, full=answer.full, batch=done.batch, said=done.count)


class Call:
    """One request from its arrival: read it, then await the engine's events, all within `seconds`."""

    def __init__(self, request: Request, seconds: float) -> None:
        self.request, self.seconds, self.until = request, seconds, time.monotonic() + seconds
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.job: ServeJob | None = None

    @property
    def left(self) -> float:
        """Return the remaining seconds."""
        return self.until - time.monotonic()

    async def body(self) -> bytes:
        try:
            async with asyncio.timeout(self.left):
                return await self.request.body()
        except TimeoutError as error:
            raise Refused(408, f"the request did not arrive within {self.seconds:g} s") from error
        except ClientDisconnect as error:
            raise Refused(GONE, "the client has left") from error

    async def within(self, work: Callable[[], Result]) -> Result:
        """Run work in a thread and return its result; stop it if the client leaves or the time is over."""
        try:
            return await unless_gone(self.request, stoppable(work, self.left))
        except (TimeoutError, Stopped) as error:
            raise too_late(self.seconds) from error

    async def submit(self, engine: Engine, asked: ChatRequest) -> None:
        """Pass the request to the engine; raises `Refused`."""
        loop = asyncio.get_running_loop()

        def tell(item: Event) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self.events.put_nowait, item)

        self.job = job = ServeJob(asked, tell, self.until)
        if asked.is_large:
            await self.within(lambda: engine.look_ahead(job))
        engine.submit(job)

    def leave(self) -> None:
        """Mark the answer as no longer wanted."""
        if self.job is not None:
            self.job.gone = True

    async def next(self) -> str | Done:
        """Await a piece of the answer, or `Done` at its end; raises `Refused`."""
        try:
            async with asyncio.timeout(self.left):
                item = await self.events.get()
        except TimeoutError as error:
            raise too_late(self.seconds) from error
        if isinstance(item, Exception):
            raise Refused.of(item)
        return item

    async def last(self) -> Done:
        while isinstance(item := await self.next(), str):
            pass
        return item


def own_fields(done: Done, want: frozenset[str]) -> JsonObject:
    """Build the field `arr_coc` of an answer."""
    answer = done.answer
    relevance = next((note for note in answer.notes if note.startswith("relevance")), "the caller's allocation")
    own: dict[str, object] = {"tokens": answer.tokens, "full": answer.full, "relevance": relevance}
    own |= {"uncertainty": answer.uncertainty, "seconds": dict(answer.seconds)}
    own |= {"notes": list(answer.notes), "batch": done.batch}
    if warnings := [note for note in answer.notes if note.startswith((LOST, LEFT_OUT))]:
        own["warnings"] = warnings
    if answer.pages:
        own |= {"pages": list(answer.pages), "of_pages": answer.of_pages}
    if "allocation" in want:
        allocations = [look.allocation.to_json() for look in answer.passes]
        own["allocation"] = allocations[0] if len(allocations) == 1 else allocations
    return own


def usage_of(done: Done) -> dict[str, int]:
    counts = {"prompt_tokens": done.prompt, "completion_tokens": done.count}
    return {**counts, "total_tokens": done.prompt + done.count}


async def streamed(
    call: Call, first: str | Done, asked: ChatRequest, head: Mapping[str, object], finished: Callable[[Done], None]
) -> AsyncIterator[str]:
    """Yield server-sent events: the answer piece by piece, and at its end the field `arr_coc`."""

    def event(choices: list[object], **more: object) -> str:
        return f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', 'choices': choices, **more})}\n\n"

    def delta(finish: str | None = None, **content: str) -> list[object]:
        return [{"index": 0, "delta": content, "finish_reason": finish}]

    try:
        yield event(delta(role="assistant", content=""))
        item = first
        while isinstance(item, str):
            yield event(delta(content=item))
            item = await call.next()
        finished(item)
        yield event(delta(item.finish), arr_coc=own_fields(item, asked.want))
        if asked.usage:
            yield event([], usage=usage_of(item))
        yield "data: [DONE]\n\n"
    except Refused as refused:  # the status is already sent
        yield f"data: {json.dumps(refused.body())}\n\n"
    finally:
        call.leave()


async def refused(request: Request, error: Exception) -> Response:
    return Refused.of(error).answer()


async def elsewhere(request: Request, error: Exception) -> Response:
    """Answer requests that match no route in the form that OpenAI's clients expect."""
    assert isinstance(error, HTTPException)
    words = f"{request.method} {shown(request.url.path)} is not served here; see /v1/models and POST {CHAT}"
    return Refused(error.status_code, words, error.headers).answer()


def build_api(
    engine: Engine, *, host: str = web.LOOPBACK, key: str | None = None, budget: object = None
) -> web.Application:
    """Build the server behind its guard, as an ASGI application that starts and stops the engine.

    budget: the default of requests that have none.
    """
    limits, name, metrics = engine.limits, engine.eye.engine.name, Metrics(engine)
    engine.observe = metrics.batches.observe

    @asynccontextmanager
    async def life(application: FastAPI) -> AsyncGenerator[None]:
        # One thread for each request that may be open, because some wait long for their files.
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
        try:
            if asked.stream:
                first = await unless_gone(request, call.next())
                events = streamed(call, first, asked, head, lambda done: metrics.done(done, notes))
                return StreamingResponse(events, media_type="text/event-stream")
            done = await unless_gone(request, call.last())
        except Refused:
            call.leave()
            raise
        metrics.done(done, notes)
        message = {"role": "assistant", "content": done.answer.text}
        choice = {"index": 0, "message": message, "finish_reason": done.finish, "logprobs": None}
        more = {"usage": usage_of(done), "arr_coc": own_fields(done, asked.want)}
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice], **more})

    @api.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": [served]})

    @api.get("/v1/models/{wanted:path}")
    async def model(wanted: str) -> Response:
        if wanted == name:
            return JSONResponse(served)
        words = f"model {shown(wanted)} is not served here; this is {name!r}"
        return Refused(404, words, no_model=True).answer()

    metrics.add_routes(api, lambda: ("ok", 200) if engine.is_alive() else ("the engine has stopped", 503))
    return Guard(api, host, key, limits, metrics.request)
