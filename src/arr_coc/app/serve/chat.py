"""The body of a chat completion → `ChatRequest`, every field checked.

What would change the words and is not done here is refused, never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...answering.chat import ASSISTANT, SYSTEM, USER, Turn, check_turns
from ...answering.decoding import LONGEST_ANSWER
from ...answering.hints import check_hints
from ...answering.readings import check_readings
from ...attending.distance import check_scale
from ...attending.overlay import check_order
from ...attending.request import Request as Amount
from ...attending.request import check_decided, check_question
from ...core.checks import shown, whole
from ...core.errors import InputError
from ...core.stopping import check_stop
from ...core.values import Allocation, JsonObject
from ...knowing.registry import source_names
from ...pictures.document import Document, document_of
from ...pictures.load import Picture, load_picture
from ...pictures.words import EVERY_PAIR, check_number
from ..media import check_structure
from ..media import picture_bytes as picture_bytes
from .limits import Limits as Limits

MOST_STOPS, LONGEST_STOP = 4, 256
MOST_MESSAGES, MOST_PARTS = 256, 256
# A request that spends more visual tokens, or brings more words, is answered beside the others, not among them.
HEAVY_TOKENS, HEAVY_WORDS, TOKEN_PIXELS, LARGEST_SEEN = 1536, EVERY_PAIR, 1024, 1 << 22
# Of the field `arr_coc`.
OPTIONS = (
    *("budget", "keep", "total", "query", "relevance", "strategy", "order", "scale", "readings", "words"),
    *("allocation", "hints", "ocr", "want"),
)
WANTED = ("allocation",)
# Fields of the protocol that leave greedy words as they are.
HARMLESS = ("user", "seed", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")
# Fields that would change them, with the values that do not.
NEUTRAL = {
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
# Why other values are refused, where it is not that words are chosen greedily.
REASONS: Mapping[str, str] = {
    "tools": "no functions are called here, the model answers about pictures",
    "tool_choice": "no functions are called here",
    "n": "a request gets one answer",
    "logprobs": "the probabilities of single tokens are not told",
    "top_logprobs": "the probabilities of single tokens are not told",
    "response_format": "answers are plain text",
    "modalities": "answers are text",
}
# What many clients send unasked.
UNUSED_TEMPERATURE = "temperature 1 was not used: answers are greedy, as with temperature 0"
ROLES = {"system": SYSTEM, "developer": SYSTEM, "user": USER, "assistant": ASSISTANT}
KNOWN = ("model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "stop", "arr_coc")


class UnknownModel(InputError):
    """Another model than the one that is served."""


@dataclass(frozen=True)
class Address:
    """Where a picture is, until it is loaded."""

    url: str


@dataclass(frozen=True, eq=False)
class ChatRequest:
    """One request, checked. turns: the conversation, its pictures decoded. how: keywords of `Eye.prepare`. want: what
    the answer shall carry beside its numbers. notes: what the client should know of its request. heavy: it costs as
    much as many others. scope: whose request it is; what was made of a picture is used again within it only. readings:
    how often it is read, where the answer is unsure."""

    turns: tuple[Turn, ...]
    how: JsonObject = field(default_factory=dict)
    new_tokens: int = LONGEST_ANSWER
    stop: tuple[str, ...] = ()
    stream: bool = False
    usage: bool = False
    want: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    heavy: bool = False
    scope: str = ""
    readings: int = 1


def read_chat(
    body: bytes, model: str, limits: Limits, hosts: Sequence[str] = (), default: Mapping[str, object] | None = None
) -> ChatRequest:
    """Raises `InputError`. hosts: those that pictures may be fetched from. default: budget or keep, where a request
    gives neither."""
    check_structure(body)
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("the request is not JSON; send an object with model and messages") from error
    if not isinstance(given, dict):
        raise InputError("the request is not a JSON object; send one with model and messages")
    check_fields(given)
    if given.get("model") != model:
        raise UnknownModel(f"model {shown(given.get('model'))} is not served here; this is {model!r}")
    own = options_of(given.get("arr_coc"))
    turns = loaded(turns_of(given.get("messages")), limits, hosts)
    views = [part for turn in turns for part in turn.parts if not isinstance(part, str)]
    pictures = [part for part in views if isinstance(part, Picture)]
    documents = len(pictures) < len(views)
    if documents:
        check_documents(own, views, limits)
    amount = {name: own[name] for name in ("budget", "keep") if own.get(name) is not None}
    default = None if own.get("allocation") is not None else default
    how = {**(amount or default or {}), **how_of(own, pictures, limits.max_budget)}
    how |= {"pages_shown": limits.pictures} if documents else {}
    readings = readings_of(own, len(pictures))
    return ChatRequest(
        turns,
        how,
        new_tokens_of(given, limits.new_tokens),
        stops_of(given.get("stop")),
        flag(given.get("stream"), "stream"),
        flag(mapping(given.get("stream_options"), "stream_options").get("include_usage"), "include_usage"),
        frozenset(wants_of(own.get("want"))),
        (UNUSED_TEMPERATURE,) if given.get("temperature") == 1 else (),
        is_heavy(how, pictures) or documents or readings > 1,
        readings=readings,
    )


def is_heavy(how: JsonObject, pictures: Sequence[Picture]) -> bool:
    """Does this cost as much as many others? By what can be told before any work."""
    words = how.get("words") or ()
    several = words if isinstance(words, list) and len(pictures) > 1 else [words]
    if max((len(words_in(one)) for one in several), default=0) > HEAVY_WORDS:
        return True
    if how.get("allocation") is not None:
        return sum(one.tokens for one in how["allocation"]) > HEAVY_TOKENS
    amount = {name: how[name] for name in ("budget", "keep") if name in how}
    try:
        request = Amount.of(**amount, ceiling=how.get("ceiling"))
    except InputError:  # which is told when it is answered
        return False
    full = [max(1, min(one.height * one.width, LARGEST_SEEN) // TOKEN_PIXELS) for one in pictures]
    budgets = request.budget if isinstance(request.budget, Sequence) else [request.tokens(one) for one in full]
    return sum(map(min, budgets, full)) > HEAVY_TOKENS


def words_in(given: object) -> Sequence[object]:
    """The list inside one picture's words, as a client sends them."""
    found = given.get("words") if isinstance(given, Mapping) else given
    return found if isinstance(found, list) else ()


