"""Parse the body of a chat completion into a `ChatRequest`, with every field checked.

Fields that would change the answer and are not supported are refused, never ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints, ValidationError

from ...answering.chat import ASSISTANT, SYSTEM, USER, Turn, check_turns
from ...answering.decoding import LONGEST_ANSWER
from ...core.errors import InputError, check_stop, shown
from ...core.values import JsonObject
from ...options import Options, check_question
from ...pictures.document import Document, document_of
from ...pictures.load import Picture, load_picture
from ..proxy.protocols import FORMS
from ..web import Limits, Refused, check_structure, picture_bytes

MOST_MESSAGES, MOST_PARTS = 256, 256
# Pixels above which looking at a picture takes a second or more.
LARGE = 1 << 23
PDF = "data:application/pdf;base64,"
ROLES = {"system": SYSTEM, "developer": SYSTEM, "user": USER, "assistant": ASSISTANT}
# Fields that would change the answer, with the values that do not; many clients send temperature 1 by default.
NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "temperature": (0, 1),
    "top_p": (1,),
    "n": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "modalities": (["text"],),
}
# Fields of the protocol that do not change a greedily decoded answer.
HARMLESS = ("user", "seed", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")


# ---- bodies ----------------------------------------------------------------------------------------------------------


class Body(BaseModel):
    """An object of a request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Message(Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[JsonObject], Field(max_length=MOST_PARTS)]
    name: str | None = None


class StreamOptions(BaseModel):
    include_usage: StrictBool | None = None


Stop = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Count = Annotated[int, Field(ge=1, strict=True)]


class ChatBody(Body):
    """A chat completion, without the fields of `NEUTRAL` and `HARMLESS`."""

    model: str
    messages: list[Message] = Field(min_length=1, max_length=MOST_MESSAGES)
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None = None
    arr_coc: JsonObject = Field(default_factory=dict)


def read_body(data: bytes) -> ChatBody:
    """Parse and validate the JSON of a request; raises `InputError` with one line."""
    check_structure(data)
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError("the request is not JSON; send an object with model and messages") from error
    if not isinstance(given, dict):
        raise InputError("the request is not a JSON object; send one with model and messages")
    given = {name: value for name, value in given.items() if value is not None and name not in HARMLESS}
    for name in [name for name in given if name in NEUTRAL]:
        value = given.pop(name)
        # In Python true == 1 and false == 0; in JSON they differ.
        if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in NEUTRAL[name]):
            usable = " or ".join(map(json.dumps, NEUTRAL[name]))
            raise InputError(f"{name}={json.dumps(value)[:60]} is not supported: leave it out, or send {usable}")
    try:
        return ChatBody.model_validate(given)
    except ValidationError as error:
        raise InputError(first_error(error)) from error


def first_error(error: ValidationError) -> str:
    """Describe in one line what is wrong with a body: where, and why."""
    errors = error.errors(include_url=False, include_context=False)
    # A field that may be a string or a list has two errors; the one inside the list says more.
    found = next((one for one in errors if one["type"] != "string_type"), errors[0])
    place = ".".join(
        str(one)[:60] for one in found["loc"] if not re.match(r"str$|list\[|function-|constrained", str(one))
    )
    if found["type"] == "extra_forbidden":
        return f"{place} is unknown here; leave it out"
    return f"{place}: {found['msg'][:200]}, got {shown(found['input'])}"


# ---- requests --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ChatRequest:
    """One request, checked. turns: the conversation, its pictures decoded. look_for: what to spend tokens on, if not
    the question. pages_shown: the maximum for documents. want: extra fields of the answer, such as "allocation"."""

    turns: tuple[Turn, ...]
    options: Options = field(default_factory=Options)
    look_for: str | None = None
    pages_shown: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    usage: bool = False
    want: frozenset[str] = frozenset()

    @property
    def is_large(self) -> bool:
        """Return whether it has documents or large pictures, which take long to look at."""
        views = [part for turn in self.turns for part in turn.parts if not isinstance(part, str)]
        return any(not isinstance(view, Picture) or view.height * view.width > LARGE for view in views)


