"""What clients see: the routes of an OpenAI-compatible server, its refusals, its numbers for Prometheus."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ...answering.chat import LOST
from ...answering.eye import Eye
from ...attending.document_look import LEFT_OUT
from ...attending.request import Request as Amount
from ...core.checks import of_kind, shown
from ...core.errors import InputError
from ...core.stopping import Stopped, stopping
from ...core.values import JsonObject
from .. import web
from ..door import GONE, Refused, answer_of, unless_gone
from .chat import ChatRequest, UnknownModel, read_chat
from .counting import count_tokens
from .engine import Closed, Done, Engine, Full, Late, ReadPrompt, ServeJob, Told
from .guard import CHAT, TOKENS, Guard, Metrics
from .limits import Limits, check_exposure

PORT = 8000
FEEDBACK = "/v1/feedback"
# Seconds that open answers have once the server is told to end.
GRACE = 30
Result = TypeVar("Result")


class Call:
    """One request from its arrival: it is read, then what the engine tells is awaited, all until its time is over."""

    def __init__(self, seconds: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.told: asyncio.Queue[Told] = asyncio.Queue()
        self.deadline, self.until, self.seconds = self.loop.time() + seconds, time.perf_counter() + seconds, seconds
        self.reading = True
        self.job: ServeJob | None = None

    async def body(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout_at(self.deadline):
                return await request.body()
        except TimeoutError as error:
            raise Refused(408, f"the request did not arrive within {self.seconds:g} s") from error
        except ClientDisconnect as error:
            raise Refused(GONE, "the client has left") from error

    async def read(self, read: Callable[[], ChatRequest]) -> ChatRequest:
        """What a request asks, read in a thread: a large picture would hold up everybody else's words."""

        def work() -> ChatRequest:
            with stopping(lambda: not self.reading or time.perf_counter() > self.until):
                return read()

        try:
            return await self.within(asyncio.to_thread(work))
        finally:
            self.reading = False

    async def within(self, work: Coroutine[object, None, Result]) -> Result:
        try:
            async with asyncio.timeout_at(self.deadline):
                return await work
        except (TimeoutError, Stopped) as error:
            raise self.late() from error

    def late(self) -> Refused:
        self.leave()
        return Refused(504, f"no answer within {self.seconds:g} s; ask for fewer tokens, or later")

    def submit(self, engine: Engine, asked: ChatRequest) -> None:
        """Raises `Full` or `Closed`."""

        def tell(item: Told) -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it all who listened
                self.loop.call_soon_threadsafe(self.told.put_nowait, item)

        self.job = ServeJob(asked, tell, self.until)
        engine.submit(self.job)

    def leave(self) -> None:
        """Nobody waits any more."""
        if self.job is not None:
            self.job.gone = True

    async def next(self) -> ReadPrompt | str | Done:
        """`ReadPrompt`, a text, or `Done`. Raises `Refused`."""
        item = await self.within(self.told.get())
        if isinstance(item, Late):
            raise self.late()
        if isinstance(item, Exception):
            raise Refused.of(item)
        return item

    async def seen(self) -> ReadPrompt:
        return of_kind(await self.next(), ReadPrompt, "what is told first")

    async def rest(self) -> AsyncIterator[str | Done]:
        """Texts and, last, `Done`."""
        while True:
            item = await self.next()
            if not isinstance(item, ReadPrompt):  # a batch that broke is looked at again, row by row
                yield item
            if isinstance(item, Done):
                return

    async def whole(self) -> tuple[ReadPrompt, Done]:
        seen = await self.seen()
        done = [item async for item in self.rest()][-1]
        assert isinstance(done, Done)
        return seen, done


def told_of(seen: ReadPrompt, done: Done | None = None, want: frozenset[str] = frozenset()) -> JsonObject:
    """The field `arr_coc` of an answer; before the last word, what is known by then."""
    told: dict[str, object] = {"tokens": seen.tokens, "full": seen.full, "relevance": seen.relevance}
    if done is not None:
        told |= {"uncertainty": done.answer.uncertainty, "seconds": dict(done.answer.seconds)}
        told |= {"notes": list(done.answer.notes), "batch": seen.batch}
        if warnings := [note for note in done.answer.notes if note.startswith((LOST, LEFT_OUT))]:
            told["warnings"] = warnings
        if done.answer.pages:
            told |= {"pages": list(done.answer.pages), "of_pages": done.answer.of_pages}
        if "allocation" in want:
            allocations = [look.allocation.to_json() for look in done.answer.passes]
            told["allocation"] = allocations[0] if len(allocations) == 1 else allocations
    return told


def usage_of(seen: ReadPrompt, done: Done) -> dict[str, int]:
    counts = {"prompt_tokens": seen.prompt, "completion_tokens": done.count}
    return {**counts, "total_tokens": seen.prompt + done.count}


async def streamed(
    call: Call, asked: ChatRequest, seen: ReadPrompt, head: Mapping[str, object], finished: Callable[[Done], None]
) -> AsyncIterator[str]:
    """Server-sent events: the first tells where the tokens went, the last how sure the answer is."""

    def event(choices: list[object], **more: object) -> str:
        return f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', 'choices': choices, **more})}\n\n"

    def delta(finish: str | None = None, **content: str) -> list[object]:
        return [{"index": 0, "delta": content, "finish_reason": finish}]

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
        call.leave()