def check_fields(given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if name in KNOWN or name in HARMLESS or value is None:
            continue
        if name not in NEUTRAL:
            raise InputError(f"the field {shown(name)} is unknown here; leave it out")
        # JSON's true is no 1, nor false a 0.
        if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in NEUTRAL[name]):
            neutral = " or ".join(map(json.dumps, NEUTRAL[name]))
            why = REASONS.get(name, "answers are greedy")
            raise InputError(f"{name}={json.dumps(value)[:60]} is not served: {why}; leave it out, or send {neutral}")


def turns_of(messages: object) -> list[Turn]:
    """The conversation, with the addresses of its pictures."""
    if not isinstance(messages, list) or not messages:
        raise InputError("messages must be a list; send at least one message of the role user")
    if len(messages) > MOST_MESSAGES:
        raise InputError(f"the conversation has {len(messages)} messages; send the last {MOST_MESSAGES}")
    turns = []
    for message in messages:
        given = {name: value for name, value in mapping(message, "a message").items() if value is not None}
        role = ROLES.get(str(given.get("role")))
        if role is None:
            raise InputError(f"a message of the role {shown(given.get('role'))} is not read; use {', '.join(ROLES)}")
        if unknown := sorted(given.keys() - {"role", "content", "name"}):
            raise InputError(f"the field {shown(unknown[0])} of a message is not read; leave it out")
        turns.append(Turn(role, parts_of(given.get("content"))))
    check_turns(turns)
    return turns