def read_chat(data: bytes, model: str, limits: Limits, budget: object = None) -> ChatRequest:
    """Read a request; raises `InputError`, or `Refused` for another model. budget: the default of requests."""
    body = read_body(data)
    if body.model != model:
        raise Refused(404, f"model {shown(body.model)} is not served here; this is {model!r}", no_model=True)
    own = {name: value for name, value in body.arr_coc.items() if value is not None}
    query, want = own.pop("query", None), own.pop("want", [])
    if not isinstance(want, list) or not set(map(str, want)) <= {"allocation"}:
        raise InputError(f'arr_coc.want must be a list such as ["allocation"], got {shown(want)}')
    turns = loaded(body.messages, limits)
    views = [part for turn in turns for part in turn.parts if not isinstance(part, str)]
    pictures = [part for part in views if isinstance(part, Picture)]
    documents = len(pictures) < len(views)
    for name in ("words", "allocation"):
        if documents and name in own:
            raise InputError(f"arr_coc.{name} applies to pictures, and this request has documents; leave it out")
    most = body.max_completion_tokens or body.max_tokens or min(LONGEST_ANSWER, limits.new_tokens)
    if most > limits.new_tokens:
        raise InputError(f"max_tokens {most} is above this server's limit of {limits.new_tokens}; ask for fewer")
    options = replace(options_of(own, pictures, limits.max_budget), max_new_tokens=most)
    if options.allocation is None:
        options = options.default(budget=budget)
    return ChatRequest(
        turns,
        options,
        None if query is None else check_question(query),
        limits.pictures if documents else None,
        tuple([body.stop] if isinstance(body.stop, str) else body.stop or ()),
        bool(body.stream),
        bool(body.stream_options and body.stream_options.include_usage),
        frozenset(want),
    )


class Shown(NamedTuple):
    """A picture or document as a data: URL."""

    address: str


def parts_of(content: str | Sequence[JsonObject]) -> tuple[str | Shown, ...]:
    """Return texts and pictures in order, with adjacent texts joined. If a picture comes last, all pictures are moved
    to the front, as in the training of models."""
    parts: list[str | Shown] = []
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        kind, text = part.get("type"), part.get("text")
        address = FORMS[kind].read(part) if kind in ("image_url", "file") else ""
        if address:
            parts.append(Shown(address if kind == "image_url" or address[:5].lower() == "data:" else f"{PDF}{address}"))
        elif kind != "text" or not isinstance(text, str):
            raise InputError(f"a part of a message must have text, image_url.url or file.file_data, got {shown(part)}")
        elif parts and isinstance(parts[-1], str):
            parts[-1] = f"{parts[-1]}\n{text}"
        else:
            parts.append(text)
    if parts and isinstance(parts[-1], Shown):
        parts.sort(key=lambda part: isinstance(part, str))
    return tuple(parts)


def loaded(messages: Sequence[Message], limits: Limits) -> tuple[Turn, ...]:
    """Decode the pictures of a conversation, within the limits of pictures, pixels and pages."""
    turns = [Turn(ROLES[message.role], parts_of(message.content)) for message in messages]
    check_turns(turns)
    count = sum(isinstance(part, Shown) for turn in turns for part in turn.parts)
    if count > limits.pictures:
        raise InputError(f"the request has {count} pictures; send at most {limits.pictures} at a time")
    left, pages = limits.pixels, 0

    def load(part: str | Shown) -> str | Picture | Document:
        nonlocal left, pages
        if isinstance(part, str):
            return part
        check_stop()
        if left < 1:
            raise InputError(f"the pictures have over {limits.pixels} pixels together; make them smaller")
        data = picture_bytes(part.address)
        document = document_of(data) if b"%PDF-" in data[:1024] else None
        if document is None:
            picture = load_picture(data, max_pixels=left)
            left -= picture.height * picture.width
            return picture
        pages += len(document)
        if pages > limits.pages:
            raise InputError(f"the documents have {pages} pages; send at most {limits.pages} at a time")
        return document

    return tuple(Turn(turn.role, tuple(load(part) for part in turn.parts)) for turn in turns)


def options_of(own: JsonObject, pictures: Sequence[Picture], most: int | None) -> Options:
    """Build the options of a request. most: maximum number of tokens for a picture."""
    options = replace(Options.for_client(own), ceiling=most)
    words = (options.words or ()) if len(pictures) > 1 else ()
    if not all(one is None or isinstance(one, list | dict) for one in words):  # never the name of a file
        raise InputError("arr_coc.words must be a list of {text, box}; for several pictures, one such list for each")
    if options.allocation is not None:
        laid = options.allocation if isinstance(options.allocation, list) else [options.allocation]
        if len(laid) != len(pictures):
            raise InputError(f"arr_coc.allocation must be a list with one entry for each of {len(pictures)} pictures")
        for one in laid:
            dearest = one.full if most is None else min(most, one.full)
            if one.tokens > dearest:
                raise InputError(f"arr_coc.allocation spends {one.tokens} tokens; at most {dearest} are allowed here")
        options = replace(options, allocation=laid)
    return options