def scope_of(request: Request) -> str:
    """Whose request it is, by the key that it brings: nobody is served from what another's pictures left behind, not
    even sooner. The key itself is not kept."""
    return hashlib.blake2b(request.headers.get("authorization", "").encode(), digest_size=16).hexdigest()


async def judged(engine: Engine, request: Request) -> Response:
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


async def elsewhere(request: Request, error: Exception) -> Response:
    """What no route serves, told as OpenAI's clients expect it."""
    assert isinstance(error, HTTPException)
    asked_for = f"{request.method} {shown(request.url.path)}"
    words = f"{asked_for} is not served here; see /v1/models and POST {CHAT}"
    return answer_of(Refused(error.status_code, words, error.headers))


def build_api(
    engine: Engine,
    *,
    host: str = web.LOOPBACK,
    key: str | None = None,
    media: Sequence[str] = (),
    default: Mapping[str, object] | None = None,
    origins: Sequence[str] = (),
) -> web.Application:
    """The server behind its guard, as an ASGI application; its life starts and ends the engine.

    media: hosts that pictures may be fetched from. default: budget or keep of requests that give neither. origins:
    sites whose pages may ask, such as "https://example.org".
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

    @api.post(CHAT)
    async def chat(request: Request) -> Response:
        try:
            return await completion(request)
        except (Refused, Full, Closed, InputError) as error:
            return answer_of(Refused.of(error))

    async def completion(request: Request) -> Response:
        notes = request.scope["arr_coc"]
        call = Call(limits.seconds)
        body = await call.body(request)
        engine.check_room()
        reading = call.read(lambda: read_chat(body, name, limits, media, default))
        asked = replace(await unless_gone(request, reading), scope=scope_of(request))
        call.submit(engine, asked)
        head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": name}

        def finished(done: Done) -> None:
            metrics.said.inc(done.count)
            notes["said"] = done.count

        def looked(seen: ReadPrompt) -> None:
            metrics.visual.labels("spent").inc(seen.tokens)
            metrics.visual.labels("full").inc(seen.full)
            notes.update(tokens=seen.tokens, full=seen.full, batch=seen.batch)

        streaming = False
        try:
            if asked.stream:
                seen = await unless_gone(request, call.seen())
                looked(seen)
                streaming = True
                return StreamingResponse(streamed(call, asked, seen, head, finished), media_type="text/event-stream")
            seen, done = await unless_gone(request, call.whole())
        finally:
            if not streaming:
                call.leave()
        looked(seen)
        finished(done)
        message = {"role": "assistant", "content": done.answer.text}
        choice = {"index": 0, "message": message, "finish_reason": done.finish, "logprobs": None}
        told = {"usage": usage_of(seen, done), "arr_coc": told_of(seen, done, asked.want)}
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice], **told})

    @api.post(TOKENS)
    async def tokens(request: Request) -> Response:
        """What a chat completion would cost, told before it is asked for: nothing is looked at."""
        try:
            call = Call(limits.seconds)
            body = await call.body(request)
            asked = await unless_gone(request, call.read(lambda: read_chat(body, name, limits, media, default)))
            told = await unless_gone(request, call.within(asyncio.to_thread(count_tokens, engine.eye, asked)))
        except (Refused, Full, Closed, InputError) as error:
            return answer_of(Refused.of(error))
        return JSONResponse({"object": "tokens", "model": name, **told})

    @api.post(FEEDBACK)
    async def judge(request: Request) -> Response:
        return await judged(engine, request)

    add_status(api, engine, metrics)
    return Guard(api, host, key, limits, metrics, web.Origins(origins))


def add_status(api: FastAPI, engine: Engine, metrics: Metrics) -> None:
    """What is served, whether it is alive, its numbers, and the answer to any other address."""
    name = engine.eye.name
    served = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "arr-coc"}

    @api.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": [served]})

    @api.get("/v1/models/{wanted:path}")
    async def model(wanted: str) -> Response:
        if wanted == name:
            return JSONResponse(served)
        return answer_of(Refused.of(UnknownModel(f"model {shown(wanted)} is not served here; this is {name!r}")))

    api.add_exception_handler(HTTPException, elsewhere)

    @api.get("/health")
    async def health() -> Response:
        alive = engine.is_alive()
        return JSONResponse({"status": "ok" if alive else "the engine is dead"}, 200 if alive else 503)

    @api.get("/metrics")
    async def numbers() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)


def serve(
    model: str = "mini",
    *,
    port: int = PORT,
    device: str = "cpu",
    limits: Limits | None = None,
    ready: Callable[[str], None] = lambda address: None,
    eye: Mapping[str, object] | None = None,
    **how: Any,
) -> None:
    """Serve until interrupted; then open answers are finished.

    Args:
        model: As for `Eye.from_pretrained`.
        port: 0 takes any that is free.
        device: Of the model.
        limits: Of requests.
        ready: Gets the address.
        eye: More for the `Eye`, such as relevance and record.
        how: Arguments of `build_api`: host, key, media, default, origins.
    """
    check_exposure(how.get("host", web.LOOPBACK), how.get("key"))
    Amount.of(**(how.get("default") or {}))
    engine = Engine(Eye.from_pretrained(model, device=device, **(eye or {})), limits)
    with suppress(KeyboardInterrupt):  # by now everything has been answered
        web.run(build_api(engine, **how), how.get("host", web.LOOPBACK), port, ready, GRACE)