def parts_of(content: object) -> tuple[str | Address, ...]:
    """Texts and pictures in their order; texts that stand together are one. Pictures that no text follows come first,
    as models are taught."""
    if isinstance(content, str):
        return (content,)
    if not isinstance(content, list):
        raise InputError("content must be a text, or a list of image_url and text")
    if len(content) > MOST_PARTS:
        raise InputError(f"a message has {len(content)} parts; send at most {MOST_PARTS}")
    parts: list[str | Address] = []
    for part in content:
        kind = mapping(part, "a part of content").get("type")
        if kind == "text":
            text = text_of(part.get("text"), "text")
            parts[-1:] = [f"{parts[-1]}\n{text}"] if parts and isinstance(parts[-1], str) else [*parts[-1:], text]
        elif kind == "image_url":
            parts.append(Address(text_of(mapping(part.get("image_url"), "image_url").get("url"), "image_url.url")))
        elif kind == "file":
            parts.append(Address(file_data(mapping(part.get("file"), "file"))))
        else:
            raise InputError(f"content of the type {shown(kind)} is not read; send image_url, file and text")
    if parts and isinstance(parts[-1], Address):
        parts.sort(key=lambda part: isinstance(part, str))
    return tuple(parts)


def loaded(turns: Sequence[Turn], limits: Limits, hosts: Sequence[str]) -> tuple[Turn, ...]:
    """With its pictures decoded; what they have in pixels together is bounded, and so is the memory of a queue."""
    count = sum(isinstance(part, Address) for turn in turns for part in turn.parts)
    if count > limits.pictures:
        raise InputError(f"the request shows {count} pictures; {limits.pictures} are answered about at a time")
    left = limits.pixels

    def load(part: str | Address) -> str | Picture | Document:
        nonlocal left
        if isinstance(part, str):
            return part
        check_stop()
        if left < 1:
            raise InputError(f"the pictures have more than {limits.pixels} pixels together; make them smaller")
        data = picture_bytes(part.url, limits, hosts)
        document = document_of(data) if b"%PDF-" in data[:1024] else None
        if document is not None:
            return document
        picture = load_picture(data, max_pixels=left)
        left -= picture.height * picture.width
        return picture

    return tuple(Turn(turn.role, tuple(load(part) for part in turn.parts)) for turn in turns)


def options_of(given: object) -> Mapping[str, object]:
    own = mapping(given, "arr_coc")
    unknown = sorted(own.keys() - set(OPTIONS))
    if unknown:
        raise InputError(f"arr_coc.{unknown[0][:60]} is unknown; choose from {', '.join(OPTIONS)}")
    return own


def how_of(own: Mapping[str, object], pictures: Sequence[Picture], most: int | None) -> dict[str, object]:
    """Keywords of `Eye.prepare`. Names only: a path would let a client read this machine's files. most: tokens that a
    picture may cost."""
    how: dict[str, object] = {"ceiling": most}
    how |= {name: read(own[name], f"arr_coc.{name}") for name, read in READ.items() if own.get(name) is not None}
    if own.get("query") is not None:
        how["look_for"] = text_of(own["query"], "arr_coc.query")
        check_question(how["look_for"])
    if own.get("relevance") is not None:
        name = text_of(own["relevance"], "arr_coc.relevance")
        if name not in source_names():
            raise InputError(f"arr_coc.relevance {name[:60]!r} is unknown; use {', '.join(source_names())}")
        how["relevance"] = name
    if own.get("words") is not None:
        words = for_each(own["words"], pictures, "words")
        if not all(one is None or isinstance(one, list | dict) for one in words):
            raise InputError("arr_coc.words must be a list of {text, box}; of several pictures, one such list for each")
        for one in words:
            check_number(len(words_in(one)), "the request")
        how["words"] = words[0] if len(pictures) == 1 else words
    if own.get("hints") is not None:
        check_hints(own["hints"])
        how["hints"] = own["hints"]
    if own.get("allocation") is not None:
        given = for_each(own["allocation"], pictures, "allocation")
        how["allocation"] = [allocation_of(*one, most) for one in zip(given, pictures, strict=True)]
    return how


def readings_of(own: Mapping[str, object], pictures: int) -> int:
    """How often the only picture may be read."""
    readings = check_readings(1 if own.get("readings") is None else own["readings"])
    if readings > 1:
        check_decided(own.get("allocation"), readings=readings)
        if pictures != 1:
            raise InputError(f"arr_coc.readings is of one picture, and this request shows {pictures}; leave it out")
    return readings


def for_each(given: object, pictures: Sequence[Picture], name: str) -> list[object]:
    """One value for the only picture, or a list with one for each."""
    if len(pictures) == 1:
        return [given]
    if not isinstance(given, list) or len(given) != len(pictures):
        raise InputError(f"arr_coc.{name} must be a list with one entry for each of {len(pictures)} pictures")
    return given


def allocation_of(given: object, picture: Picture, most: int | None) -> Allocation:
    allocation = Allocation.from_json(mapping(given, "arr_coc.allocation"))
    if (allocation.height, allocation.width) != picture.size:
        raise InputError(
            f"arr_coc.allocation is of a picture of {allocation.width}×{allocation.height}, "
            f"this one has {picture.width}×{picture.height}"
        )
    full = allocation.full if most is None else min(most, allocation.full)
    if allocation.tokens > full:
        raise InputError(f"arr_coc.allocation spends {allocation.tokens} tokens; at most {full} are answered here")
    return allocation


def wants_of(given: object) -> list[str]:
    wanted = [] if given is None else given
    if not isinstance(wanted, list) or any(one not in WANTED for one in wanted):
        raise InputError(f"arr_coc.want must be a list, of {', '.join(WANTED)}")
    return wanted


def new_tokens_of(given: Mapping[str, object], most: int) -> int:
    wanted = given.get("max_completion_tokens")
    wanted = given.get("max_tokens") if wanted is None else wanted
    if wanted is None:
        return min(LONGEST_ANSWER, most)
    wanted = whole(wanted, "max_tokens", 1)
    if wanted > most:
        raise InputError(f"max_tokens {wanted} is above this server's {most}; ask for fewer")
    return wanted


def stops_of(given: object) -> tuple[str, ...]:
    stops = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(stops, list) or len(stops) > MOST_STOPS or not all(isinstance(s, str) and s for s in stops):
        raise InputError(f"stop must be a text or up to {MOST_STOPS} of them, none empty")
    if max(map(len, stops), default=0) > LONGEST_STOP:
        raise InputError(f"a stop may have {LONGEST_STOP} characters; give a shorter one")
    return tuple(stops)


def mapping(value: object, name: str) -> JsonObject:
    if value is not None and not isinstance(value, dict):
        raise InputError(f"{name} must be an object, got {type(value).__name__}")
    return value or {}


def text_of(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} must be a text, got {type(value).__name__}")
    return value


def flag(value: object, name: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise InputError(f"{name} must be true or false")
    return bool(value)


# ---- documents in a request ------------------------------------------------------------------------------------------


def check_documents(own: Mapping[str, object], views: Sequence[object], limits: Limits) -> None:
    """What a request may say of documents, and how many pages they may have."""
    for name in ("words", "allocation", "readings"):
        if own.get(name) is not None:
            raise InputError(f"arr_coc.{name} is of pictures, and this request shows documents; leave it out")
    pages = sum(len(part) for part in views if isinstance(part, Document))
    if pages > limits.pages:
        raise InputError(f"the documents have {pages} pages; {limits.pages} are answered about at a time")


def file_data(given: Mapping[str, object]) -> str:
    """The data of a file part, as OpenAI's clients send it: file_data, a data: URL or plain base64."""
    if given.get("file_data") is None:
        raise InputError("a file must be sent with its file_data, as a data: URL; no files are kept here")
    data = given["file_data"]
    if not isinstance(data, str):
        raise InputError(f"file.file_data must be a text, got {type(data).__name__}")
    return data if data[:5].lower() == "data:" else f"data:application/pdf;base64,{data}"


# Options that are read by themselves, whatever is shown.
READ: Mapping[str, Callable[[object, str], object]] = {
    **{"total": flag, "strategy": text_of, "ocr": flag},
    "order": lambda given, name: check_order(text_of(given, name)),
    "scale": lambda given, name: check_scale(given),
}
